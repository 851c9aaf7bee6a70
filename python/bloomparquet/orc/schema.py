"""The columns of an ORC file: a tree, flattened in the order of their numbers.

Source: ORC specification, "Type Information".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from bloomparquet.errors import FormatError, LimitError
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


COMPOUND = frozenset({Kind.LIST, Kind.MAP, Kind.STRUCT, Kind.UNION})
"""Kinds of columns that have no values of their own."""

_WITHIN: dict[int, tuple[str, ...]] = {Kind.LIST: ("_elem",), Kind.MAP: ("_key", "_value")}


@dataclass(frozen=True, slots=True)
class OrcType:
    """One column. `kind` is a number without a name where it is not known here; `names` are those of a struct's
    `children`, which are column numbers."""

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
        """What two equal types have in common, to look it up by."""
        attributes = tuple(sorted(self.attributes.items()))
        return self.kind, self.children, self.names, self.maximum_length, self.precision, self.scale, attributes

    @property
    def name(self) -> str:
        """That of its kind."""
        return self.kind.name if isinstance(self.kind, Kind) else f"kind {self.kind}"


def fields(types: Sequence[OrcType]) -> Iterator[tuple[tuple[str, ...], int]]:
    """The path and the number of every column that has one value per row: below the root through structs only, the
    structs themselves included."""
    pending: list[tuple[tuple[str, ...], int]] = [((), 0)]
    while pending:
        path, column = pending.pop()
        if column:
            yield path, column
        found = types[column]
        if found.kind == Kind.STRUCT:
            named = zip(found.names, found.children, strict=True)
            pending += reversed([((*path, name), child) for name, child in named])


def paths(types: Sequence[OrcType]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The number and the path of every column below the root. What is within lists, maps and unions is called as ORC's
    tools call it: ``_elem``, ``_key``, ``_value``, and its number in a union."""
    pending: list[tuple[tuple[str, ...], int]] = [((), 0)]
    while pending:
        path, column = pending.pop()
        if column:
            yield column, path
        found = types[column]
        named = zip(found.names if found.kind == Kind.STRUCT else _names_within(found), found.children, strict=True)
        pending += reversed([((*path, name), child) for name, child in named])


def _names_within(found: OrcType) -> Sequence[str]:
    """What the children of a list, a map or a union are called."""
    return _WITHIN.get(found.kind) or [str(i) for i in range(len(found.children))]


def columns_at(types: Sequence[OrcType], path: Sequence[str]) -> list[int] | None:
    """The columns that have this path, through structs only; several where names are not unique. None where it leads
    into a list, a map or a union."""
    found = [0]
    for name in path:
        if any(types[column].kind != Kind.STRUCT and types[column].children for column in found):
            return None
        within = [pair for column in found for pair in zip(types[column].names, types[column].children, strict=False)]
        found = [child for other, child in within if other == name]
    return found


def file_schema(types: Sequence[OrcType]) -> tuple[FileSchema, tuple[int, ...]]:
    """The columns as a tree of nodes, in which predicates find them by name; and the numbers of its leaves, in their
    order.

    A leaf's ``physical_type`` is the name of its kind. Structs are groups; a list, a map and a union are groups with
    an annotation, whose children are REPEATED. Raises LimitError for a tree that is too deep.
    """
    columns: list[int] = []

    def build(column: int, name: str, repetition: str, depth: int) -> SchemaNode:
        found = types[column]
        if depth > MAX_DEPTH:
            raise LimitError(f"the types nest deeper than {MAX_DEPTH} levels")
        if found.kind not in COMPOUND:
            columns.append(column)
            return SchemaNode(name, repetition, found.name)
        names = found.names if found.kind == Kind.STRUCT else _names_within(found)
        below = "OPTIONAL" if found.kind == Kind.STRUCT else "REPEATED"
        named = zip(names, found.children, strict=True)
        children = tuple([build(child, each, below, depth + 1) for each, child in named])
        annotation = None if found.kind == Kind.STRUCT else Annotation(found.name)
        return SchemaNode(name, repetition, annotation=annotation, children=children)

    root = build(0, "", "REQUIRED", 0)
    # A root that is no struct has no columns.
    return (FileSchema(root), tuple(columns)) if root.children else (FileSchema(SchemaNode("", "REQUIRED")), ())


def parse_types(found_types: Sequence[Any]) -> tuple[OrcType, ...]:
    """The columns of a footer's Type messages. Raises FormatError where they are no tree."""
    count = len(found_types)
    if not count:
        raise FormatError("it has no types")
    parents: set[int] = set()
    types: list[OrcType] = []
    for column, found in enumerate(found_types):
        if len(found.subtypes) > count or len(found.field_names) > count:
            raise FormatError(f"type {column} has more children than the file has columns ({count})")
        if not found.HasField("kind"):
            raise FormatError(f"type {column} has no kind")
        kind, children = found.kind, tuple(found.subtypes)
        for child in children:
            if not column < child < count or child in parents:
                raise FormatError(f"type {column} has the child {child}; expected one of {column + 1} to {count - 1}")
            parents.add(child)
        expected = {Kind.LIST: 1, Kind.MAP: 2, Kind.STRUCT: len(found.field_names)}.get(kind, len(children))
        if len(children) != expected:
            raise FormatError(f"type {column} is a {Kind(kind).name} of {len(children)} children; expected {expected}")
        types.append(
            OrcType(
                kind=Kind(kind) if kind in Kind._value2member_map_ else kind,
                children=children,
                names=tuple(map(text, found.field_names)) if kind == Kind.STRUCT else (),
                maximum_length=found.maximum_length if found.HasField("maximum_length") else None,
                precision=found.precision if found.HasField("precision") else None,
                scale=found.scale if found.HasField("scale") else None,
                attributes={text(pair.key): text(pair.value) for pair in found.attributes},
            )
        )
    return tuple(types)


def text(data: bytes) -> str:
    """`data` as UTF-8. Raises FormatError."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"{data[:50]!r} is no UTF-8 text: {error.reason}") from error
