"""Parses `where` to a predicate: SQL text, or tuples ``(column, operator, value)``, as pyarrow writes predicates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from bloomparquet.errors import PlanError, did_you_mean, quoted, shorten
from bloomparquet.query import predicate as p
from bloomparquet.query.expressions import is_expression
from bloomparquet.query.values import describe

_MOST_CACHED = 1_000  # characters of a text that is kept parsed: to parse it takes as long as a warm plan

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


def parse_where(where: Any, *, partly: bool = False) -> Any:
    """The predicate that `where` describes. None if `where` is None. An expression of pyarrow is returned unchanged:
    :func:`bloomparquet.query.expressions.bind_expression` needs the columns of the files.

    With `partly`, a condition of SQL text that is not supported is :class:`Opaque`, instead of an error.

    `where` is SQL text in Spark's dialect; a list of tuples ``(column, operator, value)``, combined by AND; a list of
    such lists, combined by OR (pyarrow's disjunctive normal form); or a predicate. Raises PlanError, which quotes the
    unsupported part.
    """
    if where is None or isinstance(where, p.Predicate) or is_expression(where):
        return where
    if isinstance(where, str):
        return _parse_sql(where, partly) if len(where) <= _MOST_CACHED else _parse_sql.__wrapped__(where, partly)
    if isinstance(where, (list, tuple)):
        return _parse_tuples(where)
    if type(where).__module__.startswith("polars."):
        raise PlanError(
            f"where is {shorten(str(where))}, an expression of polars; expected SQL text for the plan, and the "
            "expression for polars: pl.scan_pyarrow_dataset(bp.dataset(path)).filter(expression)"
        )
    raise PlanError(
        f"where is {describe(where)}; expected SQL text, a list of (column, operator, value), a predicate, or "
        "an expression of pyarrow"
    )


@lru_cache(maxsize=64)
def _parse_sql(text: str, partly: bool) -> p.Predicate:
    if not text.strip():
        raise PlanError("where is blank; to read every row, leave it out")
    from bloomparquet.query.sql.convert import convert_sql  # sqlglot is large, and Spark's workers never need it

    return convert_sql(text, partly)


def _parse_tuples(where: Sequence[Any]) -> p.Predicate:
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
