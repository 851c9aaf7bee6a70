"""Split-block Bloom filters: bits only. Hashes go in, booleans come out.

**False is a proof, true is a maybe.** An inserted hash always checks true. Another hash checks false, except with the
false positive probability (fpp) of the filter. This module knows no value, no type and no file.

pyarrow writes these filters but can neither read nor check one, and the Bloom filters on PyPI have other layouts. numpy
processes whole arrays of hashes at the speed of compiled code.

How a filter works: it is an array of blocks. A block has 256 bits, in eight words of 32 bits. The upper half of a hash
picks the block, the lower half picks one bit in each word. Inserting sets the eight bits; checking tests whether all
eight are set. One check reads 32 bytes, and a reader may fetch just these from a file.

Source: parquet-format BloomFilter.md. :mod:`bloomparquet.parquet.bloom_filter.sizes` says how large a filter should be.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from bloomparquet.errors import FormatError, LimitError
from bloomparquet.parquet.bloom_filter.sizes import (
    BYTES_PER_BLOCK,
    TOLERANCE,
    optimal_num_bytes,
    require_block_count,
    smallest_num_bytes,
)

Hashes = npt.NDArray[np.uint64]
Words = npt.NDArray[np.uint32]
Booleans = npt.NDArray[np.bool_]

BITS_PER_BLOCK = 8 * BYTES_PER_BLOCK

SALTS: Words = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], dtype=np.uint32
)

_WORDS = 8
_BIT_SHIFT, _HALF = np.uint32(27), np.uint64(32)
_CHECK_CHUNK = 1 << 15
"""Hashes checked at a time: their intermediate arrays stay in a core's cache."""
_INSERT_CHUNK = 1 << 14
_INSERT_BLOCKS = 1 << 12
"""Blocks filled at a time: with one byte per bit they take 1 MiB."""


def block_index(hashes: Hashes, n_blocks: int | npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int64]:
    """The block of each hash in a filter of `n_blocks` blocks: 0 to n_blocks - 1 (BloomFilter.md, "Algorithm").

    Both arguments broadcast: hashes of shape (values,) with counts of shape (row groups, 1) give (row groups, values).
    Counts must be in 1..2^22.
    """
    index = (hashes >> _HALF) * np.asarray(n_blocks).astype(np.uint64)
    index >>= _HALF
    return index.view(np.int64)


def block_mask(hashes: Hashes) -> Words:
    """The bits that each hash sets in its block, one in each word: shape (…) becomes (…, 8).

    The mask does not depend on the filter (BloomFilter.md, "Algorithm").
    """
    masks: Words = np.left_shift(np.uint32(1), _bit_in_word(hashes))
    return masks


def bit_positions(hashes: Hashes, n_blocks: int) -> npt.NDArray[np.int64]:
    """The bits of the whole filter that each hash sets: shape (…) becomes (…, 8). Bit i is bit i % 8 of byte i // 8."""
    block = block_index(hashes, n_blocks)[..., np.newaxis]
    return block * BITS_PER_BLOCK + np.arange(0, BITS_PER_BLOCK, 32) + _bit_in_word(hashes).astype(np.int64)


def _bit_in_word(hashes: Hashes) -> Words:
    bits = hashes.astype(np.uint32)[..., np.newaxis] * SALTS
    bits >>= _BIT_SHIFT
    return bits


def check_blocks(blocks: Words, masks: Words) -> Booleans:
    """Whether each block has every bit of its mask: (…, 8) with (…, 8), broadcasting, gives (…).

    The blocks may be of different filters.
    """
    missing = np.bitwise_and(np.invert(blocks), masks, order="C").view(np.uint64)
    complete: Booleans = (missing[..., 0] | missing[..., 1] | missing[..., 2] | missing[..., 3]) == 0
    return complete


class SplitBlockBloomFilter:
    """A split-block Bloom filter, as Parquet stores it.

    `blocks` is an array of little-endian uint32 of shape (n, 8), with n in 1..2^22. It is shared and never written to:
    the first `insert` makes a copy. Raises FormatError for another shape or type, LimitError for another n.

    >>> import xxhash
    >>> hashes = np.array([xxhash.xxh64_intdigest(f"user-{i}".encode()) for i in range(1000)], np.uint64)
    >>> bloom = bp.SplitBlockBloomFilter.for_ndv(1000, fpp=0.01)
    >>> bloom.insert(hashes)
    >>> bool(bloom.check(hashes).all()), bloom.num_bytes
    (True, 2048)
    >>> absent = np.array([xxhash.xxh64_intdigest(b"user-4711")], np.uint64)
    >>> bool(bloom.check(absent)[0])
    False
    """

    __slots__ = ("_owned", "_pairs")

    def __init__(self, blocks: Words) -> None:
        if blocks.ndim != 2 or blocks.shape[1] != _WORDS or blocks.dtype != np.dtype("<u4"):
            raise FormatError(
                f"expected (n, {_WORDS}) little-endian uint32 as blocks, found {blocks.shape} of {blocks.dtype}"
            )
        require_block_count(blocks.shape[0])
        # Two words are read as one 64-bit number. numpy copies an unaligned array at every check, so copy it once.
        self._pairs: Hashes = np.require(blocks, requirements="C").reshape(-1).view("<u8")
        self._owned = not self._pairs.flags.aligned
        if self._owned:
            self._pairs = self._pairs.copy()

    @classmethod
    def empty(cls, n_blocks: int) -> SplitBlockBloomFilter:
        """An empty filter of `n_blocks` blocks. Raises LimitError unless 1 <= n_blocks <= 2^22."""
        require_block_count(n_blocks)
        return cls._adopt(np.zeros((n_blocks, _WORDS), dtype="<u4"))

    @classmethod
    def for_ndv(cls, ndv: float, fpp: float = 0.01) -> SplitBlockBloomFilter:
        """An empty filter for `ndv` distinct values at `fpp`, of `optimal_num_bytes(ndv, fpp)` bytes."""
        return cls.empty(optimal_num_bytes(ndv, fpp) // BYTES_PER_BLOCK)

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> SplitBlockBloomFilter:
        """A filter from its bitset: the bytes after the header in a file.

        The bytes are shared until the first `insert` if they are aligned to 8 bytes, and copied otherwise. Raises
        FormatError unless their number is a positive multiple of 32, LimitError beyond 128 MiB.
        """
        size = memoryview(data).nbytes
        if size < BYTES_PER_BLOCK or size % BYTES_PER_BLOCK:
            raise FormatError(f"a bitset of {size} bytes: expected a multiple of {BYTES_PER_BLOCK}, at least one block")
        return cls(np.frombuffer(data, dtype="<u4").reshape(-1, _WORDS))

    def to_bytes(self) -> bytes:
        """The bitset, as it follows the header in a file: `num_bytes` bytes."""
        return self._pairs.tobytes()

    @property
    def blocks(self) -> Words:
        """The bits, little-endian uint32 of shape (n_blocks, 8), as a read-only view."""
        view = self._pairs.view("<u4").reshape(-1, _WORDS)
        view.flags.writeable = False
        return view

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return self._pairs.size // 4

    @property
    def num_bytes(self) -> int:
        """Size of the bitset in bytes: 32 for each block."""
        return self._pairs.nbytes

    @property
    def bits_set(self) -> int:
        """Number of set bits. 0 if nothing was inserted."""
        return int(np.bitwise_count(self._pairs).sum(dtype=np.int64))

    @property
    def estimated_ndv(self) -> float:
        """Number of distinct values, estimated from the set bits; infinity if all bits are set.

        A value leaves a given bit unset with probability 1 - 1/(32 n_blocks). This is solved for the number of values.
        """
        share_clear = 1.0 - self.bits_set / (BITS_PER_BLOCK * self.n_blocks)
        if share_clear == 0.0:
            return math.inf
        return math.log(share_clear) / math.log1p(-1.0 / (32 * self.n_blocks))

    @property
    def estimated_fpp(self) -> float:
        """Probability that a hash that was not inserted checks true, computed from the bits.

        Exact for a random hash: it picks any block with equal probability, and passes there with the product of the
        shares of set bits in the eight words. The result is the mean of these products. (The eighth power of the
        overall share of set bits would be too low, as blocks are not equally full.)
        """
        counts = np.bitwise_count(self._pairs.view("<u4")).reshape(-1, _WORDS)
        products = np.multiply.reduce(counts, axis=1, dtype=np.uint64)  # at most 32^8 = 2^40 each: no sum overflows
        return int(products.sum()) / (self.n_blocks << 40)

    def insert(self, hashes: Hashes) -> None:
        """Add hashes (uint64, any shape)."""
        flat = _require_hashes(hashes).reshape(-1)
        if not self._owned:
            self._pairs, self._owned = self._pairs.copy(), True
        if self.n_blocks > _INSERT_BLOCKS:
            # Sorted hashes are also sorted by block.
            flat = np.sort(flat)
        if 4 * flat.size < self.n_blocks:
            blocks = self._pairs.view("<u4").reshape(-1, _WORDS)
            np.bitwise_or.at(blocks, block_index(flat, self.n_blocks), block_mask(flat))
            return
        firsts = range(0, self.n_blocks, _INSERT_BLOCKS)
        least = [-(-(first << 32) // self.n_blocks) << 32 for first in firsts[1:]]
        bounds = [0, *np.searchsorted(flat, np.array(least, dtype=np.uint64)).tolist(), flat.size]
        for first, start, stop in zip(firsts, bounds, bounds[1:]):
            if start < stop:
                self._insert_range(flat[start:stop], first)

    def _insert_range(self, hashes: Hashes, first: int) -> None:
        """Insert hashes whose blocks are among the _INSERT_BLOCKS from `first` on.

        Each bit gets a byte meanwhile, because numpy writes to repeated positions fast. bitwise_or.at needs no
        bytes, but takes four times as long for many hashes.
        """
        blocks = self._pairs.view("<u4").reshape(-1, _WORDS)[first : first + _INSERT_BLOCKS]
        is_set = np.zeros(blocks.size * 32, dtype=np.bool_)
        for start in range(0, hashes.size, _INSERT_CHUNK):
            part = hashes[start : start + _INSERT_CHUNK]
            block_start = block_index(part, self.n_blocks)
            block_start -= first
            block_start *= BITS_PER_BLOCK
            key = part.astype(np.uint32)
            for word in range(_WORDS):
                bit = key * SALTS[word]
                bit >>= _BIT_SHIFT
                is_set[32 * word :][block_start + bit] = True
        blocks |= np.packbits(is_set, bitorder="little").view("<u4").reshape(-1, _WORDS)

    def check(self, hashes: Hashes) -> Booleans:
        """Whether each hash (uint64, any shape) may have been inserted. The result has the shape of `hashes`."""
        flat = _require_hashes(hashes).reshape(-1)
        might_match = np.zeros(flat.size, dtype=np.bool_)
        for start in range(0, flat.size, _CHECK_CHUNK):
            might_match[start : start + _CHECK_CHUNK][self._survivors(flat[start : start + _CHECK_CHUNK])] = True
        return might_match.reshape(hashes.shape)

    def _survivors(self, hashes: Hashes) -> npt.NDArray[np.intp]:
        """Positions of the hashes that check true. Tests two words at a time, of the remaining hashes only."""
        pair = block_index(hashes, self.n_blocks)
        pair *= 4
        key = hashes.astype(np.uint32)
        alive = np.arange(hashes.size)
        for word in range(0, _WORDS, 2):
            low = key * SALTS[word]
            low >>= _BIT_SHIFT
            high = key * SALTS[word + 1]
            high >>= _BIT_SHIFT
            high |= np.uint32(32)
            bits = self._pairs.take(pair)
            passed = bits >> low
            bits >>= high
            passed &= bits
            passed &= np.uint64(1)
            kept = np.flatnonzero(passed)
            alive = alive.take(kept)
            if not alive.size:
                break
            pair = pair.take(kept)
            pair += 1
            key = key.take(kept)
        return alive

    def fold(self, times: int = 1) -> SplitBlockBloomFilter:
        """A new filter with the number of blocks halved `times` times: blocks 2i and 2i+1 become block i.

        It equals, bit for bit, the filter of so many blocks into which the same hashes are inserted, because the block
        of a hash is its upper half scaled down. Raises LimitError if the blocks cannot be halved that often.
        """
        if times < 0 or self.n_blocks % (1 << times):
            raise LimitError(
                f"cannot halve {self.n_blocks} blocks {times} times: expected a count that 2^{times} divides"
            )
        blocks = self.blocks.copy()
        for _ in range(times):
            blocks = blocks[0::2] | blocks[1::2]
        return self._adopt(blocks)

    def fitted(self, fpp: float) -> SplitBlockBloomFilter:
        """The filter, folded while `estimated_fpp` stays at most `TOLERANCE` times `fpp`; the filter itself if one fold
        is too many. Raises OptionError unless 0 < fpp < 1."""
        goal = TOLERANCE * fpp
        # Every fold raises the fpp, so the search may begin anywhere; it begins near its end, which is fast.
        most = (self.n_blocks & -self.n_blocks).bit_length() - 1
        ndv = self.estimated_ndv
        enough = self.num_bytes if math.isinf(ndv) else smallest_num_bytes(ndv, fpp)
        times = min(most, max(self.num_bytes // enough, 1).bit_length() - 1)
        folded = self.fold(times) if times else self
        while times and folded.estimated_fpp > goal:
            times -= 1
            folded = self.fold(times) if times else self
        while times < most and (half := folded.fold()).estimated_fpp <= goal:
            folded, times = half, times + 1
        return folded

    def merge(self, other: SplitBlockBloomFilter) -> SplitBlockBloomFilter:
        """A new filter with the hashes of both, in as many blocks as the smaller of the two has: the larger is folded.

        Raises LimitError unless the larger number of blocks is the smaller one times a power of two.
        """
        small, large = sorted((self, other), key=lambda each: each.n_blocks)
        ratio, rest = divmod(large.n_blocks, small.n_blocks)
        if rest or ratio & (ratio - 1):
            raise LimitError(
                f"cannot merge filters of {self.n_blocks} and {other.n_blocks} blocks: "
                "expected equal counts, or one to be the other times a power of two"
            )
        folded = large.fold(ratio.bit_length() - 1) if ratio > 1 else large
        return self._adopt(folded.blocks | small.blocks)

    @classmethod
    def _adopt(cls, blocks: Words) -> SplitBlockBloomFilter:
        """A filter that owns `blocks`: nothing else refers to them."""
        adopted = cls(blocks)
        adopted._owned = True
        return adopted

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n_blocks={self.n_blocks}, bits_set={self.bits_set})"


def _require_hashes(hashes: Hashes) -> Hashes:
    # Integers of other types are most likely the values themselves, not hashes.
    if not isinstance(hashes, np.ndarray) or hashes.dtype != np.uint64:
        actual = hashes.dtype if isinstance(hashes, np.ndarray) else type(hashes).__name__
        raise TypeError(f"the hashes are {actual}; expected an array of uint64 hashes")
    return hashes
