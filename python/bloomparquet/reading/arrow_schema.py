"""One Arrow schema over files that differ, and their batches made to fit it.

pyarrow's own casts go further than a scan may: what a row is compared as must be what its row group was judged as, so
only conversions that keep every value and its meaning are made here, and all others are errors that name the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from bloomparquet.errors import FormatError, PlanError
from bloomparquet.parquet.metadata.footer import Footer
from bloomparquet.query.columns import SchemaNode
from bloomparquet.query.evaluate import family_of
from bloomparquet.query.names import Names
from bloomparquet.query.nested import map_leaf_types

_WITHOUT_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def unify(found: Iterable[pa.Schema], names: Names | None = None) -> pa.Schema:
    """One schema for those of several files, of all columns or of those in `names`; differing types of a column are
    widened where Arrow can."""
    chosen = found if names is None else (pa.schema([f for f in schema if f.name in names]) for schema in found)
    schemas = list(dict.fromkeys(chosen))
    if len(schemas) == 1:
        return schemas[0]
    try:
        return pa.unify_schemas(map(_decoded, schemas), promote_options="permissive") if schemas else pa.schema([])
    except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
        raise PlanError(f"the files' schemas do not go together: {error}; read them apart") from error


def footer_schemas(footers: Sequence[Footer]) -> Iterator[pa.Schema]:
    """The different Arrow schemas of Parquet files, in the order in which they first occur."""
    distinct = {(footer.profile, footer.key_values.get("ARROW:schema")): footer for footer in reversed(footers)}
    return map(_arrow_schema, reversed(distinct.values()))


def _decoded(schema: pa.Schema) -> pa.Schema:
    """Arrow's own views of a type, which one file may ask for and the next may not, as the type below."""
    return pa.schema([field.with_type(_plain(field.type)) for field in schema])


def _plain(kind: pa.DataType) -> pa.DataType:
    def below(leaf: pa.DataType) -> pa.DataType:
        if pa.types.is_dictionary(leaf):
            return _plain(leaf.value_type)
        if pa.types.is_timestamp(leaf) and leaf.tz is not None:
            return pa.timestamp(leaf.unit, "UTC")  # the same instants; the zone is for display
        views = isinstance(leaf, pa.BaseExtensionType) and not isinstance(leaf, pa.UuidType)
        return _plain(leaf.storage_type) if views else leaf

    return map_leaf_types(kind, below)


def _arrow_schema(footer: Footer) -> pa.Schema:
    try:
        arrow = footer.to_arrow().schema.to_arrow_schema().remove_metadata()
    except (pa.ArrowException, UnicodeError) as error:
        raise FormatError(
            f"pyarrow cannot read the schema of a file: {next(iter(str(error).splitlines()), '')}"
        ) from error
    nodes = {node.name: node for node in footer.profile.schema.root.children}
    return pa.schema([field.with_type(readable(field.type, nodes.get(field.name))) for field in arrow])


def readable(kind: pa.DataType, node: SchemaNode | None) -> pa.DataType:
    """What a column that pyarrow shows as `kind` is by its Parquet type, which planning judges it by.

    INT96 is an instant, not a timestamp without a zone; a UUID is one even where no Arrow schema in the file says so;
    and views, which pyarrow cannot filter, are what they show.
    """
    leaves = iter(()) if node is None else _leaves(node)

    def change(leaf: pa.DataType) -> pa.DataType:
        if isinstance(leaf, pa.BaseExtensionType):
            map_leaf_types(leaf.storage_type, change)  # for the leaves that it takes
            return leaf
        stored = next(leaves, None)
        if stored is not None and stored.physical_type == "INT96":
            return pa.timestamp("us", "UTC")
        if stored is not None and stored.annotation is not None and stored.annotation.kind == "UUID":
            return pa.uuid()
        return _WITHOUT_VIEWS.get(leaf, leaf)

    return map_leaf_types(kind, change)


def _leaves(node: SchemaNode) -> Iterator[SchemaNode]:
    if node.physical_type is not None:
        yield node
    for child in node.children:
        yield from _leaves(child)


def int96_columns(root: SchemaNode) -> dict[str, SchemaNode]:
    """The top-level columns that are INT96, or have it somewhere inside."""
    return {node.name: node for node in root.children if any(leaf.physical_type == "INT96" for leaf in _leaves(node))}


def as_instants(batch: pa.RecordBatch, columns: dict[str, SchemaNode]) -> pa.RecordBatch:
    """`batch` with INT96 as the instant that it is; `columns` are those of :func:`int96_columns`."""
    fields = [field.with_type(readable(field.type, columns.get(field.name))) for field in batch.schema]
    arrays = [cast(column, field.type) for column, field in zip(batch.columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)) if arrays else batch


def fit(column: pa.Array, field: pa.Field, path: str) -> pa.Array:
    """`column` of the file at `path` as `field` has it. PlanError where values or their meaning would change."""
    if column.type == field.type:
        return column
    try:
        if _keeps_values(column.type, field.type):
            return cast(column, field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass  # its text has a value, which may be of an encrypted column
    raise PlanError(
        f"{path}: column {field.name} is {column.type} here, "
        f"which does not fit {field.type}, its type in this scan; "
        "read the files apart (merge_schema=True widens types where Arrow can)"
    )


def cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """pyarrow's checked cast, to and from extension types too."""
    if column.type == kind:
        return column
    if isinstance(column.type, pa.ExtensionType):
        column = column.storage
    if isinstance(kind, pa.ExtensionType):
        return pa.ExtensionArray.from_storage(kind, column.cast(kind.storage_type))
    return column.cast(kind)


def _keeps_values(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a checked cast keeps every value and what it compares with."""
    source, target = _plain(source), _plain(target)
    if source == target or pa.types.is_null(source):
        return True
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        fields = {field.name: field.type for field in target}
        return all(field.name in fields and _keeps_values(field.type, fields[field.name]) for field in source)
    if pa.types.is_nested(source) and not pa.types.is_union(source) and source.id == target.id:
        pairs = zip(_children(source), _children(target), strict=True)
        return all(_keeps_values(inner, wanted) for inner, wanted in pairs)
    families = family_of(source), family_of(target)
    if families == ("float", "float"):
        return bool(source.bit_width <= target.bit_width)
    return families in (("integer", "float"), ("integer", "decimal")) or (families[0] == families[1] != "other")


def _children(kind: pa.DataType) -> list[pa.DataType]:
    return [kind.key_type, kind.item_type] if pa.types.is_map(kind) else [kind.value_type]
