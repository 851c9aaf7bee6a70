"""Reads Parquet files for an index: their footers, their filters, and the filters to make of their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError, first_line
from bloomparquet.indexing.columns import FilterToMake, IndexColumns
from bloomparquet.indexing.filters import FilterSet, made_filters, stored_filters
from bloomparquet.indexing.segment import BuildReport, EvidenceReader, SegmentContents, require_room
from bloomparquet.parquet.metadata.footer import Footer, read_footers
from bloomparquet.planning.cache.listing import Listing
from bloomparquet.planning.evidence.section_file import NewTile
from bloomparquet.planning.evidence.stored_arrays import column_name
from bloomparquet.planning.parquet.columns import PartChunks
from bloomparquet.planning.parquet.row_groups import RowGroups
from bloomparquet.planning.parquet.serialized import column_section, table_section
from bloomparquet.storage.files import FileInfo, Storage


def _read_files(
    storage: Storage, files: Sequence[FileInfo], report: BuildReport
) -> tuple[list[FileInfo], list[Footer]]:
    """The `files` that can be indexed, and their footers. `report` notes the others."""
    undecryptable: dict[FileInfo, BloomParquetError] = {}
    footers = read_footers(storage, files, report.reads, keys=None, left_out={}, undecryptable=undecryptable)
    kept: list[FileInfo] = []
    kept_footers: list[Footer] = []
    for file, footer in zip(files, footers, strict=True):
        if file in undecryptable:
            report.left_out[file.path] = first_line(undecryptable[file])
        elif footer is None:  # one reason for all, by which they are grouped
            report.left_out[file.path] = "no Parquet file, or its footer is damaged"
        elif footer.crypto is not None:
            report.left_out[file.path] = "encrypted: its filters must not be stored in clear"
        else:
            kept.append(file)
            kept_footers.append(footer)
    return kept, kept_footers


def _row_groups(footer: Footer) -> int:
    return len(footer.rows)


def _contents(
    storage: Storage,
    files: Sequence[FileInfo],
    footers: Sequence[Footer],
    root: str,
    columns: IndexColumns,
    report: BuildReport,
) -> SegmentContents:
    table = RowGroups.of_footers(storage, files, footers, None)
    table.fill_extents()
    relative = [file._replace(path=file.path.removeprefix(root)) for file in table.files]
    chosen = _columns_of(table, columns, report)
    require_room(sum(chunks.filters.measure(storage, report.reads) for _, chunks, _ in chosen), files)
    sections = table_section(table, Listing(table.storage, relative))
    tiles: dict[str, NewTile] = {}
    for name, chunks, to_make in chosen:
        n = len(chunks.members)
        filters = {"": FilterSet(n)}
        for chunk, bloom in stored_filters(table, chunks, report.reads):
            filters[""].add(chunk, bloom)
        has_filter: NDArray[np.bool_] = chunks.filters.offset >= 0
        for wanted in to_make:
            have = np.zeros(n, np.bool_) if wanted.case else has_filter
            into = filters.setdefault(wanted.case, FilterSet(n))
            for chunk, bloom in made_filters(table, chunks, wanted, have, report.reads):
                into.add(chunk, bloom)
        section: dict[str, NDArray[Any]] = dict(column_section(chunks))
        for expression, each in filters.items():
            arrays, made = each.tiles(f"{name}/{expression}", expression)
            section |= arrays
            tiles |= made
        sections[name] = section
    return SegmentContents(sections, tiles, len(files), len(table))


def _columns_of(
    table: RowGroups, columns: IndexColumns, report: BuildReport
) -> list[tuple[str, PartChunks, list[FilterToMake]]]:
    """The columns of a segment: the name of the section, the chunks in the footers, and the filters to make."""
    chosen = []
    for profile, of_profile in enumerate(table.profiles):
        first = table.paths[int(np.flatnonzero(table.arrays.profile == profile)[0])]
        leaves, to_make, missing = columns.leaves(of_profile.schema, first)
        report.note_missing(missing)
        for index in sorted(leaves):
            chunks = table.chunks(profile, of_profile.schema.leaves[index], report.reads)
            if chunks.unreadable:  # plans report it
                raise chunks.unreadable[0]
            wanted = [each for each in to_make if each.leaf == index]
            chosen.append((column_name((profile, index)), chunks, wanted))
    return chosen


PARQUET = EvidenceReader(_read_files, _row_groups, _contents)
