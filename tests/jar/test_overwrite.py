"""Spark deletes the old files of an overwrite first. An overwrite of files that its query reads is refused before."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.support.spark import conf, rows

pytestmark = pytest.mark.slow

DYNAMIC = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}
REFUSED = "UNSUPPORTED_OVERWRITE"
FORMATS = ("bloomparquet", "bloomorc", "parquet")


def all_files(path: Path) -> dict[str, bytes]:
    """Every file below `path`, by its path there."""
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def make_tables(spark: SparkSession, path: Path) -> None:
    """The tables ``ours`` and ``sparks`` over the directory."""
    for name, source in (("ours", "bloomparquet"), ("sparks", "parquet")):
        spark.sql(f"CREATE TABLE {name} USING {source} LOCATION '{path}'")
        spark.sql(f"MSCK REPAIR TABLE {name}")


def drop_tables(spark: SparkSession) -> None:
    for name in ("ours", "sparks", "written"):
        spark.sql(f"DROP TABLE IF EXISTS {name}")


@pytest.fixture(scope="module")
def kept(jar_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Six rows in three partitions, and tables over them, for writes that must change nothing."""
    path = tmp_path_factory.mktemp("overwrite") / "t"
    frame = jar_spark.range(6).selectExpr("id", "CAST(id % 3 AS INT) AS p")
    frame.coalesce(1).write.partitionBy("p").parquet(str(path))
    make_tables(jar_spark, path)
    yield path
    drop_tables(jar_spark)


@pytest.fixture
def table(jar_spark: SparkSession, kept: Path, tmp_path: Path) -> Iterator[Path]:
    """The directory and the tables of `kept`, which are restored after the test."""
    shutil.copytree(kept, tmp_path / "original")
    for name in ("ours", "sparks"):
        jar_spark.catalog.refreshTable(name)  # writes to a path do not refresh the listing of a table
    yield kept
    drop_tables(jar_spark)
    shutil.rmtree(kept)
    shutil.move(tmp_path / "original", kept)
    make_tables(jar_spark, kept)


def by_version_2(spark: SparkSession, path: Path) -> DataFrame:
    with conf(spark, {"spark.sql.sources.useV1SourceList": ""}):
        return spark.read.parquet(str(path))


def by_subqueries(spark: SparkSession, path: Path) -> DataFrame:
    read = f"SELECT max(id) FROM parquet.`{path}`"
    return spark.sql(f"SELECT id, 1 AS p FROM range(9) WHERE id < ({read}) AND id IN (SELECT id FROM range(9))")


def by_subqueries_in_a_cache(spark: SparkSession, path: Path) -> DataFrame:
    cached = by_subqueries(spark, path).cache()
    cached.count()
    return spark.range(3).selectExpr("id", "1 AS p").join(cached.select("id"), "id", "left_anti")


# our ways to read a directory, and Spark's
OURS: dict[str, Callable[[SparkSession, Path], DataFrame]] = {
    "a load": lambda spark, path: spark.read.format("bloomparquet").load(str(path)),
    "a where": lambda spark, path: spark.read.format("bloomparquet").option("where", "id > 2").load(str(path)),
    "some files": lambda spark, path: (
        spark.read.format("bloomparquet")
        .option("basePath", str(path))
        .load([str(p) for p in path.glob("p=*/*.parquet")])
    ),
    "a path query": lambda spark, path: spark.sql(f"SELECT * FROM bloomparquet.`{path}`"),
    "a table": lambda spark, path: spark.table("ours"),
    "a cached load": lambda spark, path: spark.read.format("bloomparquet").load(str(path)).cache(),
    "a subquery": lambda spark, path: (
        spark.range(1)
        .selectExpr("id", "1 AS p")
        .where(f"id IN (SELECT id FROM bloomparquet.`{path}`) OR EXISTS (SELECT * FROM ours)")
    ),
}
SPARKS: dict[str, Callable[[SparkSession, Path], DataFrame]] = {
    "Spark's read": lambda spark, path: spark.read.parquet(str(path)),
    "Spark's table": lambda spark, path: spark.table("sparks"),
    "Spark's subqueries": by_subqueries,
    "subqueries in a cache": by_subqueries_in_a_cache,
    "version 2": by_version_2,
    "a cache of version 2": lambda spark, path: by_version_2(spark, path).cache(),
    "another format": lambda spark, path: spark.read.format("binaryFile").load(f"{path}/p=1").selectExpr(
        "length AS id", "1 AS p"
    ),
}  # fmt: skip
Write = Callable[[DataFrame, str, Path], None]


def statement(frame: DataFrame, *texts: str) -> None:
    frame.createOrReplaceTempView("rows_to_write")
    for text in texts:
        frame.sparkSession.sql(text)


WRITES: dict[str, Write] = {
    "save": lambda frame, source, path: frame.write.format(source).mode("overwrite").save(str(path)),
    "INSERT DIRECTORY": lambda frame, source, path: statement(
        frame, f"INSERT OVERWRITE DIRECTORY '{path}' USING {source} SELECT * FROM rows_to_write"
    ),
    "INSERT TABLE": lambda frame, source, path: statement(
        frame,
        f"CREATE TABLE written (id BIGINT, p INT) USING {source} LOCATION '{path}'",
        "INSERT OVERWRITE TABLE written SELECT * FROM rows_to_write",
    ),
    "saveAsTable": lambda frame, source, path: (
        frame.write.format(source).mode("overwrite").option("path", str(path)).saveAsTable("written")
    ),
}


def assert_refused(frame: DataFrame, write: Write, source: str, target: Path, table: Path) -> None:
    before = all_files(table)
    with pytest.raises(AnalysisException, match=REFUSED):
        write(frame, source, target)
    frame.unpersist()
    frame.sparkSession.catalog.clearCache()
    frame.sparkSession.sql("DROP TABLE IF EXISTS written")
    assert all_files(table) == before


# What a query reads does not depend on how its rows are written: each way to read meets one way to write.


@pytest.mark.parametrize(("read", "write"), list(zip([*OURS, *SPARKS], itertools.cycle(WRITES))))
def test_our_formats_do_not_overwrite_what_is_read(jar_spark: SparkSession, kept: Path, read: str, write: str) -> None:
    for source, target in (("bloomparquet", kept), ("bloomorc", kept.parent)):
        assert_refused({**OURS, **SPARKS}[read](jar_spark, kept), WRITES[write], source, target, kept)


@pytest.mark.parametrize(("read", "write"), list(zip(OURS, itertools.cycle(WRITES))))
def test_sparks_formats_do_not_overwrite_what_our_formats_read(
    jar_spark: SparkSession, kept: Path, read: str, write: str
) -> None:
    assert_refused(OURS[read](jar_spark, kept), WRITES[write], "parquet", kept, kept)


@pytest.mark.parametrize(("read", "source"), list(zip(["some files", "a path query", "a table"], FORMATS)))
def test_a_partition_that_is_read_is_not_overwritten(
    jar_spark: SparkSession, kept: Path, read: str, source: str
) -> None:
    frame = OURS[read](jar_spark, kept).where("p = 1").drop("p")
    assert_refused(frame, WRITES["save"], source, kept / "p=1", kept)


@pytest.mark.parametrize("source", ["bloomparquet", "parquet"])
def test_what_is_not_read_is_overwritten(jar_spark: SparkSession, table: Path, tmp_path: Path, source: str) -> None:
    """The files of a load are all that it lists; those of a table are those of the partitions that are asked for."""
    loaded = jar_spark.read.format("bloomparquet").load(str(table / "p=1"))
    WRITES["save"](loaded.where("id > 1"), source, table / "p=2")
    WRITES["save"](jar_spark.table("ours").where("p = 1").drop("p"), source, table / "p=0")
    WRITES["save"](jar_spark.read.format("bloomparquet").load(str(table)).drop("p"), source, table / "p=7")
    assert rows(jar_spark.read.parquet(str(table)).where("p < 7")) == [(1, 0), (1, 1), (4, 0), (4, 1), (4, 2)]
    assert jar_spark.read.parquet(str(table)).where("p = 7").count() == 5
    WRITES["save"](jar_spark.table("ours"), source, tmp_path / "other")
    WRITES["save"](jar_spark.table("ours"), source, tmp_path / "other")
    assert rows(jar_spark.read.parquet(str(tmp_path / "other"))) == rows(jar_spark.table("ours"))


@pytest.mark.parametrize("source", ["bloomparquet", "parquet"])
def test_dynamic_partitions_are_made_from_themselves(jar_spark: SparkSession, table: Path, source: str) -> None:
    with conf(jar_spark, DYNAMIC):
        frame = jar_spark.sql(f"SELECT id + 10 AS id, p FROM bloomparquet.`{table}` WHERE p = 1")
        frame.write.format(source).mode("overwrite").partitionBy("p").save(str(table))
    assert rows(jar_spark.read.parquet(str(table))) == [(0, 0), (11, 1), (14, 1), (2, 2), (3, 0), (5, 2)]


@pytest.mark.parametrize("name", ["ours", "sparks"])
def test_a_static_partition_is_made_from_another_one(jar_spark: SparkSession, table: Path, name: str) -> None:
    for partition, value in (("p=1", "2"), ("p=2", "NULL")):
        frame = jar_spark.read.format("bloomparquet").load(str(table / partition))
        statement(frame, f"INSERT OVERWRITE {name} PARTITION (p = {value}) SELECT id FROM rows_to_write")
    assert rows(jar_spark.table(name)) == [(0, 0), (1, 1), (1, 2), (1, None), (3, 0), (4, 1), (4, 2), (4, None)]
    frame = jar_spark.read.format("bloomparquet").load(str(table / "p=__HIVE_DEFAULT_PARTITION__"))
    insert = f"INSERT OVERWRITE {name} PARTITION (p = NULL) SELECT id FROM rows_to_write"
    assert_refused(frame, lambda frame, source, path: statement(frame, insert), "", table, table)


@pytest.mark.parametrize("log", [False, True], ids=["it is read", "it is another system's table"])
def test_a_partition_elsewhere_is_protected_too(
    jar_spark: SparkSession, table: Path, tmp_path: Path, log: bool
) -> None:
    """An overwrite of a table deletes the partitions that lie outside of its directory."""
    elsewhere = tmp_path / "elsewhere"
    jar_spark.sql(f"ALTER TABLE ours ADD PARTITION (p = 9) LOCATION '{elsewhere}'")
    jar_spark.range(3).write.mode("overwrite").parquet(str(elsewhere))
    if log:
        (elsewhere / "_delta_log").mkdir()
        (elsewhere / "_delta_log" / f"{0:020}.json").write_text("{}")
    before = all_files(elsewhere), all_files(table)
    read = "range(3)" if log else f"parquet.`{elsewhere}`"
    with pytest.raises(PySparkException, match="is a table of Delta Lake" if log else REFUSED):
        jar_spark.sql(f"INSERT OVERWRITE ours SELECT id, 1 FROM {read}")
    assert (all_files(elsewhere), all_files(table)) == before
    jar_spark.sql(f"INSERT OVERWRITE ours PARTITION (p = 1) SELECT id FROM {read}")
    assert rows(jar_spark.table("ours").where("p = 1")) == [(0, 1), (1, 1), (2, 1)]


def test_an_insert_into_several_tables_is_refused_as_a_whole(
    jar_spark: SparkSession, kept: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    jar_spark.sql(f"CREATE TABLE written (id BIGINT) USING bloomparquet LOCATION '{other}'")
    jar_spark.sql("INSERT INTO written VALUES (7)")
    before = all_files(kept), all_files(other)
    with pytest.raises(AnalysisException, match=REFUSED):
        jar_spark.sql(
            f"FROM (SELECT * FROM parquet.`{kept}` UNION ALL SELECT id, 1 FROM parquet.`{other}`) "
            "INSERT OVERWRITE ours SELECT id, p INSERT OVERWRITE written SELECT id"
        )
    assert (all_files(kept), all_files(other)) == before
    jar_spark.sql("DROP TABLE written")


def test_a_file_that_is_read_is_not_overwritten(jar_spark: SparkSession, table: Path) -> None:
    file = next((table / "p=1").glob("*.parquet"))
    for source in (file, file.parent):
        assert_refused(jar_spark.read.parquet(str(source)), WRITES["save"], "bloomparquet", file, table)
    WRITES["save"](jar_spark.range(2), "bloomparquet", file)
    assert rows(jar_spark.read.parquet(str(file))) == [(0,), (1,)]


def link(lake: Path, name: str, target: str) -> Path:
    """A symbolic link in the lake; `target` is relative to its directory."""
    path = lake / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    return path


def a_file(lake: Path) -> str:
    return next((lake / "real").glob("*.parquet")).name


# the path that is read, and the path that is written
LINKS: dict[str, Callable[[Path], tuple[Path, Path]]] = {
    "a link is read": lambda lake: (link(lake, "link", "real"), lake / "real"),
    "a link is written": lambda lake: (lake / "real", link(lake, "link", "real")),
    "two links": lambda lake: (link(lake, "a", "real"), link(lake, "b", "real")),
    "a link above the source": lambda lake: (link(lake, "x/up", "..") / "real", lake / "real"),
    "a link to the parent is written": lambda lake: (lake / "real", link(lake.parent, "link", "lake")),
    "a link to a file": lambda lake: (link(lake, "one.parquet", f"real/{a_file(lake)}"), lake / "real"),
    "a directory with a link to a file is written": lambda lake: (
        link(lake, f"links/{a_file(lake)}", f"../real/{a_file(lake)}").parent,
        lake / "links",
    ),
    "a partition is a link": lambda lake: (link(lake, "links/p=1", "../real").parent, lake / "real"),
    "dots in a link": lambda lake: (link(lake, "link", "real/../real"), lake / "real"),
    "an absolute link": lambda lake: (link(lake, "link", str(lake / "real")), lake / "real"),
}


# the formats that read and write
PAIRS = [("bloomparquet", "bloomorc"), ("parquet", "bloomparquet"), ("bloomparquet", "parquet")]


@pytest.mark.parametrize(("case", "formats"), list(zip(LINKS, itertools.cycle(PAIRS))))
def test_files_that_are_read_through_links_are_not_overwritten(
    jar_spark: SparkSession, kept: Path, tmp_path: Path, case: str, formats: tuple[str, str]
) -> None:
    lake = tmp_path / "lake"
    shutil.copytree(kept / "p=1", lake / "real")
    read, written = LINKS[case](lake)
    frame = jar_spark.read.format(formats[0]).load(str(read)).select("id")
    assert_refused(frame, WRITES["save"], formats[1], written, tmp_path)
