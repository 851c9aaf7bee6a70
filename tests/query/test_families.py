"""Which comparisons are exact, at the limits of each rule of the table in `query/families.py`."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from bloomparquet.errors import PlanError
from bloomparquet.query.families import ColumnType

LONG, DOUBLE = ColumnType("integer", "c"), ColumnType("float", "c")
FLOAT, HALF = ColumnType("float", "c", float_type=np.float32), ColumnType("float", "c", float_type=np.float16)
INSTANT = ColumnType("timestamp", "c", unit=1000)
UTC = dt.timezone.utc


def decimal(precision: int | None, scale: int | None) -> ColumnType:
    return ColumnType("decimal", "c", precision=precision, scale=scale)


def bytes_of(length: int | None) -> ColumnType:
    return ColumnType("binary", "c", length=length)


EXACT: list[tuple[ColumnType, Any]] = [
    (LONG, 2**70), (LONG, 2**53), (LONG, 2**53 + 2), (LONG, 5.0), (LONG, 1000.1), (LONG, float(2**24 - 1)),
    (LONG, -float(2**24 - 1)), (LONG, Decimal(5)), (LONG, Decimal(2**53)), (LONG, Decimal("5." + "0" * 8)),
    (LONG, math.nan), (LONG, Decimal("5.00000001")), (LONG, Decimal("1E+3")),
    (decimal(38, 0), 5), (decimal(38, 0), Decimal(1)), (decimal(38, 18), 10**19), (decimal(37, 0), Decimal("1.5")),
    (decimal(38, 18), Decimal("1." + "0" * 17 + "1")), (decimal(38, 20), Decimal("1E+3")), (decimal(38, 0), 10**37),
    (decimal(9, 2), Decimal("0." + "0" * 19 + "1")), (decimal(9, 2), 10**30), (decimal(15, 2), 0.1),
    (decimal(15, 2), math.inf), (decimal(39, 0), Decimal("1.5")),  # not of Spark
    (DOUBLE, 2**53 + 1), (DOUBLE, 10**400), (DOUBLE, Decimal("1e-30")), (FLOAT, 2**24), (FLOAT, -(2**24)),
    (FLOAT, 10.5), (FLOAT, Decimal("10.5")), (FLOAT, 1e300), (HALF, 2**11),
    (INSTANT, dt.datetime(1937, 7, 1, tzinfo=UTC)), (ColumnType("date", "c"), "2024-05-17"),
    (ColumnType("string", "c", length=16), "x" * 17), (bytes_of(16), "x" * 16), (bytes_of(16), b"x" * 17),
    (bytes_of(17), "x" * 17), (bytes_of(None), "x" * 17),
]  # fmt: skip

INEXACT: list[tuple[ColumnType, Any]] = [
    (LONG, 2**53 + 1),  # beside files of DOUBLE, it is 2**53
    (LONG, -(2**53) - 1), (LONG, Decimal(2**53 + 1)), (LONG, Decimal(2**24) + Decimal("0.5")),
    (LONG, Decimal("1E-1000000")), (LONG, Decimal("5.000000001")),
    (LONG, float(2**24)),  # FLOAT has no 2**24 + 1
    (LONG, -float(2**24)), (LONG, math.inf),
    (decimal(38, 0), Decimal("1.0")),  # its type has a digit after the point
    (decimal(38, 0), Decimal("1.5")), (decimal(37, 0), Decimal("1.55")), (decimal(38, 0), 10**38),
    (decimal(38, 18), 10**20), (decimal(38, 20), 5), (decimal(38, 21), Decimal(5)), (decimal(38, 38), 0),
    (decimal(38, 18), Decimal("1." + "0" * 18 + "1")), (decimal(9, 2), Decimal("0." + "0" * 20 + "1")),
    (decimal(38, 2), 10**5000), (decimal(38, 2), Decimal("1E+400")), (decimal(16, 2), 0.1),
    (decimal(38, 0), math.inf), (decimal(None, 0), 1), (decimal(9, None), 1),
    (FLOAT, 2**24 + 1),  # without ANSI mode, Spark compares FLOAT and INT as FLOAT
    (FLOAT, -(2**24) - 1), (HALF, 2**11 + 1),
    (INSTANT, dt.datetime(2024, 1, 1)),  # in an unknown zone
    (INSTANT, "2024-01-01 00:00:00"), (bytes_of(16), "x" * 17),
]  # fmt: skip


@pytest.mark.parametrize(
    ("column", "value", "is_exact"),
    [*((*each, True) for each in EXACT), *((*each, False) for each in INEXACT)],
    ids=lambda value: "" if isinstance(value, ColumnType | int) else None,
)
def test_only_exact_comparisons_give_evidence(column: ColumnType, value: Any, is_exact: bool) -> None:
    assert (column.exact_values([value], None) is not None) is is_exact
    assert (column.exact_values([None, value], None) is not None) is is_exact or column is INSTANT


@pytest.mark.parametrize(
    ("column", "values", "is_exact"),
    [
        (decimal(20, 10), [Decimal("1" * 23 + ".0"), Decimal("0." + "1" * 20)], False),
        (decimal(9, 2), [0.5, Decimal("0.5")], False), (decimal(9, 2), [0.5, 1], False),
        (decimal(9, 2), [1, Decimal("0.5"), None], True), (LONG, [2**24, 1.5, None], False),
        (LONG, [2**24, Decimal("0.5")], False), (LONG, [5, 1.5, Decimal("2.5"), math.nan], True),
        (LONG, [2**40, Decimal(5)], True), (LONG, [5, 1.5, Decimal("5.000000001")], False),
        (LONG, [7, 2**53 + 1], False), (FLOAT, [2**24 + 1, 1.5], False), (LONG, [], True), (decimal(38, 30), [], True),
    ],
)  # fmt: skip
def test_the_values_of_in_are_compared_in_one_type(column: ColumnType, values: list[Any], is_exact: bool) -> None:
    assert (column.exact_values(values, None) is not None) is is_exact


@pytest.mark.parametrize(("zone", "is_exact"), [("Europe/Amsterdam", False), ("UTC", True), ("+01:00", True)])
def test_local_times_before_1970_are_uncertain_in_regions(zone: str, is_exact: bool) -> None:
    for value in (dt.datetime(1937, 7, 1), "1937-07-01 00:00:28"):
        assert (INSTANT.exact_values([value], zone) is not None) is is_exact
    assert INSTANT.exact_values([dt.datetime(1937, 7, 1, tzinfo=UTC)], zone) is not None
    # In Amsterdam, 1970 begins in UTC.
    assert INSTANT.exact_values([None, dt.datetime(1970, 1, 1, 1)], zone) is not None
    assert INSTANT.exact_values([dt.datetime(1971, 7, 1)], zone) is not None


def test_a_value_of_another_kind_is_an_error() -> None:
    for column, value in ((LONG, "text"), (INSTANT, "text"), (decimal(9, 2), Decimal("NaN")), (FLOAT, True)):
        with pytest.raises(PlanError, match="column 'c'"):
            column.exact_values([value], None)
