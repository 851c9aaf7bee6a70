"""The number of false row groups that a lookup reads: they do not hold the value, but their filters cannot tell.

Their expected number is the sum of the false positive probabilities (fpp) of all filters of the column. It grows with
the table: 1 in 100 is 100 row groups of 10,000. Min/max may exclude some of them; this is left out here.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bloomparquet.parquet.bloom_filter.sizes import BYTES_PER_BLOCK
from bloomparquet.writing.advice.columns import TableColumn
from bloomparquet.writing.advice.sampling import Sample


def false_row_groups_now(column: TableColumn, sample: Sample) -> float | None:
    """The expected number of false row groups with the filters in the files, from the bits of those in the `sample`.

    None if there is no filter, none could be read, or some may be in chunks that do not decrypt. An empty filter counts
    as 1, because readers ignore it.
    """
    if not sample.fpp or column.undecryptable is not None:
        return None
    return float(np.count_nonzero(column.offset >= 0) * (np.sum(sample.fpp) + sample.empty) / len(sample.fpp))


def false_row_groups_of(ndv: NDArray[np.float64], bitset_bytes: NDArray[np.int64]) -> float:
    """The expected number of false row groups with filters of `bitset_bytes` bytes for `ndv` distinct values each."""
    n_blocks = bitset_bytes // BYTES_PER_BLOCK
    # The formula of sizes.expected_fpp, for many filters at once.
    terms = [
        (-1) ** j * math.comb(8, j) * np.exp(np.ceil(ndv) * np.log1p(((31 / 32) ** j - 1.0) / n_blocks))
        for j in range(9)
    ]
    return float(np.maximum(np.sum(terms, axis=0), 0.0).sum())
