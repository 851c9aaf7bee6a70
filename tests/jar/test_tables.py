"""Tables and views ``USING bloomparquet`` behave like Parquet's, and are planned."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import SparkSession

from pyspark_bloomparquet import last_plan
from tests.support.spark import conf, rows

FORMATS = ("parquet", "bloomparquet")
DYNAMIC = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}


@pytest.fixture
def session(jar_spark: SparkSession) -> Iterator[SparkSession]:
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
    (plan,) = last_plan(frame)
    assert (plan.planned, plan.total, plan.kept) == (True, total, kept)
    return rows(frame)


@pytest.mark.parametrize(
    "made",
    [
        "CREATE TABLE e USING bloomparquet LOCATION '{path}'",
        "CREATE TABLE e (id BIGINT, s STRING) USING bloomparquet LOCATION '{path}'",
        "CREATE TABLE e USING bloomparquet OPTIONS (path '{path}', mergeSchema 'true') TBLPROPERTIES ('a' = 'b')",
        "CREATE TABLE e USING io.bloomparquet.spark.BloomParquetSource LOCATION '{path}'",
        "CREATE TEMPORARY VIEW e USING bloomparquet OPTIONS (path '{path}')",
        "CREATE TEMPORARY VIEW e (id BIGINT, s STRING) USING bloomparquet OPTIONS (path '{path}')",
        "CREATE TABLE e USING bloomparquet AS SELECT /*+ REPARTITION_BY_RANGE(4, id) */ * FROM parquet.`{path}`",
    ],
)
def test_a_table_and_a_view_are_planned(session: SparkSession, events: str, made: str) -> None:
    session.sql(made.format(path=events))
    assert assert_planned(session, "SELECT s FROM e WHERE id = 23") == [("s23",)]
    session.sql("CREATE TEMPORARY VIEW above AS SELECT id, s FROM e WHERE id > 5")
    assert assert_planned(session, "SELECT s FROM above WHERE id = 23") == [("s23",)]


def test_a_path_query_is_plain_parquet(session: SparkSession, events: str) -> None:
    frame = session.sql(f"SELECT s FROM bloomparquet.`{events}` WHERE id = 23")
    assert rows(frame) == [("s23",)]
    assert not last_plan(frame)[0].planned


def test_tables_of_the_catalog_api_are_planned(session: SparkSession, events: str) -> None:
    session.catalog.createTable("e", path=events, source="bloomparquet")
    assert [column.name for column in session.catalog.listColumns("e")] == ["id", "s", "p"]
    assert assert_planned(session, "SELECT s FROM e WHERE id = 23") == [("s23",)]


def test_inserts_by_position_and_by_name(session: SparkSession) -> None:
    table_rows = assert_same(
        session,
        "CREATE TABLE {t} (id BIGINT, s STRING) USING {fmt}",
        "INSERT INTO {t} VALUES (1, 'a'), (2, 'b')",
        "INSERT INTO {t} (s, id) VALUES ('c', 3)",
        "INSERT INTO {t} BY NAME SELECT 'd' AS s, 4L AS id",
        "INSERT INTO {t} (id) VALUES (5)",
    )
    assert len(table_rows) == 5
    assert assert_same(session, "INSERT OVERWRITE {t} VALUES (9, 'z')") == [(9, "z")]
    assert assert_same(session, "INSERT OVERWRITE {t} SELECT 1L, 'x' WHERE false") == []


@pytest.mark.parametrize("columns", ["id BIGINT, s STRING, p INT", "id BIGINT, p INT, s STRING"])
def test_an_empty_partitioned_table_gets_partitions(session: SparkSession, columns: str) -> None:
    made = f"CREATE TABLE {{t}} ({columns}) USING {{fmt}} PARTITIONED BY (p)"
    assert assert_same(session, made) == []
    assert_same(session, "INSERT INTO {t} VALUES (1, 'a', 1), (2, 'b', 2)")
    assert_same(session, "INSERT INTO {t} PARTITION (p = 3) VALUES (3, 'c')")
    assert_same(session, "INSERT INTO {t} PARTITION (p) VALUES (4, 'd', 4)")
    assert len(assert_same(session, "INSERT OVERWRITE {t} PARTITION (p = 3) VALUES (33, 'cc')")) == 4
    with conf(session, DYNAMIC):
        assert len(assert_same(session, "INSERT OVERWRITE {t} VALUES (44, 'dd', 4)")) == 4
        assert len(assert_same(session, "INSERT OVERWRITE {t} PARTITION (p) VALUES (45, 'dd', 4)")) == 4
    assert assert_same(session, "INSERT OVERWRITE {t} PARTITION (p = 3) SELECT 1L, 'x' WHERE false")
    assert assert_same(session, "INSERT OVERWRITE {t} VALUES (99, 'z', 9)") == [(99, "z", 9)]
    assert assert_same(session, "INSERT OVERWRITE {t} SELECT 1L, 'x', 1 WHERE false") == []
    assert_same(session, "INSERT INTO {t} VALUES (1, 'a', 1)")


def test_partition_columns_have_their_declared_type(session: SparkSession) -> None:
    """Types inferred from the directories ``p=01`` and ``c=x`` would be INT and STRING."""
    assert_same(
        session,
        "CREATE TABLE {t} (id BIGINT, p STRING, c CHAR(3) COMMENT 'three') USING {fmt} PARTITIONED BY (p, c)",
        "INSERT INTO {t} VALUES (1, '01', 'x'), (2, '2', 'yy'), (3, NULL, 'zzz')",
    )
    for condition, count in (
        ("p = '01'", 1),
        ("c = 'x'", 1),
        ("c = 'x  '", 1),
        ("c IN ('yy', 'zzz')", 2),
        ("p IS NULL", 1),
    ):
        both_rows = [rows(session.table(f"t_{name}").where(condition)) for name in FORMATS]
        assert both_rows[0] == both_rows[1]
        assert len(both_rows[1]) == count
    assert "three" in str(session.sql("DESCRIBE t_bloomparquet").collect())


def test_char_and_varchar_columns_are_padded_and_checked(session: SparkSession) -> None:
    assert_same(
        session,
        "CREATE TABLE {t} (c CHAR(5), v VARCHAR(3)) USING {fmt}",
        "INSERT INTO {t} VALUES ('a', 'bc'), ('b', 'x')",
    )
    for name in FORMATS:
        assert rows(session.sql(f"SELECT v FROM t_{name} WHERE c = 'a'")) == [("bc",)]
        with pytest.raises(Exception, match="EXCEED_LIMIT_LENGTH"):
            session.sql(f"INSERT INTO t_{name} VALUES ('a', 'abcd')")


def test_partitions_of_a_directory_are_found(session: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "x")
    session.range(0, 12, 1, 1).selectExpr("id", "id % 3 AS p").write.partitionBy("p").parquet(path)
    session.sql(f"CREATE TABLE inferred USING bloomparquet LOCATION '{path}'")
    session.sql(f"CREATE TABLE declared (id BIGINT, p STRING) USING bloomparquet PARTITIONED BY (p) LOCATION '{path}'")
    session.sql(f"CREATE TABLE undeclared (id BIGINT, p STRING) USING bloomparquet LOCATION '{path}'")
    assert session.table("inferred").schema.simpleString() == "struct<id:bigint,p:int>"
    assert assert_planned(session, "SELECT id FROM inferred WHERE p = 1 AND id = 4", total=1) == [(4,)]
    for name in ("declared", "undeclared"):
        assert assert_planned(session, f"SELECT p FROM {name} WHERE p = '1' AND id = 4", total=1) == [("1",)]
    session.sql("INSERT INTO inferred VALUES (77, 5)")
    assert (Path(path) / "p=5").is_dir()
    assert rows(session.table("declared")) == rows(session.table("undeclared"))
    assert session.table("declared").count() == 13

    session.sql(f"CREATE TABLE wrong (p INT, id BIGINT) USING bloomparquet PARTITIONED BY (id) LOCATION '{path}'")
    with pytest.raises(IllegalArgumentException, match="the table is partitioned by id, but its directories by p"):
        session.table("wrong").collect()


def test_ctas_puts_partitions_last_and_needs_an_empty_path(session: SparkSession, tmp_path: Path) -> None:
    table_rows = assert_same(
        session,
        f"CREATE TABLE {{t}} USING {{fmt}} PARTITIONED BY (p) LOCATION '{tmp_path}/{{fmt}}' "
        "AS SELECT id % 2 AS p, id FROM range(4)",
    )
    assert table_rows == [(0, 0), (1, 1), (2, 0), (3, 1)]
    for name in FORMATS:
        with pytest.raises(AnalysisException, match="non-empty directory"):
            session.sql(f"CREATE TABLE more USING {name} LOCATION '{tmp_path}/{name}' AS SELECT 1 AS id")
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
            session.sql(f"CREATE TABLE t_{name} USING {name} AS SELECT 1 AS id")
    again = "CREATE TABLE IF NOT EXISTS {t} USING {fmt} " + f"LOCATION '{tmp_path}/{{fmt}}' AS SELECT 1 AS id"
    assert assert_same(session, again) == table_rows


def test_a_replaced_table_has_only_the_new_rows(session: SparkSession, tmp_path: Path) -> None:
    """Dropping an external table leaves its files in the directory of the new table."""
    session.sql(f"CREATE TABLE r USING bloomparquet LOCATION '{tmp_path}/r' AS SELECT id, id % 2 AS p FROM range(4)")
    for mode in ({}, DYNAMIC):
        with conf(session, mode):
            session.sql(
                f"CREATE OR REPLACE TABLE r USING bloomparquet PARTITIONED BY (q) LOCATION '{tmp_path}/r' "
                "AS SELECT id % 3 AS q, id + 10 AS id FROM range(2)"
            )
        assert rows(session.table("r")) == [(10, 0), (11, 1)]
    session.sql("REPLACE TABLE r USING bloomparquet AS SELECT 1 AS x")
    assert rows(session.table("r")) == [(1,)]


@pytest.mark.parametrize("there", [False, True], ids=["a new table", "a table that is there"])
@pytest.mark.parametrize("mode", ["append", "overwrite", "error", "ignore"])
def test_save_as_table_equals_parquets(session: SparkSession, mode: str, there: bool) -> None:
    outcomes = []
    for name in FORMATS:
        if there:
            session.range(3).selectExpr("id + 100 AS id", "id % 2 AS p").write.format(name).partitionBy(
                "p"
            ).saveAsTable(f"t_{name}")
        writer = session.range(4).selectExpr("id % 2 AS p", "id").write.format(name).partitionBy("p").mode(mode)
        try:
            writer.saveAsTable(f"t_{name}")
            outcome: Any = "written"
        except AnalysisException as error:
            outcome = error.getCondition()
        table = session.table(f"t_{name}")
        directories = {Path(file).parent.name for file in table.inputFiles()}
        outcomes.append((outcome, table.schema.simpleString(), rows(table), sorted(directories)))
    assert outcomes[0] == outcomes[1]


def test_dataframe_writers_insert_rows(session: SparkSession) -> None:
    made = "CREATE TABLE {t} (id BIGINT, p BIGINT) USING {fmt} PARTITIONED BY (p)"
    both(session, made)
    frame = session.range(4).selectExpr("id AS x", "id % 2 AS y")
    for name in FORMATS:
        frame.write.insertInto(f"t_{name}")
        frame.write.insertInto(f"t_{name}", overwrite=True)
        with conf(session, DYNAMIC):
            frame.where("y = 1").selectExpr("x + 10", "y").write.insertInto(f"t_{name}", overwrite=True)
    assert rows(session.table("t_bloomparquet")) == [(0, 0), (11, 1), (13, 1), (2, 0)]
    assert rows(session.table("t_parquet")) == rows(session.table("t_bloomparquet"))

    # Spark's Parquet tables refuse these
    named = frame.selectExpr("y AS p", "x AS id")
    named.writeTo("t_bloomparquet").append()
    assert session.table("t_bloomparquet").count() == 8
    named.writeTo("made").using("bloomparquet").partitionedBy(named.p).create()
    assert rows(session.table("made")) == rows(frame)
    with pytest.raises(AnalysisException, match="does not support dynamic overwrite"):
        named.writeTo("made").overwritePartitions()
    with conf(session, DYNAMIC), pytest.raises(AnalysisException, match="does not support dynamic overwrite"):
        frame.write.format("bloomparquet").insertInto("made", overwrite=True)  # without format() it works, as above
    assert rows(session.table("made")) == rows(frame)


def test_columns_are_added_before_partition_columns(session: SparkSession) -> None:
    assert_same(
        session,
        "CREATE TABLE {t} (id BIGINT, p INT) USING {fmt} PARTITIONED BY (p)",
        "INSERT INTO {t} VALUES (1, 1)",
        "ALTER TABLE {t} ADD COLUMNS (x INT, y STRING COMMENT 'why')",
        "INSERT INTO {t} VALUES (2, 22, 'b', 2)",
    )
    assert session.table("t_bloomparquet").columns == ["id", "x", "y", "p"]
    for condition in ("x IS NULL", "x = 22", "y <=> 'b'"):
        ours, theirs = (session.table(f"t_{name}").where(condition) for name in FORMATS)
        assert rows(ours) == rows(theirs)
        assert ours.count() == 1
    for name in FORMATS:  # its values would be lost: files match columns by name
        with pytest.raises(AnalysisException, match="RENAME COLUMN"):
            session.sql(f"ALTER TABLE t_{name} RENAME COLUMN x TO z")


def test_column_defaults_fill_older_files(session: SparkSession) -> None:
    with conf(session, {"spark.sql.defaultColumn.allowedProviders": "parquet,bloomparquet"}):
        assert_same(
            session,
            "CREATE TABLE {t} (id BIGINT, e INT DEFAULT 5) USING {fmt}",
            "INSERT INTO {t} (id) VALUES (1)",
            "ALTER TABLE {t} ADD COLUMNS (d INT DEFAULT 42)",
            "INSERT INTO {t} VALUES (2, DEFAULT, 43)",
        )
    for condition in ("d = 42", "d = 43", "d IS NULL", "d > 42 OR e = 5"):
        ours, theirs = (session.table(f"t_{name}").where(condition) for name in FORMATS)
        assert rows(ours) == rows(theirs)
    assert rows(session.sql("SELECT id FROM t_bloomparquet WHERE d = 42")) == [(1,)]


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


def test_a_location_is_no_glob(session: SparkSession, tmp_path: Path) -> None:
    for odd in ("a[1]", "a{1,2}", "a b%20c"):
        (tmp_path / "a1").mkdir(exist_ok=True)
        session.sql(f"CREATE TABLE odd (id BIGINT) USING bloomparquet LOCATION '{tmp_path}/{odd}'")
        session.sql("INSERT INTO odd VALUES (1)")
        assert rows(session.table("odd")) == [(1,)]
        assert list((tmp_path / odd).glob("*.parquet"))
        session.sql("DROP TABLE odd")


def test_new_files_are_read_and_caches_refreshed(session: SparkSession, events: str) -> None:
    session.sql(f"CREATE TABLE e USING bloomparquet LOCATION '{events}'")
    session.sql("CACHE TABLE e")
    assert session.table("e").count() == 40
    assert "InMemoryRelation" in session.table("e")._jdf.queryExecution().executedPlan().toString()
    more = session.range(100, 110).selectExpr("id", "'m' AS s", "id % 3 AS p")
    more.write.mode("append").parquet(events)
    session.catalog.refreshByPath(events)
    assert session.table("e").count() == 50
    session.sql("INSERT INTO e VALUES (1000, 'i', 1)")
    assert session.table("e").count() == 51
    session.sql("UNCACHE TABLE e")
    more.write.format("bloomparquet").mode("append").save(events)
    assert session.table("e").count() == 61
    session.sql("REFRESH TABLE e")
    assert session.read.format("bloomparquet").load(events).count() == 61


def test_statements_that_files_cannot_do_are_refused(session: SparkSession) -> None:
    session.range(4).selectExpr("id", "id % 2 AS p").write.format("bloomparquet").partitionBy("p").saveAsTable("t")
    for statement, message in {
        "SHOW PARTITIONS t": "PARTITION_MANAGEMENT_IS_UNSUPPORTED",
        "ALTER TABLE t ADD PARTITION (p = 9)": "PARTITION_MANAGEMENT_IS_UNSUPPORTED",
        "MSCK REPAIR TABLE t": "NOT_SUPPORTED_COMMAND_FOR_V2_TABLE",
        "ANALYZE TABLE t COMPUTE STATISTICS": "NOT_SUPPORTED_COMMAND_FOR_V2_TABLE",
        "TRUNCATE TABLE t": "does not support truncates",
        "DELETE FROM t WHERE id = 1": "does not support deletes",
        "CREATE TABLE b (id BIGINT) USING bloomparquet CLUSTERED BY (id) INTO 2 BUCKETS": "cannot be bucketed",
    }.items():
        with pytest.raises((AnalysisException, IllegalArgumentException), match=message):
            session.sql(statement)
    assert session.table("t").count() == 4
    described = {row.col_name: row.data_type for row in session.sql("DESCRIBE EXTENDED t").collect()}
    assert described["Provider"] == "bloomparquet"
    assert "cacheDirectory" not in described.get("Table Properties", "")  # the session's, not the table's
    session.sql("ALTER TABLE t RENAME TO t2")
    assert rows(session.table("t2")) == [(0, 0), (1, 1), (2, 0), (3, 1)]
