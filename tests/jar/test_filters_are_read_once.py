"""A pruned scan does not read the Bloom filters of the row groups that it keeps: the planner has asked them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pyspark_bloomparquet import last_plan

FILTER_BYTES = 512 * 1024


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """One file with two row groups, and filters that are larger than all else."""
    ids = pa.table({"id": pa.array([i * 7919 % 10_007 for i in range(2_000)], pa.int64())})
    filters = {"id": {"ndv": 400_000, "fpp": 0.01}}
    pq.write_table(
        ids, tmp_path / "a.parquet", row_group_size=1_000, bloom_filter_options=filters, use_dictionary=False
    )
    sizes = {pq.read_metadata(tmp_path / "a.parquet").row_group(i).column(0).bloom_filter_length for i in range(2)}
    assert min(sizes) >= FILTER_BYTES
    return tmp_path


def test_tasks_read_no_filter(jar_spark: SparkSession, root: Path) -> None:
    found = jar_spark.read.parquet(str(root)).where("id = 7919")
    before = bytes_read(jar_spark)
    assert found.collect() == [(7919,)]
    read = bytes_read(jar_spark) - before
    assert (last_plan(found)[0].kept, last_plan(found)[0].total) == (1, 2)
    assert 0 < read < FILTER_BYTES


def bytes_read(spark: SparkSession) -> int:
    """The bytes that Hadoop has read from local files in this process."""
    statistics = spark._jvm.org.apache.hadoop.fs.FileSystem.getAllStatistics()
    return sum(each.getBytesRead() for each in statistics if each.getScheme() == "file")
