"""Finds where a shredded VARIANT stores a field, and the test that a stored value passes if the field passes its test.

A field lies in the leaf ``typed_value`` of its group if its value has the type of that leaf. Every other value, and
every value of a type that the writer did not expect, lies in a ``value`` column of the group or of a group above. So
evidence about the leaf says something about the field only if nothing lies in those columns.

Source: parquet-format ``VariantShredding.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

from bloomparquet.errors import PlanError, quoted, shorten
from bloomparquet.query import predicate as p
from bloomparquet.query.columns import FileSchema, LeafColumn, SchemaNode
from bloomparquet.query.families import MAX_DIGITS
from bloomparquet.query.resolve import NoLeaf, find_child, find_node, find_partition, is_struct, leaf_of
from bloomparquet.query.variants import TypeName, VariantField

_INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_FLOATS_OF_FLOATS = {"FLOAT": ("float", "double"), "DOUBLE": ("double",)}
_FLOATS_OF_INTEGERS = {8: ("float", "double"), 16: ("float", "double"), 32: ("double",)}
"""By the bits of an integer, the types that hold every such integer exactly."""
_ULPS = 4
"""Spark's cast from decimal to double divides two rounded numbers. Each step is off by at most half a unit in the last
place (ulp)."""
_MOST_CANDIDATES = 16


class ShreddedField(NamedTuple):
    """The typed leaf of a field, and the leaves that hold values of other types: its ``value`` and those above."""

    leaf: LeafColumn
    residuals: tuple[LeafColumn, ...]


def find_variant(schema: FileSchema, column: p.Column, *, case_sensitive: bool) -> SchemaNode | NoLeaf:
    """The group of a VARIANT column. Files need not annotate it: Spark 4.0 does not."""
    node = find_node(schema, column, case_sensitive=case_sensitive)
    if isinstance(node, NoLeaf):
        return node
    is_variant = node.annotation is None or node.annotation.kind == "VARIANT"
    return node if is_variant and _child(node, "metadata") is not None else NoLeaf.UNKNOWN


def require_variants(
    predicate: p.Predicate, schemas: Iterable[FileSchema], partitions: Sequence[str], *, case_sensitive: bool
) -> None:
    """PlanError if `predicate`, with resolved names, asks for a field of a column that is no VARIANT."""
    fields = [leaf for leaf in p.leaves(predicate) if isinstance(leaf, VariantField)]
    for schema, field in product(schemas, fields):
        is_partition = find_partition(partitions, field.column, case_sensitive=case_sensitive) is not None
        if is_partition or find_variant(schema, field.column, case_sensitive=case_sensitive) is NoLeaf.UNKNOWN:
            name = quoted(".".join(field.column))
            raise PlanError(f"column {name} is no VARIANT; {shorten(field.to_sql(1))} needs one")


def find_shredded(schema: FileSchema, field: VariantField, *, case_sensitive: bool) -> ShreddedField | NoLeaf:
    """The leaves of `field`. ABSENT if the file lacks the column, UNKNOWN if the field has no leaf of its own.

    Names of fields are case-sensitive, as in Spark. `case_sensitive` applies to the name of the column, and to the
    structs above it.
    """
    column = find_variant(schema, field.column, case_sensitive=case_sensitive)
    if isinstance(column, NoLeaf):
        return column
    node, names, residuals = column, {"metadata", "value", "typed_value"}, []
    for key in (*field.keys, None):
        if not {child.name for child in node.children} <= names or node.repetition == "REPEATED":
            return NoLeaf.UNKNOWN
        if any(child.name == "value" for child in node.children):
            value = _child(node, "value")
            residual = None if value is None else leaf_of(schema, value)
            if residual is None:
                return NoLeaf.UNKNOWN
            residuals.append(residual)
        typed = _child(node, "typed_value")
        if typed is None or typed.repetition == "REPEATED":
            return NoLeaf.UNKNOWN
        if key is None:
            leaf = leaf_of(schema, typed)
            is_usable = leaf is not None and not leaf.repeated
            return ShreddedField(leaf, tuple(residuals)) if leaf is not None and is_usable else NoLeaf.UNKNOWN
        # Of two names that differ by case only, Spark's row-by-row reader may read the other one.
        child = find_child(typed, key, False) if isinstance(key, str) and is_struct(typed) else NoLeaf.UNKNOWN
        if isinstance(child, NoLeaf) or child.name != key or not is_struct(child):
            return NoLeaf.UNKNOWN
        node, names = child, {"value", "typed_value"}
    raise AssertionError("the loop returns at the end of the path")


def implied_test(field: VariantField, node: SchemaNode) -> p.Leaf | None:
    """A test that a value of the leaf `node` passes if, after Spark's cast, it passes the test of `field`.

    None if there is no such test, or if it is not known. Where the cast cannot hold a value, it gives NULL or an error.
    """
    kind, test = field.type, field.test
    if _is_exact(node, kind) or isinstance(test, p.IsNotNull):
        return test
    scale = _scale(node)
    if kind.name != "double" or scale is None or not 0 <= scale <= MAX_DIGITS:  # a damaged footer may have any scale
        return None
    return _rounded_test(test, scale)


def _is_exact(node: SchemaNode, kind: TypeName) -> bool:
    """Whether the cast of each value of `node` to `kind` gives an equal value, or none."""
    physical, annotation, name = node.physical_type or "", node.annotation, kind.name
    if annotation is None and physical in _FLOATS_OF_FLOATS:
        return name in _FLOATS_OF_FLOATS[physical]
    bits = _integer_bits(node)
    if bits is not None and name in _FLOATS_OF_INTEGERS.get(bits, ()):
        return True
    scale = _scale(node)
    if scale is not None:
        return (name in _INTEGER_BITS and scale == 0) or (name == "decimal" and (kind.scale or 0) >= scale)
    if annotation is None:
        return (physical, name) in (("BOOLEAN", "boolean"), ("BYTE_ARRAY", "binary"))
    if annotation.kind == "TIMESTAMP":
        # Settings of Spark decide how it reads other units, and timestamps without a time zone.
        return name == "timestamp" and annotation.unit == "us" and annotation.adjusted_to_utc is True
    return (annotation.kind, name) in (("STRING", "string"), ("DATE", "date"))


def _integer_bits(node: SchemaNode) -> int | None:
    """The bits of a signed integer; None for other columns."""
    annotation = node.annotation
    if node.physical_type not in ("INT32", "INT64"):
        return None
    if annotation is None:
        return 32 if node.physical_type == "INT32" else 64
    return annotation.bit_width if annotation.kind == "INTEGER" and annotation.signed else None


def _scale(node: SchemaNode) -> int | None:
    """The scale of a decimal, 0 for a signed integer; None for other columns."""
    if node.annotation is not None and node.annotation.kind == "DECIMAL":
        return node.annotation.scale
    return None if _integer_bits(node) is None else 0


def _rounded_test(test: p.Leaf, scale: int) -> p.Leaf | None:
    """A test that a decimal of `scale` passes if the double that it is rounded to passes `test`."""
    column = test.column
    if isinstance(test, p.Eq | p.EqNullSafe | p.In):
        values = test.values if isinstance(test, p.In) else (test.value,)
        candidates: list[Decimal] = []
        for value in values:
            bounds = _rounded_from(value)
            if bounds is None:
                return None
            first, last = math.ceil(bounds[0] * 10**scale), math.floor(bounds[1] * 10**scale)
            if last - first >= _MOST_CANDIDATES:
                return None
            candidates.extend(_to_decimal(unscaled, scale) for unscaled in range(first, last + 1))
        return p.In(column, candidates)
    if not isinstance(test, p.Lt | p.LtEq | p.Gt | p.GtEq):
        return None
    bounds = _rounded_from(test.value)
    if bounds is None:
        return None
    if isinstance(test, p.Lt | p.LtEq):
        return p.LtEq(column, _to_decimal(math.floor(bounds[1] * 10**scale), scale))
    return p.GtEq(column, _to_decimal(math.ceil(bounds[0] * 10**scale), scale))


def _rounded_from(value: Any) -> tuple[Fraction, Fraction] | None:
    """Bounds of the numbers that are rounded to a double that equals `value`; None if they are unknown."""
    try:
        number = float(value) if isinstance(value, float | int | Decimal) else math.nan
    except OverflowError:
        return None
    if not math.isfinite(number):
        return None
    margin = _ULPS * Fraction(math.ulp(number))
    return Fraction(number) - margin, Fraction(number) + margin


def _to_decimal(unscaled: int, scale: int) -> Decimal:
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def _child(node: SchemaNode, name: str) -> SchemaNode | None:
    """The one child of exactly this name."""
    matching = [child for child in node.children if child.name == name]
    return matching[0] if len(matching) == 1 else None
