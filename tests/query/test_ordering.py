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

from bloomparquet.errors import PlanError
from bloomparquet.query.literals import Family
from bloomparquet.query.ordering import INT32_RANGE, MAX_DIGITS, Point, ValueOrder

INT32 = ValueOrder("integer", "c", integers=INT32_RANGE)
FLOAT32 = ValueOrder("float", "c", float_type=np.float32)
PRICE = ValueOrder("decimal", "c", integers=(-(10**8), 10**8), scale=2)
NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70), st.floats(allow_nan=False), st.decimals(allow_nan=False, allow_infinity=False)
)


@given(st.lists(st.integers(-(2**33), 2**33)))
def test_keys_are_the_sorted_values_within_the_range(values: list[int]) -> None:
    low, high = INT32_RANGE
    keys = INT32.keys(values, None)
    assert keys is not None
    assert keys.tolist() == sorted({value for value in values if low <= value <= high})


@given(st.sampled_from([INT32, PRICE, ValueOrder("float", "c")]), NUMBERS, NUMBERS)
def test_points_have_the_order_of_the_numbers(order: ValueOrder, first: Any, second: Any) -> None:
    points = [order.point(value, None) for value in (first, second)]
    if None not in points and first <= second:
        left, right = ((point.key, point.side) for point in points if point is not None)
        assert left <= right


@pytest.mark.parametrize(
    ("order", "value", "keys"),
    [
        (INT32, 2**31, []),
        (INT32, 5.0, [5]),
        (INT32, 5.5, []),
        (INT32, math.nan, []),
        (PRICE, math.nan, []),
        (PRICE, Decimal("1.5"), [150]),
        (PRICE, Decimal("1.505"), []),
        (PRICE, 10**7, []),
        (ValueOrder("float", "c", float_type=np.float32), 0.1, []),
        (FLOAT32, Decimal(2**24 + 1), []),
        (ValueOrder("float", "c"), 0, [-0.0, 0.0]),
        (ValueOrder("string", "c"), "é", ["é".encode()]),
        (ValueOrder("binary", "c", length=2), b"abc", []),
        (ValueOrder("date", "c", integers=INT32_RANGE), dt.date(1970, 1, 2), [1]),
        (ValueOrder("timestamp_ntz", "c", unit=1_000_000), dt.datetime(1970, 1, 1, 0, 0, 0, 2000), [2]),
        (ValueOrder("timestamp_ntz", "c", unit=1_000_000), dt.datetime(1970, 1, 1, 0, 0, 0, 1), []),
    ],
)
def test_a_literal_that_the_column_cannot_hold_has_no_key(order: ValueOrder, value: Any, keys: list[Any]) -> None:
    exact = order.keys([value], None)
    assert exact is not None
    assert exact.tolist() == keys


@pytest.mark.parametrize(
    ("family", "value"),
    [
        ("float", math.nan),
        ("integer", Decimal(2**53) + Decimal("0.5")),
        ("date", dt.date(1582, 10, 14)),
        ("timestamp_ntz", dt.datetime(1899, 12, 31)),
        ("timestamp", dt.datetime(2024, 1, 1)),  # in an unknown zone
        ("decimal", 1),  # of unknown scale
    ],
)
def test_an_uncertain_key_is_none(family: Family, value: Any) -> None:
    order = ValueOrder(family, "c")
    assert order.keys([value], None) is None
    assert order.point(value, None) is None


@pytest.mark.parametrize(
    ("order", "value", "is_certain"),
    [
        (ValueOrder("binary", "c", length=16), "x" * 17, False),
        (ValueOrder("binary", "c", length=16), "x" * 16, True),
        (ValueOrder("binary", "c", length=16), b"x" * 17, True),
        (ValueOrder("binary", "c", length=17), "x" * 17, True),
        (ValueOrder("binary", "c"), "x" * 17, True),
        (ValueOrder("string", "c", length=16), "x" * 17, True),
    ],
)
def test_text_that_may_be_a_uuid_has_no_certain_key(order: ValueOrder, value: Any, is_certain: bool) -> None:
    assert (order.keys(["y", value], None) is not None) is is_certain
    assert (order.point(value, None) is not None) is is_certain


def test_a_point_beyond_the_range_lies_beside_its_end() -> None:
    low, high = INT32_RANGE
    assert INT32.point(2**40, None) == Point(high, 1)
    assert INT32.point(-math.inf, None) == Point(low, -1)
    assert INT32.point(Decimal("1.5"), None) == Point(1, 1)


TOKYO = dt.timezone(dt.timedelta(hours=9))
LONG = ValueOrder("integer", "c")
UNSIGNED = ValueOrder("integer", "c", integers=(0, 2**64 - 1))
WIDE = ValueOrder("decimal", "c", integers=(1 - 10**30, 10**30 - 1), scale=0)
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
        (INT32, 5, None, Point(5)),
        (INT32, -1.5, None, Point(-2, 1)),
        (INT32, 2**31 - 1, None, Point(2**31 - 1)),
        (INT32, 2**31, None, Point(2**31 - 1, 1)),
        (INT32, -(2**31), None, Point(-(2**31))),
        (INT32, -(2**31) - 1, None, Point(-(2**31), -1)),
        (INT32, math.inf, None, Point(2**31 - 1, 1)),
        (INT32, -math.inf, None, Point(-(2**31), -1)),
        (INT32, math.nan, None, None),
        (INT32, Decimal(2**60) + Decimal("0.5"), None, None),  # Spark's cast to DOUBLE makes it 2**60
        (PRICE, Decimal("0.005"), None, Point(0, 1)),
        (PRICE, math.inf, None, Point(10**8, 1)),
        (PRICE, math.nan, None, None),
        (ValueOrder("decimal", "c", scale=MAX_DIGITS), Decimal(f"1e-{MAX_DIGITS}"), None, Point(1)),
        (ValueOrder("decimal", "c", scale=MAX_DIGITS + 1), Decimal(0), None, None),
        (FLOAT, 0.5, None, Point(0.5)),
        (FLOAT, math.nan, None, None),
        (FLOAT, math.inf, None, Point(math.inf)),
        (FLOAT, -math.inf, None, Point(-math.inf)),
        (FLOAT, 10**400, None, Point(math.inf, -1)),
        (FLOAT, -(10**400), None, Point(-math.inf, 1)),
        (FLOAT, Decimal("1e399"), None, Point(math.inf, -1)),
        (FLOAT, 2**53 + 1, None, Point(2.0**53)),
        (FLOAT, 2**53 + 3, None, Point(2.0**53 + 4)),
        (FLOAT, -(2**53) - 1, None, Point(-(2.0**53))),
        (FLOAT32, 2**24, None, Point(2.0**24)),
        (FLOAT32, 2**24 + 1, None, None),  # Spark compares FLOAT and INT as FLOAT, without ANSI mode
        (FLOAT32, -(2**24) - 1, None, None),
        (ValueOrder("string", "c"), "\u00e9", None, Point("\u00e9".encode())),
        (DATE, dt.date(1582, 10, 15), None, Point(-141427)),
        (DATE, dt.date(1582, 10, 14), None, None),
        (SECONDS, OLDEST.replace(tzinfo=dt.timezone.utc), None, Point(OLDEST_SECONDS)),
        (SECONDS, OLDEST, "UTC", Point(OLDEST_SECONDS)),
        (SECONDS, OLDEST.replace(hour=9), "+09:00", Point(OLDEST_SECONDS)),
        (SECONDS, dt.datetime(2024, 1, 1, 9, tzinfo=TOKYO), None, Point(1_704_067_200)),
        (SECONDS, "2024-01-01 00:00:00", None, None),
        (SECONDS, OLDEST - dt.timedelta(microseconds=1), "UTC", None),
        (LOCAL, OLDEST, None, Point(OLDEST_SECONDS * 10**6)),
        (LOCAL, OLDEST - dt.timedelta(microseconds=1), None, None),
        (TIME, dt.time(0, 0, 1), None, Point(10**6)),
    ],
)
def test_points_are_exact(order: ValueOrder, value: Any, zone: str | None, point: Point | None) -> None:
    assert order.point(value, zone) == point
    keys = order.keys([value], zone)
    if point is None:
        no_number = isinstance(value, float) and math.isnan(value) and order is not FLOAT
        assert keys is None if not no_number else keys is not None and len(keys) == 0
    else:
        assert keys is not None
        assert keys.tolist() == ([] if point.side else [point.key])


@pytest.mark.parametrize(
    ("order", "values", "keys", "dtype"),
    [
        (INT32, [2**31, 2**31 - 1, 1, 1, -(2**31), -(2**31) - 1], [-(2**31), 1, 2**31 - 1], np.int64),
        (INT32, [math.inf, -math.inf, 7.0, 2**70, 10**400], [7], np.int64),
        (INT32, list(map(Decimal, (2**31, 2**31 - 1, -(2**31), -(2**31) - 1))), [-(2**31), 2**31 - 1], np.int64),
        (LONG, [2**63, 2**63 - 1, -(2**63), -(2**63) - 1], [-(2**63), 2**63 - 1], np.int64),
        (UNSIGNED, [-1, 0, 2**63, 2**64 - 1, 2**64], [0, 2**63, 2**64 - 1], np.uint64),
        (UNSIGNED, [5], [5], np.uint64),
        (WIDE, [10**30, 10**30 - 1, -(10**29), 3], [-(10**29), 3, 10**30 - 1], object),
        (WIDE, [3], [3], object),
        (ValueOrder("boolean", "c", integers=(0, 1)), [True, False, True], [0, 1], np.uint64),
        (FLOAT, [1.0, 0.0, -1.0, 0, -0.0, 2**53 + 1], [-1.0, -0.0, 0.0, 1.0, 2.0**53], np.float64),
        (FLOAT, [1.0], [1.0], np.float64),
        (FLOAT32, [1e300, 0.5, math.inf], [0.5, math.inf], np.float64),
        (ValueOrder("binary", "c", length=2), [b"zz", b"a", b"ab", b"ab"], [b"ab", b"zz"], object),
        (ValueOrder("binary", "c"), [b"b", b"a\0", b"a"], [b"a", b"a\0", b"b"], object),
    ],
)  # fmt: skip
def test_keys_are_exact(order: ValueOrder, values: list[Any], keys: list[Any], dtype: Any) -> None:
    exact = order.keys(values, None)
    assert exact is not None
    assert repr(exact.tolist()) == repr(keys)  # which tells -0.0 from 0.0
    assert exact.dtype == dtype


@pytest.mark.parametrize(
    ("precision", "scale", "value", "is_certain"),
    [
        (9, None, Decimal("1.5"), False),
        (38, 0, Decimal("1.5"), False),
        (37, 0, Decimal("1.5"), True),
        (37, 0, Decimal("1.55"), False),
        (38, 0, Decimal(1), True),
        (38, 0, 1, True),
        (38, 0, 10**37, True),
        (38, 0, Decimal("1.0"), False),  # its type has a digit after the point; Spark's rounding changes nothing
        (38, 18, 10**19, True),
        (38, 18, 10**20, False),  # 21 digits, and 18 after the point
        (38, 38, 0, False),
        (38, 38, Decimal("0." + "0" * 37 + "1"), False),  # it may be a cast to 18 digits before the point
        (38, 20, Decimal("0." + "0" * 19 + "1"), True),
        (38, 20, 5, False),
        (38, 21, Decimal(5), False),
        (38, 30, 5, False),  # in IN, it is an INT or a BIGINT
        (15, 2, 0.1, True),
        (16, 2, 0.1, False),
        (38, 18, Decimal("1." + "0" * 17 + "1"), True),
        (38, 18, Decimal("1." + "0" * 18 + "1"), False),
        (20, 18, Decimal("100.5"), True),
        (20, 18, Decimal("1" + "0" * 20 + ".5"), False),
        (20, 18, Decimal("1" + "0" * 19 + ".5"), True),
        (9, 2, Decimal("0." + "0" * 19 + "1"), True),
        (9, 2, Decimal("0." + "0" * 20 + "1"), False),
        (20, 18, Decimal("5" * 20 + "." + "5" * 18), True),
        (21, 18, Decimal("5" * 19 + "." + "5" * 19), True),
        (38, 18, Decimal("5" * 19 + "." + "5" * 19), False),
        (21, 18, Decimal("5" * 20 + "." + "5" * 19), True),  # 39 digits are no DECIMAL
        (38, 0, 10**38, True),
        (38, 18, 10**38, True),
        pytest.param(38, 2, 10**5000, True, id="5001 digits"),  # Python refuses to make text of it
        (38, 0, Decimal("1E-39"), True),
        (38, 0, Decimal("1E+400"), True),
        (38, 2, Decimal("1E+400"), True),
        (38, 0, math.inf, True),
        (39, 0, Decimal("1.5"), True),
        (None, 0, Decimal("1.5"), True),
    ],
)
def test_decimals_without_a_common_type_are_uncertain(
    precision: int | None, scale: int | None, value: Any, is_certain: bool
) -> None:
    order = ValueOrder("decimal", "c", (-(10**38), 10**38), scale=scale, precision=precision)
    assert (order.keys([value], None) is not None) == is_certain
    assert (order.point(value, None) is not None) == is_certain


@pytest.mark.parametrize(
    ("order", "values"),
    [
        (ValueOrder("decimal", "c", precision=20, scale=10), [Decimal("1" * 23 + ".0"), Decimal("0." + "1" * 20)]),
        (ValueOrder("decimal", "c", precision=9, scale=2), [0.5, Decimal("0.5")]),
        (ValueOrder("decimal", "c", precision=9, scale=2), [0.5, 1]),
        (LONG, [Decimal("1" * 30 + ".5"), Decimal("1.0000000001")]),
        (LONG, [2**53, 1.5]),
        (LONG, [Decimal("1E+1000000"), 1.5, -(2**24)]),
        (LONG, [2**24, 1.5, None]),
    ],
)
def test_values_are_compared_in_one_type(order: ValueOrder, values: list[Any]) -> None:
    """So one of them decides how Spark rounds the others."""
    assert order.keys(values, None) is None


@pytest.mark.parametrize(("zone", "is_certain"), [("Europe/Amsterdam", False), ("UTC", True), ("+01:00", True)])
def test_local_times_before_1970_are_uncertain_in_regions(zone: str, is_certain: bool) -> None:
    order = ValueOrder("timestamp", "c", unit=1000)
    for value in (dt.datetime(1937, 7, 1), "1937-07-01 00:00:28"):
        assert (order.point(value, zone) is not None) == is_certain
    assert order.point(dt.datetime(1937, 7, 1, tzinfo=dt.timezone.utc), zone) is not None
    assert order.point(dt.datetime(1970, 1, 1, 1), zone) is not None  # in Amsterdam, when 1970 begins in UTC
    assert order.point(dt.datetime(1971, 7, 1), zone) is not None


@pytest.mark.parametrize(
    ("time", "zone", "is_certain"),
    [
        (dt.datetime(2024, 3, 31, 3, 30), "Europe/Berlin", False),  # where Spark moves 02:30
        (dt.datetime(2024, 3, 31, 3, 30), "UTC", True),
        (dt.datetime(2024, 3, 31, 3, 30), None, True),
        (dt.datetime(2024, 3, 31, 4), "Europe/Berlin", True),
    ],
)
def test_wall_times_that_a_clock_change_moves_are_uncertain(
    time: dt.datetime, zone: str | None, is_certain: bool
) -> None:
    assert (LOCAL.keys([OLDEST, time], zone) is not None) == is_certain
    assert (LOCAL.point(time, zone) is not None) == is_certain
    instants = ValueOrder("timestamp", "c", unit=1000)
    assert (instants.point(time, zone) is not None) == (zone is not None)


@pytest.mark.parametrize(
    ("value", "is_certain"),
    [
        (Decimal(2**53), True),
        (Decimal(2**53 + 1), False),  # DOUBLE rounds it to 2**53
        (Decimal(-(2**53) - 1), False),
        (Decimal(2**53 + 2), True),
        (2**53, True),
        (2**53 + 1, False),  # beside files of DOUBLE, a reader makes it 2**53
        (2**53 + 2, True),
        (Decimal(5), True),
        (Decimal("5." + "0" * 18), True),
        (Decimal("5." + "0" * 30), False),
        (Decimal("5." + "5" * 18), True),
        (float(2**24 - 1), True),
        (float(2**24), False),  # a FLOAT lacks 2**24 + 1
        (Decimal("5." + "5" * 19), False),
        (Decimal("5." + "0" * 18 + "1"), False),  # beside 20 digits of a BIGINT, DECIMAL has only 18 after the point
        (Decimal(2**125), True),  # of 38 digits, beside which DECIMAL has none after the point
        (Decimal("-1E+1000000"), True),
        (Decimal("1E-1000000"), False),
        (1000.1, True),
        (2.0**53, False),  # DOUBLE rounds 2**53 + 1 to it
        (2.0**63, False),
        (-(2.0**63), False),
        (2.0**64, False),
        (2.0**65, True),  # beyond every column of integers
        (math.inf, True),
        (Decimal(f"{2**1000}.5"), True),  # beyond them too; and DOUBLE may not have it
    ],
)
def test_integers_that_depend_on_the_reader_are_uncertain(value: Any, is_certain: bool) -> None:
    assert (LONG.keys([value], None) is not None) == is_certain
    assert (LONG.point(value, None) is not None) == is_certain
    assert WIDE.keys([value], None) is not None  # decimals are compared exactly


def test_a_value_of_another_kind_is_an_error() -> None:
    for convert in (lambda value: INT32.keys([value], None), lambda value: INT32.point(value, None)):
        with pytest.raises(PlanError, match="column 'c'"):
            convert("text")
