"""The judges of the soak test: flatness, errors, wrong rows, and what is left behind."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import bloomparquet as bp
from tests.soak import leftovers, processes
from tests.soak.data import CHANGING_ROWS, COLUMNS, IDS, Tables, rows_of
from tests.soak.errors import UNEXPLAINED, name_of
from tests.soak.journal import GRACE_SECONDS, Journal
from tests.soak.killer import Killer
from tests.soak.memory import trend
from tests.soak.operations import Client, WrongRowsError, plain_python
from tests.soak.sampler import Sampler


@pytest.mark.parametrize(
    ("samples", "flat"),
    [
        ([100.0] * 50, True),
        ([*range(20, 100), *[100] * 320], True),  # a warm-up
        ([1000 + i for i in range(100)], True),  # 7 % from the second to the last fifth
        ([1000 + 2 * i for i in range(100)], False),
        ([1000.0] * 80 + [1200.0] * 20, False),
        ([1000.0] * 95 + [9000.0] * 5, True),  # a peak
        ([1000.0 - i for i in range(100)], True),
    ],
)
def test_flat_is_at_most_ten_percent_more(samples: list[float], flat: bool) -> None:
    found = trend(samples)
    assert found is not None
    assert found.is_flat is flat


def test_a_named_slack_is_no_growth() -> None:
    for late, flat in ((9.0, True), (14.0, False)):
        found = trend([5.0] * 10 + [late] * 5, slack=8)
        assert found is not None
        assert found.is_flat is flat


def test_few_samples_prove_nothing() -> None:
    assert trend([1.0] * 9) is None


LOST = "Job aborted due to stage failure: Task 0 in stage 1 failed 8 times: ExecutorLostFailure (executor 3 exited)"
KILLED_PLANNING = (
    "An error occurred while calling o1.collectToPython.\n: org.apache.spark.SparkException: Python worker exited "
    "unexpectedly (crashed).\n\tat org.apache.spark.sql.execution.python.PythonPlannerRunner.runInPython(Runner.scala)"
)
STOPPING_KILLED = (
    "An error occurred while calling o1.load.\n: java.io.IOException: Broken pipe\n\tat org.apache.spark.api.python."
    "PythonWorkerFactory.stopWorker(PythonWorkerFactory.scala:523)\n\tat org.apache.spark.sql.execution.python."
    "PythonPlannerRunner.runInPython(PythonPlannerRunner.scala:123)"
)
CHANGED = "file:/t/0.parquet changed after this query was planned: expected 10 bytes"


@pytest.mark.parametrize(
    ("kind", "text", "calm", "allowed"),
    [
        ("read join", LOST, False, True),
        ("read join", LOST, True, False),  # nobody kills executors any more
        ("read changing", CHANGED, True, True),
        ("read plain Parquet", CHANGED, False, False),  # nobody changes that table
        ("index", "x: another process is building, refreshing or dropping this index; wait", True, True),
        ("read join", "KeyError: 'x'", False, False),
        ("read by Python source", KILLED_PLANNING, False, True),
        ("read by Python source", KILLED_PLANNING, True, False),
        ("read by Python source", STOPPING_KILLED, False, True),
        ("read by Python source", "java.io.IOException: Broken pipe", False, False),
        ("read join", "Job aborted due to stage failure: ArrayIndexOutOfBoundsException", False, False),
    ],
)
def test_only_explained_errors_are_allowed(kind: str, text: str, calm: bool, allowed: bool) -> None:
    assert (name_of(kind, text, calm=calm) != UNEXPLAINED) is allowed


def test_journal_counts_each_line_once(tmp_path: Path) -> None:
    path = tmp_path / "driver0.jsonl"
    line = {"at": 0, "client": "a", "kind": "write", "seconds": 1.0}
    journal = Journal([path, tmp_path / "missing.jsonl"])
    text = "".join(json.dumps({**line, **more}) + "\n" for more in ({}, {"wrong": "1 row"}, {"error": LOST}))
    path.write_text(text + '{"at": 0, "cli')  # the last line is not complete
    journal.read(None)
    journal.read(None)
    path.write_text(text + json.dumps({**line, "at": GRACE_SECONDS + 1, "error": LOST}) + "\n")
    journal.read(0)
    assert journal.operations == 4
    assert len(journal.wrong) == len(journal.unexplained) == 1
    assert journal.errors == {("write", "task failed too often"): 1, ("write", UNEXPLAINED): 1}


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    tables = Tables(tmp_path / "tables")
    tables.make()
    for name in ("tmp", "cache"):
        (tmp_path / name).mkdir()
    return tables


class _Always:
    """Chooses one id, always the same."""

    def __init__(self, id_: int) -> None:
        self._id = id_

    def randint(self, low: int, high: int) -> int:
        return low

    def randrange(self, stop: int) -> int:
        return self._id % stop


def test_a_missing_row_is_wrong(tables: Tables) -> None:
    client = Client(None, tables, "a", random.Random(1))  # type: ignore[arg-type]
    for _ in range(5):
        plain_python(client)
    assert len(IDS) == bp.read_table(str(tables.events)).num_rows
    assert len(rows_of(IDS, CHANGING_ROWS)) == CHANGING_ROWS
    for path in tables.events.rglob("*.parquet"):
        bp.write_table(bp.read_table(str(path), "id < 0", columns=list(COLUMNS)), str(path))
    client.random = _Always(7919 * 2)  # type: ignore[assignment]
    with pytest.raises(WrongRowsError, match="missing"):
        plain_python(client)


def test_files_that_belong_to_nothing_are_found(tables: Tables, tmp_path: Path) -> None:
    bp.build_index(str(tables.events))
    assert leftovers.files(tmp_path, tables) == []
    names = (
        "tables/events/_temporary/0/a", "tables/changing/.0.parquet.bloomparquet-tmp", "cache/of/.unfinished-1",
        "tables/events/_bloomparquet_index/unnamed.segment", "tables/written/d-0-parquet/.staging/b", "tmp/planner-x",
        "tables/events/_bloomparquet_index/.building",
    )  # fmt: skip
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert leftovers.files(tmp_path, tables) == sorted(names)


def test_processes_of_a_run_are_found_and_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = f"test-{os.getpid()}"
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1], 'planner_worker'])"
    command = [sys.executable, "-c", program, "import time; time.sleep(600) # pyspark_bloomparquet.jar.planner_worker"]
    parent = subprocess.Popen(command, env={**os.environ, processes.MARK: mark})
    try:
        while len(found := processes.running(mark)) < 2:
            assert parent.poll() is None
        killer = Killer(mark, random.Random(1))
        while "kill planner" not in killer.done:
            killer.strike()
        monkeypatch.setattr(leftovers, "_SECONDS_TO_END", 10)
        assert len(found) == 2
        assert set(killer.done) <= {"kill planner", "stop planner"}
    finally:
        for process in processes.running(mark):
            os.kill(process.pid, signal.SIGKILL)
        parent.wait()
    assert leftovers.processes(mark) == []


def test_the_live_heap_of_a_jvm_is_measured(spark: SparkSession) -> None:
    pid = spark._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    objects = processes.Process(pid, processes.DRIVER, "").live_objects()
    assert 1 << 20 < sum(objects.values()) < 1 << 33
    assert objects["java.lang.String"] > 0
    assert processes.Process(os.getpid(), processes.DRIVER, "").live_objects() == {}


def test_a_heap_that_grew_is_reported_with_its_classes() -> None:
    sampler = Sampler("none")
    heaps = [{"A": 100 << 20, "B": i << 20} for i in range(0, 100, 5)]
    sampler.series["live heap of driver's JVM"] = [sum(heap.values()) for heap in heaps]
    sampler._heaps["live heap of driver's JVM"] = heaps
    ((line, grew),) = sampler.report()
    assert grew
    assert line.endswith(f"20 samples; B +{75 << 20:,}, A +0")
