"""A file is replaced whole or not at all, and by one writer at a time."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.storage.atomic import remove_leftover, replacing, temporary_name
from bloomparquet.writing.retrofit.retrofit import add_filters
from tests.support.core import graft_filters
from tests.support.file_systems import LOCAL, file_info, names
from tests.support.kill import start
from tests.support.stored import assert_filters_hold_all


def test_a_file_is_invisible_until_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with replacing(LOCAL, str(path)) as output:
        output.write(b"one ")
        assert names(path) == [".a.bloomparquet-tmp"]
        output.write(memoryview(np.frombuffer(b"two", np.uint8)))
        output.commit()
    assert path.read_bytes() == b"one two"
    assert names(path) == ["a"]


@pytest.mark.parametrize("exists", [True, False])
def test_without_a_commit_nothing_changes(tmp_path: Path, exists: bool) -> None:
    path = tmp_path / "a"
    if exists:
        path.write_bytes(b"old")
    with replacing(LOCAL, str(path)) as output:
        output.write(b"new")
    with pytest.raises(ZeroDivisionError), replacing(LOCAL, str(path)) as output:
        output.write(b"new" * (1 // 0))
    assert names(path) == (["a"] if exists else [])
    assert not exists or path.read_bytes() == b"old"


@pytest.mark.parametrize("error", [None, errno.EXDEV, AttributeError])
def test_ranges_are_copied_with_and_without_copy_file_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Any
) -> None:
    content = np.random.default_rng(0).bytes(100_000)
    (tmp_path / "source").write_bytes(content)
    if error is AttributeError:
        monkeypatch.delattr(os, "copy_file_range")
    elif error is not None:
        monkeypatch.setattr(os, "copy_file_range", Mock(side_effect=OSError(error, "no")))
    with replacing(LOCAL, str(tmp_path / "a")) as output:
        for start_at, stop in [(10, 50_000), (0, 1), (99_999, 100_000), (70_000, 70_000)]:
            output.copy(LOCAL, str(tmp_path / "source"), start_at, stop)
        output.write(b"end")
        output.commit()
    assert (tmp_path / "a").read_bytes() == content[10:50_000] + content[:1] + content[-1:] + b"end"


def test_files_are_on_the_disk_before_they_have_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a power failure leaves the old or the new file, whole; and an index that names only files that are there."""
    calls: list[tuple[str, str]] = []

    def noted(name: str, original: Any, target: Any, *rest: Any) -> Any:
        path = os.readlink(f"/proc/self/fd/{target}") if isinstance(target, int) else os.fspath(target)
        if path.startswith(str(tmp_path)):
            calls.append((name, path))
        return original(target, *rest)

    for name in ("write", "fsync", "rename"):
        monkeypatch.setattr(os, name, partial(noted, name, getattr(os, name)))
    bp.write_table(pa.table({"v": range(100)}), tmp_path / "a.parquet", bloom=["v"])
    files = bp.build_index(tmp_path).segments + 2
    assert [name for name, _ in calls if name != "write"] == ["fsync", "rename", "fsync"] * files
    for i, (name, path) in enumerate(calls):
        if name == "rename":
            assert calls[i - 1] == ("fsync", path)
            assert calls[i + 1] == ("fsync", os.path.dirname(path))
    assert "manifest" in calls[-2][1]


def test_a_source_that_ends_early_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"short")
    error = pytest.raises(bp.FormatError, match="changed while it was read")
    with error, replacing(LOCAL, str(tmp_path / "a")) as output:
        output.copy(LOCAL, str(tmp_path / "source"), 0, 6)
    assert names(tmp_path / "a") == ["source"]


@pytest.mark.parametrize("how", ["longer", "same size", "another file", "gone"])
def test_a_file_that_changed_is_not_replaced(tmp_path: Path, how: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    old = file_info(path)
    content = {"longer": b"longer", "same size": b"OLD", "another file": b"oLd"}.get(how)
    with replacing(LOCAL, str(path), old) as output:
        output.write(b"new")
        path.with_name("b").write_bytes(content or b"")
        if how == "gone":
            path.unlink()
        elif how == "another file":
            os.utime(tmp_path / "b", ns=(old.mtime_ns, old.mtime_ns))
            os.rename(tmp_path / "b", path)
        else:
            path.write_bytes(content)
            os.utime(path, ns=(1, 1))
        with pytest.raises(bp.BloomParquetError if content else FileNotFoundError):
            output.commit()
    assert (path.read_bytes() if path.exists() else None) == content
    assert not set(names(path)) - {"a", "b"}


def test_a_second_writer_of_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with replacing(LOCAL, str(path)) as output:
        output.write(b"first")
        with pytest.raises(bp.BloomParquetError, match="another process is writing"), replacing(LOCAL, str(path)):
            pass
        remove_leftover(LOCAL, str(path))
        assert names(path) == [".a.bloomparquet-tmp"], "a file that is being written is no leftover"
        output.commit()
    assert path.read_bytes() == b"first"


def add_b(path: str) -> None:
    with contextlib.suppress(bp.BloomParquetError):  # another process was first
        add_filters(path, bloom="b")


def test_concurrent_processes_add_filters_to_one_file(parquet: Path) -> None:
    before = pq.read_table(parquet)
    children = [start(add_b, str(parquet)) for _ in range(6)]
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * 6
    add_filters(parquet, bloom="b")
    assert set(assert_filters_hold_all(str(parquet))) == {(0, 1), (1, 1)}
    assert pq.read_table(parquet).equals(before)
    assert names(parquet) == ["a.parquet"]


def test_a_leftover_is_not_read_and_is_removed(parquet: Path) -> None:
    Path(temporary_name(str(parquet))).write_bytes(b"half of a file")
    assert bp.plan(str(parquet.parent)).total == 2
    add_filters(parquet.parent, bloom="a")
    assert names(parquet) == ["a.parquet"]
    Path(temporary_name(str(parquet))).write_bytes(b"half of a file")
    assert add_filters(parquet.parent, bloom="a")[0].action == "unchanged"
    assert names(parquet) == ["a.parquet"]


def test_a_file_that_cannot_be_looked_at_is_not_replaced(parquet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mode of the file would be lost: all might read the new file."""
    parquet.chmod(0o600)
    original = os.stat

    def fail(path: Any, *args: Any, **options: Any) -> os.stat_result:
        if path == str(parquet):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return original(path, *args, **options)

    monkeypatch.setattr(os, "stat", fail)
    with pytest.raises(OSError, match="Input/output error"):
        bp.write_table(pa.table({"v": [1]}), parquet)
    monkeypatch.undo()
    assert pq.read_table(parquet).column_names != ["v"]
    assert names(parquet) == ["a.parquet"]
    bp.write_table(pa.table({"v": [1]}), parquet)
    assert parquet.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("kind", ["a link", "a broken link", "a directory", "a pipe"])
def test_no_link_or_directory_is_taken_for_a_leftover(tmp_path: Path, parquet: Path, kind: str) -> None:
    temporary = Path(temporary_name(str(parquet)))
    if kind == "a directory":
        temporary.mkdir()
    elif kind == "a pipe":
        os.mkfifo(temporary)
    else:
        target = tmp_path / "elsewhere"
        if kind == "a link":
            target.write_bytes(b"precious")
        temporary.symlink_to(target)
    before = parquet.read_bytes()
    with pytest.raises(bp.BloomParquetError, match=r"this is not a regular file.*remove it"):
        bp.add_filters(parquet, bloom="a")
    assert parquet.read_bytes() == before
    if kind == "a link":
        assert (tmp_path / "elsewhere").read_bytes() == b"precious"


@pytest.mark.parametrize("reason", [errno.EACCES, errno.EIO])
def test_a_directory_that_fails_to_be_flushed_is_an_error(
    parquet: Path, monkeypatch: pytest.MonkeyPatch, reason: int
) -> None:
    """One that can never be flushed is none."""
    fsync, before = os.fsync, parquet.read_bytes()

    def failing(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(reason, os.strerror(reason))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", failing)
    (outcome,) = add_filters(parquet, bloom="a", on_error="report")
    assert parquet.read_bytes() != before
    assert outcome.action == ("failed" if reason == errno.EIO else "added")
    if reason != errno.EIO:
        return
    for text in ("Input/output error", "the new file is in place and complete", "check the disk", str(parquet)):
        assert text in str(outcome.error)
    assert names(parquet) == ["a.parquet"]


def test_storage_without_atomic_copies_is_not_written(parquet: Path) -> None:
    import fsspec
    import pyarrow.fs

    before = parquet.read_bytes()
    below = pyarrow.fs.SubTreeFileSystem(str(parquet.parent), pyarrow.fs.LocalFileSystem())
    directory = fsspec.filesystem("dir", path=str(parquet.parent), fs=fsspec.filesystem("file"))
    for filesystem in (below, directory):
        with pytest.raises(bp.UnsupportedError, match="not known to replace a file in one step, so nothing is written"):
            add_filters("a.parquet", bloom="a", filesystem=filesystem)
        with pytest.raises(bp.UnsupportedError, match="so nothing is written"):
            bp.write_table(pa.table({"v": [1]}), "a.parquet", filesystem=filesystem)
    assert parquet.read_bytes() == before
    assert names(parquet) == ["a.parquet"]


@pytest.mark.parametrize("length", [234, 235, 254, 255])
def test_file_names_may_have_255_bytes(tmp_path: Path, parquet: Path, length: int) -> None:
    path = tmp_path / ("ä" * 20 + "x" * (length - 48) + ".parquet")
    assert len(path.name.encode()) == length
    parquet.rename(path)
    assert [outcome.action for outcome in bp.add_filters(path, bloom="a")] == ["added"]
    graft_filters(str(path), 1 << 15)
    assert [outcome.action for outcome in bp.shrink_filters(path)] == ["shrunk"]
    assert [name for name in os.listdir(tmp_path) if name != "data"] == [path.name]


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        bp.write_table(pa.table({"id": [1]}), tmp_path / "no" / "a.parquet")
    assert caught.value.filename == str(tmp_path / "no")


def test_devices_and_pipes_are_not_replaced(tmp_path: Path, parquet: Path) -> None:
    pipe, link = tmp_path / "pipe.parquet", tmp_path / "link.parquet"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for write, source in ((bp.write_table, pa.table({"id": [1]})), (add_filters, parquet)):
        for path in (pipe, link):
            with pytest.raises(bp.UnsupportedError, match="this is a device, a pipe or a socket"):
                write(source, path)
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert names(pipe) == ["data", "link.parquet", "pipe.parquet"]
