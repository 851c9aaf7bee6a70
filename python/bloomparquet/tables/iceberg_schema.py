"""Iceberg's types and field ids as the columns of a table, from the JSON of its schema.

Source: Iceberg's spec ("Column Projection", "Default values"; appendix C, "JSON serialization").
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from bloomparquet.errors import PlanError, UnsupportedError, quoted
from bloomparquet.planning.table_columns import TableColumns, TableField

Field: TypeAlias = Mapping[str, Any]
"""A column, or a field of a struct: its ``id``, ``name``, ``type`` and so on."""

NameMapping: TypeAlias = Sequence[Mapping[str, Any]]
"""The names of columns in files without field ids: ``field-id``, ``names``, and ``fields`` inside."""

_PRIMITIVES: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "date": pa.date32(), "time": pa.time64("us"), "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"), "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", "UTC"), "string": pa.string(), "uuid": pa.uuid(), "binary": pa.binary(),
    "unknown": pa.null(),
}  # fmt: skip
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_FIXED = re.compile(r"fixed\[(\d+)\]")


def table_columns(
    fields: Sequence[Field],
    mapping: NameMapping | None,
    *,
    defaults: Mapping[int, Any] | None = None,
    varying: Collection[str] = (),
) -> TableColumns:
    """The columns of an Iceberg table, `fields`.

    `mapping` has the ids of columns in files without ids; `defaults` the initial defaults of columns, by id. `varying`
    are the columns whose value is known from the partitions of some files. Raises UnsupportedError for a type that no
    column of a Parquet file is read as.
    """
    own = tuple(_field(each, mapping, defaults or {}, each["name"] in varying) for each in fields)
    return TableColumns(arrow_schema(fields), own, by_id=True)


def arrow_schema(fields: Sequence[Field]) -> pa.Schema:
    return pa.schema([_arrow_field(each, each["name"]) for each in fields])


def to_values(stored: Iterable[Any], name: str, kind: pa.DataType) -> list[Any]:
    """Convert values of the column `name` from Iceberg's partitions, where dates and times are integers, to Python's
    types."""
    is_time = pa.types.is_date(kind) or pa.types.is_timestamp(kind) or pa.types.is_time(kind)
    if not is_time:
        return list(stored)
    try:
        integers = pa.array(stored, pa.int32() if pa.types.is_date(kind) else pa.int64())
        values: list[Any] = integers.cast(kind).to_pylist()
    except (ValueError, OverflowError, pa.ArrowException) as error:
        raise PlanError(f"column {quoted(name)}: a partition has no valid {kind}: {error}") from error
    return values


def _arrow_field(field: Field, column: str) -> pa.Field:
    return pa.field(field["name"], _arrow_type(field["type"], column), nullable=not field["required"])


def _arrow_type(kind: Any, column: str) -> pa.DataType:
    """The Arrow type of `kind`, which is the type of `column` or lies inside it."""
    if isinstance(kind, str):
        if (decimal := _DECIMAL.fullmatch(kind)) is not None:
            return pa.decimal128(int(decimal[1]), int(decimal[2]))
        if (fixed := _FIXED.fullmatch(kind)) is not None:
            return pa.binary(int(fixed[1]))
        if kind in _PRIMITIVES:
            return _PRIMITIVES[kind]
    elif kind["type"] == "struct":
        return pa.struct([_arrow_field(each, column) for each in kind["fields"]])
    elif kind["type"] == "list":
        element = _arrow_type(kind["element"], column)
        return pa.list_(pa.field("element", element, nullable=not kind["element-required"]))
    elif kind["type"] == "map":
        value = _arrow_type(kind["value"], column)
        item = pa.field("value", value, nullable=not kind["value-required"])
        return pa.map_(pa.field("key", _arrow_type(kind["key"], column), nullable=False), item)
    raise UnsupportedError(
        f"column {quoted(column)} has the Iceberg type {kind if isinstance(kind, str) else kind['type']}, which is not "
        "supported; read the table with another program"
    )


def _field(
    field: Field, mapping: NameMapping | None, defaults: Mapping[int, Any] | None, varies: bool = False
) -> TableField:
    """The column `field`; a field inside one if there are no `defaults`."""
    own = next((each for each in mapping or () if each.get("field-id") == field["id"]), None)
    if defaults is None and field.get("initial-default") is not None:
        raise UnsupportedError(
            f"the nested field {quoted(field['name'])} (field id {field['id']}) has an initial default value, which is "
            "supported for top-level columns only; read the table with another program"
        )
    return TableField(
        field["name"],
        file_names=() if own is None else tuple(own["names"]),
        field_id=field["id"],
        children=tuple(_field(each, (own or {}).get("fields"), None) for each in _fields_of(field["type"])),
        default=None if defaults is None else defaults.get(field["id"]),
        varies=varies,
    )


def _fields_of(kind: Any) -> Sequence[Field]:
    """The fields of a struct; the element of a list; the key and the value of a map."""
    if isinstance(kind, str):
        return ()
    if kind["type"] == "struct":
        fields: Sequence[Field] = kind["fields"]
        return fields
    parts = ("element",) if kind["type"] == "list" else ("key", "value")
    return tuple({"id": kind[f"{part}-id"], "name": part, "type": kind[part]} for part in parts)
