"""Predicates on elements of lists and maps, evaluated on one row, without the product's code."""

from __future__ import annotations

from typing import Any

import bloomparquet as bp


def contains(values: list[Any] | None, wanted: Any) -> bool | None:
    """``arrays_overlap(values, wanted)``."""
    if values is None:
        return None
    if {value for value in values if value is not None} & set(wanted):
        return True
    return None if values and wanted and (None in values or None in wanted) else False


def is_in(value: Any, wanted: Any) -> bool | None:
    if not wanted:
        return False
    if value is None:
        return None
    return True if value in wanted else None if None in wanted else False


def item_of(leaf: bp.ItemIn, row: dict[str, Any]) -> Any:
    collection = row[leaf.column[0]]
    if collection is None or leaf.item is None:
        return None
    if leaf.column == ("m",):
        return next((value for key, value in collection if key == leaf.item), None)
    assert isinstance(leaf.item, int)
    position = leaf.item - leaf.first if leaf.item >= leaf.first else len(collection) + leaf.item
    is_valid = 0 <= position < len(collection) and (leaf.item >= leaf.first or (leaf.first == 1 and leaf.item < 0))
    return collection[position] if is_valid else None


def evaluate(node: bp.Predicate, row: dict[str, Any]) -> bool | None:
    """TRUE, FALSE or NULL for `row`, by the rules of SQL."""
    if isinstance(node, bp.Not):
        child = evaluate(node.child, row)
        return None if child is None else not child
    if isinstance(node, bp.And | bp.Or):
        children = [evaluate(child, row) for child in node.children]
        decisive = isinstance(node, bp.Or)
        return decisive if decisive in children else None if None in children else not decisive
    if isinstance(node, bp.ItemIn):
        return is_in(item_of(node, row), node.values)
    if isinstance(node, bp.ContainsAny):
        values = row[node.column[0]]
        if values is not None and node.of != "element":
            values = [pair[node.of == "value"] for pair in values]
        return contains(values, node.values)
    if isinstance(node, bp.IsNull | bp.IsNotNull):
        return (row[node.column[0]] is None) == isinstance(node, bp.IsNull)
    assert isinstance(node, bp.Gt)
    return bool(row["n"] > node.value)
