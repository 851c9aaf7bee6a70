"""XXH64 with seed 0: the one hash function of Parquet's Bloom filters.

This file turns plain-encoded values into 64-bit hashes; which bytes a value has is not its business. The ``xxhash``
library hashes one byte string per call, about 30 million a second, so it does the strings. A column of fixed-width
values has the same few steps for every value, so whole arrays go through each step at once: ten times faster, with no
Python object per value.

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

_STRIPE = 32
"""Bytes from which XXH64 runs four lanes side by side; shorter input takes only the steps written here."""

_CHUNK = 1 << 14
"""Values hashed at a time: their hashes and two scratch arrays stay in a core's second-level cache."""


def xxh64_int32(values: npt.NDArray[Any]) -> Hashes:
    """Hash each 4-byte value of an array of any shape.

    Any 4-byte type is taken by its bits, in little-endian order: int32, uint32, float32. Narrower integers are stored
    as INT32 in Parquet: widen them first. Returns hashes of the same shape; raises TypeError for another width.
    """
    return _xxh64_items(values, 4)


def xxh64_int64(values: npt.NDArray[Any]) -> Hashes:
    """Hash each 8-byte value of an array of any shape.

    Any 8-byte type is taken by its bits, in little-endian order: int64, uint64, float64, datetime64.
    Returns hashes of the same shape; raises TypeError for another width.
    """
    return _xxh64_items(values, 8)


def xxh64_fixed(rows: npt.NDArray[np.uint8]) -> Hashes:
    """Hash each row of an (n, width) matrix of bytes: values of FIXED_LEN_BYTE_ARRAY(width) or INT96.

    Returns n hashes; raises TypeError for anything that is not a two-dimensional array of uint8.
    """
    if rows.ndim != 2 or rows.dtype != np.uint8:
        raise TypeError(f"expected an (n, width) array of uint8, found shape {rows.shape} of {rows.dtype}")
    count, width = rows.shape
    if width >= _STRIPE:
        return xxh64_bytes(row.tobytes() for row in rows)
    rows = np.ascontiguousarray(rows)
    hashes = np.full(count, np.uint64(_PRIME_5 + width))
    lanes = np.empty(min(count, _CHUNK), np.uint64)
    scratch = np.empty_like(lanes)
    for start in range(0, count, _CHUNK):
        part = hashes[start : start + _CHUNK]
        _absorb(part, rows[start : start + _CHUNK], lanes[: part.size], scratch[: part.size])
        _avalanche(part, scratch[: part.size])
    return hashes


def xxh64_bytes(values: Iterable[bytes]) -> Hashes:
    """Hash each byte string: values of BYTE_ARRAY, without the length that precedes them in a page.

    Returns one hash per value, in order.
    """
    return np.fromiter(map(xxhash.xxh64_intdigest, values), dtype=np.uint64)


def _xxh64_items(values: npt.NDArray[Any], width: int) -> Hashes:
    if values.dtype.itemsize != width or values.dtype.hasobject:
        raise TypeError(f"expected values of {width} bytes, found {values.dtype}")
    little_endian = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    return xxh64_fixed(little_endian.reshape(-1).view(np.uint8).reshape(-1, width)).reshape(values.shape)


def _absorb(hashes: Hashes, rows: npt.NDArray[np.uint8], lane: Hashes, scratch: Hashes) -> None:
    """Mix the columns of `rows` into `hashes`, in place: 8 bytes at a time, then 4, then single bytes."""
    width = rows.shape[1]
    at = 0
    while width - at >= 8:
        np.multiply(rows[:, at : at + 8].view("<u8")[:, 0], _PRIME_2, out=lane)
        _rotate_left(lane, 31, scratch)
        lane *= _PRIME_1
        hashes ^= lane
        _rotate_left(hashes, 27, scratch)
        hashes *= _PRIME_1
        hashes += _PRIME_4
        at += 8
    if width - at >= 4:
        np.multiply(rows[:, at : at + 4].view("<u4")[:, 0], _PRIME_1, out=lane)
        hashes ^= lane
        _rotate_left(hashes, 23, scratch)
        hashes *= _PRIME_2
        hashes += _PRIME_3
        at += 4
    while at < width:
        np.multiply(rows[:, at], np.uint64(_PRIME_5), out=lane)
        hashes ^= lane
        _rotate_left(hashes, 11, scratch)
        hashes *= _PRIME_1
        at += 1


def _avalanche(hashes: Hashes, scratch: Hashes) -> None:
    """Let every input bit reach every output bit, in place."""
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
