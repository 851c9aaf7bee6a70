"""From a Spark schema to the schema of the files, so that ``spark.read.parquet`` finds the same types and names again.

pyarrow writes the files and knows Arrow types only. What a Spark type is and Arrow has no word for (intervals, the kind
of a UDT, CHAR and VARCHAR, collations, what a struct of two binaries means) is told by Spark's own key in the footer,
which its reader goes by.

Source: Spark's ``SparkToParquetSchemaConverter`` and ``ParquetWriteSupport``.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
from pyspark.sql import types as T  # noqa: N812 - the name that PySpark users give it

from bloomparquet.errors import UnsupportedError
from bloomparquet.format.footer import parse_footer
from bloomparquet.format.schema import FileSchema
from bloomparquet.names import fold
from bloomparquet.unify import rebuild
from pyspark_bloomparquet.batches import arrow_schema
from pyspark_bloomparquet.types import SPARK_SCHEMA_KEY

SPARK_VERSION_KEY = "org.apache.spark.version"
_FIELD_ID = "parquet.field.id"
_REFUSED = ("CalendarIntervalType", "YearMonthIntervalType", "GeometryType", "GeographyType")
_TRAILER = 8


def check_schema(schema: T.StructType, *, case_sensitive: bool) -> None:
    """The errors of ``df.write.parquet``, before anything is written, and UnsupportedError for what Spark hands over to
    no Python data source."""
    if not schema.fields:
        raise UnsupportedError("the DataFrame has no columns; a file needs one at least")
    _check(schema, (), case_sensitive)


def _check(kind: T.DataType, place: tuple[str, ...], case_sensitive: bool) -> None:
    if isinstance(kind, T.UserDefinedType):
        _check(kind.sqlType(), place, case_sensitive)
    elif isinstance(kind, T.StructType):
        if not kind.fields:
            raise UnsupportedError(f"column {'.'.join(place)} is a struct without fields; a file needs one at least")
        seen: set[str] = set()
        for field in kind.fields:
            name = fold(field.name, case_sensitive)
            if name in seen:
                inside = f" in {'.'.join(place)}" if place else ""
                raise UnsupportedError(
                    f"the column {field.name!r} already exists{inside}; choose another name or rename the existing "
                    "column (the option caseSensitive says whether case counts)"
                )
            seen.add(name)
            _check(field.dataType, (*place, field.name), case_sensitive)
    elif isinstance(kind, T.ArrayType):
        _check(kind.elementType, (*place, "element"), case_sensitive)
    elif isinstance(kind, T.MapType):
        _check(kind.keyType, (*place, "key"), case_sensitive)
        _check(kind.valueType, (*place, "value"), case_sensitive)
    elif type(kind).__name__ in _REFUSED:
        raise UnsupportedError(
            f"column {'.'.join(place)} is {kind.simpleString()}, which Spark hands over to no Python data source as "
            "something that can be written; cast it to another type, or write it with the jar"
        )


def file_schema(schema: T.StructType) -> pa.Schema:
    """What the columns of `schema` are in a file, with Spark's own description for its footer."""
    found = [_with_ids(field, spark) for field, spark in zip(arrow_schema(schema), schema.fields, strict=True)]
    # The footer counts days and instants as Spark 3 and later do, whose version says so to readers that doubt it.
    return pa.schema(found, {SPARK_SCHEMA_KEY: schema.json(), SPARK_VERSION_KEY: pyspark.__version__})


def _with_ids(field: pa.Field, spark: T.StructField) -> pa.Field:
    """`field` in a type that Parquet has, and with its field id where Spark knows one."""
    number = spark.metadata.get(_FIELD_ID) if spark.metadata else None
    plain = field.remove_metadata().with_type(_with_ids_below(field.type, spark.dataType))
    return plain if number is None else plain.with_metadata({"PARQUET:field_id": str(number)})


def _with_ids_below(kind: pa.DataType, spark: T.DataType) -> pa.DataType:
    if isinstance(spark, T.UserDefinedType):
        spark = spark.sqlType()
    if isinstance(spark, T.StructType):
        return pa.struct([_with_ids(field, inner) for field, inner in zip(kind, spark.fields, strict=True)])
    if isinstance(spark, T.ArrayType):
        value = kind.value_field
        return pa.list_(value.remove_metadata().with_type(_with_ids_below(value.type, spark.elementType)))
    if isinstance(spark, T.MapType):
        key = kind.key_field.with_type(_with_ids_below(kind.key_type, spark.keyType))
        return pa.map_(key, kind.item_field.with_type(_with_ids_below(kind.item_type, spark.valueType)))
    return rebuild(kind, _stored)


def _stored(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_time64(kind):
        return pa.time64("us")
    return kind


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """`batch`, as Spark hands it over, with the types of `schema`."""
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def stored_schema(schema: pa.Schema) -> FileSchema:
    """The Parquet schema of a file of `schema`."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema, **LAYOUT):
        pass
    file = memoryview(sink.getvalue()).cast("B")
    size = int.from_bytes(file[-_TRAILER:-4], "little")
    return parse_footer(bytes(file[-_TRAILER - size : -_TRAILER])).layout.schema


LAYOUT: dict[str, Any] = {"store_schema": False, "store_decimal_as_integer": True, "write_page_index": True}
"""What pyarrow is to write as Spark does."""
