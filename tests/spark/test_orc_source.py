"""``format("bloomorc")`` without the jar reads what ``spark.read.orc`` reads."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pytest
from pyspark.sql import SparkSession

import bloomparquet as bp
from tests.spark.compare import assert_same_orc, load_orc, orc, partitions, rows
from tests.spark.test_orc_files import Java, java  # noqa: F401 - a fixture
from tests.support.spark import conf

NEW_YORK = "America/New_York"
TYPES = {
    "id": "id",
    "tiny": "cast(id % 100 as tinyint)",
    "small": "cast(id as smallint)",
    "number": "cast(id as int)",
    "flag": "id % 2 = 0",
    "real": "cast(id / 7 as float)",
    "wide": "id / 3",
    "money": "cast(id as decimal(20, 3))",
    "text": "cast(id as string)",
    "blob": "encode(cast(id as string), 'utf-8')",
    "moment": "timestamp_micros(id * 1000000007)",
    "reading": "cast(timestamp_micros((id - 200) * 1000000007) as timestamp_ntz)",
    "day": "date_add(date'1500-01-01', cast(id * 900 as int))",
    "span": "make_dt_interval(cast(id as int))",
    "pair": "named_struct('a', id, 't', timestamp_micros(id * 1000000))",
    "many": "if(id % 3 = 0, null, array(id, null))",
    "named": "map(cast(id as string), array(date'1400-02-28'))",
    "deep": "if(id % 4 = 0, null, named_struct('x', array(timestamp_micros(id))))",
}
SELECTED = [f"if(id % 7 = 3, null, {text}) as {name}" for name, text in TYPES.items()]


@pytest.fixture(scope="module", autouse=True)
def _unpruned(spark: SparkSession) -> Iterator[None]:
    with conf(spark, {"spark.sql.orc.filterPushdown": "false"}):
        yield


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """3 days of 3 files of 4 stripes of 1,024 rows; `id` is unique, and `key` in no order."""
    root = tmp_path_factory.mktemp("orc") / "events"
    for day in range(3):
        folder = root / f"day=2026-01-0{day + 1}"
        folder.mkdir(parents=True)
        for file in range(3):
            ids = range((day * 3 + file) * 4096, (day * 3 + file + 1) * 4096)
            table = pa.table(
                {"id": list(ids), "key": [i * 7919 % 1_000_003 for i in ids], "text": [f"t{i}" for i in ids]}
            )
            with pyarrow.orc.ORCWriter(
                folder / f"{file}.orc", stripe_size=1, bloom_filter_columns=[1, 2, 3], bloom_filter_fpp=0.01
            ) as writer:
                for at in range(0, len(ids), 1024):
                    writer.write(table.slice(at, 1024))
    (root / "_SUCCESS").touch()
    (root / "day=2026-01-01" / ".hidden.orc").write_bytes(b"no ORC")
    (root / "day=2026-01-01" / "_metadata").write_bytes(b"no ORC")
    return root


@contextmanager
def jvm_zone(spark: SparkSession, zone: str) -> Iterator[None]:
    java_zone: Any = spark.sparkContext._jvm.java.util.TimeZone  # type: ignore[union-attr]
    before = java_zone.getDefault()
    java_zone.setDefault(java_zone.getTimeZone(zone))
    try:
        yield
    finally:
        java_zone.setDefault(before)


def test_every_type_and_null_is_what_spark_reads(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(400).selectExpr(*SELECTED).write.orc(str(tmp_path / "t"))
    assert_same_orc(spark, str(tmp_path / "t"))


def test_files_of_others_are_what_spark_reads(
    spark: SparkSession,
    java: Java,  # noqa: F811
    orc_examples_dir: Path,
    tmp_path: Path,
) -> None:
    days = [dt.date(1582, 10, 4), dt.date(1582, 10, 15), dt.date(1000, 2, 28), None]
    moments = pa.array([0, -1_000_000, 1_767_225_600_123_456, None], pa.timestamp("us"))
    table = pa.table({"day": days, "reading": moments, "moment": moments.cast(pa.timestamp("us", "UTC"))})
    pyarrow.orc.write_table(table, tmp_path / "arrow.orc")
    text = java(
        "struct<c:char(5),v:varchar(5),t:timestamp>",
        [["ab", "ab  ", 500_000_000], ["", "", -1_500_000_000], ["abcdefg", "abcdefg", 10**18]],
    )
    for path in (tmp_path / "arrow.orc", text, *orc_examples_dir.glob("*.orc")):
        assert_same_orc(spark, str(path))
    padded = "c = 'ab'"  # Spark pads what it compares with a CHAR
    assert load_orc(spark, str(text)).where(padded).count() == orc(spark, str(text)).where(padded).count() == 1


def test_partitions_several_files_and_stripes_are_what_spark_reads(spark: SparkSession, events: Path) -> None:
    assert_same_orc(spark, str(events))
    found = load_orc(spark, [str(events / "day=2026-01-02"), str(events / "day=2026-01-03")], basePath=str(events))
    assert rows(found) == rows(orc(spark, str(events)).where("day > date'2026-01-01'"))


@pytest.mark.parametrize(
    "where",
    [
        "id = 36863",  # in the last stripe of the last file
        "key = 36863 * 7919 % 1000003",
        "text IN ('t5', 't36863', 'nowhere')",
        "day = '2026-01-02' AND id > 16000",
        "id = -1",
        "id < 10 OR text = 't30000'",
        "NOT (id >= 5)",
    ],
)
def test_where_gives_the_rows_that_spark_filters(spark: SparkSession, events: Path, where: str) -> None:
    where = where.replace("36863 * 7919 % 1000003", str(36863 * 7919 % 1_000_003))
    expected = rows(orc(spark, str(events)).where(where))
    found = load_orc(spark, str(events), where=where)
    assert rows(found) == expected
    assert rows(load_orc(spark, str(events), "text string, day date", where=where)) == rows(
        orc(spark, str(events)).where(where).select("text", "day")
    )


def test_stripes_that_cannot_match_are_not_read(spark: SparkSession, events: Path) -> None:
    where = f"key = {36863 * 7919 % 1_000_003}"
    plan = bp.plan(events, where)
    assert (plan.unit, plan.total) == ("stripe", 36)
    assert plan.kept <= 3
    few = {"maxPartitionBytes": "1", "openCostInBytes": "1"}
    assert partitions(load_orc(spark, str(events), where=where, **few)) == plan.kept
    assert partitions(load_orc(spark, str(events), **few)) == 36


def test_filters_of_a_query_prune_and_lose_nothing(spark: SparkSession, events: Path) -> None:
    with conf(spark, {"spark.sql.python.filterPushdown.enabled": "true"}):
        for where in ("id = 36863", "text = 't36863' and day = date'2026-01-03'", "key in (0, 7919) or id = 1"):
            expected = rows(orc(spark, str(events)).where(where))
            assert rows(load_orc(spark, str(events), pushFilters="on").where(where)) == expected
        few = load_orc(spark, str(events), pushFilters="on", maxPartitionBytes="1", openCostInBytes="1")
        assert partitions(few.where("id = 36863")) == 1


def test_clock_readings_are_moments_of_the_jvms_clock(spark: SparkSession, tmp_path: Path) -> None:
    texts = [
        *("2026-07-01 12:00:00.123456Z", "2026-01-01 00:00:00Z", "1969-12-30 12:00:00.5Z", "1901-05-05 05:05:05Z"),
        *("2026-11-01 05:30:00Z", "2026-11-01 06:30:00Z", "2026-03-08 07:30:00Z"),  # New York's clock is changed
        *("1970-01-01 00:00:00.5Z", "1969-12-31 23:59:59.5Z", "1970-01-01 05:00:00.5Z", "1969-12-31 23:59:58.75Z"),
        *("1969-12-31 18:29:59.5Z", "1969-12-31 18:30:00.25Z", "1970-01-01 04:59:59.5Z"),
    ]
    frame = spark.createDataFrame([(text,) for text in texts], "c string").selectExpr(
        "cast(c as timestamp) t", "array(cast(c as timestamp)) a"
    )
    path = str(tmp_path / "t")
    session = {"spark.sql.session.timeZone": "Asia/Tokyo"}
    for writer, reader in (
        (NEW_YORK, NEW_YORK),
        (NEW_YORK, "Asia/Kolkata"),
        ("Asia/Kolkata", "UTC"),
        ("UTC", NEW_YORK),
    ):
        shutil.rmtree(path, ignore_errors=True)
        with jvm_zone(spark, writer):
            frame.write.orc(path)
        with jvm_zone(spark, reader), conf(spark, session):
            assert_same_orc(spark, path, clockTimeZone=reader)
            meant = {"clockTimeZone": reader, "timeZone": "Asia/Tokyo"}
            moment = orc(spark, path).selectExpr("cast(min(t) as string)").collect()[0][0]
            assert load_orc(spark, path, where=f"t = '{moment}'", **meant).count() == 1


def test_a_time_without_a_zone_needs_the_sessions(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("select timestamp'2026-01-01 00:00:00' t").write.orc(str(tmp_path / "t"))
    with pytest.raises(Exception, match="names no zone; give the option timeZone"):
        load_orc(spark, str(tmp_path / "t"), where="t = TIMESTAMP '2026-01-01 00:00:00'").collect()


def test_a_schema_of_ones_own_widens_and_everything_else_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t.orc")
    table = pa.table({"i": pa.array([1, None], pa.int32()), "f": pa.array([0.1, 2], pa.float32()), "s": ["a", "b"]})
    pyarrow.orc.write_table(table, path)
    assert_same_orc(spark, path, "S string, absent int, i bigint, f double")
    with pytest.raises(
        Exception, match="column i is INT in the file, which the Python data source does not read as str"
    ):
        load_orc(spark, path, "i string").collect()


def test_columns_without_names_are_taken_by_their_positions(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t.orc")
    pyarrow.orc.write_table(pa.table({"_col0": pa.array([1, 2], pa.int32()), "_col1": ["a", "b"]}), path)
    assert_same_orc(spark, path)
    assert_same_orc(spark, path, "x int, y string, z bigint")
    with pytest.raises(Exception, match="2 columns have no names and are taken by their positions"):
        load_orc(spark, path, "x int").collect()
    assert rows(load_orc(spark, path, where="_col0 = 2")) == rows(orc(spark, path).where("_col0 = 2"))
    for column in ("x", "_col0"):
        with pytest.raises(Exception, match=r"calls its columns _col0, _col1|column 'x' is in none of the files"):
            load_orc(spark, path, "x int, y string", where=f"{column} = 2").collect()


def test_schemas_are_the_first_files_or_all_files(spark: SparkSession, tmp_path: Path) -> None:
    pyarrow.orc.write_table(pa.table({"a": [1]}), tmp_path / "a.orc")
    pyarrow.orc.write_table(pa.table({"b": ["x"], "A": [2]}), tmp_path / "b.orc")
    first = load_orc(spark, str(tmp_path))  # by path; Spark's first is the one that the directory lists first
    assert rows(first) == rows(orc(spark, str(tmp_path), "a bigint"))
    merged = load_orc(spark, str(tmp_path), mergeSchema="true")
    assert merged.schema.simpleString() == "struct<a:bigint,b:string>"
    assert rows(merged) == rows(orc(spark, str(tmp_path), mergeSchema="true").select("a", "b"))


def test_empty_files_and_damaged_ones(spark: SparkSession, tmp_path: Path) -> None:
    pyarrow.orc.write_table(pa.table({"id": pa.array([], pa.int64())}), tmp_path / "a.orc")
    assert_same_orc(spark, str(tmp_path))
    pyarrow.orc.write_table(pa.table({"id": list(range(5000))}), tmp_path / "b.orc", compression="zlib")
    whole = (tmp_path / "b.orc").read_bytes()
    (tmp_path / "c.orc").write_bytes(b"this is no ORC file at all")
    (tmp_path / "d.orc").write_bytes(b"ORC" + b"\xff" * 200 + whole[203:])
    with pytest.raises(Exception, match=r"c.orc: not an ORC file, or cut short"):
        load_orc(spark, str(tmp_path)).collect()
    assert load_orc(spark, str(tmp_path), ignoreCorruptFiles="true").distinct().count() == 5000
    assert load_orc(spark, str(tmp_path), pathGlobFilter="[ab].orc").count() == 5000


def test_what_cannot_be_read_is_an_error_and_never_a_damaged_file(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("select 1 as id, timestamp'9999-12-31 00:00:00' as t").write.orc(str(tmp_path / "t"))
    for ignored in ("false", "true"):
        with pytest.raises(Exception, match="a timestamp is beyond the years 1677 to 2262"):
            load_orc(spark, str(tmp_path / "t"), ignoreCorruptFiles=ignored).collect()
    assert [row.id for row in load_orc(spark, str(tmp_path / "t"), "id int").collect()] == [1]


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("were", r"bloomorc has no option 'were'; did you mean 'where'"),
        ("keyProvider", r"bloomorc has no option 'keyProvider': that is one of bloomparquet"),
        ("parquet.block.size", r"bloomorc has no option 'parquet.block.size': that is one of bloomparquet"),
    ],
)
def test_errors_of_options_name_the_source(spark: SparkSession, events: Path, key: str, message: str) -> None:
    with pytest.raises(Exception, match=f"(?i){message}"):
        load_orc(spark, str(events), **{key: "x"}).count()
