"""Small Delta tables, whose row groups only Bloom filters tell apart, and statements at the same time as others."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.support.scenarios import texts
from tests.support.spark import conf

COLUMNS = {
    "id": ("BIGINT", "id * 37 % 801"),  # each value of `id` is in one row group
    "a": ("BIGINT", "id * 62 % 1602"),  # even
    "b": ("BIGINT", "id * 74 % 1602 + 1"),  # odd
    "s": ("STRUCT<a: BIGINT, b: BIGINT>", "named_struct('a', id * 62 % 1602, 'b', id * 74 % 1602 + 1)"),
    "l": (
        "ARRAY<STRUCT<a: BIGINT, b: BIGINT>>", "array(named_struct('a', id * 62 % 1602, 'b', id * 74 % 1602 + 1))"
    ),
    "at": ("TIMESTAMP", "timestamp_seconds(1700000000 + id * 41 % 801 * 3600)"),
    "p": ("INT", "CAST(id % 2 AS INT)"),
}  # fmt: skip
FILTERS = {
    "parquet.bloom.filter.enabled": "true",
    "parquet.bloom.filter.max.bytes": "1024",
    "parquet.enable.dictionary": "false",  # parquet-java writes no filter beside one
    "parquet.block.row.count.limit": "100",
}
"""Settings with which Delta's writer makes a filter on every column, and row groups of a hundred rows."""
VECTORS = "'delta.enableDeletionVectors' = 'true'"
BY_NAME = "'delta.columnMapping.mode' = 'name'"
UPGRADE = f"{BY_NAME}, 'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5'"
_groups = itertools.count()


@dataclass(frozen=True)
class Table:
    spark: SparkSession
    path: Path

    @property
    def name(self) -> str:
        return f"delta.`{self.path}`"

    def sql(self, text: str) -> DataFrame:
        return self.spark.sql(text.format(t=self.name))

    def where(self, condition: str, columns: str = "*") -> DataFrame:
        return self.spark.sql(f"SELECT {columns} FROM {self.name} WHERE {condition}")

    def append(self, first: int = 0, number: int = 800) -> None:
        """Two files, of four row groups each. Columns that the table no longer has are left out."""
        has = set(self.sql("SELECT * FROM {t}").columns)
        values = [f"{value} AS {name}" for name, (_, value) in COLUMNS.items() if name in has]
        frame = self.spark.range(first, first + number, numPartitions=2).selectExpr(*values)
        with conf(self.spark, FILTERS):
            frame.write.format("delta").mode("append").save(str(self.path))

    def contents(self) -> list[str]:
        return texts(self.sql("SELECT * FROM {t}").collect())


def create(spark: SparkSession, path: Path, properties: str = "", partition: str = "", number: int = 800) -> Table:
    """A table with eight row groups, unless `number` of rows says otherwise."""
    table = Table(spark, path)
    columns = ", ".join(f"{name} {type_}" for name, (type_, _) in COLUMNS.items())
    by, of_table = partition and f"PARTITIONED BY ({partition})", properties and f"TBLPROPERTIES ({properties})"
    table.sql(f"CREATE TABLE {{t}} ({columns}) USING delta {by} {of_table}")
    table.append(number=number)
    return table


def rows_read(spark: SparkSession, sql: str) -> tuple[int, int]:
    """How many rows tasks read from files while a statement runs, and how many jobs it has.

    Spark's reader skips no row group by itself.
    """
    context: Any = spark.sparkContext._jsc.sc()  # type: ignore[union-attr]
    group = f"delta-{next(_groups)}"
    spark.sparkContext.setJobGroup(group, group)
    try:
        with conf(spark, {"parquet.filter.bloom.enabled": "false"}):
            spark.sql(sql).collect()
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    context.listenerBus().waitUntilEmpty()
    tracker = spark.sparkContext.statusTracker()
    jobs = tracker.getJobIdsForGroup(group)
    stages = {stage for job in jobs for stage in (tracker.getJobInfo(job) or 0).stageIds}  # type: ignore[union-attr]
    read = sum(context.statusStore().lastStageAttempt(stage).inputRecords() for stage in stages)
    return read, len(jobs)
