"""Conversion of values to the type families of columns: exact, or an error with a remedy."""

from __future__ import annotations

import datetime as dt
import math
import time
from decimal import Decimal
from fractions import Fraction
from unittest.mock import patch
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloomparquet.errors import PlanError
from bloomparquet.query import literals
from bloomparquet.query.literals import coerce, coerce_all, find_zone
from bloomparquet.query.values import normalize_value

NOON = 1_715_947_200 * 10**9  # 2024-05-17 12:00 UTC
ID = UUID("123e4567-e89b-12d3-a456-426614174000")


def _same(actual, expected):
    return type(actual) is type(expected) and (actual == expected or (actual != actual and expected != expected))


@pytest.mark.parametrize(
    ("value", "family", "expected"),
    [
        (5, "integer", 5), (2.0, "integer", 2), (Decimal("2.00"), "integer", 2), (1.5, "integer", Fraction(3, 2)),
        (math.inf, "integer", math.inf), (math.nan, "integer", math.nan),
        (Decimal("1.50"), "decimal", Decimal("1.50")), (0.1, "decimal", Decimal("0.1")), (0.1, "float", 0.1),
        (5, "float", 5.0), (2**53 + 1, "float", 2.0**53), (10**400, "float", 10**400), (Decimal("0.1"), "float", 0.1),
        ("é", "string", "é"), (b"\xff", "binary", b"\xff"), ("é", "binary", b"\xc3\xa9"), (ID, "uuid", ID.bytes),
        (str(ID), "uuid", ID.bytes), (ID.bytes, "uuid", ID.bytes),
        (dt.date(2024, 5, 17), "date", dt.date(2024, 5, 17)), (dt.datetime(2024, 5, 17), "date", dt.date(2024, 5, 17)),
        ("2024-05-17", "date", dt.date(2024, 5, 17)), (dt.datetime(2024, 5, 17, 12), "timestamp", NOON),
        (dt.datetime(2024, 5, 17, 12, tzinfo=dt.timezone.utc), "timestamp", NOON),
        (dt.datetime(2024, 5, 17, 14, tzinfo=ZoneInfo("Europe/Berlin")), "timestamp", NOON),
        ("2024-05-17 12:00:00", "timestamp", NOON), ("2024-05-17T14:00:00.000+02:00", "timestamp", NOON),
        ("2024-05-17 14:00:00 Europe/Berlin", "timestamp", NOON),
        ("2024-05-17 12:00:00.123456789", "timestamp", NOON + 123_456_789),
        (dt.date(2024, 5, 17), "timestamp", NOON - 43_200 * 10**9),
        (np.datetime64(NOON + 1, "ns"), "timestamp", NOON + 1), (pd.Timestamp(NOON + 1), "timestamp", NOON + 1),
        (pd.Timestamp(NOON + 1, tz="Asia/Tokyo"), "timestamp", NOON + 1),
        (dt.datetime(1, 1, 1), "timestamp", -62_135_596_800 * 10**9),
        (dt.datetime(9999, 12, 31, 23, 59, 59, 999_999), "timestamp", 253_402_300_799_999_999_000),
        ("2024-05-17 12:00:00", "timestamp_ntz", NOON), (dt.time(1, 2, 3, 4), "time", 3_723_000_004_000),
        ("01:02:03.000000004", "time", 3_723_000_000_004),
    ],
)  # fmt: skip
def test_value_is_what_its_column_would_hold(value, family, expected):
    assert _same(coerce(normalize_value(value), family), expected)


@pytest.mark.parametrize(
    ("value", "family", "hint"),
    [
        (True, "integer", "expected a number"), ("5", "integer", "write 5 without quotes"),
        (Decimal("NaN"), "decimal", "float('nan')"), (Decimal("Infinity"), "float", "float('nan')"),
        (1, "boolean", "write TRUE or FALSE"), (5, "string", "write '5' in quotes"),
        (float("nan"), "string", "leave it out or use None"), (b"x", "string", "decode the bytes"),
        ("\ud800", "string", "surrogate"), (5, "binary", "X'00ff'"), ("nonsense", "uuid", "123e4567-"),
        (b"short", "uuid", "16 bytes"), (dt.datetime(2024, 5, 17, 1), "date", "only at midnight"),
        (dt.datetime(2024, 5, 17, tzinfo=dt.timezone.utc), "date", "without an offset"),
        ("2024-02-30", "date", "day is out of range"), ("17.05.2024", "date", "DATE '2024-05-17'"),
        (5, "timestamp", "TIMESTAMP '2024-05-17 13:45:00'"), ("2024-05-17 25:00:00", "timestamp", "hour must be in"),
        (dt.datetime(2024, 5, 17, tzinfo=dt.timezone.utc), "timestamp_ntz", "leave the offset out"),
        (dt.time(1, tzinfo=dt.timezone.utc), "time", "without an offset"), (5, "other", "IS NULL"),
    ],
)  # fmt: skip
def test_error_names_column_type_value_and_remedy(value, family, hint):
    with pytest.raises(PlanError) as caught:
        coerce(value, family, column="st.x", kind="some type")
    message = str(caught.value)
    assert "column 'st.x' is of type some type" in message
    assert f"the {type(value).__name__} " in message
    assert hint in message


@pytest.mark.parametrize(
    ("zone", "moment", "expected"),
    [
        ("Europe/Berlin", dt.datetime(2024, 5, 17, 14), NOON),
        ("+02:00", dt.datetime(2024, 5, 17, 14), NOON),
        ("UTC-5", dt.datetime(2024, 5, 17, 7), NOON),
        # Spark 4.3: unix_micros(TIMESTAMP '2024-03-10 02:30:00') and '2024-11-03 01:30:00' in America/New_York.
        ("America/New_York", dt.datetime(2024, 3, 10, 2, 30), 1_710_055_800 * 10**9),
        ("America/New_York", dt.datetime(2024, 11, 3, 1, 30), 1_730_611_800 * 10**9),
    ],
)
def test_timestamp_without_offset_is_in_the_given_zone(zone, moment, expected):
    assert coerce(moment, "timestamp", timezone=zone) == expected
    assert coerce(str(moment), "timestamp", timezone=zone) == expected


def test_the_hint_for_an_unknown_zone_is_made_once() -> None:
    with patch.object(literals, "available_timezones", return_value={"UTC"}) as names:
        for _ in range(3):
            with pytest.raises(PlanError, match="unknown time zone 'SystemV/XYZ'"):
                find_zone("SystemV/XYZ")
    assert names.call_count == 1


def test_huge_exponents_keep_order_and_need_no_memory():
    huge, tiny = coerce(Decimal("1e999999"), "integer"), coerce(Decimal("-1e-999999"), "integer")
    assert huge > 10**300
    assert -(Fraction(1, 10**300)) < tiny < 0
    assert coerce(Decimal("-1e999999"), "float") < -(10**309)
    assert coerce(Decimal("1e999999"), "decimal") > 10**76


@given(st.lists(st.one_of(st.none(), st.integers(), st.floats(), st.decimals(allow_nan=False, allow_infinity=False))))
def test_list_converts_like_its_values(values):
    for family in ("integer", "decimal", "float"):
        converted = coerce_all(values, family)
        expected = [coerce(value, family) for value in values]
        assert len(converted) == len(expected)
        assert all(map(_same, converted, expected))


def test_list_with_one_misfit_is_an_error():
    with pytest.raises(PlanError, match="the bool True"):
        coerce_all([*range(1_000), True], "integer")
    with pytest.raises(PlanError, match="surrogate"):
        coerce_all(["a", None, "\udc00"], "string")


@pytest.mark.parametrize(
    ("values", "family"), [(range(100_000), "integer"), ([str(i) for i in range(100_000)], "string")]
)
def test_long_plain_list_is_cheap(values, family):
    values = tuple(values)
    began = time.process_time()
    assert coerce_all(values, family) == list(values)
    assert time.process_time() - began < 0.25


@given(st.integers(-(2**60), 2**60))
def test_integers_are_the_nearest_double_in_float_columns(value):
    converted = coerce(value, "float")
    assert isinstance(converted, float)
    gap = Fraction(math.ulp(converted))
    assert abs(Fraction(converted) - value) <= gap / 2


@given(st.datetimes(), st.sampled_from(["UTC", "America/New_York", "Asia/Kolkata", "+05:45"]))
def test_timestamps_agree_with_python(moment, zone):
    aware = moment.replace(tzinfo=find_zone(zone))
    micros = (aware - dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)) // dt.timedelta(microseconds=1)
    assert coerce(moment, "timestamp", timezone=zone) == micros * 1000
    assert coerce(moment.isoformat(), "timestamp", timezone=zone) == micros * 1000
