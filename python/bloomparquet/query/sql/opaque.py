"""Converts SQL conditions that evidence cannot judge to opaque ones, with the reason."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from bloomparquet.errors import PlanError
from bloomparquet.query.predicate import Opaque
from bloomparquet.query.why_not import WhyNot


def to_opaque(node: Any, refusal: str, why: WhyNot | None = None) -> Opaque:
    """The opaque condition for `node` of sqlglot's tree. `refusal`: the message of the error if rows are asked for.
    `why`: the reason, if it is known."""
    return Opaque(sql_of(node), why or _reason(node), refusal)


def _reason(node: Any) -> WhyNot:
    if not any(True for _ in node.find_all(exp.Column)) or node.find(exp.Query) is not None:
        return WhyNot.NOT_A_COMPARISON
    if isinstance(node, exp.Binary) and all(is_column(side) for side in (node.this, node.expression)):
        return WhyNot.TWO_COLUMNS
    sides = [node.this, node.expression] if isinstance(node, exp.Binary) else [node.this]
    operands = [side for side in sides if isinstance(side, exp.Expression)]  # sqlglot accepts () as an operand
    if isinstance(node, exp.Func) and not isinstance(node, exp.Binary):
        return WhyNot.FUNCTION
    if any(not is_column(side) and side.find(exp.Column) is not None for side in operands):
        return WhyNot.FUNCTION
    return WhyNot.NOT_A_COMPARISON


def sql_of(node: Any) -> str:
    """The SQL of `node` in Spark's dialect. Raises PlanError if it has none: sqlglot parses ``1F(s)`` as a type with a
    parameter, for example."""
    try:
        return node.sql(dialect="spark")  # type: ignore[no-any-return]
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise PlanError(f"cannot parse a part of where, which is no SQL of Spark: {error}") from error


def is_column(node: Any) -> bool:
    """Whether `node` is a column, or a field of one. A field of another value, such as ``f(s).x``, is not."""
    while isinstance(node, exp.Paren | exp.Dot):
        node = node.this
    return isinstance(node, exp.Column)
