"""Builds Bloom filters of the right size with pyarrow, and reads the filters that pyarrow wrote in memory.

pyarrow hashes values and sets bits about five times as fast as numpy. So values are written by its Parquet writer to a
file in memory, of which only the filter is kept. The filter is large enough for values that are all distinct, and is
then folded as far as the real values allow.

Source: parquet-format ``BloomFilter.md``, ``README.md`` (file layout).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bloomparquet.errors import FormatError, UnsupportedError
from bloomparquet.parquet.bloom_filter.header import MAX_HEADER_BYTES, parse_header
from bloomparquet.parquet.bloom_filter.sizes import BYTES_PER_BLOCK, smallest_num_bytes
from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.parquet.bloom_filter.xxh64 import xxh64_bytes
from bloomparquet.parquet.metadata.file_tail import TRAILER
from bloomparquet.parquet.metadata.footer import Footer, parse_footer
from bloomparquet.parquet.values.encoding import float_dtype, parquet_family
from bloomparquet.query.columns import LeafColumn
from bloomparquet.query.nested import leaf_arrays
from bloomparquet.writing.filters.locate import ChunkId, Extent
from bloomparquet.writing.filters.spec import Bloom

_MOST_VALUES = 1 << 20  # at a time: lists may have any number of elements, and pyarrow splits row groups at 2^26 values
_MORE_ELEMENTS = 4  # a row group may have so many times the list elements of the first one


def num_bytes_for(bloom: Bloom, values: int) -> int:
    """The size in bytes of a filter for `values` distinct values, before it is folded."""
    size = min(smallest_num_bytes(bloom.ndv or values, bloom.target_fpp), bloom.max_bytes)
    return 1 << (size.bit_length() - 1)


def initial_bytes(leaf: LeafColumn, wanted: Bloom, rows: int, first: pa.Table | None) -> int:
    """The size of a filter before it is folded. `first` has the rows of the first row group.

    Lists may have any number of elements. Later row groups are assumed to have at most a few times as many elements as
    the first.
    """
    if leaf.repeated and first is not None:
        elements = (len(each) for chunk in first.column(leaf.path[0]).chunks for each in leaf_arrays(chunk))
        rows = max(rows, _MORE_ELEMENTS * max(elements, default=0))
    return num_bytes_for(wanted, rows)


def build_filter(leaf: LeafColumn, arrays: Iterator[pa.Array], num_bytes: int, bloom: Bloom) -> SplitBlockBloomFilter:
    """The filter of all values in `arrays`. It has `num_bytes` bytes, and is then folded unless `bloom` has an ndv."""
    result = SplitBlockBloomFilter.empty(num_bytes // BYTES_PER_BLOCK)
    for array in arrays:
        for start in range(0, len(array), _MOST_VALUES):
            result = result.merge(_filter_of(array.slice(start, _MOST_VALUES), num_bytes))
    insert_equal_floats(leaf, result)
    return result if bloom.ndv is not None else result.fitted(bloom.target_fpp)


def filter_options(num_bytes: int) -> dict[str, float]:
    """Options with which pyarrow writes a filter of exactly `num_bytes` bytes, a power of two.

    pyarrow rounds the size of the formula up, so three quarters of `num_bytes` become `num_bytes`. It folds a filter
    while the fpp stays better than asked, so the fpp here is that of a single value.
    """
    return {"ndv": 1, "fpp": math.expm1(-8.0 / (0.75 * 8 * num_bytes)) ** 8}


def _filter_of(array: pa.Array, num_bytes: int) -> SplitBlockBloomFilter:
    """The filter of `num_bytes` bytes that pyarrow writes for `array`, which is not empty and has no nulls."""
    table = pa.table([array], pa.schema([pa.field("v", array.type, nullable=False)]))
    sink = pa.BufferOutputStream()
    pq.write_table(
        table, sink, row_group_size=len(array), compression="none", use_dictionary=False, write_statistics=False,
        store_schema=False, bloom_filter_options={"v": filter_options(num_bytes)},
    )  # fmt: skip
    file = memoryview(sink.getvalue()).cast("B")
    footer = parse_file_end(file)
    blooms = [bloom for *_, bloom in read_filters(footer, file)]
    sizes = [bloom.num_bytes for bloom in blooms]
    if sizes != [num_bytes] or footer.rows != (len(array),):
        raise UnsupportedError(
            f"pyarrow {pa.__version__} wrote filters of {sizes} bytes for row groups of {footer.rows} values; "
            f"expected [{num_bytes}] bytes for ({len(array)},) values"
        )
    return blooms[0]


def parse_file_end(end: memoryview) -> Footer:
    """The footer of a file that is not encrypted. `end` are the last bytes of the file."""
    size = int.from_bytes(end[-TRAILER:-4], "little")
    return parse_footer(bytes(end[-TRAILER - size : -TRAILER]))


def read_filters(
    footer: Footer, end: memoryview, first: int = 0
) -> Iterator[tuple[ChunkId, Extent, SplitBlockBloomFilter]]:
    """The filters of a file in memory. `end` are the bytes of the file from offset `first` on."""
    for row_group in range(len(footer.rows)):
        for leaf_index in range(len(footer.profile.schema.leaves)):
            offset = footer.read_chunk(row_group, leaf_index).bloom_offset
            if offset is None:
                continue
            if offset < first:
                raise FormatError(f"pyarrow {pa.__version__} wrote a Bloom filter before the end of the file")
            start = offset - first
            header, size = parse_header(end[start : start + MAX_HEADER_BYTES])
            bitset = end[start + header : start + header + size]
            yield (row_group, leaf_index), (offset, offset + header + size), SplitBlockBloomFilter.from_bytes(bitset)


def insert_equal_floats(leaf: LeafColumn, bloom: SplitBlockBloomFilter) -> None:
    """Insert the other bit patterns of floating-point values that are equal in SQL to values in the filter.

    Engines probe for the bit pattern in the query: with -0.0 alone in a filter, ``v = 0.0`` would lose its row. NaN has
    many bit patterns, and the filter does not show which it holds. So the two NaNs that engines probe for are always
    inserted.
    """
    if parquet_family(leaf.node) != "float":
        return
    stored = float_dtype(leaf.node)
    zeros = np.array([0.0, -0.0], stored)
    nans = np.array([np.nan, -np.nan], stored)
    zero_hashes, nan_hashes = (xxh64_bytes(value.tobytes() for value in each) for each in (zeros, nans))
    if bloom.bits_set:
        bloom.insert(nan_hashes)
    if bloom.check(zero_hashes).any():
        bloom.insert(zero_hashes)
