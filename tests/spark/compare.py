"""The yardstick of these tests: what ``spark.read.parquet`` says of the same files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession


def load(spark: SparkSession, path: Path | str | list[str], schema: Any = None, **options: Any) -> DataFrame:
    """The files by this project; quiet about pruning unless a test asks for it."""
    return _read(spark, "bloomparquet", path, schema, {"pushFilters": "off", **options})


def parquet(spark: SparkSession, path: Path | str | list[str], schema: Any = None, **options: Any) -> DataFrame:
    """The files by Spark's own reader."""
    return _read(spark, "parquet", path, schema, options)


def _read(
    spark: SparkSession, name: str, path: Path | str | list[str], schema: Any, options: dict[str, Any]
) -> DataFrame:
    reader = spark.read.format(name)
    if schema is not None:
        reader = reader.schema(schema)
    for key, value in options.items():
        reader = reader.option(key, value)
    return reader.load(path if isinstance(path, list) else str(path))


def rows(frame: DataFrame) -> list[str]:
    """All rows, as texts in an order of their own: NaN equals NaN there, and -0.0 is not 0.0."""
    return sorted(repr(tuple(row)) for row in frame.collect())


def assert_same(spark: SparkSession, path: Path | str | list[str], **options: Any) -> DataFrame:
    """Same schema and same rows as Spark's own reader; gives our frame back."""
    ours, theirs = load(spark, path, **options), parquet(spark, path, **options)
    assert ours.schema == theirs.schema
    assert rows(ours) == rows(theirs)
    return ours


def partitions(frame: DataFrame) -> int:
    return int(frame.rdd.getNumPartitions())
