"""Converts Arrow batches of a file to the Arrow batches that Spark expects.

Spark requires that the Arrow schema of a Python data source equals its own: names, order, nullability, units, zones,
even the names of list elements. The JVM then trusts the buffers. Beyond ``pyarrow.compute.cast``, this module fills
missing columns and struct fields, adds partition values, renames nested fields, and refuses the conversions that
Spark's own reader refuses.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T  # noqa: N812 - the name that PySpark users give it
from pyspark.sql.pandas.types import to_arrow_schema

from bloomparquet.errors import UnsupportedError
from pyspark_bloomparquet.read.spark_schema import resolve

_LISTS = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)


def arrow_schema(schema: T.StructType) -> pa.Schema:
    """The Arrow schema that Spark checks batches of `schema` against."""
    # Older releases have no parameter for the zone, and use UTC.
    takes_zone = "timezone" in inspect.signature(to_arrow_schema).parameters
    return to_arrow_schema(schema, timezone="UTC") if takes_zone else to_arrow_schema(schema)


def to_spark_batch(
    batch: pa.RecordBatch,
    schema: T.StructType,
    partition_values: Mapping[str, pa.Scalar],
    *,
    case_sensitive: bool = False,
    path: str = "",
) -> pa.RecordBatch:
    """Convert `batch` to the columns of `schema`, in the order of `schema` and in Spark's Arrow types.

    A column of `partition_values` is that constant. A column that is missing from the batch is null. Timestamps without
    a zone that Spark reads as TIMESTAMP are in UTC. `path` begins the messages of errors.

    Raises UnsupportedError for a conversion that Spark's reader does not have.
    """
    target = arrow_schema(schema)
    columns = []
    for field, arrow_field in zip(schema.fields, target, strict=True):
        partition = resolve(partition_values, field.name, case_sensitive=case_sensitive)
        label = f"{path}: column {field.name}" if path else f"column {field.name}"
        if partition is not None:
            column = _repeat(partition_values[partition], arrow_field.type, batch.num_rows)
        elif (name := resolve(batch.schema.names, field.name, case_sensitive=case_sensitive)) is not None:
            column = convert(batch.column(name), field.dataType, arrow_field.type, label, case_sensitive)
        else:
            column = pa.nulls(batch.num_rows, arrow_field.type)
        if not arrow_field.nullable and column.null_count:
            raise UnsupportedError(f"{label} has nulls, but the schema declares it NOT NULL; make the field nullable")
        columns.append(column)
    if not columns:
        return batch.select([]).replace_schema_metadata(None)
    return pa.RecordBatch.from_arrays(columns, schema=target)


def _repeat(value: pa.Scalar, target: pa.DataType, rows: int) -> pa.Array:
    return pa.repeat(value.cast(target), rows) if value.is_valid else pa.nulls(rows, target)


def convert(array: pa.Array, kind: T.DataType, target: pa.DataType, label: str, case_sensitive: bool) -> pa.Array:
    """Convert `array` to `target`, the Arrow type of Spark's type `kind`. Error messages call the column `label`."""
    if isinstance(kind, T.UserDefinedType):
        kind = kind.sqlType()
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), target)
    if isinstance(kind, T.StructType) and pa.types.is_struct(array.type):
        return _convert_struct(array, kind, target, label, case_sensitive)
    if isinstance(kind, T.ArrayType) and any(is_list(array.type) for is_list in _LISTS):
        return _convert_list(array, kind, target, label, case_sensitive)
    if isinstance(kind, T.MapType) and pa.types.is_map(array.type):
        return _convert_map(array, kind, target, label, case_sensitive)
    if type(kind).__name__ == "VariantType" and pa.types.is_struct(array.type):
        return _convert_variant(array, target, label)
    if array.type == target:
        return array
    return _convert_leaf(array, kind, target, label)


def _convert_leaf(array: pa.Array, kind: T.DataType, target: pa.DataType, label: str) -> pa.Array:
    source = array.type
    if not _is_convertible(source, target):
        raise UnsupportedError(
            f"{label} is {source} in the file, which cannot be read as {kind.simpleString()}; "
            "declare the file's type in the schema"
        )
    try:
        if pa.types.is_string(target) and not _is_text(source):
            return array.cast(pa.binary()).cast(target, safe=False)  # a string of Spark may hold any bytes
        if pa.types.is_timestamp(source) and target.tz is not None and source.tz is None:
            return array.cast(pa.timestamp("us")).cast(target)
        if pa.types.is_duration(source) and pa.types.is_int64(target):
            return array.view(target)
        return array.cast(target)
    except pa.ArrowInvalid:  # its text holds the value, and the column may be encrypted
        raise UnsupportedError(
            f"{label} is {source} in the file and has a value that does not fit {kind.simpleString()}; "
            "declare the file's type in the schema"
        ) from None


def _is_convertible(source: Any, target: Any) -> bool:
    """Whether Spark's reader would read `source` as `target` with the value unchanged."""
    types = pa.types
    if types.is_integer(target):
        if types.is_duration(source) or types.is_time64(source):
            return bool(types.is_int64(target))
        if not types.is_integer(source):
            return False
        needed = source.bit_width * (1 if types.is_signed_integer(source) else 2)
        # INT32 also stores narrower types; the cast checks that each value fits.
        return bool(needed <= max(32, target.bit_width))
    if types.is_floating(target):
        if types.is_integer(source):
            return bool(types.is_float64(target) and source.bit_width <= 32)
        return bool(types.is_floating(source) and source.bit_width <= target.bit_width)
    if types.is_decimal(target):
        return bool(types.is_integer(source) or (types.is_decimal(source) and source.scale <= target.scale))
    if types.is_string(target) or types.is_binary(target):
        return (
            _is_text(source)
            or _is_bytes(source)
            or bool(types.is_fixed_size_binary(source) and types.is_binary(target))
        )
    if types.is_date(target):
        return bool(types.is_date(source))
    if types.is_timestamp(target):
        return bool(types.is_timestamp(source) and source.unit != "ns" and (source.tz is None or target.tz is not None))
    if types.is_time64(target):
        return bool(types.is_time64(source) and source.unit == "us")
    if types.is_duration(target):
        return bool(types.is_duration(source) or types.is_int64(source))
    return False


def _convert_struct(
    array: pa.StructArray, kind: T.StructType, target: pa.StructType, label: str, case_sensitive: bool
) -> pa.Array:
    names = [field.name for field in array.type]
    children = []
    for field, arrow_field in zip(kind.fields, target, strict=True):
        name = resolve(names, field.name, case_sensitive=case_sensitive)
        inner = f"{label}.{field.name}"
        child = (
            pa.nulls(len(array), arrow_field.type)
            if name is None
            else convert(array.field(name), field.dataType, arrow_field.type, inner, case_sensitive)
        )
        if not arrow_field.nullable and pc.any(pc.and_(array.is_valid(), child.is_null())).as_py():
            raise UnsupportedError(f"{inner} has nulls, but the schema declares it NOT NULL; make the field nullable")
        children.append(child)
    if not children:
        return pa.Array.from_buffers(target, len(array), [pc.is_valid(array).buffers()[1]])
    return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null() if array.null_count else None)


def _convert_list(array: Any, kind: T.ArrayType, target: pa.ListType, label: str, case_sensitive: bool) -> pa.Array:
    if not pa.types.is_list(array.type):
        array = _to_plain_list(array)
    values = convert(array.values, kind.elementType, target.value_type, f"{label}.element", case_sensitive)
    return pa.Array.from_buffers(
        target, len(array), array.buffers()[:2], array.null_count, array.offset, children=[values]
    )


def _to_plain_list(array: Any) -> pa.ListArray:
    """A large, fixed-size or view list as a plain list. Arrow's own cast of list views makes too few offsets."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
    return pa.ListArray.from_arrays(offsets, array.flatten(), mask=array.is_null())


def _convert_map(array: pa.MapArray, kind: T.MapType, target: pa.MapType, label: str, case_sensitive: bool) -> pa.Array:
    keys = convert(array.keys, kind.keyType, target.key_type, f"{label}.key", case_sensitive)
    values = convert(array.items, kind.valueType, target.item_type, f"{label}.value", case_sensitive)
    entries = pa.StructArray.from_arrays([keys, values], fields=[target.key_field, target.item_field])
    return pa.Array.from_buffers(
        target, len(array), array.buffers()[:2], array.null_count, array.offset, children=[entries]
    )


def _convert_variant(array: pa.StructArray, target: pa.StructType, label: str) -> pa.Array:
    names = [field.name for field in array.type]
    if sorted(names) != ["metadata", "value"]:
        raise UnsupportedError(
            f"{label} is a shredded variant, which the Python data source cannot read; use spark.read.parquet, or "
            "give a schema without the column"
        )
    children = [array.field(names.index(field.name)).cast(field.type) for field in target]
    return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null() if array.null_count else None)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))
