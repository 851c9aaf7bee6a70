"""The jar: where it is, how a Spark session gets it, and what it planned.

Python calls the jar only from this file and from check.py.

With the jar, Spark's own readers read the row groups (for ORC: the stripes) that a planner process with this
interpreter keeps. Without it, ``format("bloomparquet")`` is the Python data source, which cannot write, and
``format("bloomorc")`` is an error.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bloomparquet
from bloomparquet.errors import OptionError, UnsupportedError
from bloomparquet.query.values import describe
from pyspark_bloomparquet.jar import connect
from pyspark_bloomparquet.jar.summary import Pictures, ScanExplanation, ScanSummary, explain, summarize

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SUPPORTED = ((4, 0), (4, 1), (4, 2), (4, 3))
_CLASS = "io.bloomparquet.spark.PythonBridge"
_TRANSPARENT = "spark.bloomparquet.transparent"
_PYTHON, _PYTHON_PATH = "spark.bloomparquet.python", "spark.bloomparquet.pythonPath"


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

    ``configure(SparkSession.builder).getOrCreate()``. For a running session, use :func:`attach`. With
    ``builder.remote("local")``, these are settings of the Spark Connect server that starts then. A server that runs
    elsewhere has its own settings, and `builder` is returned unchanged; :func:`attach` says whether it has the jar.
    """
    if not hasattr(builder, "config"):
        raise OptionError(
            f"configure takes SparkSession.builder; found {describe(builder)}. For a running session, use attach(spark)"
        )
    options = getattr(builder, "_options", {})
    server = connect.server_of(options)
    if server is not None and not server.startswith("local"):
        return builder
    jars = [jar for jar in options.get("spark.jars", "").split(",") if jar]
    if str(jar_path()) not in jars:
        jars.append(str(jar_path()))
    settings = {"spark.jars": ",".join(jars), **_settings()}
    if server is not None:
        connect.set_for_server({key: settings.pop(key) for key in list(settings) if key not in options})
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder


def attach(spark: SparkSession, *, transparent: bool | None = None) -> SparkSession:
    """Add the jar to a running session, with this interpreter as the planner's, and return the session.

    Spark's own scans of Parquet and ORC files are then pruned: ``spark.read.parquet``, tables, views and path queries,
    also in sessions made from this one. ``format("bloomparquet")`` and ``format("bloomorc")`` use the jar.
    `transparent` sets ``spark.bloomparquet.transparent`` of this session: whether Spark's own scans are pruned. None
    leaves the setting as it is; its default is true.

    Repeated calls have no effect. The planner starts in the background, so that the first query does not wait for its
    imports. If the jar cannot work (an unsupported Spark, an installation without the jar), a warning says so: nothing
    is pruned, ``bloomparquet`` only reads, and ``bloomorc`` is an error.

    With Spark Connect, the server must have the jar from its start. A warning says so if it does not.
    """
    if not hasattr(spark, "conf"):
        raise OptionError(
            f"attach takes a running SparkSession; found {describe(spark)}. Call attach(builder.getOrCreate()), or "
            "configure(builder).getOrCreate()"
        )
    if connect.is_remote(spark):
        if connect.version_of_jar(spark) is not None:
            _set_transparent(spark, transparent)
        else:
            warnings.warn(connect.NO_JAR, stacklevel=2)
        return spark
    jvm: Any = spark._jsparkSession
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
        bridge = find_bridge(jvm)
        jar = jar_path() if bridge is None else _jar_of(bridge)
        # After SparkContext.stop, the driver still has the class, but the executors of a new context do not.
        if bridge is None or f"/{jar.name}" not in spark.sparkContext._jsc.sc().listJars().mkString(" "):
            bridge = _add_jar(spark, jar)
    except UnsupportedError as error:
        warnings.warn(str(error), stacklevel=2)
        return spark
    # Not by a setting of the session: SQL must not choose which program the driver runs.
    bridge.attach(jvm, *_settings().values())
    _set_transparent(spark, transparent)
    return spark


def _set_transparent(spark: SparkSession, transparent: bool | None) -> None:
    if transparent is not None:
        spark.conf.set(_TRANSPARENT, str(transparent).lower())


def last_plan(query: DataFrame | StreamingQuery) -> list[ScanSummary]:
    """The plan of each scan of Parquet or ORC files in `query`, in the order of the physical plan.

    A scan that is not pruned has `planned` false, and a `reason`. After a DataFrame has run, these are the plans that
    it ran with, including runtime filters of joins. If it has not run, its scans are planned, unless they wait for a
    subquery or the keys of a join. Actions such as ``count()`` make a new query, which has its own plans. For a stream,
    these are the plans of the latest micro batch.

    With Spark Connect, the plans come from the metrics that the server sends with the rows of a DataFrame. They have no
    paths and predicates. Raises UnsupportedError if the DataFrame has not run, and if the session has no jar.
    """
    execution = _execution(query)
    if execution is None:
        return Pictures(connect.plans_in_metrics(query))
    return Pictures(summarize(plan) for plan in json.loads(_bridge_of(execution).plans(execution)))


def explain_pruning(query: DataFrame | StreamingQuery) -> list[ScanExplanation]:
    """Why each scan of Parquet or ORC files in `query` skips what it skips, and not more.

    The explanations have the order of :func:`last_plan`. Each names every condition of the query, also those that only
    Spark understands: what evidence skips for it alone, why the rest is kept, and what to do about it. The planner
    judges the conditions again, mostly from its cache. If a scan was not planned, its explanation says why.

    Raises UnsupportedError if the session has no jar, and with Spark Connect.
    """
    execution = _execution(query)
    if execution is None:
        raise UnsupportedError(
            "with Spark Connect, a client cannot ask the planner of the server; df.explain() shows which conditions "
            "are not used, and last_plan(df) what was skipped"
        )
    return Pictures(explain(plan) for plan in json.loads(_bridge_of(execution).explanations(execution)))


def _execution(query: DataFrame | StreamingQuery) -> Any | None:
    """Spark's execution of a query; None with Spark Connect. UnsupportedError for a stream that has not run."""
    from pyspark.sql.streaming.query import StreamingQuery as ClassicStream

    if not hasattr(query, "explain"):
        raise OptionError(f"expected a DataFrame or a streaming query; found {describe(query)}")
    if not isinstance(query, ClassicStream) and getattr(query, "_jdf", None) is None:
        return None
    if isinstance(query, ClassicStream):
        execution = query._jsq.streamingQuery().lastExecution()
    else:
        execution = query._jdf.queryExecution()
    if execution is None:
        raise UnsupportedError("this stream has run no micro batch yet")
    return execution


def _bridge_of(execution: Any) -> Any:
    bridge = find_bridge(execution.sparkSession())
    if bridge is None:
        raise UnsupportedError("this session does not have the jar; call pyspark_bloomparquet.attach(spark) first")
    return bridge


def _settings() -> dict[str, str]:
    """The settings that tell the jar where this interpreter and this package are."""
    return {_PYTHON: sys.executable, _PYTHON_PATH: str(Path(__file__).resolve().parents[2])}


def find_bridge(jvm: Any) -> Any | None:
    """The object of the jar that Python calls; None if the session does not have the jar.

    The session's class loader loads it: py4j's does not see jars that were added to a running session. UnsupportedError
    if this Python may not call the JVM.
    """
    from py4j.protocol import Py4JError, Py4JJavaError

    try:
        return jvm.sharedState().jarClassLoader().loadClass(_CLASS).newInstance()
    except Py4JJavaError as error:
        if "ClassNotFoundException" in str(error.java_exception):
            return None
        raise
    except Py4JError as error:  # Databricks lets Python call only some methods in its shared access modes
        if "Security" not in str(error):
            raise
        raise UnsupportedError(
            "this cluster does not let Python call the JVM, so the jar cannot be added, and nothing is pruned; on "
            "Databricks, standard access mode and serverless compute are so"
        ) from error


def _jar_of(bridge: Any) -> Path:
    """The jar that the session has, which ``spark.jars.packages`` may have named. Warns if its version is not ours."""
    kind = bridge.getClass()
    jar = Path(kind.getProtectionDomain().getCodeSource().getLocation().toURI().getPath())
    version = kind.getPackage().getImplementationVersion()
    if version != bloomparquet.__version__:
        warnings.warn(
            f"the session has the jar of bloomparquet {version} ({jar}), and this Python, which plans, "
            f"has bloomparquet {bloomparquet.__version__}: install the same version of both, or start the session "
            "without that jar",
            stacklevel=3,
        )
    return jar


def _add_jar(spark: SparkSession, path: Path) -> Any:
    _extend_class_path(spark, path)
    text = str(path).replace("'", "\\'")
    spark.sql(f"ADD JAR '{text}'")  # for the executors
    bridge = find_bridge(spark._jsparkSession)
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
