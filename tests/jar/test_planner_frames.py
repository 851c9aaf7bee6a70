"""Faulty answers of the planner cost a plan, never rows: the jar then reads everything."""

from __future__ import annotations

import os
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from pyspark_bloomparquet import last_plan
from tests.conftest import ROOT
from tests.faults.injector import IS_REPEATED, repeat, seeds
from tests.support.planners import PYTHON, Interpreter
from tests.support.scenarios import Readers, texts
from tests.support.spark import application_conf

pytestmark = pytest.mark.slow

FAULTY = """
PYTHONPATH="$PYTHONPATH:{root}"; export PYTHONPATH
exec "{python}" -c "from tests.faults.faulty_planner import main; main({seed})"
"""


def test_faulty_answers_cost_no_rows(readers: Readers, four_files: str, tmp_path: Path) -> None:
    tally = Counter[str]()

    def ask(value: int) -> tuple[list[str], bool]:
        frame = readers.jar(four_files, planningTimeout="1500ms").where(f"id = {value}")
        return texts(frame.collect()), last_plan(frame)[0].planned

    for seed in seeds(0.004, few=4):
        home = tmp_path / str(seed)
        home.mkdir()
        program = FAULTY.format(root=ROOT, python=os.environ["PYSPARK_PYTHON"], seed=seed)
        interpreter = Interpreter(home, program)
        values = Random(seed).sample(range(100), 5)
        try:
            with application_conf(readers.spark, {PYTHON: interpreter.program}), ThreadPoolExecutor(3) as threads:
                for value, (rows, planned) in zip(values, [*map(ask, values[:2]), *threads.map(ask, values[2:])]):
                    assert rows == ([f"({value},)"] if value < 80 else []), f"id = {value}, planned: {planned}"
                    tally["planned" if planned else "unplanned"] += 1
        except BaseException:
            print(repeat(seed, "faulty_answers"))
            raise
        finally:
            for process in interpreter.started():
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
    print(f"\n{dict(tally)}")
    assert IS_REPEATED or min(tally["planned"], tally["unplanned"]) > 0
