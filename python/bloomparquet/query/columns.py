"""The columns of a file as a tree. The schema parsers of Parquet and ORC produce it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bloomparquet.query.names import fold

MAX_DEPTH = 64
"""The most levels of a tree: trees are walked by recursion."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """The logical type of a column, which says what the values of its physical type mean.

    `kind` is the name of a Parquet LogicalType, also for a ConvertedType of older files. ``INTERVAL`` exists only as a
    ConvertedType. ``OTHER`` is an annotation that is unknown here. ORC has ``LIST``, ``MAP`` and ``UNION``.
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
    """One element of a schema: a group (`physical_type` is None), or a leaf with the name of its type in the format."""

    name: str
    repetition: str  # "REQUIRED", "OPTIONAL" or "REPEATED"; the root counts as REQUIRED
    physical_type: str | None = None
    type_length: int | None = None  # FIXED_LEN_BYTE_ARRAY: bytes per value
    annotation: Annotation | None = None
    field_id: int | None = None
    children: tuple[SchemaNode, ...] = ()


@dataclass(frozen=True, slots=True)
class LeafColumn:
    """A leaf of a schema. `index` is its position among the leaves; `path` has the names from the root down.
    `repeated_levels`: how many nodes on the path are REPEATED."""

    index: int
    path: tuple[str, ...]
    node: SchemaNode
    repeated_levels: int

    @property
    def repeated(self) -> bool:
        """Whether a row may have several values."""
        return self.repeated_levels > 0

    def describe(self) -> str:
        """The type for a message: ``INT64``, ``BYTE_ARRAY (STRING)``."""
        annotation = f" ({self.node.annotation.kind})" if self.node.annotation else ""
        return f"{self.node.physical_type}{annotation}"


@dataclass(frozen=True)
class FileSchema:
    """A schema's root and its leaves in file order.

    `comparable`: the leaves that a predicate may compare, by path. The path leads through structs only, and no other
    column has its names in another case, so that it means the same column under each rule.
    """

    root: SchemaNode
    leaves: tuple[LeafColumn, ...] = field(init=False)
    comparable: Mapping[tuple[str, ...], LeafColumn] = field(init=False, repr=False, compare=False)
    _below: dict[bool, dict[tuple[str, ...], list[LeafColumn]]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        walked = list(_walk(self.root, (), 0, True))
        leaves = tuple(LeafColumn(i, *leaf) for i, (leaf, _) in enumerate(walked))
        object.__setattr__(self, "leaves", leaves)
        comparable = {leaf.path: leaf for leaf, (_, is_comparable) in zip(leaves, walked, strict=True) if is_comparable}
        object.__setattr__(self, "comparable", comparable)

    def leaves_below(self, path: tuple[str, ...], case_sensitive: bool) -> list[LeafColumn]:
        """The leaf at `path`, or those of the group at `path`; several columns may match if case does not count."""
        below = self._below.get(case_sensitive)
        if below is None:
            below = {}
            for leaf in self.leaves:
                folded = tuple(fold(name, case_sensitive) for name in leaf.path)
                for depth in range(1, len(folded) + 1):
                    below.setdefault(folded[:depth], []).append(leaf)
            self._below[case_sensitive] = below
        return below.get(tuple(fold(name, case_sensitive) for name in path), [])


def _walk(
    node: SchemaNode, path: tuple[str, ...], repeated_levels: int, is_comparable: bool
) -> Iterator[tuple[tuple[tuple[str, ...], SchemaNode, int], bool]]:
    """The path, node and repeated levels of each leaf below `node`, and whether it is comparable."""
    alike = Counter(fold(child.name, False) for child in node.children)
    for child in node.children:
        is_repeated, kind = child.repetition == "REPEATED", child.annotation and child.annotation.kind
        child_path, child_levels = (*path, child.name), repeated_levels + is_repeated
        child_comparable = is_comparable and not is_repeated and alike[fold(child.name, False)] == 1
        if child.physical_type is not None:
            yield (child_path, child, child_levels), child_comparable and kind != "INTERVAL"
        else:
            yield from _walk(child, child_path, child_levels, child_comparable and kind is None)
