"""Reading the rows: the row groups that a plan kept, by pyarrow, filtered to exactly the rows that match."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bloomparquet.dataset import Dataset, Paths
from bloomparquet.errors import PlanError, nearest
from bloomparquet.format.footer import Footer
from bloomparquet.format.schema import SchemaNode
from bloomparquet.predicate import columns as columns_of
from bloomparquet.pruning.plan import ScanPlan
from bloomparquet.pruning.planner import Where, cache, plan
from bloomparquet.residual import bind
from bloomparquet.storage import FileInfo, ReadCount, Storage

BATCH_ROWS = 64 * 1024
_WITHOUT_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def read_table(
    path: Paths | Dataset,
    where: Where = None,
    *,
    columns: Sequence[str] | None = None,
    merge_schema: bool = False,
    **planning: Any,
) -> pa.Table:
    """Exactly the rows at `path` for which `where` is TRUE, in file order; other row groups are not read.

    `columns` names top-level columns and partition columns, in the order wanted; None takes all, partition columns
    last. As for ``spark.read.parquet`` the first file says what the columns are, whatever `where` is; with
    `merge_schema` they are those of all files together, and every footer is read. `planning` takes the keywords of
    :func:`bloomparquet.plan`, and errors are as there; a file whose column does not fit is a :class:`PlanError`.
    """
    scan = _Scan(plan(path, where, **planning), columns, merge_schema, planning)
    return pa.Table.from_batches(scan.batches(), scan.schema)


def scan_batches(
    path: Paths | Dataset,
    where: Where = None,
    *,
    columns: Sequence[str] | None = None,
    merge_schema: bool = False,
    **planning: Any,
) -> Iterator[pa.RecordBatch]:
    """The rows of :func:`read_table` as record batches of one schema, with one file's batch in memory at a time."""
    scan = _Scan(plan(path, where, **planning), columns, merge_schema, planning)
    return scan.batches()


def read_row_groups(
    storage: Storage,
    path: str,
    row_groups: Sequence[int],
    columns: Sequence[str] | None = None,
    *,
    metadata: pq.FileMetaData | None = None,
    batch_rows: int = BATCH_ROWS,
) -> Iterator[pa.RecordBatch]:
    """Some row groups of one file as record batches, decoding one batch at a time; `metadata` saves reading the
    footer again.

    INT96 comes as ``timestamp[us]``, the precision and range that Spark gives it.
    """
    with storage.arrow.open_input_file(path) as source:
        file = pq.ParquetFile(
            source, metadata=metadata, coerce_int96_timestamp_unit="us", pre_buffer=storage.threads > 1
        )
        chosen = None if columns is None else list(columns)
        for row_group in row_groups:  # one at a time: over several, pyarrow cannot decode dictionaries inside structs
            yield from file.iter_batches(batch_size=batch_rows, row_groups=[row_group], columns=chosen)


class _Scan:
    """One plan being read: which columns come from where, and what types the result has."""

    def __init__(
        self, plan: ScanPlan, columns: Sequence[str] | None, merge_schema: bool, planning: dict[str, Any]
    ) -> None:
        self._plan = plan
        zone, case_sensitive = planning.get("timezone", "UTC") or "UTC", planning.get("case_sensitive", True)
        self._partitions = plan.dataset.partition_table(zone)
        files = plan.dataset.files
        shown = self._with_partitions(_unify(_footers(plan, files if merge_schema else files[:1])))
        self.schema = shown if columns is None else pa.schema([_field(shown, name) for name in columns])
        tops = {column[0] for column in columns_of(plan.where)} if plan.where is not None else set()
        names = _Names(tops, case_sensitive)
        everything = shown
        if not merge_schema and not names.all_in(shown.names):  # only later files have what is tested
            others = _unify(plan.table.footers, names)
            everything = pa.schema([*shown, *(field for field in others if field.name not in shown.names)])
        tested = {name for name in everything.names if name in names}
        needed = {*self.schema.names, *tested}
        self._read_schema = pa.schema([field for field in everything if field.name in needed])
        self._stored_names = [name for name in self._read_schema.names if name not in self._partitions.column_names]
        self._matching = None
        if plan.where is not None:
            self._matching = bind(plan.where, self._read_schema, timezone=zone, case_sensitive=case_sensitive)

    def _with_partitions(self, stored: pa.Schema) -> pa.Schema:
        fields = [field for field in stored if field.name not in self._partitions.column_names]
        return pa.schema([*fields, *self._partitions.schema])

    def batches(self) -> Iterator[pa.RecordBatch]:
        plan = self._plan
        for place, row_groups in plan.kept_by_file():
            file, footer = plan.table.files[place], plan.table.footers[place]
            present = {field.name for field in footer.layout.schema.root.children}
            names = [name for name in self._stored_names if name in present]
            constants = self._partitions.slice(int(plan.file_places[place]), 1)
            for batch in read_row_groups(
                plan.dataset.storage, file.path, row_groups, names, metadata=footer.to_arrow()
            ):
                whole = self._conform(batch, constants, file.path)
                if self._matching is not None:
                    whole = whole.filter(self._matching(whole))
                if whole.num_rows:
                    yield whole.select(self.schema.names)

    def _conform(self, batch: pa.RecordBatch, constants: pa.Table, path: str) -> pa.RecordBatch:
        arrays = []
        for field in self._read_schema:
            if field.name in constants.column_names:
                arrays.append(pa.repeat(constants.column(field.name)[0], batch.num_rows))
            elif field.name in batch.schema.names:
                arrays.append(_cast(batch.column(field.name), field, path))
            else:
                arrays.append(pa.nulls(batch.num_rows, field.type))
        if not arrays:
            return batch
        return pa.RecordBatch.from_arrays(arrays, schema=self._read_schema)


def _footers(plan: ScanPlan, files: Sequence[FileInfo]) -> Sequence[Footer]:
    """The footers of `files`, whether the plan opened them or not."""
    return cache.row_groups(plan.dataset.storage, files, ReadCount(), skip_corrupt=True).footers


class _Names:
    """A set of column names under the rule of case."""

    def __init__(self, names: set[str], case_sensitive: bool) -> None:
        self._key = (lambda name: name) if case_sensitive else str.casefold
        self._names = set(map(self._key, names))

    def __contains__(self, name: str) -> bool:
        return self._key(name) in self._names

    def all_in(self, names: Iterable[str]) -> bool:
        return self._names <= set(map(self._key, names))


def _unify(footers: Sequence[Footer], names: _Names | None = None) -> pa.Schema:
    """One schema over files, of all columns or of those in `names`; differing types of a column are widened where Arrow
    can."""
    distinct = {(footer.layout, footer.key_values.get("ARROW:schema")): footer for footer in reversed(footers)}
    whole = (_arrow_schema(footer) for footer in reversed(distinct.values()))
    chosen = whole if names is None else (pa.schema([f for f in schema if f.name in names]) for schema in whole)
    schemas = list(dict.fromkeys(chosen))
    if len(schemas) == 1:
        return schemas[0]
    try:
        return pa.unify_schemas(map(_decoded, schemas), promote_options="permissive") if schemas else pa.schema([])
    except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
        raise PlanError(f"the files' schemas do not go together: {error}; read them apart") from error


def _decoded(schema: pa.Schema) -> pa.Schema:
    """Arrow's own views of a type, which one file may ask for and the next may not, as the type below."""
    return pa.schema([field.with_type(_plain(field.type)) for field in schema])


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if isinstance(kind, pa.ExtensionType):
        return _plain(kind.storage_type)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)))
    return kind


def _arrow_schema(footer: Footer) -> pa.Schema:
    arrow = footer.to_arrow().schema.to_arrow_schema().remove_metadata()
    nodes = {node.name: node for node in footer.layout.schema.root.children}
    return pa.schema([field.with_type(_readable(field.type, nodes.get(field.name))) for field in arrow])


def _readable(kind: pa.DataType, node: SchemaNode | None) -> pa.DataType:
    """INT96 is an instant, which pyarrow shows as a naive timestamp; and views cannot be filtered by pyarrow."""
    if node is None:
        return kind
    if node.physical_type == "INT96":
        return pa.timestamp("us", "UTC")
    if kind in _WITHOUT_VIEWS:
        return _WITHOUT_VIEWS[kind]
    if pa.types.is_struct(kind):
        nodes = {child.name: child for child in node.children}
        return pa.struct([field.with_type(_readable(field.type, nodes.get(field.name))) for field in kind])
    return kind


def _cast(column: pa.Array, field: pa.Field, path: str) -> pa.Array:
    if column.type == field.type:
        return column
    if isinstance(column.type, pa.ExtensionType):
        column = column.storage
    if isinstance(field.type, pa.ExtensionType) and column.type == field.type.storage_type:
        return pa.ExtensionArray.from_storage(field.type, column)
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise PlanError(
            f"{path}: column {field.name} is {column.type} here and does not fit {field.type}, "
            f"which other files make it: {error}; read the files apart"
        ) from error


def _field(everything: pa.Schema, name: str) -> pa.Field:
    at = everything.get_field_index(name)
    if at < 0:
        raise PlanError(
            f"column {name!r} is in none of the files{nearest(name, everything.names)}; "
            f"the columns are {', '.join(everything.names)}"
        )
    return everything.field(at)
