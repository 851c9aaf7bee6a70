"""XXH64 with seed 0: the only hash function of Parquet's Bloom filters.

This module hashes plain-encoded values. Strings go through the ``xxhash`` library, one call each, about 30 million a
second. Values of fixed width all need the same few steps, so numpy does each step for a whole array: ten times faster,
without a Python object for each value.

Sources: parquet-format BloomFilter.md, "Hash Function"; the XXH64 algorithm in xxHash's doc/xxhash_spec.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

Hashes = npt.NDArray[np.uint64]

_PRIME_1 = np.uint64(0x9E3779B185EBCA87)
_PRIME_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_PRIME_3 = np.uint64(0x165667B19E3779F9)
_PRIME_4 = np.uint64(0x85EBCA77C2B2AE63)
_PRIME_5 = 0x27D4EB2F165667C5

_CHUNK = 1 << 14
"""Values hashed at a time: their hashes and two scratch arrays fit into a core's second-level cache."""
_FEW = 48
"""Fewer values are hashed sooner one by one."""


def xxh64_int32(values: npt.NDArray[Any]) -> Hashes:
    """Hash each 4-byte value (int32, uint32, float32) of an array of any shape, by its little-endian bytes.

    Parquet stores narrower integers as INT32: widen them first. Raises TypeError for another width.
    """
    return _xxh64_items(values, 4)


def xxh64_int64(values: npt.NDArray[Any]) -> Hashes:
    """Hash each 8-byte value (int64, uint64, float64, datetime64) of an array of any shape, by its little-endian bytes.

    Raises TypeError for another width.
    """
    return _xxh64_items(values, 8)


def xxh64_bytes(values: Iterable[bytes]) -> Hashes:
    """Hash each byte string: values of BYTE_ARRAY without the length that precedes them in a page."""
    return np.fromiter(map(xxhash.xxh64_intdigest, values), dtype=np.uint64)


def _xxh64_items(values: npt.NDArray[Any], width: int) -> Hashes:
    if values.dtype.itemsize != width or values.dtype.hasobject:
        raise TypeError(f"the values are {values.dtype}; expected a type of {width} bytes")
    little_endian = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    if values.size < _FEW:
        raw = little_endian.tobytes()
        items = (raw[i : i + width] for i in range(0, len(raw), width))
        return np.fromiter(map(xxhash.xxh64_intdigest, items), np.uint64).reshape(values.shape)
    words = little_endian.reshape(-1).view(f"<u{width}")
    hashes = np.full(words.size, np.uint64(_PRIME_5 + width))
    lanes = np.empty(min(words.size, _CHUNK), np.uint64)
    scratch = np.empty_like(lanes)
    for start in range(0, words.size, _CHUNK):
        part = hashes[start : start + _CHUNK]
        _absorb(part, words[start : start + _CHUNK], lanes[: part.size], scratch[: part.size])
        _avalanche(part, scratch[: part.size])
    return hashes.reshape(values.shape)


def _absorb(hashes: Hashes, words: npt.NDArray[Any], lane: Hashes, scratch: Hashes) -> None:
    """Mix words of 8 or of 4 bytes into `hashes` in place."""
    if words.dtype.itemsize == 8:
        np.multiply(words, _PRIME_2, out=lane)
        _rotate_left(lane, 31, scratch)
        lane *= _PRIME_1
        hashes ^= lane
        _rotate_left(hashes, 27, scratch)
        hashes *= _PRIME_1
        hashes += _PRIME_4
    else:
        np.multiply(words, _PRIME_1, out=lane)
        hashes ^= lane
        _rotate_left(hashes, 23, scratch)
        hashes *= _PRIME_2
        hashes += _PRIME_3


def _avalanche(hashes: Hashes, scratch: Hashes) -> None:
    """The final mix of each hash, in place: every input bit changes every output bit."""
    for shift, prime in ((33, _PRIME_2), (29, _PRIME_3)):
        np.right_shift(hashes, np.uint64(shift), out=scratch)
        hashes ^= scratch
        hashes *= prime
    np.right_shift(hashes, np.uint64(32), out=scratch)
    hashes ^= scratch


def _rotate_left(values: Hashes, by: int, scratch: Hashes) -> None:
    np.left_shift(values, np.uint64(by), out=scratch)
    values >>= np.uint64(64 - by)
    values |= scratch
