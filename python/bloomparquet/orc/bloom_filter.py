"""ORC's Bloom filters: bits, and the two hash functions that go with them.

**False is a proof, true is a maybe**: a hash that was inserted always checks true.
:mod:`bloomparquet.orc.writer_quirks` knows which bytes of a value a writer hashes.

A filter has m bits and k hash functions. All k are made of one 64-bit hash with the lower half h1 and the upper half
h2: function i is ``h1 + i * h2`` for i in 1..k, in signed 32-bit arithmetic that wraps. A negative result is inverted
(``~``), and the remainder by m is the bit. Integers are hashed by Thomas Wang's function, bytes by a 64-bit Murmur3. No
library has either function in ORC's form: what libraries call 64-bit Murmur3 is half of the 128-bit one, with another
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

from bloomparquet.errors import FormatError, LimitError, UnsupportedError

Hashes = npt.NDArray[np.uint64]
Words = npt.NDArray[np.uint64]
Booleans = npt.NDArray[np.bool_]

MAX_BITS = (1 << 31) - 64
"""The most bits of a filter: ORC counts them in a signed 32-bit number."""

MAX_HASH_FUNCTIONS = 128
"""Far more than any false positive probability needs: 0.05 takes 4, 1e-12 takes 40."""

_BITS_PER_WORD = 64
_SEED = 104729
_BLOCK = 8
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
_ADD = 0x52DCE729
_FINAL_1, _FINAL_2 = 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53
_MASK = (1 << 64) - 1
_MIN_VECTORIZED = 16  # fewer byte strings are faster to hash one after the other


def hash_longs(values: npt.NDArray[np.integer[Any]]) -> Hashes:
    """Thomas Wang's 64-bit hash of each integer, widened to a signed 64-bit one. The shape of `values` is kept.

    Dates are hashed as days since 1970, timestamps as milliseconds.
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
    """The hash of each number's 64 bits; a float32 is widened first. The shape of `values` is kept.

    0.0 and -0.0 have different hashes, and so do NaNs of different bits.
    """
    return hash_longs(values.astype(np.float64).view(np.int64))


def hash_bytes(values: Sequence[bytes]) -> Hashes:
    """Hive's 64-bit variant of Murmur3 of each byte string, with seed 104729."""
    if len(values) < _MIN_VECTORIZED:
        return np.array([_murmur(value, _SEED, 0) for value in values], np.uint64)
    sizes = np.fromiter(map(len, values), np.int64, len(values))
    # Longest first: then the strings that have a block left are always the first ones.
    order = np.argsort(-sizes, kind="stable")
    sizes = sizes[order]
    padded = (sizes + _BLOCK) // _BLOCK
    ends = np.cumsum(padded)
    words = np.frombuffer(b"".join(values[i].ljust(int(n) * _BLOCK, b"\0") for i, n in zip(order, padded)), "<u8")
    starts = ends - padded
    blocks = sizes // _BLOCK
    state = np.full(len(values), _SEED, np.uint64)
    block = 0
    while (left := int(np.count_nonzero(blocks > block))) >= _MIN_VECTORIZED:
        state[:left] = _mix(state[:left], words[starts[:left] + block])
        block += 1
    hashes = np.empty(len(values), np.uint64)
    for i in range(left):  # the few longest strings
        hashes[order[i]] = _murmur(values[order[i]], int(state[i]), block)
    state, sizes, tails = state[left:], sizes[left:], words[(starts + blocks)[left:]]
    has_tail = sizes % _BLOCK > 0
    state[has_tail] ^= _scramble(tails[has_tail])
    state ^= sizes.astype(np.uint64)
    state ^= state >> np.uint64(33)
    state *= np.uint64(_FINAL_1)
    state ^= state >> np.uint64(33)
    state *= np.uint64(_FINAL_2)
    state ^= state >> np.uint64(33)
    hashes[order[left:]] = state
    return hashes


def _rotate(values: Hashes, by: int) -> Hashes:
    return (values << np.uint64(by)) | (values >> np.uint64(64 - by))


def _scramble(words: Words) -> Hashes:
    return _rotate(words * np.uint64(_C1), 31) * np.uint64(_C2)


def _mix(state: Hashes, words: Words) -> Hashes:
    return _rotate(state ^ _scramble(words), 27) * np.uint64(5) + np.uint64(_ADD)


def _murmur(value: bytes, state: int, block: int) -> int:
    """The hash of `value`, given the state after its first `block` blocks."""
    whole = len(value) // _BLOCK * _BLOCK
    for start in range(block * _BLOCK, whole, _BLOCK):
        state ^= _scramble_word(int.from_bytes(value[start : start + _BLOCK], "little"))
        state = (state << 27 | state >> 37) & _MASK
        state = (state * 5 + _ADD) & _MASK
    if whole < len(value):
        state ^= _scramble_word(int.from_bytes(value[whole:], "little"))
    state ^= len(value)
    state ^= state >> 33
    state = state * _FINAL_1 & _MASK
    state ^= state >> 33
    state = state * _FINAL_2 & _MASK
    return state ^ state >> 33


def _scramble_word(word: int) -> int:
    word = word * _C1 & _MASK
    word = (word << 31 | word >> 33) & _MASK
    return word * _C2 & _MASK


def bit_positions(hashes: Hashes, k: int, bits: int) -> npt.NDArray[np.int64]:
    """The bits in 0..bits-1 that each hash sets: shape (…) becomes (…, k)."""
    lower = hashes.astype(np.uint32)
    upper = (hashes >> np.uint64(32)).astype(np.uint32)
    factors = np.arange(1, k + 1, dtype=np.uint32)
    combined = (lower[..., np.newaxis] + factors * upper[..., np.newaxis]).view(np.int32)
    combined ^= combined >> np.int32(31)  # inverts the negative ones
    return combined.astype(np.int64) % bits


class OrcBloomFilter:
    """A filter of `k` hash functions over 64 bits for each of `words`: bit i is bit i % 64 of word i // 64.

    Raises FormatError if k or the number of bits is 0, LimitError beyond :data:`MAX_HASH_FUNCTIONS` and
    :data:`MAX_BITS`.
    """

    __slots__ = ("_words", "k")

    def __init__(self, k: int, words: Words) -> None:
        bits = len(words) * _BITS_PER_WORD
        if k < 1 or not bits:
            raise FormatError(f"a Bloom filter of {k} hash functions and {bits} bits; expected at least one of each")
        if k > MAX_HASH_FUNCTIONS:
            raise LimitError(f"a Bloom filter of {k} hash functions; expected at most {MAX_HASH_FUNCTIONS}")
        if bits > MAX_BITS:
            raise LimitError(f"a Bloom filter of {bits} bits; expected at most {MAX_BITS}")
        self.k = k
        self._words = words

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
        """The number of distinct values, estimated from the bits; infinite if all bits are set."""
        unset = 1 - self.bits_set / self.bits
        return math.inf if unset <= 0 else -self.bits / self.k * math.log(unset)

    @property
    def estimated_fpp(self) -> float:
        """The share of absent values that check true, estimated from the bits."""
        return float((self.bits_set / self.bits) ** self.k)

    def check(self, hashes: Hashes) -> Booleans:
        """Whether each hash may have been inserted. **False is a proof, true is a maybe.** The shape is kept."""
        positions = bit_positions(hashes, self.k, self.bits)
        bits = self._words[positions >> 6] >> (positions & 63).astype(np.uint64)
        answers: Booleans = (bits & np.uint64(1)).astype(np.bool_).all(axis=-1)
        return answers

    @classmethod
    def from_message(cls, message: Any, *, utf8: bool) -> OrcBloomFilter:
        """The filter in a BloomFilter message of a BLOOM_FILTER_UTF8 stream if `utf8`, else of a BLOOM_FILTER stream.

        Raises FormatError if the bits are missing or not a multiple of 64, UnsupportedError if the message has other
        fields, as in files before ORC's first release, and what the constructor raises.
        """
        known = type(message)()
        known.CopyFrom(message)
        known.DiscardUnknownFields()
        if known.ByteSize() != message.ByteSize() or (message.bitset if utf8 else message.HasField("utf8bitset")):
            raise UnsupportedError("a Bloom filter in a layout that no release of ORC writes")
        if not utf8:
            return cls(message.num_hash_functions, np.array(message.bitset, np.uint64))
        data = message.utf8bitset
        if len(data) % 8:
            raise FormatError(f"a Bloom filter of {len(data)} bytes; expected a multiple of 8")
        return cls(message.num_hash_functions, np.frombuffer(data, "<u8"))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(k={self.k}, bits={self.bits}, bits_set={self.bits_set})"
