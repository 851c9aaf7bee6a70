"""Footers of files that did not change are neither read nor arranged again, in this process or in the next one.

What is kept are whole :class:`RowGroups` (with the column arrays and filter headers that queries have made in them),
one for each set of files asked for lately: in memory, and, for a cache of :meth:`FooterCache.on_disk`, in a
directory. A file's identity is its :class:`FileInfo`, so a file that was replaced is read anew; of a
set of files that are known in part, only the others are read.

A plan never writes to the disk: :meth:`FooterCache.persist` does, when there is time. And nothing that goes wrong
there makes a plan fail: the cache is then what it is without a disk. What was read of encrypted files stays in
memory, apart for each set of keys.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bloomparquet.errors import BloomParquetError
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.parquet.metadata.footer import read_footers
from bloomparquet.planning.parquet.cache_file import CacheDirectory, DamagedEntryError, Entry, code_fingerprint
from bloomparquet.planning.parquet.merge import merge
from bloomparquet.planning.parquet.row_groups import Lessons, RowGroups
from bloomparquet.planning.parquet.serialized import Listing, is_damaged, read_table, to_units
from bloomparquet.storage.files import FileInfo, ReadCount, Storage
from bloomparquet.storage.staleness import are_unchanged

_KEPT_BYTES = 512 * 1024 * 1024
_KEPT_TABLES = 16
_NEIGHBOURS = 4  # other sets of files of the same data set that are looked into on disk
_NEARLY_ALL = 7 / 8  # of a table's files: one that has them, and others, makes its cache file superfluous
_SMALL_BYTES = 1024 * 1024  # of a table: written anew whenever anything was learnt
_WORTHWHILE = 1 / 8  # of what is stored: so much more must be known of filters before a large one is written anew

log = logging.getLogger("bloomparquet")

_Key = tuple[Hashable, Keys | None, tuple[FileInfo, ...]]


@dataclass(slots=True)
class _Known:
    """A table; and for each directory that it belongs into, how much of what it knows lies there (None: nothing).

    `entries` are its cache files, `superseded` those of other tables which its own make superfluous.
    """

    table: RowGroups
    stored: dict[Path, Lessons | None] = field(default_factory=dict)
    entries: tuple[Path, ...] = ()
    superseded: tuple[Path, ...] = ()


class FooterCache:
    """Row groups by the files they lie in; safe to use from several threads; bounded by what it holds."""

    def __init__(self, cached_bytes: int = _KEPT_BYTES) -> None:
        self._kept_bytes = cached_bytes
        self._tables: OrderedDict[_Key, _Known] = OrderedDict()
        self._disk: CacheDirectory | None = None
        self._warned: set[Path] = set()
        self._lock = threading.Lock()
        self._persisting = threading.Lock()

    def on_disk(self, directory: str | os.PathLike[str], max_bytes: int) -> FooterCache:
        """A cache that shares this one's memory, and reads and writes cache files in `directory`, `max_bytes` at most.

        Only the plans that are given the new cache are stored there. Without `max_bytes` nothing is.
        """
        cache = copy(self)
        usable = max_bytes > 0 and code_fingerprint() is not None
        cache._disk = CacheDirectory(Path(directory), max_bytes) if usable else None
        return cache

    def persist(self) -> None:
        """Write what the plans of this cache have learnt to its directory, and keep that within its bound. A failing
        disk raises nothing."""
        disk = self._disk
        if disk is None:
            return
        with self._persisting:
            with self._lock:
                tables = [each for each in self._tables.items() if disk.directory in each[1].stored]
            for key, known in tables:
                if _is_worth_storing(known, disk.directory):
                    self._store(disk, key, known)
            with self._excused(disk):
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
        """The row groups of `files`; reads the footers that are not known. `keys`, `skip_corrupt`, `unreadable` and
        errors are as for :func:`read_footers`. What was read with keys is kept for readers with equal keys alone."""
        key = (storage.key, keys, tuple(files))
        disk = self._disk
        with self._lock:
            known = self._tables.get(key)
            if known is not None and not known.table.outdated:
                self._tables.move_to_end(key)
                if disk is not None:
                    known.stored.setdefault(disk.directory, None)
                return known.table
        if keys is not None and not keys.allow_plaintext_files:
            disk = None  # which has plain files only
        listing = Listing(storage, files) if disk is not None and files else None
        if listing is None or not listing.storable:
            disk = listing = None
        if disk is not None and listing is not None:
            path = disk.path(listing.name)
            table = self._load(disk, path, storage, keys, files, listing)
            if table is not None:
                self._remember(key, _Known(table, {disk.directory: table.lessons}, (path,)))
                return table
        return self._gather(storage, keys, files, count, skip_corrupt, unreadable, disk, listing)

    def clear(self) -> None:
        """Forget everything that is in memory."""
        with self._lock:
            self._tables.clear()

    def _gather(
        self,
        storage: Storage,
        keys: Keys | None,
        files: Sequence[FileInfo],
        count: ReadCount,
        skip_corrupt: bool,
        unreadable: dict[FileInfo, BloomParquetError] | None,
        disk: CacheDirectory | None,
        listing: Listing | None,
    ) -> RowGroups:
        """A table made of what other tables know of `files`, and of the other files' footers."""
        parts: list[RowGroups] = []
        origin: dict[int, tuple[int, int]] = {}  # of the places in `files`: which part, and the place there
        # Without a modification time, a file that was replaced by one of the same size would not be noticed.
        unknown = [i for i, file in enumerate(files) if file.mtime_ns]
        superseded: list[Path] = []
        all_stored = True
        for other in self._neighbours(storage, keys, disk, listing):
            if not unknown:
                break
            places = other.table.places
            hits = {i: (len(parts), place) for i in unknown if (place := places.get(files[i])) is not None}
            if hits:
                parts.append(other.table)
                origin |= hits
                unknown = [i for i in unknown if i not in hits]
                all_stored &= disk is not None and disk.directory in other.stored and not other.table.is_secret
                if len(hits) >= _NEARLY_ALL * len(places):
                    superseded += other.entries
        unread = [i for i in range(len(files)) if i not in origin]
        footers = read_footers(
            storage, [files[i] for i in unread], count, keys=keys, skip_corrupt=skip_corrupt, undecryptable=unreadable
        )
        read = {i: footer for i, footer in zip(unread, footers, strict=True) if footer is not None}
        lasting = {i for i, same in zip(read, are_unchanged(storage, [files[i] for i in read]), strict=True) if same}
        for some in (sorted(lasting), [i for i in read if i not in lasting]):
            if some:
                origin |= {i: (len(parts), place) for place, i in enumerate(some)}
                parts.append(RowGroups.of_footers(storage, [files[i] for i in some], [read[i] for i in some], keys))
        table = _assemble(storage, keys, files, parts, origin)
        kept = table
        if len(lasting) < len(read):
            lasting_origin = {i: at for i, at in origin.items() if i not in read or i in lasting}
            kept = _assemble(storage, keys, files, parts, lasting_origin)
        if kept.files:
            known = _Known(kept)
            if disk is not None:
                # What others have stored, or will, need not be stored a second time.
                known.stored[disk.directory] = None if lasting or not all_stored else kept.lessons
                known.superseded = tuple(superseded) if lasting else ()
            self._remember((storage.key, keys, tuple(kept.files)), known)
        return table

    def _neighbours(
        self, storage: Storage, keys: Keys | None, disk: CacheDirectory | None, listing: Listing | None
    ) -> Iterator[_Known]:
        """Tables that may know some of the files: those in memory, then those of the same data set on disk; used last
        first."""
        with self._lock:
            own = storage.key, keys
            held = [known for (*scope, _), known in reversed(self._tables.items()) if tuple(scope) == own]
        for known in held:
            if not known.table.outdated:
                yield known
        if disk is None or listing is None:
            return
        paths: list[Path] = []
        with self._excused(disk):
            paths = disk.latest(listing.prefix, _NEIGHBOURS)
        for path in paths:
            if not any(path in known.entries for known in held):
                table = self._load(disk, path, storage, keys)
                if table is not None:
                    yield _Known(table, {disk.directory: table.lessons}, (path,))

    def _load(
        self,
        disk: CacheDirectory,
        path: Path,
        storage: Storage,
        keys: Keys | None,
        files: Sequence[FileInfo] | None = None,
        listing: Listing | None = None,
    ) -> RowGroups | None:
        table = None
        with self._excused(disk), suppress(FileNotFoundError):
            try:
                table = read_table(Entry(path), storage, keys, files, listing)
                disk.touch(path)
            except DamagedEntryError as error:
                log.info("%s; it will be replaced", error)
        return table

    def _store(self, disk: CacheDirectory, key: _Key, known: _Known) -> None:
        table = known.table
        if not all(are_unchanged(table.storage, table.files)):
            # What was read may be of another file than the one that was listed.
            with self._lock:
                self._tables.pop(key, None)
            return
        lessons = table.lessons
        listing = Listing(table.storage, table.files)
        with self._excused(disk):
            path = disk.path(listing.name)
            if listing.storable and disk.write(path, to_units(table, listing)):
                for other in known.superseded:
                    if other != path and other.parent == disk.directory:
                        disk.remove(other)
                known.entries, known.superseded = (*known.entries, path), ()
        # After a failure too: there is to be one try for everything that is learnt.
        known.stored[disk.directory] = lessons

    def _remember(self, key: _Key, known: _Known) -> None:
        with self._lock:
            held = self._tables.get(key)
            if held is None or held.table is not known.table:
                self._tables[key] = known
            else:
                held.stored = {**dict.fromkeys(known.stored), **held.stored}
            self._tables.move_to_end(key)
            while len(self._tables) > 1 and (len(self._tables) > _KEPT_TABLES or self._size() > self._kept_bytes):
                self._tables.popitem(last=False)

    def _size(self) -> int:
        return sum(known.table.cached_bytes for known in self._tables.values())

    @contextmanager
    def _excused(self, disk: CacheDirectory) -> Iterator[None]:
        """What goes wrong within is told once for each directory."""
        try:
            yield
        except OSError as error:
            if disk.directory not in self._warned:
                self._warned.add(disk.directory)
                log.warning("%s: the footer cache cannot be used as it should: %s", disk.directory, error)


def _is_worth_storing(known: _Known, directory: Path) -> bool:
    """A large cache file is not written anew for a few filters: they are as cheaply read once more."""
    stored, table = known.stored[directory], known.table
    if table.is_secret:
        return False
    if stored is None or is_damaged(table):
        return True
    columns, lessons, before = table.lessons
    gained = lessons - stored.lessons
    if columns > stored.columns:
        return True
    return gained > 0 and (table.cached_bytes < _SMALL_BYTES or gained >= _WORTHWHILE * (before + stored.lessons))


def _assemble(
    storage: Storage,
    keys: Keys | None,
    files: Sequence[FileInfo],
    parts: Sequence[RowGroups],
    origin: Mapping[int, tuple[int, int]],
) -> RowGroups:
    places = sorted(origin)
    some = files if len(places) == len(files) else [files[i] for i in places]
    if not places:
        return RowGroups.of_footers(storage, (), (), keys)
    if len(parts) == 1 and list(parts[0].files) == list(some):
        return parts[0]
    part, place = np.array([origin[i] for i in places], np.int64).T
    return merge(some, parts, part, place)


process_cache = FooterCache()
"""The cache of plans that are given no other. Its methods are safe to call from several threads."""
