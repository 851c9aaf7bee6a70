"""A relative path means the same file to the Python data source and to Spark: below the JVM's working directory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bloomparquet.errors import OptionError
from pyspark_bloomparquet.jar import connect
from pyspark_bloomparquet.options import working_directory
from pyspark_bloomparquet.options.load import Options
from tests.support import files

pytestmark = pytest.mark.slow

LOADS = """
import json, sys
def load(**options):
    schema = options.pop("schema", None)
    reader = spark.read.format("bloomparquet").options(pushFilters="off", **options.pop("options", {}))
    frame = (reader.schema(schema) if schema else reader).load(options.pop("path"))
    return sorted(row.id for row in frame.select("id").collect())
answers = [load(**case) for case in json.loads(sys.argv[1])]
days = [sorted(map(list, spark.read.format("bloomparquet").options(basePath="t", pushFilters="off").load("t/day=2")
                   .collect()))]
print("answers", json.dumps([answers, days]))
spark.stop()
"""
CLASSIC = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
"""
REMOTE = """
import json, os, warnings
from pyspark.sql import SparkSession
import pyspark_bloomparquet as bloom
from bloomparquet.errors import UnsupportedError
spark = SparkSession.builder.remote("local[1]").getOrCreate()
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    is_same = bloom.attach(spark) is spark
frame = spark.read.parquet("t").where("id = 2").select("id")
rows = [list(row) for row in frame.collect()]
try:
    refused = bloom.last_plan(frame)
except UnsupportedError as error:
    refused = str(error)
messages = [str(each.message) for each in warned if "jar" in str(each.message)]
print("answers", json.dumps([is_same, messages, rows, refused]))
"""
CASES: list[dict[str, Any]] = [
    {"path": "t"},
    {"path": ["t/day=1", "./t/day=2"], "options": {"where": "id = 2"}},
    {"path": "t/day=*/*.parquet", "schema": "id BIGINT"},
]
ANSWERS = [[1, 2], [2], [1, 2]]


def write_days(home: Path) -> None:
    for day in (1, 2):
        files.write(home / "t" / f"day={day}" / "a.parquet", {"id": [day]})


def run(program: str, cwd: Path, **environment: str) -> list[Any]:
    done = subprocess.run(
        [sys.executable, "-c", program + LOADS, json.dumps(CASES)],
        cwd=cwd, check=False, capture_output=True, text=True,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (line for line in done.stdout.splitlines() if line.startswith("answers "))
    return [json.loads(line.removeprefix("answers ")) for line in lines]


def test_workers_in_another_directory_read_the_same_files(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    write_days(home)
    files.write(elsewhere / "t" / "day=9" / "a.parquet", {"id": [9]})  # must not be read
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\ncd "{elsewhere}" && exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    assert run(CLASSIC, home, PYSPARK_PYTHON=str(python), PYSPARK_DRIVER_PYTHON=str(python)) == [[ANSWERS, [[[2, 2]]]]]


def test_spark_connect_without_the_jar(tmp_path: Path) -> None:
    """Paths are relative to the server, and attach says that the server has no jar."""
    write_days(tmp_path)
    attached, loaded = run(REMOTE, tmp_path)
    assert loaded == [ANSWERS, [[[2, 2]]]]
    assert attached == [True, [connect.NO_JAR], [[2]], connect.NO_JAR]


def parsed_below(java: Path, home: Path, worker: Path, **environment: str) -> dict[str, Any]:
    """Parse the paths of a load in a Python worker in the directory `worker`, below a process `java` in `home`."""
    inner = (
        "import json\n"
        "from bloomparquet.errors import OptionError\n"
        "from pyspark_bloomparquet.options.load import Options\n"
        "try:\n"
        "    options = Options.parse({'paths': '[\"t\", \"a*/b\", \"/x\"]', 'basepath': '.'})\n"
        "    print(json.dumps({'paths': options.paths, 'base': options.base_path}))\n"
        "except OptionError as error:\n"
        "    print(json.dumps({'error': str(error)}))\n"
    )
    outer = "import subprocess, sys; subprocess.run([sys.argv[1], '-c', sys.argv[2]], cwd=sys.argv[3], check=True)"
    done = subprocess.run(
        [str(java), "-c", outer, sys.executable, inner, str(worker)],
        cwd=home, check=False, capture_output=True, text=True,
        env={**os.environ, "PYTHON_WORKER_FACTORY_SECRET": "x", **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize("artifacts", ["f00d", "default"])
def test_relative_paths_are_below_the_directory_of_the_jvm(tmp_path: Path, artifacts: str) -> None:
    home, session, java = tmp_path / "home", tmp_path / "session", tmp_path / "java"
    home.mkdir()
    session.mkdir()
    java.symlink_to(Path(sys.executable).resolve())
    answer = parsed_below(java, home, session, SPARK_JOB_ARTIFACT_UUID=artifacts)
    assert answer == {"paths": [f"{home}/t", f"{home}/a*/b", "/x"], "base": f"{home}/."}


def test_connect_sessions_without_a_jvm_need_absolute_paths(tmp_path: Path) -> None:
    home, session = tmp_path / "home", tmp_path / "session"
    home.mkdir()
    session.mkdir()
    python = Path(sys.executable)
    answer = parsed_below(python, home, session, SPARK_JOB_ARTIFACT_UUID="f00d")
    assert "option basePath is '.', a relative path" in answer["error"]
    assert "expected an absolute path" in answer["error"]
    # Outside of Spark Connect, the JVM starts workers in its own directory.
    assert parsed_below(python, home, session)["paths"] == [f"{session}/t", f"{session}/a*/b", "/x"]


def test_outside_of_spark_paths_are_below_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Options.parse({"path": "t"}).paths == (f"{tmp_path}/t",)


@pytest.mark.parametrize("path", ["/t", "s3://b/t", "file:///t", "file:/t", "hdfs://h:1/t", "memory://t"])
def test_urls_and_absolute_paths_stay(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working_directory, "_jvm_directory", lambda: None)
    assert Options.parse({"path": path, "basePath": path}).paths == (path,)


def test_a_relative_path_in_a_url_is_an_error() -> None:
    with pytest.raises(OptionError, match=r"option path is 'file:t'; expected an absolute path in a URL: file:/…/t"):
        Options.parse({"path": "file:t"})
