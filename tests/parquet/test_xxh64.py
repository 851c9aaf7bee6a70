"""XXH64: the vectorised form, the library and the published hashes are one function."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from bloomparquet.parquet.bloom_filter.xxh64 import xxh64_bytes, xxh64_int32, xxh64_int64

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


def library(values: npt.NDArray[Any]) -> list[int]:
    return [xxhash.xxh64_intdigest(value.tobytes()) for value in values.reshape(-1)]


@pytest.mark.parametrize("length", range(32))
def test_every_form_gives_the_published_hashes(length: int) -> None:
    data = bytes(range(length))
    expected = [PUBLISHED[length] % 2**64]
    assert xxh64_bytes([data]).tolist() == expected
    for width, vectorised in ((4, xxh64_int32), (8, xxh64_int64)):
        if length == width:
            assert vectorised(np.tile(np.frombuffer(data, f"<i{width}"), 100)).tolist() == expected * 100


@given(st.lists(st.binary(max_size=100), max_size=20))
def test_byte_strings_hash_as_the_reference_says(values: list[bytes]) -> None:
    assert xxh64_bytes(values).tolist() == list(map(xxhash.xxh64_intdigest, values))


@pytest.mark.parametrize("bits", [32, 64])
@given(data=st.data())
def test_integers_hash_as_their_little_endian_bytes(bits: int, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1), max_size=100))
    expected = [xxhash.xxh64_intdigest(value.to_bytes(bits // 8, "little", signed=True)) for value in values]
    hashed = xxh64_int32 if bits == 32 else xxh64_int64
    stored = np.array(values, dtype=f"<i{bits // 8}")
    for array in (stored, stored.view(f"<u{bits // 8}"), stored.astype(f">i{bits // 8}")):
        assert hashed(array).tolist() == expected


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


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.int16, np.float16, np.int64, np.complex128, object])
def test_values_of_another_width_are_an_error(dtype: npt.DTypeLike) -> None:
    with pytest.raises(TypeError, match="expected a type of 4 bytes"):
        xxh64_int32(np.zeros(3, dtype=dtype))
