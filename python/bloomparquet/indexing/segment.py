"""Makes a segment: what the footers and filters of some files say, as plans ask it."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError
from bloomparquet.indexing.columns import IndexColumns
from bloomparquet.indexing.filters import FilterSet, made_filters, readable, stored_filters
from bloomparquet.parquet.metadata.footer import Footer, read_footers
from bloomparquet.planning.evidence.section_file import NewTile, Section, serialise
from bloomparquet.planning.index.manifest import SEGMENT_SUFFIX, WRITER, SegmentEntry
from bloomparquet.planning.parquet.row_groups import RowGroups
from bloomparquet.planning.parquet.serialized import Listing, column_name, column_section, table_section, tile_arrays
from bloomparquet.storage.atomic import replacing
from bloomparquet.storage.files import FileInfo, ReadCount, Storage
from bloomparquet.storage.staleness import are_unchanged

MOST_ROW_GROUPS = 8192
MOST_FILTER_BYTES = 512 << 20
"""A segment's filters are in memory while it is made."""
_BATCH_BYTES = 1 << 20


@dataclass(slots=True)
class Report:
    """What a build did: `left_out` has the reason for each file that stays without an index; `missing`, the names of
    columns that no file had so far; `seen`, whether any file had a schema at all."""

    left_out: dict[str, str] = field(default_factory=dict)
    missing: set[str] | None = None
    reads: ReadCount = field(default_factory=ReadCount)

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
    footers: Sequence[Footer],
    columns: IndexColumns,
    report: Report,
) -> SegmentEntry | None:
    """Write a segment of `files`; None if none of them could be indexed. A file that is damaged, or changes meanwhile,
    is left out. May raise ``OSError``."""
    while files:
        table = RowGroups.of_footers(storage, files, footers, None)
        try:
            sections, tiles = _contents(table, target.root, columns, report)
        except BloomParquetError as error:
            if len(files) == 1:
                report.left_out[files[0].path] = readable(error)
                return None
            good = [
                _is_sound(storage, file, footer, columns, report) for file, footer in zip(files, footers, strict=True)
            ]
            if all(good):
                raise
        else:
            good = are_unchanged(storage, files)
            if all(good):
                return _write(target, table, sections, tiles)
            changed = [file for file, unchanged in zip(files, good, strict=True) if not unchanged]
            report.left_out.update((file.path, "changed while it was read") for file in changed)
        files = [file for file, sound in zip(files, good, strict=True) if sound]
        footers = [footer for footer, sound in zip(footers, good, strict=True) if sound]
    return None


def _is_sound(storage: Storage, file: FileInfo, footer: Footer, columns: IndexColumns, report: Report) -> bool:
    """Whether the evidence of one file can be read. If not, its error is noted."""
    table = RowGroups.of_footers(storage, [file], [footer], None)
    try:
        _contents(table, "", columns, Report(reads=report.reads))
    except BloomParquetError as error:
        report.left_out[file.path] = readable(error)
        return False
    return True


def _write(target: Target, table: RowGroups, sections: dict[str, Section], tiles: dict[str, NewTile]) -> SegmentEntry:
    name = f"{target.build}-{secrets.token_hex(4)}{SEGMENT_SUFFIX}"
    pieces, size, start_bytes = serialise(sections, WRITER, tiles)
    path = f"{target.directory}/{name}"
    target.storage.make_parents(path)
    with replacing(target.storage, path) as output:
        for batch in _batches(pieces):
            output.write(batch)
        output.commit()
    return SegmentEntry(name, size, len(table.files), len(table), start_bytes)


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


def _contents(
    table: RowGroups, root: str, columns: IndexColumns, report: Report
) -> tuple[dict[str, Section], dict[str, NewTile]]:
    """The sections and tiles of a segment. Raises BloomParquetError for evidence that cannot be read."""
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
    return sections, tiles
