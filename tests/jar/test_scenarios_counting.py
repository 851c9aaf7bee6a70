"""The work of a planned query: which files are opened, how many tasks run, and which ranges they read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from pyspark_bloomparquet import last_plan
from tests.support import files
from tests.support.scenarios import PRUNED, Readers, run, scans, texts
from tests.support.spark import conf

pytestmark = pytest.mark.slow

OPEN_COST = "spark.sql.files.openCostInBytes"
MAX_BYTES = "spark.sql.files.maxPartitionBytes"
MIN_TASKS = "spark.sql.files.minPartitionNum"


def many_files(root: Path, count: int, rows_per_group: int = 10) -> str:
    """Files of three row groups each, with even ids in random order."""
    total = count * 3 * rows_per_group
    ids = np.random.default_rng(7).permutation(total) * 2
    for i, part in enumerate(np.split(ids, count)):
        data = {"id": part, "k": np.arange(len(part)) + i * len(part)}
        files.write(root / f"{i:03}.parquet", data, ["id"], rows_per_group=rows_per_group, fpp=0.0001)
    return str(root)


def id_of(path: str, file: int, row: int) -> int:
    return int(pq.read_table(sorted(Path(path).glob("*.parquet"))[file])["id"][row].as_py())


def planned_ranges(frame: DataFrame) -> list[list[tuple[str, int, int]]]:
    """The file ranges of each task."""
    (node,) = scans(frame._jdf.queryExecution().executedPlan())
    parts = (node.executeColumnar() if node.supportsColumnar() else node.execute()).partitions()
    return [[(Path(f.urlEncodedPath()).name, f.start(), f.length()) for f in part.files()] for part in parts]


def test_a_skipped_file_is_never_opened(readers: Readers, tmp_path: Path) -> None:
    path = many_files(tmp_path / "t", 6)
    wanted = id_of(path, 5, 29)  # in the last row group of the last file
    # Without the option, a deleted skipped file is an error: it changed after planning.
    by_query = readers.jar(path, ignoreMissingFiles="true").where(f"id = {wanted}")
    bound = readers.jar(path, where=f"id = {wanted}", ignoreMissingFiles="true")
    control = readers.jar(path).where(f"id IN ({wanted}, {id_of(path, 0, 0)})")
    for frame, kept in ((by_query, 1), (bound, 1), (control, 2)):
        assert (last_plan(frame)[0].total, last_plan(frame)[0].kept) == (18, kept)
    assert [name for frame in (by_query, bound) for ((name, _, _),) in planned_ranges(frame)] == ["005.parquet"] * 2
    for i in range(5):
        os.remove(Path(path) / f"{i:03}.parquet")
    for frame in (by_query, bound):
        assert texts(frame.collect()) == [f"({wanted}, 179)"]
    with pytest.raises(Exception, match=r"00\d\.parquet"):
        run(control)


def test_only_kept_row_groups_are_read(readers: Readers, tmp_path: Path) -> None:
    path = many_files(tmp_path / "t", 1)
    file = next(Path(path).glob("*.parquet"))
    middle = pq.ParquetFile(file).metadata.row_group(1)
    where = f"id = {id_of(path, 0, 15)}"
    ((only,),) = planned_ranges(readers.jar(path).where(where))
    assert only == (file.name, middle.column(0).dictionary_page_offset, sum_of_columns(middle))
    # destroy the data of the others, so that reading it fails
    for i in (0, 2):
        group = pq.ParquetFile(file).metadata.row_group(i)
        files.patch(file, group.column(0).dictionary_page_offset, b"\xff" * sum_of_columns(group))
    with conf(readers.spark, {"spark.sql.parquet.filterPushdown": "false"}):
        assert run(readers.jar(path).where(where)).scanned == 10
        with pytest.raises(Exception, match=r"000\.parquet|dictionary|header|decompress"):
            readers.oracle(path).where("id = 1").collect()


def sum_of_columns(group: Any) -> int:
    return sum(group.column(i).total_compressed_size for i in range(group.num_columns))


def test_small_kept_row_groups_share_a_task(readers: Readers, tmp_path: Path) -> None:
    path = many_files(tmp_path / "t", 20)
    wanted = ", ".join(str(id_of(path, i, 12)) for i in range(20))
    where = f"id IN ({wanted})"
    ran = readers.ask(path, where, rows_per_group=10)
    assert (ran.plan.total, ran.plan.kept) == (60, 20)
    assert ran.tasks == 2  # as many as cores
    with conf(readers.spark, {MIN_TASKS: "1", OPEN_COST: "0"}):
        assert run(readers.jar(path).where(where)).tasks == 1
    with conf(readers.spark, {MIN_TASKS: "5"}):
        assert 5 <= run(readers.jar(path).where(where)).tasks <= 7
    with conf(readers.spark, {MAX_BYTES: "1"}):
        ran = run(readers.jar(path).where(where))
        assert (ran.tasks, ran.plan.kept, len(ran.rows)) == (20, 20, 20)


def test_a_big_kept_file_is_split_between_row_groups(readers: Readers, tmp_path: Path) -> None:
    groups = 12  # that are kept; the first one is skipped
    ids = np.arange((groups + 1) * 1000)
    path = files.write(
        tmp_path / "t.parquet",
        {"id": ids, "noise": np.random.default_rng(1).integers(0, 2**62, len(ids))},
        rows_per_group=1000,
        use_dictionary=False,
        compression="none",
    )
    size = 16 * 1000 + 200  # bytes of a row group
    for most, tasks in ((1, 12), (3 * size, 4)):
        with conf(readers.spark, {MAX_BYTES: str(most), MIN_TASKS: "1", OPEN_COST: "0"}):
            tasks_ranges = planned_ranges(readers.jar(path).where("id >= 1000"))
            ran = run(readers.jar(path).where("id >= 1000"))
        assert (most, ran.tasks, ran.plan.kept, len(ran.rows)) == (most, tasks, groups, groups * 1000)
        assert len(tasks_ranges) == tasks
        pieces = sorted(piece for task in tasks_ranges for piece in task)
        assert len(pieces) == tasks, "row groups that lie together are read together"
        ends = [start + length for _, start, length in pieces]
        assert ends[:-1] == [start for _, start, _ in pieces[1:]], "nothing twice, nothing left out"


def test_an_empty_plan_is_one_task(readers: Readers, tmp_path: Path) -> None:
    path = many_files(tmp_path / "t", 3)
    with conf(readers.spark, {"spark.sql.adaptive.enabled": "false"}):
        nothing = readers.jar(path).where("id IN (1, 3, 77)")
        ran = run(nothing)
        assert (ran.rows, ran.plan.kept, ran.tasks, ran.scanned) == ([], 0, 1, 0), "it checks the skipped files"
        assert ran.plan.skipped == {"bloom": 9, "statistics": 0}
        assert nothing.count() == 0
        assert run(nothing.selectExpr("sum(id)", "count(*)")).rows == ["(None, 0)"]
        assert run(nothing.groupBy("k").count()).rows == []
        assert run(readers.jar(path).where("id = 1").union(readers.jar(path).where("k < 1"))).scanned <= 10


# -- filters, which a pruned scan does not read again: the planner has asked them --------------------------------------

FILTER_BYTES = 1 << 20  # of Spark's own writer, for each row group


def test_tasks_read_no_filter(jar_spark: SparkSession, tmp_path: Path) -> None:
    root = str(tmp_path / "even and odd")
    for odd in (0, 1):
        ids = jar_spark.range(0, 10_000, 2, 1).selectExpr(f"(id * 7919 + {odd}) % 10000 AS id")
        ids.write.option("parquet.bloom.filter.enabled#id", "true").mode("append").parquet(root)
    with conf(jar_spark, PRUNED):
        row = jar_spark.read.parquet(root).where("id = 4711")
        before = bytes_read(jar_spark)
        assert row.collect() == [(4711,)]
        read = bytes_read(jar_spark) - before
        assert str(last_plan(row)[0]) == "1 of 2 row groups kept; 1 skipped by Bloom filter"
    assert 0 < read < FILTER_BYTES


def bytes_read(spark: SparkSession) -> int:
    """The bytes that Hadoop has read from local files in this process."""
    statistics = spark._jvm.org.apache.hadoop.fs.FileSystem.getAllStatistics()
    return sum(each.getBytesRead() for each in statistics if each.getScheme() == "file")


@pytest.mark.parametrize("has_filter", [True, False])
def test_dictionaries_exclude_only_where_no_filter_was_asked(
    jar_spark: SparkSession, tmp_path: Path, has_filter: bool
) -> None:
    """Bounds exclude the second file. The first holds even numbers, which only its dictionary tells, and a filter that
    says yes to everything."""
    for number, start in enumerate((0, 10_000)):
        ids, bloom = {"id": [*range(start, start + 400, 2)]}, ["id"] if has_filter else []
        path = files.write(tmp_path / f"{number}.parquet", ids, bloom, use_dictionary=["id"])
        if has_filter:
            offset, length = files.filter_offset(path)
            assert length is not None
            bitset = 1 << (length.bit_length() - 1)
            files.patch(path, offset + length - bitset, b"\xff" * bitset)
    with conf(jar_spark, PRUNED):
        frame = jar_spark.read.parquet(str(tmp_path)).where("id = 51")
        assert frame.collect() == []
        (plan,) = last_plan(frame)
        (scan,) = scans(frame._jdf.queryExecution().executedPlan())
    assert (plan.total, plan.kept) == (2, 1)
    assert (scan.children().apply(0).metrics().apply("numOutputRows").value() > 0) == has_filter
