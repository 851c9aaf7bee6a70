"""Columns by other names, ids, cases and defaults, and fields of null structs: the rows are those of Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.support import files
from tests.support.scenarios import Readers, texts
from tests.support.spark import conf
from tests.support.spark_rows import assert_same_rows

pytestmark = pytest.mark.slow


def test_columns_matched_by_field_id_lose_no_row(readers: Readers, tmp_path: Path) -> None:
    """The names `a` and `b` were swapped after the file was written."""
    fields = [
        pa.field("a", pa.int64(), metadata={"PARQUET:field_id": "1"}),
        pa.field("b", pa.int64(), metadata={"PARQUET:field_id": "2"}),
    ]
    table = pa.table([pa.array([1, 2, 3, 4]), pa.array([10, 20, 30, 40])], schema=pa.schema(fields))
    path = files.write(tmp_path / "t.parquet", table, ["a", "b"], rows_per_group=1)
    from pyspark.sql.types import LongType, StructField, StructType

    by_id = StructType(
        [
            StructField("b", LongType(), metadata={"parquet.field.id": 1}),
            StructField("renamed", LongType(), metadata={"parquet.field.id": 2}),
        ]
    )
    with conf(readers.spark, {"spark.sql.parquet.fieldId.read.enabled": "true"}):
        assert_same_rows(readers, path, ["b = 2", "renamed = 20", "b IS NULL", "renamed > 30 AND b < 9"], by_id)
        with conf(readers.spark, {"spark.sql.parquet.filterPushdown": "false"}):  # Spark pushes by name, and loses rows
            assert texts(readers.jar(path, by_id).where("b = 2").collect()) == ["(2, 20)"]
    assert assert_same_rows(readers, path, ["a = 2", "b = 20"]) == 6


def test_a_column_added_with_a_default_is_not_null(readers: Readers, tmp_path: Path) -> None:
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    path = files.write(tmp_path / "t.parquet", {"id": [1, 2, 3, 4]}, ["id"], rows_per_group=1)
    defaults = {"CURRENT_DEFAULT": "'x'", "EXISTS_DEFAULT": "'x'"}
    schema = StructType([StructField("id", LongType()), StructField("s", StringType(), metadata=defaults)])
    assert_same_rows(
        readers,
        path,
        ["s = 'x'", "s IS NULL", "s IS NOT NULL AND id = 2", "s = 'y'", "s <> 'y'", "NOT s <=> 'x'"],
        schema,
    )
    assert len(readers.jar(path, schema).where("s = 'x'").collect()) == 4


def test_names_that_differ_by_case_are_not_mixed_up(readers: Readers, tmp_path: Path) -> None:
    path = files.write(tmp_path / "t.parquet", {"id": [1, 2, 3], "ID": [30, 20, 10]}, ["id", "ID"], rows_per_group=1)
    wheres = ["id = 1", "ID = 30", "Id = 1", "id = 30"]
    with conf(readers.spark, {"spark.sql.caseSensitive": "true"}):
        assert assert_same_rows(readers, path, ["id = 1", "ID = 30", "id = 30", "ID = 10 AND id = 3"]) > 0
        assert_same_rows(readers, path, ["Id = 1", "Id IS NULL"], "Id BIGINT")
        assert_same_rows(readers, path, ["ID = 10"], "ID BIGINT")
    assert_same_rows(readers, path, wheres, "id BIGINT")
    one = files.write(tmp_path / "one.parquet", {"Key": [1, 2, 3]}, ["Key"], rows_per_group=1)
    assert assert_same_rows(readers, one, ["key = 1", "KEY = 2"], "kEY BIGINT") == 4


def test_a_dot_in_a_name_is_no_field(readers: Readers, tmp_path: Path) -> None:
    table = pa.table({"a.b": [1, 2, 3], "a": [{"b": 10, "c.d": 5}, {"b": 20, "c.d": 6}, None]})
    path = files.write(tmp_path / "t.parquet", table, ["a.b"], rows_per_group=1)
    wheres = [
        "`a.b` = 1",
        "a.b = 10",
        "a.`c.d` = 6",
        "a.b IS NULL",
        "a IS NULL",
        "a IS NOT NULL",
        "a.b = 1",
        "`a.b` = 10",
    ]
    assert assert_same_rows(readers, path, wheres) > 0


def test_null_structs_and_null_fields_differ(readers: Readers, tmp_path: Path) -> None:
    inner = pa.struct([("y", pa.int64())])
    rows = [None, {"x": None, "in": None}, {"x": 1, "in": {"y": None}}, {"x": 2, "in": {"y": 3}}]
    table = pa.table({"st": pa.array(rows, pa.struct([("x", pa.int64()), ("in", inner)])), "k": [0, 1, 2, 3]})
    path = files.write(tmp_path / "t.parquet", table, ["st.x", "st.in.y"], rows_per_group=1)
    wheres = [f"{column} IS {word}NULL" for column in ("st", "st.x", "st.in", "st.in.y") for word in ("", "NOT ")]
    wheres += ["st.x <=> NULL", "st.in.y <=> 3", "NOT st.x <=> 1", "st.x = 1 OR st IS NULL", "st.x IN (1, NULL)"]
    wheres += ["NOT (st.x IS NULL AND st.in IS NOT NULL)", "st.x NOT IN (1)", "st.x <> 1", "isnull(st.in.y) AND k > 0"]
    assert assert_same_rows(readers, path, wheres) > 0
