"""Files of the planner's cache: damage is noticed, and evidence stays with the version of its file."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.fs
import pytest

import bloomparquet as bp
from bloomparquet.parquet.metadata.footer import read_footers
from bloomparquet.planning.cache.directory import CacheDirectory, open_cache_file
from bloomparquet.planning.cache.plan_cache import process_cache
from bloomparquet.planning.evidence.section_source import DamagedFileError
from bloomparquet.planning.parquet import row_groups
from bloomparquet.storage.files import FileInfo
from tests.support.disk_cache import ROOM, cache_files, restart, summary, uncached
from tests.support.files import write


def _damages(entry: Path) -> Iterator[Callable[[], Any]]:
    whole = entry.read_bytes()
    rng = random.Random(5)

    def flip(at: int) -> None:
        entry.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << rng.randrange(8))]) + whole[at + 1 :])

    for at in [*range(32), *(rng.randrange(len(whole)) for _ in range(100)), len(whole) - 1]:
        yield lambda: flip(at)  # noqa: B023
    for size in [0, 1, 8, 23, 24, 25, *(rng.randrange(len(whole)) for _ in range(20)), len(whole) - 1]:
        yield lambda: os.truncate(entry, size)  # noqa: B023
    yield lambda: entry.write_bytes(whole + b"\0")
    yield lambda: entry.write_bytes(rng.randbytes(len(whole)))
    yield lambda: entry.write_bytes(whole.replace(b'"writer": "', b'"writer": "0'))
    yield lambda: (entry.unlink(), entry.symlink_to(entry))
    yield lambda: (entry.unlink(), os.mkfifo(entry))


def test_damaged_cache_file_is_ignored_and_replaced(tmp_path: Path, directory: Path) -> None:
    for i in range(2):
        write(tmp_path / "data" / f"{i}.parquet", {"x": [10 * i, 10 * i + 4], "s": ["a", "b"]}, ["x"], rows_per_group=1)
    opened = bp.Dataset.open(tmp_path / "data")
    where = "x IN (4, 7, 14) AND s > 'a'"
    expected = uncached(opened, where)
    assert summary(bp.plan(opened, where)) == expected
    restart()
    (entry,) = cache_files(directory)
    sound = entry.read_bytes()
    for damage in _damages(entry):
        damage()
        assert summary(bp.plan(opened, where)) == expected
        restart()
        assert entry.read_bytes() == sound
    assert bp.plan(opened, where).requests == 0


def test_cache_file_of_other_files_is_ignored(data: Path, directory: Path) -> None:
    small = bp.Dataset.open([data / "0.parquet", data / "1.parquet"])
    other = bp.Dataset.open([data / "2.parquet", data / "3.parquet"])
    bp.plan(small, "x = 30")
    restart()
    (first,) = cache_files(directory)
    bp.plan(other, "x = 30")
    restart()
    (second,) = (entry for entry in cache_files(directory) if entry != first)
    shutil.copy(first, second)
    expected = uncached(other, "x = 30")
    assert summary(bp.plan(other, "x = 30")) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [("cache.directory.code_fingerprint", "another version"), ("evidence.section_source.os.geteuid", os.getuid() + 1)],
)
def test_cache_file_of_another_version_or_user_is_ignored(
    name: str, value: Any, data: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bp.plan(data, "x = 31")
    restart()
    monkeypatch.setattr(f"bloomparquet.planning.{name}", lambda: value)
    assert bp.plan(data, "x = 31").requests > 0


@pytest.mark.parametrize("coarse", [False, True], ids=["ns", "ms"])
def test_file_replaced_after_listing_is_not_cached_as_old(tmp_path: Path, directory: Path, coarse: bool) -> None:
    paths = [write(tmp_path / "data" / f"{i}.parquet", {"x": [2 * i]}, ["x"]) for i in range(4)]
    files = [FileInfo(path, os.stat(path).st_size, os.stat(path).st_mtime_ns) for path in paths]
    if coarse:
        files = [file._replace(mtime_ns=file.mtime_ns // 1_000_000 * 1_000_000) for file in files]
    opened = replace(bp.Dataset.open(tmp_path / "data"), files=tuple(files))
    status = os.stat(paths[1])
    old = Path(paths[1]).read_bytes()
    write(paths[1], {"x": [66]}, ["x"])
    assert os.stat(paths[1]).st_size == status.st_size
    os.utime(paths[1], ns=(0, status.st_mtime_ns + 5_000_000))
    with pytest.raises(bp.FileChangedError, match=r"1\.parquet"):
        bp.plan(opened, "x = 66")
    process_cache.persist()
    # The listing is right again: by now it is the old file that lies there.
    Path(paths[1]).write_bytes(old)
    os.utime(paths[1], ns=(0, status.st_mtime_ns))
    plan = bp.plan(opened, "x = 2")
    assert (plan.kept, plan.footer_reads.requests) == (1, 4)
    restart()
    plan = bp.plan(opened, "x = 2")
    assert (plan.kept, plan.requests) == (1, 0)


def test_footer_read_later_must_match_the_cache_file(data: Path, directory: Path) -> None:
    opened = bp.Dataset.open(data)
    bp.plan(opened, "x = 31")
    restart()
    size = opened.files[3].size
    write(data / "3.parquet", {"x": [1], "name": ["a"], "y": [0.5]})
    with open(data / "3.parquet", "r+b") as file:  # of the size that was listed, with a footer at its end
        whole = file.read()
        file.seek(0)
        file.write(bytes(size - len(whole)) + whole)
    with pytest.raises(bp.FormatError, match=r"3\.parquet: the file changed since it was listed"):
        bp.plan(opened, "y = 1")


def test_a_footer_of_another_file_is_an_error(tmp_path: Path, directory: Path, monkeypatch: Any) -> None:
    """Not every storage says which version of a file it read."""
    for i in range(2):
        write(tmp_path / "data" / f"{i}.parquet", {"x": [1] * (i + 1), "y": [i] * (i + 1)})
    opened = bp.Dataset.open(tmp_path / "data")
    bp.plan(opened, "x = 1")
    restart()
    swapped = lambda storage, files, *rest, **keys: read_footers(storage, files[::-1], *rest, **keys)  # noqa: E731
    monkeypatch.setattr(row_groups, "read_footers", swapped)
    with pytest.raises(bp.FileChangedError, match=r"0\.parquet: the footer differs from the cached one"):
        bp.plan(opened, "y = 1")


def test_files_without_a_durable_identity_are_not_stored(tmp_path: Path, directory: Path) -> None:
    path = write(tmp_path / "x.parquet", {"x": [2]}, ["x"])
    given = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    assert [bp.plan("x.parquet", "x = 2", filesystem=given).requests for _ in range(2)] == [2, 0]  # one for an index
    undated = replace(bp.Dataset.open(path), files=(FileInfo(path, os.stat(path).st_size, 0),))
    assert [bp.plan(undated, "x = 2").requests for _ in range(2)] == [2, 2]
    process_cache.persist()
    assert not cache_files(directory)


def test_damaged_data_files_are_read_again(data: Path, directory: Path) -> None:
    (data / "3.parquet").write_bytes(b"damaged beyond repair")
    expected = uncached(data, "x = 30", skip_corrupt=True)
    assert summary(bp.plan(data, "x = 30", skip_corrupt=True)) == expected
    for forget in (lambda: None, restart):
        forget()
        again = bp.plan(data, "x = 30", skip_corrupt=True)
        assert (summary(again), again.requests) == (expected, 1)


def test_evidence_stays_with_its_file_beside_uncached_files(tmp_path: Path, directory: Path) -> None:
    """As many files are read as may be cached or are damaged: one has no time, one is sound, one is damaged."""
    for i, value in enumerate((1, 3, 5)):
        write(tmp_path / "data" / f"{i}.parquet", {"x": [value]}, ["x"])
    (tmp_path / "data" / "2.parquet").write_bytes(b"damaged beyond repair")
    listed = bp.Dataset.open(tmp_path / "data")
    undated = replace(listed, files=(listed.files[0]._replace(mtime_ns=0, inode=0, ctime_ns=0), *listed.files[1:]))
    for forget in (lambda: None, restart):
        kept = bp.plan(undated, "x = 3", skip_corrupt=True).kept_row_groups()
        assert {Path(group.path).name for group in kept} == {"1.parquet"}
        forget()
        plan = bp.plan(tmp_path / "data" / "1.parquet", "x = 3")
        assert plan.kept == 1


def test_open_cache_files_may_be_removed_and_truncated(tmp_path: Path) -> None:
    """A mapped file that shrinks would kill the process."""
    directory, section = CacheDirectory(tmp_path, ROOM), {"table": {"x": np.arange(10_000)}}
    directory.write(directory.path("x"), section)
    removed = open_cache_file(directory.path("x"))
    directory.path("x").unlink()
    assert removed.section("table")["x"].tolist() == list(range(10_000))
    directory.write(directory.path("x"), section)
    truncated = open_cache_file(directory.path("x"))
    read = truncated.section("table")["x"]
    os.truncate(directory.path("x"), 1000)
    assert read.tolist() == list(range(10_000))
    with pytest.raises(DamagedFileError, match="truncated"):
        truncated.section("table")
