"""Converts SQL text in Spark's dialect to a predicate.

sqlglot parses the text, and this module converts its tree. An error quotes the part of the text that is not supported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp, parse_one
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError

from bloomparquet.errors import PlanError, quoted, shorten
from bloomparquet.query import predicate as p
from bloomparquet.query.like import Like, escape_pattern, split_pattern
from bloomparquet.query.sql.functions import convert_function, is_plain_in
from bloomparquet.query.sql.opaque import is_column, sql_of, to_opaque
from bloomparquet.query.sql.operands import MISSING, Operands, RefusedError

_Builder = Callable[[p.Column, Any], p.Predicate]

_COMPARISONS: dict[type[Any], tuple[_Builder, _Builder]] = {  # as written, and with the sides exchanged
    exp.EQ: (p.Eq, p.Eq),
    exp.NEQ: (p.NotEq, p.NotEq),
    exp.NullSafeEQ: (p.EqNullSafe, p.EqNullSafe),
    exp.LT: (p.Lt, p.Gt),
    exp.LTE: (p.LtEq, p.GtEq),
    exp.GT: (p.Gt, p.Lt),
    exp.GTE: (p.GtEq, p.LtEq),
}


class BloomparquetWhere(Spark):
    """Spark's dialect, with ``''`` inside a string as one quote, as in Spark 4.0."""

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES = ["'", '"', "\\"]  # noqa: RUF012


def convert_sql(text: str, partly: bool) -> p.Predicate:
    """The predicate of a condition; see :func:`bloomparquet.query.sql.parse.parse_where`."""
    try:
        return _Converter(text, partly).convert(_parse_tree(text))
    except RecursionError:
        raise PlanError(f"where is nested too deeply: {shorten(text)}") from None


def _parse_tree(text: str) -> Any:
    """sqlglot's tree of a condition."""
    try:
        return parse_one(text, dialect=BloomparquetWhere, into=exp.Condition)
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


class _Converter(Operands):
    """Converts sqlglot's tree of one text to a predicate. `partly`: see :func:`convert_sql`."""

    def __init__(self, text: str, partly: bool) -> None:
        super().__init__(text)
        self.partly = partly

    def convert(self, node: Any) -> p.Predicate:
        try:
            return self.convert_supported(node)
        except RefusedError as error:
            refusal, why = str(error), error.why
        if node.find(exp.Placeholder, getattr(exp, "Block", exp.Placeholder)):  # no condition, to any engine
            raise PlanError(refusal)
        if isinstance(node, exp.Between) and not node.args.get("symmetric"):
            bounds = ((exp.GTE, node.args["low"]), (exp.LTE, node.args["high"]))
            halves = [self.convert(build(this=node.this.copy(), expression=bound.copy())) for build, bound in bounds]
            if not all(isinstance(half, p.Opaque) for half in halves):
                return p.And(*halves)
        refusal += self.offer(node)
        if not self.partly:
            raise PlanError(refusal)
        return to_opaque(node, refusal, why)

    def offer(self, node: Any) -> str:
        """What to write instead of the present time, text without quotes, or the day of a timestamp, for an error."""
        is_now = node.find(exp.CurrentTimestamp, exp.CurrentDate, exp.Localtimestamp) is not None
        if is_now or any(call.name.lower() == "now" for call in node.find_all(exp.Anonymous)):
            return ". Write the time itself: TIMESTAMP '2026-01-31 12:00:00', or DATE '2026-01-31'"
        if isinstance(node, exp.In) and (named := next(filter(is_column, node.expressions), None)):
            return f". Write text in quotes: '{sql_of(named)}'"
        if isinstance(node, exp.Binary) and all(is_column(side) for side in (node.this, node.expression)):
            return f". If {sql_of(node.expression)} is text, write it in quotes: '{sql_of(node.expression)}'"
        day: Any = node.this if isinstance(node, exp.Binary | exp.In | exp.Between) else None
        is_date = isinstance(day, exp.Cast) and day.to.this.value == "DATE"
        is_truncated = isinstance(day, exp.TimestampTrunc) and day.text("unit") == "DAY"
        if not (is_date or is_truncated or isinstance(day, exp.TsOrDsToDate)) or not is_column(day.this):
            return ""
        column = sql_of(day.this)
        return f". Write a range of {column}: {column} >= '2026-01-31' AND {column} < '2026-02-01' is one day"

    def convert_supported(self, node: Any) -> p.Predicate:
        if isinstance(node, exp.Paren):
            return self.convert(node.this)
        if isinstance(node, (exp.And, exp.Or)):
            return self.convert_junction(node)
        if isinstance(node, exp.Not):
            return _negate(self.convert(node.this))
        if isinstance(node, exp.Boolean):
            return p.Always(node.this)
        if isinstance(node, exp.Null):
            return p.Always(None)
        if (
            node.find(exp.Func, exp.Bracket)
            and (predicate := convert_function(node, self, self.convert_supported)) is not None
        ):
            return predicate
        if isinstance(node, exp.NullSafeNEQ):
            return p.Not(self.convert_comparison(node, p.EqNullSafe, p.EqNullSafe))
        if type(node) in _COMPARISONS:
            return self.convert_comparison(node, *_COMPARISONS[type(node)])
        if is_plain_in(node):
            return p.In(self.column(node.this, node), [self.literal(item, node) for item in node.expressions])
        if isinstance(node, exp.Between) and not node.args.get("symmetric"):
            column = self.column(node.this, node)
            low, high = (self.literal(node.args[bound], node) for bound in ("low", "high"))
            return p.And(p.GtEq(column, low), p.LtEq(column, high))
        if isinstance(node, exp.Is):
            return self.convert_is(node)
        if isinstance(node, exp.Like):
            return self.convert_like(node)
        if isinstance(node, exp.StartsWith):
            return p.StartsWith(self.column(node.this, node), self.literal(node.expression, node))
        if isinstance(node, (exp.EndsWith, exp.Contains)):
            text = self.literal(node.expression, node)
            if isinstance(text, str):
                pattern = "%" + escape_pattern(text) + "%" * isinstance(node, exp.Contains)
                return Like(self.column(node.this, node), pattern)
        if is_column(node):
            return p.Eq(self.column(node, node), True)
        raise self.refuse(node)

    def convert_junction(self, node: Any) -> p.Predicate:
        # A chain of 10,000 ORs is a left-deep tree, too deep for recursion.
        kind, right = type(node), []
        while type(node) is kind:
            right.append(node.expression)
            node = node.this
        children = [self.convert(child) for child in (node, *reversed(right))]
        return p.And(*children) if kind is exp.And else p.Or(*children)

    def convert_comparison(self, node: Any, build: _Builder, build_exchanged: _Builder) -> p.Predicate:
        left, right = self.find_literal(node.this), self.find_literal(node.expression)
        if left is MISSING:
            return build(self.column(node.this, node), self.literal(node.expression, node))
        if right is MISSING:
            return build_exchanged(self.column(node.expression, node), left)
        if '"' in self.text and left != right and str in (type(left), type(right)):
            raise self.refuse_quotes(node)  # FALSE would hide that a column was meant
        if build is not p.Eq or not {type(left), type(right)} <= {int, str} or type(left) is not type(right):
            raise self.refuse(node)
        return p.Always(left == right)  # programs that build SQL begin with 1 = 1

    def convert_is(self, node: Any) -> p.Predicate:
        column, value = self.column(node.this, node), node.expression
        if isinstance(value, exp.Null):
            return p.IsNull(column)
        if isinstance(value, exp.Boolean):
            return p.EqNullSafe(column, value.this)
        raise self.refuse(node)

    def convert_like(self, node: Any) -> p.Predicate:
        column, pattern = self.column(node.this, node), self.literal(node.expression, node)
        if pattern is None:
            like: p.Predicate = p.Eq(column, None)
        elif isinstance(pattern, str):
            plain, wildcards = split_pattern(pattern)
            if wildcards.strip("%"):
                like = Like(column, pattern)
            else:
                like = p.StartsWith(column, plain) if wildcards else p.Eq(column, plain)
        else:
            raise self.refuse(node)
        return p.Not(like) if node.args.get("negate") else like


def _negate(predicate: p.Predicate) -> p.Predicate:
    if isinstance(predicate, p.In):
        return p.NotIn(predicate.column, predicate.values)
    return p.IsNotNull(predicate.column) if isinstance(predicate, p.IsNull) else p.Not(predicate)
