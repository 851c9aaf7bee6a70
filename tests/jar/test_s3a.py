"""With Hadoop's own S3A connector: objects that change give the rows of plain Spark, and plans make few requests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyspark_bloomparquet import ScanSummary, last_plan
from tests.support import buckets, connectors, files
from tests.support.s3 import S3Server, s3_server
from tests.support.scenarios import PRUNED, UNPRUNED, texts
from tests.support.spark import conf

pytestmark = pytest.mark.slow

ERRORS = (Py4JJavaError, PySparkException)
FILES, GROUPS, ROWS = 4, 3, 50
KEPT, SKIPPED, NEW = 1, 2, 3
"""File 1 has the value that the queries ask for. File 2 gets it when it is replaced."""
FOUND = KEPT + FILES * 7


class Lake:
    """Tables in a bucket, which Spark reads by S3A."""

    def __init__(self, spark: SparkSession, server: S3Server, home: Path) -> None:
        self.spark, self.server, self.home = spark, server, home

    def write(self, path: str, number: int, extra: int | None = None) -> int:
        """Write file `number`, whose ids only filters tell from those of the others. Returns its size."""
        ids = [number + FILES * (i * 7 % (GROUPS * ROWS)) for i in range(GROUPS * ROWS)]
        if extra is not None:
            ids[-1] = extra
        local = files.write(self.home / "x.parquet", {"id": ids}, ["id"], rows_per_group=ROWS, use_dictionary=False)
        data = Path(local).read_bytes()
        with self.server.filesystem.open_output_stream(f"bucket/{path}") as out:
            out.write(data)
        return len(data)

    def table(self, name: str) -> str:
        """The URL of a new table."""
        for number in range(FILES):
            self.write(f"{name}/{number}.parquet", number)
        return f"s3a://bucket/{name}"

    def change(self, name: str, number: int, kind: str) -> None:
        path = f"{name}/{number}.parquet"
        if kind == "gone":
            self.server.filesystem.delete_file(f"bucket/{path}")
            return
        time.sleep(1.1)  # S3 stores whole seconds
        info = self.server.filesystem.get_file_info(f"bucket/{path}")
        assert self.write(path, number, NEW if kind == "lost" else FOUND) == info.size

    def requests(self) -> list[str]:
        """The requests since the last call: LIST, HEAD and GET of Spark, and "planner" for each of the planner's."""
        kinds = []
        for (method, path), agent in zip(self.server.requests, self.server.agents, strict=True):
            kind = "LIST" if method == "GET" and path.rstrip("/") == "/bucket" else method
            kinds.append(kind if "Hadoop" in agent else "planner")
        self.forget()
        return kinds

    def forget(self) -> None:
        self.server.requests.clear()
        self.server.agents.clear()


@pytest.fixture(scope="module")
def lake(jar_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    jars = connectors.jars("s3a")
    hadoop = jar_spark.sparkContext._jsc.hadoopConfiguration()  # type: ignore[union-attr]
    loader = hadoop.getClassLoader()
    with s3_server() as server:
        settings = {
            "fs.s3a.endpoint": f"http://{server.address}", "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true", "fs.s3a.access.key": "test", "fs.s3a.secret.key": "test",
            "fs.s3a.attempts.maximum": "1", "fs.s3a.retry.limit": "1",
            "fs.s3a.paging.maximum": "1000",
        }  # fmt: skip
        try:
            buckets.add_to_hadoop(jar_spark, jars)
            with conf(jar_spark, settings | PRUNED):
                yield Lake(jar_spark, server, tmp_path_factory.mktemp("s3a"))
        finally:
            hadoop.setClassLoader(loader)


def ask(frame: DataFrame, where: str = f"id = {FOUND}") -> tuple[list[str], ScanSummary]:
    frame = frame.where(where)
    rows = texts(frame.collect())
    (plan,) = last_plan(frame)
    return rows, plan


def outcome(frame: DataFrame) -> list[str] | str:
    """The rows, or what the error is."""
    try:
        return texts(frame.collect())
    except ERRORS as error:
        names = (CHANGED, "FILE_NOT_EXIST")
        return next((name for name in names if name in str(error)), str(error))


CHANGED = "changed after this query was planned"
CHANGES = {"skipped replaced": (SKIPPED, "found"), "skipped gone": (SKIPPED, "gone"), "kept replaced": (KEPT, "lost")}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("source", ["parquet", "bloomparquet"])
def test_a_changed_object_gives_the_rows_of_plain_spark(lake: Lake, source: str, change: str) -> None:
    name = f"{source}-{change}".replace(" ", "-")
    number, kind = CHANGES[change]
    loaded = lake.spark.read.format(source).load(lake.table(name))
    plain = lake.spark.read.parquet(f"s3a://bucket/{name}").where(f"id = {FOUND}")
    rows, plan = ask(loaded)
    assert (rows, plan.total, plan.kept) == ([f"({FOUND},)"], FILES * GROUPS, 1), plan.reason
    after_load, after_last_plan, after_query = (loaded.where(f"id = {FOUND}") for _ in range(3))
    assert last_plan(after_last_plan)[0].kept == 1
    assert texts(after_query.collect()) == [f"({FOUND},)"]
    lake.change(name, number, kind)
    with conf(lake.spark, UNPRUNED):
        wanted = outcome(plain)
    assert kind != "found" or len(wanted) == 2
    for frame in (after_load, after_last_plan):
        assert outcome(frame) in ([wanted] if source == "parquet" else [wanted, CHANGED])
        (plan,) = last_plan(loaded.where(f"id = {FOUND}"))
        assert not plan.planned
        assert f"/{number}.parquet changed since Spark listed it: expected" in str(plan.reason)
    assert outcome(after_query) in (wanted, CHANGED)


def test_a_plan_lists_one_directory_after_it_read_the_evidence(lake: Lake) -> None:
    url = lake.table("counted")
    frame = lake.spark.read.parquet(url)
    lake.forget()
    assert ask(frame)[1].kept == 1
    cold = lake.requests()
    # What was read is of the listed versions only if they are compared after it was read.
    look = cold.index("LIST")
    assert (cold[:look].count("planner") >= 2 * FILES, cold[look:].count("planner"), cold.count("LIST")) == (True, 0, 1)
    assert ask(frame)[1].kept == 1
    warm = lake.requests()
    with conf(lake.spark, {"spark.sql.sources.useListFilesFileSystemList": ""}):
        assert ask(frame)[1].kept == 1
    assert (warm.count("LIST"), warm.count("planner"), warm) == (1, 0, lake.requests())
    with conf(lake.spark, UNPRUNED):
        frame.where(f"id = {FOUND}").collect()
    assert "LIST" not in lake.requests()


def test_a_plan_of_many_partitions_lists_the_tree_once(lake: Lake) -> None:
    for part in range(12):
        for number in range(2):
            lake.write(f"parts/p={part}/{number}.parquet", number)
    frame = lake.spark.read.parquet("s3a://bucket/parts")
    lake.forget()
    rows, plan = ask(frame)
    assert (len(rows), plan.kept, lake.requests().count("LIST")) == (12, 12, 1)
    rows, plan = ask(frame, f"id = {FOUND} AND p IN (3, 5)")
    assert (len(rows), plan.kept, lake.requests().count("LIST")) == (2, 2, 1)
    with conf(lake.spark, {"spark.sql.sources.useListFilesFileSystemList": ""}):
        rows, plan = ask(frame)
    assert (len(rows), plan.kept, lake.requests().count("LIST")) == (12, 12, 12)
    time.sleep(1.1)
    lake.write("parts/p=7/0.parquet", 0, FOUND)
    assert len(ask(frame)[0]) == 13


def test_few_files_among_many_do_not_list_them_all(lake: Lake) -> None:
    from moto.s3.models import s3_backends

    url = lake.table("crowded")
    for i in range(5_500):  # by HTTP, this takes minutes
        s3_backends["123456789012"]["aws"].put_object("bucket", f"crowded/!{i}", b"")
    for names, most in (([1], 0), ([1, 2], 3)):  # S3A asks for one page in advance
        frame = lake.spark.read.parquet(*(f"{url}/{each}.parquet" for each in names))
        ask(frame)
        lake.forget()
        rows, plan = ask(frame)
        assert (len(rows), plan.kept) == (1, 1)
        assert lake.requests().count("LIST") <= most


def test_a_storage_that_is_not_listed_is_read_whole(lake: Lake) -> None:
    frame = lake.spark.read.parquet(lake.table("denied"))
    assert ask(frame)[1].kept == 1

    def fault(method: str, path: str) -> str | None:
        return "forbidden" if method == "GET" and path.rstrip("/") == "/bucket" else None

    lake.server.fault = fault
    try:
        rows, plan = ask(frame)
    finally:
        lake.server.fault = lambda method, path: None
    assert rows == [f"({FOUND},)"]
    assert not plan.planned
    assert "cannot look at the present versions of 4 files: " in str(plan.reason)
