"""Programs in the planner's place, and what a query says of them."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from pyspark_bloomparquet import ScanSummary
from tests.support.scenarios import Readers, run, scans

PYTHON = "spark.bloomparquet.python"
PATIENT = "10min"  # a query that waits this long fails its test
PATIENT_SECONDS = 60  # generous: this machine may be busy
_names = itertools.count()


@contextmanager
def warnings(spark: SparkSession) -> Iterator[list[str]]:
    """The lines logged as `bloomparquet` in the block; filled when it ends."""
    jvm: Any = spark._jvm
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
def short_limits(readers: Readers, second_millis: int = 200) -> Iterator[None]:
    """Shorten the watchdog's seconds. It ends a silent planner after 20 if it has never answered, else after 8."""
    jvm: Any = readers.spark._jvm
    jvm.java.lang.System.setProperty("bloomparquet.planner.secondMillis", str(second_millis))
    try:
        yield
    finally:
        jvm.java.lang.System.clearProperty("bloomparquet.planner.secondMillis")


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


class Interpreter:
    """A program that records its process id at each start, and then runs the text for that start."""

    def __init__(self, folder: Path, text: str = "") -> None:
        self._noted = folder / "started"
        self.program = script(
            folder, f'echo $$ >> "{self._noted}"\nn=$(wc -l < "{self._noted}")\n{text}\nexec "{sys.executable}" "$@"'
        )

    def started(self) -> list[int]:
        return [int(line) for line in self._noted.read_text().splitlines()]


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


def unplanned(readers: Readers, path: str | Path, **options: Any) -> tuple[ScanSummary, list[int]]:
    """Look for a row twice, and assert that nothing is skipped. Returns the last plan and its failure metric."""
    for _ in range(2):
        frame = readers.jar(path, **options).where("id = 6")
        ran = run(frame)
        assert ran.rows == ["(6,)"]
        assert not ran.plan.planned
    failures = [
        int(node.metrics().apply("numPlanningFailures").value())
        for node in scans(frame._jdf.queryExecution().executedPlan())
    ]
    return ran.plan, failures


def planned(readers: Readers, path: str) -> None:
    ran = run(readers.jar(path, planningTimeout=PATIENT).where("id = 6"))
    assert ran.rows == ["(6,)"]
    assert (ran.plan.planned, ran.plan.kept, ran.plan.total) == (True, 1, 4), ran.plan.reason


def reasons(readers: Readers, path: str) -> str:
    ran = run(readers.jar(path, planningTimeout=PATIENT).where("id = 6"))
    assert ran.rows == ["(6,)"]
    return "" if ran.plan.planned else str(ran.plan.reason)
