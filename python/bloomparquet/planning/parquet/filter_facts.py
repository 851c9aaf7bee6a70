"""The headers and bitsets of Bloom filters that were read so far, apart from the table that read them.

Another table with the same files, in this process or by the cache on disk in another one, takes them over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError
from bloomparquet.parquet.bloom_filter.sizes import BYTES_PER_BLOCK
from bloomparquet.planning.evidence.filter_store import RESIDENT_BYTES, pairs
from bloomparquet.planning.evidence.tiles import TiledFilters
from bloomparquet.planning.parquet.folded_filters import FoldedFilters

NO_FILTER, UNREAD, READY, UNUSABLE = range(4)
"""The states of a filter: there is none; nothing was read; its header was read; it cannot be used."""

_MOSTLY_USED = 3 / 4


@dataclass(frozen=True, slots=True)
class FilterFacts:
    """The known facts of the filters of n column chunks. The cache stores them, and tables with the same files share
    them. They never change: who learns more replaces them as a whole, so that an interrupt leaves them as they were.

    Arrays of shape (n,): `state`; `bitset_at`, the offset of the bitset in its file; `num_bytes` of the bitset;
    `not_empty`, whether a set bit was seen; `resident_at`, the first block of the bitset in `resident`, -1 if it is not
    in memory. `resident` (blocks, 8) holds the bitsets in memory. `errors`: by chunk, why its filter cannot be used.
    `tiled`: the filters that are in an index. `folded`: smaller copies of filters that were read whole. `warned`: the
    paths of files that a warning was logged for.
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
    warned: frozenset[str] = frozenset()

    @classmethod
    def unread(cls, offset: NDArray[np.int64], errors: Mapping[int, BloomParquetError] | None = None) -> FilterFacts:
        """Filters of which nothing was read. `offset`: where each begins, as the footer says; -1 if there is none.
        `errors`: by chunk, why its metadata cannot be read."""
        zeros, none = np.zeros(len(offset), np.int64), np.zeros(len(offset), np.bool_)
        state = np.where(offset < 0, NO_FILTER, UNREAD).astype(np.int8)
        state[list(errors or ())] = UNUSABLE
        no_blocks = np.zeros((0, 8), np.uint32)
        return cls(
            state,
            zeros,
            zeros,
            none,
            zeros - 1,
            no_blocks,
            errors or {},
            TiledFilters.none(len(offset)),
            FoldedFilters.none(len(offset)),
        )

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

    def take(self, chunks: NDArray[np.int64]) -> FilterFacts:
        """The filters `chunks`, in that order. The resident bitsets are shared."""
        errors = {i: self.errors[int(chunks[i])] for i in np.flatnonzero(self.state[chunks] == UNUSABLE).tolist()}
        return FilterFacts(
            self.state[chunks], self.bitset_at[chunks], self.num_bytes[chunks], self.not_empty[chunks],
            self.resident_at[chunks], self.resident, errors, self.tiled.take(chunks), self.folded.take(chunks),
            self.warned,
        )  # fmt: skip

    def compact(self) -> FilterFacts:
        """Drop resident bitsets that none of these filters uses. Keeps a few, because dropping copies the others."""
        sizes = np.where(self.resident_at < 0, 0, self.num_bytes // BYTES_PER_BLOCK)
        if int(sizes.sum()) >= _MOSTLY_USED * len(self.resident):
            return self
        _, blocks = pairs(self.resident_at, self.resident_at + sizes)
        at = np.where(self.resident_at < 0, -1, np.cumsum(sizes) - sizes)
        return replace(self, resident_at=at, resident=self.resident[blocks])

    @classmethod
    def concatenate(cls, parts: Sequence[FilterFacts]) -> FilterFacts:
        """The filters of all `parts`, one after another. Bitsets stay in memory up to RESIDENT_BYTES."""
        resident_at, resident, errors = [], [], {}
        blocks = chunks = 0
        for part in parts:
            fits = (blocks + len(part.resident)) * BYTES_PER_BLOCK <= RESIDENT_BYTES
            resident_at.append(np.where((part.resident_at < 0) | (not fits), -1, part.resident_at + blocks))
            if fits:
                resident.append(part.resident)
                blocks += len(part.resident)
            errors.update({chunks + chunk: error for chunk, error in part.errors.items()})
            chunks += len(part.state)
        names = ("state", "bitset_at", "num_bytes", "not_empty")
        state, bitset_at, num_bytes, not_empty = (
            np.concatenate([getattr(part, name) for part in parts]) for name in names
        )
        return cls(
            state, bitset_at, num_bytes, not_empty, np.concatenate(resident_at),
            resident[0] if len(resident) == 1 else np.concatenate([np.zeros((0, 8), np.uint32), *resident]), errors,
            TiledFilters.concatenate([part.tiled for part in parts]),
            FoldedFilters.concatenate([part.folded for part in parts]),
            frozenset().union(*(part.warned for part in parts)),
        )  # fmt: skip
