"""Streams and tables are read and written by Spark's own code. The output of a stream is read by its log."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from pyspark_bloomparquet import last_plan
from tests.support.spark import rows

SCHEMA = "id BIGINT, s STRING, p BIGINT"


def run(frame: DataFrame, name: str, path: Path, **options: str) -> None:
    writer = frame.writeStream.format(name).options(path=str(path), checkpointLocation=f"{path}.checkpoint", **options)
    query = writer.partitionBy("p").trigger(availableNow=True).start()
    assert query.awaitTermination(60)


@pytest.fixture
def source(jar_spark: SparkSession, tmp_path: Path) -> Path:
    jar_spark.range(0, 40, 1, 2).selectExpr("id", "concat('s', id) AS s", "id % 2 AS p").write.parquet(
        str(tmp_path / "in")
    )
    return tmp_path / "in"


def test_each_start_of_a_stream_reads_the_new_files(jar_spark: SparkSession, source: Path, tmp_path: Path) -> None:
    for turn in (1, 2):
        for name in ("parquet", "bloomparquet"):
            run(jar_spark.readStream.format(name).schema(SCHEMA).load(str(source)), name, tmp_path / name)
        frame = jar_spark.read.format("bloomparquet").load(str(tmp_path / "bloomparquet"))
        assert frame.count() == 40 * turn
        assert rows(frame) == rows(jar_spark.read.parquet(str(tmp_path / "parquet")))
        jar_spark.range(100, 140).selectExpr("id", "'new' AS s", "id % 2 AS p").write.mode("append").parquet(
            str(source)
        )


def test_uncommitted_files_of_a_stream_are_not_read(jar_spark: SparkSession, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    stream = jar_spark.readStream.format("bloomparquet").schema(SCHEMA).load(str(source))
    run(stream, "bloomparquet", out, bloomColumns="id")
    committed = next(out.glob("p=1/*.parquet"))
    shutil.copy(committed, committed.with_name("part-left-behind.parquet"))

    for schema in (None, SCHEMA):
        reader = jar_spark.read.format("bloomparquet")
        frame = (reader.schema(schema) if schema else reader).load(str(out))
        assert rows(frame) == rows(jar_spark.read.parquet(str(out)).select(*frame.columns))
        one = frame.where("id = 7")
        (plan,) = last_plan(one)
        assert (plan.total, plan.kept) == (len(list(out.rglob("*.parquet"))) - 1, 1)
        assert [row.s for row in one.collect()] == ["s7"]
        (plan,) = last_plan(frame.where("id = 8 AND s = 'no'"))
        assert plan.skipped["statistics"] + plan.skipped["bloom"] == plan.total
