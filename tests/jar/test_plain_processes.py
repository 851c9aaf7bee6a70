"""Applications of their own, with the jar among their jars and nothing else: a cluster, a Hive metastore."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

from pyspark_bloomparquet import jar_path
from tests.support import files
from tests.support.class_archive import JAVA_FLAGS
from tests.support.planners import has_ended
from tests.support.spark import FOR_SMALL_QUERIES, INTERPRETED

pytestmark = pytest.mark.slow

START = """
import json, os, signal, subprocess, sys, time
from concurrent.futures import ThreadPoolExecutor
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark_bloomparquet import check, last_plan

def start(master, home, jar, **more):
    builder = SparkSession.builder.master(master)
    settings = {
        "spark.jars": jar, "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2",
        "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1",
        "spark.bloomparquet.python": sys.executable, "spark.sql.warehouse.dir": f"{home}/warehouse",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={home}/derby", **SMALL, **more,
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder

def ask(spark, sql):
    answers = []
    for pruning in ("false", "true"):
        spark.conf.set("spark.bloomparquet.transparent", pruning)
        frame = spark.sql(sql)
        rows = sorted(map(str, frame.collect()))
        plans = [plan for plan in last_plan(frame) if plan.planned]
        answers.append((rows, [plan.kept for plan in plans], sum(plan.skipped.total() for plan in plans)))
    (expected, _, _), (rows, kept, skipped) = answers
    return {"sql": sql, "rows": rows, "expected": expected, "kept": kept, "skipped": skipped}
"""


def run(job: str, home: Path, *arguments: str) -> Any:
    """Run a job in a process of its own. Returns the JSON of its last line."""
    path = home / "job.py"
    path.write_text(f"SMALL = {FOR_SMALL_QUERIES | INTERPRETED}\n{START}{job}")
    spark_home = Path(pyspark.__file__).parent
    env = {
        **os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(spark_home),
        "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "127.0.0.1",  # also for masters, workers, executors
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, path, str(home), jar_path(), *arguments],
        cwd=home, check=False, capture_output=True, text=True, env=env,
    )  # fmt: skip
    assert done.returncode == 0, "".join(done.stderr.partition("Traceback")[1:])[:3000] or done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


CLUSTER = """
home, jar, path, flags = sys.argv[1:]
spark = start("local-cluster[2,1,1024]", home, jar, **{
    "spark.executor.memory": "512m", "spark.executor.extraJavaOptions": flags,
    "spark.sql.files.maxPartitionBytes": "2000b",
    "spark.sql.files.openCostInBytes": "0", "spark.task.maxFailures": "8",
    "spark.jars": "", "spark.driver.extraClassPath": jar,  # executors get the jar from the first query
}).getOrCreate()
spark.read.parquet(path).createOrReplaceTempView("t")
answers = [
    ask(spark, "SELECT id FROM t WHERE id = 77"),
    ask(spark, "SELECT a.id FROM t a JOIN t b ON a.id = b.id + 1 WHERE a.id = 9 AND b.id = 8"),
]

@F.udf("long")
def slow(value):
    time.sleep(0.2)
    return value

def children(command):
    driver = int(spark._jvm.java.lang.ProcessHandle.current().pid())
    ps = ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(driver)]  # -ww: without a terminal, ps may cut the lines
    lines = subprocess.run(ps, capture_output=True, text=True).stdout.splitlines()
    return [int(line.split()[0]) for line in lines if command in line]

def kill_an_executor():
    time.sleep(1.5)
    os.kill(children("CoarseGrainedExecutorBackend")[0], signal.SIGKILL)

spark.conf.set("spark.bloomparquet.transparent", "true")
checked = str(check(spark, path))
frame = spark.table("t").where("id < 40").select(slow("id").alias("id"))
with ThreadPoolExecutor() as threads:
    killing = threads.submit(kill_an_executor)
    rows = sorted(row.id for row in frame.collect())
killing.result()
(plan,) = last_plan(frame)
(planner,) = children("planner_worker")
os.kill(planner, signal.SIGSTOP)  # it must not outlive the driver
print()
print(json.dumps([answers, rows, plan.planned, plan.kept, plan.total, planner, checked]))
spark.stop()
"""


def test_a_cluster_that_loses_an_executor(tmp_path: Path) -> None:
    for i in range(4):
        ids = [i + 4 * (row * 7 % 100) for row in range(100)]
        files.write(tmp_path / "t" / f"{i}.parquet", {"id": ids, "v": ids}, ["id"], rows_per_group=25, fpp=0.0001)
    answers, rows, planned, kept, total, planner, checked = run(CLUSTER, tmp_path, str(tmp_path / "t"), JAVA_FLAGS)
    for answer in answers:
        assert answer["rows"] == answer["expected"] != []
    assert [answer["kept"] for answer in answers] == [[1], [1, 1]]
    assert rows == list(range(40))
    assert (planned, total) == (True, 16)
    assert kept <= 16
    assert "PROBLEM" not in checked, checked
    assert "executors: 2 of 2 have the jar of bloomparquet" in checked
    assert "executors: 2 of 2 read file:" in checked
    assert "extension: installed by Spark, from the jar in the session's settings" in checked
    assert has_ended(planner), f"the planner, process {planner}, was left behind"


HIVE = """
home, jar = sys.argv[1:]
url = f"jdbc:derby:;databaseName={home}/metastore;create=true"
spark = start("local[2]", home, jar, **{"spark.hadoop.javax.jdo.option.ConnectionURL": url,
    "spark.sql.orc.columnarWriterBatchSize": "10"}).enableHiveSupport().getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
answers, plain = [], []
spark.conf.set("hive.exec.dynamic.partition.mode", "nonstrict")
for kind in ("parquet", "orc"):
    properties = (
        "'parquet.block.row.count.limit'='10', 'parquet.bloom.filter.enabled'='true', "
        "'orc.stripe.row.count'='10', 'orc.bloom.filter.columns'='id'"
    )
    spark.sql(f"CREATE TABLE {kind}_t (id BIGINT, Name STRING) STORED AS {kind} TBLPROPERTIES ({properties})")
    spark.sql(f"CREATE TABLE {kind}_p (id BIGINT, Name STRING) PARTITIONED BY (p INT) STORED AS {kind} "
        f"TBLPROPERTIES ({properties})")
    rows = "SELECT id * 7919 % 1009, concat('n', id)"
    spark.sql(f"INSERT INTO {kind}_t {rows} FROM range(0, 80, 1, 1)")
    spark.sql(f"INSERT INTO {kind}_p {rows}, CAST(id % 2 AS INT) FROM range(0, 80, 1, 1)")
    spark.sql(f"ALTER TABLE {kind}_p ADD PARTITION (p = 5) LOCATION '{home}/warehouse/{kind}_t'")
    answers.append(ask(spark, f"SELECT * FROM {kind}_t WHERE NAME = 'n7'"))
    answers.append(ask(spark, f"SELECT * FROM {kind}_p WHERE id = 856 AND p <> 1"))
    answers.append(ask(spark, f"SELECT p, count(*) FROM {kind}_p WHERE id = 856 GROUP BY p"))
    spark.conf.set(f"spark.sql.hive.convertMetastore{kind.capitalize()}", "false")
    plain.append(ask(spark, f"SELECT * FROM {kind}_t WHERE id = 856"))
    spark.conf.set(f"spark.sql.hive.convertMetastore{kind.capitalize()}", "true")

# The Thrift server, asked by its own driver.
spark.conf.set("spark.bloomparquet.transparent", "true")
jvm = spark._jvm
spark.conf.set("hive.server2.thrift.port", "0")
thrift = jvm.org.apache.spark.sql.hive.thriftserver
server = thrift.HiveThriftServer2.startWithContext(spark._jsparkSession.sqlContext())
services = server.getServices()
ports = [service.getPortNumber() for service in services if service.getName() == "ThriftBinaryCLIService"]
connection = jvm.org.apache.hive.jdbc.HiveDriver().connect(f"jdbc:hive2://127.0.0.1:{ports[0]}/default",
    jvm.java.util.Properties())
statement = connection.createStatement()
def fetch(sql):
    result, rows = statement.executeQuery(sql), []
    while result.next():
        rows.append(result.getString(1))
    return rows
sql = "SELECT name FROM parquet_t WHERE id = 856"
fetched = [fetch(sql), fetch(f"EXPLAIN {sql}")]
connection.close()
server.stop()
print()
print(json.dumps([answers, plain, fetched]))
spark.stop()
"""


def test_hive_tables_that_spark_converts(tmp_path: Path) -> None:
    answers, unconverted, (rows, explained) = run(HIVE, tmp_path)
    for answer in (*answers, *unconverted):
        assert answer["rows"] == answer["expected"], answer["sql"]
    assert all(answer["rows"] for answer in answers)
    for answer in answers:
        assert answer["kept"], answer["sql"]
    assert sum(answer["skipped"] for answer in answers) > 15
    assert [answer["kept"] for answer in unconverted] == [[], []]
    assert rows == ["n1"]
    assert "PrunedFileScan" in "".join(explained)
