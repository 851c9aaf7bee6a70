"""``df.write.format("bloomparquet")`` without the jar: files as Spark would have written them, with right filters."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812 - the name that PySpark users give it

import bloomparquet as bp
from bloomparquet.errors import OptionError, UnsupportedError
from tests.support import jobs
from tests.support.jobs import layout, save
from tests.support.spark import conf, rows


def assert_as_spark(frame: DataFrame, tmp_path: Path, partitions: tuple[str, ...] = (), **options: Any) -> None:
    """The same rows, schema and layout as ``df.write.parquet`` gives."""
    spark = frame.sparkSession
    frame.write.partitionBy(*partitions).parquet(str(tmp_path / "spark"))
    if partitions:
        options["partitionBy"] = ",".join(partitions)
    save(frame, tmp_path / "ours", **options)
    theirs, ours = spark.read.parquet(str(tmp_path / "spark")), spark.read.parquet(str(tmp_path / "ours"))
    assert ours.schema == theirs.schema
    assert rows(ours) == rows(theirs)
    assert layout(tmp_path / "ours") == layout(tmp_path / "spark")
    assert rows(spark.read.format("bloomparquet").load(str(tmp_path / "ours"))) == rows(theirs)


TYPES = {
    "numbers": ["id = 1 a", "cast(id AS tinyint) b", "cast(id AS smallint) c", "cast(id AS int) d", "id e",
                "cast(id / 3 AS float) f", "if(id = 1, double('NaN'), id / 3) g", "cast(null AS int) h"],
    "decimals": ["cast(id AS decimal(9,2)) a", "cast(-id AS decimal(18,2)) b", "cast(id AS decimal(38,10)) c"],
    "times": ["timestamp'1500-01-01 00:00:00.123456' t", "timestamp_ntz'1500-01-01 00:00:00.123456' n",
              "if(id = 1, null, date'0001-01-01') d", "timestamp'9999-12-31 23:59:59.999999' e"],
    "intervals": ["interval '1 02:03:04.5' day to second a", "interval '3' hour b", "array(interval '1' day) c"],
    "text": ["cast('x' AS char(3)) a", "binary('é') b", "'' c", "concat('é', id) d", "'a' collate utf8_lcase e"],
    "nested": ["map('a', named_struct('x', id, 'y', array(id, null))) m", "array(map(id, interval '1' day)) l",
               "named_struct('a.b', id, 'c', null) s", "id AS `a.b`", "if(id = 2, null, array(array(id))) ll",
               "cast(null AS struct<a: int, b: interval day>) z"],
    "without a value": ["null a", "array(null) b", "id"],
    "variant": ["parse_json(concat('{\"a\": ', id, '}')) v"],
}  # fmt: skip


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_is_read_back_as_from_sparks_own_files(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    frame = spark.range(4).selectExpr(*TYPES[kind])
    theirs, ours = tmp_path / "spark", tmp_path / "ours"
    frame.write.parquet(str(theirs))
    save(frame, ours)
    found, expected = spark.read.parquet(str(ours)), spark.read.parquet(str(theirs))
    assert found.schema == expected.schema
    assert sorted(map(str, found.collect())) == sorted(map(str, expected.collect()))
    assert layout(ours) == layout(theirs)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_an_instant_is_the_same_in_every_session(spark: SparkSession, tmp_path: Path, zone: str) -> None:
    with conf(spark, {"spark.sql.session.timeZone": zone}):
        frame = spark.range(2).selectExpr("timestamp'2026-03-29 02:30:00' - make_interval(0,0,0,id) AS t")
        expected = frame.selectExpr("unix_micros(t) AS u").collect()
        save(frame, tmp_path / "t")
    assert spark.read.parquet(str(tmp_path / "t")).selectExpr("unix_micros(t) AS u").orderBy("u").collect() == sorted(
        expected
    )


def test_the_footer_says_what_spark_would_say_and_nothing_of_arrow(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(0, 2, 1, 1).selectExpr("id", "cast(null AS string) s")
    save(frame, tmp_path)
    (file,) = jobs.visible(tmp_path)
    metadata = pq.read_metadata(file).metadata
    assert set(metadata) == {b"org.apache.spark.version", b"org.apache.spark.sql.parquet.row.metadata"}
    assert not pq.read_schema(file).field("id").nullable
    assert pq.read_schema(file).field("s").nullable


def test_field_ids_are_written(spark: SparkSession, tmp_path: Path) -> None:
    inner = T.StructType([T.StructField("x", T.LongType(), True, {"parquet.field.id": 7})])
    schema = T.StructType([T.StructField("s", inner, True, {"parquet.field.id": 3})])
    save(spark.createDataFrame([((1,),)], schema), tmp_path)
    field = pq.read_schema(jobs.visible(tmp_path)[0]).field("s")
    assert (field.metadata[b"PARQUET:field_id"], field.type.field("x").metadata[b"PARQUET:field_id"]) == (b"3", b"7")


def test_no_rows_make_one_file_with_the_schema(spark: SparkSession, tmp_path: Path) -> None:
    assert_as_spark(spark.range(0).selectExpr("id", "map('a', id) m"), tmp_path / "no partitions")
    assert_as_spark(spark.range(3).where("id > 5"), tmp_path / "empty partitions")
    save(spark.range(0).selectExpr("id", "id AS p"), tmp_path / "t", partitionBy="p")
    assert layout(tmp_path / "t") == {(".", "_SUCCESS"): 1}


def test_insert_into_a_view(spark: SparkSession, tmp_path: Path) -> None:
    save(spark.sql("SELECT 1 AS id, 'a/b' AS day"), tmp_path, partitionBy="day")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW written USING bloomparquet OPTIONS (path '{tmp_path}')")
    spark.sql("INSERT INTO written VALUES (2, 'c'), (3, 'a/b')")
    assert rows(spark.read.parquet(str(tmp_path))) == [(1, "a/b"), (2, "c"), (3, "a/b")]
    assert {file.parent.name for file in jobs.visible(tmp_path)} == {"day=a%2Fb", "day=c"}
    spark.sql("INSERT OVERWRITE written VALUES (4, 'd')")
    assert rows(spark.read.parquet(str(tmp_path))) == [(4, "d")]


def test_filters_prune_and_lose_no_row(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(0, 20000, 1, 4).selectExpr(
        "id * 7919 % 20011 AS UserId", "named_struct('City', uuid()) st", "id"
    )
    keys = {"parquet.block.row.count.limit": "1000"}
    save(frame, tmp_path, bloomColumns="userid, ST.city", keys=keys)
    table = bp.inspect(str(tmp_path)).to_pylist()
    assert Counter(row["column"] for row in table) == {"UserId": 20, "st.City": 20}
    assert all(row["estimated_fpp"] < 0.0125 and row["bytes"] <= 2048 for row in table)
    for value in (0, 1, 7919, 20010):
        plan = bp.plan(str(tmp_path), f"UserId = {value}")
        assert (plan.total, plan.kept <= 4) == (20, True)
        found = spark.read.format("bloomparquet").option("where", f"UserId = {value}").load(str(tmp_path))
        assert found.count() == frame.where(f"UserId = {value}").count()


def columns(path: Path | str) -> set[str]:
    return {row["column"] for row in bp.inspect(str(path)).to_pylist()}


def test_parquet_javas_keys_choose_filters(spark: SparkSession, tmp_path: Path) -> None:
    mixed = "id * 7919 % 1009"
    frame = spark.range(1000).selectExpr(
        f"{mixed} AS UserId", f"concat('s', {mixed}) AS text", "id < 9 AS flag", f"{mixed} AS `a.b`"
    )
    chosen = {
        "one": ({"parquet.bloom.filter.enabled#UserId": "true"}, {"UserId"}),
        "all": ({"parquet.bloom.filter.enabled": "true"}, {"UserId", "text", "a.b"}),
        "but": (
            {"parquet.bloom.filter.enabled": "true", "parquet.bloom.filter.enabled#text": "false"},
            {"UserId", "a.b"},
        ),
        "off": ({"bloomColumns": "text,UserId", "parquet.bloom.filter.enabled#userid": "false"}, {"text"}),
        "ndv": ({"parquet.bloom.filter.expected.ndv#a.b": "100000"}, {"a.b"}),
    }
    for name, (keys, expected) in chosen.items():
        path = save(frame, tmp_path / name, keys=keys)
        assert columns(path) == expected
        assert rows(spark.read.parquet(path)) == rows(frame)
    sizes = {row["bytes"] for row in bp.inspect(str(tmp_path / "ndv")).to_pylist()}
    assert sizes == {1 << 17}


def test_fpp_and_layout_follow_parquet_javas_keys(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(0, 10000, 1, 1).selectExpr("id * 7919 % 10007 AS UserId", "id * 31 % 10007 AS other")
    keys = {
        "parquet.bloom.filter.fpp#userid": "0.1",
        "parquet.bloom.filter.fpp": "0.001",
        "parquet.block.row.count.limit": "4000",
        "parquet.compression": "GZIP",
        "parquet.enable.dictionary#other": "false",
    }
    save(frame, tmp_path, bloomColumns="*", keys=keys)
    found = {row["column"]: row["estimated_fpp"] for row in bp.inspect(str(tmp_path)).to_pylist()}
    assert 0.01 < found["UserId"] < 0.125
    assert found["other"] < 0.00125
    (file,) = jobs.visible(tmp_path)
    assert file.name.endswith("-c000.gz.parquet")
    metadata = pq.read_metadata(file)
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [4000, 4000, 2000]
    assert metadata.row_group(0).column(0).compression == "GZIP"
    assert [metadata.row_group(0).column(i).has_dictionary_page for i in (0, 1)] == [True, False]


def test_compression_is_the_options_or_the_sessions(spark: SparkSession, tmp_path: Path) -> None:
    save(spark.range(1), tmp_path / "default")
    with conf(spark, {"spark.sql.parquet.compression.codec": "zstd"}):
        save(spark.range(1), tmp_path / "session")
        save(spark.range(1), tmp_path / "option", compression="uncompressed")
    for name, ending in (("default", ".snappy.parquet"), ("session", ".zstd.parquet"), ("option", "-c000.parquet")):
        assert jobs.visible(tmp_path / name)[0].name.endswith(ending)


def test_the_largest_filter_says_when_it_bit(tmp_path: Path) -> None:
    writer = jobs.begin(tmp_path, bloomColumns="id,day", bloomMaxBytes="70")
    staged = jobs.stage(writer, range(1000))
    with pytest.warns(UserWarning, match=r"option bloomMaxBytes = 64 makes filters worse .*: id \(up to fpp") as caught:
        writer.commit([staged, staged])
    assert len(caught) == 1
    assert {row["bytes"] for row in bp.inspect(str(tmp_path)).to_pylist() if row["column"] == "id"} == {64}
    assert "day" not in str(caught[0].message)


WRONG = {
    "bloomColumns is 'userid,Cty' and names 'Cty', and there is no such column in the files; did you mean 'st.City'": {
        "bloomColumns": "userid,Cty"
    },
    "names 'st', which is a struct; name its fields; expected some of: UserId, st.City": {"bloomColumns": "st"},
    "names 'tags', which is a list or a map; filters on elements prune nothing": {"bloomColumns": "tags"},
    "names 'flag', which has two values, which min/max tells better": {"bloomColumns": "flag"},
    "enabled#flag names 'flag', which has two values": {"parquet.bloom.filter.enabled#flag": "true"},
    "enabled#usrid names 'usrid', .*; did you mean 'UserId'": {"parquet.bloom.filter.enabled#UsrId": "true"},
    "option bloomFpp is '2'; expected a number between 0 and 1": {"bloomFpp": "2"},
    "option bloomMaxBytes is '1g'; expected a number of bytes from 32 to 128m": {"bloomMaxBytes": "1g"},
    "option compression is 'lzo'; expected none, .* or zstd": {"compression": "lzo"},
    "partitionBy is 'usr' and names 'usr', and there is no column 'usr'": {"partitionBy": "usr"},
    "partitionBy is 'flag,FLAG' and names 'FLAG' twice": {"partitionBy": "flag,FLAG"},
    "no option 'bloomcolums'; did you mean 'bloomColumns'": {"bloomColums": "a"},
    "no option 'parquet.bloom.filter.enable#userid'; did you mean 'parquet.bloom.filter.enabled'": {
        "parquet.bloom.filter.enable#UserId": "true"
    },
    "option where belongs to a load": {"where": "id = 1"},
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_wrong_is_said_before_anything_is_touched(spark: SparkSession, tmp_path: Path, message: str) -> None:
    frame = spark.range(1).selectExpr(
        "id AS UserId", "named_struct('City', 'a') AS st", "array(id) AS tags", "raise_error('ran') IS NULL AS flag"
    )
    with pytest.raises(AnalysisException, match=message):
        save(frame, tmp_path / "t", keys=WRONG[message])
    assert not (tmp_path / "t").exists()


def test_schemas_that_parquet_cannot_have_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    one = spark.range(1)
    for frame, message in (
        (one.select(), "has no columns"),
        (one.selectExpr("struct() AS s"), "s is a struct without fields"),
        (one.selectExpr("id", "id AS ID"), "the column 'ID' already exists"),
        (one.selectExpr("named_struct('a', id, 'A', id) AS s"), "the column 'A' already exists in s"),
        (one.selectExpr("interval '1' month AS i"), "column i is interval month, which .* cast it"),
    ):
        with pytest.raises(Exception, match=message):
            save(frame, tmp_path / "t")
    with pytest.raises(Exception, match="all columns are partition columns"):
        save(one, tmp_path / "t", partitionBy="id")
    assert not (tmp_path / "t").exists()
    with conf(spark, {"spark.sql.caseSensitive": "true"}):
        path = save(one.selectExpr("id", "id AS ID"), tmp_path / "t", caseSensitive="true", bloomColumns="ID")
        assert spark.read.parquet(path).columns == ["id", "ID"]
    assert columns(path) == {"ID"}


def test_errors_are_of_this_packages_kinds(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="2 paths were given"):
        jobs.begin(tmp_path, paths='["/a", "/b"]')
    with pytest.raises(OptionError, match="no path was given; expected one"):
        jobs.begin("")
    (tmp_path / "a=1").mkdir()
    (tmp_path / "a=1" / "x.parquet").touch()
    (tmp_path / "y.parquet").touch()
    with pytest.raises(UnsupportedError, match="have different partition columns: a; none"):
        jobs.begin(tmp_path)


def test_a_url_of_a_local_path_means_what_it_means_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "pc x").mkdir()  # what the URL would mean if it were decoded
    for url in (f"file:{tmp_path}/pc%20x", f"file://{tmp_path}/pc%20y"):
        spark.range(3).write.format("bloomparquet").mode("append").save(url)
        assert spark.read.parquet(url).count() == 3
        assert spark.read.format("bloomparquet").load(url).count() == 3
    assert sorted(each.name for each in tmp_path.iterdir()) == ["pc x", "pc%20x", "pc%20y"]
