"""ORC's Bloom filter: published test vectors, and properties of every filter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloomparquet.errors import FormatError, LimitError, UnsupportedError
from bloomparquet.orc import protobuf as messages
from bloomparquet.orc.bloom_filter import (
    MAX_BITS,
    MAX_HASH_FUNCTIONS,
    OrcBloomFilter,
    bit_positions,
    hash_bytes,
    hash_doubles,
    hash_longs,
)
from tests.support.orc import bloom_message, filter_of

TALE = (
    b"It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness, "
    b"it was the epoch of belief, it was the epoch of incredulity, it was the season of Light, it was the season of "
    b"Darkness, it was the spring of hope, it was the winter of despair, we had everything before us, we had nothing "
    b"before us, we were all going direct to Heaven, we were all going direct the other way."
)

WORDS = [0x8040201008040201, 0x7FBFDFEFF7FBFDFE]


def longs(*values: int) -> np.ndarray:
    return hash_longs(np.array(values, np.int64))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0),
        (-1, 6614246905173314819),
        (-9223372036854775807, -9102499068535824902),
        (18000000000, -1097054448615658549),
        (9223372036064673413, -4986173376161118712),
    ],
)
def test_integers_hash_as_published(value: int, expected: int) -> None:
    assert longs(value).view(np.int64) == [expected]


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32])
def test_narrow_integers_are_widened_with_their_sign(dtype: type) -> None:
    assert (hash_longs(np.array([-5, 5], dtype)) == longs(-5, 5)).all()


def test_bytes_hash_as_published() -> None:
    assert hash_bytes([TALE]).view(np.int64) == [305830725663368540]


@pytest.mark.parametrize(
    ("hashes", "expected"),
    [
        (longs(1), [567, 288, 246, 306, 228]),
        (longs(0), [0, 0, 0, 0, 0]),
        (longs(-1111), [572, 680, 818, 434, 232]),
        (hash_doubles(np.array([1.1])), [522, 692, 12, 370, 753]),
        (hash_doubles(np.array([-1111.1111])), [308, 346, 384, 422, 371]),
        (hash_bytes([b"english"]), [576, 221, 68, 729, 392]),
        (hash_bytes(["中国字".encode()]), [602, 636, 44, 362, 318]),
    ],
)
def test_bits_are_as_published(hashes: np.ndarray, expected: list[int]) -> None:
    assert bit_positions(hashes, 5, 832).tolist() == [expected]


def test_floats_hash_as_the_doubles_they_are() -> None:
    assert hash_doubles(np.array([0.1], np.float32)) == hash_doubles(np.array([float(np.float32(0.1))]))
    assert hash_doubles(np.array([0.1], np.float32)) != hash_doubles(np.array([0.1]))
    assert hash_doubles(np.array([0.0])) != hash_doubles(np.array([-0.0]))


@pytest.mark.parametrize("longest", [0, 7, 8, 9, 70])
def test_many_byte_strings_hash_like_each_alone(longest: int) -> None:
    """The strings have up to `longest` bytes, in any order, and a few have many more."""
    rng = np.random.default_rng(longest)
    values = [rng.bytes(n) for n in [*rng.integers(0, longest + 1, 300).tolist(), 200, 203, 1_000]]
    rng.shuffle(values)
    assert hash_bytes(values).tolist() == [int(hash_bytes([value])[0]) for value in values]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=200), st.integers(1, 300), st.integers(1, 12))
def test_inserted_values_are_never_denied(values: list[int], words: int, k: int) -> None:
    bloom = filter_of(longs(*values), k=k, words=words)
    assert bloom.check(longs(*values)).all()
    for utf8 in (True, False):
        message = messages.BloomFilter.FromString(bloom_message(bloom, utf8=utf8).SerializeToString())
        parsed = OrcBloomFilter.from_message(message, utf8=utf8)
        assert parsed.k == k
        assert (parsed.words == bloom.words).all()


def test_32_bit_numbers_wrap_and_negative_ones_are_inverted() -> None:
    rng = np.random.default_rng(3)
    hashes = rng.integers(0, 2**64, 500, np.uint64)
    for hashed, positions in zip(hashes.tolist(), bit_positions(hashes, 40, 6400).tolist(), strict=True):
        lower, upper = hashed & 0xFFFFFFFF, hashed >> 32
        for i, bit in enumerate(positions, 1):
            combined = (lower + i * upper) & 0xFFFFFFFF
            signed = combined - 2**32 if combined >= 2**31 else combined
            assert bit == (~signed if signed < 0 else signed) % 6400


def test_the_words_are_little_endian_bytes() -> None:
    stored = bytes([1, 2, 4, 8, 16, 32, 64, 128, 254, 253, 251, 247, 239, 223, 191, 127])
    bloom = OrcBloomFilter.from_message(messages.BloomFilter(num_hash_functions=1, utf8bitset=stored), utf8=True)
    assert bloom.words.tolist() == WORDS
    of_words = OrcBloomFilter.from_message(messages.BloomFilter(num_hash_functions=1, bitset=WORDS), utf8=False)
    assert (of_words.words.tolist(), of_words.words.dtype) == (WORDS, np.uint64)


def test_filters_up_to_the_limits_are_read() -> None:
    most = np.broadcast_to(np.uint64(0), (MAX_BITS // 64 + 1,))  # takes no memory
    assert OrcBloomFilter(MAX_HASH_FUNCTIONS, most[1:]).bits == MAX_BITS
    with pytest.raises(LimitError, match=f"{MAX_BITS + 64} bits"):
        OrcBloomFilter(1, most)


def test_estimates_match_the_false_positives() -> None:
    bloom = filter_of(longs(*range(10_000)), k=4, words=975)
    wrong = bloom.check(longs(*range(10_000, 60_000))).mean()
    assert wrong == pytest.approx(0.05, rel=0.15)
    assert bloom.estimated_fpp == pytest.approx(wrong, rel=0.15)
    assert bloom.estimated_ndv == pytest.approx(10_000, rel=0.03)


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (messages.BloomFilter(num_hash_functions=0, utf8bitset=bytes(8)), FormatError),
        (messages.BloomFilter(utf8bitset=bytes(8)), FormatError),
        (messages.BloomFilter(num_hash_functions=3), FormatError),
        (messages.BloomFilter(num_hash_functions=3, utf8bitset=bytes(12)), FormatError),
        (messages.BloomFilter(num_hash_functions=3, bitset=[1]), UnsupportedError),
        (messages.BloomFilter(num_hash_functions=MAX_HASH_FUNCTIONS + 1, utf8bitset=bytes(8)), LimitError),
    ],
)
def test_an_impossible_filter_is_an_error(message: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        OrcBloomFilter.from_message(message, utf8=True)


def test_a_filter_with_unknown_fields_is_refused() -> None:
    # Before the first release: expected entries, fpp (which looks like a word of bits), and the bits as varints.
    raw = bytes.fromhex("08904e119a9999999999a93f188002")
    with pytest.raises(UnsupportedError, match="layout"):
        OrcBloomFilter.from_message(messages.BloomFilter.FromString(raw), utf8=False)
