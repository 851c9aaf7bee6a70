"""With Hadoop's own S3A connector: objects that change give the rows of plain Spark, and plans list few of them."""

from __future__ import annotations

import datetime as dt

import pytest
from pyspark.sql import DataFrame

from pyspark_bloomparquet import last_plan
from tests.support.s3a import CHANGED, Lake, ask, ids_of, outcome, plain_outcome
from tests.support.scenarios import texts
from tests.support.spark import conf

pytestmark = pytest.mark.slow

FILES, GROUPS, ROWS = 4, 3, 50
KEPT, SKIPPED, NEW = 1, 2, 3
"""File 1 has the value that the queries ask for. File 2 gets it when it is replaced."""
FOUND = KEPT + FILES * 7
WHERE, ROW = f"id = {FOUND}", f"({FOUND},)"
LATER = dt.timedelta(seconds=2)  # S3 stores whole seconds


def table(lake: Lake, bucket: str) -> str:
    return lake.table(bucket, files=FILES, groups=GROUPS, rows=ROWS)


def write(lake: Lake, bucket: str, path: str, number: int, extra: int) -> int:
    ids = [*ids_of(number, FILES, GROUPS, ROWS)[:-1], extra]
    return lake.write(bucket, path, ids, groups=GROUPS, after=LATER)


def change(lake: Lake, bucket: str, number: int, kind: str) -> None:
    path = f"t/{number}.parquet"
    if kind == "gone":
        lake.delete(bucket, path)
        return
    size = lake.size(bucket, path)
    assert write(lake, bucket, path, number, NEW if kind == "lost" else FOUND) == size


CHANGES = {"skipped replaced": (SKIPPED, "found"), "skipped gone": (SKIPPED, "gone"), "kept replaced": (KEPT, "lost")}


@pytest.mark.parametrize(
    ("source", "kind"), [*(("parquet", kind) for kind in CHANGES), ("bloomparquet", "skipped replaced")]
)
def test_a_changed_object_gives_the_rows_of_plain_spark(lake: Lake, source: str, kind: str) -> None:
    bucket, (number, how) = lake.bucket(), CHANGES[kind]
    url = table(lake, bucket)
    loaded = lake.spark.read.format(source).load(url)
    plain = lake.spark.read.parquet(url).where(WHERE)
    rows, plan = ask(loaded, WHERE)
    assert (rows, plan.total, plan.kept) == ([ROW], FILES * GROUPS, 1), plan.reason
    after_load, after_last_plan, after_query = (loaded.where(WHERE) for _ in range(3))
    assert last_plan(after_last_plan)[0].kept == 1
    assert texts(after_query.collect()) == [ROW]
    change(lake, bucket, number, how)
    wanted = plain_outcome(plain)
    assert how != "found" or len(wanted) == 2
    for frame in (after_load, after_last_plan):
        assert outcome(frame) in ([wanted] if source == "parquet" else [wanted, CHANGED])
        (plan,) = last_plan(loaded.where(WHERE))
        assert not plan.planned
        assert f"/{number}.parquet changed since Spark listed it: expected" in str(plan.reason)
    assert outcome(after_query) in (wanted, CHANGED)


READERS = {
    "classic": {"input.stream.type": "classic"},
    "default": {},
    "no detection": {"change.detection.mode": "none", "input.stream.type": "classic"},
    "versions": {
        "change.detection.source": "versionid", "change.detection.version.required": "false",
        "input.stream.type": "classic",
    },
}  # fmt: skip
READ = {"no detection", "versions"}  # with these, S3A gives the bytes of the new version


@pytest.mark.parametrize("reader", READERS)
def test_an_object_that_changes_while_it_is_planned(lake: Lake, reader: str) -> None:
    """It changes after the plan has looked at it, when it is read."""
    bucket = lake.bucket()
    with conf(lake.spark, {f"fs.s3a.bucket.{bucket}.{name}": value for name, value in READERS[reader].items()}):
        frame = lake.spark.read.schema("id BIGINT").parquet(table(lake, bucket))
        lake.forget()
        changed = []

        def fault(method: str, path: str) -> None:
            if method == "GET" and path.endswith(f"/t/{SKIPPED}.parquet") and not changed:
                changed.append(path)
                change(lake, bucket, SKIPPED, "found")

        lake.server.fault = fault
        (plan,) = last_plan(frame.where(WHERE))
        assert changed
        assert not plan.planned, plan
        assert lake.requests().count("LIST") == (2 if reader in READ else 1)
        # Nothing of the new version is taken for what Spark has listed.
        assert outcome(frame.where(WHERE)) == plain_outcome(frame.where(WHERE)) == [ROW, ROW]
        assert len(ask(lake.spark.read.parquet(f"s3a://{bucket}/t"), WHERE)[0]) == 2


def kept(lake: Lake, frame: DataFrame, where: str = WHERE) -> tuple[int, list[str]]:
    """How many row groups a plan keeps, which is as many as it finds rows, and the requests of the query."""
    lake.forget()
    rows, plan = ask(frame, where)
    assert plan.kept == len(rows), plan.reason
    return plan.kept, lake.requests()


def test_a_plan_of_many_partitions_lists_the_tree_once(lake: Lake) -> None:
    bucket = lake.bucket()
    for part in range(12):
        for number in range(2):
            ids = ids_of(number, FILES, GROUPS, ROWS)
            lake.write(bucket, f"t/p={part}/{number}.parquet", ids, groups=GROUPS)
    frame = lake.spark.read.parquet(f"s3a://{bucket}/t")
    for where, rows in ((WHERE, 12), (f"{WHERE} AND p IN (3, 5)", 2)):
        count, requests = kept(lake, frame, where)
        assert (count, requests.count("LIST")) == (rows, 1)
    with conf(lake.spark, {"spark.sql.sources.useListFilesFileSystemList": ""}):
        count, requests = kept(lake, frame)
        assert (count, requests.count("LIST")) == (12, 12)
    write(lake, bucket, "t/p=7/0.parquet", 0, FOUND)
    assert len(ask(frame, WHERE)[0]) == 13


def test_few_files_among_many_do_not_list_them_all(lake: Lake) -> None:
    bucket = lake.bucket()
    url = table(lake, bucket)
    for i in range(3_500):
        lake.put(bucket, f"t/!{i}", b"")
    for names, most in (([1], 0), ([1, 2], 3)):  # S3A asks for one page in advance
        frame = lake.spark.read.parquet(*(f"{url}/{each}.parquet" for each in names))
        ask(frame, WHERE)
        count, requests = kept(lake, frame)
        assert (count, requests.count("LIST") <= most) == (1, True)


def test_a_storage_that_is_not_listed_is_read_whole(lake: Lake) -> None:
    bucket = lake.bucket()
    frame = lake.spark.read.parquet(table(lake, bucket))
    assert kept(lake, frame)[0] == 1
    lake.server.fault = lambda method, path: "forbidden" if method == "GET" and path.strip("/") == bucket else None
    rows, plan = ask(frame, WHERE)
    assert rows == [ROW]
    assert not plan.planned
    assert "cannot look at the present versions of 4 files: " in str(plan.reason)
