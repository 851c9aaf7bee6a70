"""A pruned scan does not read the Bloom filters of the row groups that it keeps: the planner has asked them."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from pyspark_bloomparquet import last_plan
from tests.support.spark import conf

FILTER_BYTES = 1 << 20  # of Spark's own writer, for each row group


def test_tasks_read_no_filter(jar_spark: SparkSession, tmp_path: Path) -> None:
    root = str(tmp_path / "even and odd")
    for odd in (0, 1):
        ids = jar_spark.range(0, 10_000, 2, 1).selectExpr(f"(id * 7919 + {odd}) % 10000 AS id")
        ids.write.option("parquet.bloom.filter.enabled#id", "true").mode("append").parquet(root)
    with conf(jar_spark, {"spark.bloomparquet.transparent": "true"}):
        row = jar_spark.read.parquet(root).where("id = 4711")
        before = bytes_read(jar_spark)
        assert row.collect() == [(4711,)]
        read = bytes_read(jar_spark) - before
        assert str(last_plan(row)[0]) == "1 of 2 row groups kept; 1 skipped by Bloom filter"
    assert 0 < read < FILTER_BYTES


def bytes_read(spark: SparkSession) -> int:
    """The bytes that Hadoop has read from local files in this process."""
    statistics = spark._jvm.org.apache.hadoop.fs.FileSystem.getAllStatistics()
    return sum(each.getBytesRead() for each in statistics if each.getScheme() == "file")
