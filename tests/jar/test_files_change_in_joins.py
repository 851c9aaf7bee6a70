"""A join reads files in an order: a file that changes meanwhile loses it no row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast

from tests.support import changes
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
                path.with_name(".changed").touch()
                changes.change(path, "grown", SKIPPED)
            yield batch

    return spark.range(0, 1, 1, 1).selectExpr(f"id + {BASE} AS first").mapInArrow(change_once, "first BIGINT")


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_a_broadcast_reads_nothing_newer_than_the_plan(jar_spark: SparkSession, tmp_path: Path, adaptive: str) -> None:
    """Spark plans a scan of a load before it broadcasts the other side, and Spark's own scan after that."""
    with conf(jar_spark, {"spark.sql.adaptive.enabled": adaptive}):
        for name in ("bloomparquet", "parquet"):
            path = tmp_path / name / "x.parquet"
            path.parent.mkdir()
            changes.write(path, SKIPPED, "a")
            table = jar_spark.read.format(name).load(str(path.parent)).where(WHERE)
            joined = table.crossJoin(broadcast(changing(jar_spark, path))).where("id > first")
            if name == "parquet":
                assert len(joined.collect()) == 500
            else:
                with pytest.raises(ERRORS, match=CHANGED):
                    joined.collect()
