"""Comet, which replaces Spark's scans by its own: rows are equal, and what it replaces is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.jar.test_plain_processes import run
from tests.support import connectors, files

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not pyspark.__version__.startswith("4.1."), reason="Comet's jar is for Spark 4.1"),
]

# Comet takes its memory and its shuffle when the context starts.
JOB = """
from pyspark_bloomparquet import attach, explain_pruning

home, jar, jars, path = sys.argv[1:]
spark = attach(start("local[2]", home, jars, **{
    "spark.plugins": "org.apache.spark.CometPlugin",
    "spark.shuffle.manager": "org.apache.spark.sql.comet.execution.shuffle.CometShuffleManager",
    "spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "1g",
    "spark.bloomparquet.cacheDirectory": f"{home}/cache",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog", "spark.sql.catalog.lake.type": "hadoop",
    "spark.sql.catalog.lake.warehouse": f"{home}/lake",
}).getOrCreate())
spark.read.parquet(path).createOrReplaceTempView("t")
spark.sql("CREATE TABLE lake.db.t USING iceberg AS SELECT * FROM t")
for name in ("delta", "orc"):
    spark.range(100).selectExpr("id", "id AS v").repartitionByRange(2, "id").write.format(name).save(f"{home}/{name}")

def answer(sql, **settings):
    for key, value in settings.items():
        spark.conf.set(key.replace("_", "."), value)
    told = ask(spark, sql)
    frame = spark.sql(sql)
    frame.collect()
    told["plans"] = [[plan.reason, plan.paths] for plan in last_plan(frame)]
    told["explained"] = [str(each) for each in explain_pruning(frame)]
    return told

FILTER = "SELECT * FROM t WHERE id = 77"
replaced = [
    answer(FILTER),
    answer("SELECT count(*), max(v) FROM t WHERE id IN (5, 77, 300)"),
    answer("SELECT /*+ BROADCAST(k) */ t.* FROM t JOIN (VALUES (77L)) k(id) ON t.id = k.id WHERE v > 3"),
    answer(FILTER, spark_sql_adaptive_enabled="false"),
    answer("SELECT * FROM lake.db.t WHERE id = 77"),
]
declined = [
    answer("SELECT id, input_file_name() <> '' FROM t WHERE id = 77"),
    answer(f"SELECT * FROM bloomparquet.`{path}` WHERE id = 77"),
    answer(f"SELECT * FROM delta.`{home}/delta` WHERE id = 77"),
    answer(f"SELECT * FROM orc.`{home}/orc` WHERE id = 77"),
    answer(FILTER, spark_comet_scan_enabled="false"),
]
print()
print(json.dumps([replaced, declined]))
spark.stop()
"""


def test_scans_that_comet_replaces_are_named_and_others_pruned(tmp_path: Path) -> None:
    for i in range(4):
        ids = [i + 4 * (row * 7 % 100) for row in range(100)]
        files.write(tmp_path / "t" / f"{i}.parquet", {"id": ids, "v": ids}, ["id"], rows_per_group=25, fpp=0.0001)
    jars = ",".join(map(str, (jar for name in ("comet", "delta", "iceberg") for jar in connectors.jars(name))))
    answers: list[list[dict[str, Any]]] = run(JOB, tmp_path, jars, str(tmp_path / "t"))
    for answer in (each for way in answers for each in way):
        assert answer["rows"] == answer["expected"] != [], answer
    *plain, iceberg = answers[0]
    reason = "another engine's scan (Comet{}ScanExec) replaces Spark's; bloomparquet skips nothing in it"
    for answer in plain:
        assert answer["plans"] == [[reason.format("Native"), [f"file:{tmp_path}/t"]]], answer
        assert reason.format("Native") in answer["explained"][0]
    assert iceberg["plans"] == [[reason.format("IcebergNative"), ["lake.db.t"]]]
    for answer in answers[1]:
        assert answer["kept"] == [1], answer
