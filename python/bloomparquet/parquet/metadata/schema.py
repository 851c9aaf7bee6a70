"""Parse a Parquet schema into a :class:`bloomparquet.query.columns.FileSchema`.

Read from the footer's own ``SchemaElement`` list instead of pyarrow's view of it: pyarrow joins a column's path with
dots, which cannot tell the column ``a.b`` from the field ``b`` of the struct ``a``, and hides annotations that it has
no type for.

Source: parquet-format ``parquet.thrift`` (SchemaElement, LogicalType, ConvertedType), ``LogicalTypes.md``.
"""

from __future__ import annotations

from typing import Any

from bloomparquet.errors import FormatError, LimitError, quoted
from bloomparquet.parquet.thrift.reader import CompactReader, Struct
from bloomparquet.query.columns import MAX_DEPTH, Annotation, FileSchema, SchemaNode

MAX_VALUES = 1 << 20
"""The most values that a schema is read from: some hundred thousand columns."""

PHYSICAL_TYPES = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_REPETITIONS = ("REQUIRED", "OPTIONAL", "REPEATED")
_UNITS = {1: "ms", 2: "us", 3: "ns"}
_LOGICAL_KINDS = {
    1: "STRING", 2: "MAP", 3: "LIST", 4: "ENUM", 5: "DECIMAL", 6: "DATE", 7: "TIME", 8: "TIMESTAMP",
    10: "INTEGER", 11: "UNKNOWN",
    12: "JSON", 13: "BSON", 14: "UUID", 15: "FLOAT16", 16: "VARIANT", 17: "GEOMETRY", 18: "GEOGRAPHY",
}  # fmt: skip


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
    """The schema at the head of a serialised FileMetaData, and how many bytes of it the version and the schema take.

    Raises :class:`FormatError` when the elements do not form a tree.
    """
    reader = CompactReader(footer, most=MAX_VALUES)
    elements = reader.read_struct(stop_after=2).get(2)
    if not isinstance(elements, list) or not elements:
        raise FormatError("the footer has no schema (field 2 of FileMetaData)")
    root, used = _build(elements, 0, 0)
    if used != len(elements):
        raise FormatError(f"the schema's root covers {used} of its {len(elements)} elements")
    return FileSchema(root), reader.position


def _build(elements: list[Struct], at: int, depth: int) -> tuple[SchemaNode, int]:
    if at >= len(elements) or not isinstance(elements[at], dict):
        raise FormatError(f"schema element {at} is missing: a group claims more children than there are")
    if depth > MAX_DEPTH:
        raise LimitError(f"the schema nests deeper than {MAX_DEPTH} levels")
    element = elements[at]
    children = []
    next_at = at + 1
    for _ in range(_integer(element, 5) or 0):
        child, next_at = _build(elements, next_at, depth + 1)
        children.append(child)
    return _node(element, tuple(children)), next_at


def _node(element: Struct, children: tuple[SchemaNode, ...]) -> SchemaNode:
    is_leaf = 1 in element and not children
    return SchemaNode(
        name=_text(element.get(4, b"")),
        repetition=_pick(_REPETITIONS, element.get(3, 0), "repetition"),
        physical_type=_pick(PHYSICAL_TYPES, element[1], "physical type") if is_leaf else None,
        type_length=_integer(element, 2),
        annotation=_annotation(element),
        field_id=_integer(element, 9),
        children=children,
    )


def _annotation(element: Struct) -> Annotation | None:
    logical = element.get(10)
    if isinstance(logical, dict) and logical:
        return _logical(*next(iter(logical.items())))
    converted = _integer(element, 6)
    if converted is None:
        return None
    if converted == 5:
        return Annotation("DECIMAL", precision=_integer(element, 8), scale=_integer(element, 7) or 0)
    return _CONVERTED.get(converted, Annotation("OTHER"))


def _logical(field_id: int, parameters: Any) -> Annotation:
    kind = _LOGICAL_KINDS.get(field_id, "OTHER")
    if not isinstance(parameters, dict):
        return Annotation("OTHER")
    if kind == "DECIMAL":
        return Annotation(kind, scale=_integer(parameters, 1), precision=_integer(parameters, 2))
    if kind in ("TIME", "TIMESTAMP"):
        unit = parameters.get(2)
        name = _UNITS.get(next(iter(unit), 0)) if isinstance(unit, dict) else None
        return Annotation(kind, name, parameters.get(1) is True) if name else Annotation("OTHER")
    if kind == "INTEGER":
        return Annotation(kind, bit_width=_integer(parameters, 1), signed=parameters.get(2) is True)
    return Annotation(kind)


def _pick(names: tuple[str, ...], number: Any, what: str) -> str:
    if not isinstance(number, int) or not 0 <= number < len(names):
        raise FormatError(f"the schema has an unknown {what} {number!r}; known are {', '.join(names)}")
    return names[number]


def _integer(fields: Struct, field_id: int) -> int | None:
    value = fields.get(field_id)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise FormatError(f"field {field_id} of a schema element is {quoted(value)}; expected an integer, not negative")
    return value


def _text(raw: Any) -> str:
    if not isinstance(raw, bytes):
        raise FormatError(f"a schema element's name is {quoted(raw)}, not a string")
    return raw.decode("utf-8", "surrogateescape")
