"""The headers and bitsets of Bloom filters that were read so far. The cache on disk takes them to another process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError
from bloomparquet.planning.evidence.tiles import TiledFilters
from bloomparquet.planning.parquet.folded_filters import FoldedFilters

NO_FILTER, UNREAD, READY, UNUSABLE = range(4)
"""The states of a filter: there is none; nothing was read; its header was read; it cannot be used."""


@dataclass(frozen=True, slots=True)
class FilterFacts:
    """The known facts of the filters of n column chunks. They never change: who learns more replaces them as a whole,
    so that an interrupt leaves them as they were.

    Arrays of shape (n,): `state`; `bitset_at`, the offset of the bitset in its file; `num_bytes` of the bitset;
    `not_empty`, whether a set bit was seen; `resident_at`, the first block of the bitset in `resident`, -1 if it is not
    in memory. `resident` (blocks, 8) holds the bitsets in memory. `errors`: by chunk, why its filter cannot be used.
    `tiled`: the filters that are in an index. `folded`: smaller copies of filters that were read whole.
    """

    state: NDArray[np.int8]
    bitset_at: NDArray[np.int64]
    num_bytes: NDArray[np.int64]
    not_empty: NDArray[np.bool_]
    resident_at: NDArray[np.int64]
    resident: NDArray[np.uint32]
    errors: Mapping[int, BloomParquetError]
    tiled: TiledFilters
    folded: FoldedFilters

    @classmethod
    def unread(cls, offset: NDArray[np.int64], errors: Mapping[int, BloomParquetError] | None = None) -> FilterFacts:
        """Filters of which nothing was read. `offset`: where each begins, as the footer says; -1 if there is none.
        `errors`: by chunk, why its metadata cannot be read."""
        n = len(offset)
        zeros, none = np.zeros(n, np.int64), np.zeros(n, np.bool_)
        state = np.where(offset < 0, NO_FILTER, UNREAD).astype(np.int8)
        state[list(errors or ())] = UNUSABLE
        blocks, tiled, folded = np.zeros((0, 8), np.uint32), TiledFilters.none(n), FoldedFilters.none(n)
        return cls(state, zeros, zeros, none, zeros - 1, blocks, errors or {}, tiled, folded)

    @property
    def is_unread(self) -> bool:
        """Whether nothing was read: :meth:`unread` would make the same, apart from `tiled`."""
        return not self.errors and bool((self.state <= UNREAD).all())

    def changed(self, chunks: NDArray[np.int64], **values: Any) -> FilterFacts:
        """A copy in which the `chunks` have these values in the arrays of these names."""
        arrays = {name: getattr(self, name).copy() for name in values}
        for name, array in arrays.items():
            array[chunks] = values[name]
        return replace(self, **arrays)
