"""A frame overwrites the files that it reads: our formats delete the old files last. Spark's formats are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from tests.support.spark import rows

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
