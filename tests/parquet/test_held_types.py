"""Which types hold all values of a column: integers, decimals, floats and times, pair by pair."""

from __future__ import annotations

from typing import Any

import pytest

from bloomparquet.parquet.values.encoding import parquet_type
from bloomparquet.query.columns import Annotation, SchemaNode


def node(physical: str, kind: str | None = None, length: int | None = None, **details: Any) -> SchemaNode:
    return SchemaNode("x", "OPTIONAL", physical, length, Annotation(kind, **details) if kind else None)


def integer(bits: int, signed: bool) -> SchemaNode:
    return node("INT64" if bits == 64 else "INT32", "INTEGER", bit_width=bits, signed=signed)


def decimal(precision: int | None, scale: int | None) -> SchemaNode:
    return node("INT64", "DECIMAL", precision=precision, scale=scale)


def times(kind: str, **details: Any) -> list[SchemaNode]:
    return [node("INT32" if (kind, unit) == ("TIME", "ms") else "INT64", kind, unit=unit, **details) for unit in UNITS]


UNITS = ("ms", "us", "ns")
FLOAT16, FLOAT, DOUBLE = node("FIXED_LEN_BYTE_ARRAY", "FLOAT16", 2), node("FLOAT"), node("DOUBLE")
TEXT, BINARY, DATE, INT96 = node("BYTE_ARRAY", "STRING"), node("BYTE_ARRAY"), node("INT32", "DATE"), node("INT96")


def is_held_by(stored: SchemaNode, wider: SchemaNode) -> bool:
    return parquet_type(wider).holds(parquet_type(stored))


@pytest.mark.parametrize("wider_signed", [True, False])
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("wider", [8, 16, 32, 64])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_integers_hold_what_their_limits_say(bits: int, signed: bool, wider: int, wider_signed: bool) -> None:
    def limits(bits: int, signed: bool) -> tuple[int, int]:
        return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)

    (low, high), (least, most) = limits(bits, signed), limits(wider, wider_signed)
    assert parquet_type(integer(bits, signed)).integers == (low, high)
    assert is_held_by(integer(bits, signed), integer(wider, wider_signed)) == (least <= low and high <= most)


@pytest.mark.parametrize(
    ("stored", "precision", "scale", "held"),
    [
        (decimal(9, 2), 9, 2, True), (decimal(9, 2), 10, 3, True), (decimal(9, 2), 9, 3, False),
        (decimal(9, 2), 8, 2, False), (decimal(9, 2), 10, 1, False), (decimal(9, 2), 12, 1, False),
        (decimal(9, None), 9, 0, True), (decimal(None, None), 0, 0, True),
        (integer(8, True), 3, 0, True), (integer(8, True), 2, 0, False), (integer(8, False), 3, 0, True),
        (integer(16, True), 5, 0, True), (integer(16, True), 4, 0, False), (integer(16, False), 6, 1, True),
        (node("INT32"), 10, 0, True), (node("INT32"), 10, 1, False), (node("INT32"), 9, 0, False),
        (integer(32, False), 38, 0, False), (node("INT64"), 20, 0, True), (node("INT64"), 19, 0, False),
        (integer(64, False), 20, 0, True), (integer(64, False), 19, 0, False),
        (DOUBLE, 38, 0, False), (TEXT, 38, 0, False), (DATE, 38, 0, False),
    ],
)  # fmt: skip
def test_decimals_hold_only_values_with_room_for_all_digits(
    stored: SchemaNode, precision: int, scale: int, held: bool
) -> None:
    assert is_held_by(stored, decimal(precision, scale)) == held


def test_a_decimal_without_a_precision_holds_nothing() -> None:
    assert not is_held_by(decimal(1, 0), decimal(None, None))


def test_floats_hold_narrower_floats_and_small_integers() -> None:
    floats = (FLOAT16, FLOAT, DOUBLE)
    for i, stored in enumerate(floats):
        assert [is_held_by(stored, wider) for wider in floats] == [j >= i for j in range(3)]
        assert not is_held_by(stored, node("INT64"))
    for stored, held in (
        (integer(8, True), [True, True, True]), (integer(8, False), [True, True, True]),
        (integer(16, True), [False, True, True]), (integer(16, False), [False, True, True]),
        (node("INT32"), [False, False, True]), (integer(32, False), [False, False, True]),
        (node("INT64"), [False, False, False]), (integer(64, False), [False, False, False]),
    ):  # fmt: skip
        assert [is_held_by(stored, wider) for wider in floats] == held
    assert not is_held_by(decimal(9, 2), DOUBLE)


@pytest.mark.parametrize(
    ("kind", "details"),
    [("TIME", {}), ("TIMESTAMP", {"adjusted_to_utc": True}), ("TIMESTAMP", {"adjusted_to_utc": False})],
)
def test_a_unit_of_time_holds_the_coarser_ones(kind: str, details: dict[str, bool]) -> None:
    units = times(kind, **details)
    for i, stored in enumerate(units):
        assert [is_held_by(stored, wider) for wider in units] == [j >= i for j in range(3)]


def test_int96_is_read_as_microseconds() -> None:
    milliseconds, microseconds, nanoseconds = times("TIMESTAMP", adjusted_to_utc=True)
    assert [is_held_by(INT96, wider) for wider in (milliseconds, microseconds, nanoseconds)] == [False, True, True]
    assert not is_held_by(INT96, times("TIMESTAMP", adjusted_to_utc=False)[1])


def test_other_types_hold_their_own_values_only() -> None:
    kinds = (TEXT, BINARY, DATE, node("BOOLEAN"), node("INT64"), times("TIME")[1], times("TIMESTAMP")[1])
    assert [[is_held_by(stored, wider) for wider in kinds] for stored in kinds] == [
        [i == j for j in range(len(kinds))] for i in range(len(kinds))
    ]
