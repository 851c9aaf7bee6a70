"""Indexes that Spark's executors build: the same plans as with a local build, whatever happens to the executors."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

import bloomparquet as bp
from bloomparquet.indexing.build import build_with, make_segments
from bloomparquet.indexing.columns import IndexColumns
from bloomparquet.indexing.located_index import locate_index
from bloomparquet.indexing.segment import BuildReport
from bloomparquet.planning.index.lookup import forget_indexes
from bloomparquet.storage.files import FileInfo
from pyspark_bloomparquet import build_index, refresh_index
from pyspark_bloomparquet.indexing.build import make_on_executor, split
from tests.support.files import write
from tests.support.retrofit import data_files, ids, make_table, workers

pytestmark = pytest.mark.slow

DIRECTORY = "_bloomparquet_index"
TABLE_IDS = [ids(i, 500 * (i + 1)) for i in range(6)]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Six files without filters in two days."""
    return make_table(tmp_path / "my events")


def plans(table: Path, **options: Any) -> list[list[tuple[str, int]]]:
    """The row groups that a plan keeps for each of some ids, the last of which is nowhere."""
    forget_indexes()
    asked = [*(numbers[0] for numbers in TABLE_IDS), 7]
    kept = [bp.plan(str(table), f"Id = {value}", **options).kept_row_groups() for value in asked]
    return [[(group.path, group.index) for group in groups] for groups in kept]


def names(table: Path) -> set[str]:
    return set(os.listdir(table / DIRECTORY)) if (table / DIRECTORY).exists() else set()


def assert_whole(table: Path, files: int) -> None:
    """Assert that the index covers `files` files, and that its directory has nothing else."""
    info = bp.read_index_info(str(table))
    assert info.files == files
    assert len(names(table)) == info.segments + 1
    forget_indexes()
    assert bp.plan(str(table)).indexed == files


def test_plans_are_those_of_a_local_build(spark: SparkSession, table: Path) -> None:
    columns = {"Id": bp.Bloom(), "st.y": None}
    bp.build_index(str(table), columns)
    expected = plans(table)
    assert sum(map(len, expected)) < sum(map(len, plans(table, index="off")))
    bp.drop_index(str(table))
    info = build_index(spark, str(table), {"iD": bp.Bloom(), "ST.y": None}, files_per_task=2)
    assert (info.files, info.segments, dict(info.left_out)) == (6, 3, {})
    assert plans(table) == expected
    assert_whole(table, 6)

    kept = names(table) - {"_manifest.json"}
    write(Path(data_files(table)[0]).with_name("new.parquet"), {"Id": [7]})
    Path(data_files(table)[-1]).with_name("broken.parquet").write_bytes(b"PAR1 is not enough")
    info = refresh_index(spark, str(table))
    assert (info.files, info.segments, list(info.left_out)) == (7, 4, [next(map(str, table.rglob("broken.parquet")))])
    assert kept < names(table)
    assert len(plans(table, skip_corrupt=True)[-1]) == 1


def test_errors_are_those_of_a_local_build(spark: SparkSession, table: Path, tmp_path: Path) -> None:
    build_index(spark, str(table))
    before = names(table)
    unwritable = tmp_path / "a file"
    unwritable.write_text("")
    for error, message, options in (
        (bp.PlanError, "no file below .* has the columns ID2", {"columns": ["ID2"]}),
        (bp.OptionError, "files_per_task is 0", {"files_per_task": 0}),
        (OSError, "a file", {"to": unwritable / "index"}),
    ):
        with pytest.raises(error, match=message):
            build_index(spark, str(table), **options)
    hide = "import sys\nfor name in ('bloomparquet', 'pyspark_bloomparquet'): sys.modules[name] = None"
    with workers(spark, tmp_path, hide), pytest.raises(bp.UnsupportedError, match="PYSPARK_PYTHON"):
        build_index(spark, str(table))
    assert names(table) == before
    assert_whole(table, 6)


def test_a_killed_executor_leaves_the_old_index(spark: SparkSession, table: Path, tmp_path: Path) -> None:
    build_index(spark, str(table))
    before = names(table)
    # The first tasks write their segments; a later one dies while it writes.
    program = f"""
        import os, signal
        original = os.rename
        def rename(source, target, **more):
            if "segment" in target and len(os.listdir({str(table / DIRECTORY)!r})) > {len(before) + 3}:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(source, target, **more)
        os.rename = rename
    """
    with workers(spark, tmp_path, program), pytest.raises(Py4JJavaError, match="Python worker"):
        build_index(spark, str(table), files_per_task=1)
    assert before <= names(table)
    assert bp.read_index_info(str(table)).files == 6
    build_index(spark, str(table), files_per_task=3)
    assert_whole(table, 6)


def test_only_what_one_attempt_returned_is_committed(table: Path) -> None:
    """A task runs twice, and another attempt dies between two segments."""
    place = locate_index(str(table), None, None, "error")

    def make(target: Any, dataset: Any, columns: IndexColumns) -> Any:
        payload = pickle.dumps((str(table), str(table), target.directory, target.root, target.build, columns, None))
        files = [tuple(file) for file in dataset.files]
        attempts = [make_on_executor(payload, files) for _ in range(2)]
        next(make_segments(target, dataset, columns, BuildReport()))
        (table / DIRECTORY / f"._{target.build}-01234567.segment.bloomparquet-tmp").write_bytes(b"half")
        assert len(names(table)) == 5
        return attempts[1]

    info = build_with(make, place, IndexColumns(None))
    assert (info.files, info.segments) == (6, 1)
    assert_whole(table, 6)


def test_portions_have_all_files_in_order_and_few_are_small() -> None:
    sizes = [1, 10, 5 << 30, 200 << 20, *[1 << 20] * 3000, 64 << 30]
    files = tuple(FileInfo(f"{i:05}", size, 1) for i, size in enumerate(sizes))
    for tasks, least, most in ((1, 1, 1), (4, 1000, 4), (4, 1, 5), (1000, 16, 300)):
        portions = split(files, tasks, least)
        assert [file for portion in portions for file in portion] == list(files)
        assert len(portions) <= most
    assert split((), 4, 1) == []
    assert len(split(tuple(FileInfo(str(i), 1, 1) for i in range(20_000)), 1, 1)) == 3
