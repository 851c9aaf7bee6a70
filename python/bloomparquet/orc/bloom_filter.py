"""ORC's Bloom filters: bits only, and the two hashes that go with them.

**False is a proof, true is a maybe**: a hash that was inserted always checks true. Which bytes of a value a writer
hashes is another matter: see :mod:`bloomparquet.orc.writer_quirks`.

A filter has m bits and k hash functions, which are made of one 64-bit hash: of its lower half h1 and its upper half h2,
``h1 + i * h2`` for i in 1..k. All of this is 32-bit arithmetic with a sign that wraps; a negative result is inverted
(``~``), and the remainder by m is the bit. Integers are hashed by Thomas Wang's function, bytes by a 64-bit Murmur3. No
library has either as ORC has it: what they call Murmur3 of 64 bits is half of the one of 128, and starts from another
seed.

Sources: ORC specification, "Bloom Filter Index"; apache/orc ``util/BloomFilter.java`` and ``util/Murmur3.java``;
Kirsch, Mitzenmacher, "Less Hashing, Same Performance", 2006 (k functions of two).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bloomparquet.errors import FormatError, LimitError, OptionError, UnsupportedError

Hashes = npt.NDArray[np.uint64]
Words = npt.NDArray[np.uint64]
Booleans = npt.NDArray[np.bool_]

MAX_BITS = (1 << 31) - 64
"""ORC counts bits by a signed 32-bit number."""

MAX_HASH_FUNCTIONS = 128
"""Far beyond what any false positive probability asks for (0.05 takes 4, a trillionth takes 40)."""

_BITS_PER_WORD = 64
_SEED = 104729
_BLOCK = 8
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
_ADD = 0x52DCE729
_FINAL_1, _FINAL_2 = 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53
_MASK = (1 << 64) - 1
_WORTH_NUMPY = 16
"""Byte strings side by side from which an array of them is faster than one after the other."""


def hash_longs(values: npt.NDArray[np.integer[Any]]) -> Hashes:
    """Thomas Wang's 64-bit hash of each integer, which is widened to a signed 64-bit one; the same shape.

    For integers, dates (days since 1970) and timestamps (milliseconds).
    """
    key = values.astype(np.int64)
    key = ~key + (key << 21)
    key ^= key >> 24
    key += (key << 3) + (key << 8)
    key ^= key >> 14
    key += (key << 2) + (key << 4)
    key ^= key >> 28
    key += key << 31
    return key.view(np.uint64)


def hash_doubles(values: npt.NDArray[np.floating[Any]]) -> Hashes:
    """The hash of each number's 64 bits; a float32 is widened first. The same shape.

    0.0 and -0.0 differ, and so do NaNs of different bits.
    """
    return hash_longs(values.astype(np.float64).view(np.int64))


def hash_bytes(values: Sequence[bytes]) -> Hashes:
    """Murmur3 of each byte string: the 64-bit variant of Hive, seed 104729."""
    if len(values) < _WORTH_NUMPY:
        return np.array([_murmur(value, _SEED, 0) for value in values], np.uint64)
    sizes = np.fromiter(map(len, values), np.int64, len(values))
    # The longest first: those that have a block left are always the first few.
    order = np.argsort(-sizes, kind="stable")
    sizes = sizes[order]
    padded = (sizes + _BLOCK) // _BLOCK
    ends = np.cumsum(padded)
    words = np.frombuffer(b"".join(values[i].ljust(int(n) * _BLOCK, b"\0") for i, n in zip(order, padded)), "<u8")
    starts = ends - padded
    blocks = sizes // _BLOCK
    state = np.full(len(values), _SEED, np.uint64)
    block = 0
    while (left := int(np.count_nonzero(blocks > block))) >= _WORTH_NUMPY:
        state[:left] = _mixed(state[:left], words[starts[:left] + block])
        block += 1
    done = np.empty(len(values), np.uint64)
    for i in range(left):  # the few that are longest
        done[order[i]] = _murmur(values[order[i]], int(state[i]), block)
    state, sizes, tails = state[left:], sizes[left:], words[(starts + blocks)[left:]]
    some = sizes % _BLOCK > 0
    state[some] ^= _scrambled(tails[some])
    state ^= sizes.astype(np.uint64)
    state ^= state >> np.uint64(33)
    state *= np.uint64(_FINAL_1)
    state ^= state >> np.uint64(33)
    state *= np.uint64(_FINAL_2)
    state ^= state >> np.uint64(33)
    done[order[left:]] = state
    return done


def _rotated(values: Hashes, by: int) -> Hashes:
    return (values << np.uint64(by)) | (values >> np.uint64(64 - by))


def _scrambled(words: Words) -> Hashes:
    return _rotated(words * np.uint64(_C1), 31) * np.uint64(_C2)


def _mixed(state: Hashes, words: Words) -> Hashes:
    return _rotated(state ^ _scrambled(words), 27) * np.uint64(5) + np.uint64(_ADD)


def _murmur(value: bytes, state: int, block: int) -> int:
    """The hash of `value`, from the state after the first `block` of its blocks."""
    whole = len(value) // _BLOCK * _BLOCK
    for at in range(block * _BLOCK, whole, _BLOCK):
        state ^= _scrambled_one(int.from_bytes(value[at : at + _BLOCK], "little"))
        state = (state << 27 | state >> 37) & _MASK
        state = (state * 5 + _ADD) & _MASK
    if whole < len(value):
        state ^= _scrambled_one(int.from_bytes(value[whole:], "little"))
    state ^= len(value)
    state ^= state >> 33
    state = state * _FINAL_1 & _MASK
    state ^= state >> 33
    state = state * _FINAL_2 & _MASK
    return state ^ state >> 33


def _scrambled_one(word: int) -> int:
    word = word * _C1 & _MASK
    word = (word << 31 | word >> 33) & _MASK
    return word * _C2 & _MASK


def optimal_size(ndv: int, fpp: float) -> tuple[int, int]:
    """The bits and the hash functions that ORC's writers give a filter of `ndv` values at the false positive
    probability `fpp`: ``(m, k)``, m a multiple of 64.

    Writers take the row index stride for `ndv`. A size that is a multiple of 64 by itself gets 64 more. Raises
    OptionError unless 0 < fpp < 1, LimitError where m is beyond :data:`MAX_BITS`.
    """
    if not 0 < fpp < 1:
        raise OptionError(f"fpp is {fpp}; expected a number above 0 and below 1")
    ndv = max(ndv, 1)
    bits = int(-ndv * math.log(fpp) / (math.log(2) * math.log(2)))
    bits += _BITS_PER_WORD - bits % _BITS_PER_WORD
    if bits > MAX_BITS:
        raise LimitError(f"a filter of {bits} bits; expected at most {MAX_BITS}")
    return bits, max(1, math.floor(bits / ndv * math.log(2) + 0.5))


def bit_positions(hashes: Hashes, k: int, bits: int) -> npt.NDArray[np.int64]:
    """The bits that each hash sets: shape (…) becomes (…, k), numbers in 0..bits-1.

    ``lower + i * upper`` for i in 1..k, where both halves and all that is made of them are signed 32-bit numbers that
    wrap; a negative one is inverted.
    """
    lower = hashes.astype(np.uint32)
    upper = (hashes >> np.uint64(32)).astype(np.uint32)
    steps = np.arange(1, k + 1, dtype=np.uint32)
    combined = (lower[..., np.newaxis] + steps * upper[..., np.newaxis]).view(np.int32)
    combined ^= combined >> np.int32(31)
    return combined.astype(np.int64) % bits


class OrcBloomFilter:
    """A filter of `k` hash functions over 64 bits for every word of `words`, of which bit i is bit i % 64 of word
    i // 64.

    Raises FormatError for k or m of 0, LimitError beyond :data:`MAX_HASH_FUNCTIONS` and :data:`MAX_BITS`.
    """

    __slots__ = ("_words", "k")

    def __init__(self, k: int, words: Words) -> None:
        if k < 1 or not len(words):
            raise FormatError(
                f"a Bloom filter of {k} hash functions and {len(words) * _BITS_PER_WORD} bits; "
                "expected at least one of each"
            )
        if k > MAX_HASH_FUNCTIONS:
            raise LimitError(f"a Bloom filter of {k} hash functions; expected at most {MAX_HASH_FUNCTIONS}")
        if len(words) * _BITS_PER_WORD > MAX_BITS:
            raise LimitError(f"a Bloom filter of {len(words) * _BITS_PER_WORD} bits; expected at most {MAX_BITS}")
        self.k = k
        self._words = words

    @classmethod
    def for_ndv(cls, ndv: int, fpp: float) -> OrcBloomFilter:
        """An empty filter of the size that ORC's writers give it: see :func:`optimal_size`."""
        bits, k = optimal_size(ndv, fpp)
        return cls(k, np.zeros(bits // _BITS_PER_WORD, np.uint64))

    @property
    def words(self) -> Words:
        view = self._words.view()
        view.flags.writeable = False
        return view

    @property
    def bits(self) -> int:
        return len(self._words) * _BITS_PER_WORD

    @property
    def bits_set(self) -> int:
        return int(np.bitwise_count(self._words).sum())

    @property
    def estimated_ndv(self) -> float:
        """How many distinct values were inserted, judged by the bits; infinite where all are set."""
        unset = 1 - self.bits_set / self.bits
        return math.inf if unset <= 0 else -self.bits / self.k * math.log(unset)

    @property
    def estimated_fpp(self) -> float:
        """The share of absent values that check true, judged by the bits."""
        return float((self.bits_set / self.bits) ** self.k)

    def insert(self, hashes: Hashes) -> None:
        """Insert every hash of an array of any shape."""
        if not self._words.flags.writeable:
            self._words = self._words.copy()
        at = bit_positions(hashes, self.k, self.bits).reshape(-1)
        np.bitwise_or.at(self._words, at >> 6, np.uint64(1) << (at & 63).astype(np.uint64))

    def check(self, hashes: Hashes) -> Booleans:
        """Whether each hash may have been inserted; **false is a proof, true is a maybe**. The same shape."""
        found: Booleans = check_filters([self], hashes)[0]
        return found

    @classmethod
    def from_message(cls, message: Any, *, utf8: bool) -> OrcBloomFilter:
        """The filter in a BloomFilter message, of a stream BLOOM_FILTER_UTF8 if `utf8`, else BLOOM_FILTER.

        Raises FormatError where bits are missing, or are no multiple of 64, UnsupportedError where there is more to it
        than is known here, as in files before the first release, and what the constructor raises.
        """
        known = type(message)()
        known.CopyFrom(message)
        known.DiscardUnknownFields()
        if known.ByteSize() != message.ByteSize() or (message.HasField("utf8bitset") if not utf8 else message.bitset):
            raise UnsupportedError("a Bloom filter in another layout than that of ORC's releases")
        if not utf8:
            return cls(message.num_hash_functions, np.array(message.bitset, np.uint64))
        data = message.utf8bitset
        if len(data) % 8:
            raise FormatError(f"a Bloom filter of {len(data)} bytes; expected a multiple of 8")
        return cls(message.num_hash_functions, np.frombuffer(data, "<u8"))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(k={self.k}, bits={self.bits}, bits_set={self.bits_set})"


def check_filters(filters: Sequence[OrcBloomFilter], hashes: Hashes) -> Booleans:
    """Whether each filter may hold each hash: shape (filters, *hashes.shape). **False is a proof, true is a maybe.**

    The filters of a data set are of few sizes: the bits of a hash are worked out once for all of one size.
    """
    found = np.empty((len(filters), *hashes.shape), np.bool_)
    shapes: dict[tuple[int, int], list[int]] = {}
    for i, each in enumerate(filters):
        shapes.setdefault((each.k, each.bits), []).append(i)
    for (k, bits), members in shapes.items():
        at = bit_positions(hashes, k, bits)
        word, bit = at >> 6, (at & 63).astype(np.uint64)
        for i in members:
            found[i] = ((filters[i]._words[word] >> bit) & np.uint64(1)).all(axis=-1)
    return found
