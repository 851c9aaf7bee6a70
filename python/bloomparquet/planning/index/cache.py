"""Caches what plans have read for later plans: as tables in the memory of this process, and segments in a directory.

A table has the files of one query, with the columns and filters that queries have loaded in it. A new table takes what
it can from the tables in memory, then from segments of its data set, and reads only the footers of the other files. The
identity of a file is its :class:`FileInfo`, so a replaced file is read again.

A segment has the file format of an index's segments (:mod:`.segments`), but holds only what plans read, and no tiles.
Each is complete in itself, and its name says which data set it belongs to. So the directory needs no manifest, and any
of its files may vanish at any time. Planning never writes to the disk; :meth:`PlanCache.persist` does. Disk errors
never fail a plan: the cache then works as if it had no directory. Data of encrypted files stays in memory, apart for
each set of keys.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

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
from bloomparquet.planning.evidence.section_file import Section
from bloomparquet.planning.evidence.section_source import DamagedFileError
from bloomparquet.planning.index.file_positions import FilePositions
from bloomparquet.planning.index.listing import Listing, StoredFiles, segment_prefix, storage_digest
from bloomparquet.planning.index.segments import IndexedTable, Merge, OpenRest, ReadSegment, merge_found
from bloomparquet.storage.files import FileInfo, ReadCount, Storage
from bloomparquet.storage.forks import clear_in_children, lazy_property, new_lock
from bloomparquet.storage.staleness import changed_files, may_be_cached, wait_for_clock

# Bounds of the tables in memory. The last used table is kept in any case.
_MEMORY_BYTES = 512 * 1024 * 1024
_MEMORY_TABLES = 32
_MEASURED_EVERY = 8  # uses of a table: it grows as plans read filters, and all its files are visited to measure it
# How many segments of a data set are searched for files, the last used first.
_SEARCHED_SEGMENTS = 16
# A new segment replaces an old one if it has at least this share of its files.
_SUPERSEDED_SHARE = 7 / 8
# A segment is written again after filters were read if its table is smaller than this, or if the filters are at least
# this share of it.
_ALWAYS_REWRITTEN_BYTES = 1024 * 1024
_REWRITE_GROWTH = 1 / 8

log = logging.getLogger("bloomparquet")


class CachedTable(IndexedTable, Protocol):
    """A table that can be cached. `cached_bytes`: its approximate size in memory. `is_storable`: whether it may be
    written to the disk."""

    storage: Storage
    keys: Keys | None

    @property
    def cached_bytes(self) -> int: ...
    @property
    def is_storable(self) -> bool: ...
    @property
    def read_amount(self) -> ReadAmount: ...


TableT = TypeVar("TableT", bound=CachedTable)


@dataclass(frozen=True)
class TableKind(Generic[TableT]):
    """The tables of one format: how they are merged, and stored as sections of a segment."""

    format: FileFormat
    merge: Merge[TableT]
    read_segment: ReadSegment[TableT]
    to_sections: Callable[[TableT, Listing], dict[str, Section]]


@dataclass
class _Cached(Generic[TableT]):
    """A table in memory. `stored`: for the directory of each cache that uses it, how much of it a segment there holds,
    None for nothing. `segments`: the segments that hold it. `superseded`: the segments to remove when it is stored.
    `uses`: how often it was used; `bytes`: its size when it was last measured."""

    kind: TableKind[TableT]
    table: TableT
    stored: dict[Path, ReadAmount | None] = field(default_factory=dict)
    segments: tuple[Path, ...] = ()
    superseded: tuple[Path, ...] = ()
    uses: int = 0
    bytes: int = 0

    def find(self, files: Sequence[FileInfo]) -> NDArray[np.int64]:
        """The index of each file in the table, -1 if it is not there."""
        if isinstance(self.table.files, StoredFiles):
            segment, position = FilePositions([self.table.files.arrays], "", times_are_rounded=False).find(files)
            return np.where(segment < 0, -1, position)
        return np.array([self._index.get(file, -1) for file in files], np.int64)

    @lazy_property
    def _index(self) -> dict[FileInfo, int]:
        return {file: i for i, file in enumerate(self.table.files)}


class _Search(Generic[TableT]):
    """A search for `files` in cached tables.

    File i is file ``position[i]`` of the table of ``sources[source[i]]``; if ``source[i]`` is -1, no table has it.
    `missing`: the indexes of the files that may still be found.
    """

    def __init__(self, files: Sequence[FileInfo]) -> None:
        self.files = files
        self.sources: list[_Cached[TableT]] = []
        self.source, self.position = np.full(len(files), -1, np.int64), np.zeros(len(files), np.int64)
        # A file without a modification time could be replaced by one of the same size without notice.
        self.missing = np.flatnonzero(list(map(attrgetter("mtime_ns"), files)))

    def search(self, sources: Iterable[_Cached[TableT]]) -> list[_Cached[TableT]]:
        """Look into `sources` until all files are found. Returns those that have some."""
        first = len(self.sources)
        for each in sources if len(self.missing) else ():
            is_new = len(self.missing) == len(self.files)
            position = each.find(self.files if is_new else [self.files[i] for i in self.missing.tolist()])
            is_found = position >= 0
            if is_found.any():
                files = self.missing[is_found]
                self.source[files], self.position[files] = len(self.sources), position[is_found]
                self.sources.append(each)
                self.missing = self.missing[~is_found]
                if not len(self.missing):
                    break
        return self.sources[first:]

    def superseded(self) -> tuple[Path, ...]:
        """The segments of sources nearly all of whose files were found."""
        shares = np.bincount(self.source[self.source >= 0], minlength=len(self.sources)).tolist()
        pairs = zip(self.sources, shares, strict=True)
        most = [each for each, count in pairs if count >= _SUPERSEDED_SHARE * len(each.table.files)]
        return tuple(path for each in most for path in each.segments)


_Key = tuple[FileFormat, Hashable, Keys | None, tuple[FileInfo, ...]]


class PlanCache:
    """A cache of tables of any format, by their files. Safe to use from several threads.

    It is bounded by `memory_bytes` and by the number of tables. The table of the last plan stays, whatever its size.
    """

    def __init__(self, memory_bytes: int = _MEMORY_BYTES) -> None:
        self._memory_bytes = memory_bytes
        self._tables: dict[_Key, _Cached[Any]] = {}  # the last used at the end
        self._disk: CacheDirectory | None = None
        self._warned: set[Path] = set()
        self._lock = new_lock()
        self._persisting = new_lock()
        clear_in_children(self)  # tables have locks of their own

    def on_disk(self, directory: str | os.PathLike[str], max_bytes: int) -> PlanCache:
        """A cache that shares this one's memory, and keeps up to `max_bytes` of segments in `directory`.

        Only plans that use the new cache are stored there. With 0 as `max_bytes`, nothing is.
        """
        cache = copy(self)
        usable = max_bytes > 0 and code_fingerprint() is not None
        cache._disk = CacheDirectory(Path(directory), max_bytes) if usable else None
        return cache

    def open(
        self,
        kind: TableKind[TableT],
        storage: Storage,
        files: Sequence[FileInfo],
        keys: Keys | None,
        read: OpenRest[TableT],
    ) -> TableT:
        """The table of `files`. ``read(some)`` reads the files that are not cached; it may leave some out.

        Data that was read with keys is given only to readers with equal keys. A table reads through its own storage, so
        storages with different credentials have tables of their own; they share what is on disk.
        """
        scope = kind.format, storage.access, keys
        key = (*scope, files if isinstance(files, tuple) else tuple(files))
        with self._lock:
            cached = self._tables.get(key)
            if cached is not None:
                self._tables[key] = self._tables.pop(key)
                cached.uses += 1
                if cached.uses % _MEASURED_EVERY == 0:
                    self._evict()
                if self._disk is not None:
                    cached.stored.setdefault(self._disk.directory, None)
                table: TableT = cached.table
                return table
            in_memory = [each for of, each in reversed(self._tables.items()) if of[:3] == scope]
        search = _Search[TableT](files)
        search.search(in_memory)
        disk = self._disk
        if disk is not None and not _is_shareable(storage, files, keys):
            disk = None
        if disk is not None and len(search.missing):
            stored = {path for each in in_memory for path in each.segments}
            for each in search.search(self._segments(kind, disk, storage, files, keys, stored)):
                with errors_logged(disk, self._warned), suppress(FileNotFoundError):
                    os.utime(each.segments[0])  # the least recently used segments are removed first
        return self._merge(kind, storage, keys, search, disk, read)

    def persist(self) -> None:
        """Write what the plans of this cache have read to its directory, and keep that within its bound. Disk errors
        are logged, not raised."""
        disk = self._disk
        if disk is None:
            return
        with self._persisting:
            with self._lock:
                tables = [each for each in self._tables.items() if disk.directory in each[1].stored]
            for key, cached in tables:
                if _is_worth_storing(cached, disk.directory):
                    self._store(disk, key, cached)
            with errors_logged(disk, self._warned):
                disk.evict()

    def clear(self) -> None:
        """Drop everything from memory."""
        with self._lock:
            self._tables.clear()

    def _merge(
        self,
        kind: TableKind[TableT],
        storage: Storage,
        keys: Keys | None,
        search: _Search[TableT],
        disk: CacheDirectory | None,
        read: OpenRest[TableT],
    ) -> TableT:
        """The table of all files: those that were found, and the others, which are read. Caches what may be cached."""
        files = search.files
        unread = [files[i] for i in np.flatnonzero(search.source < 0).tolist()]
        wait_for_clock(storage, unread)
        others = read(unread) if unread or not files else None
        tables = [each.table for each in search.sources]

        def merge(of: NDArray[np.int64]) -> TableT:
            some = files if len(of) == len(files) else [files[i] for i in of.tolist()]
            return merge_found(tables, some, search.source[of], search.position[of], others, kind.merge)

        table = to_cache = merge(np.arange(len(files)))
        is_new = others is not None and len(others.files) > 0
        if others is not None and not all(map(may_be_cached, others.files)):
            to_cache = merge(np.flatnonzero(list(map(may_be_cached, files))))
            is_new = any(map(may_be_cached, others.files))
        if not to_cache.files:
            return table
        cached = next((each for each in search.sources if each.table is to_cache), None) or _Cached(kind, to_cache)
        if disk is not None and disk.directory not in cached.stored:
            are_stored = all(disk.directory in each.stored and each.table.is_storable for each in search.sources)
            # A table of parts that are all stored need not be stored again.
            cached.stored[disk.directory] = to_cache.read_amount if are_stored and not is_new else None
            cached.superseded = search.superseded() if is_new else ()
        same = files if len(to_cache.files) == len(files) and isinstance(files, tuple) else tuple(to_cache.files)
        self._remember((kind.format, storage.access, keys, same), cached)
        return table

    def _remember(self, key: _Key, cached: _Cached[Any]) -> None:
        with self._lock:
            self._tables.pop(key, None)
            self._tables[key] = cached
            self._evict()

    def _evict(self) -> None:
        """Measure the last used table, and drop others, the least recently used first, beyond the bounds."""
        last = next(reversed(self._tables.values()))
        last.bytes = last.table.cached_bytes
        while len(self._tables) > 1 and (len(self._tables) > _MEMORY_TABLES or self._size() > self._memory_bytes):
            del self._tables[next(iter(self._tables))]

    def _size(self) -> int:
        return sum(cached.bytes for cached in self._tables.values())

    def _segments(
        self,
        kind: TableKind[TableT],
        disk: CacheDirectory,
        storage: Storage,
        files: Sequence[FileInfo],
        keys: Keys | None,
        known: set[Path],
    ) -> Iterator[_Cached[TableT]]:
        """The segments of the data set that `files` belong to, except the `known` ones; last used first."""
        paths: list[Path] = []
        with errors_logged(disk, self._warned):
            paths = disk.latest(segment_prefix(kind.format, storage, files), _SEARCHED_SEGMENTS)
        for path in paths:
            if path in known:
                continue
            with errors_logged(disk, self._warned), suppress(FileNotFoundError):
                try:
                    table = kind.read_segment(open_cache_file(path), storage, "", ReadCount())
                    assert isinstance(table.files, StoredFiles)
                    if not np.array_equal(table.files.arrays["storage"], storage_digest(storage)):
                        raise DamagedFileError(f"{path}: the cache file belongs to a different storage")
                except DamagedFileError as error:
                    log.info("%s; it will be replaced", error)
                    continue
                table.keys = keys
                yield _Cached(kind, table, {disk.directory: table.read_amount}, (path,))

    def _store(self, disk: CacheDirectory, key: _Key, cached: _Cached[Any]) -> None:
        table = cached.table
        if not all(map(may_be_cached, table.files)) or any(changed_files(table.storage, table.files)):
            # The data may be of another file than the listed one.
            with self._lock:
                self._tables.pop(key, None)
            return
        amount = table.read_amount
        listing = Listing(table.storage, table.files)
        with errors_logged(disk, self._warned):
            prefix = segment_prefix(cached.kind.format, table.storage, table.files)
            path = disk.path(prefix + listing.digest)
            if listing.storable and disk.write(path, cached.kind.to_sections(table, listing)):
                for other in (*cached.segments, *cached.superseded):
                    if other != path and other.parent == disk.directory:
                        disk.remove(other)
                cached.segments, cached.superseded = (path,), ()
        # After a failure too: each amount is tried once.
        cached.stored[disk.directory] = amount


def _is_shareable(storage: Storage, files: Sequence[FileInfo], keys: Keys | None) -> bool:
    """Whether a segment may serve other processes: the files have the same names there, and are not encrypted."""
    return bool(files) and isinstance(storage.key, str) and (keys is None or keys.allow_plaintext_files)


def _is_worth_storing(cached: _Cached[Any], directory: Path) -> bool:
    """Whether to write the segment of a table. A large one is not written again for a few filters, which are cheaper to
    read again."""
    stored, table = cached.stored[directory], cached.table
    if not table.is_storable:
        return False
    if stored is None:
        return True
    now: ReadAmount = table.read_amount
    gained = now.evidence - stored.evidence
    is_much = table.cached_bytes < _ALWAYS_REWRITTEN_BYTES or gained >= _REWRITE_GROWTH * now.known
    return now.columns > stored.columns or (gained > 0 and is_much)


process_cache = PlanCache()
"""The cache of plans that are given no other."""
