"""The contents of a made filter: both zeros, NaN, and as many bits as its distinct values need."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from bloomparquet.errors import UnsupportedError
from bloomparquet.parquet.bloom_filter.sizes import expected_fpp, smallest_num_bytes
from bloomparquet.writing.filters import build as filling
from bloomparquet.writing.filters.spec import Bloom
from tests.support.chunk_filters import assert_complete, filters_of
from tests.support.stored import hashes_by_chunk, lacking

SPELLINGS = {"float64": (pa.float64(), "<f8"), "float32": (pa.float32(), "<f4"), "float16": (pa.float16(), "<f2")}

_numbers = itertools.count()


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("column", SPELLINGS)
@pytest.mark.parametrize("stored", [-0.0, 0.0, 7.0])
def test_filter_holds_both_zeros_and_nan(tmp_path: Path, column: str, stored: float, dictionary: bool) -> None:
    """Spark, DuckDB and DataFusion probe for the bit pattern in the query. A filter without zero gets none."""
    arrow, numpy = SPELLINGS[column]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"v": pa.array([stored, 1.5], arrow)}), path, use_dictionary=dictionary)
    (bloom,) = assert_complete(path).values()
    assert bloom is not None
    zero = stored == 0
    for value, expected in [(0.0, zero), (-0.0, zero), (np.nan, True), (-np.nan, True), (1.5, True), (2.5, False)]:
        digest = xxhash.xxh64_intdigest(np.array([value], numpy).tobytes())
        assert bool(bloom.check(np.array([digest], np.uint64))[0]) is expected, value


def test_nans_of_every_bit_pattern_are_inserted(tmp_path: Path) -> None:
    patterns = np.array([0x7FF8000000000000, 0xFFF8000000000000, 0x7FF0000000000001, 0x7FFDEADBEEF00001], np.uint64)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"v": pa.array(patterns.view(np.float64))}), path, use_dictionary=False)
    assert_complete(path)


@settings(max_examples=60)
@given(ndv=st.integers(1, 30_000), fpp=st.sampled_from([0.2, 0.1, 0.05, 0.01, 0.001]), dictionary=st.booleans())
def test_size_and_fpp_follow_the_distinct_values(
    ndv: int, fpp: float, dictionary: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """For any NDV and number of rows, the fpp is at most twice the target, and the size at most twice the least one."""
    path = tmp_path_factory.getbasetemp() / f"sizes-{next(_numbers)}.parquet"
    values = np.random.default_rng(ndv).permutation(np.arange(max(2 * ndv, 100)) % ndv) * 7919
    pq.write_table(pa.table({"v": values}), path, use_dictionary=dictionary, compression="none")
    (bloom,) = filters_of(path, Bloom(fpp)).values()
    path.unlink()
    assert bloom is not None
    least = smallest_num_bytes(ndv, fpp)
    assert least <= 2 * bloom.num_bytes <= 4 * least
    if bloom.n_blocks >= 8:  # in fewer, chance has its way
        assert bloom.estimated_fpp <= 2 * fpp
        assert expected_fpp(ndv, bloom.n_blocks) <= 2 * fpp
        assert bloom.estimated_ndv == pytest.approx(ndv, rel=0.25)
    if bloom.n_blocks > 1:
        assert bloom.fold().estimated_fpp > fpp


def test_ndv_and_max_bytes_are_obeyed(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"v": np.arange(10_000)}), path)
    sizes = {
        None: smallest_num_bytes(10_000, 0.01),
        Bloom(ndv=100_000): smallest_num_bytes(100_000, 0.01),
        Bloom(ndv=100): smallest_num_bytes(100, 0.01),
        Bloom(max_bytes=5_000): 4_096,
        Bloom(max_bytes=32): 32,
        Bloom(ndv=10**9, max_bytes=1 << 16): 1 << 16,
    }
    for bloom, size in sizes.items():
        ((chunk_id, built),) = filters_of(path, bloom).items()
        assert built is not None
        assert built.num_bytes == size, bloom
        assert not lacking(built.to_bytes(), hashes_by_chunk(str(path))[chunk_id])


def test_long_lists_are_inserted_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lists = [[1_000 * i + j for j in range(997)] for i in range(20)]
    pq.write_table(pa.table({"l": lists, "v": range(20)}), tmp_path / "a.parquet")
    whole = filters_of(tmp_path / "a.parquet")
    monkeypatch.setattr(filling, "_MOST_VALUES", 100)
    parts = assert_complete(tmp_path / "a.parquet")
    for chunk_id, bloom in whole.items():
        assert bloom is not None
        assert np.array_equal(bloom.blocks, parts[chunk_id].blocks)  # type: ignore[union-attr]


def test_pyarrow_must_write_one_row_group_per_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    array, write = pa.array(range(100)), pq.write_table
    monkeypatch.setattr(
        pq, "write_table", lambda *given, row_group_size, **options: write(*given, row_group_size=60, **options)
    )
    with pytest.raises(UnsupportedError, match=r"of \(60, 40\) values; expected \[1024\] bytes for \(100,\)"):
        filling._filter_of(array, 1024)
