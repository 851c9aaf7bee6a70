"""Says why a part of SQL text cannot be judged."""

from __future__ import annotations

from typing import Any

from bloomparquet.errors import shorten
from bloomparquet.query.predicate import Opaque
from bloomparquet.query.why_not import WhyNot


def to_opaque(node: Any, exp: Any, refusal: str) -> Opaque:
    """The condition that `node` of sqlglot's tree means, which is refused with this message."""
    return Opaque(shorten(node.sql(dialect="spark")), _reason(node, exp), refusal)


def _reason(node: Any, exp: Any) -> WhyNot:
    if not any(True for _ in node.find_all(exp.Column)) or node.find(exp.Query) is not None:
        return WhyNot.NOT_A_COMPARISON
    if isinstance(node, exp.Binary) and all(_is_column(side, exp) for side in (node.this, node.expression)):
        return WhyNot.TWO_COLUMNS
    sides = [node.this, node.expression] if isinstance(node, exp.Binary) else [node.this]
    operands = [side for side in sides if isinstance(side, exp.Expression)]  # sqlglot accepts () as an operand
    if isinstance(node, exp.Func) and not isinstance(node, exp.Binary):
        return WhyNot.FUNCTION
    if any(not _is_column(side, exp) and side.find(exp.Column) is not None for side in operands):
        return WhyNot.FUNCTION
    return WhyNot.NOT_A_COMPARISON


def _is_column(node: Any, exp: Any) -> bool:
    return isinstance(node, exp.Expression) and isinstance(node.unnest(), exp.Column | exp.Dot)
