"""Indexes without data: writing one, looking for it as a plan does, and what that logs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.fs
import pytest

from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.evidence.section_file import serialise
from bloomparquet.planning.index.lookup import OpenIndex, find_index
from bloomparquet.planning.index.manifest import WRITER, Manifest, SegmentEntry
from bloomparquet.storage.files import ArrowStorage, LocalStorage, ReadCount, Storage

LOCAL = LocalStorage()
ROOTED = pyarrow.fs.SubTreeFileSystem("/", pyarrow.fs.LocalFileSystem())
REMOTE = ArrowStorage(ROOTED, "s3://bucket", ("s3://bucket", "credentials"))
"""Local files that count as remote: only the type of a storage says what it is."""
BOTH = pytest.mark.parametrize("storage", [LOCAL, REMOTE], ids=["local", "remote"])


class Clock:
    """A stand-in for the module `time`. It stands still unless `now` is set."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file in one step: the old one may be mapped."""
    path.with_suffix(".new").write_bytes(content)
    path.with_suffix(".new").replace(path)


def put_index(directory: Path, name: str = "", *, root: str | None = None, segments: int = 0) -> Path:
    """Write an index with a column `name`, and return its directory."""
    directory.mkdir(parents=True, exist_ok=True)
    entries = []
    for number in range(segments):
        made = serialise({"numbers": {"": np.arange(100)}, "more": {"": np.arange(9)}}, WRITER)
        replace_file(directory / f"{number}.segment", b"".join(made.pieces))
        entries.append(SegmentEntry(f"{number}.segment", made.size, 1, 1, made.start_bytes))
    manifest = Manifest(FileFormat.PARQUET, root, {name: {}}, tuple(entries))
    replace_file(directory / "_manifest.json", manifest.to_bytes())
    return directory


class Looks:
    """Looks for one index. `reads` are those of all looks."""

    def __init__(self, storage: Storage, root: str, location: str | Path = "auto") -> None:
        self._asked = storage, root, str(location)
        self.reads = ReadCount()

    def look(self) -> OpenIndex | None:
        return find_index(*self._asked, self.reads)

    def name(self) -> str | None:
        """The column of the index that a look finds."""
        index = self.look()
        return None if index is None else "".join(index.manifest.columns)


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """The level and the message of each log entry since the last call."""
    assert {record.name for record in caplog.records} <= {"bloomparquet.index"}
    messages = [(record.levelname, record.getMessage()) for record in caplog.records]
    caplog.clear()
    return messages
