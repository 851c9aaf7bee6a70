"""Keeps the tails and indexes of ORC files, so that unchanged files are read once.

Tables of stripes are kept by their set of files; a table holds the tails, and the indexes and filters that queries have
read. A file's identity is its :class:`FileInfo`. :meth:`StripeCache.persist` writes the tables of a user's plans to a
directory of cache files, from which the next process takes them. Disk errors never fail a plan.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np

from bloomparquet.errors import BloomParquetError, EncryptionError, FormatError, LimitError, NotOrcError, PlanError
from bloomparquet.orc.file_tail import Tail, are_orc, begin_with, read_tails
from bloomparquet.orc.protobuf import MAX_ELEMENTS
from bloomparquet.orc.schema import build_schema
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.planning.evidence.cache_file import CacheDirectory, errors_logged, open_cache_file
from bloomparquet.planning.evidence.section_file import DamagedFileError
from bloomparquet.planning.index.listing import Listing
from bloomparquet.planning.index.segments import merge_found
from bloomparquet.planning.orc.indexed import merge_stripes
from bloomparquet.planning.orc.serialized import cached_sections, read_cached
from bloomparquet.planning.orc.stripe_arrays import ReadAmount
from bloomparquet.planning.orc.stripes import Stripes
from bloomparquet.storage.files import FileInfo, ReadCount, Storage
from bloomparquet.storage.staleness import are_unchanged

_MAX_BYTES = 512 * 1024 * 1024
_MAX_TABLES = 16
_SHARED_TABLES = 4  # other tables that a new one looks into before it reads
_MAX_ROWS = 1 << 48
_ALWAYS_REWRITTEN_BYTES = 1024 * 1024
_REWRITE_GROWTH = 1 / 8
_PREFIX = "orc-"  # of the names of cache files

log = logging.getLogger("bloomparquet")


@dataclass(frozen=True, slots=True)
class OrcFiles:
    """The `table` of the files that can be read, and the errors of the others. `parquet` is the first file that is a
    Parquet file."""

    table: Stripes
    errors: Mapping[FileInfo, BloomParquetError]
    parquet: FileInfo | None

    @property
    def is_orc(self) -> bool:
        """Whether any file is an ORC file, even a damaged one."""
        return bool(self.table.files) or any(not isinstance(error, NotOrcError) for error in self.errors.values())

    def require(
        self,
        skip_corrupt: bool,
        unreadable: dict[FileInfo, BloomParquetError] | None,
        is_declared: bool,
        beside: Sequence[FileInfo] = (),
    ) -> Stripes:
        """The table. Raises the first error of a file that may not be left out.

        `skip_corrupt` leaves out files that are damaged or of an unknown compression. `unreadable` collects files with
        encrypted columns and files beyond the limits of reading. Unless the user declared the format (`is_declared`), a
        Parquet file beside ORC files is a PlanError. `beside` are more ORC files.
        """
        if self.parquet is not None and (self.is_orc or beside) and not is_declared:
            first = next(iter((*self.table.files, *beside)), self.parquet)
            raise PlanError(
                f"{self.parquet.path} is a Parquet file, but {first.path} is an ORC file; "
                "expected files of one format: read each format separately"
            )
        for file, error in self.errors.items():
            if isinstance(error, EncryptionError | LimitError) and unreadable is not None:
                unreadable[file] = error
            elif isinstance(error, LimitError) or not skip_corrupt:
                raise error
        return self.table


class StripeCache:
    """Tables of stripes by their files. Bounded; safe to use from several threads."""

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._tables: OrderedDict[tuple[Hashable, tuple[FileInfo, ...]], OrcFiles] = OrderedDict()
        # By directory, how much of a table was written to it; None: nothing yet.
        self._written: WeakKeyDictionary[Stripes, dict[Path, ReadAmount | None]] = WeakKeyDictionary()
        self._lock = threading.Lock()
        self._warned: set[Path] = set()
        self._persisting = threading.Lock()

    def open(
        self,
        storage: Storage,
        files: Sequence[FileInfo],
        reads: ReadCount,
        *,
        keys: Keys | None,
        disk: CacheDirectory | None = None,
    ) -> OrcFiles:
        """Read `files` as ORC, as far as no kept table and no cache file in `disk` has them.

        EncryptionError if `keys` allow no plaintext files: encrypted ORC files are not supported.
        """
        key = (storage.key, files if isinstance(files, tuple) else tuple(files))
        with self._lock:
            opened = self._tables.get(key)
            if opened is not None:
                self._tables.move_to_end(key)
            others = [each.table for (of, _), each in reversed(self._tables.items()) if of == storage.key]
        if opened is None:
            stored: list[Stripes] = []
            if disk is not None and not {*files}.issubset(file for other in others for file in other.files):
                with errors_logged(disk, self._warned, "the cache of ORC files"):
                    stored = _read_stored(disk, storage, files)
            opened, is_unchanged = _open(storage, files, others, stored, reads)
            if is_unchanged:
                self._keep(key, opened)
            if disk is not None and [list(table.files) for table in stored] == [list(opened.table.files)]:
                self._written[opened.table] = {disk.directory: opened.table.read_amount}
        if disk is not None:
            self._written.setdefault(opened.table, {}).setdefault(disk.directory, None)
        if opened.table.files and keys is not None and not keys.allow_plaintext_files:
            raise EncryptionError(
                f"{opened.table.files[0].path}: the file is not encrypted, "
                "but the keys have allow_plaintext_files=False"
            )
        return opened

    def persist(self, disk: CacheDirectory) -> None:
        """Write what plans with `disk` have read to it. Disk errors are logged, not raised."""
        with self._persisting:
            with self._lock:
                tables = [each.table for each in self._tables.values()]
            for table in tables:
                written = self._written.get(table, {})
                amount = table.read_amount
                if disk.directory not in written or not _is_worth_writing(table, amount, written[disk.directory]):
                    continue
                listing = Listing(table.storage, table.files)
                with errors_logged(disk, self._warned, "the cache of ORC files"):
                    if listing.storable and all(are_unchanged(table.storage, table.files)):
                        disk.write(disk.path(_PREFIX + listing.name), cached_sections(table, listing))
                written[disk.directory] = amount  # after a failure too: it is tried once

    def clear(self) -> None:
        """Drop all tables."""
        with self._lock:
            self._tables.clear()

    def _keep(self, key: tuple[Hashable, tuple[FileInfo, ...]], opened: OrcFiles) -> None:
        with self._lock:
            self._tables[key] = opened
            while len(self._tables) > 1 and (
                len(self._tables) > _MAX_TABLES
                or sum(each.table.cached_bytes for each in self._tables.values()) > self._max_bytes
            ):
                self._tables.popitem(last=False)


def _open(
    storage: Storage, files: Sequence[FileInfo], others: Sequence[Stripes], stored: Sequence[Stripes], reads: ReadCount
) -> tuple[OrcFiles, bool]:
    """The table of `files`, sharing what `others` hold, and with what `stored` tables have; and whether the files that
    were read are unchanged since they were listed."""
    places = {file: (k, i) for k, table in enumerate(stored) for i, file in enumerate(table.files) if file.mtime_ns}
    number, position = np.array([places.get(file, (-1, 0)) for file in files], np.int64).reshape(-1, 2).T
    unknown = [files[i] for i in np.flatnonzero(number < 0).tolist()]
    opened, is_unchanged = _read(storage, unknown, others, reads)
    if len(unknown) == len(files):
        return opened, is_unchanged
    table = merge_found(stored, files, number, position, opened.table, merge_stripes)
    _share(table, others)
    return replace(opened, table=table), is_unchanged


def _read(
    storage: Storage, files: Sequence[FileInfo], others: Sequence[Stripes], reads: ReadCount
) -> tuple[OrcFiles, bool]:
    """The table of `files`, sharing what `others` hold."""
    tails: dict[FileInfo, Tail | BloomParquetError] = {}
    wanted = {*files}
    for other in others:
        # Without a modification time, a replacement of the same size would not be noticed.
        for i, file in enumerate(other.files):
            if file.mtime_ns and file in wanted and file not in tails:
                tails[file] = other.tails[i]
    unread = [file for file in files if file not in tails]
    tails.update(zip(unread, map(_within_limits, read_tails(storage, unread, reads)), strict=True))
    is_unchanged = all(are_unchanged(storage, unread))
    readable = [(file, tail) for file in files if isinstance(tail := tails[file], Tail)]
    errors = {file: error for file in files if isinstance(error := tails[file], BloomParquetError)}
    not_orc = [file for file, error in errors.items() if isinstance(error, NotOrcError)]
    for file, is_truncated in zip(not_orc, are_orc(storage, not_orc, reads), strict=True):
        if is_truncated:
            errors[file] = FormatError(str(errors[file]))
    starts = [begin_with(storage, not_orc, magic, reads) for magic in (b"PAR1", b"PARE")]
    parquet = [file for file, plain, encrypted in zip(not_orc, *starts, strict=True) if plain or encrypted]
    table = Stripes.of_tails(storage, tuple(file for file, _ in readable), [tail for _, tail in readable])
    _share(table, others)
    return OrcFiles(table, errors, next(iter(parquet), None)), is_unchanged


def _share(table: Stripes, others: Sequence[Stripes]) -> None:
    """Let `table` copy what a few of `others` have."""
    shared = 0
    for other in others:
        positions = {file: i for i, file in enumerate(other.files) if file.mtime_ns}
        common = [(i, positions[file]) for i, file in enumerate(table.files) if file in positions]
        if common and shared < _SHARED_TABLES:
            table.share(other, *np.array(common, np.int64).T)
            shared += 1


def _read_stored(disk: CacheDirectory, storage: Storage, files: Sequence[FileInfo]) -> list[Stripes]:
    """The table in the cache file of `files`; or if there is none, in others of the same data set. May raise
    ``OSError``."""
    listing = Listing(storage, files)
    if not files or not listing.storable:
        return []
    own = disk.path(_PREFIX + listing.name)
    paths = [own] if own.exists() else disk.latest(_PREFIX + listing.prefix, _SHARED_TABLES)
    return [table for path in paths if (table := _read_cache_file(path, storage)) is not None]


def _read_cache_file(path: Path, storage: Storage) -> Stripes | None:
    """None for a file that cannot be used. May raise ``OSError``."""
    try:
        table = read_cached(open_cache_file(path), storage)
    except DamagedFileError as error:
        log.info("%s; it will be replaced", error)
        return None
    os.utime(path)  # the least recently used files are removed first
    return table


def _is_worth_writing(table: Stripes, amount: ReadAmount, written: ReadAmount | None) -> bool:
    """Whether to write the cache file of a table. A large one is not written again for a few filters, which are cheaper
    to read again."""
    if not table.files or amount == written:
        return False
    if written is None or amount.columns > written.columns:
        return True
    size = table.cached_bytes
    return size < _ALWAYS_REWRITTEN_BYTES or amount.filter_bytes - written.filter_bytes >= _REWRITE_GROWTH * size


def _within_limits(tail: Tail | BloomParquetError) -> Tail | BloomParquetError:
    """`tail`, or an error if its arrays would be too large or its types nest too deep."""
    if isinstance(tail, BloomParquetError):
        return tail
    rows = sum(stripe.rows for stripe in tail.stripes)
    if rows > _MAX_ROWS:
        return FormatError(f"{tail.path}: its stripes claim {rows} rows; it is damaged")
    groups = sum(max(tail.row_groups(stripe), 1) for stripe in range(len(tail.stripes)))
    if groups > MAX_ELEMENTS:
        return LimitError(f"{tail.path}: the file claims {groups} row groups; at most {MAX_ELEMENTS} are read")
    try:
        build_schema(tail.types)
    except BloomParquetError as error:
        return type(error)(f"{tail.path}: {error}")
    return tail


process_cache = StripeCache()
"""Shared by all plans of this process."""
