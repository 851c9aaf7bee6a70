"""Predicates on the elements of lists, and on the keys and values of maps.

A row group is skipped only if no value of the leaf column in it equals a value of the predicate. So the negation of
such a predicate never skips a row group: one equal element proves nothing about the other elements.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from bloomparquet.errors import PlanError
from bloomparquet.query.names import column_to_sql, repr_column
from bloomparquet.query.predicate import Always, And, Column, ElementPredicate, Leaf, Predicate
from bloomparquet.query.values import Value, describe, normalize_value, normalize_values, values_to_sql, without_none
from bloomparquet.query.values import to_sql as literal_to_sql

Part = Literal["element", "key", "value"]
"""The elements of a list; the keys or the values of a map."""

PARTS: tuple[Part, ...] = ("element", "key", "value")


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ContainsAny(ElementPredicate):
    """A list, or the keys or values of a map, contain one of `values`: ``arrays_overlap(column, array(values))``.

    NULL if the list or the map is null, or if nothing is equal and a null was compared. `column` may lead through one
    list into a struct: ``("items", "sku")`` are the fields `sku` of the structs in the list `items`.

    >>> bp.ContainsAny("tags", ["red", "blue"])
    ContainsAny('tags', ('red', 'blue'))
    >>> print(bp.ContainsAny("labels", ["color"], of="key"))
    map_contains_key(labels, 'color')
    """

    values: tuple[Value, ...]
    of: Part

    def __init__(self, column: str | Iterable[str], values: Iterable[Any], of: Part = "element") -> None:
        Leaf.__init__(self, column)
        object.__setattr__(self, "values", normalize_values(values))
        object.__setattr__(self, "of", of)
        if of not in PARTS:
            raise PlanError(f"ContainsAny of {describe(of)}; expected 'element', 'key' or 'value'")

    def __repr__(self) -> str:
        of = "" if self.of == "element" else f", of={self.of!r}"
        return f"ContainsAny({repr_column(self.column)}, {self.values!r}{of})"

    def without_nulls(self) -> Predicate:
        values = without_none(self.values)
        return ContainsAny(self.column, values, self.of) if values else Always(False)

    def provable(self, *, negated: bool) -> Predicate:
        return Always(True) if negated else ElementIn(self.column, self.of, self.values)

    def to_sql(self, max_values: int | None) -> str:
        name = column_to_sql(self.column)
        values = values_to_sql(self.values, max_values)
        if self.of == "key" and len(self.values) == 1:
            return f"map_contains_key({name}, {values})"
        array = name if self.of == "element" else f"map_{self.of}s({name})"
        if len(self.values) == 1 and self.values[0] is not None:
            return f"array_contains({array}, {values})"
        return f"arrays_overlap({array}, array({values}))"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ItemIn(ElementPredicate):
    """One element of a list, or the value of one key of a map, is one of `values`: ``column[item] IN (values)``.

    `item` is the key, or the position in the list, which is counted from `first`: 0 as in ``column[0]``, or 1 as in
    ``element_at(column, 1)``, where -1 is the last element. An element or key that does not exist is NULL. If a key
    occurs more than once in a map, its first value counts.
    """

    item: Value
    values: tuple[Value, ...]
    first: Literal[0, 1]

    def __init__(
        self, column: str | Iterable[str], item: Any, values: Iterable[Any], *, first: Literal[0, 1] = 0
    ) -> None:
        Leaf.__init__(self, column)
        object.__setattr__(self, "item", normalize_value(item))
        object.__setattr__(self, "values", normalize_values(values))
        object.__setattr__(self, "first", first)

    def __repr__(self) -> str:
        first = f", first={self.first}" if self.first else ""
        return f"ItemIn({repr_column(self.column)}, {self.item!r}, {self.values!r}{first})"

    def without_nulls(self) -> Predicate:
        values = without_none(self.values)
        if self.item is None or not values:
            return Always(False)
        return ItemIn(self.column, self.item, values, first=self.first)

    def provable(self, *, negated: bool) -> Predicate:
        if negated:
            return Always(True)
        # Whether the column is a list or a map differs between files, and conditions of the other kind keep all.
        return And(
            ElementIn(self.column, "element", self.values),
            ElementIn(self.column, "value", self.values),
            ElementIn(self.column, "key", (self.item,)),
        )

    def to_sql(self, max_values: int | None) -> str:
        name, item = column_to_sql(self.column), literal_to_sql(self.item)
        accessed = f"element_at({name}, {item})" if self.first else f"{name}[{item}]"
        values = values_to_sql(self.values, max_values)
        return f"{accessed} = {values}" if len(self.values) == 1 else f"{accessed} IN ({values})"


@dataclass(frozen=True, slots=True)
class ElementIn(Leaf):
    """The planner's leaf predicate: a leaf column of a list or a map holds one of `values`.

    A row group whose file has no such part might match.
    """

    column: Column
    part: Part
    values: tuple[Value, ...]
