"""The directory of the planner's cache: several processes may share it, and its size is bounded."""

from __future__ import annotations

import logging
import multiprocessing
import os
import stat
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import bloomparquet as bp
from bloomparquet.planning.cache.directory import default_directory, open_cache_file
from bloomparquet.planning.cache.plan_cache import PlanCache, process_cache
from bloomparquet.planning.evidence.section_file import MAGIC
from bloomparquet.planning.options import PlanOptions
from bloomparquet.planning.planner import plan_dataset
from tests.support.disk_cache import ROOM, cache_directory, cache_files, restart, summary, uncached, use_disk
from tests.support.files import write


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
    monkeypatch.setattr("bloomparquet.planning.cache.directory.os.replace", full)
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


def test_tables_that_grow_in_memory_stay_within_the_bound(data: Path) -> None:
    """Lookups read filters of tables that are in memory."""
    tables = [bp.Dataset.open(data / f"{number}.parquet") for number in range(3)]
    cache = PlanCache(memory_bytes=1 << 20)
    for table in tables:
        plan_dataset(table, "x = 31", PlanOptions(cache=cache))
    first, *others = cache._parts
    assert cache._size() <= 1 << 20
    others[0].part.arrays.extents.resize((1 << 17, 2), refcheck=False)  # 2 MiB
    for use in range(16):
        plan_dataset(tables[1], "x = 31", PlanOptions(cache=cache))
        assert (use < 6) == (first in cache._parts)
    assert len(cache._parts) == 1


def _write_many(directory: Path, data: Path, number: int) -> None:
    from bloomparquet.planning.cache.plan_cache import process_cache as own

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


def test_default_directory_follows_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_directory() == Path("/somewhere/bloomparquet")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/someone")
    assert default_directory() == Path("/home/someone/.cache/bloomparquet")
