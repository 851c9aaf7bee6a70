"""Several queries over one DataFrame: the filters of one query do not apply to another.

Spark 4.1 to 4.3 keep one plan for all scans of a loaded Python relation, made with the filters that were pushed last. A
source that skips row groups by pushed filters then silently loses rows, so only ``pushFilters=on`` asks for them, which
is for one query.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from pyspark_bloomparquet.read.pushed_filters import CAN_PUSH
from tests.spark.compare import load, rows_and_tasks
from tests.support import files
from tests.support.spark import conf

needs_pushing = pytest.mark.skipif(not CAN_PUSH, reason="Spark 4.0 pushes no filters to Python data sources")
ENABLED = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("reuse")
    for i in (1, 2, 3, 4):
        files.write(root / f"{i}.parquet", {"id": [i], "name": [f"n{i}"]}, ["id", "name"])
    return str(root)


@pytest.fixture
def frame(spark: SparkSession, data: str) -> Iterator[DataFrame]:
    with conf(spark, {ENABLED: "true"}):
        yield load(spark, data, pushFilters="auto")


def ids(frame: DataFrame) -> list[int]:
    return sorted(row["id"] for row in frame.collect())


def test_filtered_then_unfiltered(frame: DataFrame) -> None:
    assert frame.where("id = 1").count() == 1
    assert ids(frame) == [1, 2, 3, 4]
    assert ids(frame.where("id = 1").union(frame.where("id = 3"))) == [1, 3]


def test_both_sides_of_a_self_join_keep_their_filters(frame: DataFrame) -> None:
    left, right = frame.where("id >= 3").alias("l"), frame.where("id <= 3").alias("r")
    assert [tuple(row) for row in left.join(right, "id").select("id", "r.name").collect()] == [(3, "n3")]


def test_a_view_used_twice(frame: DataFrame, spark: SparkSession) -> None:
    frame.createOrReplaceTempView("reused")
    union = spark.sql("SELECT id FROM reused WHERE id = 1 UNION ALL SELECT id FROM reused WHERE id = 2")
    assert ids(union) == [1, 2]
    assert ids(spark.sql("SELECT id FROM reused WHERE id IN (SELECT id + 1 FROM reused WHERE name = 'n2')")) == [3]


@needs_pushing
def test_spark_mixes_up_pushed_filters(spark: SparkSession, data: str) -> None:
    """On a Spark that does not, pushFilters=auto may push: this test and the docs would say since when."""
    with conf(spark, {ENABLED: "true"}):
        frame = load(spark, data, pushFilters="on")
        assert frame.where("id = 1").count() == 1
        assert frame.count() != 4


@needs_pushing
@pytest.mark.parametrize(
    ("predicate", "expected"), [("id IN (2, 4) AND name LIKE 'n%'", [2, 4]), ("id > 2 AND name = 'n77'", [])]
)
def test_push_filters_on_is_right_for_one_query(
    spark: SparkSession, data: str, predicate: str, expected: list[int]
) -> None:
    small = {"maxPartitionBytes": "1", "openCostInBytes": "1"}  # a task for each row group
    with conf(spark, {ENABLED: "true"}):
        frame = load(spark, data, pushFilters="on", **small).where(predicate).select("id")
        assert rows_and_tasks(frame) == ([f"({i},)" for i in expected], max(1, len(expected)))
