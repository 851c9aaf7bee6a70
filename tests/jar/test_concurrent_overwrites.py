"""Overwrites of one directory at the same time: each leaves its own rows only, or is an error and replaces nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

from tests.jar.test_write_commit import all_files
from tests.support.spark import rows, wait_for_tasks

pytestmark = pytest.mark.slow

REMOVED = "another job removed the temporary files"
OLD = [(i, i % 3) for i in range(9)]


@pytest.fixture
def table(jar_spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """Nine rows in three partitions: a directory, and the table ``shared`` over it."""
    path = tmp_path / "t"
    jar_spark.range(9).selectExpr("id", "id % 3 AS p").write.format("bloomparquet").partitionBy("p").save(str(path))
    jar_spark.sql(f"CREATE TABLE shared USING bloomparquet LOCATION '{path}'")
    jar_spark.sql("MSCK REPAIR TABLE shared")
    yield path
    jar_spark.sql("DROP TABLE shared")


class SlowRows:
    """A frame with a row for each task. The last task does not end before `release`."""

    def __init__(self, spark: SparkSession, tasks: int, first: int, home: Path) -> None:
        self._started, self._gate = home / f"{first}.started", home / f"{first}.gate"
        started, gate, last = str(self._started), str(self._gate), tasks - 1

        @udf("long")
        def wait(task):  # type: ignore[no-untyped-def]
            import os
            import time

            if task == last:
                open(started, "w").close()
                while not os.path.exists(gate):
                    time.sleep(0.02)
            return first + task

        self.frame = spark.range(0, tasks, 1, tasks).select(wait("id").alias("id"))

    def started(self) -> bool:
        return self._started.exists()

    def release(self) -> None:
        self._gate.touch()


Make = Callable[[int, int], SlowRows]


@pytest.fixture
def slow_rows(jar_spark: SparkSession, tmp_path: Path) -> Iterator[Make]:
    """Makes SlowRows of a number of tasks and the first value. Their tasks end with the test at the latest."""
    made: list[SlowRows] = []

    def make(tasks: int, first: int) -> SlowRows:
        made.append(SlowRows(jar_spark, tasks, first, tmp_path))
        return made[-1]

    yield make
    for each in made:
        each.release()
    wait_for_tasks(jar_spark)


class Running:
    """A write in a thread."""

    def __init__(self, write: Callable[[], None]) -> None:
        self.error: Exception | None = None
        self._write = write
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._write()
        except Exception as error:  # noqa: BLE001
            self.error = error

    def wait(self) -> Exception | None:
        """The error of the write, or None, after its end."""
        self._thread.join(60)
        assert not self._thread.is_alive(), "the write does not end"
        return self.error


def wait_until(reached: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def has_committed_task(table: Path) -> bool:
    return any((table / "_temporary").glob("*/task_*"))


def save(frame: DataFrame, table: Path) -> None:
    frame.selectExpr("id", "1L AS p").write.format("bloomparquet").mode("overwrite").partitionBy("p").save(str(table))


def insert(frame: DataFrame, partition: int) -> None:
    frame.createOrReplaceTempView(f"new_{partition}")
    frame.sparkSession.sql(f"INSERT OVERWRITE shared PARTITION (p = {partition}) SELECT id FROM new_{partition}")


def current(spark: SparkSession, table: Path) -> list[tuple[int, ...]]:
    return rows(spark.read.schema("id LONG, p LONG").parquet(str(table)))


@pytest.mark.parametrize("second", ["fails", "succeeds"])
def test_an_overwrite_fails_if_another_one_starts(
    jar_spark: SparkSession, table: Path, slow_rows: Make, second: str
) -> None:
    """One task of the first overwrite commits before the second one starts, and the other one afterwards."""
    before = all_files(table)
    slow = slow_rows(2, 100)
    first = Running(lambda: save(slow.frame, table))
    wait_until(lambda: slow.started() and has_committed_task(table))
    if second == "fails":
        with pytest.raises(PySparkException, match="broken"):
            save(jar_spark.range(1).selectExpr("CAST(raise_error('broken') AS BIGINT) AS id"), table)
    else:
        save(jar_spark.range(2), table)
    slow.release()
    error = str(first.wait())
    assert REMOVED in error
    assert f"{table}/_temporary" in error
    wait_for_tasks(jar_spark)
    if second == "fails":
        assert all_files(table) == before
    assert current(jar_spark, table) == (OLD if second == "fails" else [(0, 1), (1, 1)])
    assert not (table / "_temporary").exists()


def test_the_later_overwrite_has_its_own_rows_only(jar_spark: SparkSession, table: Path, slow_rows: Make) -> None:
    """The first overwrite commits a task, fails and cleans up while the second one runs."""
    slow, slower = slow_rows(2, 100), slow_rows(1, 200)
    first = Running(lambda: save(slow.frame, table))
    wait_until(lambda: slow.started() and has_committed_task(table))
    second = Running(lambda: save(slower.frame, table))
    wait_until(slower.started)
    slow.release()
    assert REMOVED in str(first.wait())
    slower.release()
    assert second.wait() is None
    assert current(jar_spark, table) == [(200, 1)]
    assert not (table / "_temporary").exists()


def test_overwrites_of_different_partitions_all_commit(jar_spark: SparkSession, table: Path, slow_rows: Make) -> None:
    slow = slow_rows(2, 100)
    first = Running(lambda: insert(slow.frame, 1))
    wait_until(lambda: slow.started() and has_committed_task(table))
    insert(jar_spark.range(50, 52), 2)
    slow.release()
    assert first.wait() is None
    kept = [row for row in OLD if row[1] == 0]
    assert current(jar_spark, table) == sorted([*kept, (100, 1), (101, 1), (50, 2), (51, 2)], key=repr)
    assert not (table / "_temporary").exists()


@pytest.mark.parametrize("second", ["the partition", "the table"])
def test_the_later_overwrite_of_a_partition_wins(
    jar_spark: SparkSession, table: Path, slow_rows: Make, second: str
) -> None:
    slow = slow_rows(2, 100)
    first = Running(lambda: insert(slow.frame, 1))
    wait_until(lambda: slow.started() and has_committed_task(table))
    if second == "the partition":
        insert(jar_spark.range(50, 52), 1)
    else:
        save(jar_spark.range(50, 52), table)
    slow.release()
    assert REMOVED in str(first.wait())
    kept = [row for row in OLD if row[1] != 1] if second == "the partition" else []
    assert current(jar_spark, table) == sorted([*kept, (50, 1), (51, 1)], key=repr)


def test_a_later_partition_overwrite_fails_one_of_the_table(
    jar_spark: SparkSession, table: Path, slow_rows: Make
) -> None:
    slow = slow_rows(2, 100)
    first = Running(lambda: save(slow.frame, table))
    wait_until(lambda: slow.started() and has_committed_task(table))
    insert(jar_spark.range(50, 52), 2)
    slow.release()
    assert REMOVED in str(first.wait())
    kept = [row for row in OLD if row[1] != 2]
    assert current(jar_spark, table) == sorted([*kept, (50, 2), (51, 2)], key=repr)
