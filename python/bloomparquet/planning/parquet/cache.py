"""The footer cache: footers of unchanged files are not read and parsed again, in this process or in the next one.

It keeps whole :class:`RowGroups`, with the column arrays and filter headers that queries have made in them, one for
each set of files of the last queries: in memory and, for a cache of :meth:`FooterCache.on_disk`, in a directory. The
identity of a file is its :class:`FileInfo`, so a replaced file is read again. If only some files of a set are cached,
only the others are read.

Planning never writes to the disk; :meth:`FooterCache.persist` does. Disk errors never fail a plan: the cache then works
as if it had no directory. What was read of encrypted files stays in memory, apart for each set of keys.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bloomparquet.errors import BloomParquetError
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.parquet.metadata.footer import read_footers
from bloomparquet.planning.evidence.cache_file import CacheDirectory, code_fingerprint, errors_logged, open_cache_file
from bloomparquet.planning.evidence.section_file import DamagedFileError
from bloomparquet.planning.index.listing import Listing
from bloomparquet.planning.parquet.merge import merge
from bloomparquet.planning.parquet.row_groups import CachedAmount, RowGroups
from bloomparquet.planning.parquet.serialized import read_table, to_sections
from bloomparquet.storage.files import FileInfo, ReadCount, Storage
from bloomparquet.storage.staleness import are_unchanged

# Bounds of the tables in memory. The last used table is kept in any case.
_MEMORY_BYTES = 512 * 1024 * 1024
_MEMORY_TABLES = 16
# How many cache files of the same data set, but of other sets of files, are searched for footers.
_SEARCHED_ENTRIES = 4
# A new cache file replaces an old one if it has at least this share of the old one's files.
_SUPERSEDED_SHARE = 7 / 8
# A cache file is rewritten after filters were read if its table is smaller than this, or if the filters grew by at
# least this share.
_ALWAYS_REWRITTEN_BYTES = 1024 * 1024
_REWRITE_GROWTH = 1 / 8

log = logging.getLogger("bloomparquet")

_Key = tuple[Hashable, Keys | None, tuple[FileInfo, ...]]


@dataclass(slots=True)
class _Cached:
    """A table, and by directory of the caches that use it, the revision that is stored there (None: none yet).

    `entries`: its cache files. `superseded`: cache files of other tables that its own one makes superfluous.
    """

    table: RowGroups
    stored: dict[Path, CachedAmount | None] = field(default_factory=dict)
    entries: tuple[Path, ...] = ()
    superseded: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class _Request:
    """The files of one plan, and the keys that decrypt them. `disk` is where they may be stored, None for nowhere;
    `listing` then tells which cache files are theirs."""

    storage: Storage
    files: Sequence[FileInfo]
    keys: Keys | None
    disk: CacheDirectory | None
    listing: Listing | None

    @classmethod
    def of(
        cls, storage: Storage, files: Sequence[FileInfo], keys: Keys | None, disk: CacheDirectory | None
    ) -> _Request:
        only_plaintext = keys is None or keys.allow_plaintext_files  # as cache files hold plaintext files only
        listing = Listing(storage, files) if disk is not None and files and only_plaintext else None
        if listing is None or not listing.storable:
            disk = listing = None
        return cls(storage, files, keys, disk, listing)


class FooterCache:
    """Tables of row groups by their files. Safe to use from several threads; bounded in memory."""

    def __init__(self, cached_bytes: int = _MEMORY_BYTES) -> None:
        self._cached_bytes = cached_bytes
        self._tables: OrderedDict[_Key, _Cached] = OrderedDict()
        self._disk: CacheDirectory | None = None
        self._warned: set[Path] = set()
        self._lock = threading.Lock()
        self._persisting = threading.Lock()

    def on_disk(self, directory: str | os.PathLike[str], max_bytes: int) -> FooterCache:
        """A cache that shares this one's memory, and keeps up to `max_bytes` of cache files in `directory`.

        Only plans that use the new cache are stored there. With 0 as `max_bytes`, nothing is.
        """
        cache = copy(self)
        usable = max_bytes > 0 and code_fingerprint() is not None
        cache._disk = CacheDirectory(Path(directory), max_bytes) if usable else None
        return cache

    @property
    def disk(self) -> CacheDirectory | None:
        """Where this cache keeps what its plans read; None for nowhere."""
        return self._disk

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
            with errors_logged(disk, self._warned, "the footer cache"):
                disk.evict()

    def row_groups(
        self,
        storage: Storage,
        files: Sequence[FileInfo],
        count: ReadCount,
        *,
        keys: Keys | None,
        skip_corrupt: bool,
        unreadable: dict[FileInfo, BloomParquetError] | None = None,
    ) -> RowGroups:
        """The row groups of `files`. Reads the footers that are not cached; see :func:`read_footers` for the keyword
        arguments and errors. What was read with keys is given only to readers with equal keys."""
        key = (storage.key, keys, files if isinstance(files, tuple) else tuple(files))
        disk = self._disk
        with self._lock:
            cached = self._tables.get(key)
            if cached is not None and not cached.table.outdated:
                self._tables.move_to_end(key)
                if disk is not None:
                    cached.stored.setdefault(disk.directory, None)
                return cached.table
        request = _Request.of(storage, files, keys, disk)
        if request.disk is not None and request.listing is not None:
            path = request.disk.path(request.listing.name)
            table = self._load(request, request.disk, path, same_files=True)
            if table is not None:
                self._remember(key, _Cached(table, {request.disk.directory: table.revision}, (path,)))
                return table
        return self._build(request, count, skip_corrupt, unreadable)

    def clear(self) -> None:
        """Drop everything from memory."""
        with self._lock:
            self._tables.clear()

    def _build(
        self,
        request: _Request,
        count: ReadCount,
        skip_corrupt: bool,
        unreadable: dict[FileInfo, BloomParquetError] | None,
    ) -> RowGroups:
        """A table of the files that other tables have, and of the footers of the other files."""
        storage, files, keys, disk = request.storage, request.files, request.keys, request.disk
        parts: list[RowGroups] = []
        origin: dict[int, tuple[int, int]] = {}  # by index in `files`: the part, and the index of the file in it
        # A file without a modification time could be replaced by one of the same size without notice.
        missing = [i for i, file in enumerate(files) if file.mtime_ns]
        superseded: list[Path] = []
        all_stored = True
        for other in self._neighbours(request):
            if not missing:
                break
            index = other.table.file_index
            hits = {i: (len(parts), at) for i in missing if (at := index.get(files[i])) is not None}
            if hits:
                parts.append(other.table)
                origin |= hits
                missing = [i for i in missing if i not in hits]
                is_stored = disk is not None and disk.directory in other.stored
                all_stored &= is_stored and not other.table.has_encrypted_files
                if len(hits) >= _SUPERSEDED_SHARE * len(index):
                    superseded += other.entries
        unread = [i for i in range(len(files)) if i not in origin]
        footers = read_footers(
            storage, [files[i] for i in unread], count, keys=keys, skip_corrupt=skip_corrupt, undecryptable=unreadable
        )
        read = {i: footer for i, footer in zip(unread, footers, strict=True) if footer is not None}
        unchanged_files = are_unchanged(storage, [files[i] for i in read])
        cacheable = {i for i, unchanged in zip(read, unchanged_files, strict=True) if unchanged}
        for some in (sorted(cacheable), [i for i in read if i not in cacheable]):
            if some:
                origin |= {i: (len(parts), at) for at, i in enumerate(some)}
                parts.append(RowGroups.of_footers(storage, [files[i] for i in some], [read[i] for i in some], keys))
        table = to_cache = _merge(storage, keys, files, parts, origin)
        if len(cacheable) < len(read):
            kept = {i: at for i, at in origin.items() if i not in read or i in cacheable}
            to_cache = _merge(storage, keys, files, parts, kept)
        if to_cache.files:
            cached = _Cached(to_cache)
            if disk is not None:
                # A table of parts that are all stored need not be stored again.
                cached.stored[disk.directory] = None if cacheable or not all_stored else to_cache.revision
                cached.superseded = tuple(superseded) if cacheable else ()
            self._remember((storage.key, keys, tuple(to_cache.files)), cached)
        return table

    def _neighbours(self, request: _Request) -> Iterator[_Cached]:
        """Tables that may have some of the files: those in memory, then cache files of the data set; last used
        first."""
        scope = request.storage.key, request.keys
        with self._lock:
            in_memory = [cached for key, cached in reversed(self._tables.items()) if key[:2] == scope]
        for cached in in_memory:
            if not cached.table.outdated:
                yield cached
        disk = request.disk
        if disk is None or request.listing is None:
            return
        paths: list[Path] = []
        with errors_logged(disk, self._warned, "the footer cache"):
            paths = disk.latest(request.listing.prefix, _SEARCHED_ENTRIES)
        for path in paths:
            if not any(path in cached.entries for cached in in_memory):
                table = self._load(request, disk, path, same_files=False)
                if table is not None:
                    yield _Cached(table, {disk.directory: table.revision}, (path,))

    def _load(self, request: _Request, disk: CacheDirectory, path: Path, *, same_files: bool) -> RowGroups | None:
        """The table in a cache file, of the requested files if `same_files`; None if the file is not there or cannot be
        used."""
        files, listing = (request.files, request.listing) if same_files else (None, None)
        table = None
        with errors_logged(disk, self._warned, "the footer cache"), suppress(FileNotFoundError):
            try:
                table = read_table(open_cache_file(path), request.storage, request.keys, files, listing)
                os.utime(path)  # the least recently used files are removed first
            except DamagedFileError as error:
                log.info("%s; it will be replaced", error)
        return table

    def _store(self, disk: CacheDirectory, key: _Key, cached: _Cached) -> None:
        table = cached.table
        if not all(are_unchanged(table.storage, table.files)):
            # What was read may be of another file than the listed one.
            with self._lock:
                self._tables.pop(key, None)
            return
        revision = table.revision
        listing = Listing(table.storage, table.files)
        with errors_logged(disk, self._warned, "the footer cache"):
            path = disk.path(listing.name)
            if listing.storable and disk.write(path, to_sections(table, listing)):
                for other in cached.superseded:
                    if other != path and other.parent == disk.directory:
                        disk.remove(other)
                cached.entries, cached.superseded = (*cached.entries, path), ()
        # After a failure too: each revision is tried once.
        cached.stored[disk.directory] = revision

    def _remember(self, key: _Key, cached: _Cached) -> None:
        with self._lock:
            present = self._tables.get(key)
            if present is None or present.table is not cached.table:
                self._tables[key] = cached
            else:
                present.stored = {**dict.fromkeys(cached.stored), **present.stored}
            self._tables.move_to_end(key)
            while len(self._tables) > 1 and (len(self._tables) > _MEMORY_TABLES or self._size() > self._cached_bytes):
                self._tables.popitem(last=False)

    def _size(self) -> int:
        return sum(cached.table.cached_bytes for cached in self._tables.values())


def _is_worth_storing(cached: _Cached, directory: Path) -> bool:
    """Whether to write the cache file of a table. A large one is not written again for a few filters, which are cheaper
    to read again."""
    stored, table = cached.stored[directory], cached.table
    if table.has_encrypted_files:
        return False
    if stored is None or (table.stored is not None and table.stored.damaged):
        return True
    columns, read, loaded = table.revision
    if columns > stored.columns:
        return True
    gained = read - stored.read
    return gained > 0 and (
        table.cached_bytes < _ALWAYS_REWRITTEN_BYTES or gained >= _REWRITE_GROWTH * (loaded + stored.read)
    )


def _merge(
    storage: Storage,
    keys: Keys | None,
    files: Sequence[FileInfo],
    parts: Sequence[RowGroups],
    origin: Mapping[int, tuple[int, int]],
) -> RowGroups:
    """The row groups of those of `files` that have an `origin`: a part, and the index of the file in it."""
    indexes = sorted(origin)
    if not indexes:
        return RowGroups.of_footers(storage, (), (), keys)
    some = [files[i] for i in indexes]
    if len(parts) == 1 and list(parts[0].files) == some:
        return parts[0]
    part, source = np.array([origin[i] for i in indexes], np.int64).T
    return merge(some, parts, part, source)


process_cache = FooterCache()
"""The cache of plans that are given no other."""
