"""Samples of Parquet's column chunks: the filters in the files, and those made of the values of one chunk."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError, EncryptionError
from bloomparquet.parquet.bloom_filter.encrypted import Seals
from bloomparquet.parquet.bloom_filter.split_block import (
    BYTES_PER_BLOCK,
    MAX_BLOCKS,
    SplitBlockBloomFilter,
    smallest_num_bytes,
)
from bloomparquet.parquet.encryption.file_crypto import ChunkCipher
from bloomparquet.parquet.metadata.file_tail import MAGIC
from bloomparquet.parquet.metadata.footer import Footer
from bloomparquet.parquet.metadata.schema import LeafColumn
from bloomparquet.parquet.values.encoding import family_of
from bloomparquet.planning.parquet.row_groups import ColumnChunks, RowGroups
from bloomparquet.query.predicate import Column
from bloomparquet.storage.files import ReadCount, read_ranges
from bloomparquet.writing.advice.sampling import Found, TableColumn, gather
from bloomparquet.writing.advice.worth import ColumnFacts, Worth, split_block_ndvs, weigh
from bloomparquet.writing.filters.from_chunk import filter_chunk
from bloomparquet.writing.filters.spec import Bloom

_FIRST_READ = 20 * 1024  # more than a filter's first read takes; see bloomparquet.planning.parquet.filters
_MOST_VALUES = 1 << 22
_KEPT_FPP = 0.003  # of samples while they are held: no larger than their values need, and still exact enough
_HEADER_BYTES = 20
_DATA_PAGES = (0, 3)
_DICTIONARY_ENCODINGS = {2, 8}


class ParquetSource:
    together = staticmethod(split_block_ndvs)

    def __init__(self, table: RowGroups) -> None:
        self._table, self._storage = table, table.storage

    def column_numbers(self) -> None:
        """None: filters are added to files that are there."""

    def weigh(self, column: TableColumn, facts: ColumnFacts, fpp: float) -> Worth:
        return weigh(column.leaf, column.leaf_traits, facts, fpp=fpp)

    def right_sizes(self, column: TableColumn, facts: ColumnFacts, fpp: float) -> NDArray[np.int64] | None:
        if not len(facts.ndv) or not np.isfinite(facts.ndv).all():
            return None
        return np.where(facts.filled > 0, right_sizes(facts.ndv, fpp), 0)

    def gather(self, path: Column, leaves: Sequence[tuple[int, LeafColumn]]) -> TableColumn:
        parts = [self._table.chunks(i, leaf) for i, leaf in leaves]
        locked = (error for chunks in parts for error in chunks.filters.locked if isinstance(error, EncryptionError))
        return gather(
            path,
            [leaf for _, leaf in leaves],
            [self._table.layouts[i].traits for i, _ in leaves],
            parts,
            [_kind(chunks.leaf) for chunks in parts],
            np.concatenate([chunks.filters.offset for chunks in parts]),
            np.concatenate([chunks.filters.length for chunks in parts]),
            locked=next(locked, None),
        )

    def filter_sizes(
        self, columns: Sequence[TableColumn], drawn: Sequence[NDArray[np.int64]], count: ReadCount
    ) -> dict[tuple[int, int], int]:
        """With their headers. Older writers tell them only in these."""
        table = self._table
        sizes: dict[tuple[int, int], int] = {}
        unknown: list[tuple[int, int]] = []
        for i, column in enumerate(columns):
            for chunk in drawn[i].tolist():
                if column.length[chunk] > 0 and column.offset[chunk] >= 0:
                    sizes[i, chunk] = int(column.length[chunk])
                elif column.offset[chunk] >= 0:
                    unknown.append((i, chunk))
        file = np.array([table.file[columns[i].places[chunk]] for i, chunk in unknown], np.int64)
        offset = np.array([columns[i].offset[chunk] for i, chunk in unknown], np.int64)
        seals = Seals([_cipher(columns[i], chunk) for i, chunk in unknown], len(unknown))
        room = np.minimum(table.arrays.limit[file] - offset, seals.header_room)
        inside = np.flatnonzero((offset >= 4) & (room > BYTES_PER_BLOCK))
        ranges = read_ranges(self._storage, table.paths, file[inside], offset[inside], room[inside], count)
        headers = seals.headers(inside, ranges, room[inside])
        for which, taken, stored in zip(inside.tolist(), headers.taken.tolist(), headers.stored.tolist(), strict=True):
            if taken:
                sizes[unknown[which]] = taken + stored
        return sizes

    def cost(self, column: TableColumn, chunk: int, filter_size: int | None) -> int:
        if filter_size is not None:
            return filter_size + _FIRST_READ
        footer, row_group = self._where(column, chunk)
        leaf = column.leaves[int(column.part[chunk])]
        return (footer.read_chunk(row_group, leaf.index).compressed_size or 0) + len(MAGIC)

    def read(self, column: TableColumn, chunk: int, stored: bool, count: ReadCount) -> Found | None:
        found = self._read(column, chunk, stored, count)
        if found is None:
            return None
        filled = found.bits_set / (8 * found.num_bytes)
        return Found(found.fitted(_KEPT_FPP), found.estimated_ndv, filled, found.estimated_fpp)

    def is_dictionary_encoded(self, column: TableColumn, chunk: int) -> bool:
        """As the footer tells it (encoding_stats)."""
        footer, row_group = self._where(column, chunk)
        leaf = column.leaves[int(column.part[chunk])]
        try:
            stats = footer.chunk_metadata(row_group, leaf.index).encoding_stats or ()
            pages = [page.encoding for page in stats if page.page_type in _DATA_PAGES]
        except BloomParquetError:  # the sample itself is as good as any
            return False
        return bool(pages) and _DICTIONARY_ENCODINGS.issuperset(pages)

    def _read(self, column: TableColumn, chunk: int, stored: bool, count: ReadCount) -> SplitBlockBloomFilter | None:
        part = _part(column, chunk)
        if stored:
            bitset = part.filters.read(self._storage, int(column.at[chunk]), count)
            return None if bitset is None else SplitBlockBloomFilter.from_bytes(bitset.tobytes())
        footer, row_group = self._where(column, chunk)
        file = self._table.files[int(self._table.file[column.places[chunk]])]
        # Made for as many values as there may be and not made smaller, it tells even few of them exactly.
        bloom = Bloom(fpp=0.01, ndv=min(int(column.values[chunk]), _MOST_VALUES))
        return filter_chunk(self._storage, file, footer, row_group, part.leaf, bloom, count)

    def _where(self, column: TableColumn, chunk: int) -> tuple[Footer, int]:
        place = int(column.places[chunk])
        return self._table.footer(int(self._table.file[place])), int(self._table.index[place])


def _part(column: TableColumn, chunk: int) -> ColumnChunks:
    part = column.parts[int(column.part[chunk])]
    assert isinstance(part, ColumnChunks)
    return part


def _kind(leaf: LeafColumn) -> tuple[Any, ...]:
    """Equal for leaves whose equal values are equal bytes, in one order."""
    node = leaf.node
    unit = (node.annotation.unit, node.annotation.scale) if node.annotation else None
    return node.physical_type, node.type_length, family_of(node), unit, leaf.repeated


def _cipher(column: TableColumn, chunk: int) -> ChunkCipher | None:
    ciphers = _part(column, chunk).filters.ciphers
    return None if ciphers is None else ciphers[int(column.at[chunk])]


def right_sizes(ndv: NDArray[np.float64], fpp: float) -> NDArray[np.int64]:
    """The bytes, with the header, of filters of the right size for each number of distinct values."""
    most = _most_values(fpp)
    power = np.minimum(np.searchsorted(most, np.ceil(ndv), "left"), len(most) - 1)
    sizes: NDArray[np.int64] = (np.int64(BYTES_PER_BLOCK) << power.astype(np.int64)) + _HEADER_BYTES
    return sizes


@lru_cache(maxsize=8)
def _most_values(fpp: float) -> NDArray[np.float64]:
    """The largest number of distinct values that each size of filter is right for, from 32 bytes to 128 MiB."""
    found = []
    most = 1
    for power in range(MAX_BLOCKS.bit_length()):
        size = BYTES_PER_BLOCK << power
        low, high = 0, max(2 * most, 64)
        while smallest_num_bytes(high, fpp) <= size and power < MAX_BLOCKS.bit_length() - 1:
            high *= 2
        while high - low > max(1, low >> 12):
            middle = (low + high) // 2
            low, high = (middle, high) if smallest_num_bytes(middle, fpp) <= size else (low, middle)
        most = low
        found.append(float(low))
    return np.array(found)
