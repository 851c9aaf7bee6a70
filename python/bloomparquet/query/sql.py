"""Parses the option `where` to a predicate: SQL text in Spark's dialect, or pyarrow's lists of tuples.

sqlglot parses the text. This module converts the supported part of sqlglot's tree; the error for any other part quotes
it. sqlglot is imported only when there is text to parse: it is large, and Spark's workers never need it.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

import numpy as np

from bloomparquet.errors import PlanError, did_you_mean, quoted, shorten
from bloomparquet.query.expressions import is_expression
from bloomparquet.query.like import Like, escape_pattern, split_pattern
from bloomparquet.query.literals import EPOCH, coerce
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
    Leaf,
    Lt,
    LtEq,
    Not,
    NotEq,
    NotIn,
    Or,
    Predicate,
    StartsWith,
)
from bloomparquet.query.sql_case_mapping import SUPPORTED as SUPPORTED_CASE_MAPPING
from bloomparquet.query.sql_case_mapping import convert_case_mapping
from bloomparquet.query.sql_elements import SUPPORTED as SUPPORTED_ELEMENTS
from bloomparquet.query.sql_elements import convert_elements
from bloomparquet.query.sql_opaque import to_opaque
from bloomparquet.query.sql_tree import parse_condition
from bloomparquet.query.sql_variants import SUPPORTED as SUPPORTED_VARIANTS
from bloomparquet.query.sql_variants import convert_variants
from bloomparquet.query.values import Value, describe

_SUPPORTED = (
    "supported are comparisons of a column with a literal (= <=> <> < <= > >=, IN, BETWEEN, IS NULL, LIKE, startswith, "
    f"endswith, contains), {SUPPORTED_CASE_MAPPING}, {SUPPORTED_VARIANTS}, {SUPPORTED_ELEMENTS}; combined by AND, OR "
    "and NOT"
)
_MISSING = object()
_HEXADECIMAL = re.compile(r"[0-9A-Fa-f]*")
_INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_MAX_DIGITS = 100  # more than any type holds, few enough for exact arithmetic
_TIMESTAMPS = frozenset({"TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ", "DATETIME"})

_Builder = Callable[[Column, Any], Predicate]
_OPERATORS: dict[str, _Builder] = {
    "=": Eq,
    "==": Eq,
    "!=": NotEq,
    "<>": NotEq,
    "<=>": EqNullSafe,
    "<": Lt,
    "<=": LtEq,
    ">": Gt,
    ">=": GtEq,
    "in": In,
    "not in": NotIn,
    "startswith": StartsWith,
}
_NULL_TESTS: dict[str, type[Leaf]] = {"is null": IsNull, "is not null": IsNotNull}


def parse_where(where: Any, *, partly: bool = False) -> Any:
    """The predicate that `where` describes. None if `where` is None. An expression of pyarrow or polars is
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
        return _parse_list(where)
    raise PlanError(
        f"where is {describe(where)}; expected SQL text, a list of (column, operator, value), a predicate, or "
        "an expression of pyarrow or polars"
    )


def _parse_list(where: Sequence[Any]) -> Predicate:
    if not where:
        raise PlanError("where is an empty list; to read every row, pass None")
    if isinstance(where[0], str):
        return _parse_tuple(where)
    if all(isinstance(item, list) and not (item and isinstance(item[0], str)) for item in where):
        return Or(*(_parse_conjunction(item) for item in where)) if len(where) > 1 else _parse_conjunction(where[0])
    return _parse_conjunction(where)


def _parse_conjunction(items: Sequence[Any]) -> Predicate:
    if not items:
        raise PlanError("where contains an empty list; to read every row, pass None")
    parsed = [item if isinstance(item, Predicate) else _parse_tuple(item) for item in items]
    return And(*parsed) if len(parsed) > 1 else parsed[0]


def _parse_tuple(item: Any) -> Predicate:
    if not isinstance(item, (list, tuple)) or len(item) not in (2, 3) or not isinstance(item[1], str):
        raise PlanError(f"the list where contains {describe(item)}; expected (column, operator, value)")
    column, name = item[0], " ".join(item[1].lower().split())
    if name in _NULL_TESTS and (len(item) == 2 or item[2] is None):
        return _NULL_TESTS[name](column)
    if name not in _OPERATORS:
        known = [*_OPERATORS, *_NULL_TESTS]
        raise PlanError(
            f"unknown operator {quoted(item[1])} in {quoted(item)}{did_you_mean(name, known)}; "
            f"expected one of {', '.join(known)}"
        )
    if len(item) == 2:
        raise PlanError(f"the value after the operator {quoted(item[1])} is missing in {quoted(item)}")
    return _OPERATORS[name](column, item[2])


def _parse_sql(text: str, partly: bool) -> Predicate:
    if not text.strip():
        raise PlanError("where is blank; to read every row, pass None")
    try:
        return _Converter(text, partly).convert(parse_condition(text))
    except RecursionError:
        raise PlanError(f"where is nested too deeply: {shorten(text)}") from None


class _RefusedError(PlanError):
    """A condition is not supported."""


class _Converter:
    """Converts sqlglot's tree of one text to a predicate. `partly`: what is not supported is opaque."""

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
        except _RefusedError as refusal:
            if node.find(exp.Placeholder, getattr(exp, "Block", exp.Placeholder)):  # no condition, to any engine
                raise PlanError(str(refusal)) from None
            return to_opaque(node, exp, str(refusal))

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
        for convert_function in (convert_elements, convert_case_mapping, convert_variants):
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
        if isinstance(node, (exp.Column, exp.Dot)):
            return Eq(self.column(node, node), True)
        raise self.refuse(node)

    def convert_junction(self, node: Any) -> Predicate:
        # A chain of 10,000 ORs is a left-deep tree of that depth.
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
        parts = node.parts if isinstance(node, (exp.Column, exp.Dot)) else []
        if not parts or not all(isinstance(part, exp.Identifier) for part in parts):
            raise self.refuse(whole)
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
            value = self.find_literal(node.this)
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

    def cast(self, node: Any) -> Any:
        """The value of a cast. sqlglot parses ``1.5D`` and ``DATE '2024-05-17'`` as casts, too."""
        value, kind = self.find_literal(node.this), node.to.this.value
        if value is _MISSING or value is None:
            return value
        try:
            return _cast(value, kind, [int(parameter.name) for parameter in node.to.expressions])
        except (ValueError, ArithmeticError, PlanError):
            raise self.refuse(node, f"{quoted(value)} is not exactly representable as {kind}") from None

    def refuse(self, node: Any, reason: str = _SUPPORTED) -> PlanError:
        error = _RefusedError if self.partly else PlanError
        return error(f"cannot use {quoted(node.sql(dialect='spark'))} in where: {reason}")


def _negate(predicate: Predicate) -> Predicate:
    if isinstance(predicate, In):
        return NotIn(predicate.column, predicate.values)
    return IsNotNull(predicate.column) if isinstance(predicate, IsNull) else Not(predicate)


def _cast(value: Any, kind: str, parameters: list[int]) -> Any:
    if kind in ("TEXT", "VARCHAR") and isinstance(value, str):
        return value
    if kind == "BINARY" and isinstance(value, (str, bytes)):
        return value.encode() if isinstance(value, str) else value
    if kind == "DATE" and isinstance(value, (str, dt.date)):
        return coerce(value, "date")
    if kind in _TIMESTAMPS and isinstance(value, str):
        return _cast_timestamp(value)
    if kind == "TIME" and isinstance(value, str):
        micros, rest = divmod(coerce(value, "time"), 1000)
        if not rest:
            return (EPOCH + dt.timedelta(microseconds=micros)).time()
    if isinstance(value, (str, int, float, Decimal)) and not isinstance(value, bool):
        if kind == "DOUBLE":
            return float(value)
        if kind == "FLOAT":
            return float(np.float32(value))
        exact = Decimal(value)
        number = Fraction(exact) if exact.is_finite() and abs(exact.adjusted()) < _MAX_DIGITS else Fraction(1, 3)
        if kind in _INTEGER_BITS and number.denominator == 1 and abs(number) <= 1 << _INTEGER_BITS[kind] - 1:
            return int(number)
        precision, scale = (*parameters, 0)[:2] if parameters else (10, 0)
        if kind == "DECIMAL" and (number * 10**scale).denominator == 1 and abs(number) < 10 ** (precision - scale):
            return exact
    raise ValueError(kind)


def _cast_timestamp(text: str) -> Value:
    try:
        zone, nanos = None, coerce(text, "timestamp_ntz")
    except PlanError:
        zone, nanos = dt.timezone.utc, coerce(text, "timestamp")
    if nanos % 1000 and zone is None:
        return np.datetime64(nanos, "ns")
    if nanos % 1000:
        raise ValueError("nanoseconds and an offset")
    return EPOCH.replace(tzinfo=zone) + dt.timedelta(microseconds=nanos // 1000)
