"""Evaluates an OR of many composite keys, ``(a = 1 AND b = 2) OR (a = 3 AND b = 4) OR …``, as one lookup.

Each column's values are numbered, and a key is the one number that its columns' numbers make.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from math import prod
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bloomparquet.query.predicate import And, Column, Eq, Predicate

_LEAST_KEYS = 8
_MOST_NUMBERS = 1 << 62


def split_composite_keys(children: Sequence[Predicate]) -> tuple[dict[tuple[Column, ...], list[And]], list[Predicate]]:
    """The composite keys among the `children` of an OR, by their columns where there are many; and the other children.
    Every child of a composite key is an :class:`Eq` with a value, in the order of the columns."""
    groups: dict[tuple[Column, ...], list[And]] = {}
    others: list[Predicate] = []
    for child in children:
        leaves = [leaf for leaf in child.children if isinstance(leaf, Eq)] if isinstance(child, And) else []
        by_column = {leaf.column: leaf for leaf in leaves if leaf.value is not None}
        if isinstance(child, And) and len(by_column) == len(child.children) > 1:
            columns = tuple(sorted(by_column))
            groups.setdefault(columns, []).append(And(*(by_column[column] for column in columns)))
        else:
            others.append(child)
    for columns in [columns for columns, keys in groups.items() if len(keys) < _LEAST_KEYS]:
        others += groups.pop(columns)
    return groups, others


class CompositeKeys:
    """A set of composite keys. ``keys[i]``: the values of all keys in column i, null for one that the column cannot
    hold, in the column's comparable type."""

    def __init__(self, keys: Sequence[pa.Array]) -> None:
        self._values = [pc.unique(column.drop_null()) for column in keys]
        self._numbers = pc.drop_null(self._number(keys))

    @property
    def is_usable(self) -> bool:
        return prod(len(values) + 1 for values in self._values) < _MOST_NUMBERS

    def contain(self, columns: Sequence[Any]) -> Any:
        """Whether each row of `columns` is one of the keys. False where a column is null."""
        return pc.is_in(self._number(columns), value_set=self._numbers)

    def _number(self, columns: Iterable[Any]) -> Any:
        """The number of each row, null if a column has none of the values of the keys."""
        number = None
        for column, values in zip(columns, self._values, strict=True):
            index = pc.index_in(column, value_set=values).cast(pa.int64())
            number = index if number is None else pc.add(pc.multiply(number, len(values)), index)
        return number


def any_null(columns: Sequence[Any]) -> Any:
    """Whether each row has a null in one of `columns`; None if no row has."""
    nulls = [pc.is_null(column) for column in columns if column.null_count]
    return reduce(pc.or_, nulls) if nulls else None
