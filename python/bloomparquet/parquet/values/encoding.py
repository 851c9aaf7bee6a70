"""Converts query literals to the values that a file's column stores, and to their hashes.

A filter is asked for the hash of the bytes that the column stores. A wrong hash asks for another value, and matching
rows are lost. There are three answers for a value:

* The column stores it as exactly these bytes: filters and statistics can be checked for them.
* The column cannot store it (2**40 in INT32, 1.005 in a DECIMAL of scale 2): no row of the file equals it.
* Unknown (None): nothing proves which bytes it has, so this column gives no evidence.

Only the *file's* column decides: its physical type, length, annotation, scale and unit. The types of the query and of
the table do not. Add a type only with a test against bytes that another writer produced.

Source: parquet-format ``Encodings.md`` (PLAIN), ``LogicalTypes.md``, ``BloomFilter.md`` ("hash of the plain encoding").
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bloomparquet.parquet.bloom_filter.xxh64 import xxh64_bytes, xxh64_int32, xxh64_int64
from bloomparquet.parquet.metadata.chunk_fields import ChunkColumns
from bloomparquet.parquet.metadata.file_profile import WriterTraits
from bloomparquet.query.columns import LeafColumn, SchemaNode
from bloomparquet.query.families import INT32_RANGE, INT64_RANGE, ColumnType
from bloomparquet.query.literals import DAY_NANOSECONDS, Family
from bloomparquet.query.ordering import (
    BYTES_FAMILIES,
    OLDEST_TIMESTAMP,
    Bounds,
    Encoded,
    Point,
    ValueOrder,
    objects,
)

_UNANNOTATED: dict[str, Family] = {
    "BOOLEAN": "boolean", "INT32": "integer", "INT64": "integer", "INT96": "timestamp", "FLOAT": "float",
    "DOUBLE": "float", "BYTE_ARRAY": "binary", "FIXED_LEN_BYTE_ARRAY": "binary",
}  # fmt: skip
_FAMILIES: dict[str, Family] = {
    "INTEGER": "integer", "DECIMAL": "decimal", "DATE": "date", "TIME": "time", "STRING": "string", "ENUM": "string",
    "JSON": "string", "BSON": "binary", "UUID": "uuid", "FLOAT16": "float",
}  # fmt: skip
# (annotation, unit or bit width) -> the physical types that LogicalTypes.md allows for it
_ALLOWED_TYPES: dict[tuple[str, str | int | None], tuple[str, ...]] = {
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
_NUMPY_TYPES = {"BOOLEAN": "u1", "INT32": "<i4", "INT64": "<i8", "FLOAT": "<f4", "DOUBLE": "<f8"}
_WIDTHS = {name: np.dtype(stored).itemsize for name, stored in _NUMPY_TYPES.items()}
# (physical type, annotation) -> how floating-point values are stored
_FLOATS: dict[tuple[str | None, str | None], np.dtype[Any]] = {
    ("FLOAT", None): np.dtype("<f4"),
    ("DOUBLE", None): np.dtype("<f8"),
    ("FIXED_LEN_BYTE_ARRAY", "FLOAT16"): np.dtype("<f2"),
}
# families whose statistics, outside byte arrays, are signed integers; an INTEGER may also be unsigned
_INTEGER_KEYS = frozenset[Family]({"integer", "decimal", "date", "time", "timestamp", "timestamp_ntz"})
_MAX_DECIMAL_BYTES = 76  # the longest fixed-length decimal that gives evidence; 16 bytes hold the 38 digits of Spark
_JULIAN_EPOCH_DAY = 2_440_588


def parquet_family(node: SchemaNode) -> Family:
    """The family of literals that the column is compared with, as in :func:`bloomparquet.query.literals.coerce`."""
    physical, annotation = node.physical_type or "", node.annotation
    if annotation is None:
        return _UNANNOTATED.get(physical, "other")
    kind = annotation.kind
    if physical not in _ALLOWED_TYPES.get((kind, annotation.unit or annotation.bit_width), ()):
        return "other"  # readers differ on annotations that the physical type does not allow
    if kind == "TIMESTAMP":
        return "timestamp" if annotation.adjusted_to_utc else "timestamp_ntz"
    if (kind == "UUID" and node.type_length != 16) or (kind == "FLOAT16" and node.type_length != 2):
        return "other"
    return _FAMILIES[kind]


def float_dtype(node: SchemaNode) -> np.dtype[Any]:
    """The type in which a floating-point column stores its values. Raises TypeError for any other column: a guess would
    hash the wrong bytes, and matching rows would be lost."""
    key = node.physical_type, None if node.annotation is None else node.annotation.kind
    if key not in _FLOATS:
        raise TypeError(f"no floating-point encoding is known for column {node.name}: {key}")
    return _FLOATS[key]


@lru_cache(maxsize=1024)
def value_order(leaf: LeafColumn, has_altered_text: bool) -> ValueOrder | None:
    """The values that the column can hold, and their order. None if literals cannot be encoded for it, and for INT96,
    which :func:`encode_values` encodes without an order. `has_altered_text`: ``has_padded_or_collated_text``."""
    if leaf.node.physical_type == "INT96" or _is_ambiguous(leaf.node, has_altered_text):
        return None
    return parquet_type(leaf.node, ".".join(leaf.path), stored=True)


def parquet_type(node: SchemaNode, column: str = "", *, stored: bool = False) -> ValueOrder:
    """The type of a leaf column, with its name for messages. INT96 has the unit that readers show, microseconds.

    `stored`: with all integers that a file can store, also those beyond a type of 8 or 16 bits, which readers of a
    wider type may show.
    """
    family, annotation, physical = parquet_family(node), node.annotation, node.physical_type
    has_integers = family == "boolean" or (family in _INTEGER_KEYS and physical not in ("INT96", "BYTE_ARRAY"))
    return ValueOrder(
        family,
        column,
        integers=_integer_range(node, stored=stored) if has_integers else INT64_RANGE,
        scale=annotation.scale if annotation else None,
        precision=annotation.precision if annotation else None,
        unit=_UNIT_NS["us" if physical == "INT96" else (annotation and annotation.unit) or "ns"],
        length=node.type_length if physical == "FIXED_LEN_BYTE_ARRAY" else None,
        float_type=float_dtype(node).type if family == "float" else np.float64,
    )


def encode_values(
    leaf: LeafColumn, values: Sequence[Any], traits: WriterTraits, timezone: str | None
) -> Encoded | None:
    """The values of an equality or IN as this column stores them. None if the bytes of one value are unknown.

    `timezone` and errors: see :meth:`bloomparquet.query.families.ColumnType.exact_values`.
    """
    if leaf.node.physical_type == "INT96":
        return _encode_int96(leaf, values, traits, timezone)
    order = value_order(leaf, traits.has_padded_or_collated_text)
    keys = None if order is None else order.keys(values, timezone)
    return None if order is None or keys is None else Encoded(keys, _hash(leaf.node, order.family, keys))


def plain_values(
    leaf: LeafColumn, values: Sequence[Any], traits: WriterTraits, timezone: str | None
) -> NDArray[np.unsignedinteger] | list[bytes] | None:
    """The values of an equality or IN as the PLAIN encoding has them: numbers of the column's width, or bytes, after
    their length where it is stored. None if one is unknown, or if readers may show a stored value as another.

    `timezone` and errors: see :meth:`bloomparquet.query.families.ColumnType.exact_values`.
    """
    node, family = leaf.node, parquet_family(leaf.node)
    if family in ("float", "decimal", "other") or node.physical_type in ("INT96", "BOOLEAN") or narrow_range(leaf):
        return None
    encoded = encode_values(leaf, values, traits, timezone)
    if encoded is None or encoded.hashes is None:
        return None
    if node.physical_type in ("INT32", "INT64"):
        return encoded.keys.astype("<u4" if node.physical_type == "INT32" else "<u8")
    if node.physical_type == "BYTE_ARRAY":
        return [len(key).to_bytes(4, "little") + key for key in encoded.keys.tolist()]
    return list(encoded.keys.tolist())


def encode_point(leaf: LeafColumn, value: Any, traits: WriterTraits, timezone: str | None) -> Point | None:
    """The position of `value` in the order of this column's statistics. None if it is unknown."""
    order = value_order(leaf, traits.has_padded_or_collated_text)
    return None if order is None else order.point(value, timezone)


def narrow_range(leaf: LeafColumn) -> tuple[int, int] | None:
    """The least and the greatest number that readers show as it is stored, if their type may be narrower than the
    physical type; else None.

    If a writer stores another number, they show the low bits. An INTEGER of 8 or 16 bits is stored in 32 bits: 300 is
    shown as 44. Spark has 32 bits for a DECIMAL of at most 9 digits, and 64 bits for one of at most 18.
    """
    node, annotation = leaf.node, leaf.node.annotation
    if annotation is None:
        return None
    if annotation.kind == "INTEGER" and annotation.bit_width in (8, 16):
        return _integer_range(node, stored=False)
    precision = annotation.precision
    is_wide = node.physical_type in ("INT64", "FIXED_LEN_BYTE_ARRAY")
    if annotation.kind != "DECIMAL" or precision is None or precision > 18 or not is_wide:
        return None
    shown = INT32_RANGE if precision <= 9 else INT64_RANGE
    return shown if _integer_range(node, stored=True)[0] < shown[0] else None


def has_order(leaf: LeafColumn) -> bool:
    """Whether all writers order the values of the column's type in one way, so that bounds can prove anything."""
    return _order_keys(leaf, ()) is not None


def bounds_of(leaf: LeafColumn, traits: WriterTraits, chunks: ChunkColumns) -> Bounds | None:
    """The trustworthy bounds of `chunks`. None if the column's type has none.

    These are min_value and max_value if the file defines their order. Otherwise they are the deprecated min and max, if
    every writer orders the column's type in one way.
    """
    usable = np.where(chunks.deprecated, _has_signed_order(leaf), traits.column_orders[leaf.index])
    lower, upper = chunks.lower, chunks.upper
    if not usable.all():
        lower, upper = (
            [text if ok else None for text, ok in zip(texts, usable, strict=True)] for texts in (lower, upper)
        )
    lows, highs = _order_keys(leaf, lower), _order_keys(leaf, upper)
    if lows is None or highs is None:
        return None
    known = lows[1] & highs[1]
    # A minimum above the maximum is a writer's error.
    known &= np.asarray(lows[0] <= highs[0], np.bool_)
    without_nan = chunks.nans == 0
    is_known = parquet_family(leaf.node) == "float" and bool(without_nan.any())
    return Bounds(lows[0], highs[0], known, without_nan if is_known else None)


def _order_keys(leaf: LeafColumn, raw: Sequence[bytes | None]) -> tuple[NDArray[Any], NDArray[np.bool_]] | None:
    """Convert minima or maxima, as a footer stores them, to keys in the column's order.

    Returns the keys, and which of them are usable, both of shape (n,). None if writers order the type in several ways.
    """
    node = leaf.node
    family = parquet_family(node)
    if (
        family == "other"
        or node.physical_type == "INT96"
        or (family == "decimal" and node.physical_type == "BYTE_ARRAY")
    ):
        return None
    width = node.type_length if node.physical_type == "FIXED_LEN_BYTE_ARRAY" else _WIDTHS.get(node.physical_type or "")
    usable = np.array([value is not None and (width is None or len(value) == width) for value in raw], np.bool_)
    if width is None or node.physical_type == "FIXED_LEN_BYTE_ARRAY":
        if family == "float":  # writers order FLOAT16 bounds in several ways
            return None
        values: list[Any] = [value if value is not None and ok else b"" for value, ok in zip(raw, usable, strict=True)]
        if family == "decimal":
            values = [int.from_bytes(value, "big", signed=True) for value in values]
        elif family not in BYTES_FAMILIES:
            raise _unexpected(node)
        return objects(values), usable
    packed = b"".join(
        value if value is not None and ok else bytes(width) for value, ok in zip(raw, usable, strict=True)
    )
    keys = np.frombuffer(packed, _NUMPY_TYPES[node.physical_type or ""])
    if family == "float":
        keys = keys.astype(np.float64)
        return keys, usable & ~np.isnan(keys)
    if family == "boolean":
        return keys.astype(np.uint64), usable
    if _unsigned(node):
        return keys.view(f"<u{width}").astype(np.uint64), usable
    if family not in _INTEGER_KEYS:
        raise _unexpected(node)
    return keys.astype(np.int64), usable


def _has_signed_order(leaf: LeafColumn) -> bool:
    """Whether every writer orders the column's values as signed numbers. Then even the deprecated bounds can be used,
    whose order the format never defined."""
    return leaf.node.physical_type in ("INT32", "INT64", "FLOAT", "DOUBLE") and not _unsigned(leaf.node)


def _is_ambiguous(node: SchemaNode, has_altered_text: bool) -> bool:
    """Whether the column may store equal values as different bytes, or its encoding is unknown."""
    family = parquet_family(node)
    if family == "string":
        return has_altered_text
    if family != "decimal":
        return family == "other"
    # A decimal in BYTE_ARRAY may begin with any number of sign bytes. Damaged footers lack the length.
    is_fixed = node.physical_type == "FIXED_LEN_BYTE_ARRAY"
    return node.physical_type == "BYTE_ARRAY" or (is_fixed and not 0 < (node.type_length or 0) <= _MAX_DECIMAL_BYTES)


def _hash(node: SchemaNode, family: Family, keys: NDArray[Any]) -> NDArray[np.uint64] | None:
    if family == "float":
        stored = keys.astype(float_dtype(node))
        if stored.itemsize == 8:
            return xxh64_int64(stored)
        if stored.itemsize == 4:
            return xxh64_int32(stored)
        return xxh64_bytes(value.tobytes() for value in stored)
    if node.physical_type == "BYTE_ARRAY" or family in ("uuid", "binary"):
        return xxh64_bytes(keys.tolist())
    if node.physical_type == "BOOLEAN":
        return None  # parquet-java leaves the filters of BOOLEAN columns empty
    if node.physical_type == "INT32":
        return xxh64_int32(keys.astype(np.uint32))
    if node.physical_type == "INT64":
        return xxh64_int64(keys.astype(np.uint64))
    if family != "decimal":
        raise _unexpected(node)
    width = node.type_length or 0
    return xxh64_bytes([int(key).to_bytes(width, "big", signed=True) for key in keys])


def _encode_int96(
    leaf: LeafColumn, values: Sequence[Any], traits: WriterTraits, timezone: str | None
) -> Encoded | None:
    """Only Spark's files have a known encoding: nanoseconds of the day, Julian day, in whole microseconds."""
    if parquet_family(leaf.node) == "other":
        return None
    instants = ColumnType("timestamp", ".".join(leaf.path)).exact_values(values, timezone)
    if instants is None or not traits.spark or traits.legacy_int96:
        return None
    if any(value < OLDEST_TIMESTAMP for value in instants):
        return None
    stored = []
    for value in sorted({value for value in instants if value % 1000 == 0}):
        day, nanoseconds = divmod(value, DAY_NANOSECONDS)
        stored.append((value, nanoseconds.to_bytes(8, "little") + (day + _JULIAN_EPOCH_DAY).to_bytes(4, "little")))
    return Encoded(objects([value for value, _ in stored]), xxh64_bytes([raw for _, raw in stored]))


def _integer_range(node: SchemaNode, *, stored: bool) -> tuple[int, int]:
    """The least and the greatest integer of the physical type if `stored`, else those of the annotation."""
    if node.physical_type == "BOOLEAN":
        return 0, 1
    if node.physical_type not in ("INT32", "INT64", "FIXED_LEN_BYTE_ARRAY"):
        raise _unexpected(node)
    n_bytes = _WIDTHS.get(node.physical_type) or node.type_length or 1
    bit_width = None if stored or node.annotation is None else node.annotation.bit_width
    numbers = 1 << (bit_width or 8 * n_bytes)
    return (0, numbers - 1) if _unsigned(node) else (-numbers // 2, numbers // 2 - 1)


def _unexpected(node: SchemaNode) -> TypeError:
    """The error for a family that this file does not handle yet. A default would encode wrong bytes."""
    return TypeError(
        f"no encoding of {parquet_family(node)} values is known for {node.physical_type} column {node.name}"
    )


def _unsigned(node: SchemaNode) -> bool:
    return node.annotation is not None and node.annotation.kind == "INTEGER" and node.annotation.signed is False
