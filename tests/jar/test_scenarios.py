"""Many kinds of predicates: rows, types and nullability equal Spark's, and only the expected row groups are read.

80 rows lie in eight row groups of ten, four in each of two days. `k` counts them; the values of `id` are mixed, so that
only Bloom filters can tell their row groups apart.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

from pyspark_bloomparquet import last_plan
from tests.support import files
from tests.support.scenarios import Readers, ask_all, metric, scans, texts
from tests.support.spark import conf

pytestmark = pytest.mark.slow

GROUP = 10
ALL = 8
EVERYTHING = None  # not planned: the predicate cannot exclude a row group
NAN = float("nan")


def number(k: int) -> int:
    return k * 37 % 80


def rows_of_a_day(first: int) -> pa.Table:
    ks = range(first, first + 40)
    ids = [number(k) for k in ks]
    return pa.table(
        {
            "k": pa.array(ks, pa.int64()),
            "id": pa.array(ids, pa.int64()),
            "s": pa.array([f"s{i:02}" for i in ids]),
            # All nulls in the third row group, none in the fourth.
            "n": pa.array(
                [None if k // 10 == 2 or (i % 5 == 0 and k // 10 != 3) else i for k, i in zip(ks, ids, strict=True)],
                pa.int32(),
            ),
            "d": pa.array([{0: -0.0, 15: 0.0, 26: NAN, 77: NAN}.get(k, k / 8 + 1) for k in ks]),
            "flag": pa.array([k < 10 for k in ks]),
            "old": pa.array([dt.date(1500, 2, 28) if k == 33 else dt.date(2020, 1, 1) for k in ks]),
            "moment": pa.array([1_700_000_000_000_000 + i for i in ids], pa.int64()).cast(pa.timestamp("us", "UTC")),
            "price": pa.array([i * 100 for i in ids], pa.int64()).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2)),
            # a column and a field with equal names
            "a.b": pa.array(ids, pa.int64()),
            "a": pa.array([{"b": 1000 + i, "c": {"d": f"d{i:02}"}} for i in ids]),
            "maybe": pa.array([None if k % 2 else {"x": i} for k, i in zip(ks, ids, strict=True)]),
            "list": pa.array([[i, None] for i in ids], pa.list_(pa.int64())),
            "map": pa.array([[("k", i)] for i in ids], pa.map_(pa.string(), pa.int64())),
            "structs": pa.array([[{"x": i}] for i in ids]),
        }
    )


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    filtered = {
        name: {"ndv": GROUP, "fpp": 0.0001}
        for name in ("id", "s", "n", "d", "old", "moment", "price", "a.b", "a.c.d", "maybe.x")
    }
    root = tmp_path_factory.mktemp("scenarios") / "t"
    for day, first in (("2026-01-01", 0), ("2026-01-02", 40)):
        files.write(root / f"day={day}" / "part.parquet", rows_of_a_day(first), filtered, rows_per_group=GROUP)
    return str(root)


WHERE: dict[str, int | None] = {
    # equality, and forms of it
    "id = 77": 1,
    "id <=> 77": 1,
    "NOT (id <> 77 OR s <> 's77')": 1,
    "id = 1000": 0,
    "id = 77 AND s = 's03'": 0,
    "s = 's77 '": 0,
    "moment = timestamp_micros(1700000000000077)": 1,
    "moment = TIMESTAMP'2023-11-14 22:13:20.000077'": 1,
    # lists
    "id IN (3, 77)": 2,
    "id IN (3, NULL)": 1,
    "id NOT IN (3, 77)": ALL,
    # alternatives
    "id = 3 OR s = 's77'": 2,
    "id = 3 OR s = 'nowhere'": 1,
    "id = 3 OR id % 80 = 77": EVERYTHING,
    "(id = 3 OR upper(s) = 'S77') AND s = 's03'": 1,
    # order
    "k BETWEEN 12 AND 25": 2,
    "nullif(id, 3) = 77": EVERYTHING,
    "k BETWEEN 1 AND 2 OR NOT (k BETWEEN 5 AND 79)": 1,
    "k >= 1000": 0,
    "d > 1e300": ALL,
    "s LIKE 's7%'": 7,
    "startswith(s, 's')": ALL,
    "s LIKE 's77'": 1,
    # nulls
    "n IS NULL": 7,
    "n IS NOT NULL": EVERYTHING,
    "n <=> NULL": 7,
    "n = 3": 1,
    "n IS NULL OR id = 70": 8,
    "n <> 3": 7,
    "coalesce(n, 70) = 70": EVERYTHING,
    "id <=> NULL": 0,
    # floats
    "d = 0.0D": 2,
    "d = double('NaN')": ALL,
    "d IN (0.0D, 10.0D)": 3,
    # booleans, and dates of the Julian calendar
    "flag": 1,
    "flag = false AND id = 77": 1,
    "old = DATE'1500-02-28'": ALL,
    "old IN (DATE'1500-02-27', DATE'1400-01-01')": ALL,
    # names
    "`a.b` = 77": 1,
    "a.b = 77": 0,
    "a.c.d = 'd77'": 1,
    "ID = 77 AND S = 's77'": 1,
    # nested
    "maybe.x = 4": 1,
    "maybe.x IS NULL AND k < 10": 1,
    "list[0] = 77": 3,
    "array_contains(list, 77)": 3,
    "structs[0].x = 77": 3,
    # partitions: Spark drops whole directories before planning
    "day = DATE'2026-01-02' AND id = 77": 1,
    "day = DATE'2026-01-02' OR id = 3": EVERYTHING,
    "(day = DATE'2026-01-01' AND id = 3) OR (day = DATE'2026-01-02' AND id = 1000)": 1,
}


def test_rows_equal_sparks_and_only_these_are_read(readers: Readers, path: str) -> None:
    """By a query, and by the option ``where``, which becomes a filter of the query."""
    answers, loaded = readers.answers(path, WHERE), readers.jar(path)
    queries = {where: loaded.where(where) for where in WHERE}
    options = {where: readers.jar(path, where=where) for where in list(WHERE)[::5]}
    for frames in (queries, options):
        with conf(readers.spark, {"spark.sql.parquet.filterPushdown": "false"}):
            rows, frame = ask_all(frames.values())
        for where, found, plan in zip(frames, rows, last_plan(frame), strict=True):
            assert (where, texts(found)) == (where, answers[where])
            assert (where, plan.kept if plan.planned else EVERYTHING) == (where, WHERE[where])
            assert plan.planned or plan.reason == "the query has no filter that can skip row groups"
        for node in scans(frame._jdf.queryExecution().executedPlan()):
            if metric(node, "numRowGroupsTotal"):
                assert metric(node.children().apply(0), "numOutputRows") == GROUP * metric(node, "numRowGroupsRead")


def test_rows_equal_sparks_with_its_pushdown(readers: Readers, path: str) -> None:
    """Spark's reader, which gets the filter, loses rows: it ignores NaN and -0.0, and confuses `a.b` with a.b."""
    for where in ("id = 77", "d = 0.0D", "d > 1e300", "`a.b` = 77", "a.b = 1077"):
        readers.ask(path, where)


def test_a_false_predicate_reads_nothing(readers: Readers, path: str) -> None:
    for where in (
        "false",
        "id = NULL",
        "id = 77 AND id % 7 BETWEEN 1 AND 2",
        "price = 7700.005",
        "day = DATE'2030-01-01' AND id = 3",
    ):
        ran = readers.ask(path, where)
        assert (where, ran.rows, ran.scanned) == (where, [], 0)
        assert ran.tasks <= 1


@pytest.mark.parametrize("sensitive", [False, True])
def test_case_of_names_counts_if_the_session_says_so(readers: Readers, tmp_path: Path, sensitive: bool) -> None:
    path = files.write(tmp_path / "t.parquet", {"k": range(20), "Id": range(0, 40, 2)}, ["Id"], rows_per_group=5)
    with conf(readers.spark, {"spark.sql.caseSensitive": str(sensitive).lower()}):
        assert readers.ask(path, "Id = 18", rows_per_group=5).plan.kept == 1
        if not sensitive:
            assert readers.ask(path, "iD = 18", rows_per_group=5).plan.kept == 1
        # If case counts, a user's schema with another case names a column that is in no file.
        given = {"schema": "k BIGINT, id BIGINT", "caseSensitive": str(sensitive).lower()}
        ran = readers.ask(path, "id IS NULL", by_python=True, **given)
        assert len(ran.rows) == (20 if sensitive else 0)


def test_timestamps_follow_the_session_zone(readers: Readers, path: str) -> None:
    with conf(readers.spark, {"spark.sql.session.timeZone": "America/New_York"}):
        for where in ("moment = TIMESTAMP'2023-11-14 17:13:20.000077'", "moment = '2023-11-14 17:13:20.000077'"):
            ran = readers.ask(path, where, rows_per_group=GROUP)
            assert (len(ran.rows), ran.plan.kept) == (1, 1)
