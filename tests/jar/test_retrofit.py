"""Filters that are added, shrunk or removed during a session with the jar: the next query uses them, and no query
loses a row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import bloomparquet as bp
from pyspark_bloomparquet import add_filters, last_plan, shrink_filters
from tests.support.spark import rows, write

pytestmark = pytest.mark.slow

FILES, ROWS = 4, 8_000
VALUE = 7919 * 6_666 % 1_000_003


def load(spark: SparkSession, path: str) -> DataFrame:
    return spark.read.format("bloomparquet").load(path)


def skipped(frame: DataFrame) -> int:
    """Run the frame. Returns the number of row groups that Bloom filters skipped."""
    frame.collect()
    (plan,) = last_plan(frame)
    assert plan.planned, plan.reason
    return plan.skipped["bloom"]


def by_spark(spark: SparkSession, path: Path, bloom: dict[str, None]) -> str:
    """Spark's files. The columns of `bloom` have filters of 1 MiB in each row group."""
    frame = spark.range(ROWS).selectExpr("id * 7919 % 1000003 AS id", "uuid() AS name", "id % 2 = 0 AS even")
    return write(frame, path, bloom, files=FILES, rows_per_group=400)


def test_next_query_uses_the_new_filters(jar_spark: SparkSession, tmp_path: Path) -> None:
    bare = by_spark(jar_spark, tmp_path / "t", {})
    expected = rows(jar_spark.read.parquet(bare).where(f"id = {VALUE}"))
    assert len(expected) == 1
    assert skipped(load(jar_spark, bare).where(f"id = {VALUE}")) == 0
    assert {row.action for row in add_filters(jar_spark, bare, "ID").collect()} == {"added"}
    frame = load(jar_spark, bare).where(f"id = {VALUE}")
    assert skipped(frame) >= 18  # of 20, less a false positive
    assert rows(frame) == expected


CHANGES: dict[str, Callable[[SparkSession, str], object]] = {
    "dropped": lambda spark, path: shrink_filters(spark, path, drop_above=1e-300),
    "made anew": lambda spark, path: add_filters(spark, path, {"id": bp.Bloom(fpp=0.0001)}, replace=True),
}


@pytest.mark.parametrize("change", CHANGES)
def test_earlier_plans_and_listings_keep_their_rows(jar_spark: SparkSession, tmp_path: Path, change: str) -> None:
    large = by_spark(jar_spark, tmp_path / "t", {"id": None, "even": None})
    values = f"{VALUE}, 7919, {7919 * 7_999 % 1_000_003}"
    expected = rows(jar_spark.read.parquet(large).where(f"id IN ({values})"))
    everything = rows(jar_spark.read.parquet(large))
    assert len(expected) == 3
    fresh, planned = load(jar_spark, large), load(jar_spark, large)
    assert skipped(planned.where(f"id IN ({values})")) > 0
    jar_spark.sql(f"CREATE TEMPORARY VIEW before USING bloomparquet OPTIONS (path '{large}')")
    jar_spark.sql(f"CREATE TABLE listed USING bloomparquet LOCATION '{large}'")
    try:
        for name in ("before", "listed"):
            assert rows(jar_spark.table(name).where(f"id IN ({values})")) == expected
        CHANGES[change](jar_spark, large)
        for frame in (fresh, planned, jar_spark.table("before"), load(jar_spark, large)):
            assert rows(frame.where(f"id IN ({values})")) == expected
            assert rows(frame) == everything
        jar_spark.sql("REFRESH TABLE listed")
        for frame in (jar_spark.table("listed"), load(jar_spark, large)):
            spared = skipped(frame.where(f"id IN ({values})"))
            assert (spared == 0) is (change == "dropped")
    finally:
        jar_spark.sql("DROP VIEW before")
        jar_spark.sql("DROP TABLE listed")
