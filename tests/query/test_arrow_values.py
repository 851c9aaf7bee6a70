"""Arrays that are made without pandas are those that pyarrow makes."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloomparquet.query import arrow_values
from bloomparquet.query.arrow_values import (
    FALSE,
    NULL,
    TRUE,
    filter_rows,
    from_bools,
    make_array,
    make_scalar,
    stored_array,
    to_bools,
)

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
NAIVE = dt.datetime(2026, 7, 1, 12)
MOMENTS = [
    dt.datetime(1, 1, 1, tzinfo=dt.timezone.utc),
    dt.datetime(2026, 3, 29, 2, 30, tzinfo=ZoneInfo("Europe/Berlin")),  # a clock change skips this time
    *(dt.datetime(2026, 10, 25, 2, 30, fold=fold, tzinfo=ZoneInfo("Europe/Berlin")) for fold in (0, 1)),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, dt.timezone(dt.timedelta(hours=5, minutes=30))),
]
CASES: list[tuple[pa.DataType, list[Any]]] = [
    *((kind, [0, 1, 127, None]) for kind in INTEGERS),
    (pa.int64(), [-(2**63), 2**63 - 1]), (pa.uint64(), [2**64 - 1, None]), (pa.int32(), [1.0, 1.5, np.int32(7)]),
    (pa.float64(), [0.0, -0.0, float("inf"), -float("inf"), 5e-324, None]),
    (pa.float64(), [float("nan"), -float("nan"), None]), (pa.float64(), [1, 2**53, np.float64(0.1)]),
    (pa.float32(), [0.1, None]), (pa.bool_(), [True, False, None] * 7),
    *((kind, ["", "a\0b", "ü😀", None, "x" * 300]) for kind in (pa.string(), pa.large_string(), pa.string_view())),
    *((kind, [b"", b"\0\xff", None, b"x"]) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
    (pa.string(), [b"bytes"]), (pa.binary(), ["text"]),
    (pa.date32(), [dt.date.min, dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date.max, None]), (pa.date32(), [NAIVE]),
    *((pa.timestamp(unit, zone), [*MOMENTS, None]) for unit in ("us", "ms") for zone in (None, "UTC", "+02:00")),
    (pa.timestamp("us", "UTC"), [NAIVE, None]), (pa.decimal128(12, 2), [Decimal("1.5"), 7, None]), (pa.int8(), []),
    (pa.decimal128(38, 0), [Decimal(10**38 - 1), Decimal(1 - 10**38), Decimal(0), None]),
    (pa.decimal128(38, 38), [Decimal(f"{10**38 - 1}E-38"), Decimal("-0E-38")]),
    (pa.decimal128(12, 2), [Decimal("-1.50"), Decimal("2E+3"), Decimal("-0"), Decimal("0E+9")]),
]  # fmt: skip
REFUSED: list[tuple[pa.DataType, Any]] = [
    (pa.int8(), 128), (pa.uint8(), -1), (pa.uint64(), 2**64), (pa.int64(), "1"), (pa.string(), "\ud800"),
    (pa.decimal128(3, 1), Decimal("1.25")), (pa.decimal128(3, 1), Decimal(100)), (pa.decimal128(3, 1), Decimal("NaN")),
    (pa.decimal128(6, 2), Decimal("1E+5")), (pa.string(), b"\xff"), (pa.string(), 1),
    (pa.bool_(), 1), (pa.date32(), "2026-01-01"), (pa.float64(), "1"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values"), CASES, ids=str)
def test_arrays_are_those_of_pyarrow(kind: pa.DataType, values: list[Any]) -> None:
    made, expected = make_array(values, kind), pa.array(values, kind)
    made.validate(full=True)
    assert made.type == expected.type
    assert made.null_count == expected.null_count
    if pa.types.is_floating(kind):  # NaN is not equal to itself, and the zeros are
        numbers = [np.array([array.to_pylist()], kind.to_pandas_dtype()).tobytes() for array in (made, expected)]
        assert numbers[0] == numbers[1]
    else:
        assert made.equals(expected)
    for value in values:
        assert str(make_scalar(value, kind)) == str(pa.scalar(value, kind))


@pytest.mark.parametrize(("kind", "value"), REFUSED, ids=str)
def test_errors_are_those_of_pyarrow(kind: pa.DataType, value: Any) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError)) as expected:
        pa.array([value, None], kind)
    with pytest.raises(expected.type) as raised:
        make_array([value, None], kind)
    assert str(raised.value) == str(expected.value)


USUAL = [
    (pa.int32(), [7, None]), (pa.uint64(), [2**64 - 1]), (pa.float64(), [0.5, None]), (pa.bool_(), [True, None]),
    (pa.string(), ["a", None]), (pa.large_string(), ["a"]), (pa.binary(), [b"a"]), (pa.large_binary(), [b"a", None]),
    (pa.date32(), [dt.date(2026, 7, 1)]), (pa.timestamp("us", "UTC"), MOMENTS),
    (pa.decimal128(6, 2), [Decimal("2E+3"), Decimal("1.5"), Decimal("-1.25"), Decimal("9999.99"), None]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values"), USUAL, ids=str)
def test_usual_values_need_no_function_of_pyarrow(
    kind: pa.DataType, values: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = pa.array(values, kind)
    monkeypatch.delattr(pa, "array")
    assert make_array(values, kind).equals(expected)


def test_stored_integers() -> None:
    assert stored_array([1, None, -5], pa.date32()).to_pylist() == [dt.date(1970, 1, 2), None, dt.date(1969, 12, 27)]
    assert stored_array([-125], pa.decimal128(5, 2)).to_pylist() == [Decimal("-1.25")]
    assert stored_array([10**76 - 1], pa.decimal256(76, 0)).to_pylist() == [Decimal(10**76 - 1)]
    with pytest.raises(OverflowError):
        stored_array([256], pa.uint8())


def test_booleans() -> None:
    assert [TRUE.as_py(), FALSE.as_py(), NULL.as_py()] == [True, False, None]
    assert {scalar.type for scalar in (TRUE, FALSE, NULL)} == {pa.bool_()}
    values = pa.array([True, False, None, True] * 5)
    chunked = pa.chunked_array([values.slice(3, 6), values.slice(1, 2), values.slice(0, 0)], pa.bool_())
    for booleans in (values, values.slice(3), values.slice(2, 9), values.slice(0, 0), chunked, chunked.slice(0, 0)):
        bools = to_bools(booleans)
        assert (bools.dtype, bools.tolist()) == (np.bool_, [value is True for value in booleans.to_pylist()])


def test_many_values_are_left_to_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its loops are compiled."""
    monkeypatch.setattr(arrow_values, "_MOST", 10)
    assert make_array(range(11), pa.int64()).equals(pa.array(range(11), pa.int64()))
    monkeypatch.setattr(pa, "array", lambda *_: "pyarrow's")
    assert make_array([1] * 11, pa.int64()) == "pyarrow's"
    assert len(make_array([1] * 10, pa.int64())) == 10


@given(st.lists(st.booleans(), max_size=20))
def test_booleans_of_numpy_become_those_of_arrow(values: list[bool]) -> None:
    booleans = from_bools(np.array(values, np.bool_))
    booleans.validate(full=True)
    assert booleans.equals(pa.array(values, pa.bool_()))
    assert to_bools(booleans).tolist() == values


@pytest.mark.parametrize("kept", [[], [0], [1, 2, 5], [0, 2, 3, 6], list(range(7))])
def test_rows_with_views_are_filtered(kept: list[int]) -> None:
    views = pa.array([None if i == 5 else str(i) for i in range(7)], pa.string_view())
    batch = pa.record_batch({"number": pa.array(range(7)), "text": views})
    rows = filter_rows(batch, pa.array([i in kept or (None if i == 4 else False) for i in range(7)]))
    assert rows.schema == batch.schema
    assert rows.to_pylist() == [batch.to_pylist()[i] for i in kept]
