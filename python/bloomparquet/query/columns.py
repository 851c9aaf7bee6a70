"""The columns of a file as a tree, whatever the file's format: the schema parsers of Parquet and ORC produce it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

MAX_DEPTH = 64
"""The deepest tree of columns that is parsed: trees are walked by recursion."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """What a physical type means: the LogicalType, or the ConvertedType of older files, as one record.

    `kind` is the LogicalType's name; ``INTERVAL`` exists only as a ConvertedType; ``OTHER`` is one that this version
    does not know.
    """

    kind: str
    unit: str | None = None  # TIME, TIMESTAMP: "ms", "us" or "ns"
    adjusted_to_utc: bool | None = None  # TIME, TIMESTAMP
    precision: int | None = None  # DECIMAL
    scale: int | None = None  # DECIMAL
    bit_width: int | None = None  # INTEGER
    signed: bool | None = None  # INTEGER


@dataclass(frozen=True, slots=True)
class SchemaNode:
    """One element of the schema: a group (`physical_type` is None) or a leaf."""

    name: str
    repetition: str  # "REQUIRED", "OPTIONAL" or "REPEATED"; the root counts as REQUIRED
    physical_type: str | None = None
    type_length: int | None = None  # FIXED_LEN_BYTE_ARRAY: bytes per value
    annotation: Annotation | None = None
    field_id: int | None = None
    children: tuple[SchemaNode, ...] = ()


@dataclass(frozen=True, slots=True)
class LeafColumn:
    """A leaf of the schema: `index` is its column chunk's place in every row group, `path` the names from the root
    down."""

    index: int
    path: tuple[str, ...]
    node: SchemaNode
    repeated: bool  # it, or a group above it, is REPEATED

    def describe(self) -> str:
        """The type for a message: ``INT64``, ``BYTE_ARRAY (STRING)``."""
        annotation = f" ({self.node.annotation.kind})" if self.node.annotation else ""
        return f"{self.node.physical_type}{annotation}"


@dataclass(frozen=True)
class FileSchema:
    """A schema's root and its leaves in column chunk order. Files with the same schema bytes share one object."""

    root: SchemaNode
    leaves: tuple[LeafColumn, ...] = field(init=False)

    def __post_init__(self) -> None:
        leaves = tuple(
            LeafColumn(i, path, node, repeated) for i, (path, node, repeated) in enumerate(_walk(self.root, (), False))
        )
        object.__setattr__(self, "leaves", leaves)


def _walk(
    node: SchemaNode, path: tuple[str, ...], repeated: bool
) -> Iterator[tuple[tuple[str, ...], SchemaNode, bool]]:
    for child in node.children:
        below = repeated or child.repetition == "REPEATED"
        if child.physical_type is not None:
            yield (*path, child.name), child, below
        else:
            yield from _walk(child, (*path, child.name), below)
