"""An unknown option name is an error everywhere; names of other software pass."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, SparkSession

from pyspark_bloomparquet import last_plan
from pyspark_bloomparquet.options.table import OPTIONS, ORC, PARQUET, PYTHON, Source
from tests.support.scenarios import ask_all, texts
from tests.support.spark import conf

pytestmark = pytest.mark.slow

SOURCES: tuple[Source, ...] = (PARQUET, ORC)
VALUES = {
    "where": "id >= 0",
    "tableLog": "error",
    "pushFilters": "auto",
    "planning": "auto",
    "index": "off",
    "planningTimeout": "30s",
    "onFilterError": "keep",
    "keyProvider": "spark_kms:every_key",
    "pathGlobFilter": "*",
    "modifiedBefore": "2126-01-31T00:00:00",
    "modifiedAfter": "1996-01-31T00:00:00",
    "timeZone": "UTC",
    "bloomColumns": "id",
    "bloomFpp": "0.1",
    "bloomMaxBytes": "1m",
    "compression": "snappy",
    "partitionOverwriteMode": "static",
}
_names = itertools.count()


@pytest.fixture(scope="module", params=SOURCES)
def source(request: pytest.FixtureRequest, jar_spark: SparkSession) -> Source:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def path(source: Source, jar_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three rows in one file."""
    directory = str(tmp_path_factory.mktemp("names") / "t")
    jar_spark.range(0, 3, 1, 1).write.format(source).save(directory)
    return directory


@pytest.fixture
def table(jar_spark: SparkSession) -> Iterator[str]:
    name = f"optioned_{next(_names)}"
    yield name
    jar_spark.sql(f"DROP TABLE IF EXISTS {name}")


def own_names(source: Source) -> set[str]:
    return {each.name for each in OPTIONS if "." not in each.name and each.source in (None, source)}


def test_the_jar_has_the_same_options_as_python(jar_spark: SparkSession, source: Source, path: str) -> None:
    """An option that the jar accepts may still have no effect: this test sees the names only."""
    with pytest.raises(Exception, match="expected one of") as raised:
        jar_spark.read.format(source).option("zzzzzzzzzzzz", "1").load(path)
    match = re.search(r"has no option 'zzzzzzzzzzzz'; expected one of (.*), or an option of Spark's", str(raised.value))
    assert match is not None
    of_python = {each.name for each in OPTIONS if each.used_by == PYTHON}
    assert set(match[1].split(", ")) == own_names(source) - of_python
    loads: dict[str, DataFrame] = {}
    for each in OPTIONS:
        options = {each.name: VALUES.get(each.name, "true")}
        if each.name in ("path", "paths", "basePath") or "." in each.name:
            continue
        if each.used_by != PYTHON and each.source in (None, source):
            loads[each.name] = jar_spark.read.format(source).options(**options).load(path)
        else:
            with pytest.raises(Exception, match=rf"'?{each.name}'?(: that is one of| is for|.* is not for filters)"):
                jar_spark.read.format(source).options(**options).load(path)
    rows, _ = ask_all(loads.values())
    assert dict(zip(loads, map(len, rows), strict=True)) == dict.fromkeys(loads, 3)


NEAREST = {"wehre": "where", "Predicate": "where", "BLOOMFP": "bloomFpp", "maxFilePerTrigger": "maxFilesPerTrigger"}


def test_a_misspelt_name_suggests_the_nearest(jar_spark: SparkSession, source: Source, path: str) -> None:
    for name, nearest in NEAREST.items():
        with pytest.raises(Exception, match=f"{source} has no option '{name}'; did you mean '{nearest}'") as raised:
            jar_spark.read.format(source).option(name, "id = 1").load(path)
        assert "IllegalArgumentException" in type(raised.value).__name__


class Way(NamedTuple):
    """One use of an option: where it reads, its table, and where it writes."""

    spark: SparkSession
    source: Source
    path: str
    table: str
    to: str
    option: tuple[str, str]

    def reader(self) -> DataFrameReader:
        return self.spark.read.format(self.source).option(*self.option)

    def writer(self, mode: str = "error") -> DataFrameWriter:
        return self.spark.range(3).write.format(self.source).option(*self.option).mode(mode)

    def sql(self, *statements: str) -> None:
        for each in statements:
            self.spark.sql(each.format(**self._asdict(), key=self.option[0], value=self.option[1])).collect()

    def stream(self, of: str) -> None:
        reader = self.spark.readStream.schema("id BIGINT").format(self.source)
        writer = (reader.option(*self.option) if of == "read" else reader).load(self.path).writeStream
        writer = writer.format(self.source).option("checkpointLocation", f"{self.to}-checkpoint")
        query = (writer.option(*self.option) if of == "write" else writer).trigger(availableNow=True).start(self.to)
        try:
            query.awaitTermination(60)
        finally:
            query.stop()


CREATE = "CREATE TABLE {table} (id BIGINT) USING {source}"
# not df.write.insertInto(…), nor saveAsTable(…) to a table that is there: Spark drops their options
WAYS: dict[str, Callable[[Way], Any]] = {
    "load": lambda way: way.reader().load(way.path),
    "load of several paths": lambda way: way.reader().load([way.path, way.path]),
    "temporary view": lambda way: way.sql(
        "CREATE TEMPORARY VIEW v_{table} USING {source} OPTIONS (path '{path}', {key} '{value}')"
    ),
    "a table": lambda way: way.sql(
        CREATE + " OPTIONS ({key} '{value}') LOCATION '{path}'", "SELECT * FROM {table}"
    ),
    "INSERT INTO a table": lambda way: way.sql(
        CREATE + " OPTIONS ({key} '{value}') LOCATION '{to}'", "INSERT INTO {table} VALUES (1)"
    ),
    "CTAS": lambda way: way.sql("CREATE TABLE {table} USING {source} OPTIONS ({key} '{value}') AS SELECT 1 AS id"),
    "save, append": lambda way: way.writer("append").save(way.to),
    "save, overwrite": lambda way: way.writer("overwrite").save(way.to),
    "save, ignore": lambda way: way.writer("ignore").save(way.to),
    "saveAsTable": lambda way: way.writer().saveAsTable(way.table),
    "writeTo": lambda way: way.spark.range(3).writeTo(way.table).using(way.source).option(*way.option).create(),
    "INSERT WITH": lambda way: way.sql(CREATE, "INSERT INTO {table} WITH ({key} = '{value}') VALUES (1)"),
    "SELECT WITH": lambda way: way.sql(
        CREATE + " LOCATION '{path}'", "SELECT * FROM {table} WITH ({key} = '{value}')"
    ),
    "read.table": lambda way: (
        way.sql(CREATE + " LOCATION '{path}'"), way.spark.read.option(*way.option).table(way.table).collect()
    ),
    "path query": lambda way: way.sql("SELECT * FROM {source}.`{path}` WITH ({key} = '{value}')"),
    "readStream": lambda way: way.stream("read"),
    "writeStream": lambda way: way.stream("write"),
}  # fmt: skip


def quoted(name: str, way: str) -> str:
    """The name of an option, as SQL needs it in a query."""
    return f"`{name}`" if "WITH" in way or way == "path query" else name


def written(to: str) -> list[Path]:
    return [file for file in Path(to).rglob("*") if file.suffix in (".parquet", ".orc")]


@pytest.mark.parametrize("way", WAYS)
def test_a_misspelt_name_is_an_error_everywhere(
    jar_spark: SparkSession, source: Source, path: str, table: str, tmp_path: Path, way: str
) -> None:
    to = str(tmp_path / "to")
    with pytest.raises(Exception, match=r"has no option 'bloom[cC]olums'; did you mean 'bloomColumns'\?"):
        WAYS[way](Way(jar_spark, source, path, table, to, ("bloomColums", "id")))
    assert written(to) == []


FOREIGN = ("parquet.some.setting", "orc.some.setting", "fs.some.setting", "mergeSchema")
"""Every way meets one of these in one format, and a load all of them: one function judges the names of all ways."""
ALL_WAYS = zip(itertools.cycle(SOURCES), WAYS, itertools.cycle(FOREIGN[::-1]))
ALL_NAMES = itertools.product(SOURCES, ("load",), FOREIGN)


@pytest.mark.parametrize(("source", "way", "name"), sorted({*ALL_WAYS, *ALL_NAMES}), indirect=["source"])
def test_names_of_other_software_pass_everywhere(
    jar_spark: SparkSession, source: Source, path: str, table: str, tmp_path: Path, way: str, name: str
) -> None:
    WAYS[way](Way(jar_spark, source, path, table, str(tmp_path / "to"), (quoted(name, way), "true")))


def test_a_misspelt_name_in_a_session_is_an_error(
    jar_spark: SparkSession, source: Source, path: str, tmp_path: Path
) -> None:
    expected = f"spark.datasource.{source}.*has no option 'plannning'; did you mean 'planning'"
    with conf(jar_spark, {f"spark.datasource.{source}.plannning": "off"}):
        with pytest.raises(Exception, match=expected):
            jar_spark.read.format(source).load(path)
        with pytest.raises(Exception, match=expected):
            jar_spark.range(3).write.format(source).save(str(tmp_path / "to"))
    with (
        conf(jar_spark, {f"spark.datasource.{source}.where": "id = 1"}),
        pytest.raises(Exception, match="option where belongs to one load, not to a session"),
    ):
        jar_spark.read.format(source).load(path)


SPARKS = {
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    "ignoredPathSegmentRegex": "^_.*",
    "ignoreInvalidPartitionPaths": "true",
    "maxRecordsPerFile": "100",
    "maxFilesPerTrigger": "1",
    "queryName": "one",
    "__internal": "x",
}


def test_sparks_own_options_pass(jar_spark: SparkSession, path: str, source: Source, tmp_path: Path) -> None:
    of_parquet = ("datetimeRebaseMode", "int96RebaseMode")
    since = {"ignoredPathSegmentRegex": (4, 3), "ignoreInvalidPartitionPaths": (4, 1)}
    version = tuple(int(part) for part in jar_spark.version.split(".")[:2])
    loads: dict[str, DataFrame] = {}
    for name, value in SPARKS.items():
        if (name in of_parquet and source == ORC) or version < since.get(name, (4, 1)):
            continue
        loads[name] = jar_spark.read.format(source).option(name, value).load(path).where("id = 1")
        jar_spark.range(3).write.format(source).option(name, value).mode("overwrite").save(str(tmp_path / "to"))
    rows, frame = ask_all(loads.values())
    assert {name: texts(each) for name, each in zip(loads, rows, strict=True)} == {name: ["(1,)"] for name in loads}
    if source == PARQUET:
        assert [(plan.planned, plan.total) for plan in last_plan(frame)] == [(True, 1)] * len(loads)


@pytest.mark.parametrize(("name", "value"), [("keyProvider", "os:abort"), ("planning", "x"), ("where", "(")])
def test_a_table_with_wrong_options_can_be_altered_and_dropped(
    jar_spark: SparkSession, source: Source, path: str, table: str, name: str, value: str
) -> None:
    jar_spark.sql(f"CREATE TABLE {table} (id BIGINT) USING {source} OPTIONS ({name} '{value}') LOCATION '{path}'")
    with pytest.raises(Exception, match="option "):
        jar_spark.table(table).where("id = 1").count()
    jar_spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('quality' = 'gold')")
    jar_spark.sql(f"DROP TABLE {table}")
    assert not jar_spark.catalog.tableExists(table)


NO_LOADS = {
    **dict.fromkeys(("readStream", "a table", "read.table", "SELECT WITH", "path query"), "spark.read.format"),
    **dict.fromkeys(("INSERT INTO a table", "save, append", "save, overwrite"), "a load, and this is a write"),
}


@pytest.mark.parametrize("way", NO_LOADS)
def test_only_loads_take_where(
    jar_spark: SparkSession, source: Source, path: str, table: str, tmp_path: Path, way: str
) -> None:
    name, to = quoted("where", way), str(tmp_path / "to")
    with pytest.raises(Exception, match=f"option where belongs to {NO_LOADS[way]}"):
        WAYS[way](Way(jar_spark, source, path, table, to, (name, "id = 1")))
    assert written(to) == []
