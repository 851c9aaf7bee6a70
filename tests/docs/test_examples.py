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
from tests.support.spark import conf

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


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


def test_the_demo_writes_its_data_once(
    demo: ModuleType, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lookups are left out: CI runs the whole demo."""
    for name, number in (("FILES_PER_DAY", 1), ("ROWS_PER_GROUP", 1_024), ("ROWS_PER_FILE", 4_096)):
        monkeypatch.setattr(demo.event_log, name, number)
    demo.prepare(spark, tmp_path, fresh=False)
    written = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    assert len(written) == 16, "a file for each of 8 days, by both writers"
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
