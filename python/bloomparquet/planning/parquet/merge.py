"""A table of row groups made of parts of others: what is known of a file does not depend on the files beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bloomparquet.parquet.metadata.file_profile import FileProfile
from bloomparquet.planning.parquet.filter_index import Learnt
from bloomparquet.planning.parquet.row_groups import ColumnArrays, ColumnChunks, GroupArrays, RowGroups
from bloomparquet.query.ordering import Bounds
from bloomparquet.storage.files import FileInfo


def merge(
    files: Sequence[FileInfo], parts: Sequence[RowGroups], part: NDArray[np.int64], place: NDArray[np.int64]
) -> RowGroups:
    """The row groups of `files`, file i being that at ``place[i]`` of ``parts[part[i]]``.

    A column is taken over when each part that has it either knows it or holds the footers that tell. Raises
    :class:`FormatError` for a damaged footer.
    """
    taken = [place[part == i] for i in range(len(parts))]  # of each part, in the order of `files`
    order = np.argsort(np.argsort(part, kind="stable"))  # from `files` to the parts' files, one part after another
    layouts, of_file = _layouts(parts, taken, order)
    groups = [_groups_of(table, some) for table, some in zip(parts, taken, strict=True)]
    counts = np.concatenate([table.arrays.counts[some] for table, some in zip(parts, taken, strict=True)])
    limit = np.concatenate([table.arrays.limit[some] for table, some in zip(parts, taken, strict=True)])
    rows = np.concatenate([table.rows[some] for table, some in zip(parts, groups, strict=True)])
    extents = np.concatenate([table.arrays.extents[some] for table, some in zip(parts, groups, strict=True)])
    moved = _expand(np.cumsum(counts) - counts, counts, order)
    arrays = GroupArrays(counts[order], of_file, limit[order], rows[moved], extents[moved])
    footers = [table.held_footers[at] for table, some in zip(parts, taken, strict=True) for at in some.tolist()]
    merged = RowGroups(
        parts[0].storage, files, arrays, layouts, [footers[i] for i in order.tolist()], keys=parts[0].keys
    )
    if all(len(set(map(id, table.layouts))) == len(table.layouts) for table in parts):
        for number, layout in enumerate(layouts):
            _merge_columns(merged, number, layout, parts, groups, moved)
    return merged


def _layouts(
    parts: Sequence[RowGroups], taken: Sequence[NDArray[np.int64]], order: NDArray[np.int64]
) -> tuple[list[FileProfile], NDArray[np.int64]]:
    """The distinct layouts, in the order of their first file; and the place of each file's among them."""
    numbers: dict[int, int] = {}
    found: list[FileProfile] = []
    of_part = []
    for table, some in zip(parts, taken, strict=True):
        for layout in table.layouts:
            if numbers.setdefault(id(layout), len(found)) == len(found):
                found.append(layout)
        translation = np.array([numbers[id(layout)] for layout in table.layouts], np.int64)
        of_part.append(translation[table.arrays.layout[some]])
    of_file = np.concatenate(of_part)[order]
    used, first, of_used = np.unique(of_file, return_index=True, return_inverse=True)
    by_first = np.argsort(first)
    rank = np.empty_like(by_first)
    rank[by_first] = np.arange(len(by_first))
    return [found[number] for number in used[by_first].tolist()], rank[of_used]


def _groups_of(table: RowGroups, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """The row groups of the files at `places`, file after file."""
    return _expand(table.first[:-1], table.arrays.counts, places)


def _expand(first: NDArray[np.int64], counts: NDArray[np.int64], files: NDArray[np.int64]) -> NDArray[np.int64]:
    sizes = counts[files]
    ends = np.cumsum(sizes)
    return np.repeat(first[files] - (ends - sizes), sizes) + np.arange(ends[-1] if len(ends) else 0)


def _merge_columns(
    merged: RowGroups,
    number: int,
    layout: FileProfile,
    parts: Sequence[RowGroups],
    groups: Sequence[NDArray[np.int64]],
    moved: NDArray[np.int64],
) -> None:
    """Give the row groups of one layout every column that all parts know or can tell without reading."""
    having = []
    wanted: set[int] | None = None
    for i, table in enumerate(parts):
        own = next((k for k, other in enumerate(table.layouts) if other is layout), None)
        if own is None or len(groups[i]) == 0:
            continue
        having.append((i, own))
        if table.can_tell(own):
            continue
        known = {leaf for at, leaf in table.column_keys() if at == own}
        wanted = known if wanted is None else wanted & known
    if wanted is None:  # everything is in memory: what has been asked for will be asked for again
        wanted = {leaf for i, own in having for at, leaf in parts[i].column_keys() if at == own}
    # The merged table's members of this layout, as places in the concatenation of the parts' chunks.
    places = np.full(len(moved), -1, np.int64)
    first = 0
    begins = np.concatenate(([0], np.cumsum([len(some) for some in groups])))
    chosen = []
    for i, own in having:
        at = np.full(len(parts[i]), -1, np.int64)
        at[parts[i].members(own)] = np.arange(len(parts[i].members(own)))
        some = at[groups[i]]
        chosen.append(some[some >= 0])
        where = np.flatnonzero(some >= 0) + begins[i]
        places[where] = first + np.arange(len(where))
        first += len(where)
    order = places[moved]
    order = order[order >= 0]
    for leaf in sorted(wanted):
        chunks = [parts[i].chunks(own, layout.schema.leaves[leaf]) for i, own in having]
        merged.put((number, leaf), _concatenate(chunks, chosen, order))


def _concatenate(
    parts: Sequence[ColumnChunks], chosen: Sequence[NDArray[np.int64]], order: NDArray[np.int64]
) -> ColumnArrays:
    """The chosen chunks of each part, all in `order`."""
    arrays = [ColumnArrays.of(chunks) for chunks in parts]

    def join(pieces: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate([piece[some] for piece, some in zip(pieces, chosen, strict=True)])[order]

    bounds = [found.bounds for found in arrays if found.bounds is not None]
    joined = None
    if len(bounds) == len(arrays):  # it is the column's type that says whether there are any
        lower, upper, known = (join([getattr(b, name) for b in bounds]) for name in ("lower", "upper", "known"))
        joined = Bounds(lower, upper, known)
    names = ("nulls", "values", "offset", "length", "filled")
    nulls, values, offset, length, filled = (join([getattr(found, name) for found in arrays]) for name in names)
    learnt = Learnt.concatenate([found.learnt.take(some).compact() for found, some in zip(arrays, chosen, strict=True)])
    ciphers = None
    if any(found.ciphers is not None for found in arrays):
        every = [
            None if found.ciphers is None else found.ciphers[i]
            for found, some in zip(arrays, chosen, strict=True)
            for i in some.tolist()
        ]
        ciphers = [every[i] for i in order.tolist()]
    return ColumnArrays(joined, nulls, values, offset, length, filled, learnt.take(order), ciphers)
