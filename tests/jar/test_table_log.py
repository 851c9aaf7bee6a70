"""The jar does not read Delta Lake, Iceberg and Hudi tables as plain files, and does not write to them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException, UnsupportedOperationException
from pyspark.sql import DataFrame, SparkSession

from tests.support import table_logs
from tests.support.scenarios import PYTHON
from tests.support.spark import conf, rows
from tests.support.table_logs import CASES, DATA, DELTA, HUDI, ICEBERG, Case

pytestmark = pytest.mark.slow

ROWS = pa.table({"v": list(range(100))})
FORMATS = ["bloomparquet", "bloomorc"]
WRITABLE = {name: case for name, case in CASES.items() if not re.search(r"[*{]", case.path)}
LOGS = {"Delta Lake": DELTA, "Iceberg": ICEBERG, "Hudi": HUDI}


def crossed(ways: Iterable[str]) -> list[tuple[str, str, str]]:
    """Every way with a format and a kind of table in turn: what a log is depends on neither the way nor the format."""
    return list(zip(itertools.cycle(FORMATS), itertools.cycle(LOGS), ways))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[bytes, str]]:
    """The bytes of a file with one row group, and its suffix, for each format."""
    root = tmp_path_factory.mktemp("data")
    pq.write_table(ROWS, root / "a.parquet")
    orc.write_table(ROWS, str(root / "a.orc"))
    files = {source: ((root / f"a{suffix}").read_bytes(), suffix) for source, suffix in SUFFIXES.items()}
    return {**files, PYTHON: files["bloomparquet"]}


SUFFIXES = {"bloomparquet": ".parquet", "bloomorc": ".orc"}


@pytest.fixture
def session(jar_spark: SparkSession) -> Iterator[SparkSession]:
    """A session whose tables are dropped after the test."""
    yield jar_spark
    for view in ("t", "rows"):
        jar_spark.catalog.dropTempView(view)
    jar_spark.sql("DROP TABLE IF EXISTS t")


def contents(root: Path) -> dict[str, bytes | None]:
    """Every file and directory below `root`, without following links."""
    return {str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in root.rglob("*")}


@pytest.mark.parametrize(
    ("source", "name"), [*(("bloomparquet", name) for name in CASES), ("bloomorc", "Iceberg"), (PYTHON, "Delta Lake")]
)
def test_a_table_with_a_log_is_not_loaded(
    jar_spark: SparkSession, tmp_path: Path, data: dict[str, tuple[bytes, str]], source: str, name: str
) -> None:
    case = CASES[name]
    path = table_logs.make(tmp_path, case, *data[source])
    readers = [jar_spark.read.format(source).option("recursiveFileLookup", case.is_nested) for _ in range(3)]
    expected = rows(readers[0].option("tableLog", "ignore").load(path).select("v"))
    assert len(expected) >= 100
    for given in (readers[1], readers[2].schema("v BIGINT")):
        if case.kind is None:
            assert rows(given.load(path).select("v")) == expected
        else:
            with pytest.raises(PySparkException, match=f"is a table of {case.kind}: its log, .* says which files"):
                given.load(path).collect()


def test_the_error_says_how_to_read_the_table(
    jar_spark: SparkSession, tmp_path: Path, data: dict[str, tuple[bytes, str]]
) -> None:
    path = table_logs.make(tmp_path, CASES["a Delta table below"], *data["bloomparquet"])
    table = f"file:{tmp_path}/lake/t"
    with pytest.raises(UnsupportedOperationException) as error:
        jar_spark.read.format("bloomparquet").option("recursiveFileLookup", True).load(path)
    assert f"{table} is a table of Delta Lake: its log, {table}/_delta_log, says" in str(error.value)
    assert f'spark.read.format("delta").load("{table}")' in str(error.value)
    assert "tableLog=ignore" in str(error.value)


WAYS = [("bloomparquet", "append"), ("bloomorc", "overwrite")]
# Where a mode makes a difference, both modes; elsewhere an overwrite, which looks further.
WRITTEN = [
    (*way, name)
    for name, case in WRITABLE.items()
    for way in (WAYS if case.may_append != case.may_overwrite else WAYS[1:])
]


@pytest.mark.parametrize(("source", "mode", "name"), WRITTEN)
def test_nothing_is_written_into_such_a_table(
    jar_spark: SparkSession, tmp_path: Path, data: dict[str, tuple[bytes, str]], source: str, mode: str, name: str
) -> None:
    case = CASES[name]
    path = table_logs.make(tmp_path, case, *data[source])
    before = contents(tmp_path)
    writer = jar_spark.range(3).selectExpr("id AS v").write.format(source).mode(mode)
    if case.may_append if mode == "append" else case.may_overwrite:
        kept = 100 if mode == "append" else 0
        writer.save(path)
        frame = (
            jar_spark.read.format(source).option("recursiveFileLookup", True).option("tableLog", "ignore").load(path)
        )
        assert frame.count() >= kept + 3
        if case.kind is not None:  # the other table did not change
            assert {name for name in before if name.startswith("t/")} <= contents(tmp_path).keys()
    else:
        with pytest.raises(UnsupportedOperationException, match=r"is a table of .* Nothing was written"):
            writer.save(path)
        assert contents(tmp_path) == before


Write = Callable[[DataFrame, str, Path], None]


def save(mode: str, inner: str = "", **options: str) -> Write:
    return lambda frame, source, path: frame.write.format(source).mode(mode).options(**options).save(str(path / inner))


def statement(*texts: str) -> Write:
    def run(frame: DataFrame, source: str, path: Path) -> None:
        frame.createOrReplaceTempView("rows")
        for text in texts:
            frame.sparkSession.sql(text.format(source=source, path=path))

    return run


def write_stream(frame: DataFrame, source: str, path: Path) -> None:
    stream = frame.sparkSession.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load()
    writer = stream.selectExpr("value AS v").writeStream.format(source)
    writer.option("checkpointLocation", frame.sparkSession.conf.get("tests.checkpoint")).trigger(once=True).start(
        str(path)
    ).awaitTermination()


MADE = "CREATE TABLE t (v BIGINT) USING {source} OPTIONS (tableLog 'ignore') LOCATION '{path}'"
VIEW = "CREATE TEMPORARY VIEW t USING {source} OPTIONS (path '{path}', tableLog 'ignore')"
WRITES: dict[str, Write] = {
    "append": save("append"),
    "overwrite": save("overwrite"),
    "error": save("error", "new"),
    "ignored logs are for reading": save("overwrite", tableLog="ignore"),
    "dynamic overwrite": lambda frame, source, path: (
        frame.selectExpr("v", "1 AS p")
        .write.format(source)
        .mode("overwrite")
        .option("partitionOverwriteMode", "dynamic")
        .partitionBy("p")
        .save(str(path))
    ),
    "INSERT OVERWRITE a table": statement(MADE, "INSERT OVERWRITE t SELECT * FROM rows"),
    "INSERT INTO a view": statement(VIEW, "INSERT INTO t SELECT v FROM rows"),
    "INSERT OVERWRITE DIRECTORY": statement("INSERT OVERWRITE DIRECTORY '{path}' USING {source} SELECT * FROM rows"),
    "a stream": write_stream,
}


@pytest.mark.parametrize(("source", "kind", "write"), crossed(WRITES))
def test_every_way_to_write_refuses(
    session: SparkSession, tmp_path: Path, data: dict[str, tuple[bytes, str]], source: str, kind: str, write: str
) -> None:
    table_logs.make(tmp_path / "x", Case("t", (f"t/{LOGS[kind]}", f"t/a{DATA}")), *data[source])
    before = contents(tmp_path / "x")
    session.conf.set("tests.checkpoint", str(tmp_path / "checkpoint"))
    with pytest.raises(PySparkException, match=f"t is a table of {kind}: its log, .* Nothing was written"):
        WRITES[write](session.range(3).selectExpr("id AS v"), source, tmp_path / "x" / "t")
    # a stream's sink makes an empty directory for its log before it writes
    after = {name: value for name, value in contents(tmp_path / "x").items() if name in before or value is not None}
    assert after == before


def test_a_table_inside_a_partition_is_not_overwritten(
    session: SparkSession, tmp_path: Path, data: dict[str, tuple[bytes, str]]
) -> None:
    """A dynamic overwrite knows its partitions only after writing, so it is refused before."""
    table_logs.make(tmp_path, Case("t", (f"t/p=1/{DELTA}", f"t/p=1/a{DATA}", f"t/p=2/a{DATA}")), *data["bloomparquet"])
    before = contents(tmp_path)
    frame = session.range(3).selectExpr("id AS v", "id % 3 AS p")
    writer = frame.write.format("bloomparquet").option("partitionOverwriteMode", "dynamic").partitionBy("p")
    with pytest.raises(PySparkException, match="p=1 is a table of Delta Lake"):
        writer.mode("overwrite").save(f"{tmp_path}/t")
    assert contents(tmp_path) == before


@pytest.fixture
def mounted(jar_spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """`tmp_path` as a remote file system."""
    cluster = f"c{abs(hash(tmp_path))}"
    hadoop = jar_spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set(f"fs.viewfs.mounttable.{cluster}.link./data", tmp_path.as_uri())
    yield f"viewfs://{cluster}/data"
    hadoop.unset(f"fs.viewfs.mounttable.{cluster}.link./data")


def test_plain_scans_refuse_nothing(session: SparkSession, tmp_path: Path, data: dict[str, tuple[bytes, str]]) -> None:
    """A table, a path query and a stream are Spark's own: they read the files that are there."""
    path = table_logs.make(tmp_path, Case("t", (f"t/{DELTA}", f"t/a{DATA}")), *data["bloomparquet"])
    session.sql(f"CREATE TABLE t (v BIGINT) USING bloomparquet LOCATION '{path}'")
    assert session.table("t").count() == session.sql(f"SELECT * FROM bloomparquet.`{path}`").count() == 100


@pytest.fixture
def listed_by_driver(jar_spark: SparkSession) -> Iterator[None]:
    """Spark lists many directories without a job, whose tasks would take longer."""
    with conf(jar_spark, {"spark.sql.sources.parallelPartitionDiscovery.threshold": "1000"}):
        yield


@pytest.mark.usefixtures("listed_by_driver")
@pytest.mark.parametrize("kind", ["Delta Lake", "Iceberg"])
def test_tables_on_remote_file_systems_are_found(
    jar_spark: SparkSession, tmp_path: Path, mounted: str, data: dict[str, tuple[bytes, str]], kind: str
) -> None:
    log = LOGS[kind]
    many = tuple(f"many/{i}/a{DATA}" for i in range(65))  # more than are asked one by one
    made = (
        f"lake/t/{log}",
        f"lake/t/x/a{DATA}",
        f"u/a{DATA}",
        f"u/p=1/a{DATA}",
        *many,
        f"many/7/{log}",
        "v/metadata/x",
    )
    table_logs.make(tmp_path, Case("t", made), *data["bloomparquet"])
    before = contents(tmp_path)
    reader = jar_spark.read.format("bloomparquet").option("recursiveFileLookup", True).schema("v BIGINT")
    for path, table in (("lake/t", "lake/t"), ("lake/t/x", "lake/t"), ("lake", "lake/t"), ("many", "many/7")):
        with pytest.raises(UnsupportedOperationException, match=f"{mounted}/{table} is a table of {kind}"):
            reader.load(f"{mounted}/{path}")
    assert reader.load(f"{mounted}/u").count() == 200
    frame = jar_spark.range(3).selectExpr("id AS v")
    for path, mode in (
        ("lake/t", "append"),
        ("lake/t/x", "overwrite"),
        ("lake", "overwrite"),
        ("lake/t/new", "append"),
    ):
        with pytest.raises(UnsupportedOperationException, match=f"{mounted}/lake/t is a table of {kind}"):
            frame.write.format("bloomparquet").mode(mode).save(f"{mounted}/{path}")
    assert contents(tmp_path) == before
    frame.write.format("bloomparquet").mode("overwrite").save(f"{mounted}/v")
    assert reader.load(f"{mounted}/v").count() == 3
