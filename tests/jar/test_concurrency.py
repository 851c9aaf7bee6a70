"""Concurrent queries in threads, sessions and processes: each has its own rows and its own plan."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pyspark_bloomparquet import last_plan
from tests.support import files
from tests.support.scenarios import Readers, texts
from tests.support.spark import application_conf

pytestmark = pytest.mark.slow

FILES = 8


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Eight files of two row groups. Only filters can tell which one has an id."""
    root = tmp_path_factory.mktemp("concurrency")
    for i in range(FILES):
        ids = [i + FILES * (row * 7 % 40) for row in range(40)]
        files.write(root / f"{i}.parquet", {"id": ids}, {"id": {"ndv": 20, "fpp": 1e-5}}, rows_per_group=20)
    return str(root)


def look_up(frame: Any, value: int) -> tuple[list[str], int]:
    query = frame.where(f"id = {value}")
    rows = texts(query.collect())
    (plan,) = last_plan(query)
    return rows, plan.kept


def test_many_threads_with_a_load_each(readers: Readers, path: str) -> None:
    """Each new thread of the JVM has its own class loader, which must find the jar's classes."""
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda value: look_up(readers.jar(path), value), range(16)))
    assert answers == [([f"({value},)"], 1) for value in range(16)]


QUERIES = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tests.support.spark import start
from tests.support.scenarios import texts
from pyspark_bloomparquet import attach, last_plan
path, cache, home = sys.argv[1:]
spark = start(Path(home), **{"spark.bloomparquet.cacheDirectory": cache})
attach(spark)
def ask(value):
    frame = spark.read.format("bloomparquet").load(path).where(f"id = {value}")
    return texts(frame.collect()), [(plan.planned, plan.kept) for plan in last_plan(frame)]
print("READY", flush=True)
with ThreadPoolExecutor(8) as threads:
    print("FOUND", json.dumps(list(threads.map(ask, range(16)))))
spark.stop()
"""


def test_two_processes_share_a_disk_cache(readers: Readers, path: str, tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    where = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "python")])}
    command = [sys.executable, "-c", QUERIES, path, str(tmp_path / "cache"), str(tmp_path / "home")]
    expected = [[[f"({value},)"], [[True, 1]]] for value in range(16)]
    log = tmp_path / "log"
    with log.open("w") as out, subprocess.Popen(command, env=where, stdout=out, stderr=out) as process:

        def ask(value: int) -> list[Any]:
            frame = readers.jar(path).where(f"id = {value}")
            return [texts(frame.collect()), [[plan.planned, plan.kept] for plan in last_plan(frame)]]

        shared = {"spark.bloomparquet.cacheDirectory": str(tmp_path / "cache")}
        with application_conf(readers.spark, shared), ThreadPoolExecutor(8) as threads:
            while process.poll() is None and "READY" not in log.read_text():
                time.sleep(0.1)
            while process.poll() is None:
                assert list(threads.map(ask, range(16))) == expected
    assert process.returncode == 0, log.read_text()[-3000:]
    (line,) = [line for line in log.read_text().splitlines() if line.startswith("FOUND ")]
    assert json.loads(line[6:]) == expected
    assert any((tmp_path / "cache").rglob("*")), "nothing was kept"
