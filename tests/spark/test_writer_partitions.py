"""Hive partitions: the directories of Spark, and which rows go where."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pyspark_bloomparquet.directories import directory_of, texts_of
from tests.support import jobs
from tests.support.jobs import layout, save
from tests.support.spark import conf, rows

PARTITIONS = {
    "text": "CASE id WHEN 0 THEN null WHEN 1 THEN '' WHEN 2 THEN 'é/=%:\"[x]{}#^\\\\*?' ELSE 'a b' END",
    "integers": "if(id = 0, null, id - 2)",
    "flags": "id = 1",
    "dates": "CASE id WHEN 0 THEN null WHEN 1 THEN date'0001-01-01' WHEN 2 THEN date'2026-02-28' "
    "ELSE date'1582-10-04' END",
    "old and far dates": "CASE id WHEN 0 THEN date'-0044-03-15' WHEN 1 THEN date'+12345-01-02' "
    "ELSE date'0000-01-01' END",
    "instants": "CASE id WHEN 0 THEN null WHEN 1 THEN timestamp'2026-02-28 12:30:00.25Z' WHEN 2 THEN "
    "timestamp'1883-11-18 00:00:00Z' ELSE timestamp'2026-07-01 00:00:00.000001Z' END",
    "clock readings": "if(id = 0, null, timestamp_ntz'2026-02-28 12:30:00')",
    "decimals": "cast(id - 1.50 AS decimal(20, 12))",
    "fractions": "CASE id WHEN 0 THEN double('NaN') WHEN 1 THEN 1e10 WHEN 2 THEN 0.1 ELSE -double('Infinity') END",
    "short fractions": "CASE id WHEN 0 THEN float(0.1) WHEN 1 THEN float(1e-5) ELSE float(123456.789) END",
    "bytes": "binary(concat('é', id))",
}


@pytest.mark.parametrize("kind", PARTITIONS)
def test_partition_directories_are_those_of_spark(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    frame = spark.range(0, 4, 1, 1).selectExpr("id", f"{PARTITIONS[kind]} AS `p q`", "id % 2 AS r")
    with conf(spark, {"spark.sql.session.timeZone": "America/New_York"}):
        frame.write.partitionBy("p q", "r").parquet(str(tmp_path / "spark"))
        save(frame, tmp_path / "ours", partitionBy="P Q,r")
        assert layout(tmp_path / "ours") == layout(tmp_path / "spark")
        theirs, ours = (spark.read.parquet(str(tmp_path / name)) for name in ("spark", "ours"))
        assert ours.schema == theirs.schema
        # As text: Python has no dates before the year 1 and after 9999.
        text = ["id", "cast(`p q` AS string)", "r"]
        assert rows(ours.selectExpr(*text)) == rows(theirs.selectExpr(*text))


def test_a_value_that_names_no_directory_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    for expression in ("array(id)", "interval '1' day", "map(id, id)"):
        with pytest.raises(Exception, match=r"column p is .* which names no directories"):
            save(spark.range(1).selectExpr("id", f"{expression} AS p"), tmp_path / "t", partitionBy="p")
    assert not (tmp_path / "t").exists()


def test_appended_rows_go_into_the_partitions_that_there_are(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(4).selectExpr("id", "id % 2 AS Day")
    save(frame, tmp_path, partitionBy="day")
    save(spark.range(4, 6).selectExpr("id", "id % 2 AS day"), tmp_path)
    assert {file.parent.name for file in jobs.visible(tmp_path)} == {"Day=0", "Day=1"}
    assert rows(spark.read.parquet(str(tmp_path))) == [(i, i % 2) for i in range(6)]
    with pytest.raises(Exception, match=r"partitionBy is 'id', and the files at .* are partitioned by Day; leave"):
        save(frame, tmp_path, partitionBy="id")
    with pytest.raises(Exception, match="are partitioned by Day, and there is no column 'Day'; the columns are id"):
        save(spark.range(1), tmp_path)
    save(spark.range(1), tmp_path / "plain")
    with pytest.raises(Exception, match="are partitioned by nothing"):
        save(frame, tmp_path / "plain", partitionBy="day")


def test_only_partitions_that_are_written_to_are_replaced_if_so_asked(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(6).selectExpr("id", "id % 3 AS p")
    save(frame, tmp_path, partitionBy="p")
    more = spark.sql("SELECT 10L AS id, 1L AS p")
    save(more, tmp_path, "overwrite", partitionBy="p", partitionOverwriteMode="dynamic")
    assert rows(spark.read.parquet(str(tmp_path))) == [(0, 0), (10, 1), (2, 2), (3, 0), (5, 2)]
    save(more, tmp_path, "overwrite", partitionBy="p")
    assert rows(spark.read.parquet(str(tmp_path))) == [(10, 1)]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["_SUCCESS", "p=1"]


def test_many_partitions_and_more_rows_than_are_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark_bloomparquet.writer._SORTED_BYTES", 1000)
    writer = jobs.begin(tmp_path, partitionBy="day")
    batches = [jobs.batch(range(100 * i, 100 * i + 100), days=7) for i in range(5)]
    writer.commit([writer.write(iter(batches))])
    assert jobs.ids(tmp_path) == Counter(range(500))
    for file in jobs.visible(tmp_path):
        day = int(file.parent.name.removeprefix("day=d"))
        assert {i % 7 for i in pq.ParquetFile(file).read()["id"].to_pylist()} == {day}


def test_sorted_rows_of_a_partition_are_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark_bloomparquet.writer._SORTED_BYTES", 1000)
    days = ["d0"] * 250 + ["d1"] * 250
    table = pa.table({"id": range(500), "day": days}, jobs.COLUMNS)
    writer = jobs.begin(tmp_path, partitionBy="day")
    writer.commit([writer.write(iter(table.to_batches(max_chunksize=60)))])
    assert [file.parent.name for file in jobs.visible(tmp_path)] == ["day=d0", "day=d1"]
    assert jobs.ids(tmp_path) == Counter(range(500))


def test_directories_are_named_as_java_would(spark: SparkSession) -> None:
    """Numbers and dates cast to strings, by Spark and by us."""
    values = [
        0.0,
        -0.0,
        1.0,
        0.001,
        0.00099,
        9999999.0,
        1e7,
        1.5e300,
        -2.5e-300,
        123456.789,
        5e-324,
        1.7976931348623157e308,
    ]
    frame = spark.createDataFrame([(v,) for v in values], "v double").selectExpr("v", "cast(v AS string) s")
    assert texts_of(pa.array(values), "UTC") == [row.s for row in frame.collect()]
    days = [*range(-800_000, 800_000, 9973), 2_932_896, 2_932_897]
    frame = spark.createDataFrame([(d,) for d in days], "d int").selectExpr(
        "d", "cast(date_from_unix_date(d) AS string) s"
    )
    assert texts_of(pa.array(days, pa.int32()).cast(pa.date32()), "UTC") == [row.s for row in frame.collect()]


def test_null_and_nothing_share_a_directory() -> None:
    assert directory_of(["a=b", "c"], ["", None]) == "a%3Db=__HIVE_DEFAULT_PARTITION__/c=__HIVE_DEFAULT_PARTITION__"
    assert directory_of(["a"], ["\x01 é\x7f"]) == "a=%01 é%7F"


@pytest.mark.parametrize("option", [None, "static", "dynamic"])
@pytest.mark.parametrize("session", ["static", "DYNAMIC"])
def test_the_session_says_which_partitions_are_overwritten_unless_an_option_does(
    spark: SparkSession, tmp_path: Path, session: str, option: str | None
) -> None:
    path = str(tmp_path / "t")
    frame = spark.range(6).selectExpr("id", "id % 2 AS p")
    frame.write.format("bloomparquet").mode("append").option("partitionBy", "p").save(path)
    with conf(spark, {"spark.sql.sources.partitionOverwriteMode": session}):
        writer = spark.sql("SELECT 100L AS id, 0L AS p").write.format("bloomparquet").mode("overwrite")
        writer = writer.option("partitionBy", "p")
        (writer if option is None else writer.option("partitionOverwriteMode", option)).save(path)
    kept = [(1, 1), (3, 1), (5, 1)] if (option or session).lower() == "dynamic" else []
    assert sorted(tuple(row) for row in spark.read.parquet(path).collect()) == [*kept, (100, 0)]
