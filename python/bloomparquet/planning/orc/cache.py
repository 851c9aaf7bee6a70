"""Tails of ORC files that did not change are neither read nor arranged again in this process.

What is kept are the tails, by file, and whole :class:`Stripes` (with what queries have read of indexes and filters),
by the set of files. A file's identity is its :class:`FileInfo`.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from bloomparquet.errors import BloomParquetError, EncryptionError, FormatError, LimitError, NotOrcError, PlanError
from bloomparquet.orc.file_tail import MAGIC, Tail, begin_with, read_tails
from bloomparquet.orc.protobuf import MAX_ELEMENTS
from bloomparquet.orc.schema import file_schema
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.planning.orc.stripes import Stripes
from bloomparquet.storage.files import FileInfo, ReadCount, Storage
from bloomparquet.storage.staleness import are_unchanged

_KEPT_BYTES = 512 * 1024 * 1024
_KEPT_TABLES = 16
_NEIGHBOURS = 4  # other sets of files that are looked into before anything is read
_MOST_ROWS = 1 << 48


@dataclass(frozen=True, slots=True)
class Known:
    """The table of those of some files that can be read, and what is wrong with the others; of these, the first that
    is a Parquet file."""

    table: Stripes
    unreadable: Mapping[FileInfo, BloomParquetError]
    parquet: FileInfo | None

    @property
    def is_orc(self) -> bool:
        """Whether any file is ORC, be it damaged."""
        return bool(self.table.files) or any(not isinstance(error, NotOrcError) for error in self.unreadable.values())

    def use(self, skip_corrupt: bool, unreadable: dict[FileInfo, BloomParquetError] | None, told: bool) -> Stripes:
        """The table. `skip_corrupt` passes over files that are damaged, or of a compression that is not known;
        `unreadable` takes those with encrypted columns, and those that hold more than is read. Otherwise they are
        errors, as for :func:`bloomparquet.orc.file_tail.read_tails`. Unless it was `told` that all are ORC, a Parquet
        file is no damaged one, and a PlanError."""
        if self.parquet is not None and self.is_orc and not told:
            first = next((file for file in self.table.files), self.parquet)
            raise PlanError(
                f"{self.parquet.path} is a Parquet file, and {first.path} is of ORC; expected files of one format: ask "
                "of each apart"
            )
        for file, error in self.unreadable.items():
            if isinstance(error, EncryptionError | LimitError) and unreadable is not None:
                unreadable[file] = error
            elif isinstance(error, LimitError) or not skip_corrupt:
                raise error
        return self.table


class StripeCache:
    """Stripes by the files that they lie in; safe to use from several threads; bounded by what it holds."""

    def __init__(self, cached_bytes: int = _KEPT_BYTES) -> None:
        self._kept_bytes = cached_bytes
        self._tables: OrderedDict[tuple[Hashable, tuple[FileInfo, ...]], Known] = OrderedDict()
        self._lock = threading.Lock()

    def known(self, storage: Storage, files: Sequence[FileInfo], reads: ReadCount, *, keys: Keys | None) -> Known:
        """What `files` are; reads the tails that are not known, and looks into other sets that the files are in before
        it reads more of them. EncryptionError if `keys` allow no plaintext files: ORC files are not encrypted here."""
        key = (storage.key, tuple(files))
        with self._lock:
            known = self._tables.get(key)
            if known is not None:
                self._tables.move_to_end(key)
            others = [each.table for (of, _), each in reversed(self._tables.items()) if of == storage.key]
        if known is None:
            known, lasting = _gather(storage, files, others, reads)
            if lasting:
                self._remember(key, known)
        if known.table.files and keys is not None and not keys.allow_plaintext_files:
            raise EncryptionError(
                f"{known.table.files[0].path}: the file is in plain text, which the keys do not allow; is it the right "
                "file?"
            )
        return known

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._tables.clear()

    def _remember(self, key: tuple[Hashable, tuple[FileInfo, ...]], known: Known) -> None:
        with self._lock:
            self._tables[key] = known
            while len(self._tables) > 1 and (
                len(self._tables) > _KEPT_TABLES
                or sum(each.table.cached_bytes for each in self._tables.values()) > self._kept_bytes
            ):
                self._tables.popitem(last=False)


def _gather(
    storage: Storage, files: Sequence[FileInfo], others: Sequence[Stripes], reads: ReadCount
) -> tuple[Known, bool]:
    """The table of `files`, with what `others` know of them; and whether it is of what was listed, as far as that can
    be seen."""
    held: dict[FileInfo, Tail | BloomParquetError] = {}
    for other in others:
        # Without a modification time, a file that was replaced by one of the same size would not be noticed.
        held.update((file, tail) for file, tail in zip(other.files, other.tails, strict=True) if file.mtime_ns)
    unread = [file for file in files if file not in held]
    held.update(zip(unread, map(_bounded, read_tails(storage, unread, reads)), strict=True))
    lasting = all(are_unchanged(storage, unread))
    readable = [(file, tail) for file in files if isinstance(tail := held[file], Tail)]
    unreadable = {file: error for file in files if isinstance(error := held[file], BloomParquetError)}
    strangers = [file for file, error in unreadable.items() if isinstance(error, NotOrcError)]
    for file, is_cut in zip(strangers, begin_with(storage, strangers, MAGIC, reads), strict=True):
        if is_cut:
            unreadable[file] = FormatError(str(unreadable[file]))
    magics = [begin_with(storage, strangers, magic, reads) for magic in (b"PAR1", b"PARE")]
    parquet = [file for file, plain, sealed in zip(strangers, *magics, strict=True) if plain or sealed]
    table = Stripes(storage, tuple(file for file, _ in readable), [tail for _, tail in readable])
    learnt_from = 0
    for other in others:
        learnt_from += table.learn_from(other)
        if learnt_from == _NEIGHBOURS:
            break
    return Known(table, unreadable, next(iter(parquet), None)), lasting


def _bounded(tail: Tail | BloomParquetError) -> Tail | BloomParquetError:
    """`tail`, or why arrays of what it claims would be too large, or its columns are no tree that can be walked."""
    if isinstance(tail, BloomParquetError):
        return tail
    rows = sum(stripe.rows for stripe in tail.stripes)
    if rows > _MOST_ROWS:
        return FormatError(f"{tail.path}: its stripes claim {rows} rows; it is damaged")
    groups = sum(max(tail.row_groups(stripe), 1) for stripe in range(len(tail.stripes)))
    if groups > MAX_ELEMENTS:
        return LimitError(f"{tail.path}: the file claims {groups} row groups; at most {MAX_ELEMENTS} are read")
    try:
        file_schema(tail.types)
    except BloomParquetError as error:
        return type(error)(f"{tail.path}: {error}")
    return tail


cache = StripeCache()
"""Shared by all plans of this process."""
