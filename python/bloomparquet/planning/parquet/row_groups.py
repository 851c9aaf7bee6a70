"""What the footers of many files say, as columns: one row per row group, arrays instead of objects.

A plan over thousands of row groups is then a few numpy operations. The arrays of a column are made when a query first
names it: from arrays that were stored (see :mod:`bloomparquet.planning.parquet.serialized`), or else from the
footers. These are
held as long as the table that was made of them; one made of stored arrays reads them only when it must.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import (
    BloomParquetError,
    EncryptionError,
    FileChangedError,
    FormatError,
    KeyRetrievalError,
    shorten,
)
from bloomparquet.parquet.encryption.file_crypto import ChunkCipher
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.parquet.metadata.column_chunks import UNKNOWN_FIELDS, ChunkFields
from bloomparquet.parquet.metadata.file_profile import FileProfile
from bloomparquet.parquet.metadata.footer import Footer, prefetch_keys, read_footers
from bloomparquet.parquet.values.encoding import bounds_of, encode_point, encode_values, family_of
from bloomparquet.planning.formats import FileFormat
from bloomparquet.planning.parquet.filter_index import Learnt
from bloomparquet.planning.parquet.filters import ParquetFilters
from bloomparquet.query.columns import FileSchema, LeafColumn
from bloomparquet.query.literals import Family
from bloomparquet.query.names import dotted_name
from bloomparquet.query.ordering import Bounds, Encoded, Point
from bloomparquet.storage.files import FileInfo, ReadCount, Storage
from bloomparquet.storage.staleness import are_unchanged, require_unchanged

UNKNOWN = -1

_INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}

ColumnKey = tuple[int, int]
"""A column of a table: the place of its layout, and of its leaf therein."""


@dataclass(frozen=True)
class ColumnChunks:
    """One leaf column of the row groups of one layout.

    `members` (n,) are the places of these chunks among all row groups; `nulls` and `values` (n,) their counts,
    UNKNOWN where absent.
    """

    leaf: LeafColumn
    layout: FileProfile
    members: NDArray[np.int64]
    bounds: Bounds | None
    nulls: NDArray[np.int64]
    values: NDArray[np.int64]
    filters: ParquetFilters

    @property
    def family(self) -> Family:
        return family_of(self.leaf.node)

    @property
    def unreadable(self) -> list[BloomParquetError]:
        return self.filters.unreadable

    def encode(self, values: Sequence[Any], timezone: str | None) -> Encoded | None:
        return encode_values(self.leaf, values, self.layout.traits, timezone)

    def point(self, value: Any, timezone: str | None, *, upwards: bool) -> Point | None:
        return encode_point(self.leaf, value, self.layout.traits, timezone)


@dataclass(frozen=True, slots=True)
class ColumnArrays:
    """What a :class:`ColumnChunks` knows, apart from the table that it belongs to; all of shape (n,).

    `offset` and `length` are the filters' places as footers give them, `filled` says which chunks are known to hold a
    value. `ciphers` open the filters of encrypted chunks; None where no file is encrypted.
    """

    bounds: Bounds | None
    nulls: NDArray[np.int64]
    values: NDArray[np.int64]
    offset: NDArray[np.int64]
    length: NDArray[np.int64]
    filled: NDArray[np.bool_]
    learnt: Learnt
    ciphers: Sequence[ChunkCipher | None] | None = None

    @classmethod
    def of(cls, chunks: ColumnChunks) -> ColumnArrays:
        filters = chunks.filters
        return cls(
            chunks.bounds, chunks.nulls, chunks.values, filters.offset, filters.length, filters.filled,
            filters.learnt(), filters.ciphers,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class GroupArrays:
    """The row groups of f files, n in all, without their columns.

    Per file, of shape (f,): `counts` of row groups, `layout` (a place among the layouts), and `limit`, where its footer
    begins. Per row group: `rows` (n,) and `extents` (n, 2), start and length, UNKNOWN where nobody has asked yet.
    """

    counts: NDArray[np.int64]
    layout: NDArray[np.int64]
    limit: NDArray[np.int64]
    rows: NDArray[np.int64]
    extents: NDArray[np.int64]


class _Opened(NamedTuple):
    """Chunks of one column: what their metadata says; the ciphers of those that are encrypted, and why others do not
    open, by their places."""

    fields: list[ChunkFields]
    ciphers: dict[int, ChunkCipher]
    unreadable: dict[int, EncryptionError]


class Lessons(NamedTuple):
    """How much a table knows: `columns`; and a measure of what is known of their filters, in so far as it was learnt
    since the table was made (`lessons`) and `before`."""

    columns: int
    lessons: int
    before: int


class StoredColumns(Protocol):
    """Columns that need not be made of footers."""

    keys: frozenset[ColumnKey]

    def load(self, key: ColumnKey) -> ColumnArrays | None:
        """None when it turns out that they cannot be used."""


class RowGroups:
    """The row groups of `files`, in file order: `file` (place of the file), `index` (within the file) and `rows`,
    each of shape (n,). Safe to use from several threads."""

    format = FileFormat.PARQUET

    def __init__(
        self,
        storage: Storage,
        files: Sequence[FileInfo],
        arrays: GroupArrays,
        layouts: Sequence[FileProfile],
        footers: Sequence[Footer | None],
        stored: StoredColumns | None = None,
        keys: Keys | None = None,
    ) -> None:
        self.storage, self.files, self.arrays, self.layouts = storage, files, arrays, layouts
        self.keys = keys
        self.paths = [file.path for file in files]
        self.file = np.repeat(np.arange(len(files)), arrays.counts)
        self.first = np.concatenate(([0], np.cumsum(arrays.counts, dtype=np.int64)))  # of each file, and the end
        self.index = np.arange(self.first[-1]) - self.first[self.file]
        self.rows = arrays.rows
        layout = arrays.layout[self.file]
        by_layout = np.argsort(layout, kind="stable")
        self._members = np.split(by_layout, np.cumsum(np.bincount(layout, minlength=len(layouts)))[:-1])
        self.stored = stored
        self.outdated = False  # a file was replaced since it was listed: not to be used for another plan
        self._footers = list(footers)
        self._chunks: dict[ColumnKey, ColumnChunks] = {}
        self._lock = threading.RLock()

    @classmethod
    def of_footers(
        cls, storage: Storage, files: Sequence[FileInfo], footers: Sequence[Footer], keys: Keys | None
    ) -> RowGroups:
        numbers: dict[int, int] = {}
        layouts: list[FileProfile] = []
        layout = np.empty(len(files), np.int64)
        for i, footer in enumerate(footers):
            number = numbers.setdefault(id(footer.profile), len(numbers))
            if number == len(layouts):
                layouts.append(footer.profile)
            layout[i] = number
        counts = np.array([len(footer.rows) for footer in footers], np.int64)
        limit = np.array([info.size - footer.size for info, footer in zip(files, footers, strict=True)], np.int64)
        rows = np.array([rows for footer in footers for rows in footer.rows], np.int64)
        extents = np.full((len(rows), 2), UNKNOWN, np.int64)
        return cls(storage, files, GroupArrays(counts, layout, limit, rows, extents), layouts, footers, keys=keys)

    def __len__(self) -> int:
        return len(self.file)

    @cached_property
    def places(self) -> dict[FileInfo, int]:
        """The place of each file."""
        return {file: i for i, file in enumerate(self.files)}

    @property
    def schemas(self) -> list[FileSchema]:
        """Of each layout."""
        return [layout.schema for layout in self.layouts]

    def members(self, layout: int) -> NDArray[np.int64]:
        return self._members[layout]

    def is_lossless(self, layout: int, leaf: LeafColumn | None, reader_type: str | None) -> bool:
        """Whether a reader that shows the column as that type (None: as the file's own) shows what is stored: of wider
        integers it may show the low bits alone."""
        bits = _INTEGER_BITS.get(reader_type or "")
        if bits is None or leaf is None or leaf.node.physical_type not in ("INT32", "INT64"):
            return True
        annotation = leaf.node.annotation
        if annotation is None or annotation.bit_width is None or annotation.signed is None:
            return bits >= (64 if leaf.node.physical_type == "INT64" else 32)
        return bits > annotation.bit_width - annotation.signed

    def within(self, units: NDArray[np.int64]) -> None:
        """None: all evidence is about whole row groups."""

    def chunks(self, layout: int, leaf: LeafColumn, reads: ReadCount | None = None) -> ColumnChunks:
        """The chunks of `leaf` in the row groups whose files have ``layouts[layout]``.

        `reads` grows by what reading footers again costs, where that is needed. Raises :class:`FormatError` for a
        damaged footer, and for a file that is not the one any more that the table was made of.
        """
        with self._lock:
            key = (layout, leaf.index)
            if key not in self._chunks:
                arrays = self.stored.load(key) if self.stored is not None and key in self.stored.keys else None
                return self.put(key, arrays or self._extract(layout, leaf, reads or ReadCount()))
            return self._chunks[key]

    def put(self, key: ColumnKey, arrays: ColumnArrays) -> ColumnChunks:
        """Take over what is known of a column, unless it is that a key is missing which may be there the next time."""
        found, keys = self._with(key, arrays), self.keys
        if not found.filters.unreadable or keys is None or keys.retriever is None:
            with self._lock:
                self._chunks[key] = found
        return found

    def _with(self, key: ColumnKey, arrays: ColumnArrays) -> ColumnChunks:
        layout, leaf = self.layouts[key[0]], self.layouts[key[0]].schema.leaves[key[1]]
        members = self.members(key[0])
        file = self.file[members]
        filters = ParquetFilters(
            self.paths, file, self.index[members], dotted_name(leaf.path), arrays.offset, arrays.length,
            self.arrays.limit[file], arrays.filled, arrays.learnt, arrays.ciphers,
        )  # fmt: skip
        return ColumnChunks(leaf, layout, members, arrays.bounds, arrays.nulls, arrays.values, filters)

    def known(self) -> dict[ColumnKey, ColumnChunks]:
        """The columns that were asked for, or taken over, by now."""
        with self._lock:
            return dict(self._chunks)

    def column_keys(self) -> set[ColumnKey]:
        """The columns that are known, or stored."""
        return {*self.known(), *(self.stored.keys if self.stored is not None else ())}

    @property
    def is_secret(self) -> bool:
        """Whether a file is encrypted: what is known of it must not be stored."""
        return any(footer is not None and footer.crypto is not None for footer in self._footers)

    def can_tell(self, layout: int) -> bool:
        """Whether every column of the files with ``layouts[layout]`` can be told without reading."""
        return all(self._footers[place] is not None for place in np.flatnonzero(self.arrays.layout == layout).tolist())

    @property
    def lessons(self) -> Lessons:
        """How much is known by now."""
        filters = [chunks.filters for chunks in self.known().values()]
        before = sum(each.lessons_before for each in filters)
        return Lessons(len(self.column_keys()), sum(each.lessons for each in filters) - before, before)

    def extent(self, row_group: int) -> tuple[int, int]:
        """The byte offset at which the row group begins in its file, and how many bytes its column chunks take."""
        start, length = self.arrays.extents[row_group].tolist()
        if start == UNKNOWN:
            place = int(self.file[row_group])
            try:
                start, length = self.footer(place).extent(int(self.index[row_group]))
            except FormatError as error:
                raise _damaged(self.paths[place], error) from error
            self.arrays.extents[row_group] = start, length
        return start, length

    def extents_of(self, row_groups: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The starts and the lengths of several; as :meth:`extent`."""
        for row_group in row_groups[self.arrays.extents[row_groups, 0] == UNKNOWN].tolist():
            self.extent(row_group)
        start, length = self.arrays.extents[row_groups].T
        return start, length

    def fill_extents(self) -> None:
        """Work out every extent that a footer in memory gives."""
        for row_group in np.flatnonzero(self.arrays.extents[:, 0] == UNKNOWN).tolist():
            if self._footers[self.file[row_group]] is not None:
                try:
                    self.extent(row_group)
                except FormatError:  # told when a plan keeps this row group
                    continue

    @property
    def footers(self) -> Sequence[Footer]:
        """Of all files; those that are not in memory are read."""
        return self.read_footers(range(len(self.files)), ReadCount())

    @property
    def held_footers(self) -> Sequence[Footer | None]:
        """Of all files, as far as they are in memory."""
        return self._footers

    def footer(self, place: int) -> Footer:
        return self.read_footers([place], ReadCount())[0]

    def read_footers(self, places: Iterable[int], reads: ReadCount) -> list[Footer]:
        """The footers of the files at `places`; those that are not in memory are read, all at once."""
        places = list(places)
        with self._lock:
            missing = [place for place in places if self._footers[place] is None]
            files = [self.files[place] for place in missing]
            found = read_footers(self.storage, files, reads, keys=self.keys) if missing else []
            for place, footer in zip(missing, found, strict=True):
                assert footer is not None
                if not self._agrees(place, footer):
                    require_unchanged(self.storage, self.files[place])
                    raise FileChangedError(
                        f"{self.paths[place]}: the footer of the file is not the one that was cached; expected the "
                        "same for a file of the same size and time: list it and read it again"
                    )
                self._footers[place] = footer
            self.outdated |= not all(are_unchanged(self.storage, files))
            return [footer for place in places if (footer := self._footers[place]) is not None]

    def _agrees(self, place: int, footer: Footer) -> bool:
        """Whether `footer` can be the one that the arrays were made of."""
        rows, layout = self.rows[self.first[place] : self.first[place + 1]], self.layouts[self.arrays.layout[place]]
        same_layout = footer.profile is layout or (
            footer.profile.schema == layout.schema and footer.profile.traits == layout.traits
        )
        same_place = self.files[place].size - footer.size == self.arrays.limit[place]
        return same_layout and same_place and footer.rows == tuple(rows.tolist())

    def _open(
        self, place: int, footer: Footer, leaf: LeafColumn, refused: KeyRetrievalError | None, opened: _Opened
    ) -> None:
        """Append the chunks of one file to `opened`. A key that was `refused` is not asked for again."""
        row_groups = range(len(footer.rows))
        try:
            if footer.crypto is None:
                with suppress(EncryptionError):  # of a chunk that is encrypted although its file is not
                    opened.fields.extend([footer.read_chunk(i, leaf.index) for i in row_groups])
                    return
            for i in row_groups:
                try:
                    if refused is not None:
                        raise refused
                    fields, cipher = footer.read_chunk_with_cipher(i, leaf.index)
                    if cipher is not None:
                        opened.ciphers[len(opened.fields)] = cipher
                except EncryptionError as error:
                    refused = error if isinstance(error, KeyRetrievalError) else None
                    told = f"{self.paths[place]}: row group {i}, column {shorten(dotted_name(leaf.path))}: {error}"
                    opened.unreadable[len(opened.fields)] = type(error)(told)
                    fields = UNKNOWN_FIELDS
                opened.fields.append(fields)
        except FormatError as error:
            raise _damaged(self.paths[place], error) from error

    @property
    def cached_bytes(self) -> int:
        """About what this takes of memory, or of a file that is mapped into it: footers, arrays, and bitsets that were
        kept."""
        arrays = sum(array.nbytes for array in (self.file, self.index, self.rows, self.arrays.extents))
        columns = sum(_bytes_of(chunks) for chunks in self.known().values())
        return sum(len(footer.raw) for footer in self._footers if footer is not None) + arrays + columns

    def _extract(self, layout: int, leaf: LeafColumn, reads: ReadCount) -> ColumnArrays:
        places = list(dict.fromkeys(self.file[self.members(layout)].tolist()))
        footers = self.read_footers(places, reads)
        refusals = prefetch_keys(self.keys, footers, leaf.index)
        opened = _Opened([], {}, {})
        for place, footer, refused in zip(places, footers, refusals, strict=True):
            self._open(place, footer, leaf, refused, opened)
        chunks = opened.fields
        values, nulls, offset, length = (
            np.array([UNKNOWN if chunk[i] is None else chunk[i] for chunk in chunks], np.int64) for i in range(4)
        )
        nulls[(nulls > values) | (nulls < 0)] = UNKNOWN
        filled = (values > nulls) & ((nulls >= 0) | (leaf.node.repetition == "REQUIRED" and len(leaf.path) == 1))
        bounds = bounds_of(leaf, self.layouts[layout].traits, chunks)
        ciphers = [opened.ciphers.get(i) for i in range(len(chunks))] if opened.ciphers else None
        learnt = Learnt.nothing(offset, opened.unreadable)
        return ColumnArrays(bounds, nulls, values, offset, length, filled, learnt, ciphers)


def _damaged(path: str, error: FormatError) -> FormatError:
    return FormatError(f"{path}: the footer is damaged: {error}")


def _bytes_of(chunks: ColumnChunks) -> int:
    bounds = 0 if chunks.bounds is None else chunks.bounds.lower.nbytes + chunks.bounds.upper.nbytes
    return chunks.filters.cached_bytes + bounds + chunks.nulls.nbytes + chunks.values.nbytes + chunks.members.nbytes
