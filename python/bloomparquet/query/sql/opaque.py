"""Converts SQL conditions that evidence cannot judge to opaque ones, with the reason."""

from __future__ import annotations

from typing import Any

from bloomparquet.errors import PlanError
from bloomparquet.query.computed import Call
from bloomparquet.query.predicate import Opaque, Predicate
from bloomparquet.query.why_not import WhyNot


def to_opaque(
    node: Any, exp: Any, refusal: str, computed: tuple[Call, Predicate] | None, why: WhyNot | None = None
) -> Opaque:
    """The opaque condition for `node` of sqlglot's tree. `computed`: a value and the test of it. None if the condition
    cannot be evaluated for rows; asking for them is an error with the message `refusal`. `why`: the reason, if it is
    known."""
    text, reason = sql_of(node), why or _reason(node, exp)
    return Opaque(text, reason, refusal) if computed is None else Opaque(text, reason, "", *computed)


def _reason(node: Any, exp: Any) -> WhyNot:
    if not any(True for _ in node.find_all(exp.Column)) or node.find(exp.Query) is not None:
        return WhyNot.NOT_A_COMPARISON
    if isinstance(node, exp.Binary) and all(is_column(side, exp) for side in (node.this, node.expression)):
        return WhyNot.TWO_COLUMNS
    sides = [node.this, node.expression] if isinstance(node, exp.Binary) else [node.this]
    operands = [side for side in sides if isinstance(side, exp.Expression)]  # sqlglot accepts () as an operand
    if isinstance(node, exp.Func) and not isinstance(node, exp.Binary):
        return WhyNot.FUNCTION
    if any(not is_column(side, exp) and side.find(exp.Column) is not None for side in operands):
        return WhyNot.FUNCTION
    return WhyNot.NOT_A_COMPARISON


def sql_of(node: Any) -> str:
    """The SQL of `node` in Spark's dialect. Raises PlanError if it has none: sqlglot parses ``1F(s)`` as a type with a
    parameter, for example."""
    try:
        return node.sql(dialect="spark")  # type: ignore[no-any-return]
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise PlanError(f"cannot parse a part of where, which is no SQL of Spark: {error}") from error


def is_column(node: Any, exp: Any) -> bool:
    """Whether `node` is a column, or a field of one. A field of another value, such as ``f(s).x``, is not."""
    while isinstance(node, exp.Paren | exp.Dot):
        node = node.this
    return isinstance(node, exp.Column)
