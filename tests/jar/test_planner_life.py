"""A planner that is killed, stopped, slow or cannot start: every query has its rows, and a later one a plan."""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.jar.test_no_harm import PATH, PYTHON, script, unplanned, warnings
from tests.support import files
from tests.support.scenarios import Readers, run
from tests.support.spark import application_conf

PATIENT = "10min"  # a query that waits this long fails its test


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Four files of one row group each. Only filters can tell them apart."""
    root = tmp_path_factory.mktemp("life")
    for i in range(4):
        files.write(root / f"{i}.parquet", {"id": [i + 4 * (row * 7 % 20) for row in range(20)]}, ["id"], fpp=1e-4)
    return str(root)


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
    assert "exited with code 7: the é end; can that Python" in str(plan.reason)


def test_a_program_that_does_not_read_requests(readers: Readers, path: str, tmp_path: Path) -> None:
    among = ", ".join(map(str, range(1000, 21_000)))  # larger than a pipe's buffer
    with application_conf(readers.spark, {PYTHON: script(tmp_path, "exec <&-; exec sleep 60")}):
        ran = run(readers.jar(path, planningTimeout=PATIENT).where(f"id IN (6, {among})"))
    assert ran.rows == ["(6,)"]
    assert "does not read its requests" in str(ran.plan.reason)


def test_queries_do_not_wait_for_a_stopped_planner(readers: Readers, path: str, tmp_path: Path) -> None:
    """The watchdog kills it after a few seconds, long before planningTimeout."""
    interpreter = Interpreter(tmp_path)
    with warnings(readers) as lines, application_conf(readers.spark, {PYTHON: interpreter.program}):
        planned(readers, path)
        (first,) = interpreter.started()
        os.kill(first, signal.SIGSTOP)
        with ThreadPoolExecutor(4) as threads:
            reasons_of_all = list(threads.map(lambda _: reasons(readers, path), range(4)))
        assert all("gave no sign of life for" in each for each in reasons_of_all), reasons_of_all
        assert all("was it stopped?" in each for each in reasons_of_all), reasons_of_all
        planned(readers, path)
    assert len(interpreter.started()) == 2
    assert len(lines) == 1, lines
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


SLOW_PLAN = """
import ctypes, itertools, sys, time
from pyspark_bloomparquet.jar import planner_worker
plan = planner_worker.planner.plan
def slow(*args, **kwargs):
    {slow}
    return plan(*args, **kwargs)
planner_worker.planner.plan = slow
planner_worker.main()
"""
BUSY = """
    began = time.monotonic()
    sum(itertools.repeat(1, 10 ** 7))  # one call that holds Python's global lock
    sum(itertools.repeat(1, int(10 ** 7 * 13 / (time.monotonic() - began))))
"""


@pytest.mark.parametrize("how", ["waits", "holds the global lock", "starts slowly"])
def test_a_slow_planner_is_not_killed(readers: Readers, path: str, tmp_path: Path, how: str) -> None:
    """Each planner is slower than the limit for a stopped one."""
    text = "sleep 10"
    if how != "starts slowly":
        program = tmp_path / "slow.py"
        program.write_text(SLOW_PLAN.format(slow="time.sleep(10)" if how == "waits" else BUSY))
        text = f'exec "{sys.executable}" "{program}"'
    interpreter = Interpreter(tmp_path, text)
    with application_conf(readers.spark, {PYTHON: interpreter.program}):
        planned(readers, path)
    assert len(interpreter.started()) == 1
