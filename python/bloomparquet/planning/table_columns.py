"""The columns of a table that has a schema of its own, and how its files store them.

Delta Lake and Iceberg rename, add and widen columns without rewriting files. A column of a file stores a column of the
table if both have the same field id, or else the same name. The planner sees each file's schema under the table's names
(:class:`MappedUnits`), so one planner serves both kinds of data sets.

Sources: Delta Lake's PROTOCOL.md ("Column Mapping"), Iceberg's spec ("Column Projection").
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bloomparquet.errors import FormatError, UnsupportedError, join_names, located, shorten
from bloomparquet.parquet.metadata.schema import parse_schema
from bloomparquet.parquet.values.encoding import parquet_type
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.evidence.interface import Chunks, Table, Units
from bloomparquet.query.columns import Annotation, FileSchema, LeafColumn, SchemaNode
from bloomparquet.query.resolve import list_element, map_part
from bloomparquet.storage.files import ReadCount
from bloomparquet.storage.forks import lazy_property

_Pairs: TypeAlias = list[tuple["TableField", SchemaNode]]
_Find: TypeAlias = Callable[[Sequence[SchemaNode], Sequence["TableField"]], _Pairs]

_UNMAPPED = ""
"""The name of a column that a file has and the table does not have. No predicate can name it."""

_MOST_CACHED = 512
_FOOTER_TAIL = 8  # bytes: the length of the footer, and PAR1


@dataclass(frozen=True, slots=True)
class TableField:
    """A column of a table, or a field inside one.

    * `name`: its name in the table.
    * `file_names`: its names in files, for files whose columns are found by name. None: its `name`.
    * `field_id`: its field id in files.
    * `children`: the fields of a struct; the element of a list; the key and the value of a map. Their types are those
      of the table's Arrow schema, in the same order.
    * `default`: the value that a column of the table has in files without the column.
    * `varies`: whether such a file may have a value of its own (:class:`bloomparquet.planning.dataset.Dataset`).
    """

    name: str
    file_names: tuple[str, ...] | None = None
    field_id: int | None = None
    children: tuple[TableField, ...] = ()
    default: Any = None
    varies: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,) if self.file_names is None else self.file_names


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table: `schema` in Arrow types, partition columns included, and one of `fields` per column.
    All of the schema is nullable, as files may lack any column.

    `by_id`: columns are found by field id in files that have field ids, and by their exact name in other files. If not
    `by_id`, they are found by name: the exact one, or else the only one that differs by case.
    """

    schema: pa.Schema
    fields: tuple[TableField, ...]
    by_id: bool = False
    _mapped: dict[int, tuple[FileSchema, FileSchema]] = dataclasses.field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __reduce__(self) -> tuple[Any, ...]:
        return TableColumns, (self.schema, self.fields, self.by_id)

    @lazy_property
    def file_schema(self) -> FileSchema:
        """The table's columns as a file of the table's own types would have them."""
        sink = pa.BufferOutputStream()
        pq.write_metadata(self.schema.remove_metadata(), sink)
        footer = sink.getvalue().to_pybytes()
        size = int.from_bytes(footer[-_FOOTER_TAIL : -_FOOTER_TAIL // 2], "little")
        return parse_schema(footer[-_FOOTER_TAIL - size : -_FOOTER_TAIL])[0]

    def map_schema(self, stored: FileSchema) -> FileSchema:
        """A file's schema with the table's names. Leaves keep their index. A column that the table does not have gets
        an empty name.

        A column that the file lacks is a node of unknown type, about which there is no evidence, unless it is all null.
        Raises FormatError if columns cannot be told apart.
        """
        known = self._mapped.get(id(stored))
        if known is None or known[0] is not stored:
            mapped = FileSchema(self._map_root(stored.root))
            if len(self._mapped) >= _MOST_CACHED:
                self._mapped.clear()
            known = self._mapped[id(stored)] = stored, mapped
        return known[1]

    def are_stored_by_name(self, stored: FileSchema) -> bool:
        """Whether a reader that knows names only finds the same columns in a file as the table, and the same fields in
        them."""
        mapped, names = self.map_schema(stored).root.children, set(self.schema.names)
        pairs = zip(stored.root.children, mapped, strict=False)
        found_by_name = (child == own or (own.name == _UNMAPPED and child.name not in names) for child, own in pairs)
        return len(mapped) == len(stored.root.children) and all(found_by_name)

    def _map_root(self, root: SchemaNode) -> SchemaNode:
        find = _find_by_name
        if self.by_id:
            find = _find_by_id if any(node.field_id is not None for node in _walk(root)) else _find_by_exact_name
        if find is _find_by_exact_name and all(each.file_names == () for each in self.fields):
            raise FormatError(
                "the table finds columns by field id, but the file has no field ids, and the table does not say what "
                f"its columns are: {join_names(node.name for node in root.children)}; write the file again with field "
                "ids, or give the table a name mapping"
            )
        mapped = _map_children(root, self.fields, find)
        present = {node.name for node in mapped.children}
        unknown = Annotation("OTHER")
        defaults = (
            SchemaNode(each.name, "OPTIONAL", annotation=unknown)
            for each in self.fields
            if (each.varies or each.default is not None) and each.name not in present
        )
        return replace(mapped, children=(*mapped.children, *defaults))


class MappedUnits:
    """The row groups of a table's files, with the column names of the table; see :class:`TableColumns`.

    Implements :class:`bloomparquet.planning.evidence.interface.Units`.
    """

    def __init__(self, table: Table, columns: TableColumns) -> None:
        if table.format is not FileFormat.PARQUET:
            raise UnsupportedError(
                f"{table.paths[0]}: the files of this table are {table.format.name} files; expected Parquet files"
            )
        self.format, self.file, self.rows = table.format, table.file, table.rows
        self.schemas = []
        for i, schema in enumerate(table.schemas):
            with located(_first_path(table, i)):
                self.schemas.append(columns.map_schema(schema))
        self._table, self._stored, self._columns = table, table.schemas, columns
        self._wanted = {leaf.path: leaf.node for leaf in columns.file_schema.leaves}

    def __len__(self) -> int:
        return len(self._table)

    def members(self, profile: int) -> NDArray[np.int64]:
        return self._table.members(profile)

    def is_lossless(self, profile: int, leaf: LeafColumn | None, reader_type: str | None) -> bool:
        if leaf is None:
            return self._table.is_lossless(profile, None, reader_type)
        stored = self._stored[profile].leaves[leaf.index]
        return self._is_comparable(leaf) and self._table.is_lossless(profile, stored, reader_type)

    def _is_comparable(self, leaf: LeafColumn) -> bool:
        """Whether literals compare with the stored values as with the table's. The leaf of a list or map has the path
        of the table's leaf only in the layout that Arrow writes; in others it is not comparable."""
        wanted = self._wanted.get(leaf.path)
        return wanted is not None and parquet_type(wanted).holds(parquet_type(leaf.node))

    def chunks(self, profile: int, leaf: LeafColumn, reads: ReadCount) -> Chunks:
        return self._table.chunks(profile, self._stored[profile].leaves[leaf.index], reads)

    def row_groups_within(self, units: NDArray[np.int64]) -> None:
        """None: Parquet has no evidence about parts of a row group."""


def units_of(table: Table, columns: TableColumns | None) -> Units:
    """The units of `table` as a predicate names their columns: as the files do, or as the table does (`columns`)."""
    return table if columns is None or not table.files else MappedUnits(table, columns)


def _first_path(table: Table, profile: int) -> str:
    members = table.members(profile)
    return table.paths[int(table.file[members[0]])] if len(members) else "a file without row groups"


def _map_children(node: SchemaNode, fields: Sequence[TableField], find: _Find) -> SchemaNode:
    """A struct or the root, whose children have the names of `fields`."""
    pairs = find(node.children, fields)
    field_of = {id(child): field for field, child in pairs}
    if len(field_of) < len(pairs) or len({field.name for field, _ in pairs}) < len(pairs):
        names = ", ".join(f"{field.name} is {child.name}" for field, child in pairs)
        raise FormatError(
            f"the columns of a file do not fit those of the table one to one: {shorten(names)}; expected different "
            f"{'field ids' if find is _find_by_id else 'names'}"
        )
    children = []
    for child in node.children:
        field = field_of.get(id(child))
        mapped = child if field is None else _map_node(child, field, find)
        children.append(replace(mapped, name=_UNMAPPED if field is None else field.name))
    return replace(node, children=tuple(children))


def _find_by_id(nodes: Sequence[SchemaNode], fields: Sequence[TableField]) -> _Pairs:
    ids = {field.field_id: field for field in fields if field.field_id is not None}
    return [(ids[node.field_id], node) for node in nodes if node.field_id in ids]


def _find_by_exact_name(nodes: Sequence[SchemaNode], fields: Sequence[TableField]) -> _Pairs:
    return [(field, node) for field in fields for node in nodes if node.name in field.names]


def _find_by_name(nodes: Sequence[SchemaNode], fields: Sequence[TableField]) -> _Pairs:
    """The nodes whose name is exactly one of a field, and for the other fields those that differ only by case."""
    pairs = _find_by_exact_name(nodes, fields)
    known = {field.name for field, _ in pairs}
    taken = {id(node) for _, node in pairs}
    for field in fields:
        if field.name not in known:
            names = {name.lower() for name in field.names}
            pairs += [(field, node) for node in nodes if id(node) not in taken and node.name.lower() in names]
    return pairs


def _map_node(node: SchemaNode, field: TableField, find: _Find) -> SchemaNode:
    if not field.children or not node.children:
        return node
    element = list_element(node)
    if element is node:
        return _map_children(node, field.children[0].children, find)
    if element is not None:
        child = field.children[0]
        if element.repetition == "REPEATED":  # a list of two levels, which one of these names marks as such
            return _replace(node, element, replace(_map_children(element, child.children, find), name="array"))
        return _replace(node, element, replace(_map_node(element, child, find), name="element"))
    key, value = map_part(node, "key"), map_part(node, "value")
    if key is not None and value is not None:
        node = _replace(node, value, _map_node(value, field.children[1], find))
        return _replace(node, key, _map_node(key, field.children[0], find))
    return _map_children(node, field.children, find)


def _replace(node: SchemaNode, old: SchemaNode, new: SchemaNode) -> SchemaNode:
    """`node` with `old`, which is somewhere in it, replaced by `new`. Other nodes stay the same objects."""
    if node is old:
        return new
    children = tuple(_replace(child, old, new) for child in node.children)
    return node if all(map(operator.is_, children, node.children)) else replace(node, children=children)


def _walk(node: SchemaNode) -> Iterator[SchemaNode]:
    for child in node.children:
        yield child
        yield from _walk(child)
