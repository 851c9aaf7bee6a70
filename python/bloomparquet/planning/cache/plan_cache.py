"""Keeps what plans have read for later plans: parts in the memory of this process, and segments in a directory.

A plan selects its files from the parts in memory, then from segments of its data set, and reads only the footers of the
other files, as a new part. The identity of a file is its :class:`FileInfo`. What is read is compared with the listing
before it is kept, so it is true of that version of the file for good.

A segment has the file format of an index's segments, but holds only what plans read. Its name says which data set it
belongs to, and any may vanish at any time. Planning never writes to the disk; :meth:`PlanCache.persist` does. Disk
errors never fail a plan. Data of encrypted files stays in memory, apart for each set of keys.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.planning.cache.directory import (
    CacheDirectory,
    code_fingerprint,
    open_cache_file,
)
from bloomparquet.planning.cache.listing import Listing, StoredFiles, segment_prefix, storage_digest
from bloomparquet.planning.cache.parts import Kept, PartKind, PartT, ReadFiles, Search, forget_opened, open_index
from bloomparquet.planning.evidence.section_source import DamagedFileError
from bloomparquet.planning.evidence.selection import Selection
from bloomparquet.planning.index.lookup import OpenIndex
from bloomparquet.storage.files import FileInfo, ReadCount, Storage
from bloomparquet.storage.forks import clear_in_children, new_lock
from bloomparquet.storage.staleness import may_be_cached, wait_for_clock

# Bounds of the parts in memory. Those of the last plan are kept in any case.
_MEMORY_BYTES = 512 * 1024 * 1024
_MEMORY_PARTS = 32
_SELECTIONS = 32
_MEASURED_EVERY = 8  # uses of a part: it grows as plans read filters, and all its files are visited to measure it
# How many segments of a data set are searched for files, the last used first.
_SEARCHED_SEGMENTS = 16

log = logging.getLogger("bloomparquet")


@dataclass(frozen=True, eq=False, slots=True)
class _Selected:
    """The `table` of `files`. `scope`: who may use it. `kept`: its parts that are in memory."""

    scope: Hashable
    files: Sequence[FileInfo]
    table: Any
    kept: tuple[Kept[Any], ...]


class PlanCache:
    """A cache of parts of any format, bounded by `memory_bytes` and by their number; those of the last plan stay in any
    case. Safe to use from several threads."""

    def __init__(self, memory_bytes: int = _MEMORY_BYTES) -> None:
        self._memory_bytes = memory_bytes
        self._parts: list[Kept[Any]] = []  # the last used at the end
        self._selections: list[_Selected] = []  # likewise; without an index
        self._with_index: WeakKeyDictionary[OpenIndex, list[_Selected]] = WeakKeyDictionary()  # its files stay open
        self._disk: CacheDirectory | None = None
        self._lock = new_lock()
        self._persisting = new_lock()
        clear_in_children(self)  # parts have locks of their own

    def on_disk(self, directory: str | os.PathLike[str], max_bytes: int) -> PlanCache:
        """A cache that shares this one's memory, and keeps up to `max_bytes` of its segments in `directory`."""
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
        read. Readers with other keys, or with other credentials of a storage, have parts of their own."""
        scope = kind.format, storage.access, keys
        with self._lock:
            selections = self._selections if index is None else self._with_index.setdefault(index, [])
            selected = _find(selections, scope, files)
            if selected is not None:
                self._use(selections, selected)
                table: PartT | Selection = selected.table
                return table
        search, kept = Search[PartT](files), list[Kept[PartT]]()
        if index is not None:
            indexed = open_index(kind, index, storage, keys, reads)
            search.take(indexed.parts, *indexed.positions.find(files))
        with self._lock:
            in_memory = [each for each in reversed(self._parts) if each.scope == scope]
        disk = self._disk if _is_shareable(storage, files, keys) else None
        kept += search.search(in_memory)
        if disk is not None and len(search.missing):
            stored = {path for each in in_memory for path in each.segments}
            for each in search.search(self._segments(kind, scope, disk, storage, files, keys, stored)):
                kept.append(each)
                for path in each.segments:
                    with disk.errors_logged(), suppress(FileNotFoundError):
                        os.utime(path)  # the least recently used segments are removed first
        kept = search.drop_small(kept)
        if len(search.missing) or not files:
            kept += self._read(kind, scope, storage, search, read)
        table = search.table()
        with self._lock:
            self._keep(selections, _Selected(scope, files, table, tuple(kept)), are_all=not len(search.missing))
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
                if kept.is_worth_storing(disk.directory):
                    self._store(disk, kept)
            with disk.errors_logged():
                disk.evict()

    def forget(self, is_read_by: Callable[[Storage], bool]) -> None:
        """Drop what was read through the storages for which `is_read_by`, also from the disk."""
        with self._persisting, self._lock:
            dropped = [each for each in self._parts if is_read_by(each.part.storage)]
            self._parts[:] = [each for each in self._parts if each not in dropped]
            for selections in (self._selections, *self._with_index.values()):
                selections[:] = [each for each in selections if not any(kept in dropped for kept in each.kept)]
            for path in chain.from_iterable(each.segments for each in dropped):
                with suppress(OSError):
                    path.unlink()
        forget_opened()

    def clear(self) -> None:
        """Drop everything from memory."""
        with self._lock:
            self._parts.clear()
            self._selections.clear()
            self._with_index.clear()
        forget_opened()

    def _use(self, selections: list[_Selected], selected: _Selected) -> None:
        """Mark one of `selections` and its parts as the last used ones."""
        selections.remove(selected)
        selections.append(selected)
        self._mark(selected.kept)
        if any(kept.uses % _MEASURED_EVERY == 0 for kept in selected.kept):
            self._evict(selected.kept)

    def _mark(self, used: Sequence[Kept[Any]]) -> None:
        """Mark parts as the last used ones, and as those of the directory of this cache."""
        disk = self._disk
        for kept in used:
            if kept in self._parts:
                self._parts.remove(kept)
            self._parts.append(kept)
            kept.uses += 1
            if disk is not None and disk.directory not in kept.stored and kept.part.is_storable:
                kept.stored[disk.directory] = None

    def _read(
        self,
        kind: PartKind[PartT],
        scope: Hashable,
        storage: Storage,
        search: Search[PartT],
        read: ReadFiles[PartT],
    ) -> list[Kept[PartT]]:
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
        return [Kept(kind, scope, part)] if may_be_kept else []

    def _keep(self, selections: list[_Selected], selected: _Selected, *, are_all: bool) -> None:
        """Keep a selection and its parts. It is not kept if it lacks files, which the next plan must report again, or
        if a part of it may not be kept."""
        self._mark(selected.kept)
        table = selected.table
        parts = table.parts if isinstance(table, Selection) else [table]
        known = {id(kept.part) for kept in selected.kept}
        if are_all and all(part.indexed or id(part) in known for part in parts):
            selections.append(selected)
            del selections[:-_SELECTIONS]
        self._evict(selected.kept)

    def _evict(self, used: Sequence[Kept[Any]]) -> None:
        """Measure the parts that were just used, and drop others, the least recently used first, beyond the bounds."""
        for kept in used:
            kept.bytes = kept.part.cached_bytes
        others, dropped = [kept for kept in self._parts if kept not in used], list[Kept[Any]]()
        while others and (len(self._parts) > _MEMORY_PARTS or self._size() > self._memory_bytes):
            dropped.append(others.pop(0))
            self._parts.remove(dropped[-1])
        for selections in (self._selections, *self._with_index.values()) if dropped else ():
            selections[:] = [each for each in selections if not any(kept in dropped for kept in each.kept)]

    def _size(self) -> int:
        selections = chain(self._selections, *self._with_index.values())
        tables = (each.table for each in selections if isinstance(each.table, Selection))
        return sum(kept.bytes for kept in self._parts) + sum(table.cached_bytes for table in tables)

    def _segments(
        self,
        kind: PartKind[PartT],
        scope: Hashable,
        disk: CacheDirectory,
        storage: Storage,
        files: Sequence[FileInfo],
        keys: Keys | None,
        known: set[Path],
    ) -> Iterator[Kept[PartT]]:
        """The segments of the data set that `files` belong to, except the `known` ones; last used first."""
        paths: list[Path] = []
        with disk.errors_logged():
            paths = disk.latest(segment_prefix(kind.format, storage, files), _SEARCHED_SEGMENTS)
        for path in paths:
            if path in known:
                continue
            with disk.errors_logged(), suppress(FileNotFoundError):
                try:
                    part = kind.read_segment(open_cache_file(path), storage, "", ReadCount())
                    assert isinstance(part.files, StoredFiles)
                    if not np.array_equal(part.files.arrays["storage"], storage_digest(storage)):
                        raise DamagedFileError(f"{path}: the cache file belongs to a different storage")
                except DamagedFileError as error:
                    log.info("%s; it will be replaced", error)
                    continue
                part.keys = keys
                yield Kept(kind, scope, part, {disk.directory: part.read_amount}, {path})

    def _store(self, disk: CacheDirectory, kept: Kept[Any]) -> None:
        part = kept.part
        amount = part.read_amount
        listing = Listing(part.storage, part.files)
        with disk.errors_logged():
            path = disk.path(segment_prefix(kept.kind.format, part.storage, part.files) + listing.digest)
            if listing.storable and disk.write(path, kept.kind.to_sections(part, listing)):
                kept.segments.add(path)
        # After a failure too: each amount is tried once.
        kept.stored[disk.directory] = amount


def _find(selections: Sequence[_Selected], scope: Hashable, files: Sequence[FileInfo]) -> _Selected | None:
    """The last selection of these files."""
    mine = [each for each in reversed(selections) if each.scope == scope]
    same = next((each for each in mine if each.files is files), None)  # found at once, however many files
    return same or next((each for each in mine if each.files == files), None)


def _is_shareable(storage: Storage, files: Sequence[FileInfo], keys: Keys | None) -> bool:
    """Whether a segment may serve other processes: the files have the same names there, and are not encrypted."""
    return bool(files) and isinstance(storage.key, str) and (keys is None or keys.allow_plaintext_files)


process_cache = PlanCache()
"""The cache of plans that are given no other."""
