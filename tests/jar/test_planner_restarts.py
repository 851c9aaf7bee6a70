"""A planner that was killed or stopped is replaced, so that a later query has a plan."""

from __future__ import annotations

import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.planners import PATIENT, PYTHON, Interpreter, planned, reasons, short_limits, unplanned, warnings
from tests.support.scenarios import Readers, texts
from tests.support.spark import application_conf

pytestmark = pytest.mark.slow


def test_a_planner_killed_while_it_starts_is_not_restarted_at_once(
    readers: Readers, four_files: str, tmp_path: Path
) -> None:
    interpreter = Interpreter(tmp_path, "kill -KILL $$")
    with warnings(readers.spark) as lines, application_conf(readers.spark, {PYTHON: interpreter.program}):
        plan, failures = unplanned(readers, four_files, planningTimeout=PATIENT)
    (process,) = interpreter.started()
    assert f"process {process}) was killed by signal 9" in str(plan.reason)
    assert "import" not in str(plan.reason)
    assert failures == [1]
    assert len(lines) == 1, lines


def test_queries_do_not_wait_for_a_stopped_planner(readers: Readers, four_files: str, tmp_path: Path) -> None:
    """The watchdog kills it after a few seconds, long before planningTimeout."""
    interpreter = Interpreter(tmp_path)
    with (
        short_limits(readers),
        warnings(readers.spark) as lines,
        application_conf(readers.spark, {PYTHON: interpreter.program}),
    ):
        planned(readers, four_files)
        (first,) = interpreter.started()
        os.kill(first, signal.SIGSTOP)
        with ThreadPoolExecutor(4) as threads:
            answers = list(threads.map(lambda _: reasons(readers, four_files), range(4)))
        assert all("gave no sign of life for" in each for each in answers), answers
        assert all("was it stopped?" in each for each in answers), answers
        planned(readers, four_files)
    assert len(interpreter.started()) == 2
    assert len(lines) == 1, lines
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


SLOW_PLAN = """
import ctypes, itertools, sys, time
from pyspark_bloomparquet.jar import planner_worker
planner_worker._HEARTBEAT_SECONDS = 0.25
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
    sum(itertools.repeat(1, int(10 ** 7 * 1.5 / (time.monotonic() - began))))
"""


@pytest.mark.parametrize("how", ["waits", "holds the global lock", "starts slowly"])
def test_a_slow_planner_is_not_killed(readers: Readers, four_files: str, tmp_path: Path, how: str) -> None:
    """Each planner is slower than the limit for a stopped one."""
    text = "sleep 1.5"
    if how != "starts slowly":
        program = tmp_path / "slow.py"
        program.write_text(SLOW_PLAN.format(slow="time.sleep(1.5)" if how == "waits" else BUSY))
        text = f'exec "{sys.executable}" "{program}"'
    interpreter = Interpreter(tmp_path, text)
    with short_limits(readers), application_conf(readers.spark, {PYTHON: interpreter.program}):
        planned(readers, four_files)
    assert len(interpreter.started()) == 1


def test_queries_survive_killed_planners(readers: Readers, four_files: str, tmp_path: Path) -> None:
    interpreter = Interpreter(tmp_path)
    with application_conf(readers.spark, {PYTHON: interpreter.program}):
        planned(readers, four_files)
        (first,) = interpreter.started()
        os.kill(first, signal.SIGSTOP)
        with ThreadPoolExecutor(4) as threads:
            queries = [
                threads.submit(lambda v: texts(readers.jar(four_files).where(f"id = {v}").collect()), v)
                for v in range(4)
            ]
            time.sleep(1)  # the queries wait for their plans
            assert not any(query.done() for query in queries)
            os.kill(first, signal.SIGKILL)
            assert [query.result(60) for query in queries] == [[f"({v},)"] for v in range(4)]
        planned(readers, four_files)
        os.kill(interpreter.started()[1], signal.SIGKILL)  # between queries
        for _ in range(2):  # a query that meets the dead planner may have no plan
            assert texts(readers.jar(four_files).where("id = 2").collect()) == ["(2,)"]
        planned(readers, four_files)
    assert len(interpreter.started()) == 3
