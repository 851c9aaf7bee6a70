"""Keys of literals in the order of a column: exact, sorted, and absent where the column cannot hold the literal."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloomparquet.query.families import INT32_RANGE, MAX_DIGITS
from bloomparquet.query.ordering import Point, ValueOrder

INT32 = ValueOrder("integer", "c", integers=INT32_RANGE)
FLOAT32 = ValueOrder("float", "c", float_type=np.float32)
PRICE = ValueOrder("decimal", "c", integers=(-(10**8), 10**8), scale=2, precision=9)
NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70), st.floats(allow_nan=False), st.decimals(allow_nan=False, allow_infinity=False)
)


@given(st.lists(st.integers(-(2**33), 2**33)))
def test_keys_are_the_sorted_values_within_the_range(values: list[int]) -> None:
    low, high = INT32_RANGE
    keys = INT32.keys(values, None)
    assert keys.tolist() == sorted({value for value in values if low <= value <= high})


@given(st.sampled_from([INT32, PRICE, ValueOrder("float", "c")]), NUMBERS, NUMBERS)
def test_points_have_the_order_of_the_numbers(order: ValueOrder, first: Any, second: Any) -> None:
    points = [order.point(value, None) for value in (first, second)]
    if None not in points and first <= second:
        left, right = ((point.key, point.side) for point in points if point is not None)
        assert left <= right


TOKYO = dt.timezone(dt.timedelta(hours=9))
LONG = ValueOrder("integer", "c")
UNSIGNED = ValueOrder("integer", "c", integers=(0, 2**64 - 1))
WIDE = ValueOrder("decimal", "c", integers=(1 - 10**30, 10**30 - 1), scale=0, precision=30)
FLOAT = ValueOrder("float", "c")
SECONDS = ValueOrder("timestamp", "c", unit=10**9)
LOCAL = ValueOrder("timestamp_ntz", "c", unit=10**3)
TIME = ValueOrder("time", "c", unit=10**3)
DATE = ValueOrder("date", "c", integers=INT32_RANGE)
OLDEST = dt.datetime(1900, 1, 2)
OLDEST_SECONDS = -70 * 365 * 86_400 - 17 * 86_400 + 86_400  # from 1900-01-02 to 1970: 70 years, 17 leap days


@pytest.mark.parametrize(
    ("order", "value", "zone", "point"),
    [
        (INT32, 5, None, Point(5)), (INT32, -1.5, None, Point(-2, 1)), (INT32, 2**31, None, Point(2**31 - 1, 1)),
        (INT32, -(2**31) - 1, None, Point(-(2**31), -1)), (INT32, math.nan, None, None),
        (LONG, Decimal(2**23) + Decimal("0.5"), None, Point(2**23, 1)), (PRICE, Decimal("0.005"), None, Point(0, 1)),
        (PRICE, math.inf, None, Point(10**8, 1)), (PRICE, math.nan, None, None), (PRICE, 10**7, None, Point(10**8, 1)),
        (ValueOrder("decimal", "c", scale=MAX_DIGITS, precision=76), Decimal(f"1e-{MAX_DIGITS}"), None, Point(1)),
        (ValueOrder("decimal", "c", scale=MAX_DIGITS + 1, precision=77), Decimal(0), None, None),
        (FLOAT, math.nan, None, None), (FLOAT, math.inf, None, Point(math.inf)),
        (FLOAT, 10**400, None, Point(math.inf, -1)), (FLOAT, -(10**400), None, Point(-math.inf, 1)),
        (FLOAT, Decimal("1e399"), None, Point(math.inf, -1)), (FLOAT, 2**53 + 1, None, Point(2.0**53)),
        (FLOAT32, 2**24, None, Point(2.0**24)),
        (FLOAT32, 2**24 + 1, None, None),  # Spark compares FLOAT and INT as FLOAT, without ANSI mode
        (ValueOrder("string", "c"), "\u00e9", None, Point("\u00e9".encode())),
        (DATE, dt.date(1582, 10, 15), None, Point(-141427)), (DATE, dt.date(1582, 10, 14), None, None),
        (SECONDS, OLDEST.replace(tzinfo=dt.timezone.utc), None, Point(OLDEST_SECONDS)),
        (SECONDS, OLDEST.replace(hour=9), "+09:00", Point(OLDEST_SECONDS)),
        (SECONDS, dt.datetime(2024, 1, 1, 9, tzinfo=TOKYO), None, Point(1_704_067_200)),
        (SECONDS, "2024-01-01 00:00:00", None, None), (SECONDS, OLDEST - dt.timedelta(microseconds=1), "UTC", None),
        (LOCAL, OLDEST, None, Point(OLDEST_SECONDS * 10**6)),
        (LOCAL, OLDEST - dt.timedelta(microseconds=1), None, None),
        (LOCAL, np.datetime64("1970-01-01T00:00:00.000002001"), None, Point(2, 1)),
        (TIME, dt.time(0, 0, 1), None, Point(10**6)),
    ],
)  # fmt: skip
def test_points_are_exact(order: ValueOrder, value: Any, zone: str | None, point: Point | None) -> None:
    assert order.point(value, zone) == point
    keys = order.keys([value], zone)
    if point is None:
        no_number = isinstance(value, float) and math.isnan(value) and order is not FLOAT
        assert keys is None if not no_number else keys is not None and len(keys) == 0
    else:
        assert keys.tolist() == ([] if point.side else [point.key])


@pytest.mark.parametrize(
    ("order", "values", "keys", "dtype"),
    [
        (INT32, [2**31, 2**31 - 1, 1, 1, -(2**31), -(2**31) - 1], [-(2**31), 1, 2**31 - 1], np.int64),
        (INT32, [math.nan, 7.0, 7.5, -(2**20)], [-(2**20), 7], np.int64),
        (INT32, [7, 2**70, 10**400], [7], np.int64),
        (PRICE, [math.inf, -math.inf, math.nan, 1.5, 1.505], [150], np.int64),
        (LONG, [2**63, 2**63 - 1, -(2**63), -(2**63) - 1], [-(2**63), 2**63 - 1], np.int64),
        (UNSIGNED, [5], [5], np.uint64),  # numpy would compare int64 with uint64 as float64
        (UNSIGNED, [-1, 0, 2**63, 2**64 - 1, 2**64], [0, 2**63, 2**64 - 1], np.uint64),
        (WIDE, [10**30, 10**30 - 1, -(10**29), 3], [-(10**29), 3, 10**30 - 1], object),
        (ValueOrder("boolean", "c", integers=(0, 1)), [True, False, True], [0, 1], np.uint64),
        (FLOAT, [2.0, 0.0, -1.0, 0, -0.0, 2**53 + 1], [-1.0, -0.0, 0.0, 2.0, 2.0**53], np.float64),
        (FLOAT32, [1e300, 0.5, math.inf, Decimal(2**24 + 1)], [0.5, math.inf], np.float64),
        (ValueOrder("binary", "c", length=2), [b"zz", b"a", b"ab", b"ab"], [b"ab", b"zz"], object),
        (ValueOrder("binary", "c"), [b"b", b"a\0", b"a"], [b"a", b"a\0", b"b"], object),
    ],
)  # fmt: skip
def test_keys_are_exact(order: ValueOrder, values: list[Any], keys: list[Any], dtype: Any) -> None:
    exact = order.keys(values, None)
    assert repr(exact.tolist()) == repr(keys)  # which tells -0.0 from 0.0
    assert exact.dtype == dtype
