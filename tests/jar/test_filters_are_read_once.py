"""A pruned scan does not read the Bloom filters of the row groups that it keeps: the planner has asked them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_bloomparquet import last_plan
from tests.support import files
from tests.support.scenarios import scans
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


@pytest.mark.parametrize("has_filter", [True, False])
def test_dictionaries_exclude_only_where_no_filter_was_asked(
    jar_spark: SparkSession, tmp_path: Path, has_filter: bool
) -> None:
    """Bounds exclude the second file. The first holds even numbers, which only its dictionary tells, and a filter that
    says yes to everything."""
    for number, start in enumerate((0, 10_000)):
        ids, bloom = {"id": [*range(start, start + 400, 2)]}, ["id"] if has_filter else []
        path = files.write(tmp_path / f"{number}.parquet", ids, bloom, use_dictionary=["id"])
        if has_filter:
            offset, length = files.filter_offset(path)
            assert length is not None
            bitset = 1 << (length.bit_length() - 1)
            files.patch(path, offset + length - bitset, b"\xff" * bitset)
    with conf(jar_spark, {"spark.bloomparquet.transparent": "true"}):
        frame = jar_spark.read.parquet(str(tmp_path)).where("id = 51")
        assert frame.collect() == []
        (plan,) = last_plan(frame)
        (scan,) = scans(frame._jdf.queryExecution().executedPlan())
    assert (plan.total, plan.kept) == (2, 1)
    assert (scan.children().apply(0).metrics().apply("numOutputRows").value() > 0) == has_filter
