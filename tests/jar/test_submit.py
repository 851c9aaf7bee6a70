"""``spark-submit --jars "$(bloomparquet jar)"``: a job that only names the format is planned."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from pyspark_bloomparquet import jar_path
from tests.support import files

pytestmark = pytest.mark.slow

JOB = """
import json, sys
from pyspark.sql import SparkSession
from pyspark_bloomparquet import last_plan

spark = SparkSession.builder.getOrCreate()
frame, oracle = (spark.read.format(name).load(sys.argv[1]).where("id = 4711") for name in ("bloomparquet", "parquet"))
rows = [[tuple(row) for row in each.collect()] for each in (frame, oracle)]
(plan,) = last_plan(frame)
print(json.dumps([rows, plan.planned, plan.total, plan.kept, plan.skipped["bloom"]]))
"""


def test_a_submitted_job_with_the_jar_is_planned(tmp_path: Path) -> None:
    ids = [i * 7919 % 8009 for i in range(8000)]
    files.write(tmp_path / "t" / "a.parquet", {"id": ids}, ["id"], rows_per_group=1000)
    job = tmp_path / "job.py"
    job.write_text(JOB)
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    local = ["--master", "local[1]", "--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1"]
    done = subprocess.run(
        [submit, *local, "--conf", "spark.driver.bindAddress=127.0.0.1", "--jars", jar_path(), job, tmp_path / "t"],
        cwd=tmp_path, check=False, capture_output=True, text=True, env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (rows, oracle), planned, total, kept, skipped = json.loads(done.stdout.splitlines()[-1])
    assert rows == oracle == [[4711]]
    assert planned
    assert (total, kept, skipped) == (8, 1, 7)
