"""Makes a segment of an index: the evidence in the footers and filters of some files, in the form that plans use."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bloomparquet.errors import BloomParquetError, first_line
from bloomparquet.indexing.columns import IndexColumns
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.evidence.section_file import NewTile, Section, serialise
from bloomparquet.planning.index.manifest import WRITER, SegmentEntry, new_segment_name
from bloomparquet.storage.atomic import replacing
from bloomparquet.storage.files import FileInfo, ReadCount, Storage
from bloomparquet.storage.staleness import is_unchanged, may_be_cached
from bloomparquet.storage.threads import in_threads

MOST_ROW_GROUPS = 8192
MOST_FILTER_BYTES = 512 << 20
"""A segment's filters are in memory while it is made."""
CHANGED = "changed while it was read"
_NO_TIME = "it has no modification time after 1970, by which plans would know that it did not change"


@dataclass(slots=True)
class BuildReport:
    """The outcome of a build, or of a part of it.

    `left_out` has the reason for each file that stays without an index. `missing` are the names of columns that no file
    had so far.
    """

    left_out: dict[str, str] = field(default_factory=dict)
    missing: set[str] | None = None
    reads: ReadCount = field(default_factory=ReadCount)
    format: FileFormat | None = None

    def note_missing(self, names: set[str]) -> None:
        self.missing = names if self.missing is None else self.missing & names

    def add(self, other: BuildReport) -> None:
        """Add the report of another part of the build."""
        self.left_out |= other.left_out
        if other.missing is not None:
            self.note_missing(other.missing)
        self.reads.add(other.reads)


@dataclass(frozen=True, slots=True)
class Target:
    """The destination of segments: the `directory` of an index on `storage`, for data below `root`.

    The names of the segments of one build begin with ``_`` and `build`.
    """

    storage: Storage
    directory: str
    root: str
    build: str = field(default_factory=lambda: secrets.token_hex(8))


class SegmentContents(NamedTuple):
    """The contents of a segment: the evidence of some files."""

    sections: dict[str, Section]
    tiles: dict[str, NewTile]
    files: int
    row_groups: int


class EvidenceReader(NamedTuple):
    """The functions that read files of one format for an index.

    ``read_files(storage, files, report)`` gives the footers of the files that can be indexed, and notes the others in
    the report. ``row_groups(footer)`` is the number of row groups of a file.
    ``contents(storage, files, footers, root, columns, report)`` raises BloomParquetError for evidence that cannot be
    read, and :class:`TooLargeError`.
    """

    read_files: Callable[[Storage, Sequence[FileInfo], BuildReport], tuple[list[FileInfo], list[Any]]]
    row_groups: Callable[[Any], int]
    contents: Callable[[Storage, Sequence[FileInfo], Sequence[Any], str, IndexColumns, BuildReport], SegmentContents]


class TooLargeError(Exception):
    """The filters have so many bytes that `parts` segments are needed."""

    def __init__(self, parts: int) -> None:
        self.parts = parts


@dataclass(frozen=True, slots=True)
class SegmentWriter:
    """Writes segments of files on `storage`.

    A file that is damaged, or changes meanwhile, is left out; `report` notes it.
    """

    target: Target
    storage: Storage
    reader: EvidenceReader
    columns: IndexColumns
    report: BuildReport

    def write(self, files: Sequence[FileInfo], footers: Sequence[Any]) -> Iterator[SegmentEntry]:
        """Write one segment of `files`, or more if their filters are large. May raise ``OSError``."""
        try:
            segment = self._write_one(files, footers)
        except TooLargeError as error:
            step = -(-len(files) // error.parts)
            for first in range(0, len(files), step):
                some = slice(first, first + step)
                yield from self.write(files[some], footers[some])
        else:
            if segment is not None:
                yield segment

    def _write_one(self, files: Sequence[FileInfo], footers: Sequence[Any]) -> SegmentEntry | None:
        """Write one segment; None if none of `files` can be indexed. Raises :class:`TooLargeError`."""
        while files:
            try:
                contents = self.reader.contents(
                    self.storage, files, footers, self.target.root, self.columns, self.report
                )
            except (BloomParquetError, FileNotFoundError) as error:
                if len(files) == 1:
                    self.report.left_out[files[0].path] = first_line(error)
                    return None
                are_same = are_unchanged(self.storage, files, self.report)
                good = [
                    is_same and self._is_sound(file, footer)
                    for file, footer, is_same in zip(files, footers, are_same, strict=True)
                ]
                if all(good):
                    raise
            else:
                return _write_file(self.target, contents)
            files = [file for file, is_good in zip(files, good, strict=True) if is_good]
            footers = [footer for footer, is_good in zip(footers, good, strict=True) if is_good]
        return None

    def _is_sound(self, file: FileInfo, footer: Any) -> bool:
        """Whether the evidence of one file can be read. If not, the report notes the error."""
        try:
            self.reader.contents(self.storage, [file], [footer], "", self.columns, BuildReport(reads=self.report.reads))
        except (BloomParquetError, FileNotFoundError) as error:
            self.report.left_out[file.path] = first_line(error)
            return False
        return True


def _write_file(target: Target, contents: SegmentContents) -> SegmentEntry:
    name = new_segment_name(target.build)
    pieces, size, start_bytes = serialise(contents.sections, WRITER, contents.tiles)
    path = f"{target.directory}/{name}"
    target.storage.make_parents(path)
    with replacing(target.storage, path) as output:
        for piece in pieces:
            output.write(piece)
        output.commit()
    return SegmentEntry(name, size, contents.files, contents.row_groups, start_bytes)


def are_unchanged(storage: Storage, files: Sequence[FileInfo], report: BuildReport) -> list[bool]:
    """For each of `files`, whether it did not change since it was listed. The report notes the others."""

    def check(file: FileInfo) -> bool:
        return may_be_cached(file) and is_unchanged(storage, file)

    unchanged = list(in_threads(storage.threads, check, files))
    changed = [file for file, is_same in zip(files, unchanged, strict=True) if not is_same]
    report.left_out.update((file.path, why_left_out(file)) for file in changed)
    return unchanged


def why_left_out(file: FileInfo) -> str:
    """The reason why `file`, which may not be cached, is not indexed."""
    return CHANGED if file.mtime_ns > 0 else _NO_TIME


def require_room(filter_bytes: int, files: Sequence[FileInfo]) -> None:
    """Raise :class:`TooLargeError` if so many bytes of filters are too many for one segment of `files`."""
    if filter_bytes > MOST_FILTER_BYTES and len(files) > 1:
        raise TooLargeError(min(len(files), -(-filter_bytes // MOST_FILTER_BYTES) + 1))
