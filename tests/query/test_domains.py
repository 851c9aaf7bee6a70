"""Comparisons of Arrow columns with literals at the edges of each type, and with lists longer than a batch."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bloomparquet.query.domains import arrow_family, comparable, domain_of

NAN, INF = math.nan, math.inf
BEYOND = 10**400  # every float64
DAY = dt.date(1970, 1, 9)


def key(value: Any) -> tuple[int, Any]:
    """Spark's order: NaN equals itself and is above all other numbers."""
    return (1, 0) if value != value else (0, value)


@pytest.mark.parametrize(
    ("kind", "values", "literals"),
    [
        (pa.bool_(), [True, False, None], [True, False]),
        (pa.int8(), [-128, 0, 127, None], [-128, -129, 127, 128, 0, Decimal("0.5"), -INF, INF, NAN]),
        (pa.uint64(), [0, 2**64 - 1, None], [0, -1, 2**64 - 1, 2**64, -INF, INF, NAN]),
        (pa.decimal128(3, 1), [Decimal("-99.9"), Decimal("99.9"), Decimal(0), None],
         [Decimal("99.9"), Decimal("99.95"), Decimal("-99.95"), 100, -100, INF, -INF, NAN]),
        (pa.date32(), [DAY, None], [DAY, DAY + dt.timedelta(1), DAY - dt.timedelta(1)]),
        (pa.date64(), [DAY, None], [DAY, DAY + dt.timedelta(1), DAY - dt.timedelta(1)]),
        (pa.float64(), [-INF, -0.0, 0.0, 1.7976931348623157e308, INF, NAN, None],
         [0.0, -0.0, INF, -INF, NAN, BEYOND, -BEYOND, 1.0]),
        (pa.float32(), [-INF, 0.5, INF, NAN, None], [0.5, INF, -INF, NAN, BEYOND, -BEYOND]),
    ],
)  # fmt: skip
def test_comparisons_have_sparks_order(kind: pa.DataType, values: list[Any], literals: list[Any]) -> None:
    column, domain = comparable(pa.array(values, kind)), domain_of(kind)

    def assert_equal(test: Any, expected: Any) -> None:
        wanted = [None if value is None else expected(key(value)) for value in values]
        assert test(column).to_pylist() == wanted

    for literal in literals:
        at = key(literal)
        assert_equal(domain.equal(literal), lambda value, at=at: value == at)
        assert_equal(domain.at_most(literal, inclusive=True), lambda value, at=at: value <= at)
        assert_equal(domain.at_most(literal, inclusive=False), lambda value, at=at: value < at)
    for some in (literals, literals[:1], literals[1:]):
        within = [value is not None and key(value) in list(map(key, some)) for value in values]
        assert domain.contains(some)(column).to_pylist() == within


@pytest.mark.parametrize(
    ("kind", "family", "stored"),
    [
        (pa.uuid(), "uuid", pa.large_binary()),
        (pa.dictionary(pa.int8(), pa.uuid()), "uuid", pa.large_binary()),
        (pa.binary(16), "binary", pa.large_binary()),
        (pa.binary_view(), "binary", pa.large_binary()),
        (pa.json_(), "string", pa.string()),
        (pa.run_end_encoded(pa.int32(), pa.decimal128(5, 2)), "decimal", pa.decimal128(38, 2)),
        (pa.decimal256(40, 3), "decimal", pa.decimal256(76, 3)),
        (pa.dictionary(pa.int8(), pa.date32()), "date", pa.int32()),
        (pa.time32("s"), "time", pa.int32()),
        (pa.time64("us"), "time", pa.int64()),
        (pa.timestamp("ms"), "timestamp_ntz", pa.int64()),
        (pa.timestamp("ns", "UTC"), "timestamp", pa.int64()),
        (pa.duration("s"), "other", pa.duration("s")),
        (pa.list_(pa.int8()), "other", pa.list_(pa.int8())),
    ],
)
def test_the_family_and_the_comparable_type_of_a_column(kind: pa.DataType, family: str, stored: pa.DataType) -> None:
    domain = domain_of(kind)
    assert (domain.family, domain.kind) == (family, stored)
    assert arrow_family(kind) == family


def test_a_list_much_longer_than_a_batch() -> None:
    wanted = list(range(-300, 300, 3))
    column = pa.array([0, 1, None, -300, 297, 300, -301], pa.int64())
    assert len(wanted) > 4 * len(column)
    assert domain_of(pa.int64()).contains(wanted)(column).to_pylist() == [True, False, False, True, True, False, False]
    assert domain_of(pa.int64()).contains([w for w in wanted if w])(pa.array([None, 0, 3])).to_pylist() == [
        False, False, True,
    ]  # fmt: skip
    assert np.array_equal(domain_of(pa.int64()).contains(range(600))(pa.array([5, 601])), pa.array([True, False]))
