"""The segments of an index as parts. Each index is opened once, for all caches of the process."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from typing import Any, Generic
from weakref import WeakKeyDictionary

from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.planning.evidence.section_file import UNUSABLE
from bloomparquet.planning.index.file_positions import FilePositions
from bloomparquet.planning.index.listing import StoredFiles
from bloomparquet.planning.index.lookup import OpenIndex
from bloomparquet.planning.index.parts import Integers, PartKind, PartT
from bloomparquet.storage.files import FileInfo, LocalStorage, ReadCount, Storage
from bloomparquet.storage.forks import clear_in_children, new_lock

log = logging.getLogger("bloomparquet.index")


class IndexParts(Generic[PartT]):
    """The segments of an index as parts."""

    def __init__(
        self, kind: PartKind[PartT], index: OpenIndex, storage: Storage, keys: Keys | None, reads: ReadCount
    ) -> None:
        self.parts: list[PartT] = []
        listings = []
        for file in index.open_segments(reads):
            try:
                part = kind.read_segment(file, storage, index.root, reads)
            except UNUSABLE as error:
                log.warning("%s; the files of this part of the index are read without it", error)
                continue
            assert isinstance(part.files, StoredFiles)
            part.keys, part.indexed = keys, len(part.files)
            self.parts.append(part)
            listings.append(part.files.arrays)
        self._positions = FilePositions(listings, index.root, times_are_rounded=not isinstance(storage, LocalStorage))

    def find(self, files: Sequence[FileInfo]) -> tuple[Integers, Integers]:
        """The part of each file, -1 if none has it, and its number there."""
        return self._positions.find(files)


class _OpenedIndexes:
    """The parts of each index that was opened, apart for each set of keys. Safe to use from several threads."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[OpenIndex, dict[Hashable, IndexParts[Any]]] = WeakKeyDictionary()
        self._lock = new_lock()
        clear_in_children(self)  # parts have locks of their own

    def clear(self) -> None:
        """Drop everything from memory."""
        with self._lock:
            self._known.clear()

    def open(
        self, kind: PartKind[PartT], index: OpenIndex, storage: Storage, keys: Keys | None, reads: ReadCount
    ) -> IndexParts[PartT]:
        with self._lock:
            known = self._known.setdefault(index, {}).get(keys)
        if known is None:
            opened = IndexParts(kind, index, storage, keys, reads)
            with self._lock:
                known = self._known.setdefault(index, {}).setdefault(keys, opened)
        return known


opened_indexes = _OpenedIndexes()
