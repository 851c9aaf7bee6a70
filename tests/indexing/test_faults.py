"""Builds that are killed, refused, or run at once leave a whole index, and plans find the right row groups."""

from __future__ import annotations

import os
import shutil
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow.fs
import pytest

import bloomparquet as bp
from bloomparquet.planning.index.lookup import forget_indexes
from tests.support.files import write
from tests.support.index import segments
from tests.support.kill import every_point, killed_at

pytestmark = pytest.mark.slow

DIRECTORY = "_bloomparquet_index"


def write_file(root: Path, number: int) -> None:
    """A file with two row groups, whose ranges are those of the other files: only filters tell them apart."""
    values = [number * 1000 + i for i in range(100)]
    write(root / f"{number}.parquet", {"x": [f"{v * 7919 % 10007:05}" for v in values]}, ["x"], rows_per_group=50)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    for number in range(3):
        write_file(data, number)
    return data


@cache
def kept(root: Path, number: int, files: int) -> list[tuple[str, int]]:
    """What a plan without an index keeps for a value of file `number`, among so many files."""
    return kept_row_groups(root, number, index="off")


def kept_row_groups(root: Path, number: int, **options: Any) -> list[tuple[str, int]]:
    plan = bp.plan(str(root), f"x = '{number * 1000 * 7919 % 10007:05}'", **options)
    return [(group.path, group.index) for group in plan.kept_row_groups()]


def indexed_files(root: Path) -> int:
    """The number of files that the index covers.

    Asserts that plans with and without it keep the same row groups, with the row group that matches among them.
    """
    forget_indexes()
    files = len(list(root.glob("*.parquet")))
    for number in range(files):
        groups = kept_row_groups(root, number)
        assert groups == kept(root, number, files)
        assert (str(root / f"{number}.parquet"), 0) in groups
    try:
        info = bp.read_index_info(root)
    except bp.PlanError:
        return 0
    assert len(segments(root)) >= info.segments, "the manifest names segments that are gone"
    return info.files


def assert_no_leftovers(root: Path) -> None:
    assert len(os.listdir(root / DIRECTORY)) == bp.read_index_info(root).segments + 1


@pytest.mark.parametrize(
    ("change", "before", "after"),
    [(bp.build_index, 0, 3), (bp.build_index, 3, 4), (bp.refresh_index, 3, 4), (bp.drop_index, 3, 0)],
)
def test_killed_at_every_system_call(root: Path, change: Any, before: int, after: int) -> None:
    if before:
        bp.build_index(root)
    if after > 3:
        write_file(root, 3)
    assert indexed_files(root) == before
    kept_copy = root.with_name("index before")
    if before:
        shutil.copytree(root / DIRECTORY, kept_copy)
    points = list(every_point(change, root))
    assert indexed_files(root) == after
    seen = []
    for point in points:
        shutil.rmtree(root / DIRECTORY, ignore_errors=True)
        if before:
            shutil.copytree(kept_copy, root / DIRECTORY)
        killed_at(point, change, root)
        seen.append(indexed_files(root))
        change(root)
        assert indexed_files(root) == after
        if after:
            assert_no_leftovers(root)
        else:
            assert not (root / DIRECTORY).exists()
    assert len(points) >= 7
    assert seen == sorted(seen, key=[before, after].index), "the index was not replaced in one step"
    assert {before, after} == set(seen)


def test_second_build_is_refused_while_one_runs(root: Path) -> None:
    bp.build_index(root)
    write_file(root, 3)
    refused = []

    def others(done: int, total: int) -> None:
        for change in (bp.build_index, bp.refresh_index, bp.drop_index):
            with pytest.raises(bp.FileBusyError, match="another process is building") as error:
                change(root)
            refused.append(error)
        assert indexed_files(root) == 3

    assert bp.build_index(root, progress=others).files == 4
    assert len(refused) == 3
    assert indexed_files(root) == 4
    assert_no_leftovers(root)


def test_failed_build_leaves_the_index_and_no_segments(root: Path) -> None:
    for expected in (0, 3):
        with pytest.raises(KeyboardInterrupt):
            bp.build_index(root, progress=Mock(side_effect=KeyboardInterrupt))
        assert indexed_files(root) == expected
        with pytest.raises(bp.PlanError, match=r"no file below .* has the columns"):
            bp.build_index(root, ["unknown"])
        assert indexed_files(root) == expected
        assert (root / DIRECTORY).exists() is bool(expected)
        bp.build_index(root)
        assert_no_leftovers(root)


def test_segments_that_are_gone_are_not_committed(root: Path) -> None:
    bp.build_index(root)
    before = set(os.listdir(root / DIRECTORY))

    def remove(done: int, total: int) -> None:
        for path in (root / DIRECTORY).glob("*.segment"):
            if path.name not in before:
                path.unlink()

    write_file(root, 3)
    with pytest.raises(bp.BloomParquetError, match="1 of 2 segments of the new index are not there"):
        bp.refresh_index(root, progress=remove)
    assert indexed_files(root) == 3
    assert set(os.listdir(root / DIRECTORY)) == before


def test_a_storage_that_cannot_replace_files_is_refused_first(root: Path) -> None:
    unknown = pyarrow.fs.SubTreeFileSystem(str(root.parent), pyarrow.fs.LocalFileSystem())
    with pytest.raises(bp.UnsupportedError, match="not known to replace a file in one step"):
        bp.build_index(root.name, filesystem=unknown)
    assert not (root / DIRECTORY).exists()
