"""Random predicates on the rows of tables of Delta Lake and Iceberg, and their truth for a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pyarrow as pa

import bloomparquet as bp
from bloomparquet.query.predicate import Column, columns
from tests.support.row_oracle import oracle

Row = dict[str, Any]


def ask(choose: Random, values: Mapping[Column, Sequence[Any]], depth: int = 2) -> bp.Predicate:
    """A random predicate on columns with the literals `values`."""
    if depth and choose.random() < 0.5:
        parts = [ask(choose, values, depth - 1) for _ in range(choose.choice([2, 2, 3]))]
        if choose.random() < 0.15:
            return bp.Not(parts[0])
        return choose.choice([bp.And, bp.And, bp.Or])(*parts)
    column = choose.choice(sorted(values))
    some = values[column]
    if choose.random() < 0.15:
        return choose.choice([bp.IsNull, bp.IsNotNull])(column)
    if choose.random() < 0.3:
        return choose.choice([bp.In, bp.In, bp.In, bp.NotIn])(column, choose.choices(some, k=choose.choice([1, 3])))
    shapes = [*[bp.Eq] * 5, bp.NotEq, bp.EqNullSafe]
    if not isinstance(some[0], bool):
        shapes += [bp.Lt, bp.GtEq]
    return choose.choice(shapes)(column, choose.choice(some))


def matching(predicate: bp.Predicate, rows: Sequence[Row]) -> list[Row]:
    """The rows for which `predicate` is TRUE."""
    paths = columns(predicate)
    return [row for row in rows if oracle(predicate, {path: _cell(row, path) for path in paths}, _keys) is True]


def canonical(rows: Sequence[Row] | pa.Table) -> list[str]:
    """The rows in an order that does not depend on the reader."""
    given = rows.to_pylist() if isinstance(rows, pa.Table) else rows
    return sorted(repr(sorted(row.items())) for row in given)


def _cell(row: Row, path: Column) -> Any:
    value: Any = row
    for name in path:
        value = None if value is None else value[name]
    return value


def _keys(column: Column, cell: Any, literal: Any) -> tuple[Any, Any]:
    return (cell.encode(), literal.encode()) if isinstance(cell, str) else (cell, literal)
