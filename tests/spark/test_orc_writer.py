"""``df.write.format("bloomorc")`` without the jar: what is written, ``spark.read.orc`` reads in every zone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812 - the name that PySpark users give it
from pyspark.sql.pandas.types import from_arrow_schema

import bloomparquet as bp
from bloomparquet.errors import OptionError, UnsupportedError
from pyspark_bloomparquet.write_options import OrcWriteOptions
from pyspark_bloomparquet.writer import BloomParquetWriter, make_writer
from tests.spark.compare import load_orc, orc, rows
from tests.spark.test_orc_source import NEW_YORK, SELECTED, jvm_zone
from tests.support.spark import conf


@pytest.fixture(scope="module", autouse=True)
def _unpruned(spark: SparkSession) -> Iterator[None]:
    with conf(spark, {"spark.sql.orc.filterPushdown": "false"}):
        yield


def save(frame: DataFrame, path: Path | str, mode: str = "append", **options: str) -> str:
    frame.write.format("bloomorc").mode(mode).options(**options).save(str(path))
    return str(path)


def writer(path: Path, schema: pa.Schema, **options: str) -> BloomParquetWriter:
    parsed = OrcWriteOptions.parse({"path": str(path), **options})
    return make_writer(parsed, from_arrow_schema(schema), False)


def write(path: Path, columns: dict[str, Any], **options: str) -> None:
    batch = pa.RecordBatch.from_pydict(columns)
    job = writer(path, batch.schema, **options)
    try:
        job.commit([job.write(iter([batch]))])
    except Exception:
        job.abort([])
        raise


def test_every_type_comes_back_in_every_zone(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(0, 1500, 1, 1).selectExpr(*SELECTED)
    path = save(frame, tmp_path / "t", **{"orc.row.index.stride": "500", "compression": "zlib"})
    expected = rows(frame)
    assert [(f.name, f.dataType.simpleString()) for f in orc(spark, path).schema] == [
        (f.name, f.dataType.simpleString()) for f in frame.schema
    ]
    for zone in ("UTC", NEW_YORK):
        with jvm_zone(spark, zone):
            assert rows(orc(spark, path)) == expected
    assert rows(load_orc(spark, path)) == expected
    (file,) = (tmp_path / "t").glob("*.zlib.orc")
    assert pyarrow.orc.ORCFile(file).compression == "ZLIB"


def test_filters_deny_nothing_and_skip_what_is_absent(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(0, 3000, 1, 1).selectExpr(
        "id * 2 id", "concat('käse ', id * 2) text", "timestamp_micros(id * 2000001) t", "named_struct('a', id * 2) s"
    )
    path = save(frame, tmp_path / "t", bloomColumns="id,text,t,S.a", bloomFpp="0.001")
    present, absent = range(0, 6000, 666), range(1, 6000, 666)
    for name, text in (("id", "{}"), ("text", "'käse {}'"), ("s.a", "{}")):
        assert all(bp.plan(path, f"{name} = {text.format(value)}").kept == 1 for value in present)
        found = [bp.plan(path, f"{name} = {text.format(value)}") for value in absent]
        assert all(plan.kept == 0 and plan.skipped == {"bloom": 1} for plan in found)
    where = "id = 1998 AND s.a = 1998 AND text = 'käse 1998'"
    assert load_orc(spark, path, where=where).count() == 1
    moments = [f"TIMESTAMP '{row.t}Z'" for row in frame.selectExpr("cast(t as string) t").limit(5).collect()]
    assert all(load_orc(spark, path, where=f"t = {moment}").count() == 1 for moment in moments[3:])
    with conf(spark, {"spark.sql.orc.filterPushdown": "true"}):  # Spark's own reader heeds them too
        assert orc(spark, path).where("t = timestamp_micros(2000001 * 77)").count() == 1


def test_star_is_every_column_that_can_have_one(tmp_path: Path) -> None:
    columns = {
        "id": [1],
        "tiny": pa.array([1], pa.int8()),
        "real": [1.5],
        "flag": [True],
        "many": [["x"]],
        "text": ["a"],
    }
    write(tmp_path / "t", columns, bloomColumns="*")
    assert sorted(set(bp.inspect(tmp_path / "t")["column"].to_pylist())) == ["id", "text"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            "tiny",
            "bloomColumns is 'tiny' and names 'tiny', which cannot have one .*hashes BYTE columns, but not the val",
        ),
        ("flag", "which cannot have one"),
        ("many", "which is inside a list or a map"),
        ("idd", "there is no such column in the files; did you mean 'id'.*expected some of: id, text"),
    ],
)
def test_filters_that_would_prove_nothing_are_refused(tmp_path: Path, columns: str, message: str) -> None:
    schema = pa.schema(
        {"id": pa.int64(), "tiny": pa.int8(), "flag": pa.bool_(), "many": pa.list_(pa.string()), "text": pa.string()}
    )
    with pytest.raises(OptionError, match=message):
        writer(tmp_path, schema, bloomColumns=columns)
    with pytest.raises(OptionError, match=r"option orc\.bloom\.filter\.columns is 'nobody' and names 'nobody'"):
        writer(tmp_path, schema, **{"orc.bloom.filter.columns": "nobody"})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (dt.datetime(1899, 12, 31, tzinfo=dt.timezone.utc), "column c has times from before 1900"),
        (
            dt.datetime(1969, 12, 31, 23, 59, 58, 500_000, dt.timezone.utc),
            "column c has times from before 1970 with frac",
        ),
        (dt.date(1582, 10, 10), "column c has days that the calendar of ORC files has not"),
    ],
)
def test_values_that_would_be_read_as_others_are_refused(tmp_path: Path, value: Any, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        write(tmp_path / "t", {"c": [value, None]})
    nested = pa.array([{"x": [value]}])
    with pytest.raises(UnsupportedError, match=message.replace("column c", r"column c\.x\.element")):
        write(tmp_path / "t", {"c": nested})
    write(tmp_path / "t", {"c": pa.array([None, None], pa.array([value]).type)})


@pytest.mark.parametrize("kind", [T.VariantType(), T.NullType()])
def test_types_that_orc_files_cannot_have_are_refused(tmp_path: Path, kind: T.DataType) -> None:
    schema = T.StructType([T.StructField("s", T.StructType([T.StructField("c", kind)]))])
    with pytest.raises(UnsupportedError, match=r"column s\.c is .*, which ORC files cannot have"):
        make_writer(OrcWriteOptions.parse({"path": str(tmp_path)}), schema, False)


def test_partitions_are_written_appended_to_and_overwritten(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(0, 100, 1, 2).selectExpr("id", "id % 3 as day", "timestamp_seconds(id) t")
    path = save(frame, tmp_path / "t", partitionBy="day")
    save(frame.where("day = 1"), path)
    assert rows(orc(spark, path).select("id", "day", "t")) == rows(
        frame.union(frame.where("day = 1")).selectExpr("id", "cast(day as int)", "t")
    )
    save(frame.where("id = 4"), path, "overwrite", partitionBy="day", partitionOverwriteMode="dynamic")
    assert orc(spark, path).where("day = 1").count() == 1
    assert load_orc(spark, path).count() == 68
    save(frame.where("id = 4").drop("day"), path, "overwrite")
    assert rows(orc(spark, path)) == rows(frame.where("id = 4").drop("day"))


def test_no_rows_are_a_file_with_the_schema(spark: SparkSession, tmp_path: Path) -> None:
    frame = (
        spark.range(0).selectExpr("id", "cast(id as timestamp_ntz) t")
        if False
        else spark.sql("select 1L id, timestamp_ntz'2026-01-01 00:00:00' t where false")
    )
    path = save(frame, tmp_path / "t")
    assert orc(spark, path).schema.simpleString() == load_orc(spark, path).schema.simpleString()
    assert orc(spark, path).schema.simpleString() == "struct<id:bigint,t:timestamp_ntz>"
    assert orc(spark, path).count() == load_orc(spark, path).count() == 0


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("compression", "gzip", "option compression is 'gzip'; expected none, uncompressed, snappy, zlib, lz4 or zstd"),
        ("bloomMaxBytes", "1m", "bloomorc has no option 'bloomMaxBytes': that is one of bloomparquet"),
        ("orc.stripe.sise", "1m", "bloomorc has no option 'orc.stripe.sise'; did you mean 'orc.stripe.size'"),
        ("where", "id = 1", "option where belongs to a load"),
    ],
)
def test_errors_of_options_say_what_is_expected(key: str, value: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        OrcWriteOptions.parse({"path": "/data", key: value})
    with pytest.raises(OptionError, match=r'as in df.write.format\("bloomorc"\)'):
        OrcWriteOptions.parse({})


def test_orcs_own_options_stand_for_ours() -> None:
    given = {"orc.bloom.filter.columns": "b,c", "orc.bloom.filter.fpp": "0.2", "orc.compress": "LZ4"}
    found = OrcWriteOptions.parse({"path": "/data", **given})
    assert (found.bloom_columns, found.bloom_fpp, found.codec) == ("b,c", 0.2, "lz4")
    assert OrcWriteOptions.parse({"path": "/data", **given, "compression": "none"}).codec == "none"
    for ours, theirs in (("bloomColumns", "orc.bloom.filter.columns"), ("bloomFpp", "orc.bloom.filter.fpp")):
        with pytest.raises(OptionError, match=f"options {ours} and {theirs} say the same thing"):
            OrcWriteOptions.parse({"path": "/data", **given, ours: "0.1"})
