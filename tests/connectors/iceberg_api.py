"""Iceberg tables with small row groups and Bloom filters, and changes that no SQL of Spark makes."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession


def properties(filters: Iterable[str], rows_per_group: int = 100, **more: object) -> str:
    """Properties of a table as SQL. The columns `filters` have Bloom filters."""
    given: dict[str, object] = {
        "write.parquet.row-group-size-bytes": 1000,
        "write.parquet.row-group-check-min-record-count": rows_per_group,
        "write.parquet.row-group-check-max-record-count": rows_per_group,
        "write.parquet.bloom-filter-max-bytes": 4096,
        **{f"write.parquet.bloom-filter-enabled.column.{name}": "true" for name in filters},
        **more,
    }
    return ", ".join(f"'{key}'='{value}'" for key, value in given.items())


def load(spark: SparkSession, name: str) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)


def add_column_with_default(spark: SparkSession, name: str, column: str, default: int) -> None:
    jvm: Any = spark._jvm
    iceberg = jvm.org.apache.iceberg
    kind = iceberg.types.Types.IntegerType.get()
    change = load(spark, name).updateSchema()
    change.addColumn(column, kind, iceberg.expressions.Literal.of(default)).commit()
    spark.sql(f"REFRESH TABLE {name}")


def add_uuid(spark: SparkSession, name: str, column: str) -> None:
    jvm: Any = spark._jvm
    load(spark, name).updateSchema().addColumn(column, jvm.org.apache.iceberg.types.Types.UUIDType.get()).commit()
    spark.sql(f"REFRESH TABLE {name}")


def delete_by_equality(spark: SparkSession, name: str, column: str, values: Sequence[int]) -> None:
    """Add an equality delete file to a table without partitions."""
    jvm: Any = spark._jvm
    table = load(spark, name)
    field = table.schema().findField(column)
    kind = pa.int64() if str(field.type()) == "long" else pa.int32()
    path = f"{table.location().removeprefix('file:')}/data/equal-{uuid.uuid4()}.parquet"
    schema = pa.schema([pa.field(column, kind, metadata={"PARQUET:field_id": str(field.fieldId())})])
    pq.write_table(pa.table({column: pa.array(values, kind)}, schema), path)
    ids = spark.sparkContext._gateway.new_array(jvm.int, 1)  # type: ignore[union-attr]
    ids[0] = field.fieldId()
    iceberg = jvm.org.apache.iceberg
    file = iceberg.FileMetadata.deleteFileBuilder(table.spec()).ofEqualityDeletes(ids).withPath(path)
    file = file.withFormat("parquet").withFileSizeInBytes(Path(path).stat().st_size).withRecordCount(len(values))
    table.newRowDelta().addDeletes(file.build()).commit()
    spark.sql(f"REFRESH TABLE {name}")


ROWS = 1000
ROW = "CAST(pmod(i * 7919, 1000) AS BIGINT) AS id, concat('v', pmod(i * 7919, 1000)) AS v"
"""Each id from 0 to 999 once, in ten row groups that statistics cannot tell apart."""


def create(
    spark: SparkSession, name: str, row: str = ROW, partition: str = "", *, filters: Iterable[str] = (), **more: object
) -> str:
    """A table of ROWS rows, `row` for each number `i`. `filters`: more columns that have Bloom filters."""
    listed = properties(("id", "v", *filters), **{"format-version": 3, **more})
    partitioned = f"PARTITIONED BY ({partition})" if partition else ""
    select = f"SELECT {row} FROM range(0, {ROWS}, 1, 1) r(i)"
    table = f"lake.db.{name}"
    spark.sql(f"CREATE TABLE {table} USING iceberg {partitioned} TBLPROPERTIES ({listed}) AS {select}")
    return table
