"""Files of the footer cache: damage is noticed, several processes may share them, and their size is bounded."""

from __future__ import annotations

import logging
import multiprocessing
import os
import random
import shutil
import signal
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.fs
import pytest

import bloomparquet as bp
from bloomparquet.planning.evidence import cache_file
from bloomparquet.planning.evidence.cache_file import CacheDirectory, default_directory, open_cache_file
from bloomparquet.planning.evidence.section_file import MAGIC, DamagedFileError
from bloomparquet.planning.index.cache import PlanCache, process_cache
from bloomparquet.planning.options import PlanOptions
from bloomparquet.planning.planner import plan_dataset
from bloomparquet.storage.files import FileInfo
from tests.support.disk_cache import (
    ROOM,
    cache_directory,
    cache_files,
    cache_in,
    restart,
    summary,
    ten_files,
    uncached,
    use_disk,
)
from tests.support.files import write


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    yield from cache_in(tmp_path / "cache")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return ten_files(tmp_path / "data")


def _damages(entry: Path) -> Iterator[Callable[[], Any]]:
    whole = entry.read_bytes()
    rng = random.Random(5)

    def flip(at: int) -> None:
        entry.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << rng.randrange(8))]) + whole[at + 1 :])

    for at in [*range(32), *(rng.randrange(len(whole)) for _ in range(250)), len(whole) - 1]:
        yield lambda: flip(at)  # noqa: B023
    for size in [0, 1, 8, 23, 24, 25, *(rng.randrange(len(whole)) for _ in range(40)), len(whole) - 1]:
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


def test_cache_file_of_another_version_is_ignored(data: Path, directory: Path, monkeypatch: Any) -> None:
    bp.plan(data, "x = 31")
    restart()
    (entry,) = cache_files(directory)
    monkeypatch.setattr(cache_file, "code_fingerprint", lambda: "another version")
    with pytest.raises(DamagedFileError):
        open_cache_file(entry)
    assert bp.plan(data, "x = 31").requests > 0


def test_cache_file_of_another_user_is_ignored(data: Path, directory: Path, monkeypatch: Any) -> None:
    bp.plan(data, "x = 31")
    restart()
    monkeypatch.setattr("bloomparquet.planning.evidence.section_file.os.geteuid", lambda: os.getuid() + 1)
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
    assert bp.plan(opened, "x = 66").kept == 1
    process_cache.persist()
    # The listing is right again: by now it is the old file that lies there.
    Path(paths[1]).write_bytes(old)
    os.utime(paths[1], ns=(0, status.st_mtime_ns))
    plan = bp.plan(opened, "x = 2")
    assert (plan.kept, plan.footer_reads.requests) == (1, 1)  # that of the file in question
    restart()
    plan = bp.plan(opened, "x = 2")
    assert (plan.kept, plan.requests) == (1, 0)


def test_files_changed_after_planning_are_not_stored(data: Path, directory: Path) -> None:
    opened = bp.Dataset.open(data)
    bp.plan(opened, "x = 31")
    os.utime(data / "3.parquet", ns=(0, 5))
    process_cache.persist()
    assert not cache_files(directory)


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


def test_footer_of_a_changed_file_is_not_cached(data: Path, directory: Path) -> None:
    opened = bp.Dataset.open(data)
    bp.plan(opened, "x = 31")
    restart()
    os.utime(data / "3.parquet", ns=(0, 5))  # it may no longer be the listed file
    for _ in range(2):
        assert bp.plan(opened, "y = 1").footer_reads.requests == 10
    process_cache.persist()
    (entry,) = cache_files(directory)
    assert len(open_cache_file(entry).sections) == 2


def test_files_without_a_durable_identity_are_not_stored(tmp_path: Path, directory: Path) -> None:
    path = write(tmp_path / "x.parquet", {"x": [2]}, ["x"])
    given = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    assert [bp.plan("x.parquet", "x = 2", filesystem=given).requests for _ in range(2)] == [3, 0]  # one for an index
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


def test_evidence_stays_with_its_file_beside_others_that_are_not_cached(tmp_path: Path, directory: Path) -> None:
    """As many files are read as may be cached or are damaged: one has changed, one is sound, one is damaged."""
    for i, value in enumerate((1, 3, 5)):
        write(tmp_path / "data" / f"{i}.parquet", {"x": [value]}, ["x"])
    (tmp_path / "data" / "2.parquet").write_bytes(b"damaged beyond repair")
    listed = bp.Dataset.open(tmp_path / "data")
    os.utime(tmp_path / "data" / "0.parquet", ns=(0, 5))
    for forget in (lambda: None, restart):
        kept = bp.plan(listed, "x = 3", skip_corrupt=True).kept_row_groups()
        assert {Path(group.path).name for group in kept} == {"0.parquet", "1.parquet"}
        forget()
        plan = bp.plan(tmp_path / "data" / "1.parquet", "x = 3")
        assert (plan.kept, plan.footer_reads.requests) == (1, 0)


def test_plans_without_a_directory_are_not_stored(data: Path, directory: Path) -> None:
    use_disk(None)
    bp.plan(data, "x = 31")
    use_disk(directory)
    process_cache.persist()
    assert not cache_files(directory)
    part = [str(data / "1.parquet"), str(data / "2.parquet")]
    for number, paths in enumerate((part, data), 1):
        assert bp.plan(paths, "x = 31").requests == 0
        process_cache.persist()
        assert len(cache_files(directory)) == number


def test_cache_files_are_readable_by_the_owner_only(data: Path, directory: Path) -> None:
    bp.plan(data, "x = 31")
    process_cache.persist()
    (entry,) = cache_files(directory)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (cache_directory(directory), entry)] == [0o700, 0o600]


def test_disk_errors_are_logged_once_and_fail_no_plan(
    data: Path, tmp_path: Path, directory: Path, caplog: pytest.LogCaptureFixture, monkeypatch: Any
) -> None:
    expected = uncached(data, "x = 30")
    (tmp_path / "file").touch()
    use_disk(tmp_path / "file" / "below")
    for _ in range(2):
        assert summary(bp.plan(data, "x = 30")) == expected
        restart()
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    caplog.clear()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    use_disk(directory)
    monkeypatch.setattr("bloomparquet.planning.evidence.cache_file.os.replace", full)
    for _ in range(2):
        assert summary(bp.plan(data, "x = 30")) == expected
        restart()
    assert ["No space left" in record.getMessage() for record in caplog.records] == [True]
    assert list(cache_directory(directory).iterdir()) == []


def test_least_recently_used_cache_files_are_removed_first(tmp_path: Path, directory: Path) -> None:
    sets = [write(tmp_path / f"data{i}" / "x.parquet", {"x": [2, 4]}, ["x"]) for i in range(4)]
    names = []
    for i, path in enumerate(sets[:3]):
        bp.plan(path, "x = 3")
        restart()
        (new,) = set(cache_files(directory)) - set(names)
        names.append(new)
        os.utime(new, ns=(i, i))
    bp.plan(sets[1], "x = 3")
    os.utime(names[1], ns=(1, 1))
    bp.plan(sets[0], "x = 3")  # used again
    use_disk(directory, sum(path.stat().st_size for path in names) + 100)
    bp.plan(sets[3], "x = 3")
    process_cache.persist()
    assert set(names) - set(cache_files(directory)) == {names[1]}
    assert bp.plan(sets[1], "x = 3").requests == 0  # still in memory
    use_disk(directory, 100)
    bp.plan(write(tmp_path / "data4" / "x.parquet", {"x": [2]}), "x = 3")
    process_cache.persist()
    assert not cache_files(directory)


def test_memory_of_the_cache_is_bounded(data: Path, directory: Path) -> None:
    bp.plan(data, "x = 31")
    restart()
    table = bp.plan(data, "x = 31").table
    bitsets = 40 * int(table.cached_columns()[0, 0].filters.num_bytes[0])
    assert bitsets < table.cached_bytes < bitsets + 64 * 1024
    small = PlanCache(cached_bytes=1)
    for path in ("0.parquet", "1.parquet"):
        one = bp.Dataset.open(data / path)
        plan_dataset(one, None, PlanOptions(cache=small))
    assert len(small._tables) == 1


def _write_many(directory: Path, data: Path, number: int) -> None:
    from bloomparquet.planning.index.cache import process_cache as own

    opened = bp.Dataset.open(data)
    for i in range(25):
        own.clear()
        use_disk(directory, 60_000 if i % 5 == 0 else ROOM)
        some = (
            opened
            if i % 2
            else replace(opened, files=opened.files[: 3 + number], partition_values=((),) * (3 + number))
        )
        value = 2 * (17 * i + number) % 800
        assert bp.plan(some, bp.Eq("x", value)).kept >= len(some.files)
        assert bp.plan(some, bp.Eq("name", f"n{value + 1}")).kept <= len(some.files)
        own.persist()


def test_several_processes_write_and_read_at_once(data: Path, directory: Path) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_write_many, args=(directory, data, number)) for number in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    for entry in cache_files(directory):
        opened = open_cache_file(entry)
        assert all(opened.section(name) for name in opened.sections)
    assert not list(cache_directory(directory).glob(".unfinished*"))


def _die_while_writing(directory: Path, data: Path) -> None:
    from bloomparquet.planning.index.cache import process_cache as own

    use_disk(directory)
    bp.plan(data, "x = 31")
    os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
    own.persist()


def test_file_of_a_killed_writer_is_removed_in_time(data: Path, directory: Path) -> None:
    worker = multiprocessing.get_context("fork").Process(target=_die_while_writing, args=(directory, data))
    worker.start()
    worker.join(30)
    assert worker.exitcode == -signal.SIGKILL
    (left,) = cache_directory(directory).iterdir()
    assert bp.plan(data, "x = 31").requests > 0
    process_cache.persist()
    assert left.exists()  # it might be somebody's who is still at it
    os.utime(left, (0, 0))
    process_cache.persist()
    assert list(cache_directory(directory).iterdir()) == cache_files(directory) != []


def _put(path: Path, content: bytes, age: float = 1e6) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def test_only_cache_files_are_removed(data: Path, directory: Path) -> None:
    """Beside the directory of the cache and in it, files without both its name and its magic stay."""
    magic, name = MAGIC, "0" * 16 + "-" + "1" * 32
    theirs = [
        _put(parent / each, content)
        for parent in (directory, cache_directory(directory))
        for each, content in (
            ("figures.columns", b"x" * 1000),
            (f"{name}.columns", b"not a cache file" * 100),
            (".unfinished-notes", magic + b"x"),
            (f".unfinished-7-{'0' * 16}", b"somebody else's"),
            ("notes.txt", magic + b"x" * 1000),
        )
    ]
    theirs += [_put(directory / f"{name}2.columns", magic + b"x"), _put(directory / f".unfinished-8-{'0' * 16}", magic)]
    (cache_directory(directory) / "link.columns").symlink_to(_put(directory / "target.columns", magic + b"x" * 1000))
    ours = [
        _put(cache_directory(directory) / f".unfinished-9-{i:016}", content)
        for i, content in enumerate((b"", magic[:3], magic))
    ]
    ours += [_put(cache_directory(directory) / f"{name}3.columns", magic + b"x" * 1000)]
    use_disk(directory, 500)
    for path in data.iterdir():
        bp.plan(path, "x = 31")
        process_cache.persist()
    assert all(path.exists() for path in theirs)
    assert (cache_directory(directory) / "link.columns").is_symlink()
    assert (directory / "target.columns").exists()
    assert not any(path.exists() for path in ours)


def test_directory_named_like_a_cache_file_stays(data: Path, directory: Path) -> None:
    opened = bp.Dataset.open(data)
    expected = uncached(opened, "x = 31")
    assert summary(bp.plan(opened, "x = 31")) == expected
    restart()
    (entry,) = cache_files(directory)
    entry.unlink()
    entry.mkdir()
    (entry / "something").touch()
    assert summary(bp.plan(opened, "x = 31")) == expected
    restart()
    assert (entry / "something").exists()


def test_default_directory_follows_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_directory() == Path("/somewhere/bloomparquet")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/someone")
    assert default_directory() == Path("/home/someone/.cache/bloomparquet")


def test_cache_files_of_any_number_of_sections_are_read_back(tmp_path: Path) -> None:
    directory = CacheDirectory(tmp_path, ROOM)
    for count in (0, 1, 2, 9, 40):
        sections = {f"{i}/{i}": {"a" * i: np.arange(i), "b": np.zeros((i, 2), np.uint8)} for i in range(count)}
        assert directory.write(directory.path("x"), sections)
        entry = open_cache_file(directory.path("x"))
        assert {
            name: {key: array.tolist() for key, array in entry.section(name).items()} for name in entry.sections
        } == {name: {key: array.tolist() for key, array in section.items()} for name, section in sections.items()}


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


def test_files_that_stay_are_not_counted_as_removed(tmp_path: Path) -> None:
    def usage() -> int:
        return sum(path.stat().st_size for path in cache.directory.glob("*.columns"))

    section = {"table": {"x": np.zeros(1000, np.uint8)}}
    cache = CacheDirectory(tmp_path, 1 << 20)
    for i, name in enumerate(("old", "new")):
        assert cache.write(cache.path(name), section)
        os.utime(cache.path(name), (i + 1, i + 1))
    _put(cache.path("foreign"), b"not a cache file" * 100)
    os.utime(cache.path("foreign"), (0, 0))
    cache.max_bytes = usage() - 1
    cache.evict()
    assert {path.stem for path in cache.directory.iterdir()} == {"foreign", "new"}
