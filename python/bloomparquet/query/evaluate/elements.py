"""Evaluates predicates on the elements of lists and maps for Arrow rows, under SQL's three-valued logic.

The elements of all rows are one flat array, which is compared like any other column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bloomparquet.errors import PlanError, quoted, shorten
from bloomparquet.query.arrow_values import to_bools
from bloomparquet.query.elements import ContainsAny, ItemIn
from bloomparquet.query.predicate import Column, ElementPredicate

Test = Callable[[Any], Any]
"""A function of a column. Returns booleans, null where the column is null."""
MakeTest = Callable[[Sequence[Any], pa.DataType], Test]
"""Makes the test for ``column IN (values)`` over columns of a type."""


def split_at_list(column: Column, find: Callable[[Column], Any]) -> tuple[Any, Column]:
    """Split `column` at its first list: what `find` returns for the list, and the names of the fields below it.

    Without a list above the last name: what `find` returns for `column`, and no names. ``find(path)`` returns the field
    indexes and the type of a path, and raises PlanError below lists and maps.
    """
    for depth in range(1, len(column)):
        path, kind = find(column[:depth])
        if kind is not None and _is_list(kind):
            return (path, kind), column[depth:]
    return find(column), ()


def bind_elements(
    leaf: ElementPredicate, kind: pa.DataType, fields: Column, find_field: Any, make_test: MakeTest
) -> Test:
    """A function that evaluates `leaf` for each row of a list or map column of type `kind`.

    `fields` are the names from a struct in the list to the compared value. ``find_field(name, names)`` returns the
    index of one of them.
    """
    is_map = pa.types.is_map(kind)
    expected = leaf.of != "element" if isinstance(leaf, ContainsAny) else is_map
    if not (is_map or _is_list(kind)) or expected != is_map:
        needed = "map" if expected else "list" if isinstance(leaf, ContainsAny) else "list or map"
        raise _misfit(leaf, kind, f"needs a {needed}")
    if isinstance(leaf, ContainsAny):
        part = (["key", "value"].index(leaf.of),) if is_map else _field_path(leaf, kind.value_type, fields, find_field)
        test = _contains_any(leaf, make_test(leaf.values, _type_at(kind, part)))
        return lambda column: test(_Elements(column), part)
    assert isinstance(leaf, ItemIn)
    if fields:
        raise _misfit(leaf, kind, "cannot lead to a field of a struct")
    is_equal = make_test(leaf.values, _type_at(kind, (1,) if is_map else ()))
    if leaf.item is None:
        return lambda column: is_equal(pa.nulls(len(column), _type_at(kind, (1,) if is_map else ())))
    if is_map:
        is_key = make_test([leaf.item], kind.key_type)
        return lambda column: _value_of_key(_Elements(column), is_key, is_equal)
    position = leaf.item
    if isinstance(position, bool) or not isinstance(position, int):
        raise _misfit(leaf, kind, "needs an integer as the position")
    return lambda column: is_equal(_Elements(column).at(position, leaf.first))


class _Elements:
    """The elements of a column of lists or maps as one flat array. An element of a map is a pair of key and value.

    `is_null` and `lengths` (0 for nulls) have one entry for each row; `rows` has the row of each element.
    """

    def __init__(self, column: Any) -> None:
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if pa.types.is_map(column.type):
            pair = [pa.field("key", column.type.key_type), pa.field("value", column.type.item_type)]
            column = column.cast(pa.list_(pa.struct(pair)))
        self.is_null = to_bools(column.is_null())
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        self.lengths = np.where(self.is_null, 0, lengths).astype(np.int64)
        self.rows = np.repeat(np.arange(len(column)), self.lengths)
        self._flat = pc.list_flatten(column)

    def values(self, path: Sequence[int]) -> Any:
        """The elements, or a field of them."""
        values = self._flat
        for index in path:
            values = pc.struct_field(values, [index])
        return values

    def at(self, position: int, first: int) -> Any:
        """The element of each row at `position`, null where there is none; see :class:`ItemIn`."""
        ends = np.cumsum(self.lengths)
        if position >= first:
            index, exists = ends - self.lengths + (position - first), self.lengths > position - first
        elif first and position < 0:
            index, exists = ends + position, self.lengths >= -position
        else:  # SQL raises an error for element_at(c, 0), and for c[-1]
            index, exists = ends, np.zeros(len(ends), np.bool_)
        return self._flat.take(pa.array(index, pa.int64(), mask=~exists))


def _contains_any(leaf: ContainsAny, is_in: Test) -> Callable[[_Elements, Sequence[int]], Any]:
    has_values, has_null = bool(leaf.values), None in leaf.values

    def contains(elements: _Elements, path: Sequence[int]) -> Any:
        n, values = len(elements.lengths), elements.values(path)
        hits = to_bools(is_in(values))
        is_hit, is_unknown = np.zeros(n, np.bool_), elements.is_null.copy()
        is_hit[elements.rows[hits]] = True
        if has_null:
            is_unknown |= elements.lengths > 0
        elif has_values:
            is_unknown[elements.rows[to_bools(pc.is_null(values))]] = True
        return pa.array(is_hit, mask=is_unknown & ~is_hit)

    return contains


def _value_of_key(elements: _Elements, is_key: Test, is_equal: Test) -> Any:
    positions = np.flatnonzero(to_bools(is_key(elements.values([0]))))
    rows, first = np.unique(elements.rows[positions], return_index=True)
    index, exists = np.zeros((2, len(elements.lengths)), np.int64)
    index[rows], exists[rows] = positions[first], 1
    return is_equal(elements.values([1]).take(pa.array(index, mask=exists == 0)))


def _field_path(leaf: ContainsAny, kind: pa.DataType, fields: Column, find_field: Any) -> tuple[int, ...]:
    path = []
    for name in fields:
        names = [kind.field(i).name for i in range(kind.num_fields)] if pa.types.is_struct(kind) else []
        index = find_field(name, names)
        if index is None:
            raise _misfit(leaf, kind, f"has no field {quoted(name)} there")
        path.append(index)
        kind = kind.field(index).type
    return tuple(path)


def _type_at(kind: pa.DataType, path: Sequence[int]) -> pa.DataType:
    """The type of a part of the elements of a list or map of type `kind`."""
    if pa.types.is_map(kind):
        return kind.item_type if path[0] else kind.key_type
    kind = kind.value_type
    for index in path:
        kind = kind.field(index).type
    return kind


def _is_list(kind: pa.DataType) -> bool:
    checks = ("list", "large_list", "fixed_size_list", "list_view", "large_list_view")
    return any(getattr(pa.types, f"is_{check}")(kind) for check in checks)


def _misfit(leaf: ElementPredicate, kind: pa.DataType, reason: str) -> PlanError:
    name = quoted(".".join(leaf.column))
    return PlanError(f"column {name} is of type {shorten(str(kind))}, but {shorten(leaf.to_sql(1))} {reason}")
