"""The columns of an ORC file: a tree of types, flattened in the order of the column numbers.

Source: ORC specification, "Type Information".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import Any

from bloomparquet.errors import FormatError, LimitError
from bloomparquet.orc import protobuf as messages
from bloomparquet.query.columns import MAX_DEPTH, Annotation, FileSchema, SchemaNode


class Kind(IntEnum):
    """The kinds of a column."""

    BOOLEAN = 0
    BYTE = 1
    SHORT = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    BINARY = 8
    TIMESTAMP = 9
    LIST = 10
    MAP = 11
    STRUCT = 12
    UNION = 13
    DECIMAL = 14
    DATE = 15
    VARCHAR = 16
    CHAR = 17
    TIMESTAMP_INSTANT = 18
    GEOMETRY = 19
    GEOGRAPHY = 20


_COMPOUND = frozenset({Kind.LIST, Kind.MAP, Kind.STRUCT, Kind.UNION})
_CHILD_NAMES: dict[int, tuple[str, ...]] = {Kind.LIST: ("_elem",), Kind.MAP: ("_key", "_value")}


@dataclass(frozen=True, slots=True)
class OrcType:
    """The type of one column.

    `kind` is a plain number if it is unknown here. `children` are column numbers, and `names` the names of the children
    of a struct.
    """

    kind: int
    children: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    maximum_length: int | None = None
    precision: int | None = None
    scale: int | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)

    def describe(self) -> str:
        """The type for a message: ``LONG``, ``DECIMAL (9, 2)``, ``CHAR (5)``."""
        if self.kind == Kind.DECIMAL:
            return f"{self.name} ({self.precision}, {self.scale})"
        return f"{self.name} ({self.maximum_length})" if self.kind in (Kind.CHAR, Kind.VARCHAR) else self.name

    @property
    def key(self) -> tuple[object, ...]:
        """A hashable value that equal types share."""
        attributes = tuple(sorted(self.attributes.items()))
        return self.kind, self.children, self.names, self.maximum_length, self.precision, self.scale, attributes

    @property
    def name(self) -> str:
        """The name of the kind."""
        return self.kind.name if isinstance(self.kind, Kind) else f"kind {self.kind}"


def build_schema(types: Sequence[OrcType]) -> tuple[FileSchema, tuple[int, ...]]:
    """The columns as a tree in which predicates find them by name; and the column number of each leaf.

    A leaf's ``physical_type`` is the name of its kind. Structs are groups. Lists, maps and unions are groups with an
    annotation, whose children are REPEATED and named as ORC's tools name them: ``_elem``, ``_key``, ``_value``, and
    the position in a union. Raises LimitError if the tree is deeper than :data:`bloomparquet.query.columns.MAX_DEPTH`.
    """
    leaves: list[int] = []

    def build(column: int, name: str, repetition: str, depth: int) -> SchemaNode:
        orc_type = types[column]
        if depth > MAX_DEPTH:
            raise LimitError(f"the types nest deeper than {MAX_DEPTH} levels")
        if orc_type.kind not in _COMPOUND:
            leaves.append(column)
            return SchemaNode(name, repetition, orc_type.name)
        is_struct = orc_type.kind == Kind.STRUCT
        names = orc_type.names if is_struct else _child_names(orc_type)
        below = "OPTIONAL" if is_struct else "REPEATED"
        named = zip(names, orc_type.children, strict=True)
        children = tuple([build(child, child_name, below, depth + 1) for child_name, child in named])
        annotation = None if is_struct else Annotation(orc_type.name)
        return SchemaNode(name, repetition, annotation=annotation, children=children)

    root = build(0, "", "REQUIRED", 0)
    # A root that is not a struct has no columns.
    return (FileSchema(root), tuple(leaves)) if root.children else (FileSchema(SchemaNode("", "REQUIRED")), ())


def _child_names(orc_type: OrcType) -> Sequence[str]:
    return _CHILD_NAMES.get(orc_type.kind) or [str(i) for i in range(len(orc_type.children))]


def parse_types(type_messages: Sequence[Any]) -> tuple[OrcType, ...]:
    """The types in the Type messages of a footer. Raises FormatError if they are not a tree.

    The files of a data set share one tuple.
    """
    return _parse_types(tuple([message.SerializeToString() for message in type_messages]))


@lru_cache(maxsize=512)
def _parse_types(raw: tuple[bytes, ...]) -> tuple[OrcType, ...]:
    type_messages = list(map(messages.Type.FromString, raw))
    count = len(type_messages)
    if not count:
        raise FormatError("the footer has no types")
    seen: set[int] = set()
    types: list[OrcType] = []
    for column, message in enumerate(type_messages):
        if len(message.subtypes) > count or len(message.field_names) > count:
            raise FormatError(f"type {column} has more children than the file has columns ({count})")
        if not message.HasField("kind"):
            raise FormatError(f"type {column} has no kind")
        kind, children = message.kind, tuple(message.subtypes)
        for child in children:
            if not column < child < count or child in seen:
                raise FormatError(f"type {column} has the child {child}; expected one of {column + 1} to {count - 1}")
            seen.add(child)
        expected = {Kind.LIST: 1, Kind.MAP: 2, Kind.STRUCT: len(message.field_names)}.get(kind, len(children))
        if len(children) != expected:
            raise FormatError(f"type {column} is a {Kind(kind).name} of {len(children)} children; expected {expected}")
        types.append(
            OrcType(
                kind=Kind(kind) if kind in Kind._value2member_map_ else kind,
                children=children,
                names=tuple(map(text, message.field_names)) if kind == Kind.STRUCT else (),
                maximum_length=message.maximum_length if message.HasField("maximum_length") else None,
                precision=message.precision if message.HasField("precision") else None,
                scale=message.scale if message.HasField("scale") else None,
                attributes={text(pair.key): text(pair.value) for pair in message.attributes},
            )
        )
    return tuple(types)


def text(data: bytes) -> str:
    """`data` decoded as UTF-8. Raises FormatError."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"{data[:50]!r} is not UTF-8: {error.reason}") from error
