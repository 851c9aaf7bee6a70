"""A directory, and a session of Spark, for one group of benchmarks.

All sessions of a process share its JVM: class path and memory are those of the first session.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from pyspark_bloomparquet import attach
from tests.support.spark import start


@contextmanager
def directory() -> Iterator[Path]:
    """A new directory, which is deleted at the end."""
    home = Path(tempfile.mkdtemp(prefix="bench-", dir=os.environ.get("BENCH_DATA_DIR")))
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def session(home: Path, **settings: str) -> Iterator[SparkSession]:
    """A session with the jar. Its files are below `home`."""
    cache = {"spark.bloomparquet.cacheDirectory": str(home / "cache")}
    spark = attach(start(home, **{"spark.driver.memory": "4g", **cache, **settings}))
    try:
        yield spark
    finally:
        spark.stop()
