"""One Arrow schema for the files of a scan, and the conversion of their batches to it.

pyarrow's casts allow more than a scan may. A predicate must compare a row as the planner judged its row group, so only
conversions that keep every value and its meaning are made here. Any other is an error that names the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import starmap

import pyarrow as pa

from bloomparquet.errors import FormatError, PlanError, first_line
from bloomparquet.parquet.metadata.file_profile import ARROW_SCHEMA, FileProfile
from bloomparquet.parquet.metadata.file_tail import to_arrow_metadata
from bloomparquet.parquet.metadata.footer import Footer
from bloomparquet.parquet.thrift.definitions import FileMetaData, KeyValue
from bloomparquet.parquet.thrift.writer import write_struct
from bloomparquet.query.columns import FileSchema, SchemaNode
from bloomparquet.query.domains import arrow_family
from bloomparquet.query.names import Positions, fold
from bloomparquet.query.nested import map_leaf_types

_UUID = pa.uuid()
_UUID_STORAGE = _UUID.storage_type
_RESPELL = "read the files separately, or write them again with one spelling of each name"


def unify(schemas: Iterable[pa.Schema], names: Positions | None = None, *, case_sensitive: bool = True) -> pa.Schema:
    """One schema for several files, with all columns or only those in `names`. Types that differ are widened as Arrow
    does, and 16 bytes are UUIDs where another file says so. The first spelling of a name counts if case does not.

    Raises PlanError for types that Arrow cannot widen, and for structs whose fields differ in case alone if case does
    not count.
    """
    if names is not None:
        schemas = (pa.schema([field for field in schema if field.name in names]) for schema in schemas)
    distinct = list[pa.Schema]()
    for schema in schemas:  # extension types need not be hashable
        if schema not in distinct:
            distinct.append(schema)
    if len(distinct) == 1:
        return distinct[0]
    if not case_sensitive:
        distinct = list(_spelled_alike(distinct))
    uuids = {field.name for schema in distinct for field in schema if isinstance(field.type, pa.UuidType)}
    plain = [pa.schema([field.with_type(_plain(field.type)) for field in schema]) for schema in distinct]
    plain = [
        pa.schema([f.with_type(_UUID) if f.name in uuids and f.type == _UUID_STORAGE else f for f in schema])
        for schema in plain
    ]
    try:
        merged = pa.unify_schemas(plain, promote_options="permissive") if plain else pa.schema([])
    except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
        raise PlanError(f"the files have schemas that cannot be merged: {error}; read the files separately") from error
    if not case_sensitive and (name := next((field.name for field in merged if _differs_in_case(field.type)), None)):
        raise PlanError(
            f"the files have schemas that cannot be merged: fields of column {name} differ in case alone "
            f"({merged.field(name).type}); {_RESPELL}"
        )
    return merged


def _spelled_alike(schemas: Iterable[pa.Schema]) -> Iterator[pa.Schema]:
    """The schemas with the first spelling of each name. Names that a schema has in several spellings stay."""
    spelled: dict[str, str] = {}
    for schema in schemas:
        counts = Counter(fold(name, False) for name in schema.names)
        names = [
            name if counts[fold(name, False)] > 1 else spelled.setdefault(fold(name, False), name)
            for name in schema.names
        ]
        yield pa.schema([field.with_name(name) for field, name in zip(schema, names, strict=True)])


def _differs_in_case(kind: pa.DataType) -> bool:
    """Whether a struct in `kind` has two fields whose names differ in case alone."""
    fields = [kind.field(i) for i in range(kind.num_fields)]
    is_twice = len({fold(field.name, False) for field in fields}) < len(fields)
    return is_twice or any(_differs_in_case(field.type) for field in fields)


def with_partitions(stored: pa.Schema, partitions: pa.Schema, case_sensitive: bool) -> pa.Schema:
    """The schema of a scan: the columns in the files, then the partition columns, which hide columns of their name."""
    names = Positions(partitions.names, case_sensitive)
    return pa.schema([*(field for field in stored if field.name not in names), *partitions])


def footer_schemas(footers: Sequence[Footer]) -> Iterator[pa.Schema]:
    """The distinct Arrow schemas of Parquet files, in order of first occurrence."""
    return starmap(_arrow_schema, _distinct(footers))


def views(footers: Sequence[Footer]) -> set[str]:
    """The columns that pyarrow reads as views of strings or binaries in one of the files."""
    stored = (field for key in _distinct(footers) for field in _stored_schema(*key))
    is_view = pa.types.is_string_view, pa.types.is_binary_view
    return {field.name for field in stored if any(check(field.type) for check in is_view)}


def _distinct(footers: Sequence[Footer]) -> Iterable[tuple[FileProfile, str | None]]:
    """What decides about the Arrow schemas of `footers`."""
    return dict.fromkeys((footer.profile, footer.key_values.get(ARROW_SCHEMA)) for footer in footers)


def _plain(kind: pa.DataType) -> pa.DataType:
    """`kind` without what only some files' Arrow schemas have: dictionaries, display zones, and extension types other
    than UUID."""

    def storage_type(leaf: pa.DataType) -> pa.DataType:
        if pa.types.is_dictionary(leaf):
            return _plain(leaf.value_type)
        if pa.types.is_timestamp(leaf) and leaf.tz is not None:
            return pa.timestamp(leaf.unit, "UTC")
        is_extension = isinstance(leaf, pa.BaseExtensionType) and not isinstance(leaf, pa.UuidType)
        return _plain(leaf.storage_type) if is_extension else leaf

    return map_leaf_types(kind, storage_type)


def _stored_schema(profile: FileProfile, stored: str | None) -> pa.Schema:
    """pyarrow's schema of a file. `stored`: the Arrow schema in its footer."""
    elements = [element for column in profile.elements for element in column]
    metadata = FileMetaData(version=2, schema=elements, num_rows=0, row_groups=[])
    if stored is not None:
        value = stored.encode("utf-8", "surrogateescape")
        metadata.key_value_metadata = [KeyValue(key=ARROW_SCHEMA.encode(), value=value)]
    try:
        return to_arrow_metadata(write_struct(metadata)).schema.to_arrow_schema().remove_metadata()
    except (pa.ArrowException, UnicodeError) as error:
        raise FormatError(f"pyarrow cannot read the schema of a file: {first_line(error)}") from error


@lru_cache(maxsize=64)
def _arrow_schema(profile: FileProfile, stored: str | None) -> pa.Schema:
    nodes = {node.name: node for node in profile.schema.root.children}
    fields = _stored_schema(profile, stored)
    return pa.schema([field.with_type(scan_type(field.type, nodes.get(field.name))) for field in fields])


def scan_type(kind: pa.DataType, node: SchemaNode | None) -> pa.DataType:
    """The type that a column has in a scan, given pyarrow's type `kind` and the Parquet column, by which the planner
    judges it.

    * INT96 is ``timestamp[us, UTC]``; pyarrow reads it without a zone.
    * UUID is ``uuid``, also if the file stores no Arrow schema. The annotation is ignored on values that are not 16
      bytes long.
    * Views of strings and binaries become strings and binaries: pyarrow cannot filter views.
    """
    leaves = iter(()) if node is None else _leaves(node)

    def change(leaf: pa.DataType) -> pa.DataType:
        if isinstance(leaf, pa.BaseExtensionType):
            map_leaf_types(leaf.storage_type, change)  # consumes the leaves below the extension type
            return leaf
        stored = next(leaves, None)
        if stored is not None and stored.physical_type == "INT96":
            return pa.timestamp("us", "UTC")
        is_uuid = stored is not None and stored.annotation is not None and stored.annotation.kind == "UUID"
        if is_uuid and leaf == _UUID_STORAGE:
            return _UUID
        if pa.types.is_string_view(leaf):
            return pa.string()
        return pa.binary() if pa.types.is_binary_view(leaf) else leaf

    return map_leaf_types(kind, change)


def _leaves(node: SchemaNode) -> Iterator[SchemaNode]:
    if node.physical_type is not None:
        yield node
    for child in node.children:
        yield from _leaves(child)


def int96_columns(schema: FileSchema) -> dict[str, SchemaNode]:
    """The top-level columns that are INT96 or contain it, by name."""
    names = {leaf.path[0] for leaf in schema.leaves if leaf.node.physical_type == "INT96"}
    return {node.name: node for node in schema.root.children if node.name in names}


def cast_int96(batch: pa.RecordBatch, columns: dict[str, SchemaNode]) -> pa.RecordBatch:
    """`batch` with INT96 as ``timestamp[us, UTC]``. `columns` comes from :func:`int96_columns`."""
    fields = [field.with_type(scan_type(field.type, columns.get(field.name))) for field in batch.schema]
    arrays = [cast(column, field.type) for column, field in zip(batch.columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)) if arrays else batch


def fit(column: pa.Array, field: pa.Field, path: str, *, of_table: bool = False) -> pa.Array:
    """Convert `column` of the file at `path` to the type of `field`. Raises PlanError if that would change a value or
    its meaning. `of_table`: `field` is a column of a table with a schema of its own; the fields of structs that it
    lacks are dropped."""
    if column.type == field.type:
        return column
    try:
        if keeps_values(column.type, field.type, may_drop=of_table):
            return cast(column, field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass  # the text of this error has a value, which may be from an encrypted column
    raise conflict(path, column.type, field, of_table=of_table)


def conflict(path: str, stored: pa.DataType, field: pa.Field, *, of_table: bool = False) -> PlanError:
    """The error for a column whose type in the file at `path` cannot become the type of `field`. `of_table`:
    see :func:`fit`."""
    remedy = "rewrite the file with the table's own writer" if of_table else _remedy(stored, field)
    return PlanError(
        f"{path}: column {field.name} has type {stored}, which cannot be converted to {field.type}, its type in "
        f"this scan; {remedy}"
    )


def _remedy(stored: pa.DataType, field: pa.Field) -> str:
    try:
        merged = unify([pa.schema([field.with_type(stored)]), pa.schema([field])]).field(0).type
    except PlanError:
        merged = field.type
    if _differs_in_case(merged):
        return _RESPELL
    widen = ", or give merge_schema=True (--merge-schema on the command line), which widens types where Arrow can"
    return "read the files separately" + ("" if merged == _plain(field.type) else widen)


def cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """pyarrow's checked cast, with extension types."""
    if column.type == kind:
        return column
    if isinstance(column.type, pa.ExtensionType):
        column = column.storage
    if isinstance(kind, pa.ExtensionType):
        return pa.ExtensionArray.from_storage(kind, column.cast(kind.storage_type))
    return column.cast(kind)


def keeps_values(source: pa.DataType, target: pa.DataType, *, may_drop: bool = False) -> bool:
    """Whether a checked cast keeps every value, and how it compares with literals. `may_drop`: fields of structs may be
    dropped."""
    source, target = _plain(source), _plain(target)
    if source == target or pa.types.is_null(source) or (source, target) == (_UUID_STORAGE, _UUID):
        return True
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        fields = {field.name: field.type for field in target}
        return all(
            keeps_values(field.type, fields[field.name], may_drop=may_drop) if field.name in fields else may_drop
            for field in source
        )
    are_lists = _is_list(source) and _is_list(target)
    if are_lists or (pa.types.is_nested(source) and not pa.types.is_union(source) and source.id == target.id):
        pairs = zip(_children(source), _children(target), strict=True)
        return all(keeps_values(inner, wanted, may_drop=may_drop) for inner, wanted in pairs)
    families = arrow_family(source), arrow_family(target)
    if families == ("float", "float"):
        return bool(source.bit_width <= target.bit_width)
    return families in (("integer", "float"), ("integer", "decimal")) or (families[0] == families[1] != "other")


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _children(kind: pa.DataType) -> list[pa.DataType]:
    return [kind.key_type, kind.item_type] if pa.types.is_map(kind) else [kind.value_type]
