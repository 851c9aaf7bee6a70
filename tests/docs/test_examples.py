"""The programs in examples/ run, and the demo can fail. The README runs lookup.py: see test_pages.py."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from tests.support import files
from tests.support.spark import ENVIRONMENT, conf

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SMALLER_DEMO = f"""
import runpy, sys
sys.path.insert(0, {str(EXAMPLES)!r})
import event_log
event_log.FILES_PER_DAY, event_log.ROWS_PER_GROUP, event_log.ROWS_PER_FILE = 4, 1_024, 4_096
runpy.run_path({str(EXAMPLES / "demo.py")!r}, run_name="__main__")
"""


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import demo

    return demo


@pytest.fixture
def source(demo: ModuleType, spark: SparkSession) -> Iterator[str]:
    """The source that the demo compares with Spark's, without the jar."""
    cloudpickle.register_pickle_by_value(demo)  # workers cannot import it
    spark.dataSource.register(demo.PythonSource)
    with conf(spark, {"spark.sql.python.filterPushdown.enabled": "true"}):
        yield demo.PYTHON


def test_pyarrow_only_needs_no_spark(tmp_path: Path) -> None:
    for name in ("pyspark", "py4j"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('blocked by the test')\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "pyarrow_only.py")],
        cwd=tmp_path, check=False, capture_output=True, text=True, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "of 32 row groups kept" in done.stdout
    assert "1 rows" in done.stdout


def test_the_demo_succeeds_and_reuses_its_data(demo: ModuleType, spark: SparkSession, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SMALLER_DEMO, "--data", str(tmp_path), "--runs", "1"],
        cwd=tmp_path, check=False, capture_output=True, text=True, env={**os.environ, **ENVIRONMENT},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    shown = done.stdout
    assert shown.count("32 files, 128 row groups, 131,072 rows") == 2
    assert shown.count(" yes") == 10
    assert max(map(len, shown.splitlines())) <= 100

    written = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    demo.prepare(spark, tmp_path, fresh=False)
    assert written == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}


def test_the_demo_fails_when_an_answer_differs_or_nothing_is_skipped(
    demo: ModuleType, spark: SparkSession, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def succeeds(folder: Path, *lookups: Any) -> bool:
        monkeypatch.setattr(demo, "lookups", lambda values: lookups)
        before = demo.answers(spark, demo.SPARK, folder, {}, runs=1)
        good: bool = demo.compare(spark, source, "pyarrow", folder, {}, before)
        return good

    ids = [i * 7919 % 1009 for i in range(1009)]
    for folder, bloom in (("with", ["user_id"]), ("without", [])):
        files.write(tmp_path / folder / "users.parquet", {"user_id": ids}, bloom, rows_per_group=100)
    good = demo._plain("good", "user_id = 5")
    wrong = demo.Lookup("wrong", "user_id = 5", lambda s, f, p: s.read.format(f).load(p).where(f"user_id = {len(f)}"))
    assert succeeds(tmp_path / "with", good)
    assert not succeeds(tmp_path / "with", good, wrong)
    assert not succeeds(tmp_path / "without", good)
