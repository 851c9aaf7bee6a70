"""Tables without filters, and Python workers of Spark that run a program of the test."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
from pyspark.sql import DataFrame, SparkSession

import bloomparquet as bp
from tests.support import files
from tests.support.class_archive import JAVA_FLAGS


def ids(seed: int, count: int = 2000) -> list[int]:
    return [(i * 7919 + seed * 104729) % 1_000_003 for i in range(count)]


def make_table(root: Path) -> Path:
    """Six files of growing size in two days, with spaces and equals signs in their directories."""
    for i in range(6):
        numbers = ids(i, 500 * (i + 1))
        data = pa.table(
            {"Id": numbers, "st": [{"x": v, "y": str(v)} for v in numbers], "a.b": [str(v) for v in numbers]}
        )
        files.write(root / f"day=2026-03-0{i % 2}" / "at=x y=z" / f"part {i}.parquet", data, rows_per_group=1000)
    return root


def contents(root: Path) -> dict[str, bytes]:
    """The bytes of every file below `root`, hidden ones included."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def data_files(root: Path) -> list[str]:
    return sorted(str(path) for path in root.rglob("*.parquet") if not path.name.startswith("."))


def actions(frame: DataFrame) -> Counter[str]:
    return Counter(row.action for row in frame.collect())


def filtered(root: Path) -> set[tuple[str, int, str]]:
    """Every filter below `root`: file, row group, column."""
    filters = bp.inspect(str(root)).to_pylist()
    return {(row["file"], row["row_group"], row["column"]) for row in filters}


def row_groups(root: Path) -> set[tuple[str, int]]:
    return {(path, i) for path in data_files(root) for i in range(pq.read_metadata(path).num_row_groups)}


@contextmanager
def workers(spark: SparkSession, tmp_path: Path, program: str, *options: str) -> Iterator[None]:
    """Within the block, Python workers run `program` when they start."""
    home = tmp_path / "workers"
    home.mkdir()
    (home / "sitecustomize.py").write_text(textwrap.dedent(program))
    python = home / "python"
    python.write_text(
        f'#!/bin/sh\nexport PYTHONPATH="{home}:$PYTHONPATH"\nexec "{sys.executable}" {" ".join(options)} "$@"\n'
    )
    python.chmod(0o755)
    before = spark.sparkContext.pythonExec
    spark.sparkContext.pythonExec = str(python)
    try:
        yield
    finally:
        spark.sparkContext.pythonExec = before


def on_rename(doing: str) -> str:
    """A program that runs `doing` whenever a file called doomed is about to be replaced."""
    return f"""
import os, signal, time
original = os.rename
def rename(source, target, **more):
    if "doomed" in os.path.basename(target):
        {doing}
    return original(source, target, **more)
os.rename = rename
"""


def run_speculating(program: str, home: Path) -> list[str]:
    """Run a program whose Spark starts every task again that is not done at once. Returns the lines that it printed."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": f"'{JAVA_FLAGS}'",
        "spark.speculation": "true",
        "spark.speculation.interval": "10ms",
        "spark.speculation.multiplier": "1.01",
        "spark.speculation.quantile": "0.1",
        "spark.speculation.minTaskRuntime": "1ms",
    }
    arguments = " ".join(f"--conf {key}={value}" for key, value in settings.items())
    environment = {
        **os.environ,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_WORKER_DIR": str(home / "work"),
        "SPARK_LOCAL_DIRS": str(home / "local"),
        "PYSPARK_SUBMIT_ARGS": f"{arguments} pyspark-shell",
    }
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True, text=True, check=False, cwd=home, env=environment, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.splitlines()
