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


def test_a_naive_literal_is_in_the_session_zone(tmp_path: Path) -> None:
    moments = pa.array([dt.datetime(2024, 7, 1, 12)], pa.timestamp("us", "UTC"))
    path = write(tmp_path / "x.parquet", {"x": moments}, ["x"], write_statistics=False)
    for hour, zone, kept in ((14, "Europe/Berlin", 1), (12, "Europe/Berlin", 0), (12, "UTC", 1), (3, None, 1)):
        assert bp.plan(path, bp.Eq("x", dt.datetime(2024, 7, 1, hour)), timezone=zone).kept == kept


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
