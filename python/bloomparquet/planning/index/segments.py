"""Tables of files that are in an index, and of files that are not, for any format."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from bloomparquet.planning.evidence.section_file import UNUSABLE, SectionFile
from bloomparquet.planning.index.lookup import OpenIndex
from bloomparquet.storage.files import FileInfo, ReadCount, Storage

_TABLES = 16

log = logging.getLogger("bloomparquet")


class IndexedTable(Protocol):
    """A table of `files`. `outdated`: whether one of them changed since it was listed."""

    indexed: int

    @property
    def files(self) -> Sequence[FileInfo]: ...
    @property
    def outdated(self) -> bool: ...


TableT = TypeVar("TableT", bound=IndexedTable)

Rest = Callable[[Sequence[FileInfo]], TableT]
"""The table of files that are not in the index. It may have fewer files: damaged ones may be left out."""
Merge = Callable[[Sequence[FileInfo], Sequence[TableT], NDArray[np.int64], NDArray[np.int64]], TableT]
"""``merge(files, parts, part, source)``: the table of `files`. File i is file ``source[i]`` of ``parts[part[i]]``."""
ReadSegment = Callable[[SectionFile, Storage, str, ReadCount], TableT]
"""The table in a segment of the index of the files below a root. Raises the errors of UNUSABLE."""


class _Segments(Generic[TableT]):
    """The segments of an index as tables, and the table and position of each file in them."""

    def __init__(self, index: OpenIndex, storage: Storage, reads: ReadCount, read: ReadSegment[TableT]) -> None:
        self.tables: list[TableT] = []
        self.places: dict[FileInfo, tuple[int, int]] = {}
        self.lock = threading.Lock()
        self.merged: OrderedDict[tuple[Hashable, tuple[FileInfo, ...]], tuple[TableT | None, TableT]] = OrderedDict()
        for file in index.open_segments(reads):
            try:
                table = read(file, storage, index.root, reads)
            except UNUSABLE as error:
                log.warning("%s; the files of this part of the index are read without it", error)
                continue
            number = len(self.tables)
            self.tables.append(table)
            self.places.update((info, (number, i)) for i, info in enumerate(table.files) if info.mtime_ns)


class IndexedTables(Generic[TableT]):
    """The tables of one format whose files are in indexes. Safe to use from several threads."""

    def __init__(self, read_segment: ReadSegment[TableT], merge: Merge[TableT]) -> None:
        self._read, self._merge = read_segment, merge
        self._segments: WeakKeyDictionary[OpenIndex, _Segments[TableT]] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def open(
        self,
        index: OpenIndex,
        storage: Storage,
        files: Sequence[FileInfo],
        reads: ReadCount,
        keys: Hashable,
        rest: Rest[TableT],
    ) -> TableT | None:
        """The table of `files`: those in `index` from there, the others from `rest`, in the order of `files`. None if
        `index` has none of them. Readers with other `keys` get other tables."""
        with self._lock:
            segments = self._segments.get(index)
            if segments is None:
                segments = self._segments[index] = _Segments(index, storage, reads, self._read)
        places = [segments.places.get(file, (-1, 0)) for file in files]
        table, position = np.array(places, np.int64).reshape(-1, 2).T
        (missing,) = np.nonzero(table < 0)
        if len(missing) == len(files):
            return None
        others = rest([files[i] for i in missing.tolist()]) if len(missing) else None
        key = keys, tuple(files)
        with segments.lock:
            known = segments.merged.get(key)
            if known is not None and known[0] is others and not known[1].outdated:
                segments.merged.move_to_end(key)
                return known[1]
        merged = merge_found(segments.tables, files, table, position, others, self._merge)
        merged.indexed = len(files) - len(missing)
        with segments.lock:
            segments.merged[key] = others, merged
            while len(segments.merged) > _TABLES:
                segments.merged.popitem(last=False)
        return merged


def merge_found(
    tables: Sequence[TableT],
    files: Sequence[FileInfo],
    table: NDArray[np.int64],
    position: NDArray[np.int64],
    others: TableT | None,
    merge: Merge[TableT],
) -> TableT:
    """The table of `files`. File i is file ``position[i]`` of ``tables[table[i]]``; or one of `others`, or none, if
    ``table[i]`` is -1."""
    parts = list(tables)
    if others is not None:
        read = {file: i for i, file in enumerate(others.files)}
        for i in np.flatnonzero(table < 0).tolist():
            at = read.get(files[i])
            if at is not None:
                table[i], position[i] = len(parts), at
        parts.append(others)
    (present,) = np.nonzero(table >= 0)
    used, part = np.unique(table[present], return_inverse=True)
    some = [files[i] for i in present.tolist()] if len(present) < len(files) else list(files)
    return merge(some, [parts[i] for i in used.tolist()], part, position[present])
