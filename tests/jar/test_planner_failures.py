"""Whatever happens to the planner, rows equal those of ``spark.read.parquet``, and one warning says what happened."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from tests.support.option_cases import WRONG_VALUES
from tests.support.planners import (
    BROKEN,
    PATIENT,
    PATIENT_SECONDS,
    PYTHON,
    Interpreter,
    has_ended,
    script,
    short_limits,
    unplanned,
    warnings,
)
from tests.support.scenarios import Readers, run, texts
from tests.support.spark import application_conf

pytestmark = pytest.mark.slow

PATH = "spark.bloomparquet.pythonPath"


@pytest.mark.parametrize("case", BROKEN)
def test_a_program_that_is_no_planner_is_warned_of_once(
    readers: Readers, four_files: str, tmp_path: Path, case: str
) -> None:
    text, message = BROKEN[case]
    program = str(tmp_path / "missing") if text is None else script(tmp_path, text)
    with warnings(readers.spark) as lines, application_conf(readers.spark, {PYTHON: program}):
        plan, failures = unplanned(readers, four_files, planningTimeout="20s")
    assert message in plan.reason
    assert failures == [1]
    assert len(lines) == 1, lines
    assert program in lines[0]
    assert "Spark reads everything, as without bloomparquet" in lines[0]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("exec sleep 20000", 4_000),  # larger than a pipe's buffer
        ("echo 1234; exec sleep 20000", 1),  # parsed as a length of 800 MiB
    ],
)
def test_a_query_does_not_wait_for_a_silent_program(
    readers: Readers, four_files: str, tmp_path: Path, text: str, values: int
) -> None:
    interpreter = Interpreter(tmp_path, text)
    among = ", ".join(map(str, range(10**18, 10**18 + values)))
    with application_conf(readers.spark, {PYTHON: interpreter.program}):
        began = time.monotonic()
        frame = readers.jar(four_files, planningTimeout="300ms").where(f"id IN (6, {among})")
        assert texts(frame.collect()) == ["(6,)"]
        assert time.monotonic() - began < PATIENT_SECONDS
        assert "took longer than planningTimeout, 300 ms" in str(run(frame).plan.reason)
    assert len(interpreter.started()) == 1


def test_a_silent_program_is_ended(readers: Readers, four_files: str, tmp_path: Path) -> None:
    interpreter = Interpreter(tmp_path, "exec sleep 20000")
    with short_limits(readers, 50), application_conf(readers.spark, {PYTHON: interpreter.program}):
        unplanned(readers, four_files, planningTimeout="300ms")
        (process,) = interpreter.started()
        assert has_ended(process)


def test_a_late_plan_serves_the_next_query(readers: Readers, four_files: str, tmp_path: Path) -> None:
    program = script(tmp_path, f'sleep 1.5; exec "{sys.executable}" "$@"')
    with warnings(readers.spark) as lines, application_conf(readers.spark, {PYTHON: program}):
        unplanned(readers, four_files, planningTimeout="200ms")
        plan = run(readers.jar(four_files, planningTimeout="30s").where("id = 6")).plan
    assert (plan.planned, plan.kept) == (True, 1)
    assert len(lines) == 1


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"planning": " OFF "}, "planning is off"), ({"pushFilters": "off"}, "no filter that can skip row groups")],
    ids=str,
)
def test_planning_that_was_not_wanted_is_no_failure(
    readers: Readers, four_files: str, options: dict[str, str], reason: str
) -> None:
    with warnings(readers.spark) as lines:
        plan, failures = unplanned(readers, four_files, **options)
    assert reason in plan.reason
    assert failures == [0]
    assert lines == []
    assert run(readers.jar(four_files, planning="Auto").where("id = 6")).plan.kept == 1


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [*WRONG_VALUES, *(("planningTimeout", text, "a duration as Spark writes them") for text in ("soon", "0s"))],
)
def test_a_wrong_option_value_is_an_error(
    readers: Readers, four_files: str, option: str, value: str, expected: str
) -> None:
    with pytest.raises(Exception, match=rf"option {option} is '{value}'; expected {expected}"):
        readers.jar(four_files, **{option: value}).where("id = 6").collect()


def test_a_failed_import_is_reported_and_not_retried(readers: Readers, four_files: str, tmp_path: Path) -> None:
    interpreter = Interpreter(tmp_path, f'exec "{sys.executable}" -S -E "$@"')
    with warnings(readers.spark) as lines, application_conf(readers.spark, {PYTHON: interpreter.program, PATH: ""}):
        plan, failures = unplanned(readers, four_files, planningTimeout=PATIENT)
    assert "exited with code 1: ModuleNotFoundError: No module named 'pyspark_bloomparquet'" in str(plan.reason)
    assert (
        "check that this Python can import pyspark_bloomparquet, or name another in spark.bloomparquet.python"
        in str(plan.reason)
    )
    assert failures == [1]
    assert len(lines) == len(interpreter.started()) == 1


def test_the_last_line_of_stderr_is_bounded(readers: Readers, four_files: str, tmp_path: Path) -> None:
    text = (
        "i=0; while [ $i -lt 3 ]; do printf '%03000d\\n' $i >&2; i=$((i+1)); done; printf 'the é end\\n\\n' >&2; exit 7"
    )
    with application_conf(readers.spark, {PYTHON: script(tmp_path, text)}):
        plan, _ = unplanned(readers, four_files, planningTimeout=PATIENT)
    assert "exited with code 7: the é end; check that this Python" in str(plan.reason)


def test_a_program_that_does_not_read_requests_is_ended(readers: Readers, four_files: str, tmp_path: Path) -> None:
    among = ", ".join(map(str, range(10**18, 10**18 + 4_000)))  # larger than a pipe's buffer
    with application_conf(readers.spark, {PYTHON: script(tmp_path, "exec <&-; exec sleep 60")}):
        ran = run(readers.jar(four_files, planningTimeout=PATIENT).where(f"id IN (6, {among})"))
    assert ran.rows == ["(6,)"]
    assert "does not read its requests" in str(ran.plan.reason)
