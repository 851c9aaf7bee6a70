"""XXH64: the vectorised form, the library and a slow reference written from the specification are one function."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from bloomparquet.parquet.bloom_filter.xxh64 import xxh64_bytes, xxh64_int32, xxh64_int64

M = (1 << 64) - 1
P1, P2, P3, P4, P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)

# XXH64, seed 0, of the bytes 0, 1, …, n-1 for n = 0..31: the table that the tests of parquet-java and Arrow C++ share.
PUBLISHED = [
    -1205034819632174695, -1642502924627794072, 5216751715308240086, -1889335612763511331,
    -13835840860730338, -2521325055659080948, 4867868962443297827, 1498682999415010002,
    -8626056615231480947, 7482827008138251355, -617731006306969209, 7289733825183505098,
    4776896707697368229, 1428059224718910376, 6690813482653982021, -6248474067697161171,
    4951407828574235127, 6198050452789369270, 5776283192552877204, -626480755095427154,
    -6637184445929957204, 8370873622748562952, -1705978583731280501, -7898818752540221055,
    -2516210193198301541, 8356900479849653862, -4413748141896466000, -6040072975510680789,
    1451490609699316991, -7948005844616396060, 8567048088357095527, -4375578310507393311,
]  # fmt: skip


def reference_xxh64(data: bytes) -> int:
    """XXH64 with seed 0, one step per line, from xxHash's doc/xxhash_spec.md."""

    def rotate(value: int, by: int) -> int:
        return ((value << by) | (value >> (64 - by))) & M

    def step(lane: int, value: int) -> int:
        return rotate((lane + value * P2) & M, 31) * P1 & M

    at = 0
    if len(data) >= 32:
        lanes = [(P1 + P2) & M, P2, 0, -P1 & M]
        while len(data) - at >= 32:
            for i in range(4):
                lanes[i] = step(lanes[i], struct.unpack_from("<Q", data, at + 8 * i)[0])
            at += 32
        total = sum(rotate(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18))) & M
        for lane in lanes:
            total = ((total ^ step(0, lane)) * P1 + P4) & M
    else:
        total = P5
    total = (total + len(data)) & M
    while len(data) - at >= 8:
        total = (rotate(total ^ step(0, struct.unpack_from("<Q", data, at)[0]), 27) * P1 + P4) & M
        at += 8
    if len(data) - at >= 4:
        total = (rotate(total ^ (struct.unpack_from("<I", data, at)[0] * P1 & M), 23) * P2 + P3) & M
        at += 4
    for byte in data[at:]:
        total = rotate(total ^ (byte * P5 & M), 11) * P1 & M
    total = (total ^ (total >> 33)) * P2 & M
    total = (total ^ (total >> 29)) * P3 & M
    return total ^ (total >> 32)


def library(values: npt.NDArray[Any]) -> list[int]:
    return [xxhash.xxh64_intdigest(value.tobytes()) for value in values.reshape(-1)]


def test_the_empty_string_has_the_hash_that_arrow_rs_asserts() -> None:
    assert xxh64_bytes([b""]).tolist() == [17241709254077376921]


@pytest.mark.parametrize("length", range(32))
def test_every_form_gives_the_published_hashes(length: int) -> None:
    data = bytes(range(length))
    expected = [PUBLISHED[length] & M]
    assert [reference_xxh64(data)] == expected
    assert xxh64_bytes([data]).tolist() == expected


@given(st.lists(st.binary(max_size=100), max_size=20))
def test_byte_strings_hash_as_the_reference_says(values: list[bytes]) -> None:
    assert xxh64_bytes(values).tolist() == [reference_xxh64(value) for value in values]


@given(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=50))
def test_four_byte_values_hash_as_their_little_endian_bytes(values: list[int]) -> None:
    expected = [reference_xxh64(struct.pack("<i", value)) for value in values]
    assert xxh64_int32(np.array(values, dtype=np.int32)).tolist() == expected
    assert xxh64_int32(np.array(values, dtype=np.int32).view(np.uint32)).tolist() == expected
    assert xxh64_int32(np.array(values, dtype=">i4")).tolist() == expected


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=50))
def test_eight_byte_values_hash_as_their_little_endian_bytes(values: list[int]) -> None:
    expected = [reference_xxh64(struct.pack("<q", value)) for value in values]
    assert xxh64_int64(np.array(values, dtype=np.int64)).tolist() == expected
    assert xxh64_int64(np.array(values, dtype=np.int64).view(np.uint64)).tolist() == expected
    assert xxh64_int64(np.array(values, dtype=">i8")).tolist() == expected


def test_floats_hash_by_their_bits() -> None:
    doubles = np.array([0.0, -0.0, 1.5, np.inf, np.nan])
    assert xxh64_int64(doubles).tolist() == library(doubles)
    assert xxh64_int32(doubles.astype(np.float32)).tolist() == library(doubles.astype(np.float32))
    assert len(set(xxh64_int64(doubles).tolist())) == 5


@pytest.mark.parametrize("count", [0, 1, (1 << 14) - 1, 1 << 14, (1 << 14) + 1, 3 * (1 << 14) + 5])
def test_hashes_are_right_at_chunk_borders(count: int) -> None:
    values = np.random.default_rng(count).integers(-(2**63), 2**63, count, dtype=np.int64)
    assert xxh64_int64(values).tolist() == library(values)


def test_hashes_have_the_shape_of_strided_values() -> None:
    values = np.arange(24, dtype=np.int32).reshape(4, 6)[::2, ::-1]
    assert xxh64_int32(values).shape == (2, 6)
    assert xxh64_int32(values).reshape(-1).tolist() == library(np.ascontiguousarray(values))
    assert xxh64_int64(np.array(7)).shape == ()


def test_hashing_does_not_change_its_input() -> None:
    values = np.arange(100, dtype=np.int64)
    xxh64_int64(values)
    assert values.tolist() == list(range(100))


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.int16, np.float16, np.int64, np.complex128, object])
def test_values_of_another_width_are_an_error(dtype: npt.DTypeLike) -> None:
    with pytest.raises(TypeError, match="expected a type of 4 bytes"):
        xxh64_int32(np.zeros(3, dtype=dtype))
