"""Files of ``format("bloomparquet")`` equal those of Spark's Parquet writer, and have the requested filters."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession

import bloomparquet as bp
from pyspark_bloomparquet import last_plan
from tests.support.spark import conf, rows

FORMATS = ("parquet", "bloomparquet")


@pytest.fixture
def frame(jar_spark: SparkSession) -> DataFrame:
    """A mixed-case column, one with few values, a struct, and columns that cannot have a useful filter."""
    return jar_spark.range(0, 3000, 1, 2).selectExpr(
        "id * 7919 % 30011 AS UserId",
        "concat('kind-', id % 3) AS kind",
        "named_struct('City', concat('city-', id % 50), 'ok', id % 2 = 0) AS st",
        "id % 2 = 0 AS flag",
        "array(id) AS tags",
        "map('k', id) AS props",
        "id % 2 AS p",
    )


def filters(path: Path | str) -> dict[str, set[int]]:
    """The filter sizes of every column that has a filter in every row group."""
    groups = sum(pq.read_metadata(file).num_row_groups for file in Path(path).rglob("*.parquet"))
    sizes = defaultdict[str, list[int]](list)
    for row in bp.inspect(str(path)).to_pylist():
        assert row["bits_set"] > 0
        sizes[row["column"]].append(row["bytes"])
    assert all(len(each) == groups for each in sizes.values())
    return {column: set(each) for column, each in sizes.items()}


def codecs(path: Path) -> set[str]:
    return {pq.read_metadata(file).row_group(0).column(0).compression for file in path.rglob("*.parquet")}


@pytest.mark.parametrize(
    ("mode", "there"),
    [("append", True), ("overwrite", True), ("error", False), ("errorifexists", True), ("ignore", True)],
)
def test_save_modes_equal_parquets(jar_spark: SparkSession, tmp_path: Path, mode: str, there: bool) -> None:
    outcomes = []
    for name in FORMATS:
        path = str(tmp_path / name)
        if there:
            jar_spark.range(3).write.parquet(path)
        try:
            jar_spark.range(100, 105).write.format(name).mode(mode).save(path)
            outcome: Any = "written"
        except AnalysisException as error:
            outcome = error.getCondition()
        outcomes.append((outcome, rows(jar_spark.read.parquet(path))))
    assert outcomes[0] == outcomes[1]


def test_partitions_and_compression_equal_parquets(jar_spark: SparkSession, tmp_path: Path) -> None:
    layouts = []
    for name in FORMATS:
        path = tmp_path / name
        writer = jar_spark.range(6).selectExpr("id", "id % 2 AS p", "id % 3 AS q").write.format(name)
        writer.partitionBy("p", "q").option("compression", "gzip").save(str(path))
        files = sorted(path.rglob("*.parquet"))
        layouts.append((sorted({str(file.parent.relative_to(path)) for file in files}), codecs(path)))
    assert layouts[0] == layouts[1]
    assert layouts[1][1] == {"GZIP"}
    assert rows(jar_spark.read.parquet(str(tmp_path / "parquet"))) == rows(
        jar_spark.read.parquet(str(tmp_path / "bloomparquet"))
    )


@pytest.mark.parametrize("by", ["an option", "the session's option"])
def test_dynamic_partition_overwrite_keeps_other_partitions(jar_spark: SparkSession, tmp_path: Path, by: str) -> None:
    setting = "spark.sql.sources.partitionOverwriteMode"
    results = []
    for name in FORMATS:
        path = str(tmp_path / name)
        jar_spark.range(6).selectExpr("id", "id % 3 AS p").write.format(name).partitionBy("p").save(path)
        writer = jar_spark.sql("SELECT 100L AS id, 1L AS p").write.format(name).mode("overwrite").partitionBy("p")
        if by == "the session's option" and name == "bloomparquet":
            setting = "spark.datasource.bloomparquet.partitionOverwriteMode"
        with conf(jar_spark, {} if by == "an option" else {setting: "dynamic"}):
            (writer.option("partitionOverwriteMode", "dynamic") if by == "an option" else writer).save(path)
        results.append(rows(jar_spark.read.parquet(path)))
    assert results[0] == results[1] == sorted([(0, 0), (3, 0), (100, 1), (2, 2), (5, 2)], key=repr)


def test_every_row_group_has_right_sized_filters(jar_spark: SparkSession, frame: DataFrame, tmp_path: Path) -> None:
    """Also ``kind`` with three values, whose filter parquet-java would leave out."""
    frame.write.format("bloomparquet").option("bloomColumns", "userid, kind,st.City").save(str(tmp_path / "x"))
    sizes = filters(tmp_path / "x")
    assert sizes.keys() == {"UserId", "kind", "st.City"}
    assert max(sizes["kind"]) == 32
    assert max(sizes["UserId"]) <= 4096
    assert rows(jar_spark.read.parquet(str(tmp_path / "x"))) == rows(frame)

    for condition, kept in (("UserId = 7919", 1), ("kind = 'kind-9'", 0), ("st.City = 'city-77'", 0)):
        frame_read = jar_spark.read.format("bloomparquet").load(str(tmp_path / "x")).where(condition)
        (plan,) = last_plan(frame_read)
        assert (plan.total, plan.kept) == (2, kept)
        assert rows(frame_read) == rows(jar_spark.read.parquet(str(tmp_path / "x")).where(condition))


def test_parquet_javas_options_win_in_any_case(jar_spark: SparkSession, frame: DataFrame, tmp_path: Path) -> None:
    own = {"parquet.bloom.filter.enabled#UserId": "true", "parquet.bloom.filter.expected.ndv#UserId": "100000"}
    frame.write.format("bloomparquet").options(**own).save(str(tmp_path / "own"))
    ours = {**own, "bloomColumns": "UserId,kind", "parquet.bloom.filter.enabled#kind": "false"}
    frame.write.format("bloomparquet").options(**ours).save(str(tmp_path / "both"))
    assert filters(tmp_path / "own") == {"UserId": {131072}}
    assert filters(tmp_path / "both") == {"UserId": {131072}}

    most = {"bloomColumns": "kind", "parquet.enable.dictionary#kind": "true", "parquet.bloom.filter.max.bytes": "1024"}
    adaptive = {"parquet.bloom.filter.adaptive.enabled": "true"}
    frame.write.format("bloomparquet").options(**most, **adaptive).save(str(tmp_path / "dictionary"))
    assert filters(tmp_path / "dictionary") == {}  # with a dictionary, parquet-java writes no filter

    key = "parquet.bloom.filter.enabled#tags.list.element"
    frame.withColumnRenamed("tags", "Tags").write.format("bloomparquet").option(
        key.replace("tags", "Tags"), "true"
    ).save(str(tmp_path / "list"))
    assert filters(tmp_path / "list").keys() == {"Tags.list.element"}


WRONG = {
    "an unknown name": ("UserIdd", r"names 'UserIdd', and the files will have no such column"),
    "nothing at the end": ("kind,", "names ''"),
    "a struct": ("st", "is a struct; name its fields"),
    "BOOLEAN in a struct": ("st.ok", "is BOOLEAN"),
    "a list": ("tags", "is a list"),
    "a map": ("props", "is a map"),
    "a partition column": ("p", "the files will have no such column"),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_unsuitable_column_is_an_error_with_choices(
    jar_spark: SparkSession, frame: DataFrame, tmp_path: Path, case: str
) -> None:
    columns, message = WRONG[case]
    writer = frame.write.format("bloomparquet").option("bloomColumns", columns).partitionBy("p")
    with pytest.raises(IllegalArgumentException, match=message) as caught:
        writer.save(str(tmp_path / "x"))
    assert "expected some of: UserId, kind, st.City" in str(caught.value)
    assert not (tmp_path / "x").exists()


def test_wrong_options_fail_before_any_write_or_delete(
    jar_spark: SparkSession, frame: DataFrame, tmp_path: Path
) -> None:
    path = str(tmp_path / "x")
    frame.limit(3).write.partitionBy("p").parquet(path)
    frame.createOrReplaceTempView("new_rows")
    writer = frame.write.format("bloomparquet").mode("overwrite").partitionBy("p")
    wrong = {"bloomColumns": "no_such"}
    routes = {
        "save": lambda: writer.save(path),
        "INSERT": lambda: jar_spark.sql("INSERT OVERWRITE kept WITH (bloomColumns='no_such') SELECT * FROM new_rows"),
        "DIRECTORY": lambda: jar_spark.sql(
            f"INSERT OVERWRITE DIRECTORY '{path}' USING bloomparquet OPTIONS (bloomColumns 'no_such') "
            "SELECT * FROM new_rows"
        ),
        "CTAS": lambda: jar_spark.sql(
            "CREATE TABLE made USING bloomparquet OPTIONS (bloomColumns 'no_such') PARTITIONED BY (p) "
            f"LOCATION '{tmp_path}/made' AS SELECT * FROM new_rows"
        ),
    }
    jar_spark.sql(f"CREATE TABLE kept USING bloomparquet LOCATION '{path}'")
    jar_spark.sql("MSCK REPAIR TABLE kept")
    try:
        before = sorted(file.name for file in Path(path).rglob("*.parquet"))
        for name, route in routes.items():
            session = wrong if name == "save" else {}
            settings = {f"spark.datasource.bloomparquet.{key}": value for key, value in session.items()}
            with conf(jar_spark, settings), pytest.raises(IllegalArgumentException, match="names 'no_such'"):
                route()
            assert sorted(file.name for file in Path(path).rglob("*.parquet")) == before, name
            assert jar_spark.table("kept").count() == 3
        assert not (tmp_path / "made").exists()
        assert not jar_spark.catalog.tableExists("made")
    finally:
        jar_spark.sql("DROP TABLE kept")


def test_write_options_override_session_options(jar_spark: SparkSession, frame: DataFrame, tmp_path: Path) -> None:
    prefix = "spark.datasource.bloomparquet."
    with conf(jar_spark, {prefix + "bloomColumns": "UserId", prefix + "compression": "gzip"}):
        frame.write.format("bloomparquet").save(str(tmp_path / "session"))
        frame.write.format("bloomparquet").option("bloomcolumns", "kind").save(str(tmp_path / "own"))
        frame.write.parquet(str(tmp_path / "parquet"))
    assert filters(tmp_path / "session").keys() == {"UserId"}
    assert filters(tmp_path / "own").keys() == {"kind"}
    assert filters(tmp_path / "parquet") == {}
    assert codecs(tmp_path / "session") == {"GZIP"}


def test_table_options_apply_to_every_write(jar_spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "x"
    jar_spark.sql(
        f"CREATE TABLE optioned (UserId BIGINT, s STRING) USING bloomparquet "
        f"OPTIONS (bloomColumns 'UserId', compression 'gzip') LOCATION '{path}'"
    )
    values = jar_spark.range(1, 900).selectExpr("id AS UserId", "cast(id AS STRING) AS s")
    values.createOrReplaceTempView("vals")
    try:
        for write in (
            lambda: values.write.format("bloomparquet").mode("append").saveAsTable("optioned"),
            lambda: values.write.insertInto("optioned", overwrite=True),
        ):
            write()
            assert filters(path).keys() == {"UserId"}
            assert codecs(path) == {"GZIP"}
            frame_read = jar_spark.table("optioned").where("UserId = 1000")
            assert frame_read.collect() == []
            assert [(plan.kept, plan.total > 0) for plan in last_plan(frame_read)] == [(0, True)]
            assert rows(jar_spark.table("optioned")) == rows(values)
    finally:
        jar_spark.sql("DROP TABLE optioned")
