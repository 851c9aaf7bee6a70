"""A file that changes after it was listed gives the rows of one version or an error, never fewer rows."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast

from pyspark_bloomparquet import last_plan
from tests.support import changes, files, plain
from tests.support.changes import BASE, CHANGES, FIRST, FORMATS, KEPT, SKIPPED, WHERE, Row
from tests.support.scenarios import read
from tests.support.spark import conf

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("transparent")]

ERRORS = (Py4JJavaError, PySparkException)
CHANGED = "changed after this query was planned"
SOURCES = {"parquet": "bloomparquet", "orc": "bloomorc"}
KEYS = (2500, 2999, 3000, 3500)
"""The small side of a join: ids of units 2 and 3."""


class Table:
    """A table of two files, of which `x` changes."""

    def __init__(self, spark: SparkSession, root: Path, kind: str) -> None:
        self.spark, self.path, self.source = spark, root / "t" / f"x.{kind}", SOURCES[kind]
        self.path.parent.mkdir()
        changes.write(root / "t" / f"other.{kind}", (0,), "a")
        self.small = files.write(
            root / "small.parquet", {"id": [BASE + key for key in KEYS], "name": ["n"] * len(KEYS)}
        )

    def load(self, **options: Any) -> DataFrame:
        return read(self.spark, self.source, self.path.parent, **options)

    def join(self) -> DataFrame:
        small = read(self.spark, "parquet", self.small).where("name = 'n'").select("id")
        return self.load().join(broadcast(small), "id")


READERS: dict[str, Callable[[Table], DataFrame]] = {
    "static": lambda table: table.load().where(WHERE),
    "join": Table.join,
}
CASES = {
    **{f"{reader}, kept": (reader, KEPT) for reader in READERS},
    **{f"{reader}, skipped": (reader, SKIPPED) for reader in READERS},
}
"""The reader, and whether the plan keeps a part of the changing file or skips the file."""


def crossed(readers: Sequence[str]) -> pytest.MarkDecorator:
    """Each change with one of the readers, and each reader with both formats.

    A format decides how a file is read, and neither who reads it nor how a version is compared.
    """
    number = max(len(CHANGES), 2 * len(readers))
    cases = [
        (FORMATS[i // len(readers) % 2], readers[i % len(readers)], CHANGES[i % len(CHANGES)]) for i in range(number)
    ]
    return pytest.mark.parametrize(("table", "reader", "kind"), cases, indirect=["table"])


@pytest.fixture
def table(request: pytest.FixtureRequest, jar_spark: SparkSession, tmp_path: Path) -> Iterator[Table]:
    with conf(jar_spark, {"spark.sql.orc.filterPushdown": "false", "spark.sql.parquet.filterPushdown": "false"}):
        yield Table(jar_spark, tmp_path, getattr(request, "param", "parquet"))


def wanted(reader: str, rows: list[Row]) -> list[Row]:
    """The rows of a version that a reader's query returns."""
    return [row for row in rows if reader != "join" or row[0] in KEYS]


def rows(frame: DataFrame) -> list[Row]:
    return changes.shown((row["id"], row["v"]) for row in frame.collect())


def outcome(frame: DataFrame, reader: str, kind: str, units: tuple[int, ...]) -> str:
    allowed = [changes.matching(units, "a"), changes.after(kind, units)]
    return changes.outcome(lambda: rows(frame), [wanted(reader, each) for each in allowed], ERRORS, CHANGED)


@crossed(list(READERS))
def test_an_action_reads_a_local_file_as_it_is_then(table: Table, reader: str, kind: str) -> None:
    """A local file is planned and read in its version at the time of the query."""
    changes.write(table.path, KEPT, "a")
    frame = READERS[reader](table)
    changes.change(table.path, kind, KEPT)
    assert outcome(frame, reader, kind, KEPT) == ("named error" if kind == "deleted" else "new rows")


@crossed(list(CASES))
def test_a_change_after_the_plan_gives_new_rows_or_an_error(table: Table, reader: str, kind: str) -> None:
    reader, units = CASES[reader]
    changes.write(table.path, units, "a")
    frame = READERS[reader](table)
    frame._jdf.queryExecution().executedPlan().toString()
    changes.change(table.path, kind, units)
    actual = outcome(frame, reader, kind, units)
    assert actual in ("new rows", "named error")


@crossed(list(CASES))
def test_a_second_action_over_changed_files_is_an_error(table: Table, reader: str, kind: str) -> None:
    reader, units = CASES[reader]
    changes.write(table.path, units, "a")
    frame = READERS[reader](table)
    assert rows(frame) == wanted(reader, changes.matching(units, "a"))
    changes.change(table.path, kind, units)
    assert outcome(frame, reader, kind, units) == "named error"
    if kind != "deleted":
        assert outcome(READERS[reader](table), reader, kind, units) == "new rows"


@pytest.mark.parametrize(("reader", "units"), [("static", SKIPPED), ("join", KEPT)])
def test_changes_are_errors_without_adaptive_execution(table: Table, reader: str, units: tuple[int, ...]) -> None:
    changes.write(table.path, units, "a")
    with conf(table.spark, {"spark.sql.adaptive.enabled": "false"}):
        frame = READERS[reader](table)
        for _ in range(3):
            assert rows(frame) == wanted(reader, changes.matching(units, "a"))
        changes.change(table.path, "same size and time", units)
        for _ in range(2):
            assert outcome(frame, reader, "same size and time", units) == "named error"


def test_a_kept_shuffle_keeps_its_rows(table: Table) -> None:
    changes.write(table.path, SKIPPED, "a")
    frame = table.load().where(WHERE).groupBy("v").count()
    assert frame.collect() == []
    changes.change(table.path, "grown", SKIPPED)
    assert frame.collect() == [], "Spark keeps what it has shuffled"


@pytest.mark.parametrize(
    ("table", "kind"),
    [("parquet", "same size and time"), ("orc", "deleted"), ("orc", "same, in place")],
    indirect=["table"],
)
def test_a_change_during_a_read_gives_old_rows_or_an_error(table: Table, kind: str, tmp_path: Path) -> None:
    """The file changes between two tasks that read it."""
    changes.write(table.path, KEPT, "a")
    path, done = str(table.path), str(tmp_path / "done")

    def change_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            ids = batch.column(0).to_pylist()
            if ids and max(ids) >= FIRST and not Path(done).exists():
                Path(done).touch()
                changes.change(Path(path), kind, KEPT)
            yield batch

    small = {"spark.sql.files.maxPartitionBytes": "20000", "spark.sql.files.openCostInBytes": "1"}
    with conf(table.spark, small):
        frame = table.load().where(WHERE).coalesce(1).select("id", "v").mapInArrow(change_once, "id BIGINT, v STRING")
        actual = outcome(frame, "static", kind, KEPT)
    assert Path(done).exists()
    assert actual in ("old rows", "named error")


def test_limits_and_iterators_check_skipped_files(table: Table) -> None:
    changes.write(table.path, SKIPPED, "a")
    acts: list[Callable[[DataFrame], list[Any]]] = [DataFrame.collect, lambda frame: list(frame.toLocalIterator())]
    for act in acts:
        changes.write(table.path, SKIPPED, "a")
        frame = table.load().where(WHERE).limit(5)
        assert act(frame) == []
        changes.change(table.path, "same size and time", SKIPPED)
        with pytest.raises(ERRORS, match=CHANGED):
            act(frame)
        assert len(act(table.load().where(WHERE).limit(5))) == 5


def test_the_plan_of_a_finished_query_is_checked(table: Table, jar_spark: SparkSession) -> None:
    """A query that fails before its first task leaves such a plan."""
    changes.write(table.path, SKIPPED, "a")
    frame = table.load().where(WHERE)
    jar_spark.sparkContext.setLocalProperty("spark.sql.execution.id", "987654321")
    try:
        frame._jdf.queryExecution().toRdd()
    finally:
        jar_spark.sparkContext.setLocalProperty("spark.sql.execution.id", None)  # type: ignore[arg-type]
    changes.change(table.path, "same size and time", SKIPPED)
    with pytest.raises(ERRORS, match=CHANGED):
        frame.collect()


def test_the_plan_of_another_running_query_is_checked(table: Table, jar_spark: SparkSession, tmp_path: Path) -> None:
    """Two threads run one DataFrame, and the tasks of the later query start first."""
    changes.write(table.path, SKIPPED, "a")
    context, told, end = jar_spark.sparkContext, tmp_path / "execution", tmp_path / "end"

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        new = told.with_suffix(".new")
        new.write_text(str(TaskContext.get().getLocalProperty("spark.sql.execution.id")))  # type: ignore[union-attr]
        new.rename(told)
        while not end.exists():
            time.sleep(0.01)
        yield from batches

    frame = table.load().where(WHERE)
    with ThreadPoolExecutor(1) as thread:
        earlier = thread.submit(jar_spark.range(0, 1, 1, 1).mapInArrow(wait, "id BIGINT").collect)
        try:
            while not told.exists():
                assert not earlier.done()
                time.sleep(0.01)
            context.setLocalProperty("spark.sql.execution.id", told.read_text())
            frame._jdf.queryExecution().toRdd()
            context.setLocalProperty("spark.sql.execution.id", None)  # type: ignore[arg-type]
            changes.change(table.path, "same size and time", SKIPPED)
            with pytest.raises(ERRORS, match=CHANGED):
                frame.collect()
        finally:
            context.setLocalProperty("spark.sql.execution.id", None)  # type: ignore[arg-type]
            end.touch()
        assert len(earlier.result()) == 1


def test_a_plan_within_a_batch_of_a_stream_is_checked(table: Table, jar_spark: SparkSession, tmp_path: Path) -> None:
    """``df.rdd`` plans under the name of the batch, which still runs when the rows are read."""
    changes.write(table.path, SKIPPED, "a")
    frame, outcomes = table.load().where(WHERE), list[str]()

    def read(batch: DataFrame, number: int) -> None:
        planned = frame.rdd
        changes.change(table.path, "same size and time", SKIPPED)
        try:
            outcomes.append(f"{planned.count()} rows")
        except ERRORS as error:
            outcomes.append(str(error))

    stream = jar_spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    query = stream.writeStream.foreachBatch(read).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        while not outcomes:
            assert query.exception() is None
            time.sleep(0.05)
    finally:
        query.stop()
    assert CHANGED in outcomes[0]


def test_sparks_ignore_options_do_not_hide_a_change(table: Table) -> None:
    changes.write(table.path, KEPT, "a")
    frame = table.load(ignoreCorruptFiles="true").where(WHERE)
    assert len(rows(frame)) == 500
    changes.change(table.path, "shrunk", KEPT)
    with pytest.raises(ERRORS, match=CHANGED):
        frame.collect()
    frame = table.load(ignoreMissingFiles="true").where(WHERE)
    assert len(rows(frame)) == 500
    table.path.unlink()
    assert rows(frame) == []


def test_files_of_a_local_table_are_pruned_after_a_change(table: Table) -> None:
    changes.write(table.path, KEPT, "a")
    frame = table.load()
    changes.change(table.path, "grown", KEPT)
    query = frame.where(WHERE)
    assert rows(query) == changes.after("grown", KEPT)
    (plan,) = last_plan(query)
    assert (plan.planned, plan.total, plan.kept, plan.whole_files) == (True, 5, 2, 0)


# -- joins, which read files in an order, and may stop before the last row ---------------------------------------------


def changing(spark: SparkSession, path: Path) -> DataFrame:
    """One row. A query that reads it finds that the file at `path` has grown since it began."""

    def change_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if not path.with_name(".changed").exists():
                time.sleep(0.5)  # the other side is planned meanwhile, if Spark does not wait for this one
                path.with_name(".changed").touch()
                changes.change(path, "grown", SKIPPED)
            yield batch

    return spark.range(0, 1, 1, 1).selectExpr(f"id + {BASE} AS first").mapInArrow(change_once, "first BIGINT")


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_a_broadcast_reads_nothing_newer_than_the_plan(jar_spark: SparkSession, tmp_path: Path, adaptive: str) -> None:
    """A scan is planned after the other side was broadcast."""
    path = tmp_path / "t" / "x.parquet"
    path.parent.mkdir()
    changes.write(path, SKIPPED, "a")
    with conf(jar_spark, {"spark.sql.adaptive.enabled": adaptive}):
        table = jar_spark.read.parquet(str(path.parent)).where(WHERE)
        assert len(table.crossJoin(broadcast(changing(jar_spark, path))).where("id > first").collect()) == 500


def test_joins_without_adaptive_execution_check_both_sides(jar_spark: SparkSession, tmp_path: Path) -> None:
    """Spark plans the left scan and then waits for the broadcast of the right side, before any task begins."""
    path = tmp_path / "t" / "x.parquet"
    path.parent.mkdir()
    settings = {"spark.sql.adaptive.enabled": "false", "spark.sql.autoBroadcastJoinThreshold": "-1"}
    changes.write(path, SKIPPED, "a")
    table = jar_spark.read.parquet(str(path.parent)).where(WHERE)
    ids = jar_spark.range(BASE, BASE + 3000, 1, 2).withColumnRenamed("id", "key")
    with conf(jar_spark, settings):
        keys = ids.crossJoin(broadcast(changing(jar_spark, path))).where("key > first").hint("merge")
        with pytest.raises(ERRORS, match=CHANGED):
            table.join(keys, table.id == keys.key).collect()
        assert len(table.collect()) == 500


def test_a_merge_join_that_stops_early_checks_its_files(jar_spark: SparkSession, tmp_path: Path) -> None:
    """Both versions have the id 550, and the second has greater ids where the first has 500 to 999."""
    versions = [list(range(1000)), [*range(300), 550, *range(600, 1300)]]
    settings = {"legacy.bucketedTableScan.outputOrdering": "true", "autoBroadcastJoinThreshold": "-1"}
    with conf(jar_spark, {f"spark.sql.{key}": value for key, value in settings.items()}):
        for name, ids in {"one": [550], "many": versions[0]}.items():
            files.write(tmp_path / name / "part-0_00000.parquet", {"id": ids}, rows_per_group=100)
            jar_spark.sql(
                f"CREATE TABLE {name} (id BIGINT) USING parquet CLUSTERED BY (id) SORTED BY (id) INTO 1 BUCKETS "
                f"LOCATION '{tmp_path / name}'"
            )
        try:
            joined = jar_spark.sql(
                "SELECT /*+ MERGE(one) */ one.id FROM one, many WHERE one.id = many.id AND many.id >= 500"
            )
            assert "+- Sort " not in plain.executed(joined)
            assert [row.id for row in joined.collect()] == [550]
            assert (5, 10) in [(plan.kept, plan.total) for plan in last_plan(joined)]
            new = files.write(tmp_path / "new.parquet", {"id": versions[1]}, rows_per_group=100)
            os.replace(new, tmp_path / "many" / "part-0_00000.parquet")
            with pytest.raises(ERRORS, match=CHANGED):
                joined.collect()
        finally:
            jar_spark.sql("DROP TABLE one")
            jar_spark.sql("DROP TABLE many")
