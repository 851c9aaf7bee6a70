"""Byte ranges and tails are read once each, merged if they are near, on local files and through pyarrow and fsspec."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import fsspec
import numpy as np
import pyarrow.fs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloomparquet.errors import BloomParquetError, FormatError
from bloomparquet.storage import ranges
from bloomparquet.storage.file_tail import FileTail, read_file_tails
from bloomparquet.storage.files import ArrowStorage, FileInfo, LocalStorage, ReadCount, Storage
from bloomparquet.storage.open import open_storage
from bloomparquet.storage.ranges import read_ranges
from tests.support.traced_memory import memory_left_behind

CONTENT = np.random.default_rng(0).integers(0, 256, 1_000_000, np.uint8).tobytes()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("storage")
    paths = []
    for i in range(3):
        (folder / f"{i}.bin").write_bytes(CONTENT[i * 1000 :])
        paths.append(str(folder / f"{i}.bin"))
    return paths


STORAGES: dict[str, Storage] = {
    "local": LocalStorage(),
    "arrow": ArrowStorage(pyarrow.fs.LocalFileSystem(), "test"),
    "fsspec": open_storage("/", fsspec.filesystem("file"))[0],
}


def listed(paths: Sequence[str]) -> list[FileInfo]:
    return [FileInfo.of(path, os.stat(path)) for path in paths]


def read(
    storage: Storage, paths: list[str], wanted: list[tuple[int, int, int]], count: ReadCount | None = None
) -> list[bytes]:
    file, offset, length = (np.array(column, np.int64) for column in zip(*wanted, strict=True))
    count = ReadCount() if count is None else count
    read = read_ranges(storage, listed(paths), file, offset, length, count)
    return [read.buffer[start : start + size].tobytes() for start, size in zip(read.starts, length, strict=True)]


RANGES = st.lists(
    st.tuples(st.integers(0, 2), st.one_of(st.integers(0, 40_000), st.integers(0, 990_000)), st.integers(1, 6_000)),
    min_size=1,
    max_size=40,
)


@given(wanted=RANGES)
def test_merged_reads_equal_single_reads(files: list[str], wanted: list[tuple[int, int, int]]) -> None:
    naive = [CONTENT[file * 1000 + offset : file * 1000 + offset + length] for file, offset, length in wanted]
    for name, storage in STORAGES.items():
        count = ReadCount()
        assert read(storage, files, wanted, count) == naive, name
        assert 1 <= count.requests <= len(wanted)
        assert count.bytes >= max(length for _, _, length in wanted)


@given(wanted=RANGES)
def test_only_near_ranges_are_merged(files: list[str], wanted: list[tuple[int, int, int]]) -> None:
    runs: list[tuple[str, int, int]] = []

    class Watched(LocalStorage):
        merge_gap = 1000

        def read_into(self, path: str, starts: Any, views: Any, threads: int = 1) -> FileInfo:
            runs.extend((path, start, start + len(view)) for start, view in zip(starts, views, strict=True))
            return super().read_into(path, starts, views)

    count = ReadCount()
    read(Watched(), files, wanted, count)
    assert count.requests == len(runs)
    assert count.bytes == sum(end - start for _, start, end in runs)
    for (path, _, end), (other, start, _) in zip(sorted(runs), sorted(runs)[1:], strict=False):
        assert path != other or start > end + 1000


def test_ranges_up_to_the_merge_gap_apart_are_one_request(files: list[str]) -> None:
    for storage in STORAGES.values():
        for gap, requests in ((storage.merge_gap, 1), (storage.merge_gap + 1, 2)):
            count = ReadCount()
            read(storage, files, [(0, 0, 10), (0, 10 + gap, 10)], count)
            assert count.requests == requests


@pytest.mark.parametrize("is_slow", [False, True])
def test_slow_local_reads_are_made_by_several_threads(
    is_slow: bool, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "_SLOW_SECONDS", -1 if is_slow else 1e9)
    both, main, reads_in_threads = threading.Barrier(2), threading.get_ident(), itertools.count()

    class Recorded(LocalStorage):
        def read_into(self, path: str, offsets: Any, views: Any, threads: int = 1) -> FileInfo:
            if threading.get_ident() != main and next(reads_in_threads) < 2:
                both.wait(10)
            return super().read_into(path, offsets, views)

    wanted = [(i, 700 * i, 9) for i in range(1000)]
    expected = [CONTENT[i % 3 * 1000 + offset :][:size] for i, offset, size in wanted]
    assert read(Recorded(), [files[i % 3] for i in range(1000)], wanted) == expected
    assert (next(reads_in_threads) > 2) == is_slow


def test_threads_may_share_a_file_of_fsspec() -> None:
    """fsspec's memory file system gives all readers of a path one file, with one position."""
    fsspec.filesystem("memory").pipe("/shared", CONTENT)
    storage, path = open_storage("memory://shared")
    begin = threading.Barrier(4)

    def read(seed: int) -> None:
        begin.wait()
        for start in np.random.default_rng(seed).integers(0, len(CONTENT) - 100, 3_000).tolist():
            part = bytearray(100)
            storage.read_into(path, [start], [memoryview(part)])
            assert bytes(part) == CONTENT[start : start + 100]

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(read, range(4)))


def test_failed_reads_of_fsspec_leave_no_memory_behind(memory: Any) -> None:
    memory.pipe("/unreadable", CONTENT)
    storage, path = open_storage("memory://unreadable")
    part = bytearray(100_000)

    def fail() -> None:
        with pytest.raises(PermissionError):
            storage.read_into(path, [5], [memoryview(part)])

    with patch.object(type(memory.open("/unreadable")), "read", side_effect=PermissionError):
        assert memory_left_behind(fail) < 1 << 16


def test_short_reads_are_continued(files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    original = os.preadv
    monkeypatch.setattr("bloomparquet.storage.files.os.preadv", lambda fd, views, at: original(fd, [views[0][:7]], at))
    wanted = [(0, 5, 100), (1, 3, 1), (2, 900_000, 2000)]
    expected = [CONTENT[f * 1000 + at : f * 1000 + at + size] for f, at, size in wanted]
    assert read(LocalStorage(), files, wanted) == expected


@pytest.mark.parametrize("storage", STORAGES.values(), ids=STORAGES)
def test_a_read_beyond_the_end_or_of_no_file_is_an_error(storage: Storage, files: list[str]) -> None:
    size = len(CONTENT) - 2000
    message = rf"2\.bin: the file ends at byte {size}, but bytes up to {size + 50} were expected"
    with pytest.raises(FormatError, match=message):
        read(storage, files, [(2, size - 50, 100)])
    with pytest.raises(FileNotFoundError):
        read(storage, ["/nowhere/at all.bin"], [(0, 0, 1)])


def stored_size(file: FileInfo, end: bytes) -> int:
    if not end:
        raise FormatError(f"{file.path}: empty")
    return int.from_bytes(end[-4:], "little")


def read_tails(directory: Path, count: ReadCount) -> list[FileTail | BloomParquetError]:
    storage, inner = open_storage(str(directory))
    files = storage.list_files(inner, recursive=False)
    return [tail for batch in read_file_tails(storage, files, stored_size, count) for tail in batch]


@pytest.mark.parametrize(("size", "requests"), [(100, 600), (16 * 1024, 600), (40_000, 616), (300_000, 1200)])
def test_the_guess_adapts_to_the_first_files(tmp_path: Path, size: int, requests: int) -> None:
    content = bytes(range(256)) * (size // 256 + 100)
    for i in range(600):
        (tmp_path / f"{i:03}").write_bytes(content + size.to_bytes(4, "little"))
    count = ReadCount()
    for tail in read_tails(tmp_path, count):
        assert isinstance(tail, FileTail)
        assert (content + size.to_bytes(4, "little")).endswith(tail.end)
        assert len(tail.end) >= tail.size == size
    assert count.requests == requests


def test_an_error_stays_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    (tmp_path / "b").write_bytes(b"tail" + (8).to_bytes(4, "little"))
    bad, good = read_tails(tmp_path, ReadCount())
    assert isinstance(bad, FormatError)
    assert isinstance(good, FileTail)
    assert good.end == b"tail\x08\0\0\0"
