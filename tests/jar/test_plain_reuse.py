"""Frames of Spark's own sources that are used again: caches, kept RDDs, several threads."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from pyspark_bloomparquet import last_plan
from tests.support import files, plain
from tests.support.scenarios import PRUNED, texts
from tests.support.spark import conf

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("compiled")]

FILES, ROWS = 4, 40


def write(root: Path, number: int, add: int = 0) -> None:
    """A file of four row groups. Only filters can tell in which file and row group an id is."""
    ids = [number + FILES * (row * 7 % ROWS) + add for row in range(ROWS)]
    files.write(root / f"{number}.parquet", {"id": ids, "v": [add] * ROWS}, ["id"], rows_per_group=10, fpp=0.0001)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for number in range(FILES):
        write(tmp_path / "t", number)
    return tmp_path / "t"


@pytest.fixture
def session(request: pytest.FixtureRequest, jar_spark: SparkSession) -> Iterator[SparkSession]:
    with conf(jar_spark, {"spark.sql.adaptive.enabled": getattr(request, "param", "true"), **PRUNED}):
        yield jar_spark


both = pytest.mark.parametrize("session", ["true", "false"], ids=["adaptive", "not-adaptive"], indirect=True)
"""For tests of queries that adaptive execution plans in another way."""


def ids(frame: DataFrame) -> list[int]:
    return sorted(row["id"] for row in frame.collect())


@both
def test_each_query_of_one_frame_has_its_own_plan(session: SparkSession, root: Path) -> None:
    frame = session.read.parquet(str(root))
    one, two = frame.where("id = 1"), frame.where("id IN (2, 3)")
    assert (one.count(), frame.count(), ids(two), ids(one)) == (1, 160, [2, 3], [1])
    assert [ids(one) for _ in range(3)] == [[1]] * 3
    assert ids(one.union(two).union(frame.where("id = -1"))) == [1, 2, 3]
    assert ids(frame.where("id = 2").union(frame)) == sorted([2, *range(160)])
    assert ids(frame.where("id < 3").alias("l").join(frame.where("id > 1").alias("r"), "id").select("id")) == [2]
    left, right = (frame.where(where).groupBy("v").count() for where in ("id IN (1, 2)", "id IN (2, 3, 4)"))
    assert texts(left.union(right).union(left).collect()) == ["(0, 2)", "(0, 2)", "(0, 3)"]
    assert [plan.kept for plan in last_plan(one)] == [1]


def test_a_cache_is_not_pruned_by_later_filters(session: SparkSession, root: Path) -> None:
    frame = session.read.parquet(str(root))
    for cached in (frame.where("id >= 100").cache(), frame.cache()):
        try:
            for _ in range(2):
                assert ids(cached.where("id = 103")) == [103]
                assert ids(cached.where("id >= 150")) == list(range(150, 160))
                assert ids(frame.where("id = 1")) == [1]
        finally:
            cached.unpersist(blocking=True)


def test_files_added_after_the_load_are_not_read(session: SparkSession, root: Path) -> None:
    frame = session.read.parquet(str(root))
    write(root, FILES, add=1)  # with another 5
    assert plain.compare(session, lambda: frame.where("id = 5")).rows == ["(5, 0)"]
    assert len(plain.compare(session, lambda: session.read.parquet(str(root)).where("id = 5")).rows) == 2


@both
def test_a_plan_that_keeps_all_leaves_sparks_scan(session: SparkSession, root: Path) -> None:
    frame = session.read.parquet(str(root))
    every, some = frame.where("id >= 0"), frame.where("id = 1")
    for query, node in ((every, "FileScanRDD"), (some, "KeptRows")):
        debug = query._jdf.queryExecution().toRdd().toDebugString()
        assert ("KeptRows" in debug) == (node == "KeptRows")
    assert len(ids(every)) == FILES * ROWS
    (plan,) = last_plan(every)
    assert (plan.planned, plan.kept, plan.total) == (True, 16, 16)
    files.write(root / "1.parquet", {"id": range(1000, 1400), "v": [1] * 400}, ["id"], rows_per_group=10)  # it grows
    grown = frame.where("id >= 0")  # Spark would read as many bytes as it has listed
    assert len(ids(grown)) == 3 * ROWS + 400
    assert [each.kept for each in last_plan(grown)] == [12 + 40]


def test_each_thread_gets_the_plan_of_its_own_query(jar_spark: SparkSession, root: Path) -> None:
    """Each new thread of the JVM has its own class loader, which must find the jar's classes."""

    def look_up(value: int) -> tuple[list[int], list[int]]:
        query = jar_spark.read.format("bloomparquet").load(str(root)).where(f"id = {value}")
        return ids(query), [plan.kept for plan in last_plan(query)]

    with conf(jar_spark, PRUNED), ThreadPoolExecutor(8) as threads:
        assert list(threads.map(look_up, range(16))) == [([value], [1]) for value in range(16)]
