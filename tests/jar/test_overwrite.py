"""No statement overwrites the files that it reads. Spark checks that for its own relations only, so the jar must."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from tests.support.spark import conf, rows

pytestmark = pytest.mark.slow

REFUSED = "that is also being read from"
DYNAMIC = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}
FORMATS = ("bloomparquet", "bloomorc")


def read(spark: SparkSession, path: Path) -> DataFrame:
    return spark.read.format("bloomparquet").load(str(path))


def files(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*.parquet")}


@pytest.fixture
def lake(jar_spark: SparkSession, tmp_path: Path) -> Path:
    """``lake/events``, partitioned by p, and ``lake/events2``."""
    frame = jar_spark.range(12).selectExpr("id", "cast(id % 3 AS INT) AS p")
    frame.write.partitionBy("p").parquet(str(tmp_path / "lake" / "events"))
    frame.write.parquet(str(tmp_path / "lake" / "events2"))
    return tmp_path / "lake"


ROUTES: dict[str, Callable[[SparkSession, Path], None]] = {
    "the same path": lambda spark, lake: (
        read(spark, lake / "events").write.format("bloomparquet").mode("overwrite").save(str(lake / "events"))
    ),
    "the path in another spelling": lambda spark, lake: (
        read(spark, lake / "events").write.format("bloomparquet").mode("overwrite").save(f"file://{lake}/x/../events/")
    ),
    "read here, written as parquet": lambda spark, lake: (
        read(spark, lake / "events").write.mode("overwrite").parquet(str(lake / "events"))
    ),
    "written as JSON": lambda spark, lake: (
        read(spark, lake / "events").write.mode("overwrite").json(str(lake / "events"))
    ),
    "a directory above": lambda spark, lake: read(spark, lake / "events").write.mode("overwrite").parquet(str(lake)),
    "a partition of the table being read": lambda spark, lake: (
        read(spark, lake / "events").where("id > 3").write.mode("overwrite").parquet(str(lake / "events" / "p=1"))
    ),
    "one of several paths": lambda spark, lake: (
        spark.read.format("bloomparquet")
        .load([str(lake / "events2"), str(lake / "events" / "p=0")])
        .write.mode("overwrite")
        .parquet(str(lake / "events2"))
    ),
    "paths by a glob": lambda spark, lake: (
        read(spark, lake / "event*2").write.mode("overwrite").parquet(str(lake / "events2"))
    ),
    "no rows": lambda spark, lake: (
        read(spark, lake / "events").where("p = 7").write.mode("overwrite").parquet(str(lake / "events"))
    ),
    "an aggregate": lambda spark, lake: (
        read(spark, lake / "events2").groupBy().max("id").write.mode("overwrite").parquet(str(lake / "events2"))
    ),
    "one side of a join": lambda spark, lake: (
        spark.range(3)
        .join(read(spark, lake / "events"), "id")
        .write.format("bloomparquet")
        .mode("overwrite")
        .save(str(lake / "events"))
    ),
    "INSERT OVERWRITE DIRECTORY": lambda spark, lake: (
        read(spark, lake / "events").createOrReplaceTempView("ev"),
        spark.sql(f"INSERT OVERWRITE DIRECTORY '{lake}/events' USING bloomparquet SELECT * FROM ev"),
    )[0],
    "a scalar subquery": lambda spark, lake: (
        read(spark, lake / "events").createOrReplaceTempView("ev"),
        spark.sql("SELECT (SELECT max(id) FROM ev) AS m").write.mode("overwrite").parquet(str(lake / "events")),
    )[0],
    "an IN subquery": lambda spark, lake: (
        read(spark, lake / "events").createOrReplaceTempView("ev"),
        spark.sql("SELECT id FROM range(5) WHERE id IN (SELECT id FROM ev)")
        .write.mode("overwrite")
        .parquet(str(lake / "events")),
    )[0],
    "a cached frame that is not computed yet": lambda spark, lake: (
        read(spark, lake / "events").cache().write.mode("overwrite").parquet(str(lake / "events"))
    ),
    "another session": lambda spark, lake: (
        read(spark.newSession(), lake / "events").write.mode("overwrite").parquet(str(lake / "events"))
    ),
    "an INSERT into several tables": lambda spark, lake: (
        read(spark, lake / "events2").createOrReplaceTempView("ev"),
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW target USING bloomparquet OPTIONS (path '{lake}/events2')"),
        spark.sql("FROM ev INSERT OVERWRITE target SELECT id, p INSERT INTO target SELECT id, p"),
    )[0],
}


@pytest.mark.parametrize("route", ROUTES)
def test_files_being_read_are_not_overwritten(jar_spark: SparkSession, lake: Path, route: str) -> None:
    before = files(lake)
    with pytest.raises(AnalysisException, match=REFUSED):
        ROUTES[route](jar_spark, lake)
    assert files(lake) == before
    jar_spark.catalog.clearCache()


TABLES: dict[str, str] = {
    "INSERT OVERWRITE itself": "INSERT OVERWRITE {t} SELECT id + 1, p FROM {t}",
    "by a common table expression": "WITH x AS (SELECT * FROM {t}) INSERT OVERWRITE {t} SELECT * FROM x",
    "INSERT OVERWRITE a partition of itself": "INSERT OVERWRITE {t} PARTITION (p = 1) SELECT id FROM {t} WHERE p = 2",
    "CREATE OR REPLACE by itself": "CREATE OR REPLACE TABLE {t} USING bloomparquet AS SELECT * FROM {t}",
    "REPLACE by its path": "REPLACE TABLE {t} USING bloomparquet AS SELECT id FROM bloomparquet.`{path}`",
    "REPLACE over another's files": (
        "CREATE OR REPLACE TABLE {t}_new USING bloomparquet LOCATION '{path}' AS SELECT id FROM {t}"
    ),
}


@pytest.mark.parametrize("statement", TABLES)
def test_a_table_being_read_is_not_overwritten(jar_spark: SparkSession, statement: str) -> None:
    jar_spark.range(9).selectExpr("id", "id % 3 p").write.format("bloomparquet").partitionBy("p").saveAsTable("guarded")
    try:
        path = directory(jar_spark, "guarded").parent
        before = files(path)
        with pytest.raises(AnalysisException, match=REFUSED):
            jar_spark.sql(TABLES[statement].format(t="guarded", path=path))
        assert files(path) == before
        assert rows(jar_spark.table("guarded")) == [(i, i % 3) for i in range(9)]
    finally:
        jar_spark.sql("DROP TABLE guarded")


def test_a_table_is_not_saved_over_itself(jar_spark: SparkSession) -> None:
    jar_spark.range(5).write.format("bloomparquet").saveAsTable("itself")
    try:
        with pytest.raises(AnalysisException, match=REFUSED):
            jar_spark.table("itself").write.format("bloomparquet").mode("overwrite").saveAsTable("itself")
        with pytest.raises(AnalysisException, match=REFUSED):
            jar_spark.table("itself").write.mode("overwrite").insertInto("itself")
        assert rows(jar_spark.table("itself")) == [(i,) for i in range(5)]
    finally:
        jar_spark.sql("DROP TABLE itself")


def test_a_parquet_table_read_by_path_is_not_replaced(jar_spark: SparkSession) -> None:
    """Replacing a managed table deletes its files, also those of another source."""
    jar_spark.range(5).write.format("parquet").saveAsTable("plain")
    try:
        frame = read(jar_spark, directory(jar_spark, "plain"))
        with pytest.raises(AnalysisException, match=REFUSED):
            frame.write.format("bloomparquet").mode("overwrite").saveAsTable("plain")
        assert rows(jar_spark.table("plain")) == [(i,) for i in range(5)]
    finally:
        jar_spark.sql("DROP TABLE plain")


def test_partitions_that_are_not_read_can_be_overwritten(jar_spark: SparkSession, lake: Path) -> None:
    for name in ("parquet", "bloomparquet"):
        frame = jar_spark.read.format(name).load(str(lake / "events")).where("p = 2").select("id")
        frame.write.mode("overwrite").parquet(str(lake / "events" / "p=1"))
        assert rows(jar_spark.read.parquet(str(lake / "events")).where("p = 1").select("id")) == rows(frame)


def test_dynamic_overwrite_may_read_its_partitions(jar_spark: SparkSession, lake: Path) -> None:
    """Spark allows this in dynamic mode, which deletes after reading."""
    shutil.copytree(lake / "events", lake / "copy")
    results = []
    for name, path in (("parquet", lake / "copy"), ("bloomparquet", lake / "events")):
        with conf(jar_spark, DYNAMIC):
            frame = jar_spark.read.format(name).load(str(path)).where("p = 1").selectExpr("id + 100 AS id", "p")
            frame.write.format(name).mode("overwrite").partitionBy("p").save(str(path))
        results.append(rows(jar_spark.read.parquet(str(path))))
    assert results[0] == results[1]
    assert (101, 1) in results[1]
    assert (0, 0) in results[1]


@pytest.mark.parametrize("mode", ["overwrite", "append"])
def test_a_sibling_directory_can_be_overwritten(jar_spark: SparkSession, lake: Path, mode: str) -> None:
    """``events2`` starts with the name ``events``, but is not inside it."""
    read(jar_spark, lake / "events").write.format("bloomparquet").mode(mode).save(str(lake / "events2"))
    read(jar_spark, lake / "events2").write.format("bloomparquet").mode(mode).save(str(lake / "event"))
    expected = [(i, i % 3) for i in range(12)] * (1 if mode == "overwrite" else 2)
    assert rows(jar_spark.read.parquet(str(lake / "event")).select("id", "p")) == sorted(expected, key=repr)


def test_a_table_can_append_its_own_rows(jar_spark: SparkSession, lake: Path) -> None:
    read(jar_spark, lake / "events2").write.format("bloomparquet").mode("append").save(str(lake / "events2"))
    assert read(jar_spark, lake / "events2").count() == 24


def directory(spark: SparkSession, table: str) -> Path:
    """The directory of one of the table's files."""
    return Path(spark.table(table).inputFiles()[0].removeprefix("file:").replace("///", "/")).parent


def test_a_session_with_a_global_view_is_guarded(jar_spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "shared")
    jar_spark.range(5).write.parquet(path)
    before = sorted(file.name for file in Path(path).iterdir())
    jar_spark.read.format("bloomparquet").load(path).createOrReplaceGlobalTempView("guarded")
    other = jar_spark.newSession()
    try:
        with pytest.raises(AnalysisException, match="being read"):
            other.table("global_temp.guarded").write.mode("overwrite").parquet(path)
        assert sorted(file.name for file in Path(path).iterdir()) == before
    finally:
        jar_spark.catalog.dropGlobalTempView("guarded")


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
@pytest.mark.parametrize("case", LINKS)
def test_links_to_files_being_read_are_not_overwritten(
    jar_spark: SparkSession, tmp_path: Path, source: str, case: str
) -> None:
    lake = tmp_path / "lake"
    plain = source.removeprefix("bloom")
    jar_spark.range(5).write.format(plain).save(str(lake / "real"))
    read_from, written = LINKS[case](lake)
    frame = jar_spark.read.format(source).load(str(read_from))
    before = {path: path.read_bytes() for path in lake.rglob("*") if path.is_file()}
    assert frame.count() >= 1
    for name in (plain, source):
        with pytest.raises(AnalysisException, match=REFUSED):
            frame.write.format(name).mode("overwrite").save(str(written))
    frame.createOrReplaceTempView("linked")
    with pytest.raises(AnalysisException, match=REFUSED):
        jar_spark.sql(f"INSERT OVERWRITE DIRECTORY '{written}' USING {source} SELECT id FROM linked")
    assert {path: path.read_bytes() for path in lake.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("source", FORMATS)
def test_a_table_at_a_link_is_not_overwritten(jar_spark: SparkSession, tmp_path: Path, source: str) -> None:
    jar_spark.range(5).write.format(source).save(str(tmp_path / "real"))
    link(tmp_path, "link", "real")
    for name in ("real", "link"):
        jar_spark.sql(f"CREATE TABLE at_{name} USING {source} LOCATION '{tmp_path}/{name}'")
    try:
        for text in (
            "INSERT OVERWRITE at_real SELECT * FROM at_link",
            "INSERT OVERWRITE at_link SELECT * FROM at_real",
            f"CREATE OR REPLACE TABLE at_real USING {source} LOCATION '{tmp_path}/real' AS SELECT * FROM at_link",
            f"CREATE OR REPLACE TABLE at_new USING {source} LOCATION '{tmp_path}/link' AS SELECT * FROM at_real",
        ):
            with pytest.raises(AnalysisException, match=REFUSED):
                jar_spark.sql(text)
        for name in ("real", "link"):
            assert rows(jar_spark.table(f"at_{name}")) == [(i,) for i in range(5)]
    finally:
        for name in ("real", "link"):
            jar_spark.sql(f"DROP TABLE IF EXISTS at_{name}")


def test_links_that_lead_elsewhere_can_be_overwritten(jar_spark: SparkSession, tmp_path: Path) -> None:
    """A link next to the files, and a link that was written to before, do no harm."""
    jar_spark.range(5).write.parquet(str(tmp_path / "real"))
    (tmp_path / "other").mkdir()
    written = link(tmp_path, "link", "other")
    read(jar_spark, tmp_path / "real").write.format("bloomparquet").mode("overwrite").save(str(written))
    assert rows(jar_spark.read.parquet(str(tmp_path / "other"))) == [(i,) for i in range(5)]
    link(tmp_path, "links/p=1", "../other")
    read(jar_spark, tmp_path / "real").write.format("bloomparquet").mode("overwrite").save(str(tmp_path / "links"))
    assert rows(jar_spark.read.parquet(str(tmp_path / "other"))) == [
        (i,) for i in range(5)
    ]  # only the link was deleted
    assert rows(jar_spark.read.parquet(str(tmp_path / "links"))) == [(i,) for i in range(5)]


@pytest.mark.parametrize("source", FORMATS)
def test_a_path_query_through_a_link_is_guarded(jar_spark: SparkSession, tmp_path: Path, source: str) -> None:
    plain = source.removeprefix("bloom")
    jar_spark.range(5).write.format(source).save(str(tmp_path / "real"))
    link(tmp_path, "link", "real")
    jar_spark.sql(f"CREATE TABLE at_path USING {plain} LOCATION '{tmp_path}/real'")
    try:
        with pytest.raises(AnalysisException, match=REFUSED):
            jar_spark.sql(f"INSERT OVERWRITE at_path SELECT * FROM {source}.`{tmp_path}/link`")
        assert rows(jar_spark.table("at_path")) == [(i,) for i in range(5)]
    finally:
        jar_spark.sql("DROP TABLE at_path")


@pytest.mark.parametrize("source", FORMATS)
def test_rows_that_spark_reads_by_a_link_are_not_lost(jar_spark: SparkSession, tmp_path: Path, source: str) -> None:
    """Spark compares paths by name only, but the old files are deleted after the new ones are written."""
    jar_spark.range(5).write.format(source).save(str(tmp_path / "real"))
    link(tmp_path, "link", "real")
    frame = jar_spark.read.format(source.removeprefix("bloom")).load(str(tmp_path / "link"))
    frame.write.format(source).mode("overwrite").save(str(tmp_path / "real"))
    assert rows(read_as(jar_spark, source, tmp_path / "real")) == [(i,) for i in range(5)]


def read_as(spark: SparkSession, source: str, path: Path) -> DataFrame:
    return spark.read.format(source).load(str(path))


@pytest.mark.parametrize("name", ["a b", "a%20b", "a%2Fb", "a+b", "ä", "#x?y"])
def test_names_with_url_escapes_are_guarded(jar_spark: SparkSession, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    jar_spark.range(5).write.parquet(str(path))
    link(tmp_path, "link", name)
    for written in (
        str(path),
        f"{path}/",
        f"{tmp_path}/x/../{name}",
        str(tmp_path / "link"),
        f"file://{tmp_path}/link",
    ):
        with pytest.raises(AnalysisException, match=REFUSED):
            read(jar_spark, path).write.mode("overwrite").parquet(written)
    assert read(jar_spark, path).count() == 5
