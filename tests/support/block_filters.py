"""Split-block Bloom filters of consecutive integers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.parquet.bloom_filter.xxh64 import xxh64_int64

Hashes = npt.NDArray[np.uint64]


def values(start: int, count: int) -> Hashes:
    """Hashes of the INT64 values from `start` to `start + count`."""
    return xxh64_int64(np.arange(start, start + count, dtype=np.int64))


def filled(n_blocks: int, hashes: Hashes) -> SplitBlockBloomFilter:
    made = SplitBlockBloomFilter.empty(n_blocks)
    made.insert(hashes)
    return made
