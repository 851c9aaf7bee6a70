"""Samples of ORC's columns, by the row groups within stripes: the filters in the files, and the values of a few
stripes, read by pyarrow.

Filters of ORC are of one size for all columns, as they are made for the rows of a row group. So what is in them tells
the number of distinct values well, and two of them are compared bit by bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError, UnsupportedError
from bloomparquet.orc.bloom_filter import OrcBloomFilter, optimal_size
from bloomparquet.orc.encoding import family_of
from bloomparquet.orc.file_tail import Tail
from bloomparquet.orc.prefetch import read_data_streams
from bloomparquet.orc.rows import read_stripes
from bloomparquet.orc.schema import Kind, OrcType, paths
from bloomparquet.orc.stripe_indexes import (
    BLOOM_FILTER_UTF8,
    RowGroupFilters,
    read_filters,
)
from bloomparquet.orc.writer_quirks import why_filters_unusable
from bloomparquet.parquet.bloom_filter import xxh64 as hashing
from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.planning.orc.stripes import RowGroupsWithin, Stripes
from bloomparquet.query.columns import LeafColumn
from bloomparquet.query.names import shown
from bloomparquet.query.predicate import Column
from bloomparquet.storage.files import ReadCount
from bloomparquet.writing.advice.sampling import Found, TableColumn, gather
from bloomparquet.writing.advice.worth import ColumnFacts, Worth, split_block_ndvs, weigh_family

_STRIDE = 10_000  # the rows of a row group where the writer is told nothing
_MESSAGE_BYTES = 8  # around the bits of a filter
_KEPT_FPP = 0.003


class OrcSource:
    def __init__(self, table: Stripes) -> None:
        self._table, self._groups, self._storage = table, table.within(np.arange(len(table))), table.storage
        self._numbers: dict[Column, list[int]] = {}  # of the columns that were gathered, by part
        self._data: dict[int, dict[int, int]] = {}

    @property
    def together(self) -> Any:
        return filter_ndvs

    def column_numbers(self) -> dict[str, int]:
        found = [(shown(path), column) for tail in self._table.tails for column, path in paths(tail.types)]
        return dict(reversed(found))

    def weigh(self, column: TableColumn, facts: ColumnFacts, fpp: float) -> Worth:
        family, cannot = column.usual_part.family, None
        if column.leaf.repeated:
            cannot = "is inside a list, a map or a union, of which no element is looked up"
        elif family == "boolean":
            cannot = "has two values, which min/max tells better"
        elif family == "other":
            cannot = "has a type of which equality is not defined by its bytes"
        return weigh_family(family, cannot, facts, fpp=fpp)

    def right_sizes(self, column: TableColumn, facts: ColumnFacts, fpp: float) -> NDArray[np.int64]:
        """Those of writers, who make them for all rows of a row group."""
        strides = [tail.row_index_stride or _STRIDE for tail in self._table.tails]
        size = {stride: optimal_size(stride, fpp)[0] // 8 + _MESSAGE_BYTES for stride in set(strides)}
        by_file = np.array([size[stride] for stride in strides], np.int64)
        return by_file[self._groups.file[column.places]]

    def gather(self, path: Column, leaves: Sequence[tuple[int, LeafColumn]]) -> TableColumn:
        parts = [self._groups.chunks(i, leaf, ReadCount()) for i, leaf in leaves]
        self._numbers[path] = [self._table.layouts[i].columns[leaf.index] for i, leaf in leaves]
        stored = [_Stored.of(self._table, self._groups, i, leaf) for i, leaf in leaves]
        return gather(
            path,
            [leaf for _, leaf in leaves],
            (),
            parts,
            [_kind(chunks.type) for chunks in parts],
            np.concatenate([each.offset for each in stored]),
            np.concatenate([each.length for each in stored]),
            unusable=next((each.unusable for each in stored if each.unusable is not None), None),
        )

    def filter_sizes(
        self, columns: Sequence[TableColumn], drawn: Sequence[NDArray[np.int64]], count: ReadCount
    ) -> dict[tuple[int, int], int]:
        """Those of all that are in one stream, which are read together."""
        sizes: dict[tuple[int, int], int] = {}
        for i, column in enumerate(columns):
            for chunk in drawn[i].tolist() if column.unusable is None else ():
                if column.offset[chunk] >= 0:
                    stream = (column.offset == column.offset[chunk]) & (self._file(column) == self._file(column)[chunk])
                    sizes[i, chunk] = int(column.length[stream].sum())
        return sizes

    def cost(self, column: TableColumn, chunk: int, filter_size: int | None) -> int:
        """Of data, that of a column's streams in its stripe: pyarrow reads no less of it."""
        if filter_size is not None:
            return filter_size
        stripe = int(self._groups.of[column.places[chunk]])
        if stripe not in self._data:
            self._data[stripe] = self._data_bytes(stripe)
        return self._data[stripe].get(self._place(column, chunk), 0)

    def read(self, column: TableColumn, chunk: int, stored: bool, count: ReadCount) -> Found | None:
        if stored:
            return self._read_filter(column, chunk, count)
        values = self._read_values(column, chunk, count).drop_null().unique()
        if not len(values):
            return None
        found = SplitBlockBloomFilter.for_ndv(len(values), _KEPT_FPP)
        found.insert(_hash(values))
        return Found(found, float(len(values)), 1.0, 0.0)

    def is_dictionary_encoded(self, column: TableColumn, chunk: int) -> bool:
        """False: a dictionary of ORC is that of a whole stripe, and spares no row group."""
        return False

    def _file(self, column: TableColumn) -> NDArray[np.int64]:
        return self._groups.file[column.places]

    def _tail(self, column: TableColumn, chunk: int) -> Tail:
        return self._table.tails[int(self._file(column)[chunk])]

    def _number(self, column: TableColumn, chunk: int) -> int:
        return self._numbers[column.path][int(column.part[chunk])]

    def _place(self, column: TableColumn, chunk: int) -> int:
        """Of the top-level column that a chunk's column is, or is within, its place among them."""
        number, tops = self._number(column, chunk), self._tail(column, chunk).types[0].children
        return max((top, place) for place, top in enumerate(tops) if top <= number)[1]

    def _data_bytes(self, stripe: int) -> dict[int, int]:
        """The bytes of the data of each top-level column in a stripe; nothing of one whose footer is damaged."""
        tail = self._table.tails[int(self._table.file[stripe])]
        found: dict[int, int] = {}
        with suppress(BloomParquetError):  # told when the stripe is read
            for each in read_data_streams(self._storage, tail, int(self._table.index[stripe]), ReadCount()):
                found[each.place] = found.get(each.place, 0) + each.length
        return found

    def _read_filter(self, column: TableColumn, chunk: int, count: ReadCount) -> Found | None:
        stripe = int(self._groups.of[column.places[chunk]])
        (footer,) = self._table.footers(np.array([stripe]), count)
        if footer is None:
            return None
        (filters,) = read_filters(self._storage, [(footer, self._number(column, chunk))], count)
        if filters is None:
            return None
        if isinstance(filters, BloomParquetError):
            raise filters
        found = filters.filters[int(self._groups.index[column.places[chunk]])]
        return Found(found, found.estimated_ndv, found.bits_set / found.bits, found.estimated_fpp)

    def _read_values(self, column: TableColumn, chunk: int, count: ReadCount) -> pa.Array:
        place = int(column.places[chunk])
        stripe, tail = int(self._groups.of[place]), self._tail(column, chunk)
        name = tail.types[0].names[self._place(column, chunk)]
        batches = list(read_stripes(self._storage, tail, [int(self._table.index[stripe])], [name]))
        count.requests += 1
        count.bytes += self.cost(column, chunk, None)
        if not batches or batches[0].num_columns != 1:
            raise UnsupportedError(f"{tail.path}: several columns are called {name!r}")
        start = int(self._groups.index[place]) * int(self._table.stride[stripe])
        rows = pa.Table.from_batches(batches).slice(start, int(self._groups.rows[place]))
        found = rows.column(0).combine_chunks()
        for inner in column.path[1:]:
            found = pc.struct_field(found, [inner])
        return found


class _Stored(NamedTuple):
    """The filters of a column in the n row groups with a layout: `offset` (n,) of the stream that they are in, negative
    where there is none, `length` (n,) of their part of it; and `unusable`, why some prove nothing."""

    offset: NDArray[np.int64]
    length: NDArray[np.int64]
    unusable: str | None

    @classmethod
    def of(cls, table: Stripes, groups: RowGroupsWithin, layout: int, leaf: LeafColumn) -> _Stored:
        column, of = table.layouts[layout].columns[leaf.index], groups.of[groups.members(layout)]
        stripes, first, counts = np.unique(of, return_index=True, return_counts=True)
        found = cls(np.full(len(of), -1, np.int64), np.zeros(len(of), np.int64), None)
        why = None
        for footer, start, count in zip(
            table.footers(stripes, ReadCount()), first.tolist(), counts.tolist(), strict=True
        ):
            kind = None if footer is None else footer.filter_kind(column)
            if footer is None or kind is None:
                continue
            stream, encodings = footer.streams[kind, column], footer.bloom_encodings
            found.offset[start : start + count] = stream.offset
            found.length[start : start + count] = stream.length // count
            found.length[start] += stream.length % count
            encoding = encodings[column] if column < len(encodings) else 0
            described = RowGroupFilters(kind == BLOOM_FILTER_UTF8, encoding, ())
            why = why or why_filters_unusable(table.layouts[layout].tail, column, described)
        return found._replace(unusable=why)


def filter_ndvs(a: Any, b: Any) -> tuple[float, float, float] | None:
    """The number of distinct values in each of two filters and in both together; None where they cannot be compared.

    A remainder by m is that by a multiple of m, taken by m again: so a filter folds to any part of its size.
    """
    if isinstance(a, SplitBlockBloomFilter) and isinstance(b, SplitBlockBloomFilter):
        return split_block_ndvs(a, b)
    if not (isinstance(a, OrcBloomFilter) and isinstance(b, OrcBloomFilter)) or a.k != b.k:
        return None
    small, large = sorted((a, b), key=lambda each: each.bits)
    if large.bits % small.bits:
        return None
    folded = np.bitwise_or.reduce(large.words.reshape(-1, len(small.words)), axis=0)
    both = OrcBloomFilter(a.k, folded | small.words)
    return small.estimated_ndv, OrcBloomFilter(a.k, folded).estimated_ndv, both.estimated_ndv


def _kind(found: OrcType) -> tuple[Any, ...]:
    """Equal for columns whose equal values are equal in their bounds and their filters."""
    return family_of(found), found.kind if found.kind in (Kind.CHAR, Kind.FLOAT) else None, found.scale


def _hash(values: pa.Array) -> NDArray[np.uint64]:
    """A hash of each value, none of which is null; not that of any writer."""
    if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
        return hashing.xxh64_bytes(values.cast(pa.binary()).to_pylist())
    width = values.type.bit_width // 8
    raw = np.frombuffer(values.buffers()[1], np.uint8)[values.offset * width :][: len(values) * width]
    return hashing.xxh64_fixed(raw.reshape(-1, width))
