"""Merges tables of row groups: takes files, and what is cached of them, from several tables into one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bloomparquet.parquet.metadata.file_profile import FileProfile
from bloomparquet.planning.evidence.positions import positions_of
from bloomparquet.planning.evidence.stored_arrays import ColumnKey
from bloomparquet.planning.evidence.tiles import TiledFilters
from bloomparquet.planning.index.listing import StoredFiles
from bloomparquet.planning.parquet.column_arrays import ColumnArrays
from bloomparquet.planning.parquet.filter_facts import FilterFacts
from bloomparquet.planning.parquet.row_groups import Extract, GroupArrays, RowGroups
from bloomparquet.query.ordering import Bounds
from bloomparquet.storage.files import FileInfo, ReadCount
from bloomparquet.storage.ranges import in_threads


def merge(
    files: Sequence[FileInfo],
    parts: Sequence[RowGroups],
    part: NDArray[np.int64],
    source: NDArray[np.int64],
    *,
    lazily: bool = False,
) -> RowGroups:
    """The row groups of `files`. File i is file ``source[i]`` of the table ``parts[part[i]]``.

    A column is taken over if each part that has it has it cached, or has the footers in memory. The result is the part
    itself if `files` are all files of the only one, in their order.

    If `lazily`, the parts stay in memory, and a column that some part has is taken over when it is asked for: for the
    files of the other parts, footers are read. Raises :class:`FormatError` for a damaged footer.
    """
    if not lazily and len(parts) == 1 and np.array_equal(source, np.arange(len(parts[0].files))):
        if isinstance(parts[0].files, StoredFiles):  # just restored from a segment; no other thread has it yet
            parts[0].files = files  # equal ones, which need not be made again from the segment's arrays
        return parts[0]
    taken = [source[part == i] for i in range(len(parts))]  # of each part, in the order of `files`
    order = np.argsort(np.argsort(part, kind="stable"))  # of each file, its index in the concatenated `taken`
    profiles, profile_of_file = _merge_profiles(parts, taken, order)
    groups = [_groups_of(table, some) for table, some in zip(parts, taken, strict=True)]
    counts = np.concatenate([table.arrays.counts[some] for table, some in zip(parts, taken, strict=True)])
    limit = np.concatenate([table.arrays.limit[some] for table, some in zip(parts, taken, strict=True)])
    rows = np.concatenate([table.rows[some] for table, some in zip(parts, groups, strict=True)])
    extents = np.concatenate([table.arrays.extents[some] for table, some in zip(parts, groups, strict=True)])
    group_order = positions_of((np.cumsum(counts) - counts)[order], counts[order])
    arrays = GroupArrays(counts[order], profile_of_file, limit[order], rows[group_order], extents[group_order])
    cached = zip((table.cached_footers for table in parts), taken, strict=True)
    footers = [of_part[file] for of_part, some in cached for file in some.tolist()]
    merged = RowGroups(
        parts[0].storage, files, arrays, profiles, [footers[i] for i in order.tolist()], keys=parts[0].keys
    )
    if all(len(set(map(id, table.profiles))) == len(table.profiles) for table in parts):
        columns = [_ProfileColumns(profile, parts, part, taken, groups, group_order) for profile in profiles]
        if lazily:
            merged.stored = _LazyColumns(columns)
        else:
            for number, each in enumerate(columns):
                for leaf in sorted(each.common):
                    column = each.load(leaf, ReadCount())
                    if column is not None:
                        merged.put((number, leaf), column)
    return merged


def _merge_profiles(
    parts: Sequence[RowGroups], taken: Sequence[NDArray[np.int64]], order: NDArray[np.int64]
) -> tuple[list[FileProfile], NDArray[np.int64]]:
    """The distinct profiles, in the order of their first file; and per file, an index into them."""
    numbers: dict[int, int] = {}
    profiles: list[FileProfile] = []
    of_part = []
    for table, some in zip(parts, taken, strict=True):
        for profile in table.profiles:
            if numbers.setdefault(id(profile), len(profiles)) == len(profiles):
                profiles.append(profile)
        translation = np.array([numbers[id(profile)] for profile in table.profiles], np.int64)
        of_part.append(translation[table.arrays.profile[some]])
    of_file = np.concatenate(of_part)[order]
    used, first, of_used = np.unique(of_file, return_index=True, return_inverse=True)
    by_first = np.argsort(first)
    return [profiles[number] for number in used[by_first].tolist()], np.argsort(by_first)[of_used]


def _groups_of(table: RowGroups, files: NDArray[np.int64]) -> NDArray[np.int64]:
    """The row groups of `files`, file after file."""
    return positions_of(table.first[files], table.arrays.counts[files])


class _ProfileColumns:
    """The columns of the files with `profile` in several tables (`parts`).

    `any`: the leaves that some part has cached. `common`: the leaves that each part has cached, or can make without
    reading.
    """

    def __init__(
        self,
        profile: FileProfile,
        parts: Sequence[RowGroups],
        part: NDArray[np.int64],
        taken: Sequence[NDArray[np.int64]],
        groups: Sequence[NDArray[np.int64]],
        group_order: NDArray[np.int64],
    ) -> None:
        numbers: dict[int, int] = {}  # the parts with such files, and the number that each calls the profile
        common: set[int] | None = None
        self.any: set[int] = set()
        for i, table in enumerate(parts):
            own = next((k for k, other in enumerate(table.profiles) if other is profile), None)
            if own is None or len(groups[i]) == 0:
                continue
            numbers[i] = own
            cached = {leaf for key, leaf in table.column_keys() if key == own}
            self.any |= cached
            if not table.has_footers(own):
                common = cached if common is None else common & cached
        # If all footers are in memory, take the columns that were asked for before.
        self.common = self.any if common is None else common
        self._parts = [(parts[i], own) for i, own in numbers.items()]
        self._files = [
            np.flatnonzero(part == i)[
                (parts[i].arrays.profile == own)[taken[i]] & (parts[i].arrays.counts > 0)[taken[i]]
            ]
            for i, own in numbers.items()
        ]
        chunks_of_groups = []  # by part: of each row group taken, its chunk of the profile; -1 if it has another one
        for i, table in enumerate(parts):
            chunk_of_group = np.full(len(table), -1, np.int64)
            if i in numbers:
                members = table.members(numbers[i])
                chunk_of_group[members] = np.arange(len(members))
            chunks_of_groups.append(chunk_of_group[groups[i]])
        self._chosen = [some[some >= 0] for i, some in enumerate(chunks_of_groups) if i in numbers]
        has_profile = np.concatenate(chunks_of_groups) >= 0
        self._order = (np.cumsum(has_profile) - 1)[group_order][has_profile[group_order]]

    def load(self, leaf: int, reads: ReadCount, extract: Extract | None = None) -> ColumnArrays | None:
        """The column of all parts. If a part lacks it, or has it damaged, `extract` makes it from the footers of its
        files; None if there is no `extract`."""

        def load_part(part: tuple[RowGroups, int]) -> tuple[ColumnArrays | None, ReadCount]:
            count = ReadCount()
            return part[0].cached_arrays((part[1], leaf), count), count

        loaded = list(in_threads(self._parts[0][0].storage.threads, load_part, self._parts))
        known, chosen = [], list(self._chosen)
        for _, count in loaded:
            reads.add(count)
        for i, (arrays, _) in enumerate(loaded):
            if arrays is None:
                if extract is None:
                    return None
                arrays = extract(self._files[i].tolist())
                chosen[i] = np.arange(len(chosen[i]))
            known.append(arrays)
        return _concatenate(known, chosen, self._order)


class _LazyColumns:
    """Columns of several tables; see :class:`bloomparquet.planning.parquet.row_groups.StoredColumns`."""

    def __init__(self, profiles: Sequence[_ProfileColumns]) -> None:
        self._profiles = profiles
        self.keys = frozenset((number, leaf) for number, each in enumerate(profiles) for leaf in each.any)

    def load(self, key: ColumnKey, reads: ReadCount, extract: Extract | None) -> ColumnArrays | None:
        return self._profiles[key[0]].load(key[1], reads, extract)


def _concatenate(
    arrays: Sequence[ColumnArrays], chosen: Sequence[NDArray[np.int64]], order: NDArray[np.int64]
) -> ColumnArrays:
    """The `chosen` chunks of each part, concatenated and put in `order`."""

    def join(pieces: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate([piece[some] for piece, some in zip(pieces, chosen, strict=True)])[order]

    bounds = [part.bounds for part in arrays if part.bounds is not None]
    joined = None
    if len(bounds) == len(arrays):  # the type of the column decides whether it has bounds
        lower, upper, known = (join([getattr(b, name) for b in bounds]) for name in ("lower", "upper", "known"))
        counts_nan = any(b.without_nan is not None for b in bounds)
        joined = Bounds(lower, upper, known, join([~b.may_hold_nan for b in bounds]) if counts_nan else None)
    names = ("nulls", "values", "offset", "length", "filled")
    nulls, values, offset, length, filled = (join([getattr(part, name) for part in arrays]) for name in names)
    parts_known = [part.filter_facts.take(some).compact() for part, some in zip(arrays, chosen, strict=True)]
    filter_facts = FilterFacts.concatenate(parts_known).take(order)
    ciphers = None
    if any(part.ciphers is not None for part in arrays):
        joined_ciphers = [
            None if part.ciphers is None else part.ciphers[i]
            for part, some in zip(arrays, chosen, strict=True)
            for i in some.tolist()
        ]
        ciphers = [joined_ciphers[i] for i in order.tolist()]
    expressions = {
        name: _expression(name, arrays, chosen).take(order)
        for name in sorted({name for part in arrays for name in part.expressions})
    }
    return ColumnArrays(
        bounds=joined,
        nulls=nulls,
        values=values,
        offset=offset,
        length=length,
        filled=filled,
        filter_facts=filter_facts,
        ciphers=ciphers,
        expressions=expressions,
    )


def _expression(name: str, parts: Sequence[ColumnArrays], chosen: Sequence[NDArray[np.int64]]) -> TiledFilters:
    """The filters of an expression in the `chosen` chunks of each part, which may have none."""
    filters = [part.expressions.get(name, TiledFilters.none(len(part.offset))) for part in parts]
    return TiledFilters.concatenate([part.take(some) for part, some in zip(filters, chosen, strict=True)])
