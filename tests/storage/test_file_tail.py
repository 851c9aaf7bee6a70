"""Tails of many files come by few requests, whatever their size."""

from __future__ import annotations

from pathlib import Path

import pytest

from bloomparquet.errors import BloomParquetError, FormatError
from bloomparquet.storage.file_tail import FileTail, read_file_tails
from bloomparquet.storage.files import FileInfo, ReadCount
from bloomparquet.storage.open import open_storage


def stored_size(file: FileInfo, end: bytes) -> int:
    if not end:
        raise FormatError(f"{file.path}: empty")
    return int.from_bytes(end[-4:], "little")


def read(directory: Path, count: ReadCount) -> list[FileTail | BloomParquetError]:
    storage, inner = open_storage(str(directory))
    files = storage.list_files(inner, recursive=False)
    return [tail for batch in read_file_tails(storage, files, stored_size, count) for tail in batch]


@pytest.mark.parametrize(("size", "requests"), [(100, 600), (16 * 1024, 600), (40_000, 616), (300_000, 1200)])
def test_the_guess_adapts_to_the_first_files(tmp_path: Path, size: int, requests: int) -> None:
    content = bytes(range(256)) * (size // 256 + 100)
    for i in range(600):
        (tmp_path / f"{i:03}").write_bytes(content + size.to_bytes(4, "little"))
    count = ReadCount()
    for tail in read(tmp_path, count):
        assert isinstance(tail, FileTail)
        assert (content + size.to_bytes(4, "little")).endswith(tail.end)
        assert len(tail.end) >= tail.size == size
    assert count.requests == requests


def test_an_error_stays_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    (tmp_path / "b").write_bytes(b"tail" + (8).to_bytes(4, "little"))
    bad, good = read(tmp_path, ReadCount())
    assert isinstance(bad, FormatError)
    assert isinstance(good, FileTail)
    assert good.end == b"tail\x08\0\0\0"
