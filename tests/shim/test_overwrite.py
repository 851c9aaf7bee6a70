"""No statement deletes the files that it reads. Spark sees to it where it reads files itself; here the jar must."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from tests.support.spark import conf, rows

REFUSED = "that is also being read from"
DYNAMIC = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}


def read(spark: SparkSession, path: Path) -> DataFrame:
    return spark.read.format("bloomparquet").load(str(path))


def files(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*.parquet")}


@pytest.fixture
def lake(shim: SparkSession, tmp_path: Path) -> Path:
    """``lake/events`` in partitions by p, and ``lake/events2`` beside it."""
    frame = shim.range(12).selectExpr("id", "cast(id % 3 AS INT) AS p")
    frame.write.partitionBy("p").parquet(str(tmp_path / "lake" / "events"))
    frame.write.parquet(str(tmp_path / "lake" / "events2"))
    return tmp_path / "lake"


ROUTES: dict[str, Callable[[SparkSession, Path], None]] = {
    "the same path": lambda spark, lake: (
        read(spark, lake / "events").write.format("bloomparquet").mode("overwrite").save(str(lake / "events"))
    ),
    "the same path, spelt otherwise": lambda spark, lake: (
        read(spark, lake / "events").write.format("bloomparquet").mode("overwrite").save(f"file://{lake}/x/../events/")
    ),
    "read here, written as parquet": lambda spark, lake: (
        read(spark, lake / "events").write.mode("overwrite").parquet(str(lake / "events"))
    ),
    "written as JSON": lambda spark, lake: (
        read(spark, lake / "events").write.mode("overwrite").json(str(lake / "events"))
    ),
    "a directory above": lambda spark, lake: read(spark, lake / "events").write.mode("overwrite").parquet(str(lake)),
    "a partition of what is read": lambda spark, lake: (
        read(spark, lake / "events").where("id > 3").write.mode("overwrite").parquet(str(lake / "events" / "p=1"))
    ),
    "one of several paths": lambda spark, lake: (
        spark.read.format("bloomparquet")
        .load([str(lake / "events2"), str(lake / "events" / "p=0")])
        .write.mode("overwrite")
        .parquet(str(lake / "events2"))
    ),
    "paths by a glob": lambda spark, lake: (
        read(spark, lake / "event*2").write.mode("overwrite").parquet(str(lake / "events2"))
    ),
    "rows that are none": lambda spark, lake: (
        read(spark, lake / "events").where("p = 7").write.mode("overwrite").parquet(str(lake / "events"))
    ),
    "an aggregate": lambda spark, lake: (
        read(spark, lake / "events2").groupBy().max("id").write.mode("overwrite").parquet(str(lake / "events2"))
    ),
    "one side of a join": lambda spark, lake: (
        spark.range(3)
        .join(read(spark, lake / "events"), "id")
        .write.format("bloomparquet")
        .mode("overwrite")
        .save(str(lake / "events"))
    ),
    "INSERT OVERWRITE DIRECTORY": lambda spark, lake: (
        read(spark, lake / "events").createOrReplaceTempView("ev"),
        spark.sql(f"INSERT OVERWRITE DIRECTORY '{lake}/events' USING bloomparquet SELECT * FROM ev"),
    )[0],
    "a scalar subquery": lambda spark, lake: (
        read(spark, lake / "events").createOrReplaceTempView("ev"),
        spark.sql("SELECT (SELECT max(id) FROM ev) AS m").write.mode("overwrite").parquet(str(lake / "events")),
    )[0],
    "an IN subquery": lambda spark, lake: (
        read(spark, lake / "events").createOrReplaceTempView("ev"),
        spark.sql("SELECT id FROM range(5) WHERE id IN (SELECT id FROM ev)")
        .write.mode("overwrite")
        .parquet(str(lake / "events")),
    )[0],
    "what is cached and not yet computed": lambda spark, lake: (
        read(spark, lake / "events").cache().write.mode("overwrite").parquet(str(lake / "events"))
    ),
    "a session of its own": lambda spark, lake: (
        read(spark.newSession(), lake / "events").write.mode("overwrite").parquet(str(lake / "events"))
    ),
    "an INSERT into several": lambda spark, lake: (
        read(spark, lake / "events2").createOrReplaceTempView("ev"),
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW target USING bloomparquet OPTIONS (path '{lake}/events2')"),
        spark.sql("FROM ev INSERT OVERWRITE target SELECT id, p INSERT INTO target SELECT id, p"),
    )[0],
}


@pytest.mark.parametrize("route", ROUTES)
def test_what_is_read_is_not_overwritten_and_no_file_is_lost(shim: SparkSession, lake: Path, route: str) -> None:
    before = files(lake)
    with pytest.raises(AnalysisException, match=REFUSED):
        ROUTES[route](shim, lake)
    assert files(lake) == before
    shim.catalog.clearCache()


TABLES: dict[str, str] = {
    "INSERT OVERWRITE itself": "INSERT OVERWRITE {t} SELECT id + 1, p FROM {t}",
    "by a common table expression": "WITH x AS (SELECT * FROM {t}) INSERT OVERWRITE {t} SELECT * FROM x",
    "INSERT OVERWRITE a partition of itself": "INSERT OVERWRITE {t} PARTITION (p = 1) SELECT id FROM {t} WHERE p = 2",
    "CREATE OR REPLACE by itself": "CREATE OR REPLACE TABLE {t} USING bloomparquet AS SELECT * FROM {t}",
    "REPLACE by its path": "REPLACE TABLE {t} USING bloomparquet AS SELECT id FROM bloomparquet.`{path}`",
    "REPLACE over another's files": (
        "CREATE OR REPLACE TABLE {t}_new USING bloomparquet LOCATION '{path}' AS SELECT id FROM {t}"
    ),
}


@pytest.mark.parametrize("statement", TABLES)
def test_a_table_that_is_read_is_not_overwritten(shim: SparkSession, statement: str) -> None:
    shim.range(9).selectExpr("id", "id % 3 p").write.format("bloomparquet").partitionBy("p").saveAsTable("guarded")
    try:
        path = directory(shim, "guarded").parent
        before = files(path)
        with pytest.raises(AnalysisException, match=REFUSED):
            shim.sql(TABLES[statement].format(t="guarded", path=path))
        assert files(path) == before
        assert rows(shim.table("guarded")) == [(i, i % 3) for i in range(9)]
    finally:
        shim.sql("DROP TABLE guarded")


def test_a_table_is_not_saved_over_itself(shim: SparkSession) -> None:
    shim.range(5).write.format("bloomparquet").saveAsTable("itself")
    try:
        with pytest.raises(AnalysisException, match=REFUSED):
            shim.table("itself").write.format("bloomparquet").mode("overwrite").saveAsTable("itself")
        with pytest.raises(AnalysisException, match=REFUSED):
            shim.table("itself").write.mode("overwrite").insertInto("itself")
        assert rows(shim.table("itself")) == [(i,) for i in range(5)]
    finally:
        shim.sql("DROP TABLE itself")


def test_a_table_of_parquet_that_is_read_by_its_path_is_not_replaced(shim: SparkSession) -> None:
    """Replacing a managed table deletes its files, whoever wrote them."""
    shim.range(5).write.format("parquet").saveAsTable("plain")
    try:
        frame = read(shim, directory(shim, "plain"))
        with pytest.raises(AnalysisException, match=REFUSED):
            frame.write.format("bloomparquet").mode("overwrite").saveAsTable("plain")
        assert rows(shim.table("plain")) == [(i,) for i in range(5)]
    finally:
        shim.sql("DROP TABLE plain")


def test_partitions_of_which_no_file_is_read_may_be_overwritten(shim: SparkSession, lake: Path) -> None:
    for name in ("parquet", "bloomparquet"):
        frame = shim.read.format(name).load(str(lake / "events")).where("p = 2").select("id")
        frame.write.mode("overwrite").parquet(str(lake / "events" / "p=1"))
        assert rows(shim.read.parquet(str(lake / "events")).where("p = 1").select("id")) == rows(frame)


def test_partitions_may_be_overwritten_by_what_they_hold(shim: SparkSession, lake: Path) -> None:
    """Spark allows it in dynamic mode, which deletes after it has read."""
    shutil.copytree(lake / "events", lake / "copy")
    results = []
    for name, path in (("parquet", lake / "copy"), ("bloomparquet", lake / "events")):
        with conf(shim, DYNAMIC):
            frame = shim.read.format(name).load(str(path)).where("p = 1").selectExpr("id + 100 AS id", "p")
            frame.write.format(name).mode("overwrite").partitionBy("p").save(str(path))
        results.append(rows(shim.read.parquet(str(path))))
    assert results[0] == results[1]
    assert (101, 1) in results[1]
    assert (0, 0) in results[1]


@pytest.mark.parametrize("mode", ["overwrite", "append"])
def test_what_is_beside_the_files_that_are_read_may_be_written(shim: SparkSession, lake: Path, mode: str) -> None:
    """``events2`` begins with the name of ``events`` and is not in it."""
    read(shim, lake / "events").write.format("bloomparquet").mode(mode).save(str(lake / "events2"))
    read(shim, lake / "events2").write.format("bloomparquet").mode(mode).save(str(lake / "event"))
    expected = [(i, i % 3) for i in range(12)] * (1 if mode == "overwrite" else 2)
    assert rows(shim.read.parquet(str(lake / "event")).select("id", "p")) == sorted(expected, key=repr)


def test_appending_to_what_is_read_is_allowed(shim: SparkSession, lake: Path) -> None:
    read(shim, lake / "events2").write.format("bloomparquet").mode("append").save(str(lake / "events2"))
    assert read(shim, lake / "events2").count() == 24


def directory(spark: SparkSession, table: str) -> Path:
    """Where one of the table's files lies."""
    return Path(spark.table(table).inputFiles()[0].removeprefix("file:").replace("///", "/")).parent


def test_a_session_that_got_the_table_by_a_global_view_is_guarded_too(shim: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "shared")
    shim.range(5).write.parquet(path)
    before = sorted(file.name for file in Path(path).iterdir())
    shim.read.format("bloomparquet").load(path).createOrReplaceGlobalTempView("guarded")
    other = shim.newSession()
    try:
        with pytest.raises(AnalysisException, match="being read"):
            other.table("global_temp.guarded").write.mode("overwrite").parquet(path)
        assert sorted(file.name for file in Path(path).iterdir()) == before
    finally:
        shim.catalog.dropGlobalTempView("guarded")
