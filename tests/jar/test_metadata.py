"""The hidden column ``_metadata`` equals that of ``spark.read.parquet``."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from pyspark_bloomparquet import last_plan
from tests.support.spark import conf, rows, write

# these depend on how the reader splits files
FIELDS = ["file_path", "file_name", "file_size", "file_modification_time", "row_index"]


@pytest.fixture(scope="module")
def path(jar_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    frame = jar_spark.range(0, 600, 1, 3).selectExpr("id", "id * 7 % 600 AS k", "id % 2 AS p", "struct(id AS x) AS st")
    return write(frame, tmp_path_factory.mktemp("metadata") / "a b", {"k": 50}, rows_per_group=50, partition_by=("p",))


def both(jar_spark: SparkSession, path: str) -> tuple[DataFrame, DataFrame]:
    return jar_spark.read.format("bloomparquet").load(path), jar_spark.read.parquet(path)


@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_metadata_fields_equal_sparks(jar_spark: SparkSession, path: str, vectorized: str) -> None:
    columns = ["id", *(f"_metadata.{field}" for field in FIELDS), "p", "st.x"]
    with conf(jar_spark, {"spark.sql.parquet.enableVectorizedReader": vectorized}):
        ours, theirs = (frame.select(*columns) for frame in both(jar_spark, path))
        assert rows(ours) == rows(theirs)
        assert ours.schema == theirs.schema


def test_row_index_counts_the_rows_of_skipped_row_groups(jar_spark: SparkSession, path: str) -> None:
    ours, theirs = (frame.where("k = 411").select("id", "_metadata.row_index") for frame in both(jar_spark, path))
    assert rows(ours) == rows(theirs)
    assert len(ours.collect()) == 1
    (scan,) = last_plan(ours)
    assert 1 <= scan.kept < scan.total == 12


def test_metadata_in_filters_and_groups(jar_spark: SparkSession, path: str) -> None:
    for ask in (
        lambda frame: frame.where("_metadata.file_name LIKE 'part-00001%'").select("id"),
        lambda frame: frame.groupBy("_metadata.file_name", "p").count(),
        lambda frame: frame.select("_metadata").select("_metadata.file_path").distinct(),
    ):
        ours, theirs = map(ask, both(jar_spark, path))
        assert rows(ours) == rows(theirs) != []


def test_metadata_with_where_of_the_load(jar_spark: SparkSession, path: str) -> None:
    bound = jar_spark.read.format("bloomparquet").option("where", "k BETWEEN 400 AND 411").load(path)
    expected = jar_spark.read.parquet(path).where("k BETWEEN 400 AND 411")
    assert rows(bound.select("_metadata.row_index", "id")) == rows(expected.select("_metadata.row_index", "id"))


def test_metadata_has_the_byte_range_that_was_read(jar_spark: SparkSession, path: str) -> None:
    (row,) = both(jar_spark, path)[0].where("k = 411").select("_metadata.*").collect()
    assert 4 <= row.file_block_start < row.file_block_start + row.file_block_length <= row.file_size


def test_a_file_column_hides_metadata(jar_spark: SparkSession, tmp_path: Path) -> None:
    own = write(jar_spark.range(3).selectExpr("id", "id * 2 AS _metadata"), tmp_path / "own")
    ours, theirs = (frame.select("_metadata", "id") for frame in both(jar_spark, own))
    assert rows(ours) == rows(theirs) == [(0, 0), (2, 1), (4, 2)]
