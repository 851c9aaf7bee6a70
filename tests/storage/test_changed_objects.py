"""Objects that changed after they were listed: their evidence is not used, and a storage says so without a request."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pytest
from fsspec.implementations.local import LocalFileSystem

import bloomparquet as bp
from bloomparquet.errors import FileChangedError
from bloomparquet.storage.files import ArrowStorage, FileInfo
from bloomparquet.storage.staleness import require_same
from tests.support import changes, files
from tests.support.changes import KEPT, SKIPPED, WHERE
from tests.support.s3 import S3Server

REMOTE = ArrowStorage(pyarrow.fs.LocalFileSystem(), "remote")
ROWS = 300_000
IDS = np.random.default_rng(1).integers(1, 1 << 40, ROWS)
KEY = int(IDS[1000])


def write(folder: Path, name: str, *, moved: bool) -> None:
    """A file whose filter is so large that single blocks of it are read. Two versions have the same rows and size; in
    the second one, data are where the filter was."""
    folder.mkdir(exist_ok=True)
    pad = pa.array([b"0" * 32] * ROWS)
    columns = {"pad": pad, "id": IDS} if moved else {"id": IDS, "pad": pad}
    files.write(folder / name, columns, ["id"], compression="none", use_dictionary=False)


def rows(dataset: bp.Dataset) -> int:
    return bp.read_table(dataset, f"id = {KEY}").num_rows


def test_an_object_that_was_replaced_is_an_error(s3: S3Server, tmp_path: Path) -> None:
    write(tmp_path / "old", "x.parquet", moved=False)
    write(tmp_path / "new", "x.parquet", moved=True)
    s3.upload(tmp_path / "old", "t")
    dataset = bp.Dataset.open("bucket/t", filesystem=s3.filesystem)
    assert bp.plan(dataset, f"id = {KEY + 1}").kept == 0, "the plans know where the filter was"
    del s3.requests[:]
    assert bp.plan(dataset, f"id = {KEY}").kept == 1
    assert [method for method, _ in s3.requests] == ["HEAD", "GET"], "no request more"
    time.sleep(1.1)  # S3 reports seconds
    s3.upload(tmp_path / "new", "t")
    with pytest.raises(FileChangedError, match="the file changed since it was listed"):
        rows(dataset)
    assert rows(bp.Dataset.open("bucket/t", filesystem=s3.filesystem)) == 1


def test_a_file_system_that_reports_only_sizes(tmp_path: Path) -> None:
    write(tmp_path, "x.parquet", moved=False)
    filesystem = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    dataset = bp.Dataset.open("x.parquet", filesystem=filesystem)
    assert bp.plan(dataset, f"id = {KEY + 1}").kept == 0
    assert rows(dataset) == 1
    data = {"more": ["0" * 40] * ROWS, "id": IDS}
    files.write(tmp_path / "x.parquet", data, ["id"], compression="none", use_dictionary=False)
    with pytest.raises(FileChangedError, match="the file changed since it was listed"):
        rows(dataset)


class RememberingFileSystem(LocalFileSystem):  # type: ignore[misc]
    """Keeps sizes and times until it is told that they are invalid, as fsspec's object stores do."""

    protocol = "remembering"
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[str, Any] = {}

    def info(self, path: str, **_: Any) -> Any:
        if path not in self.known:
            self.known[path] = super().info(path)
        return self.known[path]

    def ls(self, path: str, detail: bool = False, **_: Any) -> Any:
        names = super().ls(path, detail=False)
        return [self.info(name) for name in names] if detail else names

    def invalidate_cache(self, path: str | None = None) -> None:
        if path is None:
            self.known.clear()
        self.known.pop(str(path), None)


def in_pyarrow(filesystem: Any) -> pyarrow.fs.FileSystem:
    return pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(filesystem))


@pytest.mark.parametrize(
    "wrap", [lambda given: given, in_pyarrow, lambda given: pyarrow.fs.SubTreeFileSystem("/", in_pyarrow(given))]
)
def test_listings_that_fsspec_keeps_are_not_used(tmp_path: Path, wrap: Callable[[Any], Any]) -> None:
    """A later read has the new rows, and a reader that was open raises an error."""
    filesystem, path = wrap(RememberingFileSystem()), tmp_path / "t" / "x.parquet"
    path.parent.mkdir()
    for old, new in ((SKIPPED, "grown"), (KEPT, "replaced")):
        changes.write(path, old, "a")
        expected = changes.matching(old, "a")
        for at in (path, path.parent):
            assert changes.shown(matching(bp.scan_batches(at, WHERE, filesystem=filesystem))) == expected
        opened = bp.scan_batches(path, WHERE, filesystem=filesystem)
        changes.change(path, new, old)
        for at in (path, path.parent):
            after = changes.shown(matching(bp.scan_batches(at, WHERE, filesystem=filesystem)))
            assert after == changes.after(new, old)
        if expected:
            with pytest.raises(FileChangedError, match="the file changed since it was listed"):
                matching(opened)


def matching(batches: pa.RecordBatchReader) -> list[tuple[int, str]]:
    return [(row["id"], row["v"]) for row in batches.read_all().to_pylist()]


@pytest.mark.parametrize(
    ("size", "time", "same"),
    [
        (10, 5_000_000_000, True),
        (10, 5_123_000_000, True),  # one of the times was rounded
        (10, 0, True),  # unknown
        (10, 6_000_000_000, False),
        (11, 5_000_000_000, False),
        (11, 0, False),
    ],
)
def test_versions_are_compared_by_size_and_second(size: int, time: int, same: bool) -> None:
    for listed_at, opened_at in ((5_000_000_000, time), (time, 5_000_000_000)):
        listed, opened = FileInfo("a", 10, listed_at), FileInfo("a", size, opened_at)
        if same:
            require_same(REMOTE, listed, opened)
        else:
            with pytest.raises(FileChangedError):
                require_same(REMOTE, listed, opened)
