"""Frames of Spark's own sources that are used again: caches, kept RDDs, streams, several threads and sessions."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from pyspark_bloomparquet import last_plan
from tests.support import files, plain
from tests.support.orc_spark import write_stripes
from tests.support.scenarios import PRUNED, UNPRUNED, texts
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


@both
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


def test_a_cache_keeps_its_rows_when_files_change(session: SparkSession, root: Path) -> None:
    cached = session.read.parquet(str(root)).where("id IN (5, 6)").cache()
    try:
        assert ids(cached) == [5, 6]
        for number in range(FILES):
            write(root, number, add=1000)
        assert ids(cached) == [5, 6]
    finally:
        cached.unpersist(blocking=True)
    assert ids(session.read.parquet(str(root)).where("id = 1005")) == [1005]


def test_files_added_after_the_load_are_not_read(session: SparkSession, root: Path) -> None:
    frame = session.read.parquet(str(root))
    write(root, FILES, add=1)  # with another 5
    assert plain.compare(session, lambda: frame.where("id = 5")).rows == ["(5, 0)"]
    assert len(plain.compare(session, lambda: session.read.parquet(str(root)).where("id = 5")).rows) == 2


def test_a_kept_rdd_fails_when_files_change(session: SparkSession, root: Path) -> None:
    rdd = session.read.parquet(str(root)).where("id IN (5, 6, 2005)").rdd
    assert sorted(row.id for row in rdd.collect()) == sorted(row.id for row in rdd.collect()) == [5, 6]
    write(root, 3, add=2002)  # a skipped file, which now has 2005
    with pytest.raises(Exception, match="changed after this query was planned"):
        rdd.collect()
    write(root, 1, add=8)  # a kept file
    with pytest.raises(Exception, match="changed after this query was planned"):
        rdd.count()


def test_the_scan_reports_what_it_read(session: SparkSession, root: Path) -> None:
    """Spark's own metrics of the scan count all listed files, and the rows of the kept row groups."""
    for vectorized in ("true", "false"):
        with conf(session, {"spark.sql.parquet.enableVectorizedReader": vectorized}):
            frame = session.read.parquet(str(root)).where("id IN (2, 3)")
            assert ids(frame) == [2, 3]
            (node,) = plain.nodes(frame._jdf.queryExecution().executedPlan())
            metrics = node.children().apply(0).metrics()
            counts = {name: metrics.apply(name).value() for name in ("numFiles", "numOutputRows")}
            assert counts == {"numFiles": FILES, "numOutputRows": 20}


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


def test_frames_beyond_the_cached_listings_are_planned(session: SparkSession, root: Path) -> None:
    """More than the planner and the jar remember, twice, and by a planner that knows none of them."""
    reader = session.read.schema("id BIGINT, v BIGINT")
    frames = [reader.parquet(*[str(root / f"{number}.parquet")] * (1 + i)) for i, number in enumerate([1, 2] * 10)]
    for value in (1, 5):
        for i, frame in enumerate(frames):
            query = frame.where(f"id = {value}")
            assert ids(query) == [value] * (1 + i if i % 2 == 0 else 0)
            assert [plan.planned for plan in last_plan(query)] == [True]


def test_checkpoints_keep_the_rows_of_a_pruned_frame(session: SparkSession, root: Path, tmp_path: Path) -> None:
    frame = session.read.parquet(str(root)).where("id IN (5, 6)")
    local = frame.localCheckpoint()
    session.sparkContext.setCheckpointDir(str(tmp_path / "checkpoints"))
    reliable = frame.checkpoint()
    for kept in (local, reliable):
        assert ids(kept) == [5, 6]
        assert ids(kept.where("id = 5")) == [5]
    rdd = frame.rdd
    rdd.checkpoint()
    assert sorted(row.id for row in rdd.collect()) == sorted(row.id for row in rdd.collect()) == [5, 6]
    for number in range(FILES):
        (root / f"{number}.parquet").unlink()
    assert ids(reliable) == sorted(row.id for row in rdd.collect()) == [5, 6]


@both
def test_views_and_path_queries_return_their_rows(session: SparkSession, root: Path) -> None:
    session.read.parquet(str(root)).createOrReplaceTempView("all_rows")
    session.sql("CREATE OR REPLACE TEMPORARY VIEW few AS SELECT id AS key, v FROM all_rows WHERE id IN (1, 2, 3)")
    session.sql(f"CREATE OR REPLACE TEMPORARY VIEW named USING parquet OPTIONS (path '{root}')")
    asked = {
        "SELECT key FROM few WHERE key > 1": ["(2,)", "(3,)"],
        f"SELECT id FROM parquet.`{root}` WHERE id = 77": ["(77,)"],
        "SELECT a.key FROM few a JOIN named b ON a.key = b.id WHERE b.id < 3": ["(1,)", "(2,)"],
        "SELECT id FROM named WHERE id = (SELECT max(key) FROM few)": ["(3,)"],
        "SELECT id FROM named WHERE id IN (SELECT key + 1 FROM few WHERE key = 3)": ["(4,)"],
        "SELECT count(*) FROM named WHERE id = -1": ["(0,)"],
    }
    for sql, rows in asked.items():
        assert plain.compare(session, lambda: session.sql(sql)).rows == rows  # noqa: B023


@pytest.mark.parametrize("source", ["parquet", "bloomparquet"])
def test_each_thread_gets_the_plan_of_its_own_query(jar_spark: SparkSession, root: Path, source: str) -> None:
    """Each new thread of the JVM has its own class loader, which must find the jar's classes."""

    def look_up(value: int) -> tuple[list[int], list[int]]:
        query = jar_spark.read.format(source).load(str(root)).where(f"id = {value}")
        return ids(query), [plan.kept for plan in last_plan(query)]

    with conf(jar_spark, PRUNED), ThreadPoolExecutor(8) as threads:
        assert list(threads.map(look_up, range(16))) == [([value], [1]) for value in range(16)]


def test_the_setting_of_a_session_affects_no_other(jar_spark: SparkSession, root: Path) -> None:
    """The setting of one new session does not affect another one, or those made later."""
    first, second = jar_spark.newSession(), jar_spark.newSession()
    first.sql("SET spark.bloomparquet.transparent = false")
    for session, is_pruned in ((first, False), (second, True), (jar_spark.newSession(), True)):
        query = session.read.parquet(str(root)).where("id = 5")
        assert ids(query) == [5]
        assert (plain.NODE in plain.executed(query)) == is_pruned
        assert [plan.kept for plan in last_plan(query) if plan.planned] == [1] * is_pruned


# -- streams -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_a_stream_is_pruned(jar_spark: SparkSession, tmp_path: Path, kind: str) -> None:
    results: list[tuple[list[str], int]] = []
    for pruning in (UNPRUNED, PRUNED):
        source, out = tmp_path / f"in{len(results)}", tmp_path / f"out{len(results)}"
        read = 0
        with conf(jar_spark, {**pruning, f"spark.sql.{kind}.filterPushdown": "false"}):
            for turn in range(2):
                if kind == "orc":
                    write_stripes(jar_spark.range(turn * 100, turn * 100 + 40, 1, 2), source, "id", rows=10)
                else:
                    for number in range(FILES):
                        write(tmp_path / "new", number, add=turn * 1000)
                        source.mkdir(exist_ok=True)
                        (tmp_path / "new" / f"{number}.parquet").rename(source / f"{turn}-{number}.parquet")
                schema = "id BIGINT, v BIGINT" if kind == "parquet" else "id BIGINT"
                stream = jar_spark.readStream.format(kind).schema(schema).load(str(source))
                query = (
                    stream.where("id IN (5, 6, 105, 1006, 77)")
                    .selectExpr("id", "_metadata.row_index" if kind == "parquet" else "_metadata.file_size")
                    .writeStream.format("parquet")
                    .options(path=str(out), checkpointLocation=f"{out}.checkpoint")
                    .trigger(availableNow=True)
                    .start()
                )
                assert query.awaitTermination(60)
                read += sum(progress["numInputRows"] for progress in query.recentProgress)
            results.append((texts(jar_spark.read.parquet(str(out)).collect()), read))
    (expected, everything), (rows, some) = results
    assert rows == expected
    assert len(rows) == (5 if kind == "parquet" else 3)
    assert 0 < some < everything


def test_a_batch_can_be_read_twice_and_joined(jar_spark: SparkSession, root: Path, tmp_path: Path) -> None:
    """A function of each batch reads it twice, and joins it with a table."""
    batches: list[list[int]] = []
    table = jar_spark.read.parquet(str(root))

    def handle(batch: DataFrame, _: Any) -> None:
        batches.append(ids(batch.join(table.where("id > 4"), "id").select("id")) + ids(batch.where("id = 3")))

    with conf(jar_spark, PRUNED):
        stream = jar_spark.readStream.schema("id BIGINT, v BIGINT").parquet(str(root)).where("id IN (3, 4, 5)")
        query = stream.writeStream.foreachBatch(handle).option("checkpointLocation", str(tmp_path / "c"))
        assert query.trigger(availableNow=True).start().awaitTermination(60)
    assert batches == [[5, 3]]
