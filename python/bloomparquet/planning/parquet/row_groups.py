"""The footers of many files as columns: one row per row group, and arrays instead of objects.

The arrays of a column are made when a query first names it: from a segment
(:mod:`bloomparquet.planning.parquet.serialized`), or else from the footers, which a table from a segment must read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from sys import getsizeof
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import FileChangedError, FormatError
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.parquet.metadata.file_profile import FileProfile
from bloomparquet.parquet.metadata.footer import Footer, read_footers
from bloomparquet.parquet.metadata.read_column import read_extents
from bloomparquet.parquet.values.encoding import parquet_family, parquet_type
from bloomparquet.planning.evidence.filter_store import FilterStore
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.evidence.interface import ReadAmount
from bloomparquet.planning.evidence.stored_arrays import ColumnKey
from bloomparquet.planning.parquet.column_arrays import ChunkLocations, ColumnArrays
from bloomparquet.planning.parquet.columns import PartChunks
from bloomparquet.planning.parquet.extract import extract_column, footer_error
from bloomparquet.planning.parquet.filters import ParquetFilters
from bloomparquet.query.columns import FileSchema, LeafColumn, SchemaNode
from bloomparquet.query.families import ColumnType
from bloomparquet.query.names import dotted_name, fold
from bloomparquet.storage.files import FileInfo, ReadCount, Storage
from bloomparquet.storage.forks import lazy_property, new_lock
from bloomparquet.storage.staleness import require_unchanged_locally

T = TypeVar("T")

_NOT_COMPUTED = -1
_PAGES_BYTES = 2048  # about what a footer keeps of the pages of a column chunk
_INDEXED_FOOTER_BYTES = 64 * 1024 * 1024  # of one segment of an index, which stays as long as the index is used

_MANY_EXTENTS = 64  # from this number on, reading them all at once takes less time than one after the other
_INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}

_TIMESTAMPS = ("timestamp", "timestamp_ntz")
# Types of Spark that show all stored values, by family, or by physical type for floating-point numbers. Integers and
# decimals have rules of their own.
_READER_TYPES: dict[str | None, tuple[str, ...]] = {
    "boolean": ("boolean",), "FLOAT": ("float", "double"), "DOUBLE": ("double",), "string": ("string", "binary"),
    "binary": ("binary", "string"), "uuid": ("binary",), "date": ("date",), "time": ("time(6)",),
    "timestamp": _TIMESTAMPS, "timestamp_ntz": _TIMESTAMPS,
}  # fmt: skip
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


@dataclass(frozen=True, slots=True)
class GroupArrays:
    """The n row groups of f files, without their columns.

    Per file, shape (f,): `counts` of row groups; `profile`, an index into the profiles; `limit`, where the footer
    begins. Per row group: `rows` (n,); `extents` (n, 2), start and length, -1 until they are computed.
    """

    counts: NDArray[np.int64]
    profile: NDArray[np.int64]
    limit: NDArray[np.int64]
    rows: NDArray[np.int64]
    extents: NDArray[np.int64]


class StoredColumns(Protocol):
    """The columns of a segment."""

    keys: frozenset[ColumnKey]

    def load(self, key: ColumnKey, reads: ReadCount) -> ColumnArrays | None:
        """The arrays of a column; None if they are damaged. `reads` counts what is read."""


class RowGroups:
    """The n row groups of `files`, in file order. Arrays of shape (n,): `file` (an index into `files`), `index` (of the
    row group in its file) and `rows`. Safe to use from several threads."""

    format = FileFormat.PARQUET

    def __init__(
        self,
        storage: Storage,
        files: Sequence[FileInfo],
        arrays: GroupArrays,
        profiles: Sequence[FileProfile],
        footers: Sequence[Footer | None],
        stored: StoredColumns | None = None,
        keys: Keys | None = None,
    ) -> None:
        self.storage, self.files, self.arrays, self.profiles = storage, files, arrays, profiles
        self.schemas: list[FileSchema] = [profile.schema for profile in profiles]
        self.keys = keys
        self.file = np.repeat(np.arange(len(files)), arrays.counts)
        self.first = np.concatenate(([0], np.cumsum(arrays.counts, dtype=np.int64)))  # row group of each file; the end
        self.index = np.arange(self.first[-1]) - self.first[self.file]
        self.rows = arrays.rows
        profile = arrays.profile[self.file]
        by_profile = np.argsort(profile, kind="stable")
        self._members = np.split(by_profile, np.cumsum(np.bincount(profile, minlength=len(profiles)))[:-1])
        self.stored = stored
        self.indexed = 0
        """The number of files that were found in an index."""
        self._extracted = 0  # columns that were made of footers
        self._footers = list(footers)
        self._chunks: dict[ColumnKey, PartChunks] = {}
        self._lock = new_lock(reentrant=True)

    @classmethod
    def of_footers(
        cls, storage: Storage, files: Sequence[FileInfo], footers: Sequence[Footer], keys: Keys | None
    ) -> RowGroups:
        profiles = {id(footer.profile): footer.profile for footer in footers}
        numbers = {key: number for number, key in enumerate(profiles)}
        profile = np.array([numbers[id(footer.profile)] for footer in footers], np.int64)
        counts = np.array([len(footer.rows) for footer in footers], np.int64)
        limit = np.array([info.size - footer.size for info, footer in zip(files, footers, strict=True)], np.int64)
        rows = np.array([rows for footer in footers for rows in footer.rows], np.int64)
        extents = np.full((len(rows), 2), _NOT_COMPUTED, np.int64)
        arrays = GroupArrays(counts, profile, limit, rows, extents)
        return cls(storage, files, arrays, list(profiles.values()), footers, keys=keys)

    def __len__(self) -> int:
        return len(self.file)

    @lazy_property
    def paths(self) -> list[str]:
        """The path of each file."""
        return [file.path for file in self.files]

    def members(self, profile: int) -> NDArray[np.int64]:
        return self._members[profile]

    def is_lossless(self, profile: int, leaf: LeafColumn | None, reader_type: str | None) -> bool:
        """Whether a reader that gives the column `reader_type` (None: the type in the files) shows the stored values.
        False if it would cut an INT64 to 32 bits, for example, and if the files have two types of timestamps."""
        if leaf is None:
            return True
        if reader_type is None:
            return not self._mixed or fold(dotted_name(leaf.path), False) not in self._mixed
        return _is_lossless(leaf.node, reader_type)

    @lazy_property
    def _mixed(self) -> frozenset[str]:
        return self.mixed_columns(self.schemas)

    def mixed_columns(self, schemas: Sequence[FileSchema]) -> frozenset[str]:
        """The columns with UTC-adjusted timestamps in some files and local ones in others. A literal without a zone
        means different values there, and a reader of both refuses the column."""
        columns = [(leaf, parquet_family(leaf.node)) for schema in schemas for leaf in schema.leaves]
        adjusted, local = (
            {fold(dotted_name(leaf.path), False) for leaf, family in columns if family == wanted}
            for wanted in ("timestamp", "timestamp_ntz")
        )
        return frozenset(adjusted & local)

    def row_groups_within(self, units: NDArray[np.int64]) -> None:
        """None: Parquet has no evidence about parts of a row group."""

    def chunks(self, profile: int, leaf: LeafColumn, reads: ReadCount | None = None) -> PartChunks:
        """The chunks of `leaf` in the row groups whose files have ``profiles[profile]``. Raises FormatError for a
        damaged footer, and for a file that changed since the table was made."""
        return self.chunks_of(profile, leaf, self._members[profile], reads or ReadCount())

    def chunks_of(self, profile: int, leaf: LeafColumn, units: NDArray[np.int64], reads: ReadCount) -> PartChunks:
        """See :class:`bloomparquet.planning.evidence.selection.Part`."""
        key = profile, leaf.index
        with self._lock:
            known = self._chunks.get(key)
            if known is None:
                arrays = self._load_stored(key, reads)
                known = self._extract(key, units, reads) if arrays is None else self._chunks_of(key, arrays)
                self._keep(key, known)
            return known

    def _load_stored(self, key: ColumnKey, reads: ReadCount) -> ColumnArrays | None:
        """A column from the segment, if it is there."""
        return self.stored.load(key, reads) if self.stored is not None and key in self.stored.keys else None

    def _extract(self, key: ColumnKey, units: NDArray[np.int64], reads: ReadCount) -> PartChunks:
        """The chunks of a column from footers: of all files with its profile if the others' footers are in memory, and
        not encrypted: a key would be requested for each of those."""
        files, members = np.unique(self.file[units]), self.members(key[0])
        of_profile = np.unique(self.file[members])
        others = [self._footers[file] for file in np.setdiff1d(of_profile, files).tolist()]
        if all(footer is not None and footer.crypto is None for footer in others):
            files, self._extracted = of_profile, self._extracted + 1
        footers = self.read_footers(files.tolist(), reads)
        profile, paths = self.profiles[key[0]], [self.paths[file] for file in files.tolist()]
        arrays = extract_column(profile, paths, footers, profile.schema.leaves[key[1]], self.keys)
        return self._chunks_of(key, arrays, members[np.isin(self.file[members], files)])

    def _keep(self, key: ColumnKey, chunks: PartChunks) -> None:
        """Keep a column, unless it is a part of one, or a key could not be retrieved: the next plan asks again."""
        is_retried = bool(chunks.unreadable) and self.keys is not None and self.keys.retriever is not None
        if len(chunks.members) == len(self.members(key[0])) and not is_retried:
            self._chunks[key] = chunks

    def _chunks_of(self, key: ColumnKey, arrays: ColumnArrays, members: NDArray[np.int64] | None = None) -> PartChunks:
        """The chunks with these `arrays`; `members`: their row groups, if not all with their profile."""
        profile, members = self.profiles[key[0]], self.members(key[0]) if members is None else members
        leaf, file = profile.schema.leaves[key[1]], self.file[members]
        name, limit = dotted_name(leaf.path), self.arrays.limit[file]
        locations = ChunkLocations(name, self.files, file, self.index[members], limit)
        expressions = {case: FilterStore(tiled) for case, tiled in arrays.expressions.items()}
        filters = ParquetFilters(locations, arrays)
        return PartChunks(leaf, profile, members, arrays.bounds, arrays.counts, filters, expressions)

    def cached_columns(self) -> dict[ColumnKey, PartChunks]:
        """The columns in memory."""
        with self._lock:
            return dict(self._chunks)

    def known_columns(self) -> dict[ColumnKey, PartChunks]:
        """The columns in memory or in a segment."""
        known = self.cached_columns()
        for key in (self.stored.keys if self.stored is not None else frozenset()) - known.keys():
            arrays = self._load_stored(key, ReadCount())
            if arrays is not None:
                known[key] = self._chunks_of(key, arrays)
        return known

    @property
    def is_storable(self) -> bool:
        """Whether no file is encrypted. Data of such a file must not be written to disk."""
        return not any(footer is not None and footer.crypto is not None for footer in self._footers)

    @property
    def read_amount(self) -> ReadAmount:
        """The amount of reads for this table; filters are counted by :attr:`ParquetFilters.revision`."""
        filters = [chunks.filters for chunks in self.cached_columns().values()]
        known, loaded = sum(each.revision for each in filters), sum(each.loaded_revision for each in filters)
        return ReadAmount(self._extracted, known - loaded, known)

    def extents_of(self, row_groups: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The start offset of each row group in its file, and the length of its column chunks in bytes."""
        extents = self.arrays.extents
        is_missing = (extents[row_groups, 0] == _NOT_COMPUTED).any()
        for row_group in self._read_extents(row_groups) if is_missing else ():
            file = int(self.file[row_group])
            try:
                extents[row_group] = self.footer(file).extent(int(self.index[row_group]))
            except FormatError as error:
                raise footer_error(self.paths[file], error) from error
        start, length = extents[row_groups].T
        return start, length

    def fill_extents(self) -> None:
        """Compute all extents that footers in memory give. Errors are raised when a plan keeps the row group."""
        has_footer = np.array([footer is not None for footer in self._footers], np.bool_)
        for row_group in self._read_extents(np.flatnonzero(has_footer[self.file])):
            with suppress(FormatError):
                self.extents_of(np.array([row_group]))

    def _read_extents(self, row_groups: NDArray[np.int64]) -> list[int]:
        """Compute the extents of `row_groups` that can be read many at once. Returns the others."""
        extents = self.arrays.extents
        missing = row_groups[extents[row_groups, 0] == _NOT_COMPUTED]
        if len(missing) >= _MANY_EXTENTS:
            files = np.unique(self.file[missing])
            footers = self.read_footers(files.tolist())
            for profile in np.unique(self.arrays.profile[files]).tolist():
                (some,) = np.nonzero(self.arrays.profile[files] == profile)
                members = np.flatnonzero(np.isin(self.file, files[some]))
                read = read_extents([footers[i] for i in some.tolist()])
                is_read = read[:, 0] != _NOT_COMPUTED  # others may have been computed before
                extents[members[is_read]] = read[is_read]
            missing = missing[extents[missing, 0] == _NOT_COMPUTED]
        return list(missing.tolist())

    @property
    def footers(self) -> Sequence[Footer]:
        """The footers of all files. Those that are not in memory are read."""
        return self.read_footers(range(len(self.files)))

    def footer(self, file: int) -> Footer:
        return self.read_footers([file])[0]

    def gather(self, files: Sequence[int], get: Callable[[Any, Sequence[int]], Sequence[T]]) -> list[T]:
        return list(get(self, files))

    def read_footers(self, files: Iterable[int], reads: ReadCount | None = None) -> list[Footer]:
        """The footers of `files`, given by index. Those that are not in memory are read, all at once, and counted in
        `reads`."""
        files = list(files)
        with self._lock:
            missing = [file for file in dict.fromkeys(files) if self._footers[file] is None]
            infos = [self.files[file] for file in missing]
            footers = read_footers(self.storage, infos, reads or ReadCount(), keys=self.keys) if missing else []
            for file, footer in zip(missing, footers, strict=True):
                assert footer is not None
                if not self._agrees(file, footer):
                    require_unchanged_locally(self.storage, self.files[file])
                    raise FileChangedError(
                        f"{self.paths[file]}: the footer differs from the cached one although the file's size and time "
                        "are the same; list the file and read it again"
                    )
                self._footers[file] = footer
            wanted = [footer for file in files if (footer := self._footers[file]) is not None]
            if missing and self.indexed and self._footer_bytes > _INDEXED_FOOTER_BYTES:
                self._footers = [None] * len(self.files)
            return wanted

    def _agrees(self, file: int, footer: Footer) -> bool:
        """Whether the arrays may have been made of `footer`."""
        rows = self.rows[self.first[file] : self.first[file + 1]]
        expected, actual = self.profiles[self.arrays.profile[file]], footer.profile
        same_profile = actual is expected or (actual.schema == expected.schema and actual.traits == expected.traits)
        same_limit = self.files[file].size - footer.size == self.arrays.limit[file]
        return same_profile and same_limit and footer.rows == tuple(rows.tolist())

    @property
    def _footer_bytes(self) -> int:
        """About the size of the footers in memory, and of what they keep of pages."""
        footers = (footer for footer in self._footers if footer is not None)
        return sum(len(footer.raw) + _PAGES_BYTES * len(footer.pages) for footer in footers)

    @property
    def cached_bytes(self) -> int:
        """About the size of the footers, arrays and bitsets in memory or in a mapped segment."""
        arrays = sum(array.nbytes for array in (self.file, self.index, self.rows, self.arrays.extents))
        columns = sum(map(_memory_of, list(self._chunks.values())))  # no lock: it may be held by a read
        return self._footer_bytes + arrays + columns


def _memory_of(chunks: PartChunks) -> int:
    """About the bytes of the arrays and bitsets of a column, in memory or in a mapped segment."""
    bounds = 0 if chunks.bounds is None else _bytes_of(chunks.bounds.lower) + _bytes_of(chunks.bounds.upper)
    return chunks.filters.cached_bytes + bounds + 3 * chunks.members.nbytes


def _bytes_of(array: NDArray[Any]) -> int:
    """The bytes of an array. If it holds objects, whose sizes differ, a sample of them is measured."""
    if array.dtype != np.object_ or not len(array):
        return array.nbytes
    sample = array[:: max(1, len(array) // 64)]
    return array.nbytes + len(array) * sum(map(getsizeof, sample)) // len(sample)


def _is_lossless(node: SchemaNode, reader_type: str) -> bool:
    """Whether Spark shows all stored values of a column that it reads as `reader_type`. Its readers differ: one shows
    the digits of a DECIMAL as a BIGINT, without the point. So only what is known to be lossless counts."""
    family, decimal = parquet_family(node), _DECIMAL.fullmatch(reader_type)
    if decimal is not None:
        shown = ColumnType("decimal", "", precision=int(decimal[1]), scale=int(decimal[2]))
        return shown.holds(parquet_type(node))
    if family == "integer":
        low, high = parquet_type(node).integers
        if reader_type == "double":
            return low < 0 and high < 2**31
        return high < 1 << _INTEGER_BITS.get(reader_type, 1) - 1
    if node.annotation is not None and node.annotation.unit == "ns":
        return False  # Spark's types have microseconds
    return reader_type in _READER_TYPES.get(node.physical_type if family == "float" else family, ())
