"""Type by type: a row group that holds a value is never skipped by its filter (statistics are off)."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.parquet.metadata.footer import parse_footer
from bloomparquet.parquet.values.encoding import parquet_family
from bloomparquet.query.domains import arrow_family
from tests.support.core import kept_indexes, read_footer
from tests.support.files import write

PER_GROUP = 6
UTC = dt.timezone.utc
BERLIN = dt.timezone(dt.timedelta(hours=1))


def _integers(bits: int, *, signed: bool) -> list[int]:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    edges = [low, low + 1, high, high - 1, 0, 1, high // 2, high // 2 + 1, high // 3, low // 3]
    spread = [low + (high - low) // 41 * i + i % 3 for i in range(1, 40)]
    return list(dict.fromkeys([*edges, *spread]))


def _decimals(precision: int, scale: int) -> list[Decimal]:
    largest = 10**precision - 1
    spread = (largest // 31 * i - i for i in range(1, 30))
    unscaled = [largest, -largest, 0, 1, -1, largest // 2, -(largest // 3), *spread]
    exact = [Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale)) for number in dict.fromkeys(unscaled)]
    return [value for value in exact if abs(value) <= abs(exact[0])]


EDGES = [dt.datetime(1970, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999000), dt.datetime(1900, 1, 3)]
MOMENTS = [dt.datetime(1990, 1, 1) + dt.timedelta(days=37 * i, hours=i, milliseconds=7 * i) for i in range(40)]
MILLIS = [*EDGES, dt.datetime(9999, 12, 31), *MOMENTS]
MICROS = [moment + dt.timedelta(microseconds=i + 1) for i, moment in enumerate(MILLIS[:-1])]
NANOS = [np.datetime64(moment, "ns") + np.timedelta64(i, "ns") for i, moment in enumerate(MOMENTS)]
TIMES = [dt.time(i % 24, 7 * i % 60, 11 * i % 60, 1000 * (37 * i % 1000)) for i in range(40)]
DAYS = [dt.date(1582, 10, 15), dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31)] + [
    dt.date(2001, 2, 3) + dt.timedelta(days=97 * i) for i in range(40)
]
TEXTS = ["", " ", "a", "A", "ä", "a\u0308", "測試", "😀", "\0", "a\0", "doing ", "x" * 5000]
STRINGS = TEXTS + [f"BINARY测试_{i}" for i in range(40)]
FLOATS = [0.0, 1.5, -1.5, math.inf, -math.inf, *(i + 0.25 for i in range(40))]
UUIDS = [uuid.UUID(int=i * 0x0123456789ABCDEF0123456789 + 1) for i in range(40)]

CASES: dict[str, tuple[list[Any], pa.DataType, dict[str, Any]]] = {
    **{f"int{bits}": (_integers(bits, signed=True), getattr(pa, f"int{bits}")(), {}) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (_integers(bits, signed=False), getattr(pa, f"uint{bits}")(), {}) for bits in (8, 16, 32, 64)},
    "float32": ([*FLOATS, float(np.float32(0.1)), float(np.float32(3.4e38)), 2.0**-149], pa.float32(), {}),
    "float64": ([*FLOATS, 0.1, 1.7976931348623157e308, 5e-324, 2.0**53], pa.float64(), {}),
    "float16": (list(FLOATS), pa.float16(), {}),
    "string": (STRINGS, pa.string(), {}),
    "dictionary": (STRINGS, pa.dictionary(pa.int32(), pa.string()), {}),
    "plain_string": (STRINGS, pa.string(), {"use_dictionary": False}),
    "binary": ([value.encode() for value in STRINGS] + [b"\xff", b"\xff\x00", bytes(300)], pa.binary(), {}),
    "fixed_binary": ([bytes([i, 255 - i, 0]) for i in range(40)], pa.binary(3), {}),
    "uuid": (UUIDS, pa.uuid(), {}),
    "date32": (DAYS, pa.date32(), {}),
    "date64": (DAYS, pa.date64(), {}),
    "time32_ms": (TIMES, pa.time32("ms"), {}),
    "time64_us": ([time.replace(microsecond=i) for i, time in enumerate(TIMES)], pa.time64("us"), {}),
    "time64_ns": (TIMES, pa.time64("ns"), {}),
    "timestamp_ms": (MILLIS, pa.timestamp("ms"), {}),
    "timestamp_us": (MICROS, pa.timestamp("us"), {}),
    "timestamp_ns": (NANOS, pa.timestamp("ns"), {}),
    "timestamp_ms_utc": ([moment.replace(tzinfo=UTC) for moment in MILLIS], pa.timestamp("ms", "UTC"), {}),
    "timestamp_us_utc": ([moment.replace(tzinfo=UTC) for moment in MICROS], pa.timestamp("us", "UTC"), {}),
    "timestamp_us_zone": (
        [moment.replace(tzinfo=BERLIN) for moment in MICROS],
        pa.timestamp("us", "Europe/Berlin"),
        {},
    ),
    "timestamp_ns_utc": (NANOS, pa.timestamp("ns", "UTC"), {}),
    "int96": (MICROS[4:], pa.timestamp("us"), {"use_deprecated_int96_timestamps": True}),
    "decimal256": (_decimals(60, 7), pa.decimal256(60, 7), {}),
    "data_page_v2": (STRINGS, pa.string(), {"data_page_version": "2.0", "compression": "zstd"}),
    "format_1_0": (_integers(32, signed=False), pa.uint32(), {"version": "1.0"}),
}
# The bytes of a value are unknown, so filters are not checked.
NOT_PRUNED = {"int96"}


def check_found(path: str, values: list[Any], *, prunes: bool | None, step: int = 1) -> None:
    """No row group that holds a value is skipped. If `prunes`, nearly all others are; None accepts both. Looks up the
    first values, and one of each `step` others."""
    others = skipped = 0
    for i, value in [*enumerate(values)][:PER_GROUP] + [*enumerate(values)][PER_GROUP::step]:
        plan = bp.plan(path, bp.Eq("x", value))
        assert i // PER_GROUP in kept_indexes(plan), f"{value!r} lies in row group {i // PER_GROUP}: {plan}"
        assert not plan.errors
        assert set(plan.skipped) <= {"bloom"}
        others += plan.total - 1
        skipped += plan.skipped["bloom"]
    if prunes:
        assert skipped > 0.9 * others
    elif prunes is not None:
        assert skipped == 0
    everything = bp.plan(path, bp.In("x", values))
    assert everything.kept == everything.total


def _array(name: str, values: list[Any], kind: pa.DataType) -> pa.Array:
    if name == "uuid":
        return pa.array([value.bytes for value in values], kind)
    return pa.array(values, pa.timestamp("ns")).cast(kind) if name == "timestamp_ns_utc" else pa.array(values, kind)


@pytest.mark.parametrize("name", CASES)
def test_a_written_value_is_never_skipped_by_its_filter(name: str, tmp_path: Path) -> None:
    values, kind, options = CASES[name]
    array = _array(name, values, kind)
    path = write(
        tmp_path / "x.parquet", {"x": array}, ["x"], rows_per_group=PER_GROUP, write_statistics=False, **options
    )
    check_found(path, values, prunes=name not in NOT_PRUNED)


@pytest.mark.parametrize("precision", range(1, 39))
def test_a_written_decimal_is_never_skipped_at_any_precision(precision: int, tmp_path: Path) -> None:
    """In FIXED_LEN_BYTE_ARRAY of the least width, and in INT32 and INT64 where the precision fits."""
    scale = precision // 3
    values = list(dict.fromkeys(_decimals(precision, scale)))
    array = pa.array(values, pa.decimal128(precision, scale))
    path = write(tmp_path / "fixed.parquet", {"x": array}, ["x"], rows_per_group=PER_GROUP, write_statistics=False)
    check_found(path, values, prunes=True if len(values) > 3 * PER_GROUP else None, step=4)
    if precision <= 18:
        options = {"write_statistics": False, "store_decimal_as_integer": True}
        path = write(tmp_path / "int.parquet", {"x": array}, ["x"], rows_per_group=PER_GROUP, **options)
        assert pq.read_metadata(path).schema.column(0).physical_type == ("INT32" if precision <= 9 else "INT64")
        check_found(path, values, prunes=True if len(values) > 3 * PER_GROUP else None, step=4)


KINDS = [*dict.fromkeys(kind for _, kind, _ in CASES.values()), pa.bool_(), *(pa.decimal128(n, 0) for n in (5, 15, 30))]
KINDS += [pa.large_string(), pa.string_view(), pa.large_binary()]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_planner_and_row_filter_agree_on_the_family(kind: pa.DataType, tmp_path: Path) -> None:
    """The planner knows the Parquet type, the row filter the Arrow type. Both must compare literals alike."""
    pq.write_table(pa.table({"x": pa.nulls(1, kind)}), tmp_path / "x.parquet", store_decimal_as_integer=True)
    leaf = parse_footer(read_footer(tmp_path / "x.parquet")).profile.schema.leaves[0]
    assert parquet_family(leaf.node) == arrow_family(kind)
