"""docs/clusters.md on a standalone cluster: a master, a worker, and a driver on the worker.

The commands of the page run as they stand. They get their paths by the environment variables that the page names.
The worker and its executors have a Python that cannot import this package.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyspark
import pytest

from tests.support import files
from tests.support.class_archive import JAVA_FLAGS
from tests.support.java import compile_jar
from tests.support.spark import FOR_SMALL_QUERIES, INTERPRETED

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "clusters.md").read_text()
SPARK_HOME = Path(pyspark.__file__).parent
SECONDS = 120.0  # the longest wait for a process of the cluster

LOOKUP = """
import java.util.Arrays;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

public final class Lookup {
  public static void main(String[] arguments) {
    SparkSession spark = SparkSession.builder().getOrCreate();
    Dataset<Row> rows = spark.read().parquet(arguments[0]).where("id = 77");
    System.out.println("rows " + Arrays.toString((Row[]) rows.collect()));
    rows.explain("formatted");
    spark.stop();
    System.out.println("parent " + ProcessHandle.current().parent().get().pid());
  }
}
"""
JOB = """
import json, sys, urllib.request
from pyspark.sql import SparkSession
from pyspark_bloomparquet import last_plan

def look(_):
    try:
        import bloomparquet
    except ImportError as error:
        return [str(error)]
    return [bloomparquet.__file__]

spark = SparkSession.builder.config("spark.ui.enabled", "true").getOrCreate()
frame = spark.read.parquet(sys.argv[1]).where("id = 77")
rows = [tuple(row) for row in frame.collect()]
(plan,) = last_plan(frame)
context = spark.sparkContext
url = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/sql?details=true"
(execution,) = json.load(urllib.request.urlopen(url))
(node,) = [node for node in execution["nodes"] if node["nodeName"] == "PrunedFileScan"]
imported = context.parallelize(range(2), 2).mapPartitions(look).collect()
print(json.dumps({
    "rows": rows, "plan": [plan.planned, plan.kept, plan.total, plan.skipped["bloom"]],
    "metrics": {metric["name"]: metric["value"] for metric in node["metrics"]}, "imported": imported,
}))
spark.stop()
"""
# Settings of the cluster, which stand in the file before the page adds its own.
SMALL = f"""
spark.executor.memory 512m
spark.driver.memory 512m
spark.executor.cores 1
spark.cores.max 1
spark.ui.enabled false
spark.ui.port 0
spark.driver.host 127.0.0.1
spark.driver.extraJavaOptions {JAVA_FLAGS}
spark.executor.extraJavaOptions {JAVA_FLAGS}
""" + "".join(f"{key} {value}\n" for key, value in {**FOR_SMALL_QUERIES, **INTERPRETED}.items())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a table of 16 row groups, two programs, and a wheel of this package."""
    home = tmp_path_factory.mktemp("cluster")
    for i in range(4):
        ids = [i + 4 * (row * 7 % 100) for row in range(100)]
        files.write(home / "table" / f"{i}.parquet", {"id": ids}, ["id"], rows_per_group=25, fpp=0.0001)
    compile_jar(home, "lookup.jar", {"Lookup": LOOKUP})
    (home / "lookup.py").write_text(JOB)
    (home / "conf").mkdir()
    (home / "conf" / "spark-defaults.conf").write_text(SMALL)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(home / "wheels")]
    subprocess.run(build, cwd=ROOT, check=True, stdout=sys.stderr)
    add_dependencies(home / "bloomparquet")
    return home


def add_dependencies(environment: Path) -> None:
    """Put what this package needs into a virtual environment that is yet to be made, as pip would do from an index."""
    packages = environment / "lib" / "python{}.{}".format(*sys.version_info) / "site-packages"
    packages.mkdir(parents=True)
    for path in Path(np.__file__).parents[1].iterdir():
        if not re.match("pip|pyspark|py4j|bloomparquet", path.name) and path.suffix != ".pth":
            (packages / path.name).symlink_to(path)


@pytest.fixture(scope="module")
def environment(home: Path) -> dict[str, str]:
    """The variables of the page, and a python3 that is not the one of the tests."""
    inherited = {name: value for name, value in os.environ.items() if not re.match("PY|SPARK|VIRTUAL_ENV", name)}
    return {
        **inherited, "PATH": f"{sys.base_prefix}/bin{os.pathsep}{os.environ['PATH']}",
        "SPARK_HOME": str(SPARK_HOME), "SPARK_CONF_DIR": str(home / "conf"), "BLOOMPARQUET": str(home / "bloomparquet"),
        "TABLE": str(home / "table"), "XDG_CACHE_HOME": str(home / "cache"),
        "PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_FIND_LINKS": str(home / "wheels"),
        "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": JAVA_FLAGS, "SPARK_SUBMIT_OPTS": JAVA_FLAGS,
    }  # fmt: skip


@contextmanager
def started(environment: dict[str, str], log: Path, kind: str, *arguments: object) -> Iterator[int]:
    """The process of a master or a worker. They need no settings, and a directory of settings would be in front of the
    classes of `JAVA_FLAGS`, which the JVM would then ignore."""
    command = [SPARK_HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1"]
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, "--webui-port", "0", *map(str, arguments)],
            env={**environment, "SPARK_CONF_DIR": str(SPARK_HOME / "conf")}, cwd=log.parent,
            stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        yield process.pid
    finally:
        process.terminate()  # a worker ends its driver and its executors
        process.wait(SECONDS)


def wait_for(pattern: str, home: Path, paths: str) -> str:
    """What `pattern` matches in one of the files `paths`, as soon as it does."""
    deadline = time.monotonic() + SECONDS
    while True:
        texts = [path.read_text() for path in home.glob(paths)]
        for match in filter(None, (re.search(pattern, text) for text in texts)):
            return match.group()
        assert time.monotonic() < deadline, f"no {pattern} in {paths}: {texts}"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def answers(home: Path, environment: dict[str, str]) -> Iterator[dict[str, Any]]:
    """What the last command of the page prints, and the process of the worker."""
    install, settings, submit_to_worker, submit_from_here = re.findall(
        r"^```bash\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL
    )

    def run(commands: str) -> str:
        done = subprocess.run(
            ["bash", "-euc", commands], cwd=home, env=environment, check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
        return done.stdout

    with ExitStack() as stack:
        stack.enter_context(started(environment, home / "master.log", "master.Master", "--port", 0))
        run(install)
        run(settings)
        environment["MASTER"] = master = wait_for(r"spark://127.0.0.1:\d+", home, "master.log")
        more = ("--cores", 2, "--memory", "2g", "--work-dir", home / "worker", master)
        worker = stack.enter_context(started(environment, home / "worker.log", "worker.Worker", *more))
        wait_for("Successfully registered with master", home, "worker.log")
        run(submit_to_worker)
        here = json.loads(run(submit_from_here).splitlines()[-1])
        wait_for("parent .*\n", home, "worker/driver-*/stdout")
        yield {"worker": worker, "here": here}


def test_a_driver_on_a_worker_is_planned(answers: dict[str, Any], home: Path) -> None:
    (output,) = home.glob("worker/driver-*/stdout")
    printed = output.read_text()
    assert "rows [[77]]" in printed
    assert "Kept: 1 of 16 row groups (0 skipped by statistics, 15 by Bloom filter)" in printed
    assert f"parent {answers['worker']}\n" in printed


def test_a_driver_that_submits_is_planned(answers: dict[str, Any]) -> None:
    here = answers["here"]
    assert here["rows"] == [[77]]
    assert here["plan"] == [True, 1, 16, 15]


def test_metrics_to_watch_are_in_the_rest_api(answers: dict[str, Any]) -> None:
    metrics = answers["here"]["metrics"]
    assert (metrics["row groups kept"], metrics["row groups skipped by Bloom filter"]) == ("1", "15")
    assert metrics["failed plans (everything was read)"] == "0"
    assert "`failed plans (everything was read)`" in PAGE


def test_executors_have_the_jar_and_no_package(answers: dict[str, Any], home: Path) -> None:
    assert answers["here"]["imported"] == ["No module named 'bloomparquet'"] * 2
    assert len(list(home.glob("worker/app-*/*/bloomparquet.jar"))) == 2, "two applications, each with an executor"


def test_the_planner_needs_no_pyspark(answers: dict[str, Any], home: Path) -> None:
    command = [home / "bloomparquet" / "bin" / "python", "-c", "import bloomparquet, pyspark"]
    done = subprocess.run(command, cwd=home, check=False, capture_output=True, text=True)
    assert "No module named 'pyspark'" in done.stderr


def test_the_planner_caches_for_its_user(answers: dict[str, Any], home: Path) -> None:
    assert list((home / "cache" / "bloomparquet" / "bloomparquet-cache").iterdir())
