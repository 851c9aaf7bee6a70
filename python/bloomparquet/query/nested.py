"""Walks over nested Arrow types and arrays: structs, lists and maps."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa


def map_leaf_types(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """`kind` with each type in it that is not a struct, list or map replaced by `change`, called from left to right."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(map_leaf_types(field.type, change)) for field in kind])
    if pa.types.is_map(kind):
        key, item = kind.key_field, kind.item_field
        key = key.with_type(map_leaf_types(key.type, change))
        return pa.map_(key, item.with_type(map_leaf_types(item.type, change)), keys_sorted=kind.keys_sorted)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        value = kind.value_field.with_type(map_leaf_types(kind.value_type, change))
        if pa.types.is_fixed_size_list(kind):
            return pa.list_(value, kind.list_size)
        return pa.list_(value) if pa.types.is_list(kind) else pa.large_list(value)
    return change(kind)


def without_views(schema: pa.Schema) -> pa.Schema:
    """`schema` with large strings and binaries in place of views, as polars stores them. pyarrow neither compares views
    nor writes all of them."""

    def stored(leaf: pa.DataType) -> pa.DataType:
        if pa.types.is_dictionary(leaf):
            return pa.dictionary(leaf.index_type, stored(leaf.value_type), leaf.ordered)
        if pa.types.is_string_view(leaf):
            return pa.large_string()
        return pa.large_binary() if pa.types.is_binary_view(leaf) else leaf

    fields = [field.with_type(map_leaf_types(field.type, stored)) for field in schema]
    return pa.schema(fields, schema.metadata)


def leaf_arrays(array: pa.Array) -> Iterator[pa.Array]:
    """The flat arrays in `array`, from left to right. A null list has no elements in them; a null struct is null."""
    if not pa.types.is_nested(array.type):
        yield array
        return
    if pa.types.is_struct(array.type):
        children = array.flatten()
    elif pa.types.is_map(array.type):  # Arrow flattens no maps
        start, stop = array.offsets[0].as_py(), array.offsets[-1].as_py()
        children = [child.slice(start, stop - start) for child in (array.keys, array.items)]
    else:
        children = [array.flatten()]
    for child in children:
        yield from leaf_arrays(child)
