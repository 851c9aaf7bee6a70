"""Whatever happens to the planner, rows equal those of ``spark.read.parquet``, and one warning says what happened.

A planner that was killed or stopped is replaced, so that a later query has a plan.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import JavaObject

from pyspark_bloomparquet import ScanSummary
from tests.support import files
from tests.support.option_cases import WRONG_VALUES
from tests.support.scenarios import Readers, _scans, run, texts
from tests.support.spark import application_conf

pytestmark = pytest.mark.slow

PYTHON, PATH = "spark.bloomparquet.python", "spark.bloomparquet.pythonPath"
PATIENT = "10min"  # a query that waits this long fails its test
PATIENT_SECONDS = 60  # generous: this machine may be busy
_names = itertools.count()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Four files of one row group each. Only filters can tell them apart."""
    root = tmp_path_factory.mktemp("harm")
    for i in range(4):
        files.write(root / f"{i}.parquet", {"id": [i + 4 * (row * 7 % 20) for row in range(20)]}, ["id"], fpp=1e-4)
    return str(root)


@contextmanager
def warnings(readers: Readers) -> Iterator[list[str]]:
    """The lines logged as `bloomparquet` in the block; filled when it ends."""
    jvm: Any = readers.spark._jvm
    log4j = jvm.org.apache.logging.log4j
    stream = jvm.java.io.StringWriter()
    layout = log4j.core.layout.PatternLayout.newBuilder().withPattern("%p %m%n").build()
    name = f"bloomparquet-test-{next(_names)}"
    appender: JavaObject = log4j.core.appender.WriterAppender.createAppender(layout, None, stream, name, False, True)
    appender.start()
    logger = log4j.LogManager.getLogger("bloomparquet")
    before = logger.getLevel()
    log4j.core.config.Configurator.setLevel("bloomparquet", log4j.Level.WARN)
    logger.addAppender(appender)
    lines: list[str] = []
    try:
        yield lines
    finally:
        logger.removeAppender(appender)
        log4j.core.config.Configurator.setLevel("bloomparquet", before)
        lines += stream.toString().splitlines()


@contextmanager
def short_limits(readers: Readers) -> Iterator[None]:
    """A silent planner is ended after 5 s if it has never answered, else after 2 s: a quarter of the usual times."""
    jvm: Any = readers.spark._jvm
    jvm.java.lang.System.setProperty("bloomparquet.planner.secondMillis", "250")
    try:
        yield
    finally:
        jvm.java.lang.System.clearProperty("bloomparquet.planner.secondMillis")


def unplanned(readers: Readers, path: str | Path, **options: Any) -> tuple[ScanSummary, list[int]]:
    """Look for a row twice, and assert that nothing is skipped. Returns the last plan and its failure metric."""
    for _ in range(2):
        frame = readers.jar(path, **options).where("id = 6")
        ran = run(frame)
        assert ran.rows == texts(readers.oracle(path).where("id = 6").collect()) == ["(6,)"]
        assert not ran.plan.planned
    failures = [
        int(node.metrics().apply("numPlanningFailures").value())
        for node in _scans(frame._jdf.queryExecution().executedPlan())
    ]
    return ran.plan, failures


def script(folder: Path, text: str) -> str:
    program = folder / f"python{next(_names)}"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return str(program)


BROKEN = {
    "there is no such program": (None, "cannot start the planner"),
    "it ends at once": ("exit 3", "exited with code 3"),
    "it ends after it was asked": ("head -c 10 >/dev/null; exit 4", "exited with code 4"),
    "it prints text": ("echo hello, I am no planner; sleep 60", "sent an invalid answer"),
    "it prints text whose length is possible": ("echo 1234567890123; exit 0", "exited with code 0"),
    "it prints frames that are no JSON": (r"printf '\000\000\000\003abc\000\000\000\000'; sleep 60", "invalid answer"),
    "it prints frames of other JSON": (
        r"printf '\000\000\000\002[]\000\000\000\000'; head -c 1 >/dev/null; exit 5",
        "exited with code 5",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_program_that_is_no_planner_is_warned_of_once(readers: Readers, path: str, tmp_path: Path, case: str) -> None:
    text, message = BROKEN[case]
    program = str(tmp_path / "missing") if text is None else script(tmp_path, text)
    with warnings(readers) as lines, application_conf(readers.spark, {PYTHON: program}):
        plan, failures = unplanned(readers, path, planningTimeout="20s")
    assert message in plan.reason
    assert failures == [1]
    assert len(lines) == 1, lines
    assert program in lines[0]
    assert "Spark reads everything, as without bloomparquet" in lines[0]


def test_a_python_without_this_package_is_explained(readers: Readers, path: str, tmp_path: Path) -> None:
    program = script(tmp_path, f'exec "{sys.executable}" -S -E "$@"')
    with warnings(readers) as lines, application_conf(readers.spark, {PYTHON: program, PATH: ""}):
        plan, _ = unplanned(readers, path)
    assert (
        "check that this Python can import pyspark_bloomparquet, or name another in spark.bloomparquet.python"
        in plan.reason
    )
    assert len(lines) == 1


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("exec sleep 20000", 1),
        ("exec sleep 20000", 20_000),  # larger than a pipe's buffer
        ("printf 12; exec sleep 20000", 1),
        ("echo 1234; exec sleep 20000", 1),  # parsed as a length of 800 MiB
    ],
)
def test_a_query_does_not_wait_for_a_silent_program(
    readers: Readers, path: str, tmp_path: Path, text: str, values: int
) -> None:
    interpreter = Interpreter(tmp_path, text)
    among = ", ".join(map(str, range(1000, 1000 + values)))
    with application_conf(readers.spark, {PYTHON: interpreter.program}):
        began = time.monotonic()
        frame = readers.jar(path, planningTimeout="300ms").where(f"id IN (6, {among})")
        assert texts(frame.collect()) == ["(6,)"]
        assert time.monotonic() - began < PATIENT_SECONDS
        assert "took longer than planningTimeout, 300 ms" in str(run(frame).plan.reason)
    assert len(interpreter.started()) == 1


def test_a_silent_program_is_ended(readers: Readers, path: str, tmp_path: Path) -> None:
    interpreter = Interpreter(tmp_path, "exec sleep 20000")
    with short_limits(readers), application_conf(readers.spark, {PYTHON: interpreter.program}):
        unplanned(readers, path, planningTimeout="300ms")
        (process,) = interpreter.started()
        assert has_ended(process)


def test_a_late_plan_serves_the_next_query(readers: Readers, path: str, tmp_path: Path) -> None:
    program = script(tmp_path, f'sleep 1.5; exec "{sys.executable}" "$@"')
    with warnings(readers) as lines, application_conf(readers.spark, {PYTHON: program}):
        unplanned(readers, path, planningTimeout="200ms")
        plan = run(readers.jar(path, planningTimeout="30s").where("id = 6")).plan
    assert (plan.planned, plan.kept) == (True, 1)
    assert len(lines) == 1


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"planning": "off"}, "planning is off"),
        ({"planning": " OFF "}, "planning is off"),
        ({"pushFilters": "off"}, "no filter that can skip row groups"),
    ],
    ids=str,
)
def test_planning_that_was_not_wanted_is_no_failure(
    readers: Readers, path: str, options: dict[str, str], reason: str
) -> None:
    with warnings(readers) as lines:
        plan, failures = unplanned(readers, path, **options)
    assert reason in plan.reason
    assert failures == [0]
    assert lines == []
    assert run(readers.jar(path, planning="Auto").where("id = 6")).plan.kept == 1


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [*WRONG_VALUES, *(("planningTimeout", text, "a duration as Spark writes them") for text in ("soon", "0s"))],
)
def test_a_wrong_option_value_is_an_error(readers: Readers, path: str, option: str, value: str, expected: str) -> None:
    with pytest.raises(Exception, match=rf"option {option} is '{value}'; expected {expected}"):
        readers.jar(path, **{option: value}).where("id = 6").collect()


def test_storage_the_planner_cannot_open_is_read_unplanned(readers: Readers, path: str) -> None:
    with warnings(readers) as lines:
        hadoop = readers.spark.sparkContext._jsc.hadoopConfiguration()  # type: ignore[union-attr]
        hadoop.set("fs.viewfs.mounttable.harm.link./data", Path(path).as_uri())
        plan, failures = unplanned(readers, "viewfs://harm/data")
    assert failures == [1]
    assert "viewfs" in plan.reason
    assert len(lines) == 1


def test_a_damaged_file_fails_or_is_ignored_as_in_spark(readers: Readers, tmp_path: Path) -> None:
    for i in range(4):
        files.write(tmp_path / f"{i}.parquet", {"id": [i, i + 4]}, ["id"], fpp=1e-4)
    damaged = tmp_path / "2.parquet"
    data = damaged.read_bytes()
    damaged.write_bytes(data[:-20] + b"\xff" * 12 + data[-8:])
    with pytest.raises(Exception, match=r"2\.parquet"):
        readers.oracle(tmp_path, "id BIGINT").where("id = 1").collect()
    with pytest.raises(Exception, match=r"2\.parquet"):
        readers.jar(tmp_path, "id BIGINT").where("id = 1").collect()
    for value in (1, 5, 2, 99):
        ours, theirs = (
            read(tmp_path, "id BIGINT", ignoreCorruptFiles="true").where(f"id = {value}").collect()
            for read in (readers.jar, readers.oracle)
        )
        assert texts(ours) == texts(theirs)


def test_a_deleted_file_fails_or_is_ignored_as_in_spark(readers: Readers, tmp_path: Path) -> None:
    for ignore in ("true", "false"):
        for i in range(3):
            files.write(tmp_path / f"{i}.parquet", {"id": [i, 7]}, ["id"], fpp=1e-4)
        frames = [read(tmp_path, ignoreMissingFiles=ignore).where("id = 7") for read in (readers.oracle, readers.jar)]
        os.remove(tmp_path / "1.parquet")
        if ignore == "true":
            assert [texts(frame.collect()) for frame in frames] == [["(7,)", "(7,)"]] * 2
        else:
            for frame in frames:
                with pytest.raises(Exception, match=r"1\.parquet"):
                    frame.collect()


def has_ended(process: int) -> bool:
    """Whether the process ends soon."""
    deadline = time.monotonic() + PATIENT_SECONDS
    while time.monotonic() < deadline:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


class Interpreter:
    """A program that records its process id at each start, and then runs the text for that start."""

    def __init__(self, folder: Path, text: str = "") -> None:
        self._noted = folder / "started"
        self.program = script(
            folder, f'echo $$ >> "{self._noted}"\nn=$(wc -l < "{self._noted}")\n{text}\nexec "{sys.executable}" "$@"'
        )

    def started(self) -> list[int]:
        return [int(line) for line in self._noted.read_text().splitlines()]


def planned(readers: Readers, path: str) -> None:
    ran = run(readers.jar(path, planningTimeout=PATIENT).where("id = 6"))
    assert ran.rows == ["(6,)"]
    assert (ran.plan.planned, ran.plan.kept, ran.plan.total) == (True, 1, 4), ran.plan.reason


def reasons(readers: Readers, path: str) -> str:
    ran = run(readers.jar(path, planningTimeout=PATIENT).where("id = 6"))
    assert ran.rows == ["(6,)"]
    return "" if ran.plan.planned else str(ran.plan.reason)


def test_a_planner_killed_while_it_starts_is_replaced(readers: Readers, path: str, tmp_path: Path) -> None:
    interpreter = Interpreter(tmp_path, "[ $n -gt 1 ] || kill -KILL $$")
    with warnings(readers) as lines, application_conf(readers.spark, {PYTHON: interpreter.program}):
        reason = reasons(readers, path)
        assert "was killed by signal 9" in reason
        assert f"process {interpreter.started()[0]})" in reason
        assert "import" not in reason
        planned(readers, path)
    assert len(interpreter.started()) == 2
    assert len(lines) == 1, lines


def test_a_planner_killed_twice_is_not_restarted_at_once(readers: Readers, path: str, tmp_path: Path) -> None:
    interpreter = Interpreter(tmp_path, "kill -SEGV $$")
    with application_conf(readers.spark, {PYTHON: interpreter.program}):
        for _ in range(3):
            _, failures = unplanned(readers, path, planningTimeout=PATIENT)
            assert failures == [1]
    assert len(interpreter.started()) == 2


def test_a_failed_import_is_reported_and_not_retried(readers: Readers, path: str, tmp_path: Path) -> None:
    interpreter = Interpreter(tmp_path, f'exec "{sys.executable}" -S -E "$@"')
    with warnings(readers) as lines, application_conf(readers.spark, {PYTHON: interpreter.program, PATH: ""}):
        plan, failures = unplanned(readers, path, planningTimeout=PATIENT)
    assert "exited with code 1: ModuleNotFoundError: No module named 'pyspark_bloomparquet'" in str(plan.reason)
    assert failures == [1]
    assert len(lines) == len(interpreter.started()) == 1


def test_the_last_line_of_stderr_is_bounded(readers: Readers, path: str, tmp_path: Path) -> None:
    text = (
        "i=0; while [ $i -lt 3 ]; do printf '%03000d\\n' $i >&2; i=$((i+1)); done; printf 'the é end\\n\\n' >&2; exit 7"
    )
    with application_conf(readers.spark, {PYTHON: script(tmp_path, text)}):
        plan, _ = unplanned(readers, path, planningTimeout=PATIENT)
    assert "exited with code 7: the é end; check that this Python" in str(plan.reason)


def test_a_program_that_does_not_read_requests_is_ended(readers: Readers, path: str, tmp_path: Path) -> None:
    among = ", ".join(map(str, range(1000, 21_000)))  # larger than a pipe's buffer
    with application_conf(readers.spark, {PYTHON: script(tmp_path, "exec <&-; exec sleep 60")}):
        ran = run(readers.jar(path, planningTimeout=PATIENT).where(f"id IN (6, {among})"))
    assert ran.rows == ["(6,)"]
    assert "does not read its requests" in str(ran.plan.reason)


def test_queries_do_not_wait_for_a_stopped_planner(readers: Readers, path: str, tmp_path: Path) -> None:
    """The watchdog kills it after a few seconds, long before planningTimeout."""
    interpreter = Interpreter(tmp_path)
    with (
        short_limits(readers),
        warnings(readers) as lines,
        application_conf(readers.spark, {PYTHON: interpreter.program}),
    ):
        planned(readers, path)
        (first,) = interpreter.started()
        os.kill(first, signal.SIGSTOP)
        with ThreadPoolExecutor(4) as threads:
            answers = list(threads.map(lambda _: reasons(readers, path), range(4)))
        assert all("gave no sign of life for" in each for each in answers), answers
        assert all("was it stopped?" in each for each in answers), answers
        planned(readers, path)
    assert len(interpreter.started()) == 2
    assert len(lines) == 1, lines
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


SLOW_PLAN = """
import ctypes, itertools, sys, time
from pyspark_bloomparquet.jar import planner_worker
planner_worker._HEARTBEAT_SECONDS = 0.5
plan = planner_worker.planner.plan_dataset
def slow(*args, **kwargs):
    {slow}
    return plan(*args, **kwargs)
planner_worker.planner.plan_dataset = slow
planner_worker.main()
"""
BUSY = """
    began = time.monotonic()
    sum(itertools.repeat(1, 10 ** 7))  # one call that holds Python's global lock
    sum(itertools.repeat(1, int(10 ** 7 * 3 / (time.monotonic() - began))))
"""


@pytest.mark.parametrize("how", ["waits", "holds the global lock", "starts slowly"])
def test_a_slow_planner_is_not_killed(readers: Readers, path: str, tmp_path: Path, how: str) -> None:
    """Each planner is slower than the limit for a stopped one."""
    text = "sleep 3"
    if how != "starts slowly":
        program = tmp_path / "slow.py"
        program.write_text(SLOW_PLAN.format(slow="time.sleep(3)" if how == "waits" else BUSY))
        text = f'exec "{sys.executable}" "{program}"'
    interpreter = Interpreter(tmp_path, text)
    with short_limits(readers), application_conf(readers.spark, {PYTHON: interpreter.program}):
        planned(readers, path)
    assert len(interpreter.started()) == 1


def test_a_planner_killed_between_queries_is_restarted(readers: Readers, path: str, tmp_path: Path) -> None:
    interpreter = Interpreter(tmp_path)
    with application_conf(readers.spark, {PYTHON: interpreter.program}):
        planned(readers, path)
        (first,) = interpreter.started()
        os.kill(first, signal.SIGKILL)
        for _ in range(2):  # a query that meets the dead planner may have no plan
            assert texts(readers.jar(path).where("id = 2").collect()) == ["(2,)"]
        planned(readers, path)
    assert len(interpreter.started()) == 2


def test_queries_survive_a_planner_killed_while_it_plans(readers: Readers, path: str, tmp_path: Path) -> None:
    interpreter = Interpreter(tmp_path)
    with application_conf(readers.spark, {PYTHON: interpreter.program}):
        planned(readers, path)
        (first,) = interpreter.started()
        os.kill(first, signal.SIGSTOP)
        with ThreadPoolExecutor(4) as threads:
            queries = [
                threads.submit(lambda v: texts(readers.jar(path).where(f"id = {v}").collect()), v) for v in range(4)
            ]
            time.sleep(1)  # the queries wait for their plans
            assert not any(query.done() for query in queries)
            os.kill(first, signal.SIGKILL)
            assert [query.result(60) for query in queries] == [[f"({v},)"] for v in range(4)]
        planned(readers, path)
    assert len(interpreter.started()) == 2
