"""Values whose bytes or order are uncertain (NaN, zeros, old dates, INT96, padded text) keep their row groups."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from tests.support.files import write

UTC = dt.timezone.utc


def test_signed_zeros_are_one_value(tmp_path: Path) -> None:
    for kind in (pa.float64(), pa.float32(), pa.float16()):
        for statistics in (True, False):
            for stored in (0.0, -0.0):
                path = write(
                    tmp_path / "x.parquet", {"x": pa.array([stored] * 3, kind)}, ["x"], write_statistics=statistics
                )
                for asked in (0.0, -0.0, 0, Decimal(0), Decimal("-0.0")):
                    assert bp.plan(path, bp.Eq("x", asked)).kept == 1, (kind, statistics, stored, asked)
                    assert bp.plan(path, bp.In("x", [7.0, asked])).kept == 1
                    assert bp.read_table(path, bp.Eq("x", asked)).num_rows == 3
                for at_most in (bp.LtEq("x", -0.0), bp.GtEq("x", 0.0), bp.LtEq("x", 0.0), bp.GtEq("x", -0.0)):
                    assert bp.plan(path, at_most).kept == 1


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("others", [[], [1.0], [-1.0, 1.0]])
def test_nan_is_never_pruned(statistics: bool, others: list[float], tmp_path: Path) -> None:
    """As in Spark, NaN equals NaN of any bit pattern, and is greater than every number."""
    odd_nan = np.array([0x7FF8000000000001], np.uint64).view(np.float64)
    values = np.concatenate([odd_nan, np.array([math.nan, *others])])
    path = write(tmp_path / "x.parquet", {"x": pa.array(values)}, ["x"], write_statistics=statistics)
    for predicate in (
        bp.Eq("x", math.nan),
        bp.EqNullSafe("x", math.nan),
        bp.In("x", [5.0, math.nan]),
        bp.Gt("x", 1e308),
        bp.Gt("x", math.inf),
        bp.GtEq("x", math.inf),
        bp.GtEq("x", math.nan),
        bp.LtEq("x", math.nan),
        bp.NotEq("x", 1.0),
        bp.NotIn("x", [1.0, -1.0]),
    ):
        assert bp.plan(path, predicate).kept == 1, predicate
        assert bp.read_table(path, predicate).num_rows >= 2, predicate
    assert bp.read_table(path, bp.Lt("x", math.nan)).num_rows == len(others)


@pytest.mark.parametrize("day", [dt.date(1582, 10, 14), dt.date(1000, 1, 1), dt.date(1, 1, 1)])
def test_dates_before_the_gregorian_calendar_are_never_pruned(day: dt.date, tmp_path: Path) -> None:
    """The file may store them in the Julian calendar, as other days than the reader returns."""
    elsewhere = pa.array([dt.date(1, 6, 6), dt.date(1581, 1, 1)])
    path = write(tmp_path / "x.parquet", {"x": elsewhere}, ["x"])
    for predicate in (
        bp.Eq("x", day),
        bp.In("x", [dt.date(2020, 1, 1), day]),
        bp.Lt("x", day),
        bp.Gt("x", day),
        bp.NotEq("x", day),
    ):
        assert bp.plan(path, predicate).kept == 1
    assert bp.plan(path, bp.Eq("x", dt.date(2020, 1, 1))).kept == 0


def test_timestamps_before_1900_are_never_pruned(tmp_path: Path) -> None:
    for kind in (pa.timestamp("us"), pa.timestamp("ms", "UTC")):
        path = write(tmp_path / "x.parquet", {"x": pa.array([dt.datetime(1899, 1, 1)], kind)}, ["x"])
        moment = dt.datetime(1850, 5, 5, tzinfo=UTC if kind.tz else None)
        for predicate in (bp.Eq("x", moment), bp.Lt("x", moment), bp.In("x", [moment])):
            assert bp.plan(path, predicate).kept == 1


def test_a_boolean_is_never_pruned_by_a_filter(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", {"x": pa.array([True, True, None])})
    assert bp.plan(path, bp.Eq("x", False)).skipped["bloom"] == 0
    assert bp.plan(path, bp.Eq("x", True)).kept == 1


def test_a_naive_literal_is_in_the_session_zone(tmp_path: Path) -> None:
    moment = dt.datetime(2024, 7, 1, 12, tzinfo=UTC)
    path = write(
        tmp_path / "x.parquet", {"x": pa.array([moment], pa.timestamp("us", "UTC"))}, ["x"], write_statistics=False
    )
    for naive, zone in (
        (dt.datetime(2024, 7, 1, 14), "Europe/Berlin"),
        (dt.datetime(2024, 7, 1, 12), "UTC"),
        (dt.datetime(2024, 7, 1, 17, 30), "+05:30"),
    ):
        assert bp.plan(path, bp.Eq("x", naive), timezone=zone).kept == 1
        assert bp.read_table(path, bp.Eq("x", naive), timezone=zone).num_rows == 1
    assert bp.plan(path, bp.Eq("x", dt.datetime(2024, 7, 1, 12)), timezone="Europe/Berlin").kept == 0
    assert bp.plan(path, bp.Eq("x", dt.datetime(2024, 7, 1, 3)), timezone=None).kept == 1


def test_int96_is_pruned_only_in_files_by_spark(tmp_path: Path) -> None:
    """pyarrow copies Spark's footer keys to a rewritten file, but writes nanoseconds, which readers truncate."""
    stored = [np.datetime64("1969-12-30T13:00:00.000005001"), np.datetime64("2020-01-01T00:00:00.123456789")]
    table = pa.table({"x": pa.array(stored, pa.timestamp("ns"))})
    table = table.replace_schema_metadata({"org.apache.spark.version": "3.5.0"})
    path = write(tmp_path / "x.parquet", table, ["x"], use_deprecated_int96_timestamps=True)
    for value in bp.read_table(path).column("x").to_pylist():
        assert bp.plan(path, bp.Eq("x", value)).kept == 1
        assert bp.read_table(path, bp.Eq("x", value)).num_rows == 1


@pytest.mark.parametrize("key", ["__CHAR_VARCHAR_TYPE_STRING", "__COLLATIONS"])
def test_char_and_collated_text_is_never_pruned(key: str, tmp_path: Path) -> None:
    table = pa.table({"x": ["abc  ", "abd  "], "n": [1, 2]}).replace_schema_metadata(
        {"org.apache.spark.sql.parquet.row.metadata": f'{{"{key}":"char(5)"}}'}
    )
    write(tmp_path / "x.parquet", table, ["x", "n"])
    predicates = (
        bp.Eq("x", "zzz"),
        bp.In("x", ["zzz"]),
        bp.Gt("x", "zzz"),
        bp.StartsWith("x", "zzz"),
        bp.NotEq("x", "abc  "),
    )
    for indexed in (0, 1):
        assert [bp.plan(tmp_path, predicate).kept for predicate in predicates] == [1] * len(predicates)
        without = bp.plan(tmp_path, bp.Eq("n", 7))
        assert (without.kept, without.indexed) == (0, indexed)
        bp.build_index(tmp_path)


def test_a_decimal_in_bytes_of_any_width_is_never_pruned(parquet_testing_dir: Path) -> None:
    path = str(parquet_testing_dir / "byte_array_decimal.parquet")
    column = pq.read_schema(path).names[0]
    for value in (Decimal(1), Decimal(10**9), Decimal("3.33")):
        assert bp.plan(path, bp.Eq(column, value)).kept == 1
