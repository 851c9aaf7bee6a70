"""Literals as columns store them, type by type: the bytes that are hashed, and bounds as keys."""

from __future__ import annotations

import datetime as dt
import math
import struct
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import xxhash

from bloomparquet.errors import PlanError
from bloomparquet.parquet.metadata.chunk_fields import ChunkColumns
from bloomparquet.parquet.metadata.file_profile import WriterTraits
from bloomparquet.parquet.values.encoding import (
    bounds_of,
    encode_point,
    encode_values,
    has_order,
    narrow_range,
    parquet_family,
    plain_values,
)
from bloomparquet.query.columns import Annotation, LeafColumn, SchemaNode
from bloomparquet.query.families import INT32_RANGE, INT64_RANGE
from bloomparquet.query.literals import Family
from bloomparquet.query.ordering import Point

SPARK = WriterTraits(spark=True, legacy_int96=False, has_padded_or_collated_text=False, column_orders=(True,))
OTHER = WriterTraits(spark=False, legacy_int96=False, has_padded_or_collated_text=False, column_orders=(False,))
LEGACY = WriterTraits(spark=True, legacy_int96=True, has_padded_or_collated_text=False, column_orders=(True,))
PADDED = WriterTraits(spark=True, legacy_int96=False, has_padded_or_collated_text=True, column_orders=(True,))
UTC = dt.timezone.utc
SECOND = dt.datetime(2024, 1, 1, 0, 0, 1)
SINCE_1970 = 1_704_067_201  # seconds until SECOND


def leaf(physical: str | None, kind: str | None = None, length: int | None = None, **details: Any) -> LeafColumn:
    annotation = Annotation(kind, **details) if kind else None
    return LeafColumn(0, ("x", "y"), SchemaNode("y", "OPTIONAL", physical, length, annotation), 0)


FIXED = "FIXED_LEN_BYTE_ARRAY"
INT32, INT64, INT96 = leaf("INT32"), leaf("INT64"), leaf("INT96")
UINT32 = leaf("INT32", "INTEGER", bit_width=32, signed=False)
UINT64 = leaf("INT64", "INTEGER", bit_width=64, signed=False)
FLOAT16 = leaf(FIXED, "FLOAT16", 2)
TEXT = leaf("BYTE_ARRAY", "STRING")
DATE = leaf("INT32", "DATE")
UUID = leaf(FIXED, "UUID", 16)


def decimal(physical: str, scale: int, length: int | None = None) -> LeafColumn:
    return leaf(physical, "DECIMAL", length, precision=9, scale=scale)


def moment(unit: str, adjusted: bool) -> LeafColumn:
    return leaf("INT64", "TIMESTAMP", unit=unit, adjusted_to_utc=adjusted)


FAMILIES: list[tuple[LeafColumn, Family]] = [
    (leaf("BOOLEAN"), "boolean"),
    (INT32, "integer"),
    (INT64, "integer"),
    (INT96, "timestamp"),
    (leaf("FLOAT"), "float"),
    (leaf("DOUBLE"), "float"),
    (leaf("BYTE_ARRAY"), "binary"),
    (leaf(FIXED, None, 3), "binary"),
    (leaf(None), "other"),
    (leaf("INT32", "INTEGER", bit_width=8, signed=True), "integer"),
    (leaf("INT64", "INTEGER", bit_width=32, signed=True), "other"),
    (TEXT, "string"),
    (leaf(FIXED, "STRING", 3), "other"),
    (leaf("BYTE_ARRAY", "BSON"), "binary"),
    (DATE, "date"),
    (leaf("INT64", "DATE"), "other"),
    (leaf("INT32", "TIME", unit="ms"), "time"),
    (leaf("INT32", "TIME", unit="us"), "other"),
    (moment("us", True), "timestamp"),
    (moment("us", False), "timestamp_ntz"),
    (UUID, "uuid"),
    (leaf(FIXED, "UUID", 15), "other"),
    (FLOAT16, "float"),
    (leaf(FIXED, "FLOAT16", 4), "other"),
    (leaf("BYTE_ARRAY", "INTERVAL"), "other"),
]


@pytest.mark.parametrize(("column", "family"), FAMILIES, ids=lambda value: str(value) if isinstance(value, str) else "")
def test_families_are_those_of_the_specification(column: LeafColumn, family: str) -> None:
    assert parquet_family(column.node) == family


def int96(seconds: int) -> bytes:
    day, rest = divmod(seconds, 86_400)
    return struct.pack("<qi", rest * 10**9, 2_440_588 + day)


STORED: list[tuple[LeafColumn, Any, list[bytes]]] = [
    (INT32, 5, [struct.pack("<i", 5)]),
    (INT32, -5, [struct.pack("<i", -5)]),
    (INT32, 2**31, []),
    (INT32, 2**31 - 1, [struct.pack("<i", 2**31 - 1)]),
    (INT32, -(2**31), [struct.pack("<i", -(2**31))]),
    (INT32, -(2**31) - 1, []),
    (UINT32, 0, [bytes(4)]),
    (UINT32, 2**32 - 1, [b"\xff" * 4]),
    (UINT32, -1, []),
    (UINT32, 2**32, []),
    (INT64, -5, [struct.pack("<q", -5)]),
    (INT64, 2**63, []),
    (INT64, 2**63 - 1, [struct.pack("<q", 2**63 - 1)]),
    (INT64, -(2**63) - 1, []),
    (UINT64, 0, [bytes(8)]),
    (UINT64, 2**64, []),
    (INT64, -(2**63), [struct.pack("<q", -(2**63))]),
    (UINT64, 2**64 - 1, [b"\xff" * 8]),
    (UINT64, -1, []),
    (leaf("INT32", "INTEGER", bit_width=8, signed=True), 300, [struct.pack("<i", 300)]),  # a wider reader shows it
    (leaf("INT32", "INTEGER", bit_width=8, signed=False), 2**31, [struct.pack("<I", 2**31)]),
    (leaf("FLOAT"), 1.5, [struct.pack("<f", 1.5)]),
    (leaf("FLOAT"), 0.1, []),
    (leaf("DOUBLE"), 0.1, [struct.pack("<d", 0.1)]),
    (leaf("DOUBLE"), 0, [struct.pack("<d", -0.0), struct.pack("<d", 0.0)]),
    (FLOAT16, 1.5, [struct.pack("<e", 1.5)]),
    (TEXT, "\u00e9", [b"\xc3\xa9"]),
    (leaf("BYTE_ARRAY", "STRING", 0), "a", [b"a"]),  # only FIXED_LEN_BYTE_ARRAY has a length
    (leaf("BYTE_ARRAY", None, 2), b"abc", [b"abc"]),
    (leaf("BYTE_ARRAY"), b"a\0", [b"a\0"]),
    (leaf(FIXED, None, 2), b"ab", [b"ab"]),
    (leaf(FIXED, None, 2), b"abc", []),
    (UUID, uuid.UUID(int=7), [bytes(15) + b"\7"]),
    (DATE, dt.date(1969, 12, 31), [struct.pack("<i", -1)]),
    (leaf("INT32", "TIME", unit="ms"), dt.time(0, 0, 1), [struct.pack("<i", 1000)]),
    (leaf("INT64", "TIME", unit="us"), dt.time(0, 0, 1), [struct.pack("<q", 10**6)]),
    (leaf("INT64", "TIME", unit="ns"), dt.time(0, 0, 1), [struct.pack("<q", 10**9)]),
    (moment("ms", True), SECOND.replace(tzinfo=UTC), [struct.pack("<q", SINCE_1970 * 10**3)]),
    (moment("us", False), SECOND, [struct.pack("<q", SINCE_1970 * 10**6)]),
    (moment("ns", True), SECOND, [struct.pack("<q", (SINCE_1970 - 9 * 3600) * 10**9)]),
    (decimal("INT32", 2), Decimal("-1.23"), [struct.pack("<i", -123)]),
    (decimal("INT32", 2), Decimal("1.234"), []),
    (decimal("INT64", 0), Decimal(7), [struct.pack("<q", 7)]),
    (decimal(FIXED, 2, 3), Decimal("-1.23"), [(-123).to_bytes(3, "big", signed=True)]),
    (decimal(FIXED, 0, 1), 127, [b"\x7f"]),
    (decimal(FIXED, 0, 1), -128, [b"\x80"]),
    (decimal(FIXED, 0, 1), 128, []),
    (decimal(FIXED, 0, 1), -129, []),
    (decimal(FIXED, 0, 2), 2**15 - 1, [b"\x7f\xff"]),
    (decimal(FIXED, 0, 2), -(2**15), [b"\x80\0"]),
    (decimal(FIXED, 0, 2), 2**15, []),
    (decimal(FIXED, 0, 76), 1, [bytes(75) + b"\1"]),
    (INT96, SECOND.replace(tzinfo=UTC), [int96(SINCE_1970)]),
    (INT96, SECOND, [int96(SINCE_1970 - 9 * 3600)]),
    (INT96, dt.datetime(1969, 12, 31, 23, tzinfo=UTC), [int96(-3600)]),
    (INT96, dt.datetime(1900, 1, 2, tzinfo=UTC), [int96(-25_566 * 86_400)]),
    (INT96, np.datetime64("2024-01-01T00:00:01.000001", "ns"), None),
    (INT96, np.datetime64("2024-01-01T00:00:01.000000001", "ns"), []),
]  # fmt: skip


@pytest.mark.parametrize(("column", "value", "stored"), STORED)
def test_the_bytes_that_the_column_stores_are_hashed(
    column: LeafColumn, value: Any, stored: list[bytes] | None
) -> None:
    if stored is None:  # a microsecond after 00:00:01, in Tokyo
        seconds = SINCE_1970 - 9 * 3600
        stored = [struct.pack("<q", seconds % 86_400 * 10**9 + 1000) + int96(seconds)[8:]]
    encoded = encode_values(column, [value], SPARK, "Asia/Tokyo")
    assert len(encoded.keys) == len(stored)
    assert encoded.hashes.tolist() == [xxhash.xxh64_intdigest(raw) for raw in stored]


def test_hashes_are_in_the_order_of_the_keys() -> None:
    values = [SECOND + dt.timedelta(seconds=i) for i in (3, 1, 2, 1)]
    encoded = encode_values(INT96, values, SPARK, "UTC")
    assert encoded.keys.tolist() == [(SINCE_1970 + i) * 10**9 for i in (1, 2, 3)]
    assert encoded.hashes.tolist() == [xxhash.xxh64_intdigest(int96(SINCE_1970 + i)) for i in (1, 2, 3)]


def test_booleans_have_keys_but_no_hashes() -> None:
    encoded = encode_values(leaf("BOOLEAN"), [True, False], SPARK, None)
    assert (encoded.keys.tolist(), encoded.hashes) == ([0, 1], None)


@pytest.mark.parametrize(
    ("column", "value", "traits", "expected"),
    [
        (INT32, -5, OTHER, struct.pack("<i", -5)), (UINT64, 2**64 - 1, OTHER, b"\xff" * 8),
        (INT64, 2**40, OTHER, struct.pack("<q", 2**40)), (INT64, 2**63, OTHER, b""),
        (DATE, dt.date(1970, 1, 2), OTHER, struct.pack("<i", 1)),
        (moment("us", True), SECOND, OTHER, struct.pack("<q", (SINCE_1970 - 9 * 3600) * 10**6)),
        (TEXT, "\u00e9", OTHER, [b"\2\0\0\0\xc3\xa9"]), (UUID, uuid.UUID(int=7), OTHER, [bytes(15) + b"\7"]),
        (leaf(FIXED, None, 2), b"ab", OTHER, [b"ab"]), (TEXT, "a", PADDED, None),
        # Pages have other bytes for these values, or several.
        (INT96, SECOND, SPARK, None), (leaf("BOOLEAN"), True, OTHER, None), (leaf("DOUBLE"), 1.0, OTHER, None),
        (decimal("INT32", 2), Decimal(1), OTHER, None), (leaf("INT64", "DATE"), 1, OTHER, None),
        (leaf("INT32", "INTEGER", bit_width=8, signed=True), 5, OTHER, None),
    ],
)  # fmt: skip
def test_plain_pages_hold_these_bytes(
    column: LeafColumn, value: Any, traits: WriterTraits, expected: bytes | list[bytes] | None
) -> None:
    plain = plain_values(column, [value], traits, "Asia/Tokyo")
    assert (plain.tobytes() if isinstance(plain, np.ndarray) else plain) == expected


UNKNOWN: list[tuple[LeafColumn, Any, WriterTraits, str | None]] = [
    (leaf("INT64", "DATE"), 1, SPARK, None),
    (TEXT, "a", PADDED, None),
    (decimal("BYTE_ARRAY", 2), Decimal(1), SPARK, None),
    (decimal(FIXED, 2, 77), Decimal(1), SPARK, None),
    (decimal("INT32", 77), Decimal(1), SPARK, None),
    (leaf("INT64", "DECIMAL", precision=18, scale=2), 0.5, SPARK, None),  # compared as DOUBLE, which has 15 digits
    (leaf("DOUBLE"), math.nan, SPARK, None),
    (moment("us", True), SECOND, SPARK, None),  # in an unknown zone
    (INT96, SECOND, SPARK, None),
    (INT96, SECOND, OTHER, "UTC"),
    (INT96, SECOND, LEGACY, "UTC"),
    (INT96, dt.datetime(1900, 1, 1), SPARK, "UTC"),
    (leaf("INT96", "TIMESTAMP", unit="ns"), SECOND, SPARK, "UTC"),
]


@pytest.mark.parametrize(("column", "value", "traits", "zone"), UNKNOWN)
def test_unknown_bytes_give_no_evidence(column: LeafColumn, value: Any, traits: WriterTraits, zone: str | None) -> None:
    assert encode_values(column, [value], traits, zone) is None
    assert encode_point(column, value, traits, zone) is None


def test_literals_of_another_kind_are_errors() -> None:
    for column in (INT32, INT96):
        with pytest.raises(PlanError, match=r"column 'x\.y'"):
            encode_values(column, ["text"], SPARK, "UTC")


def test_points_are_in_the_unit_of_the_column() -> None:
    assert encode_point(moment("ms", True), SECOND, SPARK, "Asia/Tokyo") == Point((SINCE_1970 - 9 * 3600) * 1000)
    assert encode_point(UINT32, -1, SPARK, None) == Point(0, -1)
    assert encode_point(decimal(FIXED, 2, 1), Decimal("1.285"), SPARK, None) == Point(127, 1)
    assert encode_point(INT96, SECOND, SPARK, "UTC") is None


def bounds(column: LeafColumn, low: bytes | None, high: bytes | None, traits: WriterTraits, *, old: bool) -> Any:
    """The bounds of three chunks: the first has both, the others lack one."""
    chunks = ChunkColumns.unknown(3)
    chunks.lower, chunks.upper = [low, None, low], [high, high, None]
    chunks.deprecated[:] = old
    return bounds_of(column, traits, chunks)


DECODED: list[tuple[LeafColumn, bytes, bytes, Any, Any, bool]] = [  # the last: whether deprecated bounds are usable
    (INT32, struct.pack("<i", -5), struct.pack("<i", 7), -5, 7, True),
    (UINT32, struct.pack("<I", 5), b"\xff" * 4, 5, 2**32 - 1, False),
    (INT64, struct.pack("<q", -(2**63)), struct.pack("<q", 7), -(2**63), 7, True),
    (UINT64, bytes(8), b"\xff" * 8, 0, 2**64 - 1, False),
    (leaf("BOOLEAN"), b"\0", b"\1", 0, 1, False),
    (leaf("FLOAT"), struct.pack("<f", -1.5), struct.pack("<f", 2.5), -1.5, 2.5, True),
    (leaf("DOUBLE"), struct.pack("<d", -1.5), struct.pack("<d", 0.1), -1.5, 0.1, True),
    (TEXT, b"a", b"b\0", b"a", b"b\0", False),
    (leaf(FIXED, None, 2), b"ab", b"b\0", b"ab", b"b\0", False),
    (UUID, bytes(16), b"\xff" * 16, bytes(16), b"\xff" * 16, False),
    (decimal("INT32", 2), struct.pack("<i", -5), struct.pack("<i", 7), -5, 7, True),
    (decimal(FIXED, 2, 2), b"\xff\xfe", b"\1\0", -2, 256, False),
    (DATE, struct.pack("<i", -5), struct.pack("<i", 7), -5, 7, True),
    (moment("us", True), struct.pack("<q", -5), struct.pack("<q", 7), -5, 7, True),
]


@pytest.mark.parametrize(("column", "low", "high", "lower", "upper", "is_ordered"), DECODED)
def test_bounds_are_decoded(
    column: LeafColumn, low: bytes, high: bytes, lower: Any, upper: Any, is_ordered: bool
) -> None:
    for traits, old, usable in (
        (SPARK, False, True), (OTHER, False, False), (SPARK, True, is_ordered), (OTHER, True, is_ordered),
    ):  # fmt: skip
        decoded = bounds(column, low, high, traits, old=old)
        assert decoded.known.tolist() == [usable, False, False]
        if usable:
            assert (decoded.lower[0], decoded.upper[0]) == (lower, upper)
            kind = (
                "O" if column.node.physical_type in (FIXED, "BYTE_ARRAY") else "f" if isinstance(lower, float) else "iu"
            )
            assert decoded.lower.dtype.kind in kind
            assert decoded.lower.dtype.itemsize == 8
    swapped = bounds(column, high, low, SPARK, old=False)
    assert not swapped.known.any(), "a minimum above the maximum"
    assert bounds(column, low, low, SPARK, old=False).known.tolist() == [True, False, False]
    assert has_order(column)
    if column.node.physical_type != "BYTE_ARRAY":
        for wrong in (low + b"\0", low[1:], b""):
            assert not bounds(column, wrong, high, SPARK, old=False).known.any()
            assert not bounds(column, low, wrong, SPARK, old=False).known.any()


def test_bounds_of_nan_are_unknown() -> None:
    nan, one = struct.pack("<d", math.nan), struct.pack("<d", 1)
    for low, high in ((nan, one), (one, nan)):
        assert not bounds(leaf("DOUBLE"), low, high, SPARK, old=False).known.any()


def test_only_a_nan_count_of_zero_says_that_there_is_none() -> None:
    one = struct.pack("<d", 1)
    chunks = ChunkColumns.unknown(4)
    chunks.lower, chunks.upper = [one] * 4, [one] * 4
    uncounted = bounds_of(leaf("DOUBLE"), SPARK, chunks)
    assert uncounted.without_nan is None
    assert uncounted.may_hold_nan.tolist() == [True] * 4
    chunks.nans[:] = [0, 1, -1, -2]
    counted = bounds_of(leaf("DOUBLE"), SPARK, chunks)
    assert counted.may_hold_nan.tolist() == [False, True, True, True]
    of_integers = bounds_of(leaf("INT64"), SPARK, chunks)
    assert of_integers.without_nan is None


@pytest.mark.parametrize("column", [INT96, FLOAT16, decimal("BYTE_ARRAY", 2), leaf("INT64", "DATE")])
def test_types_without_one_order_have_no_bounds(column: LeafColumn) -> None:
    raw = bytes(column.node.type_length or 12)
    assert bounds(column, raw, raw, SPARK, old=False) is None
    assert not has_order(column)


def test_a_file_may_mix_old_and_new_bounds() -> None:
    chunks = ChunkColumns.unknown(2)
    chunks.lower, chunks.upper = [b"a", b"a"], [b"b", b"b"]
    chunks.deprecated[0] = True
    decoded = bounds_of(TEXT, SPARK, chunks)
    assert decoded.known.tolist() == [False, True]


def test_the_range_of_narrow_integers() -> None:
    ranges = [
        narrow_range(leaf("INT32", "INTEGER", bit_width=bits, signed=signed))
        for bits in (8, 16, 32)
        for signed in (True, False)
    ]
    assert ranges == [(-128, 127), (0, 255), (-32_768, 32_767), (0, 65_535), None, None]
    assert all(isinstance(limit, int) for limits in ranges if limits is not None for limit in limits)
    for other in (INT32, INT64, UINT64, DATE, TEXT, leaf("INT32", "TIME", bit_width=8, unit="ms")):
        assert narrow_range(other) is None


@pytest.mark.parametrize(
    ("physical", "length", "precision", "expected"),
    [
        ("INT32", None, 9, None), ("INT64", None, 9, INT32_RANGE), ("INT64", None, 10, None),
        (FIXED, 4, 9, None), (FIXED, 5, 9, INT32_RANGE),
        (FIXED, 8, 18, None), (FIXED, 16, 18, INT64_RANGE),
        (FIXED, 16, 19, None), (FIXED, 16, None, None), ("BYTE_ARRAY", None, 9, None),
        ("DOUBLE", None, 9, None),
    ],
)  # fmt: skip
def test_the_range_of_decimals(
    physical: str, length: int | None, precision: int | None, expected: tuple[int, int] | None
) -> None:
    assert narrow_range(leaf(physical, "DECIMAL", length=length, precision=precision, scale=2)) == expected


@pytest.mark.parametrize("length", [None, 0])
def test_a_fixed_decimal_without_a_length_gives_no_evidence(length: int | None) -> None:
    column = decimal(FIXED, 0, length)
    assert encode_values(column, [1], SPARK, None) is None
    assert encode_point(column, 1, SPARK, None) is None
