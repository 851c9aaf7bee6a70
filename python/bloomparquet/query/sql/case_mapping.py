"""Converts SQL's comparisons of ``lower(column)`` and ``upper(column)`` to predicates."""

from __future__ import annotations

from typing import Any

from bloomparquet.query.case_mapping import Case, CaseIn, case_equal_null_safe
from bloomparquet.query.predicate import Predicate
from bloomparquet.query.sql.elements import Converter, without_parentheses


def convert_case_mapping(node: Any, converter: Converter) -> Predicate | None:
    """The predicate that `node` of sqlglot's tree means; None if it is not about ``lower`` or ``upper``."""
    exp = converter.exp
    if isinstance(node, exp.In) and not any(node.args.get(key) for key in ("query", "unnest", "field")):
        return _convert(node.this, node.expressions, node, converter)
    if isinstance(node, exp.EQ | exp.NEQ | exp.NullSafeEQ | exp.NullSafeNEQ):
        equality = _convert(node.this, [node.expression], node, converter)
        if equality is None:
            equality = _convert(node.expression, [node.this], node, converter)
        if equality is None:
            return None
        if isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ):
            predicate = case_equal_null_safe(equality.column, equality.case, equality.values[0])
            return ~predicate if isinstance(node, exp.NullSafeNEQ) else predicate
        return ~equality if isinstance(node, exp.NEQ) else equality
    return None


def _convert(mapped: Any, values: list[Any], whole: Any, converter: Converter) -> CaseIn | None:
    exp = converter.exp
    mapped = without_parentheses(mapped, exp)
    if not isinstance(mapped, exp.Lower | exp.Upper):
        return None
    case: Case = "lower" if isinstance(mapped, exp.Lower) else "upper"
    return CaseIn(converter.column(mapped.this, whole), case, [converter.literal(value, whole) for value in values])
