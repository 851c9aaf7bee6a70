"""Whether a type holds all values of a file's column.

If it does not, readers round, cut, wrap or refuse values, and show others than the file stores.
"""

from __future__ import annotations

import numpy as np

from bloomparquet.parquet.values.encoding import float_dtype, parquet_family
from bloomparquet.query.columns import SchemaNode

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}  # of integers, by their bits
_UNITS = ("ms", "us", "ns")
_TIMES = ("time", "timestamp", "timestamp_ntz")


def integer_type(node: SchemaNode) -> tuple[bool, int]:
    """Whether an integer column is signed, and its bits."""
    annotation = node.annotation
    if annotation is None or annotation.bit_width is None:
        return True, 64 if node.physical_type == "INT64" else 32
    return annotation.signed is not False, annotation.bit_width


def is_held_by_decimal(node: SchemaNode, precision: int, scale: int) -> bool:
    """Whether a DECIMAL of this precision and scale holds all values of the column."""
    annotation, family = node.annotation, parquet_family(node)
    if family == "decimal" and annotation is not None:
        digits, stored_scale = annotation.precision or 0, annotation.scale or 0
        return stored_scale <= scale and digits - stored_scale <= precision - scale
    if family != "integer":
        return False
    is_signed, bits = integer_type(node)
    # Spark takes an unsigned integer of 32 bits for a signed one.
    return _DIGITS[bits] <= precision - scale and (is_signed or bits != 32)


def is_held_by(node: SchemaNode, wider: SchemaNode) -> bool:
    """Whether the type of the column `wider` holds all values of the column `node`."""
    family, wanted = parquet_family(node), parquet_family(wider)
    annotation = wider.annotation
    if wanted == "decimal" and annotation is not None:
        return is_held_by_decimal(node, annotation.precision or 0, annotation.scale or 0)
    if family == "integer" and wanted == "float":
        is_signed, bits = integer_type(node)
        return bits - is_signed <= np.finfo(float_dtype(wider)).nmant + 1
    if family != wanted:
        return False
    if family == "integer":
        (is_signed, bits), (wider_is_signed, wider_bits) = integer_type(node), integer_type(wider)
        return bits - is_signed <= wider_bits - wider_is_signed and wider_is_signed >= is_signed
    if family == "float":
        return float_dtype(node).itemsize <= float_dtype(wider).itemsize
    return family not in _TIMES or _unit(node) <= _unit(wider)


def _unit(node: SchemaNode) -> int:
    """The rank of a column's unit, the finest last. INT96 counts as microseconds, which readers show."""
    unit = node.annotation.unit if node.annotation is not None else None
    return _UNITS.index(unit if isinstance(unit, str) else "us")
