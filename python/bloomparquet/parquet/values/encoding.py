"""A query's value and a file's column → the bytes that a writer of that column would have hashed, or "cannot tell".

The dangerous file: a wrong encoding here hashes to the wrong block and hides rows that match. Three answers are
possible for a value:

* it has exactly these bytes in this column: a filter and statistics can be asked for it;
* it has none (2**40 in an INT32 column, 1.005 in a DECIMAL with scale 2): no row of this file can equal it;
* cannot tell (None): nothing here proves which bytes it has, so no evidence may be drawn from this column.

What decides is always the *file's* column: its physical type, length, annotation, scale and unit. The query's type
and the table's type never do. Types without a test against bytes that another writer produced are left at "cannot
tell".

Source: parquet-format ``Encodings.md`` (PLAIN), ``LogicalTypes.md``, ``BloomFilter.md`` ("hash of the plain encoding").
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bloomparquet.parquet.bloom_filter import xxh64 as hashing
from bloomparquet.parquet.metadata.file_profile import WriterTraits
from bloomparquet.query.columns import LeafColumn, SchemaNode
from bloomparquet.query.literals import Family, coerce_all

_UNANNOTATED: dict[str, Family] = {
    "BOOLEAN": "boolean", "INT32": "integer", "INT64": "integer", "INT96": "timestamp", "FLOAT": "float",
    "DOUBLE": "float", "BYTE_ARRAY": "binary", "FIXED_LEN_BYTE_ARRAY": "binary",
}  # fmt: skip
_FAMILIES: dict[str, Family] = {
    "INTEGER": "integer", "DECIMAL": "decimal", "DATE": "date", "TIME": "time", "STRING": "string", "ENUM": "string",
    "JSON": "string", "BSON": "binary", "UUID": "uuid", "FLOAT16": "float",
}  # fmt: skip
# The physical types that an annotation, with its unit or bit width, goes with (LogicalTypes.md).
_LEGAL: dict[tuple[str, str | int | None], tuple[str, ...]] = {
    ("DECIMAL", None): ("INT32", "INT64", "FIXED_LEN_BYTE_ARRAY", "BYTE_ARRAY"),
    ("DATE", None): ("INT32",),
    ("TIME", "ms"): ("INT32",),
    **{("TIME", unit): ("INT64",) for unit in ("us", "ns")},
    **{("TIMESTAMP", unit): ("INT64",) for unit in ("ms", "us", "ns")},
    **{("INTEGER", bits): ("INT32",) for bits in (8, 16, 32)},
    ("INTEGER", 64): ("INT64",),
    **{(kind, None): ("BYTE_ARRAY",) for kind in ("STRING", "ENUM", "JSON", "BSON")},
    **{(kind, None): ("FIXED_LEN_BYTE_ARRAY",) for kind in ("UUID", "FLOAT16")},
}
_UNIT_NS = {"ms": 1_000_000, "us": 1_000, "ns": 1}
_STORED = {"BOOLEAN": "u1", "INT32": "<i4", "INT64": "<i8", "FLOAT": "<f4", "DOUBLE": "<f8"}
_WIDTHS = {name: np.dtype(stored).itemsize for name, stored in _STORED.items()}
_FLOATS: dict[str, np.dtype[Any]] = {"FLOAT": np.dtype("<f4"), "DOUBLE": np.dtype("<f8")}
_MOST_DIGITS = 76  # of the widest decimal that anybody reads; a damaged scale must not make a number of gigabytes
_DAY_NS = 86_400 * 10**9
_JULIAN_EPOCH_DAY = 2_440_588

# Older values may stand in the file in the hybrid Julian calendar, or with a time zone's local mean time; readers
# then shift them. A day of margin covers the zones.
_OLDEST_DATE = dt.date(1582, 10, 15)
_OLDEST_TIMESTAMP_NS = -25_567 * _DAY_NS + _DAY_NS  # 1900-01-02


@dataclass(frozen=True, slots=True)
class Point:
    """A value's place in a column's order: at `key` (`side` 0), or strictly between `key` and its neighbour below
    (-1) or above (1)."""

    key: Any
    side: int = 0


@dataclass(frozen=True)
class Encoded:
    """The values of an equality or IN that this column can hold at all; every other value of the query equals no row
    of the file.

    `keys` is sorted in the order of the column's statistics, shape (n,); ``hashes[i]`` is the SBBF hash of
    ``keys[i]``, and `hashes` is None when filters of this column prove nothing. Zero of a floating-point column
    appears twice, as -0.0 and 0.0.
    """

    keys: NDArray[Any]
    hashes: NDArray[np.uint64] | None


def family_of(node: SchemaNode) -> Family:
    """What kind of literal the column compares with: one of the families of
    :func:`bloomparquet.query.literals.coerce`."""
    physical, annotation = node.physical_type or "", node.annotation
    if annotation is None:
        return _UNANNOTATED.get(physical, "other")
    kind = annotation.kind
    if physical not in _LEGAL.get((kind, annotation.unit or annotation.bit_width), ()):
        return "other"  # readers differ in what they make of an annotation on a type that it does not go with
    if kind == "TIMESTAMP":
        return "timestamp" if annotation.adjusted_to_utc else "timestamp_ntz"
    if (kind == "UUID" and node.type_length != 16) or (kind == "FLOAT16" and node.type_length != 2):
        return "other"
    return _FAMILIES[kind]


def encode_values(
    leaf: LeafColumn, values: Sequence[Any], traits: WriterTraits, timezone: str | None
) -> Encoded | None:
    """Every value of an equality or IN as this column's bytes; None when that cannot be told for one of them.

    `timezone` is the zone of naive datetimes; None says that a naive datetime is never comparable with a UTC-adjusted
    column. Raises :class:`PlanError` for a value of another kind than the column's.
    """
    if leaf.node.physical_type == "INT96":
        canonical = None if _hidden_encoding(leaf, traits) else _canonical(leaf, values, timezone)
        return None if canonical is None else _encode_int96(canonical, traits)
    keys = place_values(leaf, values, traits, timezone)
    return None if keys is None else Encoded(keys, _hash(leaf.node, keys))


def place_values(
    leaf: LeafColumn, values: Sequence[Any], traits: WriterTraits, timezone: str | None
) -> NDArray[Any] | None:
    """The ``keys`` of :func:`encode_values`, without their hashes; not of INT96."""
    if _hidden_encoding(leaf, traits):
        return None
    canonical = _canonical(leaf, values, timezone)
    if canonical is None:
        return None
    if family_of(leaf.node) == "float":
        return _float_keys(leaf.node, canonical)
    places = _places(leaf, canonical)
    if places is None:
        return None
    if leaf.node.physical_type == "BYTE_ARRAY" or family_of(leaf.node) in ("uuid", "binary"):
        return _bytes_keys(leaf.node, places)
    return _integer_keys(leaf.node, places)


def encode_point(leaf: LeafColumn, value: Any, traits: WriterTraits, timezone: str | None) -> Point | None:
    """The place of `value` in the order of this column's statistics; None when that cannot be told. Errors as for
    `encode_values`."""
    if _hidden_encoding(leaf, traits) or leaf.node.physical_type == "INT96":
        return None
    canonical = _canonical(leaf, [value], timezone)
    if canonical is None:
        return None
    if family_of(leaf.node) == "float":
        return None if _is_nan(canonical[0]) else _round(canonical[0])
    places = _places(leaf, canonical)
    if places is None:
        return None
    place = places[0]
    if isinstance(place, bytes):
        return Point(place)
    low, high = _physical_range(leaf.node)
    if place == math.inf or place > high:
        return Point(high, 1)
    if place == -math.inf or place < low:
        return Point(low, -1)
    key = math.floor(place)
    return Point(key, 0 if key == place else 1)


def order_keys(leaf: LeafColumn, raw: Sequence[bytes | None]) -> tuple[NDArray[Any], NDArray[np.bool_]] | None:
    """Statistics' minima or maxima, plain-encoded (None where absent), as keys in this column's order; and which of
    them can be used.

    Both have shape (n,). None when the column's statistics have no order that this package relies on.
    """
    node = leaf.node
    family = family_of(node)
    if (
        family == "other"
        or node.physical_type == "INT96"
        or (family == "decimal" and node.physical_type == "BYTE_ARRAY")
    ):
        return None
    width = node.type_length if node.physical_type == "FIXED_LEN_BYTE_ARRAY" else _WIDTHS.get(node.physical_type or "")
    usable = np.array([value is not None and (width is None or len(value) == width) for value in raw], np.bool_)
    if width is None or node.physical_type == "FIXED_LEN_BYTE_ARRAY":
        if family == "float":  # FLOAT16, whose bounds writers have ordered in several ways
            return None
        values: list[Any] = [value if value is not None and ok else b"" for value, ok in zip(raw, usable, strict=True)]
        if family == "decimal":
            values = [int.from_bytes(value, "big", signed=True) for value in values]
        return objects(values), usable
    packed = b"".join(
        value if value is not None and ok else bytes(width) for value, ok in zip(raw, usable, strict=True)
    )
    keys = np.frombuffer(packed, _STORED[node.physical_type or ""])
    if family == "float":
        keys = keys.astype(np.float64)
        return keys, usable & ~np.isnan(keys)
    if family == "boolean":
        return keys.astype(np.uint64), usable
    if _unsigned(node):
        return keys.view(f"<u{width}").astype(np.uint64), usable
    return keys.astype(np.int64), usable


def has_signed_order(leaf: LeafColumn) -> bool:
    """Whether every writer orders this column's values as signed numbers, so that even the deprecated bounds of old
    files, whose order was never defined, mean the same."""
    return leaf.node.physical_type in ("INT32", "INT64", "FLOAT", "DOUBLE") and not _unsigned(leaf.node)


def _hidden_encoding(leaf: LeafColumn, traits: WriterTraits) -> bool:
    """Columns whose equal values need not be equal bytes, so that nothing about bytes proves anything."""
    family = family_of(leaf.node)
    if family == "string":
        return traits.altered_text
    # A decimal in BYTE_ARRAY may be padded with sign bytes as its writer liked.
    padded = leaf.node.physical_type == "BYTE_ARRAY" or (leaf.node.type_length or 0) > _MOST_DIGITS
    return family == "other" or (family == "decimal" and padded)


def _canonical(leaf: LeafColumn, values: Sequence[Any], timezone: str | None) -> list[Any] | None:
    family = family_of(leaf.node)
    naive_is_known = timezone is not None or family != "timestamp"
    if not naive_is_known and any(_is_naive(value) for value in values):
        return None
    if family == "integer" and any(_depends_on_reader(value) for value in values):
        return None
    return list(coerce_all(values, family, column=".".join(leaf.path), timezone=timezone or "UTC"))


def _depends_on_reader(value: Any) -> bool:
    """Whether `value` is one integer here and another for a reader who compares this column as double or as decimal:
    a Decimal that rounds to 2**53, up to which such a reader takes integers, or a large float with another text."""
    if isinstance(value, Decimal) and value.is_finite():
        return 2**53 < abs(value) < 2**53 + 2
    if isinstance(value, float) and math.isfinite(value):
        return 2**53 <= abs(value) < 2**65 and Decimal(repr(value)) != Decimal(value)  # beyond, no column has either
    return False


def _is_naive(value: Any) -> bool:
    return not isinstance(value, dt.datetime) or value.tzinfo is None


def _places(leaf: LeafColumn, canonical: Sequence[Any]) -> Sequence[Any] | None:
    """Each value in the file's own unit: an exact number (perhaps a Fraction) or bytes; None when a value lies where
    calendars differ."""
    node, family = leaf.node, family_of(leaf.node)
    if family in ("integer", "boolean"):
        return None if any(_is_nan(value) or _rounds_to_whole(value) for value in canonical) else canonical
    if family == "decimal":
        if node.annotation is None or node.annotation.scale is None or node.annotation.scale > _MOST_DIGITS:
            return None
        factor = 10**node.annotation.scale
        if any(_is_nan(value) for value in canonical):
            return None
        return [value if isinstance(value, float) else _integral(Fraction(value) * factor) for value in canonical]
    if family == "date":
        if any(value < _OLDEST_DATE for value in canonical):
            return None
        epoch = dt.date(1970, 1, 1).toordinal()
        return [value.toordinal() - epoch for value in canonical]
    if family in ("timestamp", "timestamp_ntz", "time"):
        if family != "time" and any(value < _OLDEST_TIMESTAMP_NS for value in canonical):
            return None
        per_unit = _UNIT_NS[(node.annotation and node.annotation.unit) or "ns"]
        return [_integral(Fraction(value, per_unit)) for value in canonical]
    if family == "string":
        try:
            return [value.encode() for value in canonical]
        except UnicodeEncodeError:  # a lone surrogate: no UTF-8 bytes, but a reader may show such a string all the same
            return None
    return canonical


def _integer_keys(node: SchemaNode, places: Sequence[Any]) -> NDArray[Any]:
    low, high = _physical_range(node)
    try:
        keys = np.array(places, np.int64 if low else np.uint64) if set(map(type, places)) == {int} else None
    except OverflowError:
        keys = None
    if keys is None or high > 2**64 or bool(((keys < low) | (keys > high)).any()):
        fitting = [int(place) for place in places if _is_whole(place) and low <= place <= high]
        keys = (
            objects(fitting) if high >= 2**64 or low < -(2**63) else np.array(fitting, np.int64 if low else np.uint64)
        )
    return np.unique(keys)


def _bytes_keys(node: SchemaNode, places: Sequence[bytes]) -> NDArray[Any]:
    if node.physical_type == "FIXED_LEN_BYTE_ARRAY":
        places = [value for value in places if len(value) == node.type_length]
    return objects(sorted(set(places)))


def _float_keys(node: SchemaNode, canonical: Sequence[Any]) -> NDArray[Any] | None:
    if any(_is_nan(value) for value in canonical):
        return None  # NaN has many bit patterns, and Spark holds them all equal
    stored_as = _float_type(node)
    with np.errstate(over="ignore"):
        exact = {value for value in canonical if isinstance(value, float) and float(stored_as.type(value)) == value}
    ordered = sorted(exact)
    if 0.0 in exact:
        zero = ordered.index(0.0)
        ordered[zero : zero + 1] = [-0.0, 0.0]
    return np.array(ordered, np.float64)


def _float_type(node: SchemaNode) -> np.dtype[Any]:
    return _FLOATS.get(node.physical_type or "", np.dtype("<f2"))


def _hash(node: SchemaNode, keys: NDArray[Any]) -> NDArray[np.uint64] | None:
    family = family_of(node)
    if family == "float":
        stored = keys.astype(_float_type(node))
        if stored.itemsize == 8:
            return hashing.xxh64_int64(stored)
        if stored.itemsize == 4:
            return hashing.xxh64_int32(stored)
        return hashing.xxh64_fixed(stored.view(np.uint8).reshape(-1, stored.itemsize))
    if node.physical_type == "BYTE_ARRAY" or family in ("uuid", "binary"):
        return hashing.xxh64_bytes(keys.tolist())
    if node.physical_type == "BOOLEAN":
        return None  # parquet-java leaves the filters of BOOLEAN columns empty
    if node.physical_type == "INT32":
        return hashing.xxh64_int32(keys.astype(np.uint32))
    if node.physical_type == "INT64":
        return hashing.xxh64_int64(keys.astype(np.uint64))
    width = node.type_length or 0
    return hashing.xxh64_bytes([int(key).to_bytes(width, "big", signed=True) for key in keys])


def _encode_int96(canonical: Sequence[int], traits: WriterTraits) -> Encoded | None:
    """Spark writes one encoding of an instant (nanoseconds within the day, Julian day), in whole microseconds; other
    writers have others."""
    if not traits.spark or traits.legacy_int96 or any(value < _OLDEST_TIMESTAMP_NS for value in canonical):
        return None
    stored = []
    for value in sorted({value for value in canonical if value % 1000 == 0}):
        day, nanoseconds = divmod(value, _DAY_NS)
        stored.append((value, nanoseconds.to_bytes(8, "little") + (day + _JULIAN_EPOCH_DAY).to_bytes(4, "little")))
    return Encoded(objects([value for value, _ in stored]), hashing.xxh64_bytes([raw for _, raw in stored]))


def _physical_range(node: SchemaNode) -> tuple[int, int]:
    if node.physical_type == "BOOLEAN":
        return 0, 1
    if node.physical_type == "FIXED_LEN_BYTE_ARRAY":
        half = 1 << (8 * (node.type_length or 1) - 1)
        return -half, half - 1
    bits = 32 if node.physical_type == "INT32" else 64
    return (0, (1 << bits) - 1) if _unsigned(node) else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def _unsigned(node: SchemaNode) -> bool:
    return node.annotation is not None and node.annotation.kind == "INTEGER" and node.annotation.signed is False


def _round(value: Any) -> Point:
    """A number that a double may not hold exactly, as a double and the side on which the number lies."""
    try:
        key = float(value)
    except OverflowError:
        return Point(math.inf, -1) if value > 0 else Point(-math.inf, 1)
    if math.isinf(key) and not isinstance(value, float):
        return Point(key, -1 if key > 0 else 1)
    return Point(key, 0 if key == value else (1 if value > key else -1))


def _integral(value: Fraction) -> int | Fraction:
    return value.numerator if value.denominator == 1 else value


def _is_whole(value: Any) -> bool:
    return not (isinstance(value, float) and not math.isfinite(value)) and value == math.floor(value)


def _rounds_to_whole(value: Any) -> bool:
    """Whether `value` is no integer, but would be one for a reader who compares this column as double."""
    return isinstance(value, Fraction) and abs(value) < 2**1000 and float(value).is_integer()


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def objects(values: Sequence[Any]) -> NDArray[Any]:
    """`values` as an array of objects, whatever numpy would make of them."""
    array = np.empty(len(values), object)
    array[:] = values
    return array
