"""A frame overwrites the files that it reads: our formats delete the old files last. Spark's formats are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from tests.support.spark import conf, rows

pytestmark = pytest.mark.slow

FORMATS = ("bloomparquet", "bloomorc")


def link(lake: Path, name: str, target: str) -> Path:
    """A symbolic link in the lake; `target` is relative to its directory."""
    path = lake / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    return path


def a_file(lake: Path) -> str:
    return next(path for path in sorted((lake / "real").iterdir()) if path.suffix in (".parquet", ".orc")).name


def dots_after_a_link(lake: Path) -> Path:
    """A link to ``x/../other``, where ``x`` is a link: ``..`` is the parent of its target."""
    (lake / "deep" / "inner").mkdir(parents=True)
    link(lake, "x", "deep/inner")
    link(lake, "deep/other", "../real")
    return link(lake, "link", "x/../other")


# the path that is read, and the path that is written
LINKS: dict[str, Callable[[Path], tuple[Path, Path]]] = {
    "a link is read": lambda lake: (link(lake, "link", "real"), lake / "real"),
    "a link is written": lambda lake: (lake / "real", link(lake, "link", "real")),
    "two links": lambda lake: (link(lake, "a", "real"), link(lake, "b", "real")),
    "a link to a link": lambda lake: (link(lake, "b", link(lake, "a", "real").name), lake / "real"),
    "the link itself": lambda lake: (link(lake, "link", "real"), lake / "link"),
    "a link above the source": lambda lake: (link(lake, "x/up", "..") / "real", lake / "real"),
    "a link above the target": lambda lake: (lake / "real", link(lake, "x/up", "..") / "real"),
    "a link to the parent is written": lambda lake: (lake / "real", link(lake.parent, "link", "lake")),
    "a link to a file": lambda lake: (
        link(lake, "one" + Path(a_file(lake)).suffix, f"real/{a_file(lake)}"),
        lake / "real",
    ),
    "a directory with a link to a file": lambda lake: (
        link(lake, f"links/{a_file(lake)}", f"../real/{a_file(lake)}").parent,
        lake / "real",
    ),
    "a directory with a link to a file is written": lambda lake: (
        link(lake, f"links/{a_file(lake)}", f"../real/{a_file(lake)}").parent,
        lake / "links",
    ),
    "a partition is a link": lambda lake: (link(lake, "links/p=1", "../real").parent, lake / "real"),
    "a directory with the link on the way": lambda lake: (
        link(lake, "outer", str(link(lake, "way/inner", "../real").relative_to(lake))),
        lake / "way",
    ),
    "dots in a link": lambda lake: (link(lake, "link", "real/../real"), lake / "real"),
    "dots after a link": lambda lake: (dots_after_a_link(lake), lake / "real"),
    "an absolute link": lambda lake: (link(lake, "link", str(lake / "real")), lake / "real"),
}


@pytest.mark.parametrize("source", FORMATS)
def test_files_that_are_read_through_links_are_overwritten(
    jar_spark: SparkSession, tmp_path: Path, source: str
) -> None:
    for number, case in enumerate(LINKS):
        lake = tmp_path / str(number) / "lake"
        jar_spark.range(5).write.format(source.removeprefix("bloom")).save(str(lake / "real"))
        read_from, written = LINKS[case](lake)
        frame = jar_spark.read.format(source).load(str(read_from)).select("id")
        expected = rows(frame)
        assert expected, case
        frame.write.format(source).mode("overwrite").save(str(written))
        assert rows(jar_spark.read.format(source).load(str(written)).select("id")) == expected, case


@pytest.mark.parametrize("source", FORMATS)
def test_partitions_that_are_read_are_overwritten(jar_spark: SparkSession, tmp_path: Path, source: str) -> None:
    path = str(tmp_path / "t")
    frame = jar_spark.range(12).selectExpr("id", "cast(id % 3 AS INT) AS p")
    frame.write.format(source).partitionBy("p").save(path)
    loaded = jar_spark.read.format(source).load(path)
    loaded.where("p < 2").write.format(source).mode("overwrite").partitionBy("p").save(path)
    expected = [(i, i % 3) for i in range(12) if i % 3 < 2]
    assert rows(jar_spark.read.format(source).load(path)) == sorted(expected, key=repr)


def test_a_cached_frame_overwrites_its_files(jar_spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    jar_spark.range(5).write.parquet(path)
    frame = jar_spark.read.format("bloomparquet").load(path).cache()
    frame.selectExpr("id + 1 AS id").write.format("bloomparquet").mode("overwrite").save(path)
    assert rows(jar_spark.read.parquet(path)) == [(i + 1,) for i in range(5)]
    frame.unpersist()


READS: dict[str, Callable[[SparkSession, str], DataFrame]] = {
    "a frame": lambda spark, path: spark.read.format("bloomparquet").load(path),
    "a cached frame": lambda spark, path: spark.read.format("bloomparquet").load(path).cache(),
    "a directory in it": lambda spark, path: spark.read.format("bloomparquet").load(f"{path}/p=1"),
    "a subquery": lambda spark, path: spark.range(1).where(
        f"id IN (SELECT id FROM bloomparquet.`{path}`) OR EXISTS (SELECT * FROM loaded)"
    ),
}


@pytest.mark.parametrize("case", READS)
def test_sparks_formats_do_not_overwrite_what_is_loaded(jar_spark: SparkSession, tmp_path: Path, case: str) -> None:
    path, link = str(tmp_path / "t"), str(tmp_path / "link")
    jar_spark.range(6).selectExpr("id", "CAST(id % 2 AS INT) AS p").write.partitionBy("p").parquet(path)
    Path(link).symlink_to("t")
    jar_spark.read.format("bloomparquet").load(path).createOrReplaceTempView("loaded")
    frame = READS[case](jar_spark, path)
    for target in (path, link):
        with pytest.raises(AnalysisException, match="UNSUPPORTED_OVERWRITE"):
            frame.write.mode("overwrite").parquet(target)
    frame.unpersist()
    assert jar_spark.read.parquet(path).count() == 6
    frame.write.mode("overwrite").parquet(str(tmp_path / "other"))
    assert jar_spark.read.parquet(str(tmp_path / "other")).count() > 0
    jar_spark.catalog.dropTempView("loaded")


@pytest.fixture
def loaded(jar_spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """Six rows in three partitions, and the table ``loaded`` over them."""
    path = str(tmp_path / "t")
    jar_spark.range(6).selectExpr("id", "CAST(id % 3 AS INT) AS p").write.partitionBy("p").parquet(path)
    jar_spark.sql(f"CREATE TABLE loaded USING bloomparquet LOCATION '{path}'")
    jar_spark.sql("MSCK REPAIR TABLE loaded")
    yield path
    jar_spark.sql("DROP TABLE loaded")
    jar_spark.sql("DROP TABLE IF EXISTS written")


ROUTES: dict[str, Callable[[SparkSession, str], DataFrame]] = {
    "a load": lambda spark, path: spark.read.format("bloomparquet").load(path),
    "a load of files": lambda spark, path: (
        spark.read.format("bloomparquet")
        .option("basePath", path)
        .load([str(p) for p in Path(path).glob("p=*/*.parquet")])
    ),
    "a path query": lambda spark, path: spark.sql(f"SELECT * FROM bloomparquet.`{path}`"),
    "a table": lambda spark, path: spark.table("loaded"),
    "a cached load": lambda spark, path: spark.read.format("bloomparquet").load(path).cache(),
    "a cached table": lambda spark, path: spark.table("loaded").selectExpr("*").cache(),
}


def save_as_parquet(frame: DataFrame, path: str) -> None:
    frame.drop("p").write.mode("overwrite").parquet(path)


def insert_into_directory(frame: DataFrame, path: str) -> None:
    frame.drop("p").createOrReplaceTempView("rows_to_write")
    frame.sparkSession.sql(f"INSERT OVERWRITE DIRECTORY '{path}' USING parquet SELECT * FROM rows_to_write")


def insert_into_table(frame: DataFrame, path: str) -> None:
    frame.drop("p").createOrReplaceTempView("rows_to_write")
    frame.sparkSession.sql(f"CREATE TABLE written (id BIGINT) USING parquet LOCATION '{path}'")
    frame.sparkSession.sql("INSERT OVERWRITE TABLE written SELECT * FROM rows_to_write")


WRITES = {"save": save_as_parquet, "INSERT DIRECTORY": insert_into_directory, "INSERT TABLE": insert_into_table}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("route", ROUTES)
def test_a_loaded_partition_is_not_overwritten(jar_spark: SparkSession, loaded: str, route: str, write: str) -> None:
    frame = ROUTES[route](jar_spark, loaded)
    with pytest.raises(AnalysisException, match="UNSUPPORTED_OVERWRITE"):
        WRITES[write](frame.where("p = 1"), f"{loaded}/p=1")
    frame.unpersist()
    assert jar_spark.read.parquet(loaded).count() == 6


@pytest.mark.parametrize("route", ROUTES)
def test_the_directory_of_a_load_is_not_overwritten(jar_spark: SparkSession, loaded: str, route: str) -> None:
    frame = ROUTES[route](jar_spark, loaded)
    for target in (loaded, str(Path(loaded).parent)):
        with pytest.raises(AnalysisException, match="UNSUPPORTED_OVERWRITE"):
            frame.write.mode("overwrite").parquet(target)
    frame.unpersist()
    assert jar_spark.read.parquet(loaded).count() == 6


@pytest.mark.parametrize("route", ["a load", "a path query", "a table"])
def test_a_partition_that_is_not_read_is_overwritten(jar_spark: SparkSession, loaded: str, route: str) -> None:
    frame = ROUTES[route](jar_spark, loaded)
    save_as_parquet(frame.where("p = 1 AND id > 0"), f"{loaded}/p=2")
    save_as_parquet(frame.where("p = 1"), f"{loaded}/p=7")
    assert rows(jar_spark.read.parquet(loaded)) == [
        (0, 0), (1, 1), (1, 2), (1, 7), (3, 0), (4, 1), (4, 2), (4, 7)
    ]  # fmt: skip


def test_a_where_may_leave_out_the_overwritten_partition(jar_spark: SparkSession, loaded: str) -> None:
    frame = jar_spark.read.format("bloomparquet").option("where", "p = 1").load(loaded)
    with pytest.raises(AnalysisException, match="UNSUPPORTED_OVERWRITE"):
        save_as_parquet(frame, f"{loaded}/p=1")
    save_as_parquet(frame, f"{loaded}/p=2")
    assert rows(jar_spark.read.parquet(loaded)) == [(0, 0), (1, 1), (1, 2), (3, 0), (4, 1), (4, 2)]


@pytest.mark.parametrize("route", ["a load", "a path query"])
def test_a_partition_that_is_a_link_is_not_overwritten(
    jar_spark: SparkSession, loaded: str, tmp_path: Path, route: str
) -> None:
    Path(loaded, "p=1").rename(tmp_path / "elsewhere")
    Path(loaded, "p=1").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AnalysisException, match="UNSUPPORTED_OVERWRITE"):
        save_as_parquet(ROUTES[route](jar_spark, loaded), str(tmp_path / "elsewhere"))
    assert jar_spark.read.parquet(loaded).count() == 6


def test_sparks_formats_overwrite_dynamic_partitions_they_read(jar_spark: SparkSession, loaded: str) -> None:
    with conf(jar_spark, {"spark.sql.sources.partitionOverwriteMode": "dynamic"}):
        frame = jar_spark.sql(f"SELECT id + 10 AS id, p FROM bloomparquet.`{loaded}` WHERE p = 1")
        frame.write.mode("overwrite").partitionBy("p").parquet(loaded)
    assert rows(jar_spark.read.parquet(loaded)) == [(0, 0), (11, 1), (14, 1), (2, 2), (3, 0), (5, 2)]


@pytest.mark.parametrize("route", ["a load", "a path query"])
def test_a_static_partition_is_made_from_another_one(jar_spark: SparkSession, loaded: str, route: str) -> None:
    jar_spark.sql(f"CREATE TABLE written USING parquet LOCATION '{loaded}'")
    insert = "INSERT OVERWRITE written PARTITION (p = 2) SELECT id FROM source"
    ROUTES[route](jar_spark, f"{loaded}/p=1").createOrReplaceTempView("source")
    jar_spark.sql(insert)
    assert rows(jar_spark.read.parquet(loaded)) == [(0, 0), (1, 1), (1, 2), (3, 0), (4, 1), (4, 2)]
    ROUTES[route](jar_spark, f"{loaded}/p=2").createOrReplaceTempView("source")
    with pytest.raises(AnalysisException, match="UNSUPPORTED_OVERWRITE"):
        jar_spark.sql(insert)
