"""Stores tables of row groups as the arrays of a segment, of an index or of the cache, and restores them.

A segment holds the files and their row groups, one footer without row groups for each file profile, and for each column
the bounds, the counts, and the filters: in an index all of them as tiles, in the cache what was read of them. A query
that asks about a new column reads the footers again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bloomparquet.errors
from bloomparquet.errors import BloomParquetError
from bloomparquet.parquet.bloom_filter.sizes import BYTES_PER_BLOCK
from bloomparquet.parquet.bloom_filter.split_block import BITS_PER_BLOCK, bit_positions
from bloomparquet.parquet.metadata.file_profile import FileProfile
from bloomparquet.parquet.metadata.footer import parse_footer
from bloomparquet.planning.cache.listing import TABLE, Listing, StoredFiles
from bloomparquet.planning.evidence.interface import Counts
from bloomparquet.planning.evidence.section_file import Section, SectionFile
from bloomparquet.planning.evidence.section_source import DamagedFileError
from bloomparquet.planning.evidence.stored_arrays import (
    MALFORMED,
    TILE,
    ColumnKey,
    as_bytes,
    column_keys,
    column_name,
    flat_keys,
    keys_of,
    tiled_of,
)
from bloomparquet.planning.evidence.tiles import BitPositions
from bloomparquet.planning.parquet.column_arrays import ColumnArrays
from bloomparquet.planning.parquet.columns import PartChunks
from bloomparquet.planning.parquet.filter_facts import NO_FILTER, UNUSABLE, FilterFacts
from bloomparquet.planning.parquet.folded_filters import FoldedFilters
from bloomparquet.planning.parquet.row_groups import GroupArrays, RowGroups
from bloomparquet.query.ordering import Bounds
from bloomparquet.storage.files import ReadCount, Storage

_COUNTS = tuple(field.name for field in fields(Counts))
_LOCATIONS = ("offset", "length", "filled")
_FACTS = ("state", "bitset_at", "num_bytes", "not_empty", "resident_at", "resident")


class _StoredColumns:
    """The columns in `file`; see :class:`bloomparquet.planning.parquet.row_groups.StoredColumns`."""

    def __init__(self, file: SectionFile, chunks: Sequence[int], profiles: Sequence[FileProfile]) -> None:
        """`chunks` is the number of chunks that each of the `profiles` has."""
        self._file, self._chunks = file, chunks
        leaves = [len(profile.schema.leaves) for profile in profiles]
        self.keys = column_keys([name for name in file.sections if name != TABLE], leaves)

    def load(self, key: ColumnKey, reads: ReadCount) -> ColumnArrays | None:
        try:
            section = self._file.section(column_name(key), reads)
            return _column_of(section, self._file, self._chunks[key[0]])
        except MALFORMED as error:
            self._file.warn(f"a column cannot be used ({error}); it is read from the footers")
            self.keys -= {key}
            return None


def table_section(table: RowGroups, listing: Listing) -> dict[str, Section]:
    """The section of a table's files and row groups."""
    footers = [profile.skeleton for profile in table.profiles]
    arrays = table.arrays
    return {
        TABLE: {
            **listing.arrays,
            "counts": arrays.counts, "profile": arrays.profile, "limit": arrays.limit,
            "rows": arrays.rows, "extents": arrays.extents,
            "footers": as_bytes(b"".join(footers)), "footer_ends": np.cumsum([len(raw) for raw in footers]),
        }
    }  # fmt: skip


def column_section(chunks: PartChunks) -> Section:
    """The section of a column, with the evidence in the footers but without what was read of its filters."""
    return _section_of(chunks, FilterFacts.unread(chunks.filters.offset))


def to_sections(table: RowGroups, listing: Listing) -> dict[str, Section]:
    """The sections of a segment of the cache: what is cached in `table`."""
    table.fill_extents()
    sections = table_section(table, listing)
    columns = sorted(table.known_columns().items())
    return sections | {column_name(key): _section_of(chunks, chunks.filters.facts) for key, chunks in columns}


def read_segment(file: SectionFile, storage: Storage, root: str, reads: ReadCount) -> RowGroups:
    """The table in `file`, a segment about files below `root`. Raises the errors of :data:`UNUSABLE`."""
    try:
        section = file.section(TABLE, reads)
        files = StoredFiles(section, root)
        profiles = _profiles_of(section["footers"].tobytes(), section["footer_ends"].tolist())
        extents = section["extents"].copy()  # writable: unknown ones are computed when they are needed
        arrays = GroupArrays(section["counts"], section["profile"], section["limit"], section["rows"], extents)
        in_range = (arrays.counts >= 0) & (arrays.profile >= 0) & (arrays.profile < len(profiles))
        if not (
            len(files) == len(arrays.counts) == len(arrays.profile) == len(arrays.limit)
            and in_range.all()
            and sum(arrays.counts.tolist()) == len(arrays.rows) == len(extents)
        ):
            raise DamagedFileError("its row groups do not fit its files")
        chunks = np.bincount(arrays.profile, arrays.counts, len(profiles)).astype(np.int64).tolist()
        return RowGroups(storage, files, arrays, profiles, [None] * len(files), _StoredColumns(file, chunks, profiles))
    except MALFORMED as error:
        raise DamagedFileError(f"{file.path}: {error}") from error


def _profiles_of(raw: bytes, ends: list[int]) -> list[FileProfile]:
    return [parse_footer(raw[start:end]).profile for start, end in zip([0, *ends], ends, strict=False)]


def _section_of(chunks: PartChunks, known: FilterFacts) -> Section:
    filters, bounds = chunks.filters, chunks.bounds
    section: dict[str, NDArray[Any]] = {name: getattr(filters, name) for name in _LOCATIONS}
    section |= {name: count for name in _COUNTS if (count := getattr(chunks.counts, name)) is not None}
    if not known.is_unread:
        section |= {name: getattr(known, name) for name in _FACTS}
    if bounds is not None:
        section["known"] = bounds.known
        if bounds.without_nan is not None:
            section["without_nan"] = bounds.without_nan
        for side in ("lower", "upper"):
            section |= flat_keys(getattr(bounds, side), side)
    errors = [[chunk, type(error).__name__, str(error)] for chunk, error in known.errors.items()]
    section["errors"] = as_bytes(json.dumps(errors).encode())
    return section


def _column_of(section: Section, file: SectionFile, n: int) -> ColumnArrays:
    """The column of `n` chunks in `section`. Raises an error of MALFORMED."""
    bounds = None
    if "known" in section:
        lower, upper = (keys_of(section, side) for side in ("lower", "upper"))
        bounds = Bounds(lower, upper, section["known"], section.get("without_nan"))
        if not len(bounds.lower) == len(bounds.upper) == n:
            raise ValueError("its bounds do not fit its chunks")
    if any(
        len(section[name]) != n
        for name in (*_COUNTS, *_LOCATIONS, "known", "without_nan", *_FACTS[:-1])
        if name in section
    ):
        raise ValueError("its arrays do not fit its chunks")
    errors = {chunk: _error(kind, text) for chunk, kind, text in json.loads(section["errors"].tobytes())}
    counts = Counts(**{name: section[name] for name in _COUNTS if name in section})
    offset, length, filled = (section[name] for name in _LOCATIONS)
    tiled = tiled_of(section, "", file, len(offset), _positions_of)
    if "state" in section:
        state, bitset_at, num_bytes, not_empty, resident_at, resident = (section[name] for name in _FACTS)
        if not _is_consistent(state, num_bytes, resident_at, len(resident), errors):
            raise ValueError("what it says of its filters does not fit together")
        folded = FoldedFilters.none(len(state))
        known = FilterFacts(state, bitset_at, num_bytes, not_empty, resident_at, resident, errors, tiled, folded)
    else:
        known = replace(FilterFacts.unread(offset), tiled=tiled)
    expressions = {
        name.removesuffix(TILE): tiled_of(section, name.removesuffix(TILE), file, len(offset), _positions_of)
        for name in section
        if name.endswith(TILE) and name != TILE
    }
    return ColumnArrays(
        bounds=bounds,
        counts=counts,
        offset=offset,
        length=length,
        filled=filled,
        filter_facts=known,
        expressions=expressions,
    )


def _is_consistent(
    state: NDArray[Any], num_bytes: NDArray[Any], resident_at: NDArray[Any], blocks: int, errors: Collection[int]
) -> bool:
    """Whether each bitset in memory lies within the `blocks`, and each unusable filter has one of the `errors`."""
    is_resident, of_filter = resident_at >= 0, num_bytes // BYTES_PER_BLOCK
    within = (of_filter > 0) & (of_filter <= blocks) & (resident_at <= blocks - of_filter)
    unusable = np.flatnonzero(state == UNUSABLE).tolist()
    return bool((within | ~is_resident).all() and ((state >= NO_FILTER) & (state <= UNUSABLE)).all()) and all(
        chunk in errors for chunk in unusable
    )


def _positions_of(tile: str) -> BitPositions:
    return lambda hashes, bits: bit_positions(hashes, bits // BITS_PER_BLOCK)


def _error(kind: str, text: str) -> BloomParquetError:
    error: type[BloomParquetError] = getattr(bloomparquet.errors, kind)
    if not issubclass(error, BloomParquetError):
        raise ValueError(f"{kind} is not an error class of this package")
    return error(text)
