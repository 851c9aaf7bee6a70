"""Makes a segment: what the footers and filters of some files say, as plans ask it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError
from bloomparquet.indexing.columns import IndexColumns
from bloomparquet.indexing.filters import FilterSet, made_filters, readable, stored_filters
from bloomparquet.parquet.metadata.footer import Footer, read_footers
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.evidence.section_file import NewTile, Section, serialise
from bloomparquet.planning.evidence.stored_arrays import tile_arrays
from bloomparquet.planning.index.listing import Listing
from bloomparquet.planning.index.manifest import SEGMENT_SUFFIX, WRITER, SegmentEntry
from bloomparquet.planning.parquet.row_groups import RowGroups
from bloomparquet.planning.parquet.serialized import column_name, column_section, table_section
from bloomparquet.storage.atomic import replacing
from bloomparquet.storage.files import FileInfo, ReadCount, Storage
from bloomparquet.storage.staleness import are_unchanged

MOST_ROW_GROUPS = 8192
MOST_FILTER_BYTES = 512 << 20
"""A segment's filters are in memory while it is made."""


@dataclass(slots=True)
class Report:
    """What a build did: `left_out` has the reason for each file that stays without an index; `missing`, the names of
    columns that no file had so far. `format` is that of the files, None until it is known."""

    left_out: dict[str, str] = field(default_factory=dict)
    missing: set[str] | None = None
    reads: ReadCount = field(default_factory=ReadCount)
    format: FileFormat | None = None

    def note_missing(self, names: set[str]) -> None:
        self.missing = names if self.missing is None else self.missing & names


@dataclass(frozen=True, slots=True)
class Target:
    """Where segments go: the `directory` of an index on `storage`, for data below `root`."""

    storage: Storage
    directory: str
    root: str


class Contents(NamedTuple):
    """What a segment holds of some files."""

    sections: dict[str, Section]
    tiles: dict[str, NewTile]
    files: int
    row_groups: int


class Reader(NamedTuple):
    """How the files of one format are read for an index.

    ``read_files(storage, files, report)`` gives the footers of the files that can be indexed, and notes the others in
    the report. ``size(footer)`` is the number of row groups of a file, and about the bytes of their filters.
    ``contents(storage, files, footers, root, columns, report)`` raises BloomParquetError for evidence that cannot be
    read.
    """

    read_files: Callable[[Storage, Sequence[FileInfo], Report], tuple[list[FileInfo], list[Any]]]
    size: Callable[[Any], tuple[int, int]]
    contents: Callable[[Storage, Sequence[FileInfo], Sequence[Any], str, IndexColumns, Report], Contents]


def read_files(storage: Storage, files: Sequence[FileInfo], report: Report) -> tuple[list[FileInfo], list[Footer]]:
    """The footers of those of `files` that can be indexed. The others are noted in `report`: encrypted files, whose
    evidence must not be stored in clear, and files that cannot be read."""
    undecryptable: dict[FileInfo, BloomParquetError] = {}
    footers = read_footers(storage, files, report.reads, keys=None, skip_corrupt=True, undecryptable=undecryptable)
    kept: list[FileInfo] = []
    kept_footers: list[Footer] = []
    for file, footer, unchanged in zip(files, footers, are_unchanged(storage, files), strict=True):
        if file in undecryptable:
            report.left_out[file.path] = readable(undecryptable[file])
        elif footer is None:
            report.left_out[file.path] = "no Parquet file, or its footer is damaged"
        elif footer.crypto is not None:
            report.left_out[file.path] = "encrypted: its filters must not be stored in clear"
        elif not unchanged:
            report.left_out[file.path] = "changed while it was read"
        else:
            kept.append(file)
            kept_footers.append(footer)
    return kept, kept_footers


def write_segment(
    target: Target,
    storage: Storage,
    files: Sequence[FileInfo],
    footers: Sequence[Any],
    columns: IndexColumns,
    report: Report,
    reader: Reader,
) -> SegmentEntry | None:
    """Write a segment of `files`; None if none of them could be indexed. A file that is damaged, or changes meanwhile,
    is left out. May raise ``OSError``."""
    while files:
        try:
            contents = reader.contents(storage, files, footers, target.root, columns, report)
        except BloomParquetError as error:
            if len(files) == 1:
                report.left_out[files[0].path] = readable(error)
                return None
            good = [
                _is_sound(storage, file, footer, columns, report, reader)
                for file, footer in zip(files, footers, strict=True)
            ]
            if all(good):
                raise
        else:
            good = are_unchanged(storage, files)
            if all(good):
                return _write(target, contents)
            changed = [file for file, unchanged in zip(files, good, strict=True) if not unchanged]
            report.left_out.update((file.path, "changed while it was read") for file in changed)
        files = [file for file, sound in zip(files, good, strict=True) if sound]
        footers = [footer for footer, sound in zip(footers, good, strict=True) if sound]
    return None


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
    name = secrets.token_hex(8) + SEGMENT_SUFFIX
    pieces, size = serialise(contents.sections, WRITER, contents.tiles)
    path = f"{target.directory}/{name}"
    target.storage.make_parents(path)
    with replacing(target.storage, path) as output:
        for piece in pieces:
            output.write(piece)
        output.commit()
    return SegmentEntry(name, size, contents.files, contents.row_groups)


def _size(footer: Footer) -> tuple[int, int]:
    total = 0
    with suppress(BloomParquetError):
        for row_group in range(len(footer.rows)):
            for leaf in range(len(footer.profile.schema.leaves)):
                total += footer.read_chunk(row_group, leaf).bloom_length or 0
    return len(footer.rows), total


def _contents(
    storage: Storage,
    files: Sequence[FileInfo],
    footers: Sequence[Footer],
    root: str,
    columns: IndexColumns,
    report: Report,
) -> Contents:
    table = RowGroups.of_footers(storage, files, footers, None)
    table.fill_extents()
    relative = [file._replace(path=file.path.removeprefix(root)) for file in table.files]
    sections = table_section(table, Listing(table.storage, relative))
    tiles: dict[str, NewTile] = {}
    for profile, of_profile in enumerate(table.profiles):
        first = table.paths[int(np.flatnonzero(table.arrays.profile == profile)[0])]
        leaves, to_make, missing = columns.leaves(of_profile.schema, first)
        report.note_missing(missing)
        for index in sorted(leaves):
            leaf = of_profile.schema.leaves[index]
            chunks = table.chunks(profile, leaf, report.reads)
            n = len(chunks.members)
            name = column_name((profile, index))
            own = FilterSet(n)
            has_filter: NDArray[np.bool_] = chunks.filters.offset >= 0
            for chunk, bloom in stored_filters(table, chunks, report.reads):
                own.add(chunk, bloom)
            by_expression = {"": own}
            for wanted in to_make:
                if wanted.leaf == index:
                    have = np.zeros(n, np.bool_) if wanted.case else has_filter
                    into = by_expression.setdefault(wanted.case, FilterSet(n))
                    for chunk, bloom in made_filters(table, chunks, wanted, have, report.reads):
                        into.add(chunk, bloom)
            section: dict[str, NDArray[Any]] = dict(column_section(chunks))
            for expression, filters in by_expression.items():
                tile, at, made = filters.tiles(f"{name}/{expression}")
                section |= tile_arrays(expression, tile, at, list(made))
                tiles |= made
            sections[name] = section
    return Contents(sections, tiles, len(files), len(table))


PARQUET = Reader(read_files, _size, _contents)
