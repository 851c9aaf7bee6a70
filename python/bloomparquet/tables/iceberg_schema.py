"""Iceberg's types and field ids as the columns of a table.

Source: Iceberg's spec ("Schemas and Data Types", "Column Projection", "Default values").
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bloomparquet.errors import PlanError, UnsupportedError, quoted
from bloomparquet.planning.table_columns import TableColumns, TableField

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table.name_mapping import MappedField, NameMapping
    from pyiceberg.types import IcebergType, NestedField

_ARROW_TYPES: dict[str, Callable[[Any], pa.DataType]] = {
    "BooleanType": lambda _: pa.bool_(),
    "IntegerType": lambda _: pa.int32(),
    "LongType": lambda _: pa.int64(),
    "FloatType": lambda _: pa.float32(),
    "DoubleType": lambda _: pa.float64(),
    "DecimalType": lambda kind: pa.decimal128(kind.precision, kind.scale),
    "DateType": lambda _: pa.date32(),
    "TimeType": lambda _: pa.time64("us"),
    "TimestampType": lambda _: pa.timestamp("us"),
    "TimestamptzType": lambda _: pa.timestamp("us", "UTC"),
    "TimestampNanoType": lambda _: pa.timestamp("ns"),
    "TimestamptzNanoType": lambda _: pa.timestamp("ns", "UTC"),
    "StringType": lambda _: pa.string(),
    "UUIDType": lambda _: pa.uuid(),
    "FixedType": lambda kind: pa.binary(len(kind)),
    "BinaryType": lambda _: pa.binary(),
    "UnknownType": lambda _: pa.null(),
}


def table_columns(schema: Schema, mapping: NameMapping | None, varying: Collection[str]) -> TableColumns:
    """The columns of an Iceberg table.

    `mapping` has the ids of columns in files without ids. `varying` are the columns whose value is known from the
    partitions of some files. Raises UnsupportedError for a type that no column of a Parquet file is read as.
    """
    names = None if mapping is None else mapping.root
    fields = tuple(replace(_field(each, names), varies=each.name in varying) for each in schema.fields)
    return TableColumns(pa.schema([_arrow_field(each) for each in schema.fields]), fields, by_id=True)


def arrow_type(field: NestedField) -> pa.DataType:
    """The Arrow type of a column or field."""
    kind = field.field_type
    if kind.is_primitive:
        convert = _ARROW_TYPES.get(type(kind).__name__)
        if convert is None:
            raise UnsupportedError(
                f"column {quoted(field.name)} has the Iceberg type {kind}, which is not supported; read the table with "
                "another program"
            )
        return convert(kind)
    fields = [_arrow_field(inner) for inner in _fields_of(kind)]
    if kind.is_struct:
        return pa.struct(fields)
    return pa.list_(fields[0]) if len(fields) == 1 else pa.map_(*fields)


def to_values(stored: Iterable[Any], field: NestedField) -> list[Any]:
    """Convert values of `field` from Iceberg's partitions, where dates and times are integers, to Python's types."""
    kind = arrow_type(field)
    is_time = pa.types.is_date(kind) or pa.types.is_timestamp(kind) or pa.types.is_time(kind)
    if not is_time:
        return list(stored)
    try:
        integers = pa.array(stored, pa.int32() if pa.types.is_date(kind) else pa.int64())
        values: list[Any] = integers.cast(kind).to_pylist()
    except (ValueError, OverflowError, pa.ArrowException) as error:
        raise PlanError(f"column {quoted(field.name)}: a partition has no valid {field.field_type}: {error}") from error
    return values


def _arrow_field(field: NestedField) -> pa.Field:
    return pa.field(field.name, arrow_type(field), nullable=not field.required)


def _fields_of(kind: IcebergType) -> Sequence[NestedField]:
    """The fields of a struct; the element of a list; the key and the value of a map."""
    nested: Any = kind
    if kind.is_struct:
        return tuple(nested.fields)
    if kind.is_primitive:
        return ()
    return (nested.element_field,) if hasattr(nested, "element_field") else (nested.key_field, nested.value_field)


def _field(field: NestedField, mapping: Sequence[MappedField] | None, *, nested: bool = False) -> TableField:
    mapped = next((each for each in mapping or () if each.field_id == field.field_id), None)
    children = tuple(
        _field(each, None if mapped is None else mapped.fields, nested=True) for each in _fields_of(field.field_type)
    )
    default = field.initial_default
    if default is not None and nested:
        raise UnsupportedError(
            f"the nested field {quoted(field.name)} (field id {field.field_id}) has an initial default value, which is "
            "supported for top-level columns only; read the table with another program"
        )
    return TableField(
        field.name,
        file_names=() if mapped is None else tuple(mapped.names),
        field_id=field.field_id,
        children=children,
        default=default,
    )
