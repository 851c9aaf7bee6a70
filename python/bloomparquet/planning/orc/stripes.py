"""The stripes of ORC files, and the row groups within them, as tables that plans ask for evidence.

Cheapest evidence first: the tails of files have the statistics of stripes; only where those exclude nothing are a
stripe's footer, then the row index of the columns that are asked for, and then their filters read. What was read is
kept, as arrays, as long as the table.

Source: ORC specification, "Stripes", "Row Group Index".
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError
from bloomparquet.orc.encoding import is_lossless
from bloomparquet.orc.file_tail import Tail
from bloomparquet.orc.schema import Kind
from bloomparquet.orc.statistics import Statistics
from bloomparquet.orc.stripe_indexes import Place, StripeIndexes, read_statistics, read_stripes
from bloomparquet.orc.writer_quirks import why_filters_unusable
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.evidence.interface import ChunkFilters, Question
from bloomparquet.planning.orc.columns import UNKNOWN, ColumnArrays, OrcChunks
from bloomparquet.planning.orc.file_profile import find_layouts
from bloomparquet.planning.orc.filters import NoFilters, OrcFilters
from bloomparquet.query.columns import FileSchema, LeafColumn
from bloomparquet.query.names import dotted_name
from bloomparquet.query.ordering import Bounds
from bloomparquet.storage.files import FileInfo, ReadCount, Storage

ColumnKey = tuple[int, int]
"""A column of a table: the place of its layout, and of its leaf therein."""


@dataclass
class _IndexColumn:
    """A column in all row groups of a table, as far as its indexes were read: `loaded` (stripes,). Where a row index
    says nothing, the stripe's statistics do. `errors` by stripe."""

    arrays: ColumnArrays
    filters: OrcFilters
    loaded: NDArray[np.bool_]
    errors: dict[int, BloomParquetError] = field(default_factory=dict)


class Stripes:
    """The stripes of `files`, in file order: `file` (place of the file), `index` (within the file) and `rows`, each of
    shape (n,). ``tails[i]`` is that of ``files[i]``. Safe to use from several threads."""

    format = FileFormat.ORC

    def __init__(self, storage: Storage, files: Sequence[FileInfo], tails: Sequence[Tail]) -> None:
        self.storage, self.files, self.tails = storage, files, tails
        self.paths = [file.path for file in files]
        counts = np.array([len(tail.stripes) for tail in tails], np.int64)
        self.file = np.repeat(np.arange(len(files)), counts)
        self.first = np.concatenate(([0], np.cumsum(counts)))  # of each file, and the end
        self.index = np.arange(len(self.file)) - self.first[self.file]
        every = [stripe for tail in tails for stripe in tail.stripes]
        self.rows = np.array([stripe.rows for stripe in every], np.int64)
        self._offset = np.array([stripe.offset for stripe in every], np.int64)
        self._length = np.array([stripe.length for stripe in every], np.int64)
        self.stride = np.array([tail.row_index_stride for tail in tails], np.int64)[self.file]
        # A stripe without an index counts as one row group.
        self.stride[self.stride == 0] = np.maximum(self.rows, 1)[self.stride == 0]
        groups = -(-self.rows // self.stride)
        self.first_group = np.concatenate(([0], np.cumsum(groups)))
        self.layouts, numbers = find_layouts(tails)
        self._layout = np.array(numbers, np.int64)[self.file]
        self._members = [np.flatnonzero(self._layout == i) for i in range(len(self.layouts))]
        self._footers: dict[int, StripeIndexes] = {}
        self._unread: dict[int, BloomParquetError] = {}  # footers of stripes, and why not
        self._columns: dict[ColumnKey, tuple[ColumnArrays, list[BloomParquetError]]] = {}
        self._indexes: dict[ColumnKey, _IndexColumn] = {}
        self._others: list[tuple[weakref.ref[Stripes], NDArray[np.int64], NDArray[np.int64]]] = []
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self.file)

    @property
    def schemas(self) -> list[FileSchema]:
        return [layout.schema for layout in self.layouts]

    def members(self, layout: int) -> NDArray[np.int64]:
        return self._members[layout]

    def is_lossless(self, layout: int, leaf: LeafColumn | None, reader_type: str | None) -> bool:
        """Whether a reader that shows the column as that type shows what is stored: readers of ORC convert types, and
        find the columns of some files otherwise than by name."""
        found = self.layouts[layout]
        if not found.is_by_name:
            return False
        return (
            leaf is None or reader_type is None or is_lossless(found.tail.types[found.columns[leaf.index]], reader_type)
        )

    def extent(self, unit: int) -> tuple[int, int]:
        return int(self._offset[unit]), int(self._length[unit])

    def extents_of(self, units: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self._offset[units], self._length[units]

    def within(self, units: NDArray[np.int64]) -> RowGroupsWithin:
        """The row groups of the stripes `units`."""
        return RowGroupsWithin(self, units)

    def chunks(self, layout: int, leaf: LeafColumn, reads: ReadCount) -> OrcChunks:
        """`leaf` in :meth:`members`, by the statistics of stripes. What cannot be read is unknown."""
        members = self._members[layout]
        arrays, errors = self.stripe_column(layout, leaf)
        zones = self.zones(layout, leaf, members, reads)
        return self._as_chunks(
            layout, leaf, members, arrays, self.rows[members], zones, NoFilters(len(members)), errors
        )

    def stripe_column(self, layout: int, leaf: LeafColumn) -> tuple[ColumnArrays, list[BloomParquetError]]:
        """What the statistics of the stripes with a layout say, and why some say nothing."""
        with self._lock:
            key = layout, leaf.index
            if key not in self._columns:
                self._columns[key] = self._read_stripe_column(layout, leaf)
            return self._columns[key]

    def index_column(self, layout: int, leaf: LeafColumn, stripes: NDArray[np.int64], reads: ReadCount) -> _IndexColumn:
        """A column's row groups, those of `stripes` (which have this layout) read."""
        with self._lock:
            key = layout, leaf.index
            if key not in self._indexes:
                self._indexes[key] = self._new_index_column(layout, leaf)
            column = self._indexes[key]
            self._take_column(column, leaf, stripes[~column.loaded[stripes]])
            self._load(column, layout, leaf, stripes[~column.loaded[stripes]], reads)
            return column

    def zones(
        self, layout: int, leaf: LeafColumn, stripes: NDArray[np.int64], reads: ReadCount
    ) -> list[str | None] | None:
        """The zones of the writers' clocks, by stripe, None where it is not told; None where the column needs none."""
        found = self.layouts[layout]
        if found.tail.types[found.columns[leaf.index]].kind != Kind.TIMESTAMP:
            return None
        footers = self.footers(stripes, reads)
        return [None if footer is None else footer.writer_timezone for footer in footers]

    def footers(self, stripes: NDArray[np.int64], reads: ReadCount) -> list[StripeIndexes | None]:
        """The footers of `stripes`; None for one that is damaged."""
        with self._lock:
            missing = [i for i in stripes.tolist() if i not in self._footers and i not in self._unread]
            for other, mine, theirs in self._known_elsewhere(np.array(missing, np.int64)) if missing else ():
                for i, j in zip(mine.tolist(), theirs.tolist(), strict=True):
                    if j in other._footers:
                        self._footers[i] = other._footers[j]
                    elif j in other._unread:
                        self._unread[i] = other._unread[j]
            missing = [i for i in missing if i not in self._footers and i not in self._unread]
            places = [Place(int(self.file[i]), int(self.index[i])) for i in missing]
            for i, found in zip(missing, read_stripes(self.storage, self.tails, places, reads), strict=True):
                if isinstance(found, BloomParquetError):
                    self._unread[i] = found
                else:
                    self._footers[i] = found
            return [self._footers.get(i) for i in stripes.tolist()]

    def learn_from(self, other: Stripes) -> bool:
        """Look into another table, while it is there, before indexes are read of files that both have. True where there
        are any."""
        places = {file: place for place, file in enumerate(other.files) if file.mtime_ns}
        shared = [(i, place) for i, file in enumerate(self.files) if (place := places.get(file)) is not None]
        if shared:
            mine = np.concatenate([np.arange(self.first[i], self.first[i + 1]) for i, _ in shared])
            theirs = np.concatenate([np.arange(other.first[i], other.first[i + 1]) for _, i in shared])
            self._others.append((weakref.ref(other), mine, theirs))
        return bool(shared)

    def _known_elsewhere(
        self, stripes: NDArray[np.int64]
    ) -> Iterator[tuple[Stripes, NDArray[np.int64], NDArray[np.int64]]]:
        """Other tables that have some of `stripes`: which, by their numbers here and there."""
        for of, mine, theirs in self._others:
            other = of()
            at = np.minimum(np.searchsorted(mine, stripes), len(mine) - 1)
            here = mine[at] == stripes if len(mine) else np.zeros(len(stripes), np.bool_)
            if other is not None and here.any():
                yield other, stripes[here], theirs[at[here]]

    def _take_column(self, column: _IndexColumn, leaf: LeafColumn, stripes: NDArray[np.int64]) -> None:
        """What other tables know of a column in `stripes`, which share a layout."""
        for other, mine, theirs in self._known_elsewhere(stripes):
            with other._lock:
                known = other._indexes.get((int(other._layout[theirs[0]]), leaf.index))
                if known is None:
                    continue
                fresh = known.loaded[theirs] & ~column.loaded[mine]
                mine, theirs = mine[fresh], theirs[fresh]
                at, of = self.within(mine).at, other.within(theirs).at
                column.arrays.copy(at, known.arrays.take(of))
                column.loaded[mine] = True
                pairs = zip(mine.tolist(), theirs.tolist(), strict=True)
                column.errors |= {i: known.errors[j] for i, j in pairs if j in known.errors}
                column.filters.take_over(at, known.filters, of)

    @property
    def cached_bytes(self) -> int:
        """About what this takes of memory."""
        tails = sum(len(tail.stored_metadata) for tail in self.tails)
        with self._lock:
            indexes = list(self._indexes.values())
        columns = sum(8 * 5 * len(column.arrays.nulls) + column.filters.cached_bytes for column in indexes)
        return tails + columns + 8 * 8 * len(self)

    def _column_of(self, layout: int, leaf: LeafColumn) -> int:
        return self.layouts[layout].columns[leaf.index]

    def _read_stripe_column(self, layout: int, leaf: LeafColumn) -> tuple[ColumnArrays, list[BloomParquetError]]:
        members, column = self._members[layout], self._column_of(layout, leaf)
        arrays = ColumnArrays.unknown(self.layouts[layout].tail.types[column], len(members))
        errors: dict[int, BloomParquetError] = {}
        known = np.zeros(len(members), np.bool_)
        for other, mine, theirs in self._known_elsewhere(members):
            number = int(other._layout[theirs[0]])
            found, unreadable = other._columns.get((number, leaf.index), (None, []))
            if found is not None and not unreadable:
                at = np.searchsorted(members, mine)
                arrays.copy(at, found.take(np.searchsorted(other.members(number), theirs)))
                known[at] = True
        for i, stripe in zip(np.flatnonzero(~known).tolist(), members[~known].tolist(), strict=True):
            place = int(self.file[stripe])
            if place in errors:
                continue
            try:
                statistics = self.tails[place].stripe_statistics(int(self.index[stripe]), [column])
            except BloomParquetError as error:
                errors[place] = error
            else:
                arrays.put(
                    i, self.tails[place], column, statistics, self.rows[stripe : stripe + 1], len(leaf.path) == 1
                )
        return arrays, list(errors.values())

    def _new_index_column(self, layout: int, leaf: LeafColumn) -> _IndexColumn:
        members, column = self._members[layout], self._column_of(layout, leaf)
        by_stripe, _ = self.stripe_column(layout, leaf)
        n = int(self.first_group[-1])
        arrays = ColumnArrays.unknown(self.layouts[layout].tail.types[column], n)
        within = self.within(members)
        place = np.searchsorted(members, within.of)
        of, at = by_stripe.take(place), within.at
        arrays.copy(at, of)
        arrays.nulls[at] = UNKNOWN
        none, every = of.nulls == 0, of.nulls == self.rows[within.of]
        arrays.nulls[at[none]] = 0
        arrays.nulls[at[every]] = within.rows[every]
        tail = self.layouts[layout].tail
        filters = OrcFilters(
            self.storage, column, dotted_name(leaf.path), self.first_group, self._footers,
            lambda stripe, found: why_filters_unusable(tail, column, found),
        )  # fmt: skip
        return _IndexColumn(arrays, filters, np.zeros(len(self), np.bool_))

    def _load(
        self, column: _IndexColumn, layout: int, leaf: LeafColumn, stripes: NDArray[np.int64], reads: ReadCount
    ) -> None:
        number, footers = self._column_of(layout, leaf), self.footers(stripes, reads)
        readable = [(i, footer) for i, footer in zip(stripes.tolist(), footers, strict=True) if footer is not None]
        column.errors |= {i: self._unread[i] for i in stripes.tolist() if i in self._unread}
        found = read_statistics(self.storage, [(footer, number) for _, footer in readable], reads)
        for (i, _), statistics in zip(readable, found, strict=True):
            if isinstance(statistics, BloomParquetError):
                column.errors[i] = statistics
            elif statistics is not None:
                self._put(column, i, leaf, number, statistics)
        column.loaded[stripes] = True

    def _put(
        self, column: _IndexColumn, stripe: int, leaf: LeafColumn, number: int, found: Sequence[Statistics | None]
    ) -> None:
        rows = self.within(np.array([stripe])).rows
        tail = self.tails[self.file[stripe]]
        column.arrays.put(int(self.first_group[stripe]), tail, number, found, rows, len(leaf.path) == 1)

    def _as_chunks(
        self,
        layout: int,
        leaf: LeafColumn,
        members: NDArray[np.int64],
        arrays: ColumnArrays,
        rows: NDArray[np.int64],
        zones: Sequence[str | None] | None,
        filters: ChunkFilters,
        errors: Sequence[BloomParquetError],
    ) -> OrcChunks:
        known = arrays.known
        if zones is not None:
            known = known & np.array([zone is not None for zone in zones], np.bool_)
        bounds = Bounds(arrays.lower, arrays.upper, known) if known.any() else None
        found = self.layouts[layout].tail.types[self._column_of(layout, leaf)]
        every = frozenset(zone for zone in zones or () if zone is not None)
        return OrcChunks(dotted_name(leaf.path), found, members, bounds, arrays.nulls, rows, filters, errors, every)


class RowGroupsWithin:
    """The row groups of some stripes of a table, in their order; see
    :class:`bloomparquet.planning.evidence.interface.Parts`.

    ``at[i]`` is the place of row group i among those of the whole table.
    """

    format = FileFormat.ORC

    def __init__(self, stripes: Stripes, units: NDArray[np.int64]) -> None:
        self.stripes, self.files, self.paths = stripes, stripes.files, stripes.paths
        counts = np.diff(stripes.first_group)[units]
        self.total = int(stripes.first_group[-1])
        self.of = np.repeat(units, counts)
        within = np.arange(len(self.of)) - np.repeat(np.cumsum(counts) - counts, counts)
        self.at = stripes.first_group[self.of] + within
        self.file = stripes.file[self.of]
        self.index = within
        self.rows = np.minimum(stripes.stride[self.of], stripes.rows[self.of] - within * stripes.stride[self.of])

    def __len__(self) -> int:
        return len(self.of)

    @property
    def schemas(self) -> list[FileSchema]:
        return self.stripes.schemas

    def members(self, layout: int) -> NDArray[np.int64]:
        return np.flatnonzero(self.stripes._layout[self.of] == layout)

    def is_lossless(self, layout: int, leaf: LeafColumn | None, reader_type: str | None) -> bool:
        return self.stripes.is_lossless(layout, leaf, reader_type)

    def extent(self, unit: int) -> tuple[int, int]:
        return self.stripes.extent(int(self.of[unit]))

    def extents_of(self, units: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self.stripes.extents_of(self.of[units])

    def within(self, units: NDArray[np.int64]) -> None:
        """None: there is nothing smaller."""

    def chunks(self, layout: int, leaf: LeafColumn, reads: ReadCount) -> OrcChunks:
        """`leaf` in :meth:`members`, by row indexes and filters. What cannot be read is unknown."""
        table, members = self.stripes, self.members(layout)
        table.footers(np.unique(self.of), reads)  # of all layouts by one round of requests
        of, at = self.of[members], self.at[members]
        stripes = np.unique(of)
        column = table.index_column(layout, leaf, stripes, reads)
        arrays, rows = column.arrays.take(at), self.rows[members]
        by_stripe = table.zones(layout, leaf, stripes, reads)
        places = np.searchsorted(stripes, of)
        zones = None if by_stripe is None else [by_stripe[i] for i in places.tolist()]
        found = table.layouts[layout]
        present = np.zeros(len(members), np.bool_)
        if why_filters_unusable(found.tail, found.columns[leaf.index]) is None:
            present = column.filters.has(stripes)[places] & arrays.sound if len(stripes) else present
        if zones is not None:
            present &= np.array([zone is not None for zone in zones], np.bool_)
        column.filters.filled[at] = (arrays.nulls >= 0) & (arrays.nulls < rows)
        filters = _Filters(column.filters, at, present)
        errors = [column.errors[stripe] for stripe in stripes.tolist() if stripe in column.errors]
        return table._as_chunks(layout, leaf, members, arrays, rows, zones, filters, errors)


class _Filters:
    """The filters of n row groups, given by their places in the table."""

    def __init__(self, store: OrcFilters, at: NDArray[np.int64], present: NDArray[np.bool_]) -> None:
        self._store, self._at, self.present = store, at, present
        self.errors: dict[int, BloomParquetError] = {}

    def check(self, question: Question) -> tuple[NDArray[np.bool_], int]:
        chunks, at = question.chunks, self._at[question.chunks]
        answers, unusable = self._store.check(replace(question, chunks=at))
        if unusable:
            errors = self._store.errors
            self.errors |= {i: errors[j] for i, j in zip(chunks.tolist(), at.tolist(), strict=True) if j in errors}
        return answers, unusable
