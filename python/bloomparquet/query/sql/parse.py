"""Parses `where` to a predicate, above all SQL text in Spark's dialect.

sqlglot parses the text, and this module converts its tree. An error quotes the part of the text that is not supported.
sqlglot is imported only when there is text to parse: it is large, and Spark's workers never need it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

from bloomparquet.errors import PlanError, quoted, shorten
from bloomparquet.query.casts import cast_literal, require_decimal
from bloomparquet.query.expressions import is_expression
from bloomparquet.query.like import Like, escape_pattern, split_pattern
from bloomparquet.query.predicate import (
    Always,
    And,
    Column,
    Eq,
    EqNullSafe,
    Gt,
    GtEq,
    In,
    IsNotNull,
    IsNull,
    Lt,
    LtEq,
    Not,
    NotEq,
    NotIn,
    Opaque,
    Or,
    Predicate,
    StartsWith,
)
from bloomparquet.query.sql.case_mapping import convert_case_mapping
from bloomparquet.query.sql.elements import convert_elements
from bloomparquet.query.sql.opaque import is_column, sql_of, to_opaque
from bloomparquet.query.sql.variants import convert_variants
from bloomparquet.query.tuples import parse_tuples
from bloomparquet.query.values import Value, describe
from bloomparquet.query.why_not import WhyNot

_UNSUPPORTED = (
    "it is not supported; expected a column compared with a literal by =, <=>, <>, <, <=, >, >=, BETWEEN, IN, LIKE or "
    "IS NULL. To read rows, leave it out, and filter the result"
)
_MISSING = object()
_HEXADECIMAL = re.compile(r"[0-9A-Fa-f]*")

_Builder = Callable[[Column, Any], Predicate]


def parse_where(where: Any, *, partly: bool = False) -> Any:
    """The predicate that `where` describes. None if `where` is None. An expression of pyarrow is
    returned unchanged: :func:`bloomparquet.query.expressions.bind_expression` needs the columns of the files.

    With `partly`, a condition of SQL text that is not supported is :class:`Opaque`, instead of an error.

    `where` is SQL text in Spark's dialect; a list of tuples ``(column, operator, value)``, combined by AND; a list of
    such lists, combined by OR (pyarrow's disjunctive normal form); or a predicate. Raises PlanError, which quotes the
    unsupported part.
    """
    if where is None or isinstance(where, Predicate) or is_expression(where):
        return where
    if isinstance(where, str):
        return _parse_sql(where, partly)
    if isinstance(where, (list, tuple)):
        return parse_tuples(where)
    if type(where).__module__.startswith("polars."):
        raise PlanError(
            f"where is {shorten(str(where))}, an expression of polars; expected SQL text for the plan, and the "
            "expression for polars: pl.scan_pyarrow_dataset(bp.dataset(path)).filter(expression)"
        )
    raise PlanError(
        f"where is {describe(where)}; expected SQL text, a list of (column, operator, value), a predicate, or "
        "an expression of pyarrow"
    )


@lru_cache(maxsize=1)
def _dialect() -> Any:
    from sqlglot.dialects.spark import Spark

    class BloomparquetWhere(Spark):
        """Spark's dialect, with ``''`` inside a string as one quote, as in Spark 4.0."""

        class Tokenizer(Spark.Tokenizer):
            STRING_ESCAPES = ["'", '"', "\\"]  # noqa: RUF012

    return BloomparquetWhere


def _parse_sql(text: str, partly: bool) -> Predicate:
    if not text.strip():
        raise PlanError("where is blank; to read every row, leave it out")
    try:
        return _Converter(text, partly).convert(_parse_tree(text))
    except RecursionError:
        raise PlanError(f"where is nested too deeply: {shorten(text)}") from None


def _parse_tree(text: str) -> Any:
    """sqlglot's tree of a condition."""
    from sqlglot import exp, parse_one
    from sqlglot.errors import ParseError, SqlglotError

    try:
        return parse_one(text, dialect=_dialect(), into=exp.Condition)
    except ParseError as error:
        raise PlanError(f"cannot parse where {_position(error.errors)}: {shorten(text)}") from None
    except SqlglotError as error:
        raise PlanError(f"cannot parse where ({error}): {shorten(text)}") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:  # over .2.BD, for example
        raise PlanError(f"cannot parse where: {shorten(text)}") from error


def _position(errors: Sequence[dict[str, Any]]) -> str:
    first = errors[0] if errors else {}
    line, column, token = first.get("line"), first.get("col"), str(first.get("highlight") or "")
    if line is None or column is None:
        return "to its end"
    position = f"at line {line}, column {max(column - len(token) + 1, 1)}, near {quoted(token)}"
    if token.upper() in ("SELECT", "WHERE"):
        return f"{position} (write only the condition, without SELECT or WHERE)"
    return position + (" (something is missing after it)" if "missing" in str(first.get("description")) else "")


class _RefusedError(PlanError):
    """A condition is not supported, but the rest of the text may be. `why`: the reason for explanations, if known."""

    def __init__(self, message: str, why: WhyNot | None = None) -> None:
        super().__init__(message)
        self.why = why


_CONVERTERS = convert_elements, convert_case_mapping, convert_variants
"""The converters of conditions on functions of columns and on elements of lists and maps."""


class _Converter:
    """Converts sqlglot's tree of one text to a predicate. `partly`: see :func:`parse_where`.

    Methods take a `node` of the tree. Their errors quote that node, or `whole`, the condition that it is part of.
    """

    def __init__(self, text: str, partly: bool) -> None:
        from sqlglot import exp

        self.text, self.partly = text, partly
        self.exp: Any = exp
        self.comparisons: dict[type[Any], tuple[_Builder, _Builder]] = {  # as written, and with the sides exchanged
            exp.EQ: (Eq, Eq),
            exp.NEQ: (NotEq, NotEq),
            exp.NullSafeEQ: (EqNullSafe, EqNullSafe),
            exp.LT: (Lt, Gt),
            exp.LTE: (LtEq, GtEq),
            exp.GT: (Gt, Lt),
            exp.GTE: (GtEq, LtEq),
        }

    def convert(self, node: Any) -> Predicate:
        exp = self.exp
        try:
            return self.convert_supported(node)
        except _RefusedError as error:
            refusal, why = str(error), error.why
        if node.find(exp.Placeholder, getattr(exp, "Block", exp.Placeholder)):  # no condition, to any engine
            raise PlanError(refusal)
        if isinstance(node, exp.Between) and not node.args.get("symmetric"):
            bounds = ((exp.GTE, node.args["low"]), (exp.LTE, node.args["high"]))
            halves = [self.convert(build(this=node.this.copy(), expression=bound.copy())) for build, bound in bounds]
            if not all(isinstance(half, Opaque) for half in halves):
                return And(*halves)
        refusal += self.offer(node)
        if not self.partly:
            raise PlanError(refusal)
        return to_opaque(node, exp, refusal, why)

    def offer(self, node: Any) -> str:
        """What to write instead of the present time, text without quotes, or the day of a timestamp, for an error."""
        exp = self.exp
        is_now = node.find(exp.CurrentTimestamp, exp.CurrentDate, exp.Localtimestamp) is not None
        if is_now or any(call.name.lower() == "now" for call in node.find_all(exp.Anonymous)):
            return ". Write the time itself: TIMESTAMP '2026-01-31 12:00:00', or DATE '2026-01-31'"
        if isinstance(node, exp.In) and (
            named := next((item for item in node.expressions if is_column(item, exp)), None)
        ):
            return f". Write text in quotes: '{sql_of(named)}'"
        if isinstance(node, exp.Binary) and all(is_column(side, exp) for side in (node.this, node.expression)):
            return f". If {sql_of(node.expression)} is text, write it in quotes: '{sql_of(node.expression)}'"
        day: Any = node.this if isinstance(node, exp.Binary | exp.In | exp.Between) else None
        is_date = isinstance(day, exp.Cast) and day.to.this.value == "DATE"
        is_truncated = isinstance(day, exp.TimestampTrunc) and day.unit.name == "DAY"
        if not (is_date or is_truncated or isinstance(day, exp.TsOrDsToDate)) or not is_column(day.this, exp):
            return ""
        column = sql_of(day.this)
        return f". Write a range of {column}: {column} >= '2026-01-31' AND {column} < '2026-02-01' is one day"

    def convert_supported(self, node: Any) -> Predicate:
        exp = self.exp
        if isinstance(node, exp.Paren):
            return self.convert(node.this)
        if isinstance(node, (exp.And, exp.Or)):
            return self.convert_junction(node)
        if isinstance(node, exp.Not):
            return _negate(self.convert(node.this))
        if isinstance(node, exp.Boolean):
            return Always(node.this)
        if isinstance(node, exp.Null):
            return Always(None)
        for convert_function in _CONVERTERS if node.find(exp.Func, exp.Bracket) else ():
            predicate = convert_function(node, self)
            if predicate is not None:
                return predicate
        if isinstance(node, exp.NullSafeNEQ):
            return Not(self.convert_comparison(node, EqNullSafe, EqNullSafe))
        if type(node) in self.comparisons:
            return self.convert_comparison(node, *self.comparisons[type(node)])
        if isinstance(node, exp.In) and not any(node.args.get(key) for key in ("query", "unnest", "field")):
            return In(self.column(node.this, node), [self.literal(item, node) for item in node.expressions])
        if isinstance(node, exp.Between) and not node.args.get("symmetric"):
            column = self.column(node.this, node)
            return And(
                GtEq(column, self.literal(node.args["low"], node)), LtEq(column, self.literal(node.args["high"], node))
            )
        if isinstance(node, exp.Is):
            return self.convert_is(node)
        if isinstance(node, exp.Like):
            return self.convert_like(node)
        if isinstance(node, exp.StartsWith):
            return StartsWith(self.column(node.this, node), self.literal(node.expression, node))
        if isinstance(node, (exp.EndsWith, exp.Contains)):
            text = self.literal(node.expression, node)
            if isinstance(text, str):
                pattern = "%" + escape_pattern(text) + "%" * isinstance(node, exp.Contains)
                return Like(self.column(node.this, node), pattern)
        if is_column(node, exp):
            return Eq(self.column(node, node), True)
        raise self.refuse(node)

    def convert_junction(self, node: Any) -> Predicate:
        # A chain of 10,000 ORs is a left-deep tree, too deep for recursion.
        kind, right = type(node), []
        while type(node) is kind:
            right.append(node.expression)
            node = node.this
        children = [self.convert(child) for child in (node, *reversed(right))]
        return And(*children) if kind is self.exp.And else Or(*children)

    def convert_comparison(self, node: Any, build: _Builder, build_exchanged: _Builder) -> Predicate:
        left, right = self.find_literal(node.this), self.find_literal(node.expression)
        if left is _MISSING:
            return build(self.column(node.this, node), self.literal(node.expression, node))
        if right is _MISSING:
            return build_exchanged(self.column(node.expression, node), left)
        if '"' in self.text and left != right and str in (type(left), type(right)):
            raise self.refuse_quotes(node)  # FALSE would hide that a column was meant
        if build is not Eq or not {type(left), type(right)} <= {int, str} or type(left) is not type(right):
            raise self.refuse(node)
        return Always(left == right)  # programs that build SQL begin with 1 = 1

    def convert_is(self, node: Any) -> Predicate:
        column, value = self.column(node.this, node), node.expression
        if isinstance(value, self.exp.Null):
            return IsNull(column)
        if isinstance(value, self.exp.Boolean):
            return EqNullSafe(column, value.this)
        raise self.refuse(node)

    def convert_like(self, node: Any) -> Predicate:
        column, pattern = self.column(node.this, node), self.literal(node.expression, node)
        if pattern is None:
            like: Predicate = Eq(column, None)
        elif isinstance(pattern, str):
            plain, wildcards = split_pattern(pattern)
            if wildcards.strip("%"):
                like = Like(column, pattern)
            else:
                like = StartsWith(column, plain) if wildcards else Eq(column, plain)
        else:
            raise self.refuse(node)
        return Not(like) if node.args.get("negate") else like

    def column(self, node: Any, whole: Any) -> Column:
        exp = self.exp
        if isinstance(node, exp.Paren):
            return self.column(node.this, whole)
        parts = node.parts if is_column(node, exp) else []
        if not parts or not all(isinstance(part, exp.Identifier) for part in parts):
            is_text = isinstance(node, exp.Literal) and node.is_string and '"' in self.text
            raise self.refuse_quotes(whole) if is_text else self.refuse(whole)
        return tuple(part.name for part in parts)

    def literal(self, node: Any, whole: Any) -> Value:
        value = self.find_literal(node)
        if value is _MISSING:
            raise self.refuse(whole)
        return value  # type: ignore[no-any-return]

    def find_literal(self, node: Any) -> Any:
        """The value of `node` if it is a literal, else _MISSING."""
        exp = self.exp
        if isinstance(node, exp.Literal):
            return node.this if node.is_string else self.number(node)
        if isinstance(node, exp.Paren):
            return self.find_literal(node.this)
        if isinstance(node, exp.Boolean):
            return node.this
        if isinstance(node, exp.Null):
            return None
        if isinstance(node, exp.Neg):
            value = (
                self.cast(node.this, negated=True) if isinstance(node.this, exp.Cast) else self.find_literal(node.this)
            )
            if isinstance(value, Decimal):
                return value.copy_negate()  # unary minus would round to the context's precision
            return -value if type(value) in (int, float) else _MISSING
        if isinstance(node, exp.HexString):
            digits = node.this
            if not _HEXADECIMAL.fullmatch(digits):
                raise self.refuse(node, "it is not hexadecimal")
            return bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits)
        if isinstance(node, exp.RawString):
            return node.this
        if isinstance(node, exp.Concat):
            parts = [self.find_literal(part) for part in node.expressions]
            return "".join(parts) if all(isinstance(part, str) for part in parts) else _MISSING
        if isinstance(node, exp.Cast):
            return self.cast(node)
        return _MISSING

    def number(self, node: Any) -> int | float | Decimal:
        text = node.this
        try:
            if text.isdecimal():
                return int(text)
            return float(text) if "e" in text.lower() else Decimal(text)
        except (ValueError, InvalidOperation):
            raise self.refuse(node, "it is not a number") from None

    def cast(self, node: Any, *, negated: bool = False) -> Any:
        """The value of a cast. sqlglot parses ``1.5D`` and ``DATE '2024-05-17'`` as casts, too."""
        value, kind = self.find_literal(node.this), node.to.this.value
        if kind == "DECIMAL":
            require_decimal(sql_of(node), [parameter.name for parameter in node.to.expressions])
        if node.to.args.get("collate"):
            # Spark refuses most such comparisons, and finds unequal bytes equal in the others.
            raise self.refuse(node, "it has a collation")
        if value is _MISSING or value is None:
            return value
        try:
            parameters = [int(parameter.name) for parameter in node.to.expressions]
            return cast_literal(value, kind, parameters, negated=negated)
        except (ValueError, ArithmeticError, PlanError):
            raise self.refuse(node, f"{quoted(value)} is not exactly representable as {kind}") from None

    def refuse(self, node: Any, reason: str = _UNSUPPORTED, why: WhyNot | None = None) -> PlanError:
        return _RefusedError(f"cannot use {quoted(sql_of(node))} in where: {reason}", why)

    def refuse_quotes(self, node: Any) -> PlanError:
        """The error for a column in double quotes."""
        why = WhyNot.DOUBLE_QUOTES
        return self.refuse(node, f"{why.sentence}; {why.remedy}", why)


def _negate(predicate: Predicate) -> Predicate:
    if isinstance(predicate, In):
        return NotIn(predicate.column, predicate.values)
    return IsNotNull(predicate.column) if isinstance(predicate, IsNull) else Not(predicate)
