"""The jar: where it is, how a Spark session gets it, and what it planned. All use of py4j is in this file.

With the jar, Spark's own readers read the row groups (for ORC: the stripes) that a planner process with this
interpreter keeps. Without it, ``format("bloomparquet")`` is the Python data source, which returns the same rows but
cannot write, and ``format("bloomorc")`` is an error.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bloomparquet.errors import UnsupportedError
from pyspark_bloomparquet.jar.protocol import COUNT_PREFIX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from bloomparquet.planning.evidence.formats import Unit
    from bloomparquet.planning.plan import RowGroupCounts

SUPPORTED = ((4, 0), (4, 1), (4, 2), (4, 3))
_CLASS = "io.bloomparquet.spark.PythonBridge"
_TRANSPARENT = "spark.bloomparquet.transparent"
_PYTHON, _PYTHON_PATH = "spark.bloomparquet.python", "spark.bloomparquet.pythonPath"


@dataclass(frozen=True)
class ScanSummary:
    """The plan for one scan of a query.

    If not `planned`, `reason` says why, and Spark reads everything. Otherwise ``total = kept + skipped.total()``, in
    row groups (for ORC in stripes; see `unit`) of the files that Spark's partition filters keep. The keys of `skipped`
    are ``"statistics"`` and ``"bloom"``. `row_group_counts` counts the row groups in the stripes; None for Parquet.
    `whole_files` counts files that the planner could not read, because they are encrypted, damaged, or changed since
    they were listed. Their row groups are not in `total`; Spark reads these files whole, or raises an error.
    """

    paths: tuple[str, ...]
    where: str | None
    planned: bool
    reason: str | None
    total: int
    kept: int
    skipped: Counter[str]
    bloom_bytes_read: int
    requests: int
    errors: int
    seconds: float
    whole_files: int = 0
    unit: Unit = "row group"
    row_group_counts: RowGroupCounts | None = None

    def __str__(self) -> str:
        if not self.planned:
            return f"not planned: {self.reason}"
        from bloomparquet.planning.plan import describe_units

        text = describe_units(self.kept, self.total, self.skipped, self.unit)
        if not self.whole_files:
            return text
        return f"{text}; {self.whole_files} file{'s' * (self.whole_files > 1)} read whole, unplanned"


def jar_path() -> Path:
    """The path of the installed jar. UnsupportedError if the installation has none."""
    path = Path(__file__).parents[1] / "jars" / "bloomparquet.jar"
    if not path.is_file():
        raise UnsupportedError(
            f"this installation has no jar (expected {path}). A wheel has it; in a source checkout, run `make jar` "
            'before installing. Without the jar, format("bloomparquet") only reads, and format("bloomorc") is an error'
        )
    return path


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Add the jar, and this interpreter as the planner's, to the settings of a new session.

    ``configure(SparkSession.builder).getOrCreate()``. For a running session, use :func:`attach`.
    """
    options = getattr(builder, "_options", {})
    jars = [jar for jar in options.get("spark.jars", "").split(",") if jar]
    if str(jar_path()) not in jars:
        jars.append(str(jar_path()))
    for key, value in {"spark.jars": ",".join(jars), **_settings()}.items():
        builder = builder.config(key, value)
    return builder


def attach(spark: SparkSession, *, transparent: bool | None = None) -> SparkSession:
    """Add the jar to a running session, with this interpreter as the planner's, and return the session.

    Spark's own scans of Parquet and ORC files are then pruned: ``spark.read.parquet``, tables, views and path queries,
    also in sessions made from this one. ``format("bloomparquet")`` and ``format("bloomorc")`` use the jar.
    `transparent` sets ``spark.bloomparquet.transparent`` of this session, by which Spark's own scans are pruned; None
    leaves it as it is (the default is true).

    Repeated calls have no effect. The planner starts in the background, so that the first query does not wait for its
    imports. If the jar cannot work (an unsupported Spark, an installation without the jar), a warning says so: nothing
    is pruned, ``bloomparquet`` only reads, and ``bloomorc`` is an error. Raises UnsupportedError under Spark Connect,
    which has no JVM to attach to.
    """
    jvm = _jvm_session(spark)
    version = tuple(int(part) for part in spark.version.split(".")[:2])
    if version not in SUPPORTED:
        known = ", ".join(f"{major}.{minor}" for major, minor in SUPPORTED)
        warnings.warn(
            f"the jar of bloomparquet supports Spark {known}, and this is Spark {spark.version}: "
            'format("bloomparquet") only reads here, and format("bloomorc") is an error',
            stacklevel=2,
        )
        return spark
    try:
        bridge = _find_bridge(jvm)
        # After SparkContext.stop, the driver still has the class, but the executors of a new context do not.
        if bridge is None or "/bloomparquet.jar" not in spark.sparkContext._jsc.sc().listJars().mkString(" "):
            bridge = _add_jar(spark)
    except UnsupportedError as error:
        warnings.warn(str(error), stacklevel=2)
        return spark
    # Not by a setting of the session: SQL must not choose which program the driver runs.
    bridge.attach(jvm, *_settings().values())
    if transparent is not None:
        spark.conf.set(_TRANSPARENT, str(transparent).lower())
    return spark


def last_plan(frame: DataFrame) -> list[ScanSummary]:
    """The plan of each scan of `frame` through the jar, in the order of the physical plan.

    After `frame` has run, these are the plans that it ran with, including runtime filters of joins. Before, its scans
    are planned now. Actions such as ``count()`` make a new query, which has its own plans.
    """
    bridge = _find_bridge(_jvm_session(frame.sparkSession))
    if bridge is None:
        raise UnsupportedError("this session does not have the jar; call pyspark_bloomparquet.attach(spark) first")
    return [_summary(plan) for plan in json.loads(bridge.plans(frame._jdf.queryExecution()))]


def _summary(plan: dict[str, Any]) -> ScanSummary:
    unit: Unit = plan["unit"]
    prefix = COUNT_PREFIX[unit]
    return ScanSummary(
        paths=tuple(plan["paths"]),
        where=plan["where"],
        planned=plan["planned"],
        reason=plan.get("reason"),
        total=plan.get(f"{prefix}Total", 0),
        kept=plan.get(f"{prefix}Read", 0),
        skipped=Counter(
            statistics=plan.get(f"{prefix}SkippedByStatistics", 0),
            bloom=plan.get(f"{prefix}SkippedByBloomFilter", 0),
        ),
        bloom_bytes_read=plan.get("bloomFilterBytes", 0),
        requests=plan.get("requests", 0),
        errors=plan.get("numFilterErrors", 0),
        seconds=plan.get("planningTimeMs", 0) / 1000,
        whole_files=plan.get("numFilesReadWhole", 0),
        unit=unit,
        row_group_counts=_row_group_counts(plan) if unit == "stripe" and plan["planned"] else None,
    )


def _row_group_counts(plan: dict[str, Any]) -> RowGroupCounts:
    from bloomparquet.planning.plan import RowGroupCounts

    total, by_statistics, by_bloom = (
        plan.get(f"numRowGroups{what}", 0) for what in ("Total", "ExcludedByStatistics", "ExcludedByBloomFilter")
    )
    return RowGroupCounts(total, total - by_statistics - by_bloom, by_statistics, by_bloom)


def _settings() -> dict[str, str]:
    """The settings by which the jar finds this interpreter, and this package in it."""
    return {_PYTHON: sys.executable, _PYTHON_PATH: str(Path(__file__).resolve().parents[2])}


def _jvm_session(spark: SparkSession) -> Any:
    session = getattr(spark, "_jsparkSession", None)
    if session is None:
        raise UnsupportedError(
            "this is a Spark Connect session, whose JVM runs elsewhere; start the Connect server with the jar: "
            "--jars $(bloomparquet jar)"
        )
    return session


def _find_bridge(jvm: Any) -> Any | None:
    """The object of the jar that Python calls; None if the session does not have the jar.

    The session's class loader loads it: py4j's does not see jars that were added to a running session.
    """
    from py4j.protocol import Py4JJavaError

    try:
        return jvm.sharedState().jarClassLoader().loadClass(_CLASS).newInstance()
    except Py4JJavaError as error:
        if "ClassNotFoundException" in str(error.java_exception):
            return None
        raise


def _add_jar(spark: SparkSession) -> Any:
    path = jar_path()
    _extend_class_path(spark, path)
    text = str(path).replace("'", "\\'")
    spark.sql(f"ADD JAR '{text}'")  # for the executors
    bridge = _find_bridge(_jvm_session(spark))
    if bridge is None:
        raise UnsupportedError(f"Spark added the jar {path}, but does not find the class {_CLASS} in it")
    return bridge


def _extend_class_path(spark: SparkSession, path: Path) -> None:
    """Add the jar to the driver's own class loader, if it is one that can be extended.

    Only queries see the jars of ADD JAR. Spark's UI looks up the class of a metric by its name, and would otherwise
    warn at every query.
    """
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    while loader is not None:
        if loader.getClass().getName() == "org.apache.spark.util.MutableURLClassLoader":
            loader.addURL(jvm.java.io.File(str(path)).toURI().toURL())
            return
        loader = loader.getParent()
