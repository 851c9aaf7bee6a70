"""A stripe with a matching row is read, whatever files, schema and session make of its values: the rows equal those of
``spark.read.orc`` without pushdown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pytest
from pyspark.sql import SparkSession

from pyspark_bloomparquet import last_plan
from tests.support import spark_rows
from tests.support.orc_spark import UNPUSHED, OrcReaders, stripes_of, write_stripes
from tests.support.spark import clock, conf

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def readers(jar_spark: SparkSession) -> OrcReaders:
    return OrcReaders(jar_spark)


def assert_same_rows(
    readers: OrcReaders, path: Any, wheres: list[str], schema: str | None = None, **options: Any
) -> int:
    """Assert that the jar returns the rows of each of `wheres`. Returns how many stripes it skipped in all."""
    with conf(readers.spark, UNPUSHED):
        return spark_rows.assert_same_rows(readers, path, wheres, schema, **options)


@pytest.fixture(scope="module")
def lake(readers: OrcReaders, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three files of 20 stripes of two rows. `n` is in the order of the rows, `k` in no order."""
    frame = readers.spark.range(0, 120, 1, 3).selectExpr(
        "id AS n",
        "id * 7919 % 1009 AS k",
        "if(id % 6 < 2, null, concat('s', id * 31 % 127)) AS s",
        "if(id % 10 < 2, null, named_struct('x', id * 7919 % 1009, 'c.d', CAST(id AS STRING))) AS st",
        "id * 2 AS `a.b`",
        "named_struct('b', id * 3) AS a",
    )
    return write_stripes(frame, tmp_path_factory.mktemp("lake") / "t", "k,s,st.x")


CONVERSIONS = {
    "INT": (["1", "300", "-1", "2147483647"], ["TINYINT", "DECIMAL(12,2)"]),
    "BIGINT": (["1", "4294967297", "9007199254740993"], ["INT", "DOUBLE"]),
    "STRING": (["'1'", "'01'", "' 1'", "'x'", "'1.9'"], ["INT", "DECIMAL(4,1)"]),
    "DOUBLE": (["1.5", "1", "-0.0", "'NaN'", "2.9"], ["INT", "STRING"]),
    "FLOAT": (["0.1", "1", "-0.0", "'NaN'"], ["DOUBLE"]),
    "DECIMAL(6,2)": (["1.25", "1.20", "9.99", "-1"], ["DECIMAL(6,1)", "DECIMAL(9,4)"]),
    "DATE": (["DATE'2020-01-01'", "DATE'1500-03-01'"], ["TIMESTAMP"]),
}
LITERALS = {
    "STRING": ["'1'", "'300'", "'1.5'"],
    "TIMESTAMP": ["TIMESTAMP'2020-01-01'"],
    "DOUBLE": ["1D", "0.1D", "9007199254740992D"],
}


@pytest.mark.parametrize("kind", CONVERSIONS)
def test_values_that_the_reader_converts_are_found(readers: OrcReaders, tmp_path: Path, kind: str) -> None:
    values, reader_types = CONVERSIONS[kind]
    path = stripes_of(readers.spark, tmp_path / "t", kind, [*values, "null"])
    with conf(readers.spark, {"spark.sql.ansi.enabled": "false"}):
        for name in reader_types:
            literals = LITERALS.get(name, ["1", "44", "1.3"])
            wheres = [f"c = {literal}" for literal in literals]
            assert_same_rows(readers, path, [*wheres, f"NOT c <=> {literals[0]}", "c IS NULL"], f"c {name}")
        assert assert_same_rows(readers, path, ["c IS NULL", "c IS NULL AND c IS NOT NULL"]) > 0


def test_a_missing_column_is_null_or_its_default(readers: OrcReaders, tmp_path: Path) -> None:
    spark = readers.spark
    path = write_stripes(spark.range(0, 6, 1, 1), tmp_path / "t", "id")
    write_stripes(spark.range(6, 9, 1, 1).selectExpr("id", "'y' AS s"), tmp_path / "t", "id,s")
    wheres = ["s IS NULL", "s = 'x'", "s = 'y'", "s <> 'x'", "s IS NOT NULL AND id = 2", "NOT s <=> 'x'"]
    assert assert_same_rows(readers, path, wheres, "id BIGINT, s STRING") > 10
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    defaults = {"CURRENT_DEFAULT": "'x'", "EXISTS_DEFAULT": "'x'"}
    schema: Any = StructType([StructField("id", LongType()), StructField("s", StringType(), metadata=defaults)])
    assert_same_rows(readers, path, wheres, schema)
    assert len(readers.jar(path, schema).where("s = 'x'").collect()) == 6
    assert assert_same_rows(readers, path, ["s IS NULL", "s = 'y'"], mergeSchema="true") == 5


def test_columns_found_by_position_are_not_pruned(readers: OrcReaders, tmp_path: Path) -> None:
    """Old files of Hive without column names; and all files, if ORC's option says so."""
    spark = readers.spark
    frame = spark.range(0, 8, 1, 1).selectExpr("id AS _col0", "id * 10 AS _col1")
    path = write_stripes(frame, tmp_path / "t", "_col0,_col1")
    wheres = ["a = 2", "b = 20", "b IS NULL", "a > 3 AND b < 50"]
    assert_same_rows(readers, path, wheres, "a BIGINT, b BIGINT")
    assert_same_rows(readers, path, ["_col0 = 20", "_col1 = 2", "_col1 IS NULL"], "_col1 BIGINT, _col0 BIGINT")
    named = write_stripes(frame.toDF("a", "b"), tmp_path / "n", "a,b")
    swapped = {"orc.force.positional.evolution": "true"}
    assert_same_rows(readers, named, ["b = 2", "a = 20", "a = 2"], "b BIGINT, a BIGINT", **swapped)
    (plan,) = last_plan(readers.jar(named, "b BIGINT, a BIGINT", **swapped).where("b = 2"))
    assert not plan.planned
    assert "orc.force.positional.evolution is true" in str(plan)


@pytest.mark.parametrize(
    "option", ["orc.include.columns=0", "hive.io.file.readcolumn.ids=0", "orc.max.file.length=1000000000"]
)
def test_settings_that_change_what_is_read_disable_planning(readers: OrcReaders, lake: str, option: str) -> None:
    key, value = option.split("=")
    (plan,) = last_plan(readers.jar(lake, **{key: value}).where("k = 5"))
    assert not plan.planned
    assert "by which ORC's reader may return other columns or values" in str(plan)


def test_names_that_differ_by_case_are_not_mixed_up(readers: OrcReaders, tmp_path: Path) -> None:
    table = pa.table({"id": [1, 2, 3], "ID": [30, 20, 10], "st": [{"x": i, "X": -i} for i in range(3)]})
    orc.write_table(table, tmp_path / "t.orc", bloom_filter_columns=[1, 2])
    with conf(readers.spark, {"spark.sql.caseSensitive": "true"}):
        assert (
            assert_same_rows(
                readers, tmp_path / "t.orc", ["id = 7", "ID = 30", "id = 30", "ID = 10 AND id = 3", "st.X = 1"]
            )
            > 1
        )
        assert_same_rows(readers, tmp_path / "t.orc", ["Id = 1", "Id IS NULL"], "Id BIGINT")
    assert_same_rows(readers, tmp_path / "t.orc", ["id = 1", "id = 30"], "id BIGINT")
    assert_same_rows(readers, tmp_path / "t.orc", ["st.x = 1", "st.x = -1", "st.x IS NULL"], "st STRUCT<x: BIGINT>")
    one = write_stripes(readers.spark.range(0, 6, 1, 1).selectExpr("id AS Key"), tmp_path / "one", "Key")
    assert assert_same_rows(readers, one, ["key = 1", "KEY = 2"], "kEY BIGINT") == 4


TIMESTAMPS = ["1500-01-01", "1582-10-10", "1899-12-31 23:00", "1970-01-01", "1969-12-31 23:59:59.5", "2026-03-29 02:30"]
TIMESTAMPS += ["2026-03-08 02:30", "2026-11-01 01:30", "2026-10-25 02:30", "2026-07-01 22:30:00.000001"]


@pytest.mark.parametrize(
    ("writer_zone", "reader_zone", "session"),
    [("UTC", "PST", "Europe/Zurich"), ("Europe/Zurich", "Asia/Kathmandu", "UTC")],
)
def test_timestamps_are_what_the_readers_clock_shows(
    readers: OrcReaders, tmp_path: Path, writer_zone: str, reader_zone: str, session: str
) -> None:
    spark = readers.spark
    with clock(spark, writer_zone):
        values = [f"TIMESTAMP_NTZ'{text}'" for text in TIMESTAMPS]
        path = stripes_of(spark, tmp_path / "t", "TIMESTAMP", values)
    with clock(spark, reader_zone), conf(spark, {"spark.sql.session.timeZone": session}):
        stored = sorted({row[0] for row in readers.oracle(path).selectExpr("unix_micros(c)").collect()})
        wheres = [f"c = timestamp_micros({micros})" for micros in stored]
        wheres += [f"c <= timestamp_micros({micros})" for micros in stored[::4]]
        assert assert_same_rows(readers, path, wheres) > 0
