"""Spark Connect: a server with the jar prunes for a client that has no JVM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bloomparquet import __version__
from pyspark_bloomparquet import configure
from tests.support import files
from tests.support.spark import INTERPRETED

pytestmark = pytest.mark.slow

# In a process of its own: PySpark cannot use its classic sessions and Spark Connect in one process.
SERVER = """
import json, sys, warnings
from pyspark.sql import SparkSession
import pyspark_bloomparquet as bloom

def warned(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    return result, [str(each.message) for each in caught if "CONFIG" in str(each.message) or "jar" in str(each.message)]

def plans(frame):
    return [[plan.planned, plan.total, plan.kept, dict(plan.skipped), plan.unit] for plan in bloom.last_plan(frame)]

def refused(call):
    try:
        call()
    except bloom_error as error:
        return str(error)

from bloomparquet.errors import UnsupportedError as bloom_error
path, relative, settings = sys.argv[1:]
out = {}
spark, out["configure"] = warned(lambda: bloom.configure(SparkSession.builder.remote("local[2]")).getOrCreate())
out["jvm"] = hasattr(spark, "_jvm") or hasattr(spark, "_jsparkSession")
_, out["attach"] = warned(lambda: bloom.attach(spark))
out["version"] = spark.conf.get("spark.bloomparquet.version")
for key, value in json.loads(settings).items():
    spark.conf.set(key, value)
for name, load in {"parquet": spark.read.parquet, "bloomparquet": spark.read.format("bloomparquet").load}.items():
    frame = load(path).where("id = 4711").groupBy("id").count()
    early = refused(lambda: bloom.last_plan(frame))
    out[name] = [early, [list(row) for row in frame.collect()], plans(frame)]
frame = spark.read.parquet(path)
out["unfiltered"] = [frame.toPandas().shape, [plan.reason for plan in bloom.last_plan(frame)]]
bloom.attach(spark, transparent=False)
frame = spark.read.parquet(path).where("id = 4711")
out["off"] = [[list(row) for row in frame.collect()], plans(frame)]
batches = spark.readStream.schema("id BIGINT").parquet(path).writeStream.format("noop").trigger(availableNow=True)
stream = batches.start()
stream.awaitTermination(60)
out["stream"] = refused(lambda: bloom.last_plan(stream))

class Plain(bloom.DefaultSource):  # without the jar; its workers run in the directory of the session
    @classmethod
    def name(cls):
        return "plain"

spark.dataSource.register(Plain)
answer = spark.read.format("plain").option("where", "id = 4711").load(relative)
out["relative"] = [list(row) for row in answer.collect()]
print("answer", json.dumps(out))
spark.stop()
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("connect")
    files.write(
        root / "a.parquet", {"id": [i * 7919 % 8009 for i in range(8000)]}, ["id"], rows_per_group=1000, fpp=1e-5
    )
    return str(root)


def run(path: str, home: Path) -> dict[str, Any]:
    settings = json.dumps({"spark.sql.shuffle.partitions": "2", **INTERPRETED})
    done = subprocess.run(
        [sys.executable, "-c", SERVER, path, os.path.relpath(path, home), settings],
        cwd=home, check=False, capture_output=True, text=True,
        # With SPARK_TESTING, the server takes a free port.
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_TESTING": "1", "SPARK_LOCAL_IP": "127.0.0.1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("answer "))
    answer: dict[str, Any] = json.loads(line.removeprefix("answer "))
    return answer


def test_a_server_with_the_jar_prunes_for_its_client(path: str, tmp_path: Path) -> None:
    answer = run(path, tmp_path)
    assert (answer["configure"], answer["attach"], answer["jvm"]) == ([], [], False)
    assert answer["version"] == __version__
    for name in ("parquet", "bloomparquet"):
        early, rows, plans = answer[name]
        assert "call its collect() or toPandas() first" in early
        assert rows == [[4711, 1]]
        assert plans == [[True, 8, 1, {"statistics": 0, "bloom": 7}, "row group"]]
    assert answer["unfiltered"] == [
        [8000, 1],
        ["Spark's own scan: no filter on its data columns, or spark.bloomparquet.transparent is false"],
    ]
    assert answer["off"] == [[[4711]], [[False, 0, 0, {"statistics": 0, "bloom": 0}, "row group"]]]
    assert "only in the UI of the server" in answer["stream"]
    assert answer["relative"] == [[4711]]


class Builder:
    """The part of Spark's builder that `configure` uses."""

    def __init__(self, **options: str) -> None:
        self._options = {f"spark.{key}": value for key, value in options.items()}

    def config(self, key: str, value: str) -> Builder:
        self._options[key] = value
        return self


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LEN", "0"):  # set first, so that it is removed afterwards
        monkeypatch.setenv(f"PYSPARK_REMOTE_INIT_CONF_{name}", "")
        monkeypatch.delenv(f"PYSPARK_REMOTE_INIT_CONF_{name}")


def initial() -> dict[str, str]:
    """The settings that PySpark starts a server with."""
    settings: dict[str, str] = {}
    for i in range(int(os.environ.get("PYSPARK_REMOTE_INIT_CONF_LEN", "0"))):
        settings = json.loads(os.environ[f"PYSPARK_REMOTE_INIT_CONF_{i}"])
    return settings


def test_a_server_elsewhere_has_its_own_settings(environment: None) -> None:
    builder = Builder(remote="sc://somewhere:15002")
    assert configure(builder) is builder  # type: ignore[arg-type,comparison-overlap]
    assert builder._options == {"spark.remote": "sc://somewhere:15002"}
    assert initial() == {}


def test_settings_of_a_server_are_kept(environment: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_REMOTE_INIT_CONF_LEN", "1")
    monkeypatch.setenv("PYSPARK_REMOTE_INIT_CONF_0", json.dumps({"spark.ui.enabled": "false"}))
    for _ in range(2):
        configure(Builder(remote="local"))  # type: ignore[arg-type]
        assert set(initial()) == {"spark.ui.enabled", "spark.jars", *PYTHON}
        assert initial()["spark.jars"].endswith("/bloomparquet.jar")


PYTHON = ("spark.bloomparquet.python", "spark.bloomparquet.pythonPath")


def test_connect_by_the_mode_of_the_api(environment: None) -> None:
    builder = Builder(**{"api.mode": "connect"})
    configure(builder)  # type: ignore[arg-type]
    assert set(builder._options) == {"spark.api.mode"}
    assert "spark.jars" in initial()
