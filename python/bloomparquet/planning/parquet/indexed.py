"""Tables of row groups whose files are in an index; the other files come from the footer cache."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.planning.evidence.section_file import UNUSABLE
from bloomparquet.planning.index.lookup import OpenIndex
from bloomparquet.planning.parquet.merge import merge
from bloomparquet.planning.parquet.row_groups import RowGroups
from bloomparquet.planning.parquet.serialized import read_segment
from bloomparquet.storage.files import FileInfo, LocalStorage, ReadCount, Storage
from bloomparquet.storage.staleness import are_same

_TABLES = 16
_NOWHERE = -1, 0

log = logging.getLogger("bloomparquet.index")

Rest = Callable[[Sequence[FileInfo]], RowGroups]
"""The table of files that are not in the index. It may have fewer files: damaged ones may be left out."""


class _Segments:
    """The segments of an index as tables, and the table and position of each file in them."""

    def __init__(self, index: OpenIndex, storage: Storage, reads: ReadCount) -> None:
        self.tables: list[RowGroups] = []
        self.places: dict[FileInfo, tuple[int, int]] = {}
        self.lock = threading.Lock()
        self.merged: OrderedDict[tuple[Keys | None, tuple[FileInfo, ...]], tuple[RowGroups | None, RowGroups]]
        self.merged = OrderedDict()
        for file in index.open_segments(reads):
            try:
                table = read_segment(file, storage, index.root, reads)
            except UNUSABLE as error:
                log.warning("%s; the files of this part of the index are read without it", error)
                continue
            number = len(self.tables)
            self.tables.append(table)
            self.places.update((info, (number, i)) for i, info in enumerate(table.files) if info.mtime_ns)
        self.by_path: dict[str, list[FileInfo]] = {}
        if not isinstance(storage, LocalStorage):
            for info in self.places:
                self.by_path.setdefault(info.path, []).append(info)

    def place(self, storage: Storage, file: FileInfo) -> tuple[int, int]:
        """The number of the table of `file`, and its position there; -1 and 0 if it is in none of them.

        Two listings of a remote storage may report the same time in milliseconds and in seconds. If `file` may be one
        of several versions, it is none of them.
        """
        place = self.places.get(file)
        if place is None and file.mtime_ns and self.by_path:
            same = [info for info in self.by_path.get(file.path, ()) if are_same(storage, info, file)]
            place = self.places[same[0]] if len(same) == 1 else None
        return _NOWHERE if place is None else place


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
    places = [segments.places.get(file) or segments.place(storage, file) for file in files]
    table, position = np.array(places, np.int64).reshape(-1, 2).T
    (missing,) = np.nonzero(table < 0)
    if len(missing) == len(files):
        return rest(files)
    others = rest([files[i] for i in missing.tolist()]) if len(missing) else None
    key = keys, tuple(files)
    with segments.lock:
        known = segments.merged.get(key)
        if known is not None and known[0] is others and not known[1].outdated:
            segments.merged.move_to_end(key)
            return known[1]
    merged = _merge(segments.tables, storage, keys, files, table, position, others)
    merged.indexed = len(files) - len(missing)
    with segments.lock:
        segments.merged[key] = others, merged
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
