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
from bloomparquet.query.ordering import INT32_RANGE, Point, ValueOrder

INT32 = ValueOrder("integer", "c", integers=INT32_RANGE)
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
        (PRICE, Decimal("1.5"), [150]),
        (PRICE, Decimal("1.505"), []),
        (PRICE, 10**7, []),
        (ValueOrder("float", "c", float_type=np.float32), 0.1, []),
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


def test_a_point_beyond_the_range_lies_beside_its_end() -> None:
    low, high = INT32_RANGE
    assert INT32.point(2**40, None) == Point(high, 1)
    assert INT32.point(-math.inf, None) == Point(low, -1)
    assert INT32.point(Decimal("1.5"), None) == Point(1, 1)


def test_a_value_of_another_kind_is_an_error() -> None:
    with pytest.raises(PlanError, match="column 'c'"):
        INT32.keys(["text"], None)
