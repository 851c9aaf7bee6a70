"""S3 fails, hangs, or refuses one of two sessions: the outcome of a query is plain Spark's rows or its error."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from threading import Event

import pytest
from pyspark.sql import DataFrame, SparkSession

from pyspark_bloomparquet import last_plan
from tests.support.planners import PYTHON, Interpreter
from tests.support.s3a import Lake, ask, ids_of, outcome, plain_outcome
from tests.support.scenarios import PRUNED
from tests.support.spark import application_conf, conf

pytestmark = pytest.mark.slow

KEPT, SKIPPED = "1.parquet", "0.parquet"
FOUND, NOWHERE = ids_of(1)[33], 100_000_000
ROW = f"({FOUND},)"
MAY, MAY_NOT = "AKIAIOSFODNN7EXAMPLE", "AKIAI44QH8DHBEXAMPLE"
TIMEOUT = "spark.datasource.bloomparquet.planningTimeout"

Fault = Callable[[str, str], str | None]


@contextmanager
def failing(lake: Lake, fault: Fault) -> Iterator[None]:
    lake.server.fault = fault
    try:
        yield
    finally:
        lake.server.fault = lambda method, path: None


def always(kind: str, name: str) -> Fault:
    """Whoever reads the file `name` gets this fault."""
    return lambda method, path: kind if method == "GET" and path.endswith(name) else None


def some(kind: str, first: int, count: int) -> Fault:
    """The reads from number `first` on have this fault, `count` of them."""
    numbers = itertools.count()

    def fault(method: str, path: str) -> str | None:
        is_read = method == "GET" and path.endswith(".parquet")
        return kind if is_read and first <= next(numbers) < first + count else None

    return fault


def load(spark: SparkSession, url: str, source: str = "parquet") -> DataFrame:
    """A table, of which nothing is read: it has a schema."""
    return spark.read.format(source).schema("id BIGINT").load(url)


FAULTS: dict[str, Callable[[], Fault]] = {
    "reset": lambda: always("reset", KEPT),
    "torn": lambda: always("torn", KEPT),
    "forbidden": lambda: always("forbidden", SKIPPED),
    "throttled, six times": lambda: some("throttled", 0, 6),
    "forbidden, in the middle": lambda: some("forbidden", 1, 1),
}
RECOVERS = {"throttled, six times"}
NEWER_STREAMS = {"torn", "forbidden"}  # which retry by themselves, and keep what they read
OF_THE_PLAN = {"forbidden, in the middle"}  # Spark then reads everything


@pytest.mark.parametrize("fault", FAULTS)
def test_a_storage_that_fails_gives_the_outcome_of_plain_spark(lake: Lake, fault: str) -> None:
    bucket = lake.bucket()
    given = {} if fault in NEWER_STREAMS else {"input.stream.type": "classic"}
    if fault in RECOVERS:
        given |= {"retry.limit": "7", "retry.throttle.limit": "20"}
    with conf(lake.spark, {f"fs.s3a.bucket.{bucket}.{name}": value for name, value in given.items()}):
        url = lake.table(bucket)
        plain, frame = (load(lake.spark, url).where(f"id = {FOUND}") for _ in range(2))
        with failing(lake, FAULTS[fault]()):
            wanted = plain_outcome(plain)
        with failing(lake, FAULTS[fault]()):
            rows = outcome(frame)
        (plan,) = last_plan(frame)
        assert rows == ([ROW] if fault in OF_THE_PLAN else wanted)
        assert plan.planned == (fault in RECOVERS), plan.reason
        assert plan.planned or re.search(rf"{bucket}/t/[01]\.parquet", str(plan.reason)), plan.reason
        rows, plan = ask(load(lake.spark, url), f"id = {FOUND}")
        assert (rows, plan.planned, plan.kept) == ([ROW], True, 1), "the storage works again"


def test_a_storage_that_hangs_holds_up_neither_its_plans_nor_others(lake: Lake) -> None:
    tables = [lake.table(lake.bucket()) for _ in range(6)]  # more than are planned at a time
    other = lake.bucket()
    healthy = load(lake.spark, lake.table(other))
    ends = Event()

    def hang(method: str, path: str) -> None:
        if method == "GET" and path.endswith(SKIPPED) and not path.startswith(f"/{other}/"):
            ends.wait(60)

    frames = [load(lake.spark, url).where(f"id = {FOUND}") for url in tables]
    try:
        with failing(lake, hang):
            with conf(lake.spark, {TIMEOUT: "500ms"}):
                for frame in frames:
                    (plan,) = last_plan(frame)
                    assert not plan.planned
                    assert "500" in str(plan.reason)
            rows, plan = ask(healthy, f"id = {FOUND}")
            assert (rows, plan.planned, plan.kept) == ([ROW], True, 1), plan.reason
    finally:
        ends.set()
    assert outcome(frames[0]) == [ROW]
    rows, plan = ask(load(lake.spark, tables[1]), f"id = {FOUND}")
    assert (rows, plan.planned, plan.kept) == ([ROW], True, 1), plan.reason


@pytest.mark.parametrize(("source", "evidence"), [("parquet", "in memory"), ("bloomparquet", "on disk")])
def test_a_session_learns_nothing_that_it_may_not_read(lake: Lake, source: str, evidence: str, tmp_path: Path) -> None:
    """From what the planner read for another session. On disk only: for each session a new planner asks."""
    url = lake.table(lake.bucket())
    sessions = {}
    lake.server.readers = {MAY}
    try:
        for key in (MAY, MAY_NOT):
            sessions[key] = lake.spark.newSession()
            settings = lake.settings | lake.credentials(key) | PRUNED | {"fs.s3a.impl.disable.cache": "true"}
            for name, value in settings.items():
                sessions[key].conf.set(name, value)
        rows, plan = ask(load(sessions[MAY], url, source), f"id = {FOUND}")
        assert (rows, plan.planned, plan.kept) == ([ROW], True, 1), plan.reason
        with planner(lake, tmp_path / "may", evidence):
            frame = load(sessions[MAY], url, source).where(f"id = {FOUND}")
            lake.forget()
            (plan,) = last_plan(frame)
            assert (plan.kept, "GET" in lake.requests()) == (1, False), "the evidence is cached"
        with planner(lake, tmp_path / "may not", evidence):
            for value in (FOUND, NOWHERE):
                frame = load(sessions[MAY_NOT], url, source).where(f"id = {value}")
                wanted = plain_outcome(load(sessions[MAY_NOT], url).where(f"id = {value}"))
                assert isinstance(wanted, str)
                assert outcome(frame) == wanted
                assert not last_plan(frame)[0].planned
        rows, plan = ask(load(sessions[MAY], url, source), f"id = {NOWHERE}")
        assert (rows, plan.planned, plan.kept) == ([], True, 0), plan.reason
    finally:
        lake.server.readers = None


def planner(lake: Lake, home: Path, evidence: str) -> AbstractContextManager[None]:
    """A planner in a block: the one that all use, or one that has nothing in memory."""
    if evidence == "in memory":
        return nullcontext()
    home.mkdir()
    return application_conf(lake.spark, {PYTHON: Interpreter(home).program})
