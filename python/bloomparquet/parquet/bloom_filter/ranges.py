"""What was fetched of filters, ranges of bytes that begin anywhere in one buffer, as arrays to compute with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bloomparquet.parquet.bloom_filter.header import MAX_HEADER_BYTES
from bloomparquet.parquet.bloom_filter.split_block import BYTES_PER_BLOCK
from bloomparquet.storage.ranges import Ranges


def first_bytes(ranges: Ranges, sizes: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The first bytes of every range, padded with zeros where it has fewer."""
    heads = np.zeros((len(sizes), MAX_HEADER_BYTES), np.uint8)
    for i in np.flatnonzero(sizes < MAX_HEADER_BYTES).tolist():
        heads[i, : sizes[i]] = ranges.buffer[ranges.starts[i] : ranges.starts[i] + sizes[i]]
    long = np.flatnonzero(sizes >= MAX_HEADER_BYTES)
    if len(long):
        heads[long] = Ranges(ranges.buffer, ranges.starts[long]).rows(MAX_HEADER_BYTES)
    return heads


def any_set(buffer: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each range of `buffer` holds a byte that is not zero; the first bytes nearly always tell."""
    result = np.zeros(len(starts), np.bool_)
    quick = np.flatnonzero(sizes >= BYTES_PER_BLOCK)
    if len(quick):
        result[quick] = np.lib.stride_tricks.sliding_window_view(buffer, BYTES_PER_BLOCK)[starts[quick]].any(axis=1)
    for i in np.flatnonzero(~result).tolist():
        result[i] = buffer[starts[i] : starts[i] + sizes[i]].any()
    return result


def as_blocks(
    buffer: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64]
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Ranges that begin anywhere in `buffer` as one (blocks, 8) matrix, and the block at which each begins."""
    ends = np.cumsum(sizes)
    packed = np.empty(int(ends[-1]), np.uint8)
    for start, size, end in zip(starts.tolist(), sizes.tolist(), ends.tolist(), strict=True):
        packed[end - size : end] = buffer[start : start + size]
    return packed.view("<u4").reshape(-1, 8), (ends - sizes) // BYTES_PER_BLOCK
