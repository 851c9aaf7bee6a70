"""Tables and views ``USING bloomparquet`` behave like Parquet's, and are planned."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from pyspark_bloomparquet import last_plan
from tests.support.spark import conf, rows

FORMATS = ("parquet", "bloomparquet")
DYNAMIC = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}


@pytest.fixture
def session(jar_spark: SparkSession, compiled: None) -> Iterator[SparkSession]:
    """A session whose tables are dropped after the test."""
    yield jar_spark
    for table in jar_spark.catalog.listTables():
        kind = "VIEW" if table.isTemporary or table.tableType == "VIEW" else "TABLE"
        jar_spark.sql(f"DROP {kind} IF EXISTS {table.name}")


@pytest.fixture
def events(jar_spark: SparkSession, tmp_path: Path) -> str:
    """Four row groups of ten rows, sorted by id."""
    path = str(tmp_path / "events")
    jar_spark.range(0, 40, 1, 4).selectExpr("id", "concat('s', id) AS s", "id % 3 AS p").write.parquet(path)
    return path


def both(session: SparkSession, *statements: str) -> dict[str, Any]:
    """The rows, schema and directories of table ``t_<format>`` after the statements, for each format."""
    outcome = {}
    for name in FORMATS:
        for statement in statements:
            session.sql(statement.format(t=f"t_{name}", fmt=name))
        table = session.table(f"t_{name}")
        directories = {Path(file).parent.name for file in table.inputFiles() if "=" in Path(file).parent.name}
        outcome[name] = (rows(table), table.schema.simpleString(), sorted(directories))
    return outcome


def assert_same(session: SparkSession, *statements: str) -> list[tuple[Any, ...]]:
    outcome = both(session, *statements)
    assert outcome["bloomparquet"] == outcome["parquet"]
    return outcome["bloomparquet"][0]


def assert_planned(session: SparkSession, query: str, total: int = 4, kept: int = 1) -> list[tuple[Any, ...]]:
    frame = session.sql(query)
    values = rows(frame)
    (plan,) = last_plan(frame)
    assert (plan.planned, plan.total, plan.kept) == (True, total, kept)
    return values


@pytest.mark.parametrize(
    "made",
    [
        "CREATE TABLE e USING bloomparquet LOCATION '{path}'",
        "CREATE TABLE e USING bloomparquet OPTIONS (path '{path}', mergeSchema 'true') TBLPROPERTIES ('a' = 'b')",
        "CREATE TABLE e USING io.bloomparquet.spark.BloomParquetSource LOCATION '{path}'",
        "CREATE TEMPORARY VIEW e (id BIGINT, s STRING) USING bloomparquet OPTIONS (path '{path}')",
        "CREATE TABLE e USING bloomparquet AS SELECT /*+ REPARTITION_BY_RANGE(4, id) */ * FROM parquet.`{path}`",
    ],
)
def test_a_table_and_a_view_are_planned(session: SparkSession, events: str, made: str) -> None:
    session.sql(made.format(path=events))
    assert assert_planned(session, "SELECT s FROM e WHERE id = 23") == [("s23",)]
    session.sql("CREATE TEMPORARY VIEW above AS SELECT id, s FROM e WHERE id > 5")
    assert assert_planned(session, "SELECT s FROM above WHERE id = 23") == [("s23",)]


def test_path_queries_are_planned(session: SparkSession, events: str) -> None:
    assert assert_planned(session, f"SELECT s FROM bloomparquet.`{events}` WHERE id = 23") == [("s23",)]


def test_a_missing_directory_is_an_empty_table(session: SparkSession, tmp_path: Path) -> None:
    assert assert_same(session, f"CREATE TABLE {{t}} (id BIGINT) USING {{fmt}} LOCATION '{tmp_path}/{{fmt}}'") == []
    assert assert_same(session, "INSERT INTO {t} VALUES (1)") == [(1,)]
    for name in FORMATS:
        shutil.rmtree(tmp_path / name)
    assert assert_same(session, "REFRESH TABLE {t}") == []
    for name in FORMATS:
        for reader in (session.read.format(name), session.read.format(name).schema("id BIGINT")):
            with pytest.raises(AnalysisException, match="PATH_NOT_FOUND"):
                reader.load(str(tmp_path / name))
        with pytest.raises(AnalysisException, match="PATH_NOT_FOUND"):
            session.sql(f"CREATE TEMPORARY VIEW v (id BIGINT) USING {name} OPTIONS (path '{tmp_path}/{name}')")


def test_rows_are_inserted_into_views(session: SparkSession, events: str) -> None:
    session.sql(f"CREATE TEMPORARY VIEW v USING bloomparquet OPTIONS (path '{events}')")
    session.sql("INSERT INTO v VALUES (1000, 'i', 1)")
    assert rows(session.table("v").where("id >= 39")) == [(1000, "i", 1), (39, "s39", 0)]
    session.sql("INSERT OVERWRITE v VALUES (1001, 'o', 1)")
    assert rows(session.table("v")) == [(1001, "o", 1)]


def test_the_options_of_a_table_are_those_of_its_scans(session: SparkSession, events: str) -> None:
    for options, planned in (("planning 'off'", False), ("pushFilters 'off'", False), ("cache 'false'", True)):
        session.sql(f"CREATE TABLE optioned USING bloomparquet OPTIONS ({options}) LOCATION '{events}'")
        frame = session.sql("SELECT s FROM optioned WHERE id = 23")
        assert rows(frame) == [("s23",)]
        (plan,) = last_plan(frame)
        assert (plan.planned and plan.kept == 1) == planned, options
        session.sql("DROP TABLE optioned")


def test_our_tables_are_planned_where_plain_scans_are_not(session: SparkSession, events: str) -> None:
    session.sql(f"CREATE TABLE e USING bloomparquet LOCATION '{events}'")
    with conf(session, {"spark.bloomparquet.transparent": "false"}):
        assert assert_planned(session, "SELECT s FROM e WHERE id = 23") == [("s23",)]
        plain = session.read.parquet(events).where("id = 23")
        assert len(plain.collect()) == 1
        assert not last_plan(plain)[0].planned
        both_sides = session.sql("SELECT e.s FROM e JOIN e f USING (id) WHERE e.id = 23")
        assert rows(both_sides) == [("s23",)]
        assert [plan.kept for plan in last_plan(both_sides)] == [1, 1]
