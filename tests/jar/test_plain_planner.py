"""Whatever happens to the planner, Spark's own scans return all rows, and one warning says what happened."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import DataFrame

from pyspark_bloomparquet import ScanSummary, last_plan
from tests.support.planners import BROKEN, PYTHON, Interpreter, script, short_limits, warnings
from tests.support.scenarios import PRUNED, Readers, texts
from tests.support.spark import application_conf, conf

pytestmark = pytest.mark.slow

TIMEOUT = "spark.datasource.bloomparquet.planningTimeout"


@contextmanager
def planner(readers: Readers, program: str, timeout: str = "10min") -> Iterator[None]:
    with application_conf(readers.spark, {PYTHON: program}), conf(readers.spark, {TIMEOUT: timeout, **PRUNED}):
        yield


def look_up(readers: Readers, path: str, value: int = 6) -> ScanSummary:
    """Look up a row, which is there whether planned or not."""
    frame: DataFrame = readers.oracle(path).where(f"id = {value}")
    assert texts(frame.collect()) == [f"({value},)"]
    (plan,) = last_plan(frame)
    return plan


@pytest.mark.parametrize("case", ["there is no such program", "it ends at once", "it prints text"])
def test_a_program_that_is_no_planner_is_warned_of_once(
    readers: Readers, four_files: str, tmp_path: Path, case: str
) -> None:
    text, message = BROKEN[case]
    program = str(tmp_path / "missing") if text is None else script(tmp_path, text)
    with warnings(readers) as lines, planner(readers, program, "20s"):
        plans = [look_up(readers, four_files) for _ in range(2)]
        assert texts(readers.oracle(four_files).where("id = -6").groupBy().count().collect()) == ["(0,)"]
    for plan in plans:
        assert not plan.planned
        assert message in plan.reason
    assert len(lines) == 1, lines
    assert "Spark reads everything, as without bloomparquet" in lines[0]


def test_queries_do_not_wait_for_a_silent_planner(readers: Readers, four_files: str, tmp_path: Path) -> None:
    interpreter = Interpreter(tmp_path, "exec sleep 20000")
    with warnings(readers) as lines, planner(readers, interpreter.program, "300ms"):
        plans = [look_up(readers, four_files) for _ in range(2)]
    assert all("took longer than planningTimeout, 300 ms" in str(plan.reason) for plan in plans[:1]), plans
    assert not any(plan.planned for plan in plans)
    assert len(lines) == 1, lines


def test_a_planner_killed_between_queries_is_restarted(readers: Readers, four_files: str, tmp_path: Path) -> None:
    interpreter = Interpreter(tmp_path)
    with planner(readers, interpreter.program):
        assert look_up(readers, four_files).kept == 1
        os.kill(interpreter.started()[0], signal.SIGKILL)
        for value in (2, 3):  # a query that meets the dead planner may have no plan
            look_up(readers, four_files, value)
        assert look_up(readers, four_files).kept == 1
    assert len(interpreter.started()) == 2


def test_queries_survive_a_planner_killed_while_it_plans(readers: Readers, four_files: str, tmp_path: Path) -> None:
    interpreter = Interpreter(tmp_path)
    with planner(readers, interpreter.program):
        assert look_up(readers, four_files).kept == 1
        (first,) = interpreter.started()
        os.kill(first, signal.SIGSTOP)
        with ThreadPoolExecutor(4) as threads:
            queries = [threads.submit(look_up, readers, four_files, value) for value in range(4)]
            time.sleep(1)  # the queries wait for their plans
            assert not any(query.done() for query in queries)
            os.kill(first, signal.SIGKILL)
            assert [query.result(120).total for query in queries]  # planned by a new planner, or not at all
        assert look_up(readers, four_files).kept == 1


def test_a_stopped_planner_is_replaced(readers: Readers, four_files: str, tmp_path: Path) -> None:
    interpreter = Interpreter(tmp_path)
    with short_limits(readers), warnings(readers) as lines, planner(readers, interpreter.program):
        assert look_up(readers, four_files).kept == 1
        os.kill(interpreter.started()[0], signal.SIGSTOP)
        assert "gave no sign of life for" in str(look_up(readers, four_files).reason)
        assert look_up(readers, four_files).kept == 1
    assert len(lines) == 1, lines


def test_a_session_can_switch_planning_off(readers: Readers, four_files: str) -> None:
    with conf(readers.spark, {"spark.datasource.bloomparquet.planning": "off", **PRUNED}):
        assert "planning is off" in str(look_up(readers, four_files).reason)
    with conf(readers.spark, PRUNED):
        assert look_up(readers, four_files).kept == 1
