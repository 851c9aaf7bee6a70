"""The stripes of ORC files, and the row groups within them, as tables that a plan asks for evidence.

Cheap evidence comes first. The tails of files hold the statistics of stripes. Only if they do not exclude a stripe, its
footer is read, then the row indexes of the columns of the predicate, then their filters. The table keeps what was read.

Source: ORC specification, "Stripes", "Row Group Index".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError
from bloomparquet.orc.encoding import is_lossless
from bloomparquet.orc.file_tail import Tail
from bloomparquet.orc.schema import Kind, OrcType
from bloomparquet.orc.stripe_indexes import StripeIndexes, read_statistics
from bloomparquet.orc.writer_quirks import may_misplace_values, why_filters_unusable
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.planning.evidence.filter_store import FilterStore
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.evidence.interface import ReadAmount
from bloomparquet.planning.evidence.selection import positions_of
from bloomparquet.planning.evidence.stored_arrays import ColumnKey
from bloomparquet.planning.evidence.tiles import TiledFilters
from bloomparquet.planning.orc.columns import ColumnStatistics, OrcChunks
from bloomparquet.planning.orc.filters import FiltersOfGroups, OrcFilters, ReadFilters
from bloomparquet.planning.orc.stripe_arrays import (
    OrcProfile,
    RowGroupColumn,
    StoredColumns,
    StripeArrays,
    StripeColumn,
    StripeFooters,
    find_profiles,
)
from bloomparquet.query.columns import FileSchema, LeafColumn
from bloomparquet.query.literals import is_zone
from bloomparquet.query.names import dotted_name
from bloomparquet.storage.files import FileInfo, ReadCount, Storage
from bloomparquet.storage.forks import lazy_property, new_lock

T = TypeVar("T")


class Stripes:
    """The stripes of `files` in file order: see :class:`bloomparquet.planning.evidence.interface.Table`.

    ``tails[i]`` is the tail of ``files[i]``. Safe to use from several threads.
    """

    format = FileFormat.ORC
    keys: Keys | None = None  # encrypted ORC files are not supported

    def __init__(
        self,
        storage: Storage,
        files: Sequence[FileInfo],
        tails: Sequence[Tail],
        arrays: StripeArrays,
        profiles: Sequence[OrcProfile],
        stored: StoredColumns | None = None,
    ) -> None:
        self.storage, self.files, self.tails, self.arrays = storage, files, tails, arrays
        self.profiles, self.stored = profiles, stored
        self.indexed = 0
        self.file = np.repeat(np.arange(len(files)), arrays.counts)
        self.first = np.concatenate(([0], np.cumsum(arrays.counts)))  # stripe of each file, and the end
        self.index = np.arange(len(self.file)) - self.first[self.file]
        self.rows = arrays.rows
        self.stride = arrays.stride[self.file]
        # A stripe without an index counts as one row group.
        self.stride[self.stride == 0] = np.maximum(self.rows, 1)[self.stride == 0]
        row_groups = -(-self.rows // self.stride)
        self.first_group = np.concatenate(([0], np.cumsum(row_groups)))  # of each stripe, and the end
        self._profile = arrays.profile[self.file]
        self._members = [np.flatnonzero(self._profile == i) for i in range(len(self.profiles))]
        self.footers = StripeFooters(storage, tails, self.file, self.index)
        self._columns: dict[ColumnKey, StripeColumn] = {}
        self._row_group_columns: dict[ColumnKey, RowGroupColumn] = {}
        self._columns_read = self._stripes_read = 0
        self._lock = new_lock(reentrant=True)

    @classmethod
    def of_tails(cls, storage: Storage, files: Sequence[FileInfo], tails: Sequence[Tail]) -> Stripes:
        profiles, profile_of = find_profiles(tails)
        return cls(storage, files, tails, StripeArrays.of_tails(tails, profile_of), profiles)

    def __len__(self) -> int:
        return len(self.file)

    @lazy_property
    def paths(self) -> list[str]:
        """The path of each file."""
        return [file.path for file in self.files]

    @property
    def schemas(self) -> list[FileSchema]:
        return [profile.schema for profile in self.profiles]

    def mixed_columns(self, schemas: Sequence[FileSchema]) -> None:
        """None: each file says how its timestamps are shown."""

    def gather(self, files: Sequence[int], get: Callable[[Any, Sequence[int]], Sequence[T]]) -> list[T]:
        return list(get(self, files))

    def members(self, profile: int) -> NDArray[np.int64]:
        return self._members[profile]

    def is_lossless(self, profile: int, leaf: LeafColumn | None, reader_type: str | None) -> bool:
        if not self.profiles[profile].is_by_name:  # readers find the columns by position
            return False
        return leaf is None or reader_type is None or is_lossless(self.type_of(profile, leaf), reader_type)

    def column_of(self, profile: int, leaf: LeafColumn) -> int:
        """The column number of `leaf`."""
        return self.profiles[profile].columns[leaf.index]

    def type_of(self, profile: int, leaf: LeafColumn) -> OrcType:
        return self.profiles[profile].tail.types[self.column_of(profile, leaf)]

    def extents_of(self, units: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self.arrays.offset[units], self.arrays.length[units]

    def row_groups_within(self, units: NDArray[np.int64]) -> StripeRowGroups:
        return StripeRowGroups(self, units)

    def chunks(self, profile: int, leaf: LeafColumn, reads: ReadCount) -> OrcChunks:
        return self.chunks_of(profile, leaf, self._members[profile], reads)

    def chunks_of(self, profile: int, leaf: LeafColumn, units: NDArray[np.int64], reads: ReadCount) -> OrcChunks:
        """See :class:`bloomparquet.planning.evidence.selection.Part`."""
        column, of_file = self.stripe_column(profile, leaf, reads)
        statistics = column.take(np.searchsorted(self._members[profile], units))
        errors = (
            {i: of_file[file] for i, file in enumerate(self.file[units].tolist()) if file in of_file} if of_file else {}
        )
        zones, orc_type = self.zones(profile, leaf, units, reads), self.type_of(profile, leaf)
        filters = FilterStore(TiledFilters.none(len(units)))
        return OrcChunks.of(leaf, orc_type, units, statistics, self.rows[units], zones, filters, errors)

    def prefetch_footers(self, stripes: NDArray[np.int64], reads: ReadCount) -> None:
        """Read the footers of `stripes` in one round of requests, unless a segment has what is in them."""
        if self.stored is None:
            self.footers.read(stripes, reads)

    def zones(
        self, profile: int, leaf: LeafColumn, stripes: NDArray[np.int64], reads: ReadCount
    ) -> list[str | None] | None:
        """The time zone of the writer of each stripe, None if the file names none or one that is not known here. None
        if the column is no TIMESTAMP."""
        if self.type_of(profile, leaf).kind != Kind.TIMESTAMP:
            return None
        zones = self.known_zones(stripes)
        missing = np.array([i for i in stripes.tolist() if i not in zones], np.int64)
        for i, footer in zip(missing.tolist(), self.footers.read(missing, reads), strict=True):
            zones[i] = footer.writer_timezone if isinstance(footer, StripeIndexes) else None
        named = {name for name in zones.values() if name is not None and is_zone(name)}
        return [zones[i] if zones[i] in named else None for i in stripes.tolist()]

    def row_group_column(
        self, profile: int, leaf: LeafColumn, stripes: NDArray[np.int64], reads: ReadCount
    ) -> RowGroupColumn:
        """A column's row groups, loaded at least for `stripes`, which have this profile."""
        with self._lock:
            column = self.known_row_groups(profile, leaf)
            self._load_row_groups(column, profile, leaf, stripes[~column.loaded[stripes]], reads)
            return column

    def known_row_groups(self, profile: int, leaf: LeafColumn) -> RowGroupColumn:
        """A column's row groups, loaded for as many stripes as possible without reading."""
        with self._lock:
            key = profile, leaf.index
            if key not in self._row_group_columns:
                self._load_stored(key)
            if key not in self._row_group_columns:
                self._row_group_columns[key] = self._new_row_group_column(profile, leaf)
            return self._row_group_columns[key]

    def known_columns(self) -> set[ColumnKey]:
        """The columns that were asked for, here or in another process."""
        with self._lock:
            return {*self._columns, *(self.stored.keys if self.stored is not None else ())}

    def known_zones(self, stripes: NDArray[np.int64]) -> dict[int, str | None]:
        """The time zones of the writers of `stripes`, as far as nothing must be read for them."""
        zones = self.footers.known_zones(stripes)
        stored = {} if self.stored is None else self.stored.zones
        return {i: stored[i] for i in stripes.tolist() if i in stored} | zones

    @property
    def is_storable(self) -> bool:
        return True

    @property
    def cached_bytes(self) -> int:
        """The approximate size of this table in memory."""
        tails = 0 if self.stored is not None else sum(tail.size for tail in self.tails)
        columns = list(self._row_group_columns.values())  # no lock: it may be held by a read
        indexes = sum(8 * 5 * len(column.statistics.nulls) + column.filters.cached_bytes for column in columns)
        return tails + indexes + 8 * 8 * len(self)

    @property
    def read_amount(self) -> ReadAmount:
        """The amount of reads for this table; evidence is counted in bytes of filters, and stripes."""
        with self._lock:
            read = sum(column.filters.read_bytes for column in self._row_group_columns.values())
            return ReadAmount(self._columns_read, self._stripes_read + read, self.cached_bytes)

    def _load_stored(self, key: ColumnKey, reads: ReadCount | None = None) -> None:
        """Take a column from the segment, if there is one."""
        if self.stored is None:
            return
        members = self._members[key[0]]
        at = self.row_groups_within(members).at
        column = self.stored.load(key, len(members), len(at), reads)
        if column is None:
            return
        self._columns[key] = column.stripes, {}
        made = self._new_row_group_column(key[0], self.profiles[key[0]].schema.leaves[key[1]])
        made.statistics.set(at, column.row_groups)
        if isinstance(column.filters, ReadFilters):
            made.filters.put_read(at, column.filters)
        else:
            made.filters.put_tiled(at, column.filters)
        made.loaded[members] = column.loaded
        self._row_group_columns[key] = made

    def stripe_column(self, profile: int, leaf: LeafColumn, reads: ReadCount | None = None) -> StripeColumn:
        """The statistics of the stripes with a profile, and the errors of the others."""
        with self._lock:
            key = profile, leaf.index
            if key not in self._columns:
                self._load_stored(key, reads)
            if key not in self._columns:
                self._columns[key] = self._read_stripe_column(profile, leaf)
            return self._columns[key]

    def _read_stripe_column(self, profile: int, leaf: LeafColumn) -> StripeColumn:
        members, column = self._members[profile], self.column_of(profile, leaf)
        statistics = ColumnStatistics.unknown(self.type_of(profile, leaf), len(members))
        errors: dict[int, BloomParquetError] = {}
        self._columns_read += 1
        for i in range(len(members)):
            stripe = int(members[i])
            file = int(self.file[stripe])
            if file in errors:
                continue
            try:
                parsed = self.tails[file].stripe_statistics(int(self.index[stripe]), column)
            except BloomParquetError as error:
                errors[file] = error
            else:
                rows = self.rows[stripe : stripe + 1]
                statistics.parse(i, self.tails[file], column, [parsed], rows, len(leaf.path) == 1)
        return statistics, errors

    def _new_row_group_column(self, profile: int, leaf: LeafColumn) -> RowGroupColumn:
        """The statistics of the stripes, for each of their row groups."""
        members, tail = self._members[profile], self.profiles[profile].tail
        column = self.column_of(profile, leaf)
        by_stripe, _ = self.stripe_column(profile, leaf)
        row_groups = self.row_groups_within(members)
        of_stripe = by_stripe.take(np.searchsorted(members, row_groups.stripe_index))
        statistics = ColumnStatistics.unknown(self.type_of(profile, leaf), int(self.first_group[-1]))
        in_stripe = self.rows[row_groups.stripe_index]
        statistics.set(row_groups.at, of_stripe.for_parts(in_stripe, row_groups.rows))
        filters = OrcFilters(
            self.storage, column, dotted_name(leaf.path), self.first_group, self.footers.read,
            lambda stripe: why_filters_unusable(tail, column, stripe),
        )  # fmt: skip
        return RowGroupColumn(statistics, filters, np.zeros(len(self), np.bool_))

    def _load_row_groups(
        self, column: RowGroupColumn, profile: int, leaf: LeafColumn, stripes: NDArray[np.int64], reads: ReadCount
    ) -> None:
        """Read the row index of a column in `stripes`."""
        number = self.column_of(profile, leaf)
        if may_misplace_values(self.profiles[profile].tail, number):
            column.loaded[stripes] = True  # with what the stripes' own statistics prove
            return
        self._stripes_read += len(stripes)
        footers = self.footers.read(stripes, reads)
        pairs = list(zip(stripes.tolist(), footers, strict=True))
        readable = [(i, footer) for i, footer in pairs if isinstance(footer, StripeIndexes)]
        column.errors |= {i: error for i, error in pairs if isinstance(error, BloomParquetError)}
        results = read_statistics(self.storage, [(footer, number) for _, footer in readable], reads)
        for (i, _), parsed in zip(readable, results, strict=True):
            if isinstance(parsed, BloomParquetError):
                column.errors[i] = parsed
            elif parsed is not None:
                rows, tail = self.row_groups_within(np.array([i])).rows, self.tails[self.file[i]]
                first = int(self.first_group[i])
                column.statistics.parse(first, tail, number, parsed, rows, len(leaf.path) == 1)
        column.loaded[stripes] = True


def tails_of(stripes: Stripes, files: Sequence[int]) -> list[Tail]:
    """The tails of some files of a table; see :meth:`bloomparquet.planning.evidence.interface.Table.gather`."""
    return [stripes.tails[file] for file in files]


class StripeRowGroups:
    """The row groups of some stripes of a table, in their order; see
    :class:`bloomparquet.planning.evidence.interface.RowGroupsOfStripes`.

    ``at[i]`` is the number of row group i in the whole table.
    """

    format = FileFormat.ORC

    def __init__(self, stripes: Stripes, units: NDArray[np.int64]) -> None:
        self.stripes = stripes
        counts = np.diff(stripes.first_group)[units]
        self.total = int(stripes.first_group[-1])
        self.position = np.repeat(np.arange(len(units)), counts)
        self.stripe_index = units[self.position]
        index = positions_of(np.zeros_like(counts), counts)
        self.at = stripes.first_group[self.stripe_index] + index
        self.file = stripes.file[self.stripe_index]
        stride = stripes.stride[self.stripe_index]
        self.rows = np.minimum(stride, stripes.rows[self.stripe_index] - index * stride)

    def __len__(self) -> int:
        return len(self.stripe_index)

    @property
    def schemas(self) -> list[FileSchema]:
        return self.stripes.schemas

    def members(self, profile: int) -> NDArray[np.int64]:
        return np.flatnonzero(self.stripes._profile[self.stripe_index] == profile)

    def is_lossless(self, profile: int, leaf: LeafColumn | None, reader_type: str | None) -> bool:
        return self.stripes.is_lossless(profile, leaf, reader_type)

    def chunks(self, profile: int, leaf: LeafColumn, reads: ReadCount) -> OrcChunks:
        table, members = self.stripes, self.members(profile)
        table.prefetch_footers(np.unique(self.stripe_index), reads)  # of all profiles at once
        of, at = self.stripe_index[members], self.at[members]
        stripes = np.unique(of)
        column = table.row_group_column(profile, leaf, stripes, reads)
        statistics, rows = column.statistics.take(at), self.rows[members]
        by_stripe = table.zones(profile, leaf, stripes, reads)
        stripe_positions = np.searchsorted(stripes, of)
        zones = None if by_stripe is None else [by_stripe[i] for i in stripe_positions.tolist()]
        present = np.zeros(len(members), np.bool_)
        unusable = why_filters_unusable(table.profiles[profile].tail, table.column_of(profile, leaf)) or ""
        if not unusable and len(stripes):
            present = column.filters.look_up(at, of, reads) & statistics.sound
            unusable = column.filters.why_some_unusable
        if zones is not None:
            in_zone = np.array([zone is not None for zone in zones], np.bool_)
            if (present & ~in_zone).any():
                unusable = "timestamps are hashed in the writer's time zone, which is not known"
            present &= in_zone
        column.filters.filled[at] = (statistics.nulls >= 0) & (statistics.nulls < rows)
        filters = FiltersOfGroups(column.filters, at, present)
        known = column.errors
        errors = {i: known[stripe] for i, stripe in enumerate(of.tolist()) if stripe in known} if known else {}
        orc_type = table.type_of(profile, leaf)
        return OrcChunks.of(leaf, orc_type, members, statistics, rows, zones, filters, errors, unusable)
