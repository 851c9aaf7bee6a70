"""Stored values into a Bloom filter of the size that they need.

pyarrow hashes and sets the bits, about five times as fast as numpy: values go through its Parquet writer into a file of
which only the filter is kept. The filter is as large as the values might need if all were different, and is then folded
as far as they allow.

Source: parquet-format ``BloomFilter.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bloomparquet.errors import UnsupportedError
from bloomparquet.parquet.bloom_filter.header import MAX_HEADER_BYTES, parse_header
from bloomparquet.parquet.bloom_filter.split_block import BYTES_PER_BLOCK, SplitBlockBloomFilter, smallest_num_bytes
from bloomparquet.parquet.bloom_filter.xxh64 import xxh64_fixed
from bloomparquet.parquet.metadata.footer import parse_footer
from bloomparquet.parquet.values.encoding import family_of
from bloomparquet.query.columns import LeafColumn
from bloomparquet.writing.filters.spec import Bloom

_MOST_VALUES = 1 << 20  # at a time: of a list there may be any number in a row, and pyarrow cuts row groups at 2^26
_FLOATS = {"FLOAT": "<f4", "DOUBLE": "<f8", "FIXED_LEN_BYTE_ARRAY": "<f2"}


def num_bytes_for(bloom: Bloom, values: int) -> int:
    """The bytes of a filter, before it is fitted, that has room for `values` distinct values."""
    size = min(smallest_num_bytes(bloom.ndv or values, bloom.fpp), bloom.max_bytes)
    return 1 << (size.bit_length() - 1)


def fill(leaf: LeafColumn, arrays: Iterator[pa.Array], num_bytes: int, bloom: Bloom) -> SplitBlockBloomFilter:
    """A filter with all of `arrays`, of the size that they need."""
    found = SplitBlockBloomFilter.empty(num_bytes // BYTES_PER_BLOCK)
    for array in arrays:
        for start in range(0, len(array), _MOST_VALUES):
            found = found.merge(_filter_of(array.slice(start, _MOST_VALUES), num_bytes))
    insert_equals(leaf, found)
    return found if bloom.ndv is not None else found.fitted(bloom.fpp)


def sized(num_bytes: int) -> dict[str, float]:
    """What makes pyarrow write a filter of exactly `num_bytes` bytes, a power of two.

    It sizes by the formula and rounds up, so three quarters come out whole; and it folds a filter as long as that stays
    better than the fpp that was asked for, so one is asked for that a single value just reaches.
    """
    return {"ndv": 1, "fpp": math.expm1(-8.0 / (0.75 * 8 * num_bytes)) ** 8}


def _filter_of(array: pa.Array, num_bytes: int) -> SplitBlockBloomFilter:
    """The filter that pyarrow writes for `array`, which has values and no nulls, of `num_bytes` bytes."""
    table = pa.table([array], pa.schema([pa.field("v", array.type, nullable=False)]))
    sink = pa.BufferOutputStream()
    pq.write_table(
        table, sink, row_group_size=len(array), compression="none", use_dictionary=False, write_statistics=False,
        store_schema=False, bloom_filter_options={"v": sized(num_bytes)},
    )  # fmt: skip
    file = memoryview(sink.getvalue()).cast("B")
    footer = parse_footer(bytes(file[-8 - int.from_bytes(file[-8:-4], "little") : -8]))
    start = footer.read_chunk(0, 0).bloom_offset or 0
    header, size = parse_header(file[start : start + MAX_HEADER_BYTES])
    if size != num_bytes or footer.rows != (len(array),):
        raise UnsupportedError(
            f"pyarrow {pa.__version__} made a filter of {size} bytes of {footer.rows} values; "
            f"expected {num_bytes} bytes of ({len(array)},)"
        )
    return SplitBlockBloomFilter.from_bytes(file[start + header : start + header + size])


def insert_equals(leaf: LeafColumn, filled: SplitBlockBloomFilter) -> None:
    """Insert the other bit patterns of what SQL holds equal to a floating-point value that may be in the filter.

    Engines probe for the pattern that a query names, so that a filter with -0.0 alone hides its row from ``v = 0.0``.
    NaN has many patterns, of which nobody knows the ones that are there; so a probe for one of the two that engines
    make always finds it.
    """
    if family_of(leaf.node) != "float":
        return
    stored = np.dtype(_FLOATS[leaf.node.physical_type or ""])
    zeros = np.array([0.0, -0.0], stored)
    nans = np.array([np.nan, -np.nan], stored)
    zero_hashes, nan_hashes = (xxh64_fixed(each.view(np.uint8).reshape(2, stored.itemsize)) for each in (zeros, nans))
    if filled.bits_set:
        filled.insert(nan_hashes)
    if filled.check(zero_hashes).any():
        filled.insert(zero_hashes)
