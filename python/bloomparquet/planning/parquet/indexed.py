"""Tables of row groups whose files are in an index; the other files come from the footer cache."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.planning.evidence.section_file import UNUSABLE
from bloomparquet.planning.index.lookup import OpenIndex
from bloomparquet.planning.index.places import Places
from bloomparquet.planning.parquet.merge import merge
from bloomparquet.planning.parquet.row_groups import RowGroups
from bloomparquet.planning.parquet.serialized import read_segment
from bloomparquet.storage.files import FileInfo, ReadCount, Storage

_TABLES = 16

log = logging.getLogger("bloomparquet")

Rest = Callable[[Sequence[FileInfo]], RowGroups]
"""The table of files that are not in the index. It may have fewer files: damaged ones may be left out."""


class _Merged(NamedTuple):
    """The table of `files`: those in the index, and `others`, the table of those that are `missing` there. Plans of one
    data set ask for the same sequence of files, so it is compared by identity."""

    files: Sequence[FileInfo]
    missing: Sequence[FileInfo]
    others: RowGroups | None
    table: RowGroups


class _Segments:
    """The segments of an index as tables, and the table and position of each file in them."""

    def __init__(self, index: OpenIndex, storage: Storage, reads: ReadCount) -> None:
        self.tables: list[RowGroups] = []
        listings = []
        self.lock = threading.Lock()
        self.merged: OrderedDict[tuple[Keys | None, int], _Merged] = OrderedDict()
        for file in index.open_segments(reads):
            try:
                table, listing = read_segment(file, storage, index.root, reads)
            except UNUSABLE as error:
                log.warning("%s; the files of this part of the index are read without it", error)
                continue
            self.tables.append(table)
            listings.append(listing)
        self.places = Places(listings, index.root)


_segments: WeakKeyDictionary[OpenIndex, _Segments] = WeakKeyDictionary()
_lock = threading.Lock()


def indexed_row_groups(
    index: OpenIndex, storage: Storage, files: Sequence[FileInfo], reads: ReadCount, keys: Keys | None, rest: Rest
) -> RowGroups:
    """The row groups of `files`: those in `index` from there, the others from `rest`, in the order of `files`."""
    with _lock:
        segments = _segments.get(index)
        if segments is None:
            segments = _segments[index] = _Segments(index, storage, reads)
    key = keys, id(files)
    with segments.lock:
        last = segments.merged.get(key)
    if last is not None and last.files is files:
        others = rest(last.missing) if last.missing else None
        if others is last.others and not last.table.outdated:
            return last.table
    table, position = segments.places.find(files)
    missing = [files[i] for i in np.flatnonzero(table < 0).tolist()]
    if len(missing) == len(files):
        return rest(files)
    others = rest(missing) if missing else None
    merged = _merge(segments.tables, storage, keys, files, table, position, others)
    merged.indexed = len(files) - len(missing)
    with segments.lock:
        segments.merged[key] = _Merged(files, missing, others, merged)
        segments.merged.move_to_end(key)
        while len(segments.merged) > _TABLES:
            segments.merged.popitem(last=False)
    return merged


def _merge(
    tables: Sequence[RowGroups],
    storage: Storage,
    keys: Keys | None,
    files: Sequence[FileInfo],
    table: NDArray[np.int64],
    position: NDArray[np.int64],
    others: RowGroups | None,
) -> RowGroups:
    parts = list(tables)
    if others is not None:
        read = others.file_index
        for i in np.flatnonzero(table < 0).tolist():
            at = read.get(files[i])
            if at is not None:
                table[i], position[i] = len(parts), at
        parts.append(others)
    (present,) = np.nonzero(table >= 0)
    used, part = np.unique(table[present], return_inverse=True)
    some = [files[i] for i in present.tolist()] if len(present) < len(files) else list(files)
    merged = merge(some, [parts[i] for i in used.tolist()], part, position[present], lazily=True)
    merged.keys = keys
    return merged
