"""Makes a segment of an index: the evidence in the footers and filters of some files, in the form that plans use."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bloomparquet.errors import BloomParquetError
from bloomparquet.indexing.columns import IndexColumns
from bloomparquet.indexing.filters import readable
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.evidence.section_file import NewTile, Section, serialise
from bloomparquet.planning.index.manifest import SEGMENT_SUFFIX, WRITER, SegmentEntry
from bloomparquet.storage.atomic import replacing
from bloomparquet.storage.files import FileInfo, ReadCount, Storage
from bloomparquet.storage.staleness import may_be_cached

MOST_ROW_GROUPS = 8192
MOST_FILTER_BYTES = 512 << 20
"""A segment's filters are in memory while it is made."""
_BATCH_BYTES = 1 << 20


@dataclass(slots=True)
class Report:
    """What a build did: `left_out` has the reason for each file that stays without an index; `missing`, the names of
    columns that no file had so far."""

    left_out: dict[str, str] = field(default_factory=dict)
    missing: set[str] | None = None
    reads: ReadCount = field(default_factory=ReadCount)
    format: FileFormat | None = None

    def note_missing(self, names: set[str]) -> None:
        self.missing = names if self.missing is None else self.missing & names

    def add(self, other: Report) -> None:
        """Add what another part of the build did."""
        self.left_out |= other.left_out
        if other.missing is not None:
            self.note_missing(other.missing)
        self.reads.requests += other.reads.requests
        self.reads.bytes += other.reads.bytes


@dataclass(frozen=True, slots=True)
class Target:
    """Where segments go: the `directory` of an index on `storage`, for data below `root`. The names of the segments of
    one build begin with `build`."""

    storage: Storage
    directory: str
    root: str
    build: str = field(default_factory=lambda: secrets.token_hex(8))


class Contents(NamedTuple):
    """What a segment holds of some files."""

    sections: dict[str, Section]
    tiles: dict[str, NewTile]
    files: int
    row_groups: int


class Reader(NamedTuple):
    """How the files of one format are read for an index.

    ``read_files(storage, files, report)`` gives the footers of the files that can be indexed, and notes the others in
    the report. ``row_groups(footer)`` is the number of row groups of a file.
    ``contents(storage, files, footers, root, columns, report)`` raises BloomParquetError for evidence that cannot be
    read, and :class:`TooLargeError`.
    """

    read_files: Callable[[Storage, Sequence[FileInfo], Report], tuple[list[FileInfo], list[Any]]]
    row_groups: Callable[[Any], int]
    contents: Callable[[Storage, Sequence[FileInfo], Sequence[Any], str, IndexColumns, Report], Contents]


class TooLargeError(Exception):
    """The filters have so many bytes that `parts` segments are needed."""

    def __init__(self, parts: int) -> None:
        self.parts = parts


def write_segments(
    target: Target,
    storage: Storage,
    files: Sequence[FileInfo],
    footers: Sequence[Any],
    columns: IndexColumns,
    report: Report,
    reader: Reader,
) -> Iterator[SegmentEntry]:
    """Write segments of `files`: one, or more if their filters are large. A file that is damaged, or changes meanwhile,
    is left out. May raise ``OSError``."""
    try:
        segment = _write_segment(target, storage, files, footers, columns, report, reader)
    except TooLargeError as error:
        step = -(-len(files) // error.parts)
        for first in range(0, len(files), step):
            some = slice(first, first + step)
            yield from write_segments(target, storage, files[some], footers[some], columns, report, reader)
    else:
        if segment is not None:
            yield segment


def _write_segment(
    target: Target,
    storage: Storage,
    files: Sequence[FileInfo],
    footers: Sequence[Any],
    columns: IndexColumns,
    report: Report,
    reader: Reader,
) -> SegmentEntry | None:
    """Write one segment; None if none of `files` can be indexed. Raises :class:`TooLargeError`."""
    while files:
        try:
            contents = reader.contents(storage, files, footers, target.root, columns, report)
        except BloomParquetError as error:
            if len(files) == 1:
                report.left_out[files[0].path] = readable(error)
                return None
            good = [
                unchanged and _is_sound(storage, file, footer, columns, report, reader)
                for file, footer, unchanged in zip(files, footers, _unchanged(storage, files, report), strict=True)
            ]
            if all(good):
                raise
        else:
            good = _unchanged(storage, files, report)
            if all(good):
                return _write(target, contents)
        files = [file for file, sound in zip(files, good, strict=True) if sound]
        footers = [footer for footer, sound in zip(footers, good, strict=True) if sound]
    return None


def _unchanged(storage: Storage, files: Sequence[FileInfo], report: Report) -> list[bool]:
    """Which of `files` did not change since they were listed. The others are noted."""
    unchanged = may_be_cached(storage, files)
    changed = [file for file, is_same in zip(files, unchanged, strict=True) if not is_same]
    report.left_out.update((file.path, "changed while it was read") for file in changed)
    return unchanged


def _is_sound(
    storage: Storage, file: FileInfo, footer: Any, columns: IndexColumns, report: Report, reader: Reader
) -> bool:
    """Whether the evidence of one file can be read. If not, its error is noted."""
    try:
        reader.contents(storage, [file], [footer], "", columns, Report(reads=report.reads))
    except BloomParquetError as error:
        report.left_out[file.path] = readable(error)
        return False
    return True


def _write(target: Target, contents: Contents) -> SegmentEntry:
    name = f"{target.build}-{secrets.token_hex(4)}{SEGMENT_SUFFIX}"
    pieces, size, start_bytes = serialise(contents.sections, WRITER, contents.tiles)
    path = f"{target.directory}/{name}"
    target.storage.make_parents(path)
    with replacing(target.storage, path) as output:
        for batch in _batches(pieces):
            output.write(batch)
        output.commit()
    return SegmentEntry(name, size, contents.files, contents.row_groups, start_bytes)


def _batches(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """`pieces`, small ones joined: each write is a call of the system."""
    small: list[bytes | memoryview] = []
    size = 0
    for piece in pieces:
        if size + len(piece) > _BATCH_BYTES and small:
            yield b"".join(small)
            small, size = [], 0
        small.append(piece)
        size += len(piece)
    yield b"".join(small)


def require_room(filter_bytes: int, files: Sequence[FileInfo]) -> None:
    """Raise :class:`TooLargeError` if so many bytes of filters are too many for one segment of `files`."""
    if filter_bytes > MOST_FILTER_BYTES and len(files) > 1:
        raise TooLargeError(min(len(files), -(-filter_bytes // MOST_FILTER_BYTES) + 1))
