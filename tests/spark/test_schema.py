"""Schemas and rows equal those of ``spark.read.parquet``, for files of several writers."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from bloomparquet.errors import UnsupportedError
from pyspark_bloomparquet.options.load import Options
from pyspark_bloomparquet.read.listing import LoadListing
from tests.spark.compare import assert_same, load, parquet, rows
from tests.support import files
from tests.support.spark import conf

pytestmark = pytest.mark.slow

ALL_SPARK_TYPES = """
    SELECT CAST(id AS TINYINT) AS i8, CAST(id AS SMALLINT) AS i16, CAST(id AS INT) AS i32, id AS i64,
      CAST(id AS FLOAT) / 3 AS f, CASE id WHEN 0 THEN double('NaN') WHEN 1 THEN -0.0D ELSE id / 7 END AS d,
      id % 2 = 0 AS b, CAST(id AS STRING) AS s, CAST(CAST(id AS STRING) AS BINARY) AS bin,
      CAST(id AS DECIMAL(9, 2)) AS dec9, CAST(-id AS DECIMAL(18, 4)) AS dec18, CAST(id AS DECIMAL(38, 10)) AS dec38,
      DATE'2024-02-29' + CAST(id AS INT) AS date,
      TIMESTAMP'2024-07-01 12:00:00.123456' + make_interval(0, 0, 0, id) AS ts,
      TIMESTAMP_NTZ'1969-12-31 23:59:59.999999' AS ntz,
      TIMESTAMP'0002-01-01 00:00:00' AS first, TIMESTAMP'9999-12-30 23:59:59' AS last,
      CASE WHEN id % 3 = 0 THEN NULL ELSE id END AS maybe, CAST(NULL AS STRING) AS nothing,
      make_dt_interval(CAST(id AS INT), 1, 2, 3.5) AS day_time, array(id, NULL) AS a,
      CASE id WHEN 1 THEN NULL WHEN 2 THEN array() ELSE array(array('x'), NULL, array()) END AS aa,
      map('k', id, 'n', NULL) AS m, CASE WHEN id = 1 THEN NULL ELSE named_struct('x', id, 'y', struct('z')) END AS st,
      array(named_struct('p', id, 'q', map(1, array(id)))) AS mixed,
      id AS `a.b`, named_struct('a.b', id) AS dotted, 'é' AS `Ünï cödé`
    FROM range(5)
"""


@pytest.mark.parametrize(
    ("timestamps", "layout"), [("INT96", "legacy"), ("TIMESTAMP_MICROS", "standard"), ("TIMESTAMP_MILLIS", "standard")]
)
def test_files_of_spark(spark: SparkSession, tmp_path: Path, timestamps: str, layout: str) -> None:
    settings = {
        "spark.sql.parquet.outputTimestampType": timestamps,
        "spark.sql.parquet.writeLegacyFormat": str(layout == "legacy").lower(),
    }
    with conf(spark, settings):
        spark.sql(ALL_SPARK_TYPES).coalesce(1).write.parquet(str(tmp_path / "t"))
    assert_same(spark, tmp_path / "t")


@pytest.mark.parametrize("store_schema", [True, False])
def test_files_of_pyarrow(spark: SparkSession, tmp_path: Path, store_schema: bool) -> None:
    table = pa.table(
        {
            "u8": pa.array([0, 255, None], pa.uint8()),
            "u16": pa.array([0, 65535, None], pa.uint16()),
            "u32": pa.array([0, 2**32 - 1, None], pa.uint32()),
            "u64": pa.array([0, 2**64 - 1, None], pa.uint64()),
            "i8": pa.array([-128, 127, None], pa.int8()),
            "i16": pa.array([-32768, 32767, None], pa.int16()),
            "large": pa.array(["", "é", None], pa.large_string()),
            "view": pa.array(["a", "a longer one than twelve bytes", None], pa.string_view()),
            "dict": pa.array(["a", "b", None]).dictionary_encode(),
            "large_bin": pa.array([b"", b"\xff", None], pa.large_binary()),
            "fixed": pa.array([b"abcd", b"\x00\x01\x02\x03", None], pa.binary(4)),
            "date64": pa.array([dt.date(2020, 1, 1), dt.date(1, 1, 1), None], pa.date64()),
            "ts_s": pa.array([0, -1, None], pa.timestamp("s")),
            "ts_ms_utc": pa.array([0, -1, None], pa.timestamp("ms", "UTC")),
            "ts_us_zone": pa.array([0, -1, None], pa.timestamp("us", "Asia/Tokyo")),
            "duration": pa.array([0, -1, None], pa.duration("us")),
            "dec": pa.array([Decimal("1.50"), Decimal("-99999.99"), None], pa.decimal128(7, 2)),
            "nothing": pa.nulls(3),
            "json": pa.array(["{}", "[]", None], pa.json_()),
            "fixed_list": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int32(), 2)),
            "large_list": pa.array([[1, None], [], None], pa.large_list(pa.uint8())),
            "map": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.uint32())),
            "struct": pa.array([{"x": 1, "y": [{"z": "a"}]}, {"x": None, "y": None}, None]),
            "nan": pa.array([float("nan"), -0.0, None]),
        }
    )

    options = {"data_page_version": "2.0", "compression": "zstd"} if store_schema else {}
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=2, store_schema=store_schema, **options)
    assert_same(spark, tmp_path / "t.parquet")


def test_a_type_that_spark_refuses_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    for kind in (pa.timestamp("ns"), pa.time32("ms"), pa.uuid(), pa.float16(), pa.decimal256(50, 2)):
        path = files.write(tmp_path / "t.parquet", pa.table({"id": [1], "c": pa.nulls(1, kind)}))
        with pytest.raises(Exception, match=r"PARQUET_TYPE_ILLEGAL|DECIMAL_PRECISION_EXCEEDS"):
            parquet(spark, path)
        with pytest.raises(UnsupportedError, match=r"t\.parquet: column c is .*for which Spark has no type"):
            LoadListing(Options.parse({"path": path})).schema()
    with pytest.raises(Exception, match=r"t\.parquet: column c is .*for which Spark has no type"):
        load(spark, path)
    assert rows(load(spark, path, "id BIGINT")) == ["(1,)"]


def test_files_of_parquet_testing(spark: SparkSession, parquet_testing_dir: Path) -> None:
    compared = 0
    for path in sorted(parquet_testing_dir.rglob("*.parquet")):
        try:
            expected = parquet(spark, path)
            theirs = rows(as_numbers(expected))
        except (PySparkException, Py4JError):  # a type, or data, that Spark cannot read
            continue
        frame = load(spark, path)
        assert (path.name, frame.schema) == (path.name, expected.schema)
        assert (path.name, rows(as_numbers(frame))) == (path.name, theirs)
        compared += 1
    assert compared >= 4


def as_numbers(frame: DataFrame) -> DataFrame:
    """Timestamps as microseconds, because Python's datetime cannot hold all of them; null beyond 126,000 years.

    Spark overflows when it writes INT96 for the year 290,000, and only Spark reads the overflow back.
    """
    number = "IF(abs(unix_micros(`{0}`)) < 4000000000000000000, unix_micros(`{0}`), NULL)"
    columns = [number.format(name) if kind == "timestamp" else f"`{name}`" for name, kind in frame.dtypes]
    return frame.selectExpr(*columns)


def test_hive_partitions(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql(
        "SELECT id, CAST(id % 2 AS INT) AS p_int,"
        " CASE id % 3 WHEN 0 THEN 'a b/c%=é' WHEN 1 THEN NULL ELSE 'z' END AS p_text,"
        " DATE'2024-01-01' + CAST(id % 2 AS INT) AS p_date FROM range(12)"
    )
    frame.write.partitionBy("p_int", "p_text", "p_date").parquet(str(tmp_path / "t"))
    frame = assert_same(spark, tmp_path / "t")
    assert frame.schema.simpleString() == "struct<id:bigint,p_int:int,p_text:string,p_date:date>"
    assert_same(spark, tmp_path / "t" / "p_int=1")
    assert_same(spark, str(tmp_path / "t" / "p_int=*"), basePath=str(tmp_path / "t"))
    assert_same(spark, tmp_path / "t", recursiveFileLookup="true")
    text = load(spark, tmp_path / "t", inferPartitionTypes="false")
    assert {field.dataType.simpleString() for field in text.schema.fields[1:]} == {"string"}


def test_partition_columns_have_the_types_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    values = ("01", "2"), ("3000000000", "1"), ("1.5", "2"), ("x", "1"), ("2024-01-01", "2024-12-31"), ("true", "false")
    parts = {
        "/".join(f"{name}={value}" for name, value in zip("pqrstu", row, strict=True)): {"id": [i]}
        for i, row in enumerate(zip(*values, strict=True))
    }
    files.hive(tmp_path / "t", parts)
    assert_same(spark, tmp_path / "t")


def test_partition_timestamps_are_in_the_session_zone(spark: SparkSession, tmp_path: Path) -> None:
    files.hive(tmp_path / "t", {"p=2024-07-01 12%3A00%3A00": {"id": [1]}, "p=2024-01-01 00%3A00%3A00": {"id": [2]}})
    for zone in ("UTC", "America/New_York"):
        with conf(spark, {"spark.sql.session.timeZone": zone}):
            assert_same(spark, tmp_path / "t")
            assert_same(spark, tmp_path / "t", timeZone=zone)


def test_merged_schemas(spark: SparkSession, tmp_path: Path) -> None:
    files.write(tmp_path / "t" / "1.parquet", pa.table({"a": pa.array([1], pa.int32()), "s": [{"x": 1}]}))
    files.write(tmp_path / "t" / "2.parquet", pa.table({"B": ["b"], "s": [{"y": 2}], "A": pa.array([2], pa.int32())}))
    assert_same(spark, tmp_path / "t", mergeSchema="true")
    assert_same(spark, tmp_path / "t", mergeSchema="false")
    files.write(tmp_path / "t" / "3.parquet", pa.table({"a": ["text"]}))
    with pytest.raises(Exception, match=r"3\.parquet: column a is int in one file and string in another"):
        load(spark, tmp_path / "t", mergeSchema="true")


def test_a_users_schema_is_the_projection(spark: SparkSession, tmp_path: Path) -> None:
    table = {
        "id": [1, 2],
        "s": ["a", None],
        "d": [1.5, None],
        "i": pa.array([1, None], pa.int32()),
        "f": pa.array([1.25, None], pa.float32()),
        "st": [{"x": 1, "Y": "y"}, None],
        "l": pa.array([[{"p": 1, "q": 2}], None], pa.list_(pa.struct({"p": pa.int32(), "q": pa.int32()}))),
    }
    path = files.write(tmp_path / "t.parquet", pa.table(table))
    schema = "d DOUBLE, ID BIGINT, missing INT, other STRUCT<x: INT>, st STRUCT<Y: STRING, gone: INT>"
    assert_same(spark, path, schema=f"{schema}, l ARRAY<STRUCT<q: INT>>, i BIGINT, f DOUBLE")


def test_names_that_differ_by_case(spark: SparkSession, tmp_path: Path) -> None:
    path = files.write(tmp_path / "t.parquet", {"a": [1], "A": [2]})
    with conf(spark, {"spark.sql.caseSensitive": "true"}):
        ours = load(spark, path, caseSensitive="true")
        assert rows(ours) == rows(parquet(spark, path)) == ["(1, 2)"]
        assert rows(load(spark, path, "A BIGINT", caseSensitive="true")) == ["(2,)"]
    with pytest.raises(Exception, match="'a', 'A'"):
        load(spark, path, "a BIGINT").collect()


def test_partition_values_kept_as_text_compare_as_text(spark: SparkSession, tmp_path: Path) -> None:
    for day in ("2024-01-05", "2024-01-10"):
        (tmp_path / f"day={day}").mkdir()
        pq.write_table(pa.table({"id": [1]}), tmp_path / f"day={day}" / "x.parquet")
    frame = load(spark, tmp_path, inferPartitionTypes="false", where="day < '2024-1-5'")
    assert sorted(row["day"] for row in frame.collect()) == ["2024-01-05", "2024-01-10"]
