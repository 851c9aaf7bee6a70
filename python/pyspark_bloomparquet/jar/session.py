"""The jar: where it is, and how a Spark session gets it. All that talks to the JVM is in this file.

With the jar, ``format("bloomparquet")`` is read by Spark's own Parquet reader, after a planner in this interpreter has
said which row groups to read; ``format("bloomorc")`` by its ORC reader, and stripes. Without it, ``bloomparquet`` is
the Python data source, which gives the same rows and writes nothing, and ``bloomorc`` is an error.
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
from pyspark_bloomparquet.jar.protocol import COUNTED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from bloomparquet.planning.evidence.formats import Unit
    from bloomparquet.planning.plan import RowGroupCounts

SUPPORTED = ((4, 1), (4, 2), (4, 3))
_CLASS = "io.bloomparquet.spark.PythonBridge"
_PYTHON, _PYTHON_PATH = "spark.bloomparquet.python", "spark.bloomparquet.pythonPath"


@dataclass(frozen=True)
class ScanSummary:
    """What was planned for one scan of a query.

    When nothing was `planned`, `reason` says why, and everything is read. Otherwise ``total = kept + skipped.total()``,
    in row groups (of ORC: stripes, as `unit` says) of the files that Spark's partition filters left; `skipped` is by
    ``"statistics"`` and ``"bloom"``. `row_group_counts`: those within the stripes; None for Parquet. `whole_files`
    are not among them: the planner could not look into them, as they are encrypted, damaged or not what was listed, and
    Spark reads them whole, or says why not.
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

        told = describe_units(self.kept, self.total, self.skipped, self.unit)
        if not self.whole_files:
            return told
        return f"{told}; {self.whole_files} file{'s' * (self.whole_files > 1)} read whole, unplanned"


def jar_path() -> Path:
    """The jar of this installation. :class:`UnsupportedError` where it was installed without one."""
    path = Path(__file__).parents[1] / "jars" / "bloomparquet.jar"
    if not path.is_file():
        raise UnsupportedError(
            f"this installation has no jar (expected {path}): it was installed from sources in which make jar had not "
            'built it. Wheels have it; without it, format("bloomparquet") only reads, and format("bloomorc") is an '
            "error"
        )
    return path


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Settings for a session that does not exist yet: the jar, and this interpreter for the planner.

    ``configure(SparkSession.builder).getOrCreate()``. For sessions that already run there is :func:`attach`.
    """
    options = getattr(builder, "_options", {})
    jars = [jar for jar in options.get("spark.jars", "").split(",") if jar]
    if str(jar_path()) not in jars:
        jars.append(str(jar_path()))
    for key, value in {"spark.jars": ",".join(jars), **_settings()}.items():
        builder = builder.config(key, value)
    return builder


def attach(spark: SparkSession) -> SparkSession:
    """Give a running session the jar, with this interpreter as the planner's, and return the session.

    It serves ``format("bloomparquet")`` and ``format("bloomorc")``. To call it again does no harm. The planner starts
    in the background, so that the first query need not wait for its imports. Where the jar cannot work (an unsupported
    Spark, an installation without it) that is a warning: ``bloomparquet`` then only reads, and ``bloomorc`` is an
    error. Spark Connect has no JVM to attach to: :class:`UnsupportedError`.
    """
    jvm = _jvm_session(spark)
    version = tuple(int(part) for part in spark.version.split(".")[:2])
    if version not in SUPPORTED:
        known = ", ".join(f"{major}.{minor}" for major, minor in SUPPORTED)
        warnings.warn(
            f"bloomparquet's jar works on Spark {known}, this is {spark.version}: "
            'format("bloomparquet") only reads there, and format("bloomorc") is an error',
            stacklevel=2,
        )
        return spark
    try:
        bridge = _find_bridge(jvm)
        # The driver keeps what it was given, the executors of another application do not have it.
        if bridge is None or "/bloomparquet.jar" not in spark.sparkContext._jsc.sc().listJars().mkString(" "):
            bridge = _add_jar(spark)
    except UnsupportedError as error:
        warnings.warn(str(error), stacklevel=2)
        return spark
    # A call, not a setting of the session: SQL must not choose which program the driver runs.
    bridge.attach(jvm, *_settings().values())
    return spark


def last_plan(frame: DataFrame) -> list[ScanSummary]:
    """What was planned for each scan of `frame` through the jar, in the order of its physical plan.

    After `frame` has run these are the plans it ran with, filters that a join brought included (actions that make a new
    query of it, such as ``count()``, have plans of their own). Before, its scans are planned now.
    """
    bridge = _find_bridge(_jvm_session(frame.sparkSession))
    if bridge is None:
        raise UnsupportedError("this session does not have the jar; call pyspark_bloomparquet.attach(spark) first")
    return [_summary(plan) for plan in json.loads(bridge.plans(frame._jdf.queryExecution()))]


def _summary(plan: dict[str, Any]) -> ScanSummary:
    unit: Unit = plan["unit"]
    counted = COUNTED[unit]
    return ScanSummary(
        paths=tuple(plan["paths"]),
        where=plan["where"],
        planned=plan["planned"],
        reason=plan.get("reason"),
        total=plan.get(f"{counted}Total", 0),
        kept=plan.get(f"{counted}Read", 0),
        skipped=Counter(
            statistics=plan.get(f"{counted}SkippedByStatistics", 0),
            bloom=plan.get(f"{counted}SkippedByBloomFilter", 0),
        ),
        bloom_bytes_read=plan.get("bloomFilterBytes", 0),
        requests=plan.get("requests", 0),
        errors=plan.get("numFilterErrors", 0),
        seconds=plan.get("planningTimeMs", 0) / 1000,
        whole_files=plan.get("numFilesNotUnderstood", 0),
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
    """By what the jar finds this interpreter, and in it this package, which may be on no path of the system's."""
    return {_PYTHON: sys.executable, _PYTHON_PATH: str(Path(__file__).resolve().parents[2])}


def _jvm_session(spark: SparkSession) -> Any:
    found = getattr(spark, "_jsparkSession", None)
    if found is None:
        raise UnsupportedError(
            "this is a Spark Connect session, whose JVM is elsewhere; start its server with the jar: "
            "--jars $(bloomparquet jar)"
        )
    return found


def _find_bridge(jvm: Any) -> Any | None:
    """The object of the jar that Python calls; None where the session does not have the jar.

    Loaded by the session's own class loader: py4j's does not see what was added to a running session.
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
    found = _find_bridge(_jvm_session(spark))
    if found is None:
        raise UnsupportedError(f"Spark took the jar {path} and still does not find {_CLASS} in it")
    return found


def _extend_class_path(spark: SparkSession, path: Path) -> None:
    """Let the driver's own class loader find the jar, where it is one that can grow.

    What ADD JAR adds is seen by queries alone; Spark's UI, which looks up the class of a metric by its name, would warn
    at every query.
    """
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    while loader is not None:
        if loader.getClass().getName() == "org.apache.spark.util.MutableURLClassLoader":
            loader.addURL(jvm.java.io.File(str(path)).toURI().toURL())
            return
        loader = loader.getParent()
