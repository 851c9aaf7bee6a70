"""``ALTER TABLE`` on our tables does and refuses the same as on Spark's built-in file tables."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

from tests.support.spark import conf, rows

pytestmark = pytest.mark.slow

PAIRS = [("parquet", "bloomparquet"), ("orc", "bloomorc")]
ALLOWED = [
    "ALTER TABLE {t} CHANGE COLUMN a a INT COMMENT 'why'",
    "ALTER TABLE {t} ALTER COLUMN a TYPE INT",
    "ALTER TABLE {t} ALTER COLUMN a COMMENT 'why'",
    "ALTER TABLE {t} ALTER COLUMN st COMMENT 'why'",
    "ALTER TABLE {t} ALTER COLUMN a SET DEFAULT 7",
    "ALTER TABLE {t} ALTER COLUMN a DROP DEFAULT",
    "ALTER TABLE {t} ALTER COLUMN s TYPE STRING COLLATE UTF8_LCASE",
    "ALTER TABLE {t} ADD COLUMNS (n INT)",
    "ALTER TABLE {t} ADD COLUMNS (n INT COMMENT 'why', `m.x` STRING)",
    "ALTER TABLE {t} ADD COLUMNS (n INT DEFAULT 5)",
    "ALTER TABLE {t} ADD COLUMNS (n INTERVAL DAY)",
    "ALTER TABLE {t} SET TBLPROPERTIES ('k' = 'v', 'comment' = 'c')",
    "ALTER TABLE {t} UNSET TBLPROPERTIES ('k')",
    "COMMENT ON TABLE {t} IS 'why'",
    "COMMENT ON COLUMN {t}.a IS 'why'",
]
REFUSED = [
    "ALTER TABLE {t} ALTER COLUMN a TYPE BIGINT",
    "ALTER TABLE {t} ALTER COLUMN a TYPE STRING",
    "ALTER TABLE {t} CHANGE COLUMN a a BIGINT",
    "ALTER TABLE {t} ALTER COLUMN v TYPE VARCHAR(20)",
    "ALTER TABLE {t} ALTER COLUMN v TYPE STRING",
    "ALTER TABLE {t} ALTER COLUMN s TYPE VARCHAR(20)",
    "ALTER TABLE {t} ALTER COLUMN l TYPE ARRAY<STRING COLLATE UTF8_LCASE>",
    "ALTER TABLE {t} ALTER COLUMN st.x TYPE BIGINT",
    "ALTER TABLE {t} ALTER COLUMN l.element TYPE BIGINT",
    "ALTER TABLE {t} ALTER COLUMN st.x COMMENT 'why'",
    "ALTER TABLE {t} ALTER COLUMN a COMMENT 'x', s COMMENT 'y'",
    "ALTER TABLE {t} ALTER COLUMN a TYPE BIGINT, s COMMENT 'y'",
    "ALTER TABLE {t} ALTER COLUMN a SET NOT NULL",
    "ALTER TABLE {t} ALTER COLUMN a DROP NOT NULL",
    "ALTER TABLE {t} ALTER COLUMN a FIRST",
    "ALTER TABLE {t} ALTER COLUMN a AFTER s",
    "ALTER TABLE {t} ALTER COLUMN p TYPE BIGINT",
    "ALTER TABLE {t} ALTER COLUMN p COMMENT 'why'",
    "ALTER TABLE {t} ALTER COLUMN p SET DEFAULT 7",
    "ALTER TABLE {t} ALTER COLUMN absent COMMENT 'why'",
    "ALTER TABLE {t} DROP COLUMN a",
    "ALTER TABLE {t} DROP COLUMNS (a, s)",
    "ALTER TABLE {t} DROP COLUMN IF EXISTS absent",
    "ALTER TABLE {t} DROP COLUMN st.x",
    "ALTER TABLE {t} DROP COLUMN p",
    "ALTER TABLE {t} RENAME COLUMN a TO z",
    "ALTER TABLE {t} RENAME COLUMN st.x TO y",
    "ALTER TABLE {t} RENAME COLUMN p TO q",
    "ALTER TABLE {t} REPLACE COLUMNS (q INT)",
    "ALTER TABLE {t} ADD COLUMNS (n INT NOT NULL)",
    "ALTER TABLE {t} ADD COLUMNS (st.n INT)",
    "ALTER TABLE {t} ADD COLUMNS (a INT)",
    "ALTER TABLE {t} ADD COLUMNS (A INT)",
    "ALTER TABLE {t} ADD COLUMNS (p INT)",
    "ALTER TABLE {t} ADD CONSTRAINT c CHECK (a > 0)",
    "ALTER TABLE {t} SET TBLPROPERTIES ('location' = '/elsewhere')",
]
# For V2 tables, Spark's analyser has other messages for these. It checks them before the jar does.
OTHER_WORDS = ("SET NOT NULL", "l.element", "TYPE ARRAY", "(a INT)", "(A INT)", "(p INT)")
_numbers = itertools.count()


def outcome(spark: SparkSession, source: str, statement: str) -> tuple[Any, ...]:
    """Runs a statement on a new table and inserts a row: the error, the columns, all rows, and some rows."""
    table = f"altered_{next(_numbers)}"
    columns = "a INT, s STRING, v VARCHAR(10), st STRUCT<x: INT>, l ARRAY<STRING>, p INT"
    spark.sql(f"CREATE TABLE {table} ({columns}) USING {source} PARTITIONED BY (p)")
    try:
        values = "'a', 'v', named_struct('x', 1), array('b'), 1"
        spark.sql(f"INSERT INTO {table} (a, s, v, st, l, p) VALUES (1, {values})")
        try:
            spark.sql(statement.format(t=table))
            error = None
        except (AnalysisException, ParseException) as raised:
            error = (type(raised), raised.getCondition())
        spark.sql(f"INSERT INTO {table} (a, s, v, st, l, p) VALUES (2, {values})")
        frame = spark.table(table)
        conditions = ["a = 2 AND p = 1"] if error else ["a = 1", "a = 2 AND p = 1", "s = 'A'"]
        filtered = [rows(frame.where(condition)) for condition in conditions]
        return error, frame.schema.simpleString(), rows(frame), filtered
    finally:
        spark.sql(f"DROP TABLE {table}")


@pytest.mark.parametrize(("plain", "source"), PAIRS)
@pytest.mark.parametrize("statement", [*ALLOWED, *REFUSED])
def test_statements_have_the_outcome_of_spark_tables(
    jar_spark: SparkSession, plain: str, source: str, statement: str
) -> None:
    if plain == "orc" and "COLLATE" in statement:
        pytest.skip("Spark cannot read ORC files under a schema with collations")
    with conf(jar_spark, {"spark.sql.defaultColumn.allowedProviders": "parquet,orc,bloomparquet,bloomorc"}):
        expected = outcome(jar_spark, plain, statement)
        actual = outcome(jar_spark, source, statement)
    assert (expected[0] is None) == (statement in ALLOWED)
    if any(words in statement for words in OTHER_WORDS):
        assert actual[0][0] is expected[0][0]
    else:
        assert actual[0] == expected[0]
    assert actual[1:] == expected[1:]
    assert len(actual[2]) == 2


@pytest.mark.parametrize("source", ["bloomparquet", "bloomorc"])
def test_columns_are_added_at_the_given_position(jar_spark: SparkSession, source: str) -> None:
    """Spark's own tables ignore the position."""
    _, schema, after, _ = outcome(jar_spark, source, "ALTER TABLE {t} ADD COLUMNS (n INT FIRST, m INT AFTER a)")
    assert schema.startswith("struct<n:int,a:int,m:int,s:string")
    assert [row[:3] for row in after] == [(None, 1, None), (None, 2, None)]
    error, _, after, _ = outcome(jar_spark, source, "ALTER TABLE {t} ADD COLUMNS (n INT AFTER p)")
    assert error is not None
    assert len(after) == 2


@pytest.mark.parametrize("source", ["bloomparquet", "bloomorc"])
def test_unpartitioned_tables_refuse_the_same_changes(jar_spark: SparkSession, source: str) -> None:
    jar_spark.sql(f"CREATE TABLE unpartitioned (a INT, s STRING) USING {source}")
    try:
        jar_spark.sql("INSERT INTO unpartitioned VALUES (1, 'a')")
        for change in (
            "ALTER COLUMN a TYPE BIGINT",
            "DROP COLUMN a",
            "REPLACE COLUMNS (q INT)",
            "ALTER COLUMN a FIRST",
        ):
            with pytest.raises(AnalysisException, match=r"not supported|NOT_SUPPORTED"):
                jar_spark.sql(f"ALTER TABLE unpartitioned {change}")
        assert rows(jar_spark.table("unpartitioned")) == [(1, "a")]
    finally:
        jar_spark.sql("DROP TABLE unpartitioned")
