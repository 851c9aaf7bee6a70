"""The sizes of filters, and their expected and estimated false positive probabilities."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloomparquet.errors import OptionError
from bloomparquet.parquet.bloom_filter import sizes
from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.parquet.bloom_filter.xxh64 import xxh64_int64
from tests.support.block_filters import filled, values


def measured_fpp(of: SplitBlockBloomFilter) -> float:
    """The share of absent values that check true. Of so many values, about 10,000 do, unless these were too many."""
    return float(of.check(values(10**12, min(4_000_000, int(10_000 / of.estimated_fpp)))).mean())


@pytest.mark.parametrize(("ndv", "fpp"), [(26_214, 0.0126), (52_428, 0.18), (13_107, 0.0004)])
def test_the_specifications_examples_hold(ndv: int, fpp: float) -> None:
    made = filled(1024, values(0, ndv))
    measured = measured_fpp(made)
    assert measured == pytest.approx(fpp, rel=0.1)
    assert made.estimated_fpp == pytest.approx(measured, rel=0.05)
    assert sizes.expected_fpp(ndv, 1024) == pytest.approx(measured, rel=0.1)


@pytest.mark.parametrize("n_blocks", [1, 7, 1000, 1 << 14])
@pytest.mark.parametrize("bits", [6, 12])
def test_estimates_are_near_the_truth(n_blocks: int, bits: int) -> None:
    ndv = 256 * n_blocks // bits
    made = filled(n_blocks, np.tile(values(0, ndv), 2))
    assert made.estimated_fpp == pytest.approx(measured_fpp(made), rel=0.05)
    assert made.estimated_ndv == pytest.approx(ndv, rel=1 / math.sqrt(ndv))


def test_estimates_of_empty_and_full_filters() -> None:
    nothing, everything = (SplitBlockBloomFilter.from_bytes(bits * 96) for bits in (b"\x00", b"\xff"))
    assert (nothing.bits_set, nothing.estimated_ndv, nothing.estimated_fpp) == (0, 0.0, 0.0)
    assert (everything.bits_set, everything.estimated_ndv, everything.estimated_fpp) == (768, math.inf, 1.0)


def test_the_fpp_is_the_mean_over_unequal_blocks() -> None:
    assert SplitBlockBloomFilter.from_bytes(b"\xff" * 32 + b"\x00" * 32).estimated_fpp == 0.5
    assert SplitBlockBloomFilter.from_bytes(b"\xff\xff\x00\x00" * 8).estimated_fpp == 0.5**8


@pytest.mark.parametrize(("fpp", "ndv", "bits"), [
    (0.1, 10, 57), (0.01, 10, 96), (0.001, 10, 146), (0.01, 1000, 9681), (0.001, 1000, 14607),
    (0.1, 1_000_000, 5_772_541), (0.01, 1_000_000, 9_681_526),
])  # fmt: skip
def test_the_formula_gives_the_bits_that_arrow_rs_asserts(fpp: float, ndv: int, bits: int) -> None:
    assert int(sizes.bits_per_value(fpp) * ndv) == bits


@pytest.mark.parametrize(("ndv", "fpp", "num_bytes"), [
    (256, 0.01, 512), (200, 0.01, 256), (1500, 0.05, 2048),              # Arrow C++, whose numbers are in bits
    (10_000, 0.01, 16_384),                                              # parquet-java
    (100, 0.01, 128), (100, 0.5, 64), (100, 0.001, 256), (100, 1e-4, 512),  # DuckDB, less its header of 16 bytes
    (0, 0.01, 32), (1, 0.01, 32), (10**400, 0.01, 128 << 20), (10**9, 1e-300, 128 << 20), (math.inf, 0.5, 128 << 20),
    (7, math.nextafter(1.0, 0.0), 32), (1, 5e-324, 128 << 20),
])  # fmt: skip
def test_filters_are_as_large_as_other_writers_make_them(ndv: float, fpp: float, num_bytes: int) -> None:
    assert sizes.optimal_num_bytes(ndv, fpp) == num_bytes


@given(st.integers(0, 10**10), st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_sizes_are_the_least_power_of_two_by_the_formula(ndv: int, fpp: float) -> None:
    size = sizes.optimal_num_bytes(ndv, fpp)
    needed = sizes.bits_per_value(fpp) * ndv / 8
    assert size.bit_count() == 1
    assert 32 <= size <= 128 << 20
    assert size >= needed or size == 128 << 20
    assert size < 2 * needed + 2 or size == 32


@pytest.mark.parametrize("fpp", [0.0, 1.0, -0.1, 1.5, math.nan, math.inf])
def test_an_impossible_fpp_is_an_error_with_advice(fpp: float) -> None:
    with pytest.raises(OptionError, match=r"such as 0\.01"):
        sizes.optimal_num_bytes(100, fpp)


@pytest.mark.parametrize("ndv", [-1, math.nan])
def test_an_impossible_ndv_is_an_error(ndv: float) -> None:
    with pytest.raises(OptionError, match="ndv is"):
        SplitBlockBloomFilter.for_ndv(ndv)


def folded_step_by_step(bloom: SplitBlockBloomFilter, fpp: float) -> SplitBlockBloomFilter:
    """The right result of `fitted`: the filter, folded once more as long as the result is good enough."""
    while bloom.n_blocks % 2 == 0 and (half := bloom.fold()).estimated_fpp <= sizes.TOLERANCE * fpp:
        bloom = half
    return bloom


@given(
    st.integers(0, 6).map(lambda power: 1 << power) | st.sampled_from([3, 12, 96]),
    st.integers(0, 3_000),
    st.sampled_from([0.9, 0.3, 0.05, 0.01, 1e-4, 1e-8]),
)
def test_fitted_equals_folding_step_by_step(n_blocks: int, values: int, fpp: float) -> None:
    bloom = SplitBlockBloomFilter.empty(n_blocks)
    bloom.insert(xxh64_int64(np.arange(values)))
    expected = folded_step_by_step(bloom, fpp)
    fitted = bloom.fitted(fpp)
    assert np.array_equal(fitted.blocks, expected.blocks)
    assert (fitted is bloom) is (expected is bloom)


# The byte that fills each block. The number of set bits does not tell how often these can be folded.
UNEVEN = {
    "equal blocks": b"\x01" * 64,
    "full blocks side by side": b"\xff" * 8 + bytes(56),
    "two full blocks side by side": b"\xff" * 2 + bytes(62),
    "full blocks far from each other": (b"\xff" + bytes(7)) * 8,
    "a quarter of full blocks": b"\xff" * 8 + bytes(24),
    "full": b"\xff" * 8,
}


@pytest.mark.parametrize("fpp", [0.5, 0.3, 0.2, 0.1, 0.05, 0.03])
@pytest.mark.parametrize("blocks", UNEVEN.values(), ids=UNEVEN)
def test_filters_of_uneven_blocks_are_fitted_too(blocks: bytes, fpp: float) -> None:
    """An fpp of exactly the tolerated one is good enough: 1.25 * 0.2 is that of a quarter of full blocks."""
    bloom = SplitBlockBloomFilter.from_bytes(b"".join(bytes([each]) * 32 for each in blocks))
    expected, fitted = folded_step_by_step(bloom, fpp), bloom.fitted(fpp)
    assert fitted.to_bytes() == expected.to_bytes()
    assert (fitted is bloom) is (expected is bloom)


def test_the_default_fpp_is_one_percent() -> None:
    sizes_of = [SplitBlockBloomFilter.for_ndv(1000, *fpp).num_bytes for fpp in ((), (0.01,), (0.1,))]
    assert sizes_of == [2048, 2048, 1024]


def test_an_oversized_filter_folds_to_the_size_it_needs() -> None:
    large = SplitBlockBloomFilter.for_ndv(1_000_000, 0.05)
    large.insert(values(0, 1000))
    right = SplitBlockBloomFilter.for_ndv(1000, 0.05)
    right.insert(values(0, 1000))
    folded = large.fold((large.n_blocks // right.n_blocks).bit_length() - 1)
    assert folded.to_bytes() == right.to_bytes()
    assert 0.05 / 2.1 < measured_fpp(folded) < 0.05
