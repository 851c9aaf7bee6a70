"""A selection: a table of files that lie in several parts. A part is a table too: of files that were read together, or
of a segment. Parts keep what is read; a selection joins their evidence about a column when a plan asks for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.evidence.interface import Chunks, ReadAmount, RowGroupsOfStripes, RowRanges, Table
from bloomparquet.query.columns import FileSchema, LeafColumn
from bloomparquet.query.names import dotted_name, fold
from bloomparquet.storage.files import FileInfo, ReadCount
from bloomparquet.storage.forks import lazy_property
from bloomparquet.storage.threads import in_threads

Integers = NDArray[np.int64]
Item = TypeVar("Item")


class Part(Table, Protocol):
    """A table that keeps what is read of its files. Files of two parts whose `profiles` are equal have one schema and
    one writer.

    `arrays` has two per file: `counts`, the number of units, and `profile`, an index into the profiles. `first`
    (files + 1,): the first unit of each file, and the end. `cached_bytes`: the approximate size in memory.
    `is_storable`: whether the part may be written to the disk.
    """

    keys: Keys | None
    files: Sequence[FileInfo]
    indexed: int

    def chunks_of(self, profile: int, leaf: LeafColumn, units: Integers, reads: ReadCount) -> Chunks:
        """The chunks of `leaf` in `units`, whose files have this profile; perhaps also those of other units. Reads
        nothing of the files of other units, which may be gone."""

    @property
    def arrays(self) -> Any: ...
    @property
    def first(self) -> Integers: ...
    @property
    def profiles(self) -> Sequence[Any]: ...
    @property
    def cached_bytes(self) -> int: ...
    @property
    def is_storable(self) -> bool: ...
    @property
    def read_amount(self) -> ReadAmount: ...

    def mixed_columns(self, schemas: Sequence[FileSchema]) -> frozenset[str] | None:
        """The columns, by folded names, that files with these schemas store in two ways which no reader joins. None if
        the format has no such ways."""


class _Piece(NamedTuple):
    """The row ranges `there` of a table. In the joined ranges, they have the positions `here`."""

    table: RowRanges
    there: Integers
    here: Integers


class JoinedRanges:
    """Row ranges of several tables of one format; see :class:`bloomparquet.planning.evidence.interface.RowRanges`.

    ``profiles[k]``: the pieces, by number, whose files have profile k, and the number that each calls it.
    """

    def __init__(self, pieces: Sequence[_Piece], profiles: Sequence[Sequence[tuple[int, int]]], threads: int) -> None:
        self._pieces, self._profiles, self._threads = pieces, profiles, threads
        self.rows = np.empty(sum(len(piece.here) for piece in pieces), np.int64)
        for piece in pieces:
            self.rows[piece.here] = piece.table.rows[piece.there]
        self._chunks: dict[tuple[int, int], Chunks] = {}

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def format(self) -> FileFormat:
        return self._pieces[0].table.format

    @lazy_property
    def schemas(self) -> list[FileSchema]:
        """The schema of each profile."""
        return [self._pieces[piece].table.schemas[number] for ((piece, number), *_) in self._profiles]

    def members(self, profile: int) -> Integers:
        return np.concatenate([self._pieces[piece].here[some] for piece, _, some in self._ranges_of(profile)])

    def is_lossless(self, profile: int, leaf: LeafColumn | None, reader_type: str | None) -> bool:
        piece, number = self._profiles[profile][0]
        return self._pieces[piece].table.is_lossless(number, leaf, reader_type)

    def chunks(self, profile: int, leaf: LeafColumn, reads: ReadCount) -> Chunks:
        key = profile, leaf.index
        known = self._chunks.get(key)
        if known is None:
            known = self._join(profile, leaf, reads)
            if not known.unreadable:  # the next plan asks again for a key that could not be retrieved
                self._chunks[key] = known
        return known

    def _join(self, profile: int, leaf: LeafColumn, reads: ReadCount) -> Chunks:
        ranges = self._ranges_of(profile)
        # A piece without such row ranges is not read; but one is, for a file that has none at all.
        ranges = [each for each in ranges if len(each[2])] or ranges[:1]

        def load(ranges: tuple[int, int, Integers]) -> tuple[Chunks, ReadCount]:
            count, (number, own, some) = ReadCount(), ranges
            piece = self._pieces[number]
            return self._load(number, own, leaf, piece.there[some], count), count

        loaded, members, at = list[Chunks](), list[Integers](), list[Integers]()
        results = in_threads(self._threads, load, ranges)
        for (number, _, some), (chunks, count) in zip(ranges, results, strict=True):
            piece = self._pieces[number]
            position = np.full(len(piece.table), -1, np.int64)
            position[chunks.members] = np.arange(len(chunks.members))
            loaded.append(chunks)
            members.append(piece.here[some])
            at.append(position[piece.there[some]])
            assert (at[-1] >= 0).all(), "a part gave evidence about fewer row ranges than it was asked for"
            reads.add(count)
        if len(loaded) == 1 and np.array_equal(at[0], np.arange(len(loaded[0].members))):
            whole: Any = loaded[0]
            same: Chunks = replace(whole, members=members[0])  # no array is copied
            return same
        joined: Chunks = loaded[0].joined(loaded, at, np.concatenate(members))
        return joined

    def _load(self, piece: int, profile: int, leaf: LeafColumn, units: Integers, reads: ReadCount) -> Chunks:
        """The chunks of at least the row ranges `units` of a piece, which have this profile."""
        return self._pieces[piece].table.chunks(profile, leaf, reads)

    def _ranges_of(self, profile: int) -> list[tuple[int, int, Integers]]:
        """The pieces that have `profile`, what each calls it, and the positions in it of the ranges with that
        profile."""
        ranges = []
        for number, own in self._profiles[profile]:
            piece = self._pieces[number]
            is_member = np.zeros(len(piece.table), np.bool_)
            is_member[piece.table.members(own)] = True
            ranges.append((number, own, np.flatnonzero(is_member[piece.there])))
        return ranges


class Selection(JoinedRanges):
    """The units of `files`: see :class:`bloomparquet.planning.evidence.interface.Table`.

    File i is file ``source[i]`` of ``parts[part[i]]``; every part has some.
    """

    def __init__(self, files: Sequence[FileInfo], parts: Sequence[Part], part: Integers, source: Integers) -> None:
        self.files, self.parts, self.storage = files, parts, parts[0].storage
        self._part, self._source = part, source
        self.indexed = sum(int(np.count_nonzero(part == i)) for i, each in enumerate(parts) if each.indexed)
        counts, first, profile = (np.empty(len(files), np.int64) for _ in range(3))
        for i, each in enumerate(parts):
            of_part, there = part == i, source[part == i]
            counts[of_part], first[of_part] = each.arrays.counts[there], each.first[there]
            profile[of_part] = each.arrays.profile[there]
        self.file = np.repeat(np.arange(len(files)), counts)
        self.index = positions_of(np.zeros_like(counts), counts)
        unit, part_of_unit = positions_of(first, counts), part[self.file]
        here = [np.flatnonzero(part_of_unit == i) for i in range(len(parts))]
        pieces = [_Piece(each, unit[some], some) for each, some in zip(parts, here, strict=True)]
        super().__init__(pieces, _profiles_of(parts, part, profile), self.storage.threads)

    def _load(self, piece: int, profile: int, leaf: LeafColumn, units: Integers, reads: ReadCount) -> Chunks:
        return self.parts[piece].chunks_of(profile, leaf, units, reads)

    @lazy_property
    def paths(self) -> list[str]:
        """The path of each file."""
        return [file.path for file in self.files]

    @lazy_property
    def _mixed(self) -> frozenset[str] | None:
        return self.parts[0].mixed_columns(self.schemas)

    @property
    def cached_bytes(self) -> int:
        """About the size of the arrays that were joined."""
        chunks = list(self._chunks.values())
        columns = sum(each.counts.nulls.nbytes * (4 if each.bounds is not None else 2) for each in chunks)
        return columns + sum(array.nbytes for array in (self.file, self.index, self.rows))

    def is_lossless(self, profile: int, leaf: LeafColumn | None, reader_type: str | None) -> bool:
        if leaf is None or reader_type is not None or self._mixed is None:
            return super().is_lossless(profile, leaf, reader_type)
        return fold(dotted_name(leaf.path), False) not in self._mixed  # other files of a part do not count

    def row_groups_within(self, units: Integers) -> RowGroupsOfStripes | None:
        position = np.full(len(self), -1, np.int64)
        position[units] = np.arange(len(units))
        pieces = []
        for piece, part in zip(self._pieces, self.parts, strict=True):
            (some,) = np.nonzero(position[piece.here] >= 0)
            within = part.row_groups_within(piece.there[some])
            if within is None:
                return None
            pieces.append((within, piece.here[some]))
        return _JoinedRowGroups(self, pieces, position, self._total_row_groups)

    @lazy_property
    def _total_row_groups(self) -> int:
        """The number of row groups within all stripes."""
        pieces = zip(self._pieces, self.parts, strict=True)
        return sum(len(part.row_groups_within(piece.there) or ()) for piece, part in pieces)

    def extents_of(self, units: Integers) -> tuple[Integers, Integers]:
        starts, lengths = np.empty(len(units), np.int64), np.empty(len(units), np.int64)
        for piece, part in zip(self._pieces, self.parts, strict=True):
            (some,) = np.nonzero(np.isin(units, piece.here))
            there = piece.there[np.searchsorted(piece.here, units[some])]
            starts[some], lengths[some] = part.extents_of(there)
        return starts, lengths

    def gather(self, files: Sequence[int], get: Callable[[Any, Sequence[int]], Sequence[Item]]) -> list[Item]:
        part, items = self._part[np.array(files, np.int64)], dict[int, Item]()
        for i in np.unique(part).tolist():
            own = [file for file, number in zip(files, part.tolist(), strict=True) if number == i]
            items.update(zip(own, get(self.parts[i], self._source[own].tolist()), strict=True))
        return [items[file] for file in files]


class _JoinedRowGroups(JoinedRanges):
    """The row groups within some stripes of a selection; see
    :class:`bloomparquet.planning.evidence.interface.RowGroupsOfStripes`."""

    def __init__(
        self,
        stripes: Selection,
        pieces: Sequence[tuple[RowGroupsOfStripes, Integers]],
        position: Integers,
        total: int,
    ) -> None:
        """`pieces`: for each part, the row groups within some of its stripes, and what the selection calls these.
        `position`: of each stripe of the selection, among those that were asked for."""
        self.total = total
        ends = np.cumsum([len(within) for within, _ in pieces])
        joined = [
            _Piece(within, np.arange(len(within)), np.arange(end - len(within), end))
            for (within, _), end in zip(pieces, ends.tolist(), strict=True)
        ]
        super().__init__(joined, stripes._profiles, stripes.storage.threads)
        self.stripe_index = np.concatenate([here[within.position] for within, here in pieces])
        self.position, self.file = position[self.stripe_index], stripes.file[self.stripe_index]


def positions_of(first: Integers, counts: Integers) -> Integers:
    """The concatenation of ``range(first[i], first[i] + counts[i])`` for every i."""
    ends = np.cumsum(counts)
    return np.repeat(first - (ends - counts), counts) + np.arange(ends[-1] if len(ends) else 0)


def _profiles_of(parts: Sequence[Part], part: Integers, profile: Integers) -> list[list[tuple[int, int]]]:
    """The distinct profiles of files in the order of the first file of each: the parts that have it, and the number
    that each part calls it. File i has the profile ``profile[i]`` of ``parts[part[i]]``."""
    numbers: dict[Any, list[tuple[int, int]]] = {}
    pairs, first = np.unique(np.stack([part, profile], axis=1), axis=0, return_index=True)
    for number, own in pairs[np.argsort(first)].tolist():
        numbers.setdefault(parts[number].profiles[own], []).append((number, own))
    return list(numbers.values())
