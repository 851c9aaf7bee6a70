"""Dates and timestamps of ORC files: calendars, the clocks of writers and readers, and fractions before 1970."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import bloomparquet as bp
from bloomparquet.orc.schema import Kind
from tests.support.orc_forged import kept_row_groups, longs, millis, with_filters, with_statistics
from tests.support.orc_rewriting import drop_statistics, rewrite, write

UTC = dt.timezone.utc


BERLIN, KOLKATA = "Europe/Berlin", "Asia/Kolkata"


@pytest.mark.parametrize("reader", ["UTC", BERLIN, KOLKATA])
@pytest.mark.parametrize("writer", ["UTC", BERLIN, "America/New_York"])
@pytest.mark.parametrize(
    "clock",
    [
        dt.datetime(2024, 7, 1, 12), dt.datetime(2024, 3, 31, 2, 30), dt.datetime(2024, 10, 27, 2, 30),
        dt.datetime(2024, 3, 10, 2, 30), dt.datetime(1970, 1, 3), dt.datetime(9999, 12, 30, 23, 59, 59, 999_999),
        dt.datetime(1945, 5, 8, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), dt.datetime(1900, 1, 1, 5),
    ],
)  # fmt: skip
def test_a_timestamp_is_kept_by_what_the_clock_showed(
    tmp_path: Path, writer: str, reader: str, clock: dt.datetime
) -> None:
    path = with_filters(tmp_path / "x.orc", Kind.TIMESTAMP, longs(millis(clock)), zone=writer)
    assert kept_row_groups(bp.plan(path, bp.Eq("c0", clock), timezone=reader)) == 1
    assert kept_row_groups(bp.plan(path, bp.Eq("c0", clock), timezone=None)) == 1
    far = clock.replace(year=2030)
    assert kept_row_groups(bp.plan(path, bp.Eq("c0", far), timezone=reader)) == 0


def test_timestamps_of_unknown_clocks_are_kept(tmp_path: Path) -> None:
    clock = dt.datetime(2024, 7, 1, 12)
    nowhere = with_filters(tmp_path / "y.orc", Kind.TIMESTAMP, longs(0), zone="Mars/Olympus")
    nameless, old, stream = (with_filters(tmp_path / name, Kind.TIMESTAMP, longs(0)) for name in "xzw")
    rewrite(nameless, stripe_footer=lambda footer: footer.ClearField("writer_timezone"))
    rewrite(
        old,
        footer=lambda tail: tail.ClearField("software_version"),
        postscript=lambda end: setattr(end, "writer_version", 5),
    )
    rewrite(
        stream, stripe_footer=lambda footer: [setattr(each, "bloom_encoding", 0) for each in footer.columns] and None
    )
    for path, why in (
        *((path, "the writer's time zone, which is not known") for path in (nameless, nowhere)),
        *((path, "in an unknown time zone (before ORC-135)") for path in (old, stream)),
    ):
        plan = bp.plan(path, bp.Eq("c0", clock))
        assert kept_row_groups(plan) == 1, path
        assert why in str(plan.explain())
    fine = with_filters(tmp_path / "v.orc", Kind.TIMESTAMP, longs(0))
    assert kept_row_groups(bp.plan(fine, bp.Eq("c0", clock))) == 0
    assert kept_row_groups(bp.plan([nowhere, fine], bp.Eq("c0", clock))) == 1


def test_bounds_of_timestamps_use_the_writers_clock(tmp_path: Path) -> None:
    low, high = millis(dt.datetime(2024, 7, 1)), millis(dt.datetime(2024, 7, 2))
    statistics = {"timestamp_statistics": {"minimum_utc": low, "maximum_utc": high}}
    path = with_statistics(tmp_path / "x.orc", Kind.TIMESTAMP, statistics)
    for clock, is_kept in (
        (dt.datetime(2024, 7, 1), True), (dt.datetime(2024, 7, 2, 0, 0, 0, 999), True),
        (dt.datetime(2024, 7, 2, 0, 0, 1), False), (dt.datetime(2024, 6, 30, 23, 59), False),
    ):  # fmt: skip
        assert bp.plan(path, bp.Eq("c0", clock)).kept == is_kept, clock
    assert bp.plan(path, bp.Gt("c0", dt.datetime(2024, 7, 2)), timezone="UTC").kept == 1  # within the last millisecond
    assert bp.plan(path, bp.Eq("c0", dt.datetime(2030, 1, 1))).kept == 0
    rewrite(path, stripe_footer=lambda footer: footer.ClearField("writer_timezone"))
    assert bp.plan(path, bp.Eq("c0", dt.datetime(2030, 1, 1))).kept == 1
    local = {"timestamp_statistics": {"minimum": low, "maximum": high}}  # in an unknown zone
    other = with_statistics(tmp_path / "y.orc", Kind.TIMESTAMP, local)
    assert bp.plan(other, bp.Eq("c0", dt.datetime(2030, 1, 1))).kept == 1


FRACTIONS = [-1, -1_000, -999_999, -1_000_000, -1_500_000, -999_999_999, -1_000_000_001, -86_400_000_000_001, 1, 999]


@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize("keep_bounds", [True, False])
def test_fractions_of_seconds_before_1970_are_kept(tmp_path: Path, zone: str | None, keep_bounds: bool) -> None:
    path = write(tmp_path / "x.orc", pa.table({"x": pa.array(FRACTIONS, pa.timestamp("ns", zone))}))
    if not keep_bounds:
        drop_statistics(path)
    for nanos in FRACTIONS:
        value = np.datetime64(nanos, "ns")
        for predicate in (bp.Eq("x", value), bp.LtEq("x", value), bp.GtEq("x", value)):
            assert bp.plan(path, predicate).kept == 1, (nanos, predicate)
        for cut in {int(nanos / 1000), nanos // 1000}:  # as readers with microseconds see it
            assert bp.plan(path, bp.Eq("x", np.datetime64(cut, "us"))).kept == 1, nanos


@pytest.mark.parametrize("kind", [Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT])
def test_a_value_read_back_a_second_later_is_kept(tmp_path: Path, kind: int) -> None:
    """Values less than a second before 1970 lose their sign; C++ hashes and stores bounds of what it was given."""
    path = with_filters(tmp_path / "x.orc", kind, longs(-2), longs(998))
    statistics = {"timestamp_statistics": {"minimum_utc": -500, "maximum_utc": -2}}
    for file, count in ((path, 2), (with_statistics(tmp_path / "y.orc", kind, statistics, writer=1), 1)):
        for micros in (998_000, 998_500, 998_999):
            value = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=micros)
            assert kept_row_groups(bp.plan(file, bp.Eq("c0", value))) == count
            assert kept_row_groups(bp.plan(file, bp.GtEq("c0", value))) == count


@pytest.mark.parametrize("nanos", [-315_619_200_000_001_500, 1_700_000_000_000_001_500])
def test_bounds_include_what_microsecond_readers_see(tmp_path: Path, nanos: int) -> None:
    """Some readers cut the rest off towards 1970, others towards the past."""
    below = nanos % 10**6 + 1
    statistics = {
        "minimum_utc": nanos // 10**6,
        "maximum_utc": nanos // 10**6,
        "minimum_nanos": below,
        "maximum_nanos": below,
    }
    path = with_statistics(tmp_path / "x.orc", Kind.TIMESTAMP, {"timestamp_statistics": statistics})
    for micros in (nanos // 1000 if nanos > 0 else -(-nanos // 1000), nanos // 1000):
        assert bp.plan(path, bp.Eq("c0", np.datetime64(micros, "us"))).kept == 1
    assert bp.plan(path, bp.Eq("c0", np.datetime64(nanos // 1000 + 5000, "us"))).kept == 0
