"""Finds the columns of a scan in one file, and converts what the file stores to them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import pyarrow as pa

from bloomparquet.errors import PlanError, did_you_mean, join_names, located, quoted
from bloomparquet.planning.arrow_schema import fit
from bloomparquet.planning.table_columns import TableColumns
from bloomparquet.query.columns import FileSchema, SchemaNode
from bloomparquet.query.names import Positions
from bloomparquet.query.resolve import list_element, map_part


class ColumnsByName:
    """The columns of a file without a table: the scan's columns have the names of the file's."""

    def __init__(self, schema: FileSchema, path: str, case_sensitive: bool) -> None:
        self._names = [node.name for node in schema.root.children]
        self._positions, self._path = Positions(self._names, case_sensitive), path

    def stored_name(self, name: str) -> str | None:
        """The name in the file of the scan's column `name`; None if the file lacks it."""
        positions = self._positions.find(name)
        if len(positions) > 1:
            names = join_names(self._names[i] for i in positions)
            raise PlanError(f"{self._path}: column {quoted(name)} is ambiguous: it matches {names}")
        return self._names[positions[0]] if positions else None

    def convert(self, stored: pa.Array | None, field: pa.Field, rows: int) -> pa.Array:
        """Convert the file's column `stored` to the scan's column `field`, of `rows` rows. `stored` is None if the file
        lacks the column.

        Raises PlanError if values cannot be converted exactly.
        """
        return pa.nulls(rows, field.type) if stored is None else fit(stored, field, self._path)


class ColumnsOfTable:
    """The columns of a file of a table that has a schema of its own, with the methods of :class:`ColumnsByName`.

    `fallbacks` are those of :class:`bloomparquet.planning.dataset.Dataset`.
    """

    def __init__(
        self, schema: FileSchema, path: str, columns: TableColumns, fallbacks: Iterable[tuple[str, Any]] = ()
    ) -> None:
        with located(path):
            mapped = columns.map_schema(schema).root.children
        stored = schema.root.children
        self._nodes = {node.name: (child.name, node) for child, node in zip(stored, mapped, strict=False)}
        defaults = {field.name: field.default for field in columns.fields if field.default is not None}
        self._defaults = defaults | dict(fallbacks)
        self._path = path

    def stored_name(self, name: str) -> str | None:
        return self._nodes[name][0] if name in self._nodes else None

    def convert(self, stored: pa.Array | None, field: pa.Field, rows: int) -> pa.Array:
        if stored is not None:
            renamed = _renamed(stored.type, self._nodes[field.name][1])
            column = stored if renamed == stored.type else stored.view(renamed)
            return fit(column, field, self._path, of_table=True)
        default = self._defaults.get(field.name)
        return pa.nulls(rows, field.type) if default is None else pa.repeat(pa.scalar(default, field.type), rows)


FileColumns: TypeAlias = ColumnsByName | ColumnsOfTable


def _renamed(kind: pa.DataType, node: SchemaNode) -> pa.DataType:
    """The Arrow type `kind` of a file's column, whose structs get the names of `node`."""
    if pa.types.is_struct(kind):
        fields = zip(kind, node.children, strict=True)
        return pa.struct(
            [field.with_name(child.name).with_type(_renamed(field.type, child)) for field, child in fields]
        )
    if pa.types.is_map(kind):
        key, item = map_part(node, "key"), map_part(node, "value")
        if key is None or item is None:
            return kind
        return pa.map_(
            kind.key_field.with_type(_renamed(kind.key_type, key)),
            kind.item_field.with_type(_renamed(kind.item_type, item)),
            keys_sorted=kind.keys_sorted,
        )
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = list_element(node)
        if element is None:
            return kind
        value = kind.value_field.with_type(_renamed(kind.value_type, element))
        return pa.list_(value) if pa.types.is_list(kind) else pa.large_list(value)
    return kind


def result_field(schema: pa.Schema, name: str, absent: str, known: Positions) -> pa.Field:
    """The field of `schema` called `name`. PlanError if there is none, which says that it is `absent`."""
    positions = known.find(name)
    if len(positions) > 1:
        raise PlanError(f"column {quoted(name)} is ambiguous: {len(positions)} columns have this name; read others")
    if not positions:
        whole = schema.get_field_index(name.partition(".")[0])
        is_inside = whole >= 0 and pa.types.is_nested(schema.types[whole])
        hint = f"; columns are read whole: name {quoted(schema.names[whole])}" if is_inside else ""
        raise PlanError(
            f"column {quoted(name)} is {absent}{hint or did_you_mean(name, schema.names)}; "
            f"the columns are {join_names(schema.names)}"
        )
    return schema.field(positions[0])
