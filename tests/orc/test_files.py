"""ORC files written by ORC C++ through pyarrow, and the example files of apache/orc."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pytest

from bloomparquet.errors import UnsupportedError
from bloomparquet.orc.bloom_filter import hash_bytes, hash_doubles, hash_longs
from bloomparquet.orc.compression import Codec
from bloomparquet.orc.file_tail import Writer, read_tails
from bloomparquet.orc.schema import Kind, build_schema
from bloomparquet.orc.statistics import StatisticsKind
from bloomparquet.orc.stripe_indexes import (
    BLOOM_FILTER,
    BLOOM_FILTER_UTF8,
    ROW_INDEX,
    StripeId,
    read_filters,
    read_stripe_footers,
)
from bloomparquet.orc.writer_quirks import (
    are_bounds_usable,
    decimal_text,
    timestamp_millis,
    usable_bounds,
    why_filters_unusable,
)
from bloomparquet.storage.files import ReadCount
from tests.support.orc import OrcFile, count_held, list_files

ROWS, STRIDE, FPP = 1500, 500, 0.05
DAY = 86_400_000_000


def with_nulls(values: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array([None if i % 7 == 3 else value for i, value in enumerate(values)], kind)


TABLE = pa.table(
    {
        "i16": with_nulls([i * 20 - 15_000 for i in range(ROWS)], pa.int16()),
        "i32": with_nulls([i * 1_000_003 - 2**30 for i in range(ROWS)], pa.int32()),
        "i64": with_nulls([i * 10**15 - 7 * 10**17 for i in range(ROWS)], pa.int64()),
        "f64": with_nulls([i / 7 - 100 for i in range(ROWS)], pa.float64()),
        "text": with_nulls([f"käse {i}" * (i % 4 + 1) for i in range(ROWS)], pa.string()),
        "blob": with_nulls([i.to_bytes(i % 9 + 2, "little") for i in range(ROWS)], pa.binary()),
        "day": with_nulls([i * 17 - 12_000 for i in range(ROWS)], pa.date32()),
        "seconds": with_nulls([i * 99_991 - 10**8 for i in range(ROWS)], pa.timestamp("s")),
        "micros": with_nulls([(i - 700) * DAY - i * 1_001 for i in range(ROWS)], pa.timestamp("us")),
        "nanos": with_nulls([(i - 700) * DAY * 1000 + i * 1_000_001 for i in range(ROWS)], pa.timestamp("ns")),
        "near": with_nulls([(i - 700) * 3_333 for i in range(ROWS)], pa.timestamp("us")),
        "instant": with_nulls([(i - 700) * DAY - i * 1_001 for i in range(ROWS)], pa.timestamp("us", "Asia/Tokyo")),
        "short": with_nulls([Decimal(i - 700).scaleb(-2) for i in range(ROWS)], pa.decimal128(9, 2)),
        "long": with_nulls([Decimal((i - 700) * 10**21).scaleb(-10) for i in range(ROWS)], pa.decimal128(38, 10)),
        "whole": with_nulls([Decimal((i - 700) * 100) for i in range(ROWS)], pa.decimal128(20, 0)),
    }
)


def write(path: Path, table: pa.Table, fpp: float = FPP, **options: Any) -> OrcFile:
    orc.write_table(
        table,
        path,
        bloom_filter_columns=list(range(1, table.num_columns + 1)),
        bloom_filter_fpp=fpp,
        **{"row_index_stride": STRIDE, **options},
    )
    return OrcFile.open(path)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> OrcFile:
    return write(tmp_path_factory.mktemp("orc") / "all.orc", TABLE)


@pytest.mark.parametrize("name", TABLE.column_names)
def test_written_values_are_held_and_absent_ones_denied(written: OrcFile, name: str) -> None:
    assert why_filters_unusable(written.tail, written.column(name), written.stripes[0]) is None
    held, values, taken, absent = count_held(written, name)
    assert (held, values) == (ROWS - TABLE[name].null_count, ROWS - TABLE[name].null_count)
    assert absent > ROWS
    # A timestamp has several possible hashes, and near 1970 other values share them.
    assert name == "near" or taken <= absent * 0.1


@pytest.mark.parametrize("name", TABLE.column_names)
def test_bounds_and_null_counts_of_row_groups_fit_the_values(written: OrcFile, name: str) -> None:
    column = written.column(name)
    kind = written.tail.types[column].kind
    statistics = written.statistics(name)
    assert len(statistics) == ROWS // STRIDE == len(written.row_groups(name, 0))
    for group, each in zip(written.row_groups(name, 0), statistics, strict=True):
        assert each is not None
        assert (each.non_nulls, each.has_null) == (len(group), True)
        minimum, maximum = usable_bounds(written.tail, column, each)
        if kind == Kind.BINARY:
            assert (minimum, maximum) == (None, None)
            continue
        values = [Decimal(value.decode()) for value in group] if kind == Kind.DECIMAL else group
        assert minimum <= min(values)
        assert max(values) <= maximum
        if kind not in (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT):
            assert (minimum, maximum) == (min(values), max(values))


def test_bounds_of_stripes_hold_those_of_row_groups(written: OrcFile) -> None:
    for name in TABLE.column_names:
        each = written.tail.stripe_statistics(0, written.column(name))
        groups = written.statistics(name)
        assert each is not None
        assert each.non_nulls == ROWS - TABLE[name].null_count
        if each.minimum is not None:
            assert each.minimum <= min(group.minimum for group in groups if group)
            assert each.maximum >= max(group.maximum for group in groups if group)


@pytest.mark.parametrize("name", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_every_compression_that_pyarrow_writes_is_read(tmp_path: Path, name: str) -> None:
    file = write(tmp_path / name, TABLE.select(["i64", "text"]), compression=name, compression_block_size=64 * 1024)
    assert file.tail.compression.codec.name == ("NONE" if name == "uncompressed" else name.upper())
    for column in ("i64", "text"):
        held, values, taken, absent = count_held(file, column)
        assert held == values
        assert taken <= absent * 0.1


def test_stripes_have_their_own_indexes(tmp_path: Path) -> None:
    rows = 8_000
    table = pa.table({"a": pa.array(range(rows)), "b": [f"{i:01500}" for i in range(rows)]})
    file = write(tmp_path / "f.orc", table, stripe_size=2**20, compression="uncompressed", row_index_stride=1000)
    assert len(file.tail.stripes) > 1
    assert sum(stripe.rows for stripe in file.tail.stripes) == rows == file.tail.rows
    assert count_held(file, "a")[0] == rows
    first = [file.statistics("a", stripe)[0] for stripe in range(len(file.stripes))]
    assert [each.minimum for each in first if each] == np.cumsum([0, *(s.rows for s in file.tail.stripes)])[
        :-1
    ].tolist()


def test_leaves_have_paths_and_column_numbers(tmp_path: Path) -> None:
    inner = pa.struct([("x", pa.int64()), ("dotted.name", pa.list_(pa.int64()))])
    table = pa.table(
        {
            "s": pa.array([{"x": 1, "dotted.name": [2]}], inner),
            "m": pa.array([[("k", 3)]], pa.map_(pa.string(), pa.int64())),
        }
    )
    orc.write_table(table, tmp_path / "f.orc")
    tail = OrcFile.open(tmp_path / "f.orc").tail
    schema, columns = build_schema(tail.types)
    numbers = {leaf.path: column for leaf, column in zip(schema.leaves, columns, strict=True)}
    assert numbers == {("s", "x"): 2, ("s", "dotted.name", "_elem"): 4, ("m", "_key"): 6, ("m", "_value"): 7}
    assert [tail.types[i].kind for i in (1, 2, 3, 4, 5)] == [Kind.STRUCT, Kind.LONG, Kind.LIST, Kind.LONG, Kind.MAP]


def test_columns_that_cpp_does_not_hash_are_not_asked(tmp_path: Path) -> None:
    tiny = pa.array([5 if i == 0 else 100 for i in range(1000)], pa.int8())
    file = write(
        tmp_path / "f.orc",
        pa.table({"tiny": tiny, "flag": tiny.cast(pa.bool_()), "real": tiny.cast(pa.float32())}),
        0.001,
    )
    filters = file.filters("tiny")
    assert filters is not None
    assert not filters[0].check(hash_longs(np.array([5]))).any()  # although row 0 holds it
    for name in ("tiny", "flag", "real"):
        assert why_filters_unusable(file.tail, file.column(name)) is not None
    assert file.statistics("tiny")[0].minimum == 5  # type: ignore[union-attr]


def test_nan_and_negative_zero_have_bits_of_their_own(tmp_path: Path) -> None:
    odd = np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0]
    file = write(tmp_path / "f.orc", pa.table({"a": np.array([odd, -0.0, 3.0])}), 1e-6)
    filters = file.filters("a")
    assert filters is not None
    assert filters[0].check(hash_doubles(np.array([odd, np.nan, -0.0, 0.0]))).tolist() == [
        True,
        False,
        True,
        False,
    ]
    (statistics,) = file.statistics("a")
    assert statistics is not None
    assert (statistics.minimum, statistics.maximum) == (None, None)
    assert statistics.total is not None
    assert np.isnan(statistics.total)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("0.00", "0"),
        ("-0.01", "-0.01"),
        ("1.50", "1.5"),
        ("100.00", "100"),
        ("-100", "-100"),
        ("1E+3", "1000"),
        ("-0.0", "0"),
    ],
)
def test_decimals_are_hashed_as_their_shortest_text(tmp_path: Path, value: str, text: str) -> None:
    assert decimal_text(Decimal(value)) == text.encode()
    file = write(tmp_path / "f.orc", pa.table({"a": pa.array([Decimal(value)], pa.decimal128(18, 4))}), 1e-6)
    filters = file.filters("a")
    assert filters is not None
    assert filters[0].check(hash_bytes([text.encode()])).all()


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (1_600_000_000_123_456_000, 1_600_000_000_123_456_999, [1_600_000_000_123]),
        (-1_500_000_000, -1_499_999_001, [-2500, -2499, -1500, -1499]),
        (-(10**15) - 1, -(10**15) - 1, [-(10**9) - 1, -(10**9)]),
        (499_500_000, 499_500_999, [-501, 499]),
        (-1_000, -1, [-1001, -1000, -1, 0]),
    ],
)
def test_a_timestamp_may_have_been_rounded_either_way(first: int, last: int, expected: list[int]) -> None:
    assert timestamp_millis(first, last) == expected


def test_a_tail_and_its_last_stripe_footer_take_one_request(tmp_path: Path) -> None:
    for i in range(40):
        orc.write_table(pa.table({"a": [i, None]}), tmp_path / f"{i:02}.orc")
    storage, files = list_files(tmp_path)
    count = ReadCount()
    tails = read_tails(storage, files, count)
    assert count.requests == 40
    assert [tail.stripe_statistics(0, 1).minimum for tail in tails] == list(range(40))  # type: ignore[union-attr]
    ids = [StripeId(i, 0) for i in range(40)]
    assert len(read_stripe_footers(storage, tails, ids, count)) == 40  # type: ignore[arg-type]
    assert count.requests == 40
    for tail in tails:
        object.__setattr__(tail, "last_stripe_footer", None)
    assert len(read_stripe_footers(storage, tails, ids, count)) == 40  # type: ignore[arg-type]
    assert count.requests == 80


def test_neighbouring_streams_take_one_request(written: OrcFile) -> None:
    count = ReadCount()
    wanted = [(written.stripes[0], written.column(name)) for name in ("i16", "i32", "i64")]
    assert all(read_filters(written.storage, wanted, count))
    assert count.requests == 1
    assert count.bytes < written.tail.stripes[0].index_length


def test_a_column_without_filters_has_none(tmp_path: Path) -> None:
    orc.write_table(pa.table({"a": [1]}), tmp_path / "f.orc")
    file = OrcFile.open(tmp_path / "f.orc")
    assert file.filters("a") is None
    assert file.stripes[0].filter_kind(1) is None
    assert (ROW_INDEX, 1) in file.stripes[0].streams


def test_filters_of_cpp_with_wrong_bits_are_not_believed(orc_examples_dir: Path) -> None:
    file = OrcFile.open(orc_examples_dir / "bad_bloom_filter_1.6.0.orc")
    assert (file.tail.writer, file.tail.software_version) == (Writer.CPP, None)
    assert 18_000_000_000 in orc.read_table(file.path)["id"].to_pylist()
    filters = file.filters("id")
    assert filters is not None
    assert not filters[0].check(hash_longs(np.array([18_000_000_000]))).any()
    for name in ("id", "name"):
        assert why_filters_unusable(file.tail, file.column(name)) is not None
    assert file.statistics("id")[0].maximum == 18_000_000_000  # type: ignore[union-attr]


def test_filters_before_the_first_release_are_refused(orc_examples_dir: Path) -> None:
    file = OrcFile.open(orc_examples_dir / "over1k_bloom.orc")
    assert (file.tail.writer, file.tail.writer_version, file.tail.compression.codec) == (Writer.JAVA, 1, Codec.ZLIB)
    for name in ("_col0", "_col3", "_col5", "_col7", "_col8"):
        column = file.column(name)
        for stripe in file.stripes:
            assert stripe.filter_kind(column) == BLOOM_FILTER
            assert (BLOOM_FILTER_UTF8, column) not in stripe.streams
            (error,) = read_filters(file.storage, [(stripe, column)], ReadCount())
            assert isinstance(error, UnsupportedError)
            assert file.path in str(error)
    for stripe in range(2):
        for name in ("_col0", "_col3", "_col5", "_col7"):
            (group,), (statistics,) = file.row_groups(name, stripe), file.statistics(name, stripe)
            assert statistics is not None
            assert (statistics.non_nulls, statistics.minimum, statistics.maximum) == (
                len(group),
                min(group, default=None),
                max(group, default=None),
            )
    assert why_filters_unusable(file.tail, file.column("_col8")) is not None
    assert not are_bounds_usable(file.tail, file.column("_col8"))
    assert file.statistics("_col8")[0].minimum is None  # type: ignore[union-attr]


def test_timestamps_just_before_1970_are_within_the_bounds(tmp_path: Path) -> None:
    micros = [-1_500_001, -999_999, -500_500, -1]
    for value in micros:
        file = write(tmp_path / "f.orc", pa.table({"a": pa.array([value], pa.timestamp("us"))}), 1e-6)
        (statistics,) = file.statistics("a")
        assert statistics is not None
        assert statistics.kind is StatisticsKind.TIMESTAMP
        assert statistics.minimum <= value * 1000 <= statistics.maximum
        if value > -1_000_000:  # as it is read back from files of other writers
            assert statistics.maximum >= (value + 1_000_000) * 1000
    assert orc.read_table(tmp_path / "f.orc")["a"].to_pylist() == [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)]
