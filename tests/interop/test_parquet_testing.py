"""The files of apache/parquet-testing: their values are found, and unsupported filters are reported."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.parquet.bloom_filter import xxh64 as hashing
from bloomparquet.parquet.bloom_filter.header import parse_header
from tests.support import interop

GREETINGS = [
    "Hello", "This is", "a", "test", "How", "are you", "doing ",
    "today", "the quick", "brown fox", "jumps", "over", "the lazy", "dog",
]  # fmt: skip

DECIMALS = {
    "byte_array_decimal.parquet": "BYTE_ARRAY",
    "fixed_length_decimal.parquet": "FIXED_LEN_BYTE_ARRAY(11)",
    "fixed_length_decimal_legacy.parquet": "FIXED_LEN_BYTE_ARRAY(6)",
    "int32_decimal.parquet": "INT32",
    "int64_decimal.parquet": "INT64",
}


def test_filter_without_length_in_the_footer(parquet_testing_dir: Path) -> None:
    """A file of parquet-java, older than the field bloom_filter_length. The filter is the one that its values make."""
    path = str(parquet_testing_dir / "data_index_bloom_encoding_stats.parquet")
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(0)
    assert (chunk.bloom_filter_offset, chunk.bloom_filter_length) == (192, None)
    assert interop.filtered_columns(path) == {"String"}
    for value in GREETINGS:
        assert bp.plan(path, bp.Eq("String", value)).kept == 1, value
        assert bp.read_table(path, bp.Eq("String", value))["String"].to_pylist() == [value]
    for value in ["b", "c", "d", "Hello_Not_Exists", "NOT_EXISTS", "doing"]:
        assert bp.plan(path, bp.Eq("String", value)).kept == 0, value
    absent = [f"absent {i}" for i in range(24)]
    assert bp.plan(path, bp.In("String", absent)).skipped == {"bloom": 1}
    (theirs,) = interop.filters_of(path, "String")
    ours = bp.SplitBlockBloomFilter.empty(theirs.n_blocks)
    ours.insert(interop.hashes_of(path, "String", sorted(GREETINGS)))
    assert ours.to_bytes() == theirs.to_bytes()


def test_bare_filter_file_is_reproduced(parquet_testing_dir: Path) -> None:
    data = (parquet_testing_dir / "bloom_filter.xxhash.bin").read_bytes()
    header, size = parse_header(data)
    assert header + size == len(data)
    ours = bp.SplitBlockBloomFilter.empty(size // 32)
    ours.insert(hashing.xxh64_bytes([b"hello", b"parquet", b"bloom", b"filter"]))
    assert ours.to_bytes() == data[header:]


def test_old_murmur3_layout_is_not_supported(parquet_testing_dir: Path) -> None:
    with pytest.raises(bp.UnsupportedError, match="Murmur3"):
        parse_header((parquet_testing_dir / "bloom_filter.bin").read_bytes())


@pytest.mark.parametrize("name", DECIMALS)
def test_decimals_of_every_storage_are_found(parquet_testing_dir: Path, name: str) -> None:
    path = str(parquet_testing_dir / name)
    assert interop.physical(path, "value") == DECIMALS[name]
    for i in range(1, 25):
        for literal in (Decimal(i), Decimal(f"{i}.00"), i):
            assert bp.plan(path, bp.Eq("value", literal)).kept == 1
        assert bp.read_table(path, bp.Eq("value", i))["value"].to_pylist() == [Decimal(i)]
    for literal in (Decimal("1.005"), Decimal("0.99"), 25, -1, Decimal(10) ** 30):
        bp.plan(path, bp.Eq("value", literal))
        assert bp.read_table(path, bp.Eq("value", literal)).num_rows == 0


@pytest.mark.parametrize(
    "value",
    [
        dt.datetime(2024, 1, 1, 20, 34, 56, 123456),
        dt.datetime(2024, 1, 1, 1),
        dt.datetime(2024, 12, 30, 23),
        dt.datetime(1816, 3, 29, 8, 56, 8, 66277),
    ],
)
def test_int96_of_spark_without_a_filter(parquet_testing_dir: Path, value: dt.datetime) -> None:
    path = str(parquet_testing_dir / "int96_from_spark.parquet")
    some = bp.In("a", (value, dt.datetime(1970, 1, 1)))
    for predicate in (bp.Eq("a", value), bp.LtEq("a", value), bp.GtEq("a", value), some, bp.IsNull("a")):
        assert bp.plan(path, predicate).kept == 1


def test_zeros_and_nans_of_float16(parquet_testing_dir: Path) -> None:
    path = str(parquet_testing_dir / "float16_zeros_and_nans.parquet")
    for literal in (0.0, -0.0, 0, float("nan"), np.float16(0)):
        assert bp.plan(path, bp.Eq("x", literal)).kept == 1
        assert bp.read_table(path, bp.Eq("x", literal)).num_rows == 1
    assert bp.read_table(path, bp.Gt("x", 65504.0)).num_rows == 1  # NaN is greater than every number
    assert bp.read_table(path, bp.IsNull("x")).num_rows == 1


def test_nan_bounds_exclude_nothing(parquet_testing_dir: Path) -> None:
    path = str(parquet_testing_dir / "nan_in_stats.parquet")
    conditions = (bp.Eq("x", float("nan")), *(kind("x", 1.0) for kind in (bp.Eq, bp.NotEq, bp.Gt, bp.LtEq)))
    for predicate in conditions:
        assert bp.plan(path, predicate).kept == 1
        assert bp.read_table(path, predicate).num_rows == 1
