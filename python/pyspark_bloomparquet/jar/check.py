"""``check``: whether scans of a Spark session are pruned, what stands in the way, and what to do about it."""

from __future__ import annotations

import filecmp
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bloomparquet
from bloomparquet.errors import OptionError, UnsupportedError
from bloomparquet.query.values import describe
from bloomparquet.report.texts import plural
from pyspark_bloomparquet.jar import connect, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_SECONDS = 60
"""How long executors and the planner's Python may take to answer."""

_JAVA = 17
"""The oldest version that Spark 4 supports."""

_IMPORT = (
    "import json, sys; sys.path[:] = filter(None, sys.path); import pyspark_bloomparquet.jar.planner_worker; "
    "import bloomparquet, platform; print(json.dumps([platform.python_version(), bloomparquet.__version__]))"
)


@dataclass(frozen=True)
class SetupCheck:
    """What was checked, and the result. `ok` is None if it could not be checked. `remedy`: what to do if not `ok`."""

    subject: str
    ok: bool | None
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        mark = {True: "ok", False: "PROBLEM", None: "unknown"}[self.ok]
        return f"{mark:<8} {self.subject}: {self.text}" + (f". {self.remedy}" if self.remedy else "")


class SetupReport(list[SetupCheck]):
    """The results of :func:`check`, one line each as a text."""

    @property
    def ok(self) -> bool:
        """Whether there is no problem."""
        return all(each.ok is not False for each in self)

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    __repr__ = __str__


def check(spark: SparkSession, *paths: str) -> SetupReport:
    """Check that the scans of `spark` are pruned, and those of each of `paths`, which may also be names of tables.

    ``print(check(spark))`` shows one line for each: Spark's version, the jar on the driver and on the executors, the
    planner's Python, the plan of a small file, and for each path whether its files are planned, and read by executors.
    A line with a problem says what to do. The conditions and files are the check's own, and no rows are read.

    Executors that are busy or not started are not asked. With Spark Connect, only the server's jar is checked.
    """
    if not hasattr(spark, "conf"):
        raise OptionError(f"check takes a running SparkSession; found {describe(spark)}")
    return SetupReport(_checks(spark, paths))


def doctor(paths: tuple[str, ...], settings: Mapping[str, str]) -> SetupReport:
    """:func:`check` of a new application, after ``attach``. `settings` come on top of ``spark-defaults.conf``."""
    java = _java()
    if not java.ok:
        return SetupReport([java])
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        remedy = "Install bloomparquet[spark]; on a cluster that has Spark, run this with the Python of its PySpark"
        return SetupReport([java, SetupCheck("PySpark", False, f"{sys.executable}: {error}", remedy)])
    builder = SparkSession.builder.appName("bloomparquet doctor")
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except Exception as error:  # noqa: BLE001 - whatever keeps Spark from starting is the result
        return SetupReport([java, SetupCheck("Spark", False, f"it does not start: {str(error).splitlines()[0]}")])
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            session.attach(spark)
        attached = [SetupCheck("attach", False, str(each.message)) for each in caught if each.filename == __file__]
        return SetupReport([java, *attached, *check(spark, *paths)])
    finally:
        spark.stop()


def _java() -> SetupCheck:
    home = os.environ.get("JAVA_HOME")
    program = os.path.join(home, "bin", "java") if home else "java"
    remedy = f"Spark 4 needs Java {_JAVA} or newer: set JAVA_HOME to one"
    if shutil.which(program) is None:
        return SetupCheck("Java", False, f"there is no {program}", remedy)
    done = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(?:1\.)?(\d+)[^"]*"', done.stderr + done.stdout)
    if version is None or int(version[1]) < _JAVA:
        said = version[0] if version else (done.stderr.strip().splitlines() or ["no version"])[0]
        return SetupCheck("Java", False, f"{program} is {said}", remedy)
    return SetupCheck("Java", True, f"{program} is {version[0]}")


def _checks(spark: SparkSession, paths: tuple[str, ...]) -> Iterator[SetupCheck]:
    yield _spark(spark)
    if connect.is_remote(spark):
        yield from _server(spark)
        return
    try:
        bridge = session.find_bridge(spark._jsparkSession)
    except UnsupportedError as error:
        yield SetupCheck("driver", False, str(error))
        return
    if bridge is None:
        remedy = "Call attach(spark), or start the session with configure(builder), or with the jar in spark.jars"
        yield SetupCheck("driver", False, "the session has no jar, so nothing is pruned", remedy)
        return
    setup = json.loads(bridge.setup(spark._jsparkSession))
    yield _version("driver", setup["version"])
    yield from _other_jars(setup["jars"])
    yield from _executors(spark, bridge, "")
    planner = _planner(setup["python"], setup["pythonPath"])
    yield planner
    if planner.ok:
        yield _trial(spark, _paths(setup["jars"])[0].name)
    for path in paths:
        yield from _path(spark, bridge, path)


def _spark(spark: SparkSession) -> SetupCheck:
    version = tuple(int(part) for part in spark.version.split(".")[:2])
    if version in session.SUPPORTED:
        return SetupCheck("Spark", True, f"{spark.version}, which is tested")
    known = ", ".join(f"{major}.{minor}" for major, minor in session.SUPPORTED)
    return SetupCheck("Spark", False, f"{spark.version}", f"The jar is tested with Spark {known}")


def _version(where: str, version: str) -> SetupCheck:
    own = bloomparquet.__version__
    text = f"the jar of bloomparquet {version}, and this package is {own}"
    return SetupCheck(where, version == own, text, "" if version == own else "Install the same version of both")


def _server(spark: SparkSession) -> Iterator[SetupCheck]:
    version = connect.version_of_jar(spark)
    if version is None:
        yield SetupCheck("server", False, "it has no jar, so nothing is pruned", connect.NO_JAR.partition(". ")[2])
        return
    yield _version("server", version)
    yield SetupCheck("executors and planner", None, "a client of Spark Connect cannot see them")


def _other_jars(urls: list[str]) -> Iterator[SetupCheck]:
    """Equal copies are no problem: Spark copies the jars of ADD JAR."""
    jars = _paths(urls)
    for other in jars[1:]:
        if not (jars[0].is_file() and other.is_file() and filecmp.cmp(jars[0], other, shallow=False)):
            text = f"two jars of bloomparquet that differ, {jars[0]} and {other}"
            remedy = "Name one in spark.jars, spark.jars.packages or spark.driver.extraClassPath, and remove the other"
            yield SetupCheck("driver", False, text, remedy)


def _paths(urls: list[str]) -> list[Path]:
    """The jars of URLs of a class."""
    return [Path(urllib.parse.unquote(url.removeprefix("jar:file:").partition("!/")[0])) for url in urls]


def _executors(spark: SparkSession, bridge: Any, file: str) -> Iterator[SetupCheck]:
    """What all executors report: of their jar, or of `file`, which they open."""
    from py4j.protocol import Py4JJavaError

    try:
        reports = [json.loads(each) for each in bridge.executors(spark._jsparkSession, file, _SECONDS)]
    except Py4JJavaError as error:
        yield _no_report(str(error.java_exception.getCause() or error.java_exception))
        return
    for each in reports:
        where = f"executor {each['executor']} on {each['host']}"
        if each["version"] != bloomparquet.__version__:
            yield _version(where, each["version"])
        if "error" in each:
            remedy = "Executors need the same file systems and credentials as the driver"
            yield SetupCheck(where, False, f"cannot read {file}: {each['error']}", remedy)
    good = sum(each["version"] == bloomparquet.__version__ and "error" not in each for each in reports)
    if good:
        what = f"read {file}" if file else f"have the jar of bloomparquet {bloomparquet.__version__}"
        yield SetupCheck("executors", True, f"{good} of {len(reports)} {what}")


def _no_report(error: str) -> SetupCheck:
    if "TimeoutException" in error:
        return SetupCheck("executors", None, f"none answered within {_SECONDS} s: they are busy, or there is none")
    # A task whose function is of a class that is missing fails by the last of these.
    if any(each in error for each in ("ClassNotFound", "InvalidClass", "NoClassDefFound", "SerializedLambda")):
        text = "one or more lack the jar, or have another version of it, so tasks fail"
        remedy = (
            "Name the jar in spark.jars, and in no class path of executors; with local: URLs, each node needs the file"
        )
        return SetupCheck("executors", False, text, remedy)
    return SetupCheck("executors", False, f"a small job fails: {error.splitlines()[0][:500]}")


def _planner(interpreter: str, python_path: str) -> SetupCheck:
    """The planner's Python, started as the jar starts it."""
    old = os.environ.get("PYTHONPATH")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (python_path, old)))}
    remedy = (
        f"Install bloomparquet {bloomparquet.__version__} for it, or name another Python in spark.bloomparquet.python "
        "when the application starts"
    )
    try:
        done = subprocess.run(
            [interpreter, "-c", _IMPORT], capture_output=True, text=True, timeout=_SECONDS, env=environment, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return SetupCheck("planner", False, f"{interpreter} does not start: {error}", remedy)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return SetupCheck("planner", False, f"{interpreter}: {lines[-1] if lines else 'no message'}", remedy)
    python, version = json.loads(done.stdout.splitlines()[-1])
    is_own = version == bloomparquet.__version__
    text = f"{interpreter}, Python {python} with bloomparquet {version}"
    return SetupCheck("planner", is_own, text, "" if is_own else remedy)


def _trial(spark: SparkSession, jar: str) -> SetupCheck:
    """The plan of a small local file: the session's rules, the planner's process and its protocol."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "check.parquet"
        pq.write_table(pa.table({"id": [1, 3]}), path)
        frame = spark.read.schema("id bigint").parquet(path.as_uri()).where("id = 4")
        planned = _plan(frame, "extension")
    if not planned.ok:
        return planned
    settings = spark.sparkContext.getConf()
    by = "attach"
    if "io.bloomparquet" in settings.get("spark.sql.extensions", ""):
        by = "spark.sql.extensions"
    elif jar in settings.get("spark.jars", "") + settings.get("spark.driver.extraClassPath", ""):
        by = "Spark, from the jar in the session's settings"
    return replace(planned, text=f"installed by {by}; a small file is planned")


def _plan(frame: DataFrame, subject: str) -> SetupCheck:
    plans = session.last_plan(frame)
    if not plans:
        return SetupCheck(subject, False, "Spark's plan has no scan of Parquet or ORC files")
    plan = plans[0]
    if plan.planned:
        what = f"{plural(plan.total, plan.unit)} in {plural(plan.files, 'file')}"
        return SetupCheck(subject, True, f"{what}, planned in {plan.seconds:.1f} s")
    reason = plan.reason or ""
    remedies = {
        "another engine": "To prune these files, turn that engine's scans off",
        "transparent is false": 'spark.conf.set("spark.bloomparquet.transparent", True)',
        "before attach": "Call attach(spark), or start the session with the jar",
    }
    remedy = next((remedies[key] for key in remedies if key in reason), "")
    return SetupCheck(subject, False, f"not pruned: {reason}", remedy)


def _path(spark: SparkSession, bridge: Any, path: str) -> Iterator[SetupCheck]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        frame = _files(spark, path)
    except (PySparkException, Py4JError) as error:
        table = _table(spark, path)
        if table is None:
            yield SetupCheck(path, False, str(error).splitlines()[0])
            return
        frame = table
    column = _column(frame.schema)
    if column is None:
        yield SetupCheck(path, None, "no column that a condition can be about")
        return
    yield _plan(frame.where(f"{column} IS NULL"), path)
    files = frame._jdf.inputFiles()
    if len(files):
        yield from _executors(spark, bridge, files[0])


def _files(spark: SparkSession, path: str) -> DataFrame:
    """The Parquet or ORC files of `path`. Our own source refuses the directories of tables, and names the format."""
    listed = spark.read.format("binaryFile").option("recursiveFileLookup", True).load(path)._jdf.inputFiles()
    is_orc = len(listed) > 0 and listed[0].endswith(".orc")
    spark.read.format("bloomorc" if is_orc else "bloomparquet").load(path)
    return spark.read.format("orc" if is_orc else "parquet").load(path)


def _table(spark: SparkSession, path: str) -> DataFrame | None:
    """The table with the name or in the directory `path`; None if there is none, or no connector for it."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    for read in (spark.table, spark.read.format("delta").load, spark.read.format("iceberg").load):
        with suppress(PySparkException, Py4JError):
            return read(path)
    return None


def _column(schema: StructType, outer: str = "") -> str | None:
    """A column that has values of its own and may be null, as SQL names it."""
    from pyspark.sql import types as T  # noqa: N812 - the name that PySpark users give it

    for each in schema:
        name = f"{outer}`{each.name.replace('`', '``')}`"
        if isinstance(each.dataType, T.StructType):
            inner = _column(each.dataType, f"{name}.")
            if inner is not None:
                return inner
        elif each.nullable and not isinstance(each.dataType, T.ArrayType | T.MapType | T.VariantType):
            return name
    return None
