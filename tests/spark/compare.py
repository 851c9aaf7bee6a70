"""The yardstick of these tests: what ``spark.read.parquet`` says of the same files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.support.scenarios import read, texts


def load(spark: SparkSession, path: Path | str | list[str], schema: Any = None, **options: Any) -> DataFrame:
    """The files by this project; quiet about pruning unless a test asks for it."""
    return read(spark, "bloomparquet", path, schema, **{"pushFilters": "off", **options})


def parquet(spark: SparkSession, path: Path | str | list[str], schema: Any = None, **options: Any) -> DataFrame:
    """The files by Spark's own reader."""
    return read(spark, "parquet", path, schema, **options)


def rows(frame: DataFrame) -> list[str]:
    """All rows, as texts in an order of their own: NaN equals NaN there, and -0.0 is not 0.0."""
    return texts(frame.collect())


def assert_same(spark: SparkSession, path: Path | str | list[str], **options: Any) -> DataFrame:
    """Same schema and same rows as Spark's own reader; gives our frame back."""
    ours, theirs = load(spark, path, **options), parquet(spark, path, **options)
    assert ours.schema == theirs.schema
    assert rows(ours) == rows(theirs)
    return ours


def partitions(frame: DataFrame) -> int:
    return int(frame.rdd.getNumPartitions())
