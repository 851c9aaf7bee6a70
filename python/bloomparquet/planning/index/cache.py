"""Keeps what plans have read for later plans: parts in the memory of this process, and segments in a directory.

A part has the files that were read together, or those of a segment, with the columns and filters that queries have
loaded in it. A plan selects its files from the parts in memory, then from segments of its data set, and reads only the
footers of the other files, as a new part. The identity of a file is its :class:`FileInfo`, so a replaced file is read
again. What is read is compared with the listing before it is kept, so it is true of that version of the file for good.

A segment has the file format of an index's segments, but holds only what plans read, and no tiles. Each is complete in
itself, and its name says which data set it belongs to. So the directory needs no manifest, and any of its files may
vanish at any time. Planning never writes to the disk; :meth:`PlanCache.persist` does. Disk errors never fail a plan:
the cache then works as if it had no directory. Data of encrypted files stays in memory, apart for each set of keys.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.planning.evidence.cache_directory import (
    CacheDirectory,
    code_fingerprint,
    errors_logged,
    open_cache_file,
)
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.evidence.interface import ReadAmount
from bloomparquet.planning.evidence.section_file import UNUSABLE, Section, SectionFile
from bloomparquet.planning.evidence.section_source import DamagedFileError
from bloomparquet.planning.evidence.selection import Part, Selection
from bloomparquet.planning.index.file_positions import FilePositions
from bloomparquet.planning.index.listing import Listing, StoredFiles, segment_prefix, storage_digest
from bloomparquet.planning.index.lookup import OpenIndex
from bloomparquet.storage.files import FileInfo, LocalStorage, ReadCount, Storage
from bloomparquet.storage.forks import clear_in_children, lazy_property, new_lock
from bloomparquet.storage.staleness import may_be_cached, wait_for_clock

# Bounds of the parts in memory. The last used one is kept in any case.
_MEMORY_BYTES = 512 * 1024 * 1024
_MEMORY_PARTS = 32
_SELECTIONS = 32
_MEASURED_EVERY = 8  # uses of a part: it grows as plans read filters, and all its files are visited to measure it
# A plan takes its files from at most so many parts; of more, it reads the files of the smaller ones again, as one part.
_MOST_PARTS, _LARGEST_PARTS = 16, 8
# How many segments of a data set are searched for files, the last used first.
_SEARCHED_SEGMENTS = 16
# A segment is written again after filters were read if its part is smaller than this, or if the filters are at least
# this share of it.
_ALWAYS_REWRITTEN_BYTES = 1024 * 1024
_REWRITE_GROWTH = 1 / 8

log = logging.getLogger("bloomparquet")
index_log = logging.getLogger("bloomparquet.index")

Integers = NDArray[np.int64]


class KeptPart(Part, Protocol):
    """A part that the cache can keep. `cached_bytes`: its approximate size in memory. `is_storable`: whether it may be
    written to the disk."""

    keys: Keys | None
    files: Sequence[FileInfo]
    indexed: int

    @property
    def cached_bytes(self) -> int: ...
    @property
    def is_storable(self) -> bool: ...
    @property
    def read_amount(self) -> ReadAmount: ...


PartT = TypeVar("PartT", bound=KeptPart)
ReadFiles = Callable[[Sequence[FileInfo]], PartT]
"""Reads files as a part. It may have fewer files: damaged ones may be left out."""


@dataclass(frozen=True)
class PartKind(Generic[PartT]):
    """The parts of one format, and how they are stored as sections of a segment.

    ``read_segment(file, storage, root, reads)`` gives the part in a segment about files below `root`. Raises the errors
    of UNUSABLE.
    """

    format: FileFormat
    read_segment: Callable[[SectionFile, Storage, str, ReadCount], PartT]
    to_sections: Callable[[PartT, Listing], dict[str, Section]]


@dataclass(eq=False)
class _Kept(Generic[PartT]):
    """A part in memory. `stored`: for the directory of each cache that uses it, how much of it a segment there holds,
    None for nothing. `segments`: these segments. `uses`: how often it was used; `bytes`: its size when it was last
    measured."""

    kind: PartKind[PartT]
    scope: Hashable
    part: PartT
    stored: dict[Path, ReadAmount | None] = field(default_factory=dict)
    segments: set[Path] = field(default_factory=set)
    uses: int = 0
    bytes: int = 0

    def find(self, files: Sequence[FileInfo]) -> Integers:
        """The number of each file in the part, -1 if it is not there."""
        if isinstance(self.part.files, StoredFiles):
            segment, position = FilePositions([self.part.files.arrays], "", times_are_rounded=False).find(files)
            return np.where(segment < 0, -1, position)
        return np.array([self._numbers.get(file, -1) for file in files], np.int64)

    @lazy_property
    def _numbers(self) -> dict[FileInfo, int]:
        return {file: i for i, file in enumerate(self.part.files)}


class _IndexParts(Generic[PartT]):
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
                index_log.warning("%s; the files of this part of the index are read without it", error)
                continue
            assert isinstance(part.files, StoredFiles)
            part.keys, part.indexed = keys, len(part.files)
            self.parts.append(part)
            listings.append(part.files.arrays)
        self._positions = FilePositions(listings, index.root, times_are_rounded=not isinstance(storage, LocalStorage))

    def find(self, files: Sequence[FileInfo]) -> tuple[Integers, Integers]:
        """The part of each file, -1 if none has it, and its number there."""
        return self._positions.find(files)


@dataclass(frozen=True, eq=False, slots=True)
class _Selected:
    """The `table` of `files`. `scope`: who may use it. `index`: the one that it was made with. `kept`: its parts that
    are in memory."""

    scope: Hashable
    index: OpenIndex | None
    files: Sequence[FileInfo]
    table: Any
    kept: tuple[_Kept[Any], ...]


class _Search(Generic[PartT]):
    """A search for `files` in parts: file i is file ``source[i]`` of ``parts[part[i]]``; if ``part[i]`` is -1, no part
    has it yet."""

    def __init__(self, files: Sequence[FileInfo]) -> None:
        self.files = files
        self.parts: list[PartT] = []
        self.part, self.source = np.full(len(files), -1, np.int64), np.zeros(len(files), np.int64)

    @property
    def missing(self) -> Integers:
        return np.flatnonzero(self.part < 0)

    def missing_files(self) -> Sequence[FileInfo]:
        missing = self.missing
        return self.files if len(missing) == len(self.files) else [self.files[i] for i in missing.tolist()]

    def take(self, parts: Sequence[PartT], part: Integers, source: Integers) -> bool:
        """Missing file i is file ``source[i]`` of ``parts[part[i]]``, unless that is -1. Returns whether any is
        there."""
        (found,) = np.nonzero(part >= 0)
        files = self.missing[found]
        self.part[files], self.source[files] = part[found] + len(self.parts), source[found]
        self.parts += parts
        return len(found) > 0

    def search(self, sources: Iterable[_Kept[PartT]]) -> list[_Kept[PartT]]:
        """Look into `sources` until all files are found. Returns those that have some."""
        used = []
        for each in sources if len(self.missing) else ():
            position = each.find(self.missing_files())
            if self.take([each.part], np.where(position < 0, -1, 0), position):
                used.append(each)
                if not len(self.missing):
                    break
        return used

    def table(self) -> PartT | Selection:
        """The files that were found as one table: of several parts, a selection."""
        (found,) = np.nonzero(self.part >= 0)
        used, part = np.unique(self.part[found], return_inverse=True)
        parts, source = [self.parts[i] for i in used.tolist()] or self.parts[-1:], self.source[found]
        files = self.files if len(found) == len(self.files) else [self.files[i] for i in found.tolist()]
        if len(parts) == 1 and not parts[0].indexed and np.array_equal(source, np.arange(len(parts[0].files))):
            if isinstance(parts[0].files, StoredFiles):
                parts[0].files = files  # equal ones, which need not be made again from the segment's arrays
            return parts[0]
        return Selection(files, parts, part, source)


class PlanCache:
    """A cache of parts of any format. Safe to use from several threads.

    It is bounded by `memory_bytes` and by the number of parts. The last used part stays, whatever its size.
    """

    def __init__(self, memory_bytes: int = _MEMORY_BYTES) -> None:
        self._memory_bytes = memory_bytes
        self._parts: list[_Kept[Any]] = []  # the last used at the end
        self._selections: list[_Selected] = []  # likewise
        self._indexes: WeakKeyDictionary[OpenIndex, dict[Hashable, _IndexParts[Any]]] = WeakKeyDictionary()
        self._disk: CacheDirectory | None = None
        self._warned: set[Path] = set()
        self._lock = new_lock()
        self._persisting = new_lock()
        clear_in_children(self)  # parts have locks of their own

    def on_disk(self, directory: str | os.PathLike[str], max_bytes: int) -> PlanCache:
        """A cache that shares this one's memory, and keeps up to `max_bytes` of segments in `directory`.

        Only plans that use the new cache are stored there. With 0 as `max_bytes`, nothing is.
        """
        cache = copy(self)
        usable = max_bytes > 0 and code_fingerprint() is not None
        cache._disk = CacheDirectory(Path(directory), max_bytes) if usable else None
        return cache

    def select(
        self,
        kind: PartKind[PartT],
        storage: Storage,
        files: Sequence[FileInfo],
        keys: Keys | None,
        reads: ReadCount,
        read: ReadFiles[PartT],
        index: OpenIndex | None = None,
    ) -> PartT | Selection:
        """The table of `files`: of those in `index` from there, of those that are kept, and of the others, which are
        read.

        Data that was read with keys is given only to readers with equal keys. A part reads through its own storage, so
        storages with different credentials have parts of their own; they share what is on disk.
        """
        scope = kind.format, storage.access, keys
        with self._lock:
            selected = self._find(scope, index, files)
            if selected is not None:
                self._use(selected)
                table: PartT | Selection = selected.table
                return table
        search, kept = _Search[PartT](files), list[_Kept[PartT]]()
        if index is not None:
            indexed = self._index_parts(kind, index, storage, keys, reads)
            search.take(indexed.parts, *indexed.find(files))
        with self._lock:
            in_memory = [each for each in reversed(self._parts) if each.scope == scope]
        disk = self._disk if _is_shareable(storage, files, keys) else None
        kept += search.search(in_memory)
        if disk is not None and len(search.missing):
            stored = {path for each in in_memory for path in each.segments}
            for each in search.search(self._segments(kind, scope, disk, storage, files, keys, stored)):
                kept.append(each)
                for path in each.segments:
                    with errors_logged(disk, self._warned), suppress(FileNotFoundError):
                        os.utime(path)  # the least recently used segments are removed first
        kept = _drop_small_parts(search, kept)
        if len(search.missing) or not files:
            kept += self._read(kind, scope, storage, search, read)
        table = search.table()
        with self._lock:
            self._keep(_Selected(scope, index, files, table, tuple(kept)), are_all=not len(search.missing))
        return table

    def persist(self) -> None:
        """Write what the plans of this cache have read to its directory, and keep that within its bound. Disk errors
        are logged, not raised."""
        disk = self._disk
        if disk is None:
            return
        with self._persisting:
            with self._lock:
                parts = [each for each in self._parts if disk.directory in each.stored]
            for kept in parts:
                if _is_worth_storing(kept, disk.directory):
                    self._store(disk, kept)
            with errors_logged(disk, self._warned):
                disk.evict()

    def clear(self) -> None:
        """Drop everything from memory."""
        with self._lock:
            self._parts.clear()
            self._selections.clear()
            self._indexes.clear()

    def _find(self, scope: Hashable, index: OpenIndex | None, files: Sequence[FileInfo]) -> _Selected | None:
        """The last selection of these files."""
        mine = [each for each in reversed(self._selections) if each.index is index and each.scope == scope]
        same = next((each for each in mine if each.files is files), None)  # found at once, however many files
        return same or next((each for each in mine if each.files == files), None)

    def _use(self, selected: _Selected) -> None:
        """Mark a selection and its parts as the last used ones."""
        self._selections.remove(selected)
        self._selections.append(selected)
        is_measured = False
        for kept in selected.kept:
            self._parts.remove(kept)
            self._parts.append(kept)
            self._mark(kept)
            is_measured |= kept.uses % _MEASURED_EVERY == 0
        if is_measured:
            self._evict(selected.kept)

    def _mark(self, kept: _Kept[Any]) -> None:
        kept.uses += 1
        if self._disk is not None and kept.part.is_storable:
            kept.stored.setdefault(self._disk.directory, None)

    def _read(
        self,
        kind: PartKind[PartT],
        scope: Hashable,
        storage: Storage,
        search: _Search[PartT],
        read: ReadFiles[PartT],
    ) -> list[_Kept[PartT]]:
        """Read the missing files as a part. Returns it if it may be kept."""
        missing = search.missing_files()
        wait_for_clock(storage, missing)
        part = read(missing)
        if len(part.files) == len(missing):  # the usual case, which needs no dictionary
            source = np.arange(len(missing))
        else:
            numbers = {file: i for i, file in enumerate(part.files)}
            source = np.array([numbers.get(file, -1) for file in missing], np.int64)
        search.take([part], np.where(source < 0, -1, 0), source)
        may_be_kept = len(part.files) > 0 and all(map(may_be_cached, part.files))
        return [_Kept(kind, scope, part)] if may_be_kept else []

    def _keep(self, selected: _Selected, *, are_all: bool) -> None:
        """Keep a selection and its parts. It is not kept if it lacks files, which the next plan must report again, or
        if a part of it may not be kept."""
        for kept in selected.kept:
            if kept in self._parts:
                self._parts.remove(kept)
            self._parts.append(kept)
            self._mark(kept)
        table = selected.table
        parts = table.parts if isinstance(table, Selection) else [table]
        known = {id(kept.part) for kept in selected.kept}
        if are_all and all(part.indexed or id(part) in known for part in parts):
            # An index that was replaced is not used again.
            place = selected.index and selected.index.directory
            self._selections[:] = [
                each
                for each in self._selections
                if each.index in (None, selected.index) or each.index.directory != place
            ][1 - _SELECTIONS :]
            self._selections.append(selected)
        self._evict(selected.kept)

    def _evict(self, used: Sequence[_Kept[Any]]) -> None:
        """Measure the parts that were just used, and drop others, the least recently used first, beyond the bounds."""
        for kept in used:
            kept.bytes = kept.part.cached_bytes
        dropped = []
        while len(self._parts) > 1 and (len(self._parts) > _MEMORY_PARTS or self._size() > self._memory_bytes):
            dropped.append(self._parts.pop(0))
        if dropped:
            self._selections[:] = [each for each in self._selections if not any(kept in dropped for kept in each.kept)]

    def _size(self) -> int:
        selections = (each.table for each in self._selections if isinstance(each.table, Selection))
        return sum(kept.bytes for kept in self._parts) + sum(table.cached_bytes for table in selections)

    def _index_parts(
        self, kind: PartKind[PartT], index: OpenIndex, storage: Storage, keys: Keys | None, reads: ReadCount
    ) -> _IndexParts[PartT]:
        with self._lock:
            known = self._indexes.setdefault(index, {}).get(keys)
        if known is None:
            opened = _IndexParts(kind, index, storage, keys, reads)
            with self._lock:
                known = self._indexes.setdefault(index, {}).setdefault(keys, opened)
        return known

    def _segments(
        self,
        kind: PartKind[PartT],
        scope: Hashable,
        disk: CacheDirectory,
        storage: Storage,
        files: Sequence[FileInfo],
        keys: Keys | None,
        known: set[Path],
    ) -> Iterator[_Kept[PartT]]:
        """The segments of the data set that `files` belong to, except the `known` ones; last used first."""
        paths: list[Path] = []
        with errors_logged(disk, self._warned):
            paths = disk.latest(segment_prefix(kind.format, storage, files), _SEARCHED_SEGMENTS)
        for path in paths:
            if path in known:
                continue
            with errors_logged(disk, self._warned), suppress(FileNotFoundError):
                try:
                    part = kind.read_segment(open_cache_file(path), storage, "", ReadCount())
                    assert isinstance(part.files, StoredFiles)
                    if not np.array_equal(part.files.arrays["storage"], storage_digest(storage)):
                        raise DamagedFileError(f"{path}: the cache file belongs to a different storage")
                except DamagedFileError as error:
                    log.info("%s; it will be replaced", error)
                    continue
                part.keys = keys
                yield _Kept(kind, scope, part, {disk.directory: part.read_amount}, {path})

    def _store(self, disk: CacheDirectory, kept: _Kept[Any]) -> None:
        part = kept.part
        amount = part.read_amount
        listing = Listing(part.storage, part.files)
        with errors_logged(disk, self._warned):
            path = disk.path(segment_prefix(kept.kind.format, part.storage, part.files) + listing.digest)
            if listing.storable and disk.write(path, kept.kind.to_sections(part, listing)):
                kept.segments.add(path)
        # After a failure too: each amount is tried once.
        kept.stored[disk.directory] = amount


def _drop_small_parts(search: _Search[PartT], kept: Sequence[_Kept[PartT]]) -> list[_Kept[PartT]]:
    """The kept parts to use. If they are too many, the files of the smaller ones are missing again: they will be read
    as one part."""
    if len(kept) <= _MOST_PARTS:
        return list(kept)
    counts = np.bincount(search.part[search.part >= 0], minlength=len(search.parts))
    numbers = {id(part): i for i, part in enumerate(search.parts)}
    by_size = sorted(kept, key=lambda each: -int(counts[numbers[id(each.part)]]))
    small = [numbers[id(each.part)] for each in by_size[_LARGEST_PARTS:]]
    search.part[np.isin(search.part, small)] = -1
    return by_size[:_LARGEST_PARTS]


def _is_shareable(storage: Storage, files: Sequence[FileInfo], keys: Keys | None) -> bool:
    """Whether a segment may serve other processes: the files have the same names there, and are not encrypted."""
    return bool(files) and isinstance(storage.key, str) and (keys is None or keys.allow_plaintext_files)


def _is_worth_storing(kept: _Kept[Any], directory: Path) -> bool:
    """Whether to write the segment of a part. A large one is not written again for a few filters, which are cheaper to
    read again."""
    stored, now = kept.stored[directory], kept.part.read_amount
    if stored is None:
        return True
    gained = now.evidence - stored.evidence
    is_much: bool = kept.part.cached_bytes < _ALWAYS_REWRITTEN_BYTES or gained >= _REWRITE_GROWTH * now.known
    return now.columns > stored.columns or (gained > 0 and is_much)


process_cache = PlanCache()
"""The cache of plans that are given no other."""
