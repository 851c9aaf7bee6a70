"""Makes one table of the files that are in an index and of those that are not, for any format."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from bloomparquet.planning.evidence.section_file import UNUSABLE, SectionFile
from bloomparquet.planning.index.file_positions import FilePositions
from bloomparquet.planning.index.listing import StoredFiles
from bloomparquet.planning.index.lookup import OpenIndex
from bloomparquet.storage.files import FileInfo, LocalStorage, ReadCount, Storage
from bloomparquet.storage.forks import clear_in_children, new_lock

_TABLES = 16

log = logging.getLogger("bloomparquet.index")


class IndexedTable(Protocol):
    """A table of `files`."""

    indexed: int

    @property
    def files(self) -> Sequence[FileInfo]: ...


TableT = TypeVar("TableT", bound=IndexedTable)

OpenRest = Callable[[Sequence[FileInfo]], TableT]
"""Opens files that are not in the index as a table. It may have fewer files: damaged ones may be left out."""
Merge = Callable[[Sequence[FileInfo], Sequence[TableT], NDArray[np.int64], NDArray[np.int64]], TableT]
"""``merge(files, parts, part, source)``: the table of `files`. File i is file ``source[i]`` of ``parts[part[i]]``."""
ReadSegment = Callable[[SectionFile, Storage, str, ReadCount], TableT]
"""The table in a segment of the index of the files below a root. Raises the errors of UNUSABLE."""


@dataclass(frozen=True, slots=True)
class _Merged(Generic[TableT]):
    """The table of `files`: those in the index, and `others`, the table of those that are `missing` there."""

    keys: Hashable
    files: Sequence[FileInfo]
    missing: Sequence[FileInfo]
    others: TableT | None
    table: TableT


class _Segments(Generic[TableT]):
    """The segments of an index as tables, and the table and position of each file in them."""

    def __init__(self, index: OpenIndex, storage: Storage, reads: ReadCount, read: ReadSegment[TableT]) -> None:
        self.tables: list[TableT] = []
        self.lock = new_lock()
        self.merged: deque[_Merged[TableT]] = deque(maxlen=_TABLES)
        listings = []
        for file in index.open_segments(reads):
            try:
                table = read(file, storage, index.root, reads)
            except UNUSABLE as error:
                log.warning("%s; the files of this part of the index are read without it", error)
                continue
            self.tables.append(table)
            assert isinstance(table.files, StoredFiles)
            listings.append(table.files.arrays)
        is_local = isinstance(storage, LocalStorage)
        self.positions = FilePositions(listings, index.root, times_are_rounded=not is_local)

    def find(self, keys: Hashable, files: Sequence[FileInfo]) -> _Merged[TableT] | None:
        """The last table of these files."""
        of_keys = [each for each in self.merged if each.keys == keys]
        same = next((each for each in of_keys if each.files is files), None)  # found at once, however many files
        return same or next((each for each in of_keys if each.files == files), None)


class IndexedTables(Generic[TableT]):
    """The tables of one format whose files are in indexes. Safe to use from several threads."""

    def __init__(self, read_segment: ReadSegment[TableT], merge: Merge[TableT]) -> None:
        self._read, self._merge = read_segment, merge
        self._segments: WeakKeyDictionary[OpenIndex, _Segments[TableT]] = WeakKeyDictionary()
        self._lock = new_lock()
        clear_in_children(self)  # segments have locks of their own

    def clear(self) -> None:
        """Drop everything from memory."""
        with self._lock:
            self._segments.clear()

    def open(
        self,
        index: OpenIndex,
        storage: Storage,
        files: Sequence[FileInfo],
        reads: ReadCount,
        keys: Hashable,
        rest: OpenRest[TableT],
    ) -> TableT | None:
        """The table of `files`: those in `index` from there, the others from `rest`, in the order of `files`. None if
        `index` has none of them. Readers with other `keys` get other tables."""
        with self._lock:
            segments = self._segments.get(index)
            if segments is None:
                segments = self._segments[index] = _Segments(index, storage, reads, self._read)
        with segments.lock:
            last = segments.find(keys, files)
        if last is not None:
            others = rest(last.missing) if last.missing else None
            if others is last.others:
                return last.table
        table, position = segments.positions.find(files)
        missing = [files[i] for i in np.flatnonzero(table < 0).tolist()]
        if len(missing) == len(files):
            return None
        others = rest(missing) if missing else None
        merged = merge_found(segments.tables, files, table, position, others, self._merge)
        merged.indexed = len(files) - len(missing)
        with segments.lock:
            segments.merged.appendleft(_Merged(keys, files, missing, others, merged))
        return merged


def merge_found(
    tables: Sequence[TableT],
    files: Sequence[FileInfo],
    table: NDArray[np.int64],
    position: NDArray[np.int64],
    others: TableT | None,
    merge: Merge[TableT],
) -> TableT:
    """The table of `files`. File i is file ``position[i]`` of ``tables[table[i]]``; or if ``table[i]`` is -1, one of
    `others`, or none."""
    table, position = table.copy(), position.copy()
    parts = list(tables)
    if others is not None:
        missing = np.flatnonzero(table < 0)
        if list(others.files) == [files[i] for i in missing.tolist()]:  # the usual case, which needs no dictionary
            table[missing], position[missing] = len(parts), np.arange(len(missing))
        else:
            read = {file: i for i, file in enumerate(others.files)}
            for i in missing.tolist():
                at = read.get(files[i])
                if at is not None:
                    table[i], position[i] = len(parts), at
        parts.append(others)
    (present,) = np.nonzero(table >= 0)
    used, part = np.unique(table[present], return_inverse=True)
    some = files if len(present) == len(files) else [files[i] for i in present.tolist()]
    return merge(some, [parts[i] for i in used.tolist()] or parts[-1:], part, position[present])
