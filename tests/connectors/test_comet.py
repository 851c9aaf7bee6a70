"""Comet, which replaces Spark's scans by its own: rows are equal, and what it replaces is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_bloomparquet import attach, explain_pruning, last_plan
from tests.connectors.pairs import check
from tests.connectors.session import HAS_COMET, application
from tests.support import files
from tests.support.spark import conf

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not HAS_COMET, reason="Comet's jar is for Spark 4.1")]


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[SparkSession]:
    """An application, because Comet takes its memory and its shuffle when the context starts."""
    settings = {
        "spark.plugins": "org.apache.spark.CometPlugin",
        "spark.shuffle.manager": "org.apache.spark.sql.comet.execution.shuffle.CometShuffleManager",
        "spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "1g",
    }  # fmt: skip
    with application(tmp_path, **settings) as session:
        yield attach(session)


def test_scans_that_comet_replaces_are_named_and_others_pruned(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    for i in range(4):
        ids = [i + 4 * (row * 7 % 100) for row in range(100)]
        files.write(path / f"{i}.parquet", {"id": ids, "v": ids}, ["id"], rows_per_group=25, fpp=0.0001)
    spark.read.parquet(str(path)).createOrReplaceTempView("t")
    spark.sql("CREATE TABLE lake.db.t USING iceberg AS SELECT * FROM t")
    for name in ("delta", "orc"):
        rows = spark.range(100).selectExpr("id", "id AS v").repartitionByRange(2, "id")
        rows.write.format(name).save(str(tmp_path / name))
    lookup = "SELECT * FROM t WHERE id = 77"
    not_adaptive = {"spark.sql.adaptive.enabled": "false"}
    for query, settings, scan, source in (
        (lookup, {}, "Native", f"file:{path}"),
        ("SELECT count(*), max(v) FROM t WHERE id IN (5, 77, 300)", {}, "Native", f"file:{path}"),
        ("SELECT /*+ BROADCAST(k) */ t.* FROM t JOIN (VALUES (77L)) k(id) ON t.id = k.id WHERE v > 3", {},
         "Native", f"file:{path}"),
        (lookup, not_adaptive, "Native", f"file:{path}"),
        ("SELECT * FROM lake.db.t WHERE id = 77", not_adaptive, "IcebergNative", "lake.db.t"),
    ):  # fmt: skip
        with conf(spark, settings):
            assert check(spark, query)[0], query
            frame = spark.sql(query)
            frame.collect()
        reason = f"another engine's scan (Comet{scan}ScanExec) replaces Spark's; bloomparquet skips nothing in it"
        assert [(plan.reason, list(plan.paths)) for plan in last_plan(frame)] == [(reason, [source])], query
        assert source == "lake.db.t" or reason in str(explain_pruning(frame)[0]), query
    for query, settings in (
        ("SELECT id, input_file_name() <> '' FROM t WHERE id = 77", {}),
        (f"SELECT * FROM bloomparquet.`{path}` WHERE id = 77", {}),
        (f"SELECT * FROM delta.`{tmp_path}/delta` WHERE id = 77", {}),
        (f"SELECT * FROM orc.`{tmp_path}/orc` WHERE id = 77", {}),
        (lookup, {"spark.comet.scan.enabled": "false"}),
    ):
        with conf(spark, settings):
            rows, plans = check(spark, query)
        assert (bool(rows), [plan.kept for plan in plans]) == (True, [1]), query
