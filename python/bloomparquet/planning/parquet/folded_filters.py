"""Folded copies of Bloom filters in memory. They answer most questions about filters that are asked often.

Folding halves a filter: the OR of neighbouring blocks. It loses no inserted value, so what a folded filter excludes is
proven. It lets more other values pass, so the filter in the file decides about what is left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bloomparquet.parquet.bloom_filter.sizes import BYTES_PER_BLOCK
from bloomparquet.parquet.bloom_filter.split_block import block_index, block_mask, check_blocks
from bloomparquet.planning.evidence.filter_store import check_in_rounds
from bloomparquet.planning.evidence.interface import Question
from bloomparquet.storage.ranges import Ranges

FOLDED_BYTES = 192 * 1024 * 1024
"""The most bytes of folded filters that are kept for each column of a part."""

_MOST_VALUES = 128  # more of them pass most folded filters
_MOST_SET = 1 / 2  # of the bits: a filter of a size tells most if half of its bits are set


@dataclass(frozen=True, slots=True, eq=False)
class FoldedFilters:
    """Folded copies of some of the filters of n chunks. They never change.

    ``at[i]``: the first block of the copy of chunk i in `blocks` (…, 8), -1 if there is none. ``n_blocks[i]``: its
    number of blocks. `is_full`: a copy did not fit.
    """

    at: NDArray[np.int64]
    n_blocks: NDArray[np.int64]
    blocks: NDArray[np.uint32]
    is_full: bool = False

    @classmethod
    def none(cls, n: int) -> FoldedFilters:
        """No copies of the filters of n chunks."""
        return cls(np.full(n, -1, np.int64), np.zeros(n, np.int64), np.zeros((0, 8), np.uint32))

    @property
    def present(self) -> NDArray[np.bool_]:
        """Whether each chunk has a copy, shape (n,)."""
        return self.at >= 0

    @property
    def cached_bytes(self) -> int:
        """The memory of the copies."""
        return self.blocks.nbytes

    def added(self, chunks: NDArray[np.int64], bitsets: Ranges, num_bytes: NDArray[np.int64]) -> FoldedFilters:
        """These copies, and those of the filters of `chunks`, none of which has a copy, up to FOLDED_BYTES. Each filter
        must have a set bit: one without was not filled, and proves nothing.

        ``bitsets.starts[i]``: where the bitset of ``chunks[i]`` begins in the buffer; it has ``num_bytes[i]``.
        """
        if self.is_full or not len(chunks):
            return self
        at, sizes, blocks, count, is_full = self.at.copy(), self.n_blocks.copy(), [self.blocks], len(self.blocks), False
        for size in np.unique(num_bytes).tolist():
            (some,) = np.nonzero(num_bytes == size)
            rows = Ranges(bitsets.buffer, bitsets.starts[some]).rows(size).view("<u8")
            folded = _folded(rows.reshape(len(some), -1, 4))
            n_blocks = folded.shape[1]
            fit = (FOLDED_BYTES // BYTES_PER_BLOCK - count) // n_blocks
            is_full |= fit < len(some)
            some = some[:fit]
            at[chunks[some]] = count + n_blocks * np.arange(len(some))
            sizes[chunks[some]] = n_blocks
            blocks.append(np.ascontiguousarray(folded[:fit]).view("<u4").reshape(-1, 8))
            count += n_blocks * len(some)
        return FoldedFilters(at, sizes, np.concatenate(blocks), is_full)

    def excluded(self, question: Question) -> NDArray[np.bool_]:
        """Whether each chunk of `question` is proven to hold none of its values."""
        result = np.zeros(len(question.chunks), np.bool_)
        few = (question.first < question.last) & (question.last - question.first <= _MOST_VALUES)
        (some,) = np.nonzero((self.at[question.chunks] >= 0) & few)
        if not len(some):
            return result
        asked, blocks = question.about(some), self.blocks
        at, n_blocks = self.at[asked.chunks], self.n_blocks[asked.chunks]
        low, high = int(asked.first.min()), int(asked.last.max())
        masks = block_mask(question.hashes[low:high])

        def find_hits(row: NDArray[np.int64], value: NDArray[np.int64]) -> NDArray[np.int64]:
            block = at[row] + block_index(question.hashes[value], n_blocks[row])
            return row[check_blocks(blocks[block], masks[value - low])]

        hit = np.zeros(len(some), np.bool_)
        check_in_rounds(hit, asked.first, asked.last, (_MOST_VALUES,), find_hits)
        result[some] = ~hit
        return result


def _folded(filters: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Filters of one size, shape (filters, blocks, 4), folded until half of their bits are set. On average over the
    filters, at most half of the bits are set after the last fold."""
    while filters.shape[1] % 2 == 0:
        half = filters[:, 0::2] | filters[:, 1::2]
        if np.bitwise_count(half).mean() > 64 * _MOST_SET:
            break
        filters = half
    return filters
