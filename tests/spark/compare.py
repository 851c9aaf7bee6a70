"""Compares this project's reader with ``spark.read.parquet`` over the same files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.support.scenarios import read, texts


def load(spark: SparkSession, path: Path | str | list[str], schema: Any = None, **options: Any) -> DataFrame:
    """The files by this project's reader; without ``pushFilters``, and so without its warning, by default."""
    return read(spark, "bloomparquet", path, schema, **{"pushFilters": "off", **options})


def parquet(spark: SparkSession, path: Path | str | list[str], schema: Any = None, **options: Any) -> DataFrame:
    """The files by Spark's own reader."""
    return read(spark, "parquet", path, schema, **options)


def rows(frame: DataFrame) -> list[str]:
    """All rows as sorted texts, in which NaN equals NaN and -0.0 differs from 0.0."""
    return texts(frame.collect())


def assert_same(spark: SparkSession, path: Path | str | list[str], **options: Any) -> DataFrame:
    """Assert that schema and rows are those of Spark's own reader; return our frame."""
    ours, theirs = load(spark, path, **options), parquet(spark, path, **options)
    assert ours.schema == theirs.schema
    assert rows(ours) == rows(theirs)
    return ours


def rows_and_tasks(frame: DataFrame) -> tuple[list[str], int]:
    """All rows as sorted texts, and the number of tasks, by one plan."""
    rdd = frame.rdd
    return texts(rdd.collect()), rdd.getNumPartitions()
