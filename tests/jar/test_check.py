"""``check`` and ``doctor``: a sound set-up, and broken ones, each named with its remedy."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.orc as po
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import SparkNoSuchElementException
from pyspark.sql import SparkSession

import bloomparquet as bp
import pyspark_bloomparquet.cli  # noqa: F401 - adds the command
from bloomparquet.errors import OptionError
from pyspark_bloomparquet import SetupCheck, SetupReport, attach, check, configure, last_plan
from pyspark_bloomparquet.jar import connect, session
from tests.jar.test_other_engines import engine as engine
from tests.support import files
from tests.support.commands import Run
from tests.support.planners import PYTHON, script
from tests.support.scenarios import PRUNED, UNPRUNED
from tests.support.spark import application_conf, conf

pytestmark = pytest.mark.slow


def problems(report: SetupReport) -> list[SetupCheck]:
    assert report.ok == all(each.ok is not False for each in report)
    return [each for each in report if each.ok is False]


def problem(report: SetupReport) -> str:
    """The only problem, as its line says it."""
    (one,) = problems(report)
    assert one.remedy, one
    return str(one)


@pytest.fixture
def pruned(jar_spark: SparkSession) -> Iterator[SparkSession]:
    with conf(jar_spark, PRUNED):
        yield jar_spark


def test_a_sound_session(pruned: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "p" / "day=1").mkdir(parents=True)
    files.write(tmp_path / "p" / "day=1" / "a.parquet", {"a.b": list(range(10))}, ["a.b"])
    po.write_table(pa.table({"n": [{"l": [1], "id": 1}]}), tmp_path / "a.orc")
    report = check(pruned, str(tmp_path / "p"), str(tmp_path / "a.orc"))
    assert report.ok, report
    lines = str(report).splitlines()
    assert len(lines) == len(report)
    assert all(line.startswith("ok ") for line in lines)
    assert f"executors: 1 of 1 have the jar of bloomparquet {bp.__version__}" in str(report)
    assert f"planner: {sys.executable}, Python " in str(report)
    assert "extension: installed by attach; a small file is planned" in str(report)
    assert f"{tmp_path / 'p'}: 1 row group in 1 file, planned in" in str(report)
    assert f"{tmp_path / 'a.orc'}: 1 stripe in 1 file, planned in" in str(report)
    assert f"read {(tmp_path / 'a.orc').as_uri()}" in str(report)


def test_a_path_that_spark_cannot_read(pruned: SparkSession) -> None:
    (only,) = problems(check(pruned, "nowhere://x/y"))
    assert only.subject == "nowhere://x/y"


def test_pruning_is_off(pruned: SparkSession) -> None:
    with conf(pruned, UNPRUNED):
        line = problem(check(pruned))
    assert "extension: not pruned: spark.bloomparquet.transparent is false" in line
    assert line.endswith('spark.conf.set("spark.bloomparquet.transparent", True)')


INSTALL = f"Install bloomparquet {bp.__version__} for it"
OLD = """import importlib.metadata as m
of = m.version
m.version = lambda name: "0.0.1" if name[0] == "b" else of(name)
"""
REFUSING = """import sys
def refuse(event, given):
    if event == "open" and "unreadable" in str(given[0]):
        raise PermissionError(13, "Permission denied", given[0])
sys.addaudithook(refuse)
"""


def python_with(home: Path, customized: str) -> str:
    """This Python, which runs a text when it starts."""
    (home / "sitecustomize.py").write_text(customized)
    return script(home, f'PYTHONPATH={home}:$PYTHONPATH exec {sys.executable} "$@"')


INTERPRETERS: dict[str, tuple[Callable[[Path], str], tuple[str, ...]]] = {
    "does not exist": (
        lambda home: f"{home}/python",
        ("planner: {} does not start", f"{INSTALL}, or name another Python in {PYTHON}"),
    ),
    "lacks the package": (
        lambda home: script(home, f'unset PYTHONPATH; exec {sys.executable} -S "$@"'),
        ("planner: {}: ModuleNotFoundError: No module named ", INSTALL),
    ),
    "has another version": (lambda home: python_with(home, OLD), ("with bloomparquet 0.0.1",)),
}


@pytest.mark.parametrize("case", INTERPRETERS)
def test_an_interpreter_that_cannot_plan(pruned: SparkSession, tmp_path: Path, case: str) -> None:
    make, parts = INTERPRETERS[case]
    python = make(tmp_path)
    with application_conf(pruned, {PYTHON: python}):
        line = problem(check(pruned))
    assert all(part.format(python) in line for part in parts), line


def test_a_path_that_the_planner_cannot_read(pruned: SparkSession, tmp_path: Path) -> None:
    path = files.write(tmp_path / "unreadable" / "a.parquet", {"id": list(range(10))}, ["id"])
    with application_conf(pruned, {PYTHON: python_with(tmp_path, REFUSING)}):
        (only,) = [each for each in check(pruned, path) if each.ok is False]
    assert only.subject == path
    assert "Permission denied" in only.text


def test_another_engine_reads_the_files(engine: SparkSession) -> None:
    line = problem(check(engine))
    assert "extension: not pruned: another engine's scan (EngineScan) replaces Spark's" in line
    assert line.endswith("To prune these files, turn that engine's scans off")


def test_a_delta_table_without_its_connector(pruned: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / f"{0:020}.json").write_text("{}")
    files.write(tmp_path / "a.parquet", {"id": list(range(10))}, ["id"])
    (only,) = problems(check(pruned, str(tmp_path)))
    assert "is a table of Delta Lake" in only.text
    assert 'spark.read.format("delta")' in only.text


class _Refusing:
    """What Python sees of a session on a cluster that lets it call few methods of the JVM."""

    version = "4.0.0"
    conf = None

    @property
    def _jsparkSession(self) -> _Refusing:
        return self

    def sharedState(self) -> None:
        raise Py4JError("Method sharedState() is not whitelisted. py4j.security.Py4JSecurityException")


def test_python_may_not_call_the_jvm() -> None:
    (only,) = problems(check(_Refusing()))
    assert "does not let Python call the JVM" in only.text
    assert "Databricks" in only.text
    with pytest.warns(UserWarning, match="does not let Python call the JVM"):
        attach(_Refusing())


class _Remote:
    """A client of Spark Connect, as on serverless clusters."""

    version = "4.0.0"

    def __init__(self, version: str | None) -> None:
        self._version = version

    @property
    def conf(self) -> _Remote:
        return self

    def get(self, key: str) -> str:
        if self._version is None:
            raise SparkNoSuchElementException("SQL_CONF_NOT_FOUND", {"sqlConf": key})
        return self._version


def test_spark_connect() -> None:
    assert "Start the server with --jars" in problem(check(_Remote(None)))
    with pytest.warns(UserWarning, match="Start the server with --jars"):
        attach(_Remote(None))
    with pytest.raises(bp.UnsupportedError, match="Start the server with --jars"):
        connect.plans_in_metrics(SimpleNamespace(sparkSession=_Remote(None)))
    assert "Install the same version of both" in problem(check(_Remote("0.0.1")))
    report = check(_Remote(bp.__version__))
    assert report.ok
    assert [each.ok for each in report] == [True, True, None]


def test_a_spark_that_is_not_tested(monkeypatch: pytest.MonkeyPatch, pruned: SparkSession) -> None:
    monkeypatch.setattr(session, "SUPPORTED", ((9, 9),))
    assert problem(check(pruned)).endswith("The jar is tested with Spark 9.9")


def test_another_version_of_the_jar(monkeypatch: pytest.MonkeyPatch, pruned: SparkSession) -> None:
    monkeypatch.setattr(bp, "__version__", "0.0.7")
    assert "Install the same version of both" in str(problems(check(pruned))[0])
    with pytest.warns(UserWarning, match="this Python, which plans, has bloomparquet 0.0.7: install the same version"):
        attach(pruned)


def test_other_objects_than_a_session(jar_spark: SparkSession) -> None:
    with pytest.raises(OptionError, match="takes a running SparkSession"):
        check("spark")
    message = r"running SparkSession; found the Builder.*attach\(builder.getOrCreate\(\)\)"
    with pytest.raises(OptionError, match=message):
        attach(SparkSession.builder)
    with pytest.raises(OptionError, match=r"SparkSession.builder; found the SparkSession .*use attach\(spark\)"):
        configure(jar_spark)
    for wrong in (jar_spark, "SELECT 1", jar_spark.range(1).groupBy("id")):
        with pytest.raises(OptionError, match=f"a streaming query; found the {type(wrong).__name__} "):
            last_plan(wrong)


def test_doctor_names_an_old_java(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    os.rename(script(tmp_path, """echo 'openjdk version "11.0.22" 2024-01-16' >&2"""), java)
    for home, problem in (
        (tmp_path, f'{java} is version "11.0.22". Spark 4 needs Java 17 or newer'),
        (tmp_path / "none", f"there is no {tmp_path}/none/bin/java"),
    ):
        monkeypatch.setenv("JAVA_HOME", str(home))
        done = run("doctor")
        assert done.code == 1
        assert done.out.startswith(f"PROBLEM  Java: {problem}")


def test_doctor(pruned: SparkSession, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the session of the tests, which it must not stop."""
    stop = Mock()
    monkeypatch.setattr(SparkSession, "stop", stop)
    path = files.write(tmp_path / "a.parquet", {"id": list(range(10))}, ["id"])
    done = run("doctor", "--conf", "test.doctor=given", "--json", path, "/nowhere")
    assert (done.code, stop.call_count, pruned.conf.get("test.doctor")) == (1, 1, "given")
    checks = json.loads(done.out.splitlines()[-1])
    assert [each["subject"] for each in checks if each["ok"] is False] == ["/nowhere"]
    assert checks[0]["subject"] == "Java"
    assert {path, "planner", "executors", "extension"} <= {each["subject"] for each in checks if each["ok"]}
