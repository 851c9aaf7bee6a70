"""A small, quiet Spark for tests, and files written by its own Parquet writer with Bloom filters in them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaClass, JavaPackage, JVMView
from pyspark.sql import DataFrame, SparkSession

from tests.support import spark_kms

FOR_SMALL_QUERIES = {
    "spark.broadcast.compress": "false",
    "spark.broadcast.blockSize": "64k",  # what each broadcast allocates at least
    "spark.buffer.pageSize": "1m",  # likewise for joins and aggregates
    "spark.sql.ui.explainMode": "simple",  # the plan as text, which the UI would show
}
"""Settings with which thousands of small queries cost less. Benchmarks keep Spark's own."""
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
"""Spark's defaults: it compiles the code of each query."""
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""To compile takes longer than to run a small query that runs once."""
_OPTIONS = " ".join(f"--conf {name}={value}" for name, value in (FOR_SMALL_QUERIES | INTERPRETED).items())
ENVIRONMENT = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_SUBMIT_ARGS": f"{_OPTIONS} pyspark-shell"}
"""The environment of programs that start a Spark of their own, for small queries."""


def start(home: Path, **conf: str) -> SparkSession:
    """A session with two threads, which writes its own files under `home`."""
    os.environ["BLOOMPARQUET_KEY_PROVIDERS"] = spark_kms.ALLOWED  # for Spark's Python workers, which inherit it
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("bloomparquet-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.bloomparquet.keyProviders", spark_kms.ALLOWED)
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "3g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.default.parallelism", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config("spark.local.dir", str(home / "local"))
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={home / 'derby'}")
    )
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def remember_names() -> None:
    """Ask the JVM once, not at each use, what a name of Spark or Java means: before it says that a name is a package,
    it looks for a class of that name in every jar."""

    def remembering(ask: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        def get(self: Any, name: str) -> Any:
            value = ask(self, name)
            # Other packages may get classes later, with a jar.
            if isinstance(value, JavaClass) or str(getattr(value, "_fqn", "")).startswith(("org", "java", "scala")):
                self.__dict__[name] = value
            return value

        return get

    JVMView.__getattr__, JavaPackage.__getattr__ = (remembering(kind.__getattr__) for kind in (JVMView, JavaPackage))


def forget_sources(session: SparkSession) -> None:
    """Make Hadoop's configuration cheap to serialise, which Spark does for each query.

    Hadoop notes which file set each of its 1,500 properties, and compresses each of these notes by itself. It reads all
    properties again whenever a library adds a file of defaults, so the notes go to a map that holds one.
    """
    context: Any = session.sparkContext
    hadoop = context._jsc.hadoopConfiguration()
    one = context._jvm.org.apache.commons.collections4.map.LRUMap(1)
    notes = hadoop.getClass().getDeclaredField("updatingResource")
    notes.setAccessible(True)
    notes.set(hadoop, context._jvm.java.util.Collections.synchronizedMap(one))


@contextmanager
def clock(spark: SparkSession, zone: str) -> Iterator[None]:
    """Set the JVM's default zone, by which Spark writes and reads timestamps of ORC, in a block."""
    zones: Any = spark._jvm.java.util.TimeZone
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone(zone))
    try:
        yield
    finally:
        zones.setDefault(before)


@contextmanager
def conf(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Set the session's configuration in a block, and restore it afterwards."""
    before = {key: spark.conf.get(key, None) for key in values}
    for key, value in values.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)


@contextmanager
def application_conf(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Set settings of the application in a block, as if it had been started with them."""
    settings: Any = spark.sparkContext._jsc.sc().conf()  # type: ignore[union-attr]
    before = {key: settings.get(key, "") for key in values}
    for key, value in values.items():
        settings.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            settings.set(key, old) if old else settings.remove(key)


def write(
    frame: DataFrame,
    path: Path | str,
    bloom: Mapping[str, int | None] | None = None,
    *,
    files: int | None = None,
    rows_per_group: int | None = None,
    partition_by: tuple[str, ...] = (),
    options: Mapping[str, Any] | None = None,
) -> str:
    """Write `frame` with parquet-java, with a filter for every column of `bloom`, and return the path.

    The value of a column in `bloom` is the NDV to expect, or None for parquet-java's default, a filter of 1 MiB. These
    columns have no dictionary encoding: parquet-java writes no filter for a chunk with dictionary pages only.
    """
    writer = (frame if files is None else frame.repartition(files)).write.mode("overwrite")
    for column, distinct in (bloom or {}).items():
        writer = writer.option(f"parquet.bloom.filter.enabled#{column}", "true")
        writer = writer.option(f"parquet.enable.dictionary#{column}", "false")
        if distinct is not None:
            writer = writer.option(f"parquet.bloom.filter.expected.ndv#{column}", str(distinct))
    if rows_per_group is not None:
        writer = writer.option("parquet.block.row.count.limit", str(rows_per_group))
    for key, value in (options or {}).items():
        writer = writer.option(key, str(value))
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    writer.parquet(str(path))
    return str(path)


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    """All rows as sorted tuples, for comparison."""
    return sorted((tuple(row) for row in frame.collect()), key=repr)
