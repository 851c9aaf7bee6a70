"""``spark-submit --jars "$(bloomparquet jar)"``: two applications, one after the other in one JVM.

The jar has another name, as ivy may give it. The first application does not attach.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

from pyspark_bloomparquet import jar_path
from tests.support import files

pytestmark = pytest.mark.slow

JAR = "org_bloomparquet-1.jar"
MODULES = ("xxhash", "numpy", "colorsys", "json")
JOB = """
import json, os, subprocess, sys, time, warnings
from pathlib import Path
from pyspark.sql import SparkSession
from pyspark_bloomparquet import attach, last_plan

path, modules = sys.argv[1:]
answers = []
for attached in (False, True):
    spark = SparkSession.builder.getOrCreate()
    for module in sorted(Path(modules).iterdir()):
        spark.sql(f"ADD FILE '{module}'")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for _ in range(2 * attached):
            attach(spark)
    frames = [spark.read.format(name).load(path).where("id = 4711") for name in ("bloomparquet", "parquet")]
    rows = [[tuple(row) for row in frame.collect()] for frame in frames]
    plans = [[plan.planned, plan.total, plan.kept, plan.skipped["bloom"]] for plan in last_plan(frames[0])]
    jvm = str(spark._jvm.java.lang.ProcessHandle.current().pid())
    ps = subprocess.run(["ps", "-ww", "-o", "pid=,args=", "--ppid", jvm], capture_output=True, text=True).stdout
    (planner,) = [int(line.split()[0]) for line in ps.splitlines() if "planner_worker" in line]
    jars = spark.sparkContext._jsc.sc().listJars().mkString(" ").split()
    spark.stop()
    deadline = time.monotonic() + 60
    while os.path.exists(f"/proc/{planner}") and time.monotonic() < deadline:
        time.sleep(0.1)
    answers.append({
        "rows": rows, "plans": plans, "planner": planner, "is left": os.path.exists(f"/proc/{planner}"),
        "jars": [jar.split("/")[-1] for jar in jars if jar.endswith(".jar")],
        "warned": [str(each.message) for each in warned],
    })
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("submit")


@pytest.fixture(scope="module")
def applications(home: Path) -> list[dict[str, Any]]:
    """What each application found."""
    ids = [i * 7919 % 8009 for i in range(8000)]
    files.write(home / "t" / "a.parquet", {"id": ids}, ["id"], rows_per_group=1000)
    (home / "modules").mkdir()
    for module in MODULES:
        (home / "modules" / f"{module}.py").write_text(f"open({str(home / 'imported')!r}, 'w')\nraise SystemExit\n")
    job, jar = home / "job.py", shutil.copy(jar_path(), home / JAR)
    job.write_text(JOB)
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    settings = ("spark.ui.enabled=false", "spark.driver.host=127.0.0.1", "spark.driver.bindAddress=127.0.0.1")
    given = [part for setting in settings for part in ("--conf", setting)]
    done = subprocess.run(
        [submit, "--master", "local[1]", *given, "--jars", jar, job, home / "t", home / "modules"],
        cwd=home, check=False, capture_output=True, text=True, env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answers: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return answers


def test_a_submitted_job_with_the_jar_is_planned(applications: list[dict[str, Any]]) -> None:
    for answer in applications:
        assert answer["rows"] == [[[4711]], [[4711]]]
        assert answer["plans"] == [[True, 8, 1, 7]]


def test_the_planner_ends_with_its_application(applications: list[dict[str, Any]]) -> None:
    """And not with the JVM, which PySpark keeps: the next application has its own planner."""
    first, second = applications
    assert first["planner"] != second["planner"]
    assert not first["is left"]
    assert not second["is left"]


def test_attach_adds_no_second_jar(applications: list[dict[str, Any]]) -> None:
    for answer in applications:
        assert (answer["jars"], answer["warned"]) == ([JAR], [])


def test_files_added_by_sql_are_not_imported(applications: list[dict[str, Any]], home: Path) -> None:
    """A planner that starts after ADD FILE imports no module from there. Spark's own Python workers do import them, and
    none runs here."""
    assert applications
    assert not (home / "imported").exists()
