"""A join reads files in an order, and may stop before the last row: a file that changes meanwhile loses it no row."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast

from pyspark_bloomparquet import last_plan
from tests.support import changes, files, plain
from tests.support.changes import BASE, SKIPPED, WHERE
from tests.support.spark import conf

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("transparent")]

ERRORS = (Py4JJavaError, PySparkException)
CHANGED = "changed after this query was planned"


def changing(spark: SparkSession, path: Path) -> DataFrame:
    """One row. A query that reads it finds that the file at `path` has grown since it began."""

    def change_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if not path.with_name(".changed").exists():
                time.sleep(0.5)  # the other side is planned meanwhile, if Spark does not wait for this one
                path.with_name(".changed").touch()
                changes.change(path, "grown", SKIPPED)
            yield batch

    return spark.range(0, 1, 1, 1).selectExpr(f"id + {BASE} AS first").mapInArrow(change_once, "first BIGINT")


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_a_broadcast_reads_nothing_newer_than_the_plan(jar_spark: SparkSession, tmp_path: Path, adaptive: str) -> None:
    """A scan is planned after the other side was broadcast."""
    path = tmp_path / "t" / "x.parquet"
    path.parent.mkdir()
    changes.write(path, SKIPPED, "a")
    with conf(jar_spark, {"spark.sql.adaptive.enabled": adaptive}):
        table = jar_spark.read.parquet(str(path.parent)).where(WHERE)
        assert len(table.crossJoin(broadcast(changing(jar_spark, path))).where("id > first").collect()) == 500


def test_joins_without_adaptive_execution_check_both_sides(jar_spark: SparkSession, tmp_path: Path) -> None:
    """Spark plans the left scan and then waits for the broadcast of the right side, before any task begins."""
    path = tmp_path / "t" / "x.parquet"
    path.parent.mkdir()
    settings = {"spark.sql.adaptive.enabled": "false", "spark.sql.autoBroadcastJoinThreshold": "-1"}
    changes.write(path, SKIPPED, "a")
    table = jar_spark.read.parquet(str(path.parent)).where(WHERE)
    ids = jar_spark.range(BASE, BASE + 3000, 1, 2).withColumnRenamed("id", "key")
    with conf(jar_spark, settings):
        keys = ids.crossJoin(broadcast(changing(jar_spark, path))).where("key > first").hint("merge")
        with pytest.raises(ERRORS, match=CHANGED):
            table.join(keys, table.id == keys.key).collect()
        assert len(table.collect()) == 500


def test_a_merge_join_that_stops_early_checks_its_files(jar_spark: SparkSession, tmp_path: Path) -> None:
    """Both versions have the id 550, and the second has greater ids where the first has 500 to 999."""
    versions = [list(range(1000)), [*range(300), 550, *range(600, 1300)]]
    settings = {"legacy.bucketedTableScan.outputOrdering": "true", "autoBroadcastJoinThreshold": "-1"}
    with conf(jar_spark, {f"spark.sql.{key}": value for key, value in settings.items()}):
        for name, ids in {"one": [550], "many": versions[0]}.items():
            files.write(tmp_path / name / "part-0_00000.parquet", {"id": ids}, rows_per_group=100)
            jar_spark.sql(
                f"CREATE TABLE {name} (id BIGINT) USING parquet CLUSTERED BY (id) SORTED BY (id) INTO 1 BUCKETS "
                f"LOCATION '{tmp_path / name}'"
            )
        try:
            joined = jar_spark.sql(
                "SELECT /*+ MERGE(one) */ one.id FROM one, many WHERE one.id = many.id AND many.id >= 500"
            )
            assert "+- Sort " not in plain.executed(joined)
            assert [row.id for row in joined.collect()] == [550]
            assert (5, 10) in [(plan.kept, plan.total) for plan in last_plan(joined)]
            new = files.write(tmp_path / "new.parquet", {"id": versions[1]}, rows_per_group=100)
            os.replace(new, tmp_path / "many" / "part-0_00000.parquet")
            with pytest.raises(ERRORS, match=CHANGED):
                joined.collect()
        finally:
            jar_spark.sql("DROP TABLE one")
            jar_spark.sql("DROP TABLE many")
