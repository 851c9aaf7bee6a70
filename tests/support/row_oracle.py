"""The truth of a predicate, row by row in plain Python. It shares only the predicates' classes with the product."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from bloomparquet.query import predicate as p
from bloomparquet.query.elements import ContainsAny, ItemIn

_COMPARE = {
    p.Eq: operator.eq, p.NotEq: operator.ne, p.Lt: operator.lt, p.LtEq: operator.le, p.Gt: operator.gt,
    p.GtEq: operator.ge,
}  # fmt: skip


def oracle(
    node: p.Predicate, row: Mapping[p.Column, Any], keys: Callable[[p.Column, Any, Any], tuple[Any, Any]]
) -> bool | None:
    """SQL's TRUE, FALSE or NULL (None) of `node` for `row`. `keys` gives the sort keys of a column's cell and of a
    literal."""
    match node:
        case p.Always(value):
            return value
        case p.Not(child):
            value = oracle(child, row, keys)
            return None if value is None else not value
        case p.And(children) | p.Or(children):
            results = [oracle(child, row, keys) for child in children]
            decisive = isinstance(node, p.Or)
            return decisive if decisive in results else None if None in results else not decisive
        case p.IsNull(column) | p.IsNotNull(column):
            return (row[column] is None) == isinstance(node, p.IsNull)
        case p.In(column, values):
            return oracle(p.Or(*(p.Eq(column, value) for value in values)), row, keys)
        case p.NotIn(column, values):
            return oracle(p.Not(p.In(column, values)), row, keys)
        case p.EqNullSafe(column, value):
            if row[column] is None or value is None:
                return row[column] is None and value is None
            return oracle(p.Eq(column, value), row, keys)
        case p.StartsWith(column, value):
            if row[column] is None or value is None:
                return None
            left, right = keys(column, row[column], value)
            return bool(left.startswith(right))
        case ContainsAny(column, values, of):
            if row[column] is None:
                return None
            cells = row[column] if of == "element" else [pair[of == "value"] for pair in row[column]]
            results = [oracle(p.In(column, values), {column: cell}, keys) for cell in cells]
            return True if True in results else None if None in results else False
        case ItemIn(column, _, values):
            return oracle(p.In(column, values), {column: _item(node, row[column])}, keys)
    assert isinstance(node, p.Comparison)
    if row[node.column] is None or node.value is None:
        return None
    return bool(_COMPARE[type(node)](*keys(node.column, row[node.column], node.value)))


def _item(node: ItemIn, collection: Any) -> Any:
    """The element of a list, or the value of the first pair of a map with that key; None if there is none."""
    if not collection or node.item is None:
        return None
    if isinstance(collection[0], tuple):
        return next((value for key, value in collection if key == node.item), None)
    assert isinstance(node.item, int)
    position = node.item - node.first if node.item >= node.first else len(collection) + node.item
    is_valid = 0 <= position < len(collection) and (node.item >= node.first or (node.first == 1 and node.item < 0))
    return collection[position] if is_valid else None
