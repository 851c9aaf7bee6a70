"""The results of a build, a refresh and a drop: what they return, keep and remove, and what plans make of it."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from io import FileIO
from pathlib import Path
from unittest.mock import patch

import pytest

import bloomparquet as bp
from bloomparquet.indexing import build
from bloomparquet.storage import locks
from tests.support.files import write


def write_file(root: Path, number: int) -> str:
    values = [number * 1000 + i for i in range(100)]
    return write(root / f"{number}.parquet", {"Id": values, "n": values}, ["Id"], rows_per_group=50)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for number in range(4):
        write_file(tmp_path / "data", number)
    return tmp_path / "data"


def test_a_refresh_writes_what_is_new(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "MOST_ROW_GROUPS", 4)
    seen: list[tuple[int, int]] = []
    info = bp.build_index(root, progress=lambda done, total: seen.append((done, total)))
    assert (info.files, info.row_groups, info.segments, dict(info.left_out)) == (4, 8, 2, {})
    assert seen == [(2, 4), (4, 4)]
    directory = Path(info.directory)
    assert info.bytes == sum(path.stat().st_size for path in directory.glob("*.segment"))
    first = set(os.listdir(directory))

    write_file(root, 4)
    seen.clear()
    info = bp.refresh_index(root, progress=lambda done, total: seen.append((done, total)))
    assert (info.files, info.segments, seen) == (5, 3, [(1, 1)])
    assert first < set(os.listdir(directory))
    assert bp.refresh_index(root) == info
    assert bp.read_index_info(root) == replace(info, covered=5, outdated=0)
    assert bp.plan(str(root), "Id = 4000").indexed == 5

    bp.drop_index(root)
    bp.drop_index(root)
    assert not directory.exists()
    for function in (bp.refresh_index, bp.read_index_info):
        with pytest.raises(bp.PlanError, match="there is no index here"):
            function(root)
    assert not directory.exists()


def test_a_refresh_has_the_columns_of_the_build(root: Path, tmp_path: Path) -> None:
    bp.build_index(root, {"n": bp.Bloom(fpp=0.0001)}, to=tmp_path / "index")
    write(root / "9.parquet", {"Id": [1, 9000], "n": [1, 9000]})
    assert bp.refresh_index(root, to=tmp_path / "index").files == 5
    for column, skipped in (("n", {"statistics": 8, "bloom": 1}), ("Id", {"statistics": 8})):
        plan = bp.plan(str(root), f"{column} = 8000", index=tmp_path / "index")
        assert (plan.indexed, plan.skipped) == (5, skipped)


def test_other_files_in_the_directory_stay(root: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    index.mkdir()
    names = [".film.segment.txt", ".hidden", "film.segment", "manifest.json", "notes.txt", "segment"]
    for name in names:
        (index / name).write_text("")
    for leftover in ("_0123456789abcdef-01234567.segment", "._0123456789abcdef-01234567.segment.bloomparquet-tmp"):
        (index / leftover).write_text("")
    info = bp.build_index(root, to=index)
    assert len(os.listdir(index)) == len(names) + 1 + info.segments
    bp.drop_index(root, to=index)
    assert sorted(os.listdir(index)) == names


@pytest.mark.parametrize("work", ["drop", "drop no index", "failed build"])
def test_a_directory_of_the_user_stays(root: Path, tmp_path: Path, work: str) -> None:
    """Its mode, group and access control list would be lost."""
    index = tmp_path / "index"
    index.mkdir()
    index.chmod(0o2770)
    before = index.stat()
    if work == "failed build":
        with pytest.raises(bp.PlanError):
            bp.build_index(root, ["no"], to=index)
    else:
        if work == "drop":
            bp.build_index(root, to=index)
        bp.drop_index(root, to=index)
    after = index.stat()
    assert (after.st_mode, after.st_ino) == (before.st_mode, before.st_ino)
    assert os.listdir(index) == []


def test_a_failed_build_removes_the_directory_that_it_made(root: Path, tmp_path: Path) -> None:
    for to in (None, tmp_path / "index"):
        with pytest.raises(bp.PlanError):
            bp.build_index(root, ["no"], to=to)
    assert sorted(os.listdir(tmp_path)) == ["data"]
    assert sorted(os.listdir(root)) == [f"{number}.parquet" for number in range(4)]


def test_a_build_whose_empty_directory_is_removed_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = locks.create_locked

    def create_locked(path: str, mode: int) -> FileIO:
        os.rmdir(os.path.dirname(path))
        return original(path, mode)

    monkeypatch.setattr(locks, "create_locked", create_locked)
    with pytest.raises(bp.FileBusyError, match="another process"):
        bp.build_index(root)
    monkeypatch.undo()
    assert bp.build_index(root).files == 4


def test_a_read_only_directory_names_another_place(root: Path) -> None:
    directory, message = str(root / "_bloomparquet_index"), r"Read-only file system; .* to=DIRECTORY in Python, --to"
    refusal = OSError(errno.EROFS, os.strerror(errno.EROFS), directory)
    with patch.object(os, "makedirs", side_effect=refusal), pytest.raises(PermissionError, match=message) as caught:
        bp.build_index(root)
    assert (caught.value.errno, caught.value.filename) == (errno.EROFS, directory)


def test_many_small_refreshes_leave_few_segments(tmp_path: Path) -> None:
    write(tmp_path / "0.parquet", {"x": [0, 9]}, ["x"])
    bp.build_index(tmp_path)
    counts = []
    for i in range(1, 20):
        write(tmp_path / f"{i}.parquet", {"x": [10 * i, 10 * i + 9]}, ["x"])
        counts.append(bp.refresh_index(tmp_path).segments)
    assert max(counts) == 8
    assert len(list((tmp_path / "_bloomparquet_index").glob("*.segment"))) == counts[-1]
    plan = bp.plan(tmp_path, "x = 59")
    assert (plan.indexed, plan.kept, plan.footer_reads.requests) == (20, 1, 1)  # one: the manifest


def test_a_directory_in_place_of_the_manifest_is_an_error(root: Path) -> None:
    manifest = root / "_bloomparquet_index" / "_manifest.json"
    bp.build_index(root)
    manifest.unlink()
    manifest.mkdir()
    with pytest.raises(bp.BloomParquetError, match="the manifest is no file; delete the index"):
        bp.refresh_index(root)


def test_a_partition_has_no_index_of_its_own(tmp_path: Path) -> None:
    for day in (1, 2):
        write(tmp_path / f"day={day}" / "x.parquet", {"x": [day]}, ["x"])
    bp.build_index(tmp_path)
    for run in (bp.build_index, bp.refresh_index, bp.drop_index):
        with pytest.raises(bp.PlanError, match="a partition of the data"):
            run(tmp_path / "day=1")
    assert bp.plan(tmp_path, "x = 2").indexed == 2
    assert bp.plan(tmp_path / "day=2", "x = 2").indexed == 1
