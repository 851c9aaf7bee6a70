"""A file that changes after it was listed gives the rows of one version, or an error. It never gives fewer rows."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.fs
import pytest

import bloomparquet as bp
from bloomparquet.planning import planner
from bloomparquet.reading import scan
from bloomparquet.storage import staleness
from bloomparquet.storage.files import FileInfo, LocalStorage
from bloomparquet.storage.open import open_storage
from tests.support import changes, files
from tests.support.changes import BASE, CHANGED, CHANGES, FIRST, FORMATS, KEPT, SKIPPED, WHERE, Row
from tests.support.disk_cache import cache_in, restart

ERRORS = (bp.FileChangedError, FileNotFoundError)
ALL = f"id >= {BASE}"


@pytest.fixture(params=FORMATS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "t").mkdir()
    changes.write(tmp_path / "t" / f"other.{request.param}", (0,), "a")
    return tmp_path / "t" / f"x.{request.param}"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    yield from cache_in(tmp_path / "cache")


def read(path: Any, where: str | None = WHERE, **options: Any) -> list[Row]:
    return as_rows([bp.read_table(path, where, columns=["id", "v"], **options)])


def as_rows(tables: Any) -> list[Row]:
    return changes.shown(row for table in tables for row in zip(*table.to_pydict().values(), strict=True))


def changing_when_planned(monkeypatch: pytest.MonkeyPatch, path: Path, kind: str, units: tuple[int, ...]) -> None:
    """Change the file once, after the plan of a scan."""

    def plan(*args: Any, **options: Any) -> bp.ScanPlan:
        made = planner.plan_dataset(*args, **options)
        monkeypatch.setattr(scan, "plan_dataset", planner.plan_dataset)
        changes.change(path, kind, units)
        return made

    monkeypatch.setattr(scan, "plan_dataset", plan)


@pytest.mark.parametrize("options", [{}, {"where": None}, {"skip_corrupt": True}], ids=["", "full", "skip_corrupt"])
@pytest.mark.parametrize("kind", CHANGES)
def test_a_kept_file_changed_after_the_plan_is_an_error(
    path: Path, kind: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    changes.write(path, KEPT, "a")
    changing_when_planned(monkeypatch, path, kind, KEPT)
    with pytest.raises(ERRORS, match=rf"{path.name}.*({CHANGED}|No such file)"):
        read(path, **options)
    if kind != "deleted":
        assert read(path) == changes.after(kind, KEPT)


@pytest.mark.parametrize("kind", CHANGES)
def test_a_skipped_file_changed_later_gives_the_old_rows(
    path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes.write(path, SKIPPED, "a")
    changing_when_planned(monkeypatch, path, kind, SKIPPED)
    assert read(path.parent) == []
    assert read(path.parent) == changes.after(kind, SKIPPED)


@pytest.mark.parametrize("kind", CHANGES)
def test_a_file_changed_during_a_read_is_an_error(path: Path, kind: str) -> None:
    changes.write(path, KEPT, "a")
    batches = bp.scan_batches(path, ALL, columns=["id", "v"])
    first = next(iter(batches))
    changes.change(path, kind, KEPT)
    with pytest.raises(bp.FileChangedError, match=rf"{path.name}.*{CHANGED}"):
        as_rows([first, *batches])


@pytest.mark.parametrize("where", [None, f"id = {FIRST}"], ids=["footer", "filter"])
def test_bytes_of_another_file_are_not_called_damaged(path: Path, where: str | None, caplog: Any) -> None:
    changes.write(path, KEPT, "a")
    dataset = bp.Dataset.open(path)
    if where is not None:
        bp.plan(dataset, "v IS NULL")  # reads the footer
    path.write_bytes(b"\xff" * path.stat().st_size)
    with pytest.raises(bp.FileChangedError, match=rf"{path.name}.*{CHANGED}"):
        bp.plan(dataset, where)
    assert not caplog.messages


@pytest.mark.parametrize("stored", [False, True], ids=["memory", "disk"])
@pytest.mark.parametrize("first", [KEPT, SKIPPED], ids=["kept", "skipped"])
@pytest.mark.parametrize("kind", CHANGES)
def test_the_next_scan_reads_the_new_version(
    path: Path, kind: str, first: tuple[int, ...], stored: bool, disk: Path
) -> None:
    """No cache, in memory or on disk, uses the old version for the new one."""
    changes.write(path, first, "a")
    assert read(path.parent) == changes.matching(first, "a")
    if stored:
        restart()
    changes.change(path, kind, first)
    assert read(path.parent) == changes.after(kind, first)
    assert bp.plan(path.parent, WHERE).kept == len({i // changes.ROWS for i, _ in changes.after(kind, first)})


@pytest.mark.parametrize("first", [KEPT, SKIPPED], ids=["kept", "skipped"])
@pytest.mark.parametrize("kind", CHANGES)
def test_a_file_changed_after_its_listing_is_an_error(path: Path, kind: str, first: tuple[int, ...]) -> None:
    """Also if all evidence is in a cache."""
    changes.write(path, first, "a")
    listed = bp.Dataset.open(path)
    assert read(listed) == changes.matching(first, "a")
    changes.change(path, kind, first)
    with pytest.raises(ERRORS, match=rf"{path.name}.*({CHANGED}|No such file)"):
        read(listed)


def test_evidence_of_two_versions_is_an_error(path: Path) -> None:
    changes.write(path, SKIPPED, "a")
    listed = bp.Dataset.open(path)
    changes.change(path, "same size and time", SKIPPED)
    for _ in range(2):
        with pytest.raises(bp.FileChangedError, match=CHANGED):
            bp.plan(listed, WHERE)
        os.utime(path)


@pytest.mark.parametrize("kind", ["replaced", "grown", "shrunk"])
def test_a_remote_file_changed_after_the_plan_is_an_error(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    for suffix in FORMATS:
        path = tmp_path / f"x.{suffix}"
        changes.write(path, KEPT, "a")
        os.utime(path, (1, 1))
        changing_when_planned(monkeypatch, path, kind, KEPT)
        with pytest.raises(bp.FileChangedError, match=rf"{path.name}.*{CHANGED}"):
            read(path.name, filesystem=remote)
        assert read(path.name, filesystem=remote) == changes.after(kind, KEPT)


def test_a_listing_has_inode_and_change_time(tmp_path: Path) -> None:
    changes.write(tmp_path / "x.parquet", KEPT, "a")
    status = (tmp_path / "x.parquet").stat()
    expected = FileInfo(
        str(tmp_path / "x.parquet"), status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns
    )
    for listed in (tmp_path, tmp_path / "x.parquet"):
        assert bp.Dataset.open(listed).files == (expected,)


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("tick", [10_000_000, 1_000_000_000], ids=["10 ms", "1 s"])
def test_two_changes_within_a_tick_of_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tick: int, indexed: bool
) -> None:
    """Linux before 6.13 stamps files with the time of the last tick. Both versions of the file have one size."""

    def stamped(path: str, status: os.stat_result) -> FileInfo:
        times = (time // tick * tick for time in (status.st_mtime_ns, status.st_ctime_ns))
        return FileInfo(path, status.st_size, next(times), status.st_ino, next(times))

    monkeypatch.setattr(FileInfo, "of", stamped)
    monkeypatch.setattr(staleness, "_version_of", lambda status: stamped("", status)[1:])
    path = tmp_path / "x.parquet"
    for _ in range(10 if tick < 10**9 else 1):
        files.write(path, {"id": [1, 2, 3]}, ["id"])
        if indexed:
            bp.build_index(tmp_path)
        else:
            assert bp.read_table(tmp_path, "id = 5").num_rows == 0
        files.write(path, {"id": [4, 5, 6]}, ["id"])
        assert bp.read_table(tmp_path, "id = 5").num_rows == 1


def test_evidence_waits_only_for_a_file_that_just_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    monkeypatch.setattr(time, "time_ns", lambda: 5_000_000_000)
    for changed, expected in {
        4_999_999_999: [0.009999999],
        4_995_000_000: [0.005],
        4_990_000_000: [],
        5_000_000_001: [],  # the clock of another machine
        5_000_000_000: [1.0],  # the file system may store whole seconds
        4_000_000_000: [],
    }.items():
        staleness.wait_for_clock(LocalStorage(), [FileInfo("a", 1, changed, 1, 17), FileInfo("b", 1, 1, 1, changed)])
        assert waited == expected
        waited.clear()
    remote, _ = open_storage("/", pyarrow.fs.SubTreeFileSystem("/", pyarrow.fs.LocalFileSystem()))
    staleness.wait_for_clock(remote, [FileInfo("a", 1, 1, 1, 4_999_999_999)])
    assert waited == []
