"""Parses `where` that is made of tuples ``(column, operator, value)``, as pyarrow writes predicates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bloomparquet.errors import PlanError, did_you_mean, quoted
from bloomparquet.query import predicate as p
from bloomparquet.query.values import describe

_OPERATORS: dict[str, Callable[[p.Column, Any], p.Predicate]] = {
    "=": p.Eq,
    "==": p.Eq,
    "!=": p.NotEq,
    "<>": p.NotEq,
    "<=>": p.EqNullSafe,
    "<": p.Lt,
    "<=": p.LtEq,
    ">": p.Gt,
    ">=": p.GtEq,
    "in": p.In,
    "not in": p.NotIn,
    "startswith": p.StartsWith,
}
_NULL_TESTS: dict[str, type[p.Leaf]] = {"is null": p.IsNull, "is not null": p.IsNotNull}


def parse_tuples(where: Sequence[Any]) -> p.Predicate:
    """The predicate of a tuple, of a list of tuples (combined by AND), or of a list of such lists (combined by OR)."""
    if not where:
        raise PlanError("where is an empty list; to read every row, pass None")
    if isinstance(where[0], str):
        return _parse_tuple(where)
    if all(isinstance(item, list) and not (item and isinstance(item[0], str)) for item in where):
        return p.Or(*(_parse_conjunction(item) for item in where)) if len(where) > 1 else _parse_conjunction(where[0])
    return _parse_conjunction(where)


def _parse_conjunction(items: Sequence[Any]) -> p.Predicate:
    if not items:
        raise PlanError("where contains an empty list; to read every row, pass None")
    parsed = [item if isinstance(item, p.Predicate) else _parse_tuple(item) for item in items]
    return p.And(*parsed) if len(parsed) > 1 else parsed[0]


def _parse_tuple(item: Any) -> p.Predicate:
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
