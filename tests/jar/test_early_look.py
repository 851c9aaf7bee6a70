"""The planner looks at the files of a query when the query begins, and never before: a plan is of present files."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast

from pyspark_bloomparquet.jar.protocol import read_frame
from tests.support import files
from tests.support.planners import PYTHON, script
from tests.support.scenarios import PRUNED
from tests.support.spark import application_conf, conf

pytestmark = pytest.mark.slow

FILES = 110  # fewer are not looked at early


def write(root: Path, number: int, *more: int) -> None:
    """A file of two row groups, in place. Only filters can tell in which file an id is."""
    ids = [number + FILES * (row * 7 % 20) for row in range(20)] + list(more)
    files.write(root / f"{number}.parquet", {"id": ids}, ["id"], rows_per_group=-(-len(ids) // 2), fpp=0.0001)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("early-look")
    for number in range(FILES):
        write(root, number)
    return root


@pytest.fixture
def session(jar_spark: SparkSession) -> Iterator[SparkSession]:
    with conf(jar_spark, PRUNED):
        yield jar_spark


def ids(frame: DataFrame) -> list[int]:
    return [row["id"] for row in frame.collect()]


def joined(frame: DataFrame, value: int) -> DataFrame:
    keys = frame.sparkSession.createDataFrame([(value,)], "id long")
    return frame.join(keys.hint("broadcast"), "id")


QUERIES: dict[str, Callable[[DataFrame, int], DataFrame]] = {
    "lookup": lambda frame, value: frame.where(f"id = {value}"),
    "join": joined,
    "subquery": lambda frame, value: frame.where(f"id = (SELECT max(id) FROM VALUES ({value}) AS t(id))"),
}


@pytest.mark.parametrize("query", QUERIES)
def test_a_file_that_changed_before_a_query_is_found(session: SparkSession, root: Path, query: str) -> None:
    frame, ask = session.read.parquet(str(root)), QUERIES[query]
    try:
        assert [ids(ask(frame, value)) for value in (5, 7)] == [[5], [7]]
        new = 1_000_000
        assert ids(ask(frame, new)) == []
        explained, once = ask(frame, new), ask(frame, new)
        explained.explain()  # plans the query, long before it runs
        write(root, 60, new)
        assert (ids(once), ids(explained)) == ([new], [new])
    finally:
        write(root, 60)


@pytest.fixture
def frames(session: SparkSession, tmp_path: Path) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """The requests to a planner of its own, since the last call."""
    sent = tmp_path / "frames"
    program = script(tmp_path, f'tee "{sent}" | "{sys.executable}" "$@"')
    at = 0

    def read() -> list[dict[str, Any]]:
        nonlocal at
        requests = []
        with sent.open("rb") as stream:
            stream.seek(at)
            while (frame := read_frame(stream)) is not None:
                requests.append(frame[0])
            at = stream.tell()
        return requests

    with application_conf(session, {PYTHON: program}):
        yield read


def test_the_planner_is_told_once_when_a_query_begins(
    session: SparkSession, root: Path, frames: Callable[[], list[dict[str, Any]]]
) -> None:
    frame = session.read.parquet(str(root))
    ids(frame.where("id = 5"))
    assert not any("look" in each for each in frames()), "the files are not known before the first query"
    for name, query in QUERIES.items():
        assert ids(query(frame, 7)) == [7]
        *looks, plan = frames()
        assert {each["look"] for each in looks} == ({plan["listing"]} if name == "lookup" else set())
        assert {each["execution"] for each in looks} <= {plan["execution"]}
    frame.where("id = 9").explain()
    frame.count()
    assert frames() == [], "nothing runs that needs a plan"
    few = session.read.parquet(*(str(root / f"{number}.parquet") for number in range(20)))
    assert [ids(few.where(f"id = {value}")) for value in (5, 6)] == [[5], [6]]
    assert not any("look" in each for each in frames())


KEYS: dict[str, Callable[[DataFrame, DataFrame], DataFrame]] = {
    "join": lambda frame, keys: frame.join(broadcast(keys), "id"),
    "lookup in a join": lambda frame, keys: frame.where("id = 3000000").join(broadcast(keys), "id"),
    "subquery": lambda frame, keys: frame.where("id = (SELECT max(id) FROM keys)"),
}


@pytest.mark.parametrize("query", KEYS)
def test_rows_that_were_there_before_their_key_are_found(
    session: SparkSession, root: Path, tmp_path: Path, query: str
) -> None:
    """The key of a row is read after the query began, and was written after the row."""
    path, new, copy = root / "60.parquet", 3_000_000, tmp_path / "60.parquet"

    def write_row_then_key(keys: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        path.write_bytes(copy.read_bytes())
        yield from keys

    frame = session.read.parquet(str(root))
    assert ids(frame.where(f"id IN (7, {new})")) == [7]
    assert ids(frame.where(f"id = {new}")) == []
    old = path.read_bytes()
    write(root, 60, new)
    copy.write_bytes(path.read_bytes())
    path.write_bytes(old)
    keys = session.createDataFrame([(new,)], "id long").coalesce(1).mapInArrow(write_row_then_key, "id long")
    keys.collect()  # starts a Python worker, so that the next query takes less than a look lasts
    path.write_bytes(old)
    try:
        assert ids(frame.where(f"id = {new}")) == []
        keys.createOrReplaceTempView("keys")
        assert ids(KEYS[query](frame, keys)) == [new]
    finally:
        write(root, 60)


def test_frames_within_another_query_are_not_looked_at(
    session: SparkSession, root: Path, tmp_path: Path, frames: Callable[[], list[dict[str, Any]]]
) -> None:
    """``df.rdd`` has no execution of its own. In ``foreachBatch`` it runs under that of the batch, in which files may
    change."""
    frame, answers = session.read.parquet(str(root)), list[list[int]]()
    ids(frame.where("id = 5"))
    frames()

    def read(batch: DataFrame, number: int) -> None:
        for new in (None, 2_000_000):
            if new is not None:
                write(root, 60, new)
            rows = frame.where("id IN (7, 2000000)").select("id").rdd.collect()
            answers.append(sorted(row[0] for row in rows))

    stream = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    try:
        query = stream.writeStream.foreachBatch(read).trigger(availableNow=True)
        started = query.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        while len(answers) < 2:
            assert started.exception() is None
            time.sleep(0.05)
        started.stop()
    finally:
        write(root, 60)
    assert answers[:2] == [[7], [7, 2_000_000]]
    assert not any("look" in each for each in frames())
