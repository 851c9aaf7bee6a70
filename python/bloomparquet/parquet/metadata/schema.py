"""Parses a Parquet schema into a :class:`bloomparquet.query.columns.FileSchema`.

pyarrow's schema is not enough: it joins a column's path with dots, which does not distinguish the column ``a.b`` from
the field ``b`` of the struct ``a``, and it hides annotations for which it has no type.

Source: parquet-format ``parquet.thrift`` (SchemaElement, LogicalType, ConvertedType), ``LogicalTypes.md``.
"""

from __future__ import annotations

import math

from bloomparquet.errors import FormatError, LimitError
from bloomparquet.parquet.thrift.definitions import (
    PHYSICAL_TYPES,
    REPETITIONS,
    DecimalType,
    FileMetaData,
    IntType,
    LogicalType,
    SchemaElement,
)
from bloomparquet.parquet.thrift.reader import CompactReader
from bloomparquet.parquet.thrift.struct import Field, ThriftStruct
from bloomparquet.query.columns import MAX_DEPTH, Annotation, FileSchema, SchemaNode

MAX_VALUES = 1 << 20
"""The limit on the Thrift values of a schema: about 100,000 columns."""

_UNITS = {"MILLIS": "ms", "MICROS": "us", "NANOS": "ns"}
_OTHER = Annotation("OTHER")
_INT32, _INT64, _FIXED = (PHYSICAL_TYPES.index(name) for name in ("INT32", "INT64", "FIXED_LEN_BYTE_ARRAY"))
_CONVERTED_DECIMAL = 5
_CONVERTED: dict[int, Annotation] = {
    0: Annotation("STRING"), 1: Annotation("MAP"), 2: Annotation("MAP"), 3: Annotation("LIST"), 4: Annotation("ENUM"),
    6: Annotation("DATE"),
    7: Annotation("TIME", "ms", True), 8: Annotation("TIME", "us", True),
    9: Annotation("TIMESTAMP", "ms", True), 10: Annotation("TIMESTAMP", "us", True),
    **{11 + i: Annotation("INTEGER", bit_width=8 << i, signed=False) for i in range(4)},
    **{15 + i: Annotation("INTEGER", bit_width=8 << i, signed=True) for i in range(4)},
    19: Annotation("JSON"), 20: Annotation("BSON"), 21: Annotation("INTERVAL"),
}  # fmt: skip


def parse_schema(footer: bytes | memoryview) -> tuple[FileSchema, int]:
    """The schema of a serialised FileMetaData, and the number of bytes up to the schema's end.

    Raises FormatError if the elements do not form a tree.
    """
    reader = CompactReader(footer, most=MAX_VALUES)
    elements = reader.read_struct(FileMetaData, stop_after=FileMetaData.schema.id).schema
    if not elements:
        raise FormatError("the footer has no schema")
    root, used = _build_tree(elements, 0, 0)
    if used != len(elements):
        raise FormatError(f"the schema's root covers {used} of its {len(elements)} elements")
    return FileSchema(root), reader.position


def _build_tree(elements: list[SchemaElement], index: int, depth: int) -> tuple[SchemaNode, int]:
    """The node of ``elements[index]`` with everything below it, and the index after its last element."""
    if index >= len(elements):
        raise FormatError(f"schema element {index} is missing: a group claims more children than there are")
    if depth > MAX_DEPTH:
        raise LimitError(f"the schema nests deeper than {MAX_DEPTH} levels")
    element = elements[index]
    children = []
    index += 1
    for _ in range(_natural(element, SchemaElement.num_children) or 0):
        child, index = _build_tree(elements, index, depth + 1)
        children.append(child)
    return _node(element, tuple(children)), index


def _node(element: SchemaElement, children: tuple[SchemaNode, ...]) -> SchemaNode:
    physical_type = None if children else element.type
    return SchemaNode(
        name=(element.name or b"").decode("utf-8", "surrogateescape"),
        repetition=_pick(REPETITIONS, element.repetition_type or 0, "repetition"),
        physical_type=None if physical_type is None else _pick(PHYSICAL_TYPES, physical_type, "physical type"),
        type_length=_natural(element, SchemaElement.type_length),
        annotation=_annotation(element),
        # pyarrow writes no negative field id and takes one for none; some writers give -1 to columns without an id.
        field_id=None if (element.field_id or 0) < 0 else element.field_id,
        children=children,
    )


def _annotation(element: SchemaElement) -> Annotation | None:
    """The logical type, or else the converted type. The type is unknown if they contradict each other: then pyarrow
    uses the logical type and parquet-java the converted one. It is also unknown if it is a DECIMAL that the physical
    type does not hold: then pyarrow shows the physical type."""
    annotation = converted = _converted(element)
    if element.logical_type:
        annotation = _logical(element.logical_type)
        if converted is not None and _identity(converted) != _identity(annotation):
            return _OTHER
    return annotation if annotation is None or _is_storable(annotation, element) else _OTHER


def _is_storable(annotation: Annotation, element: SchemaElement) -> bool:
    """Whether the physical type holds every number of a DECIMAL; True for other types."""
    sizes: dict[int | None, int] = {_INT32: 4, _INT64: 8, _FIXED: element.type_length or 0}
    if annotation.kind != "DECIMAL" or element.type not in sizes:
        return True
    return (annotation.precision or 0) <= (8 * sizes[element.type] - 1) * math.log10(2)


def _identity(annotation: Annotation) -> tuple[object, ...]:
    """The part of an annotation that a logical and a converted type both have. `adjusted_to_utc` is no part of it:
    writers set the converted types of times for either value."""
    return annotation.kind, annotation.unit, annotation.bit_width, annotation.signed, annotation.scale or 0


def _converted(element: SchemaElement) -> Annotation | None:
    converted = _natural(element, SchemaElement.converted_type)
    if converted is None:
        return None
    if converted == _CONVERTED_DECIMAL:
        precision, scale = _natural(element, SchemaElement.precision), _natural(element, SchemaElement.scale)
        return Annotation("DECIMAL", precision=precision, scale=scale or 0)
    return _CONVERTED.get(converted, _OTHER)


def _logical(logical: LogicalType) -> Annotation:
    kind = logical.check().member() or "OTHER"
    if kind == "DECIMAL" and (decimal := logical.DECIMAL) is not None:
        scale, precision = _natural(decimal, DecimalType.scale), _natural(decimal, DecimalType.precision)
        return Annotation(kind, scale=scale, precision=precision)
    if kind == "INTEGER" and (integer := logical.INTEGER) is not None:
        return Annotation(kind, bit_width=_natural(integer, IntType.bit_width), signed=integer.is_signed is True)
    if kind in ("TIME", "TIMESTAMP"):
        time = logical.TIME if kind == "TIME" else logical.TIMESTAMP
        unit = None if time is None or time.unit is None else _UNITS.get(time.unit.member())
        return Annotation(kind, unit, time.is_adjusted_to_utc is True) if time is not None and unit else _OTHER
    return Annotation(kind)


def _pick(names: tuple[str, ...], number: int, what: str) -> str:
    if not 0 <= number < len(names):
        raise FormatError(f"the schema has the {what} {number}; expected 0 to {len(names) - 1} ({', '.join(names)})")
    return names[number]


def _natural(struct: ThriftStruct, field: Field[int]) -> int | None:
    value = field.read(struct)
    if value is not None and value < 0:
        raise FormatError(f"{field} is {value}; expected an integer that is not negative")
    return value
