"""Reading the rows: the row groups that a plan kept, by pyarrow, filtered to exactly the rows that match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    path: Paths | Dataset, where: Where = None, *, columns: Sequence[str] | None = None, **planning: Any
) -> pa.Table:
    """Exactly the rows at `path` for which `where` is TRUE, in file order; reads only the row groups that might hold
    one.

    `columns` names top-level columns and partition columns, in the order wanted; None takes all, partition columns
    last. `planning` takes the keywords of :func:`bloomparquet.plan`, and errors are as there.
    """
    scan = _Scan(plan(path, where, **planning), columns, planning)
    return pa.Table.from_batches(scan.batches(), scan.schema)


def scan_batches(
    path: Paths | Dataset, where: Where = None, *, columns: Sequence[str] | None = None, **planning: Any
) -> Iterator[pa.RecordBatch]:
    """The rows of :func:`read_table` as record batches of one schema, with one file's batch in memory at a time."""
    scan = _Scan(plan(path, where, **planning), columns, planning)
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
        yield from file.iter_batches(
            batch_size=batch_rows, row_groups=list(row_groups), columns=None if columns is None else list(columns)
        )


class _Scan:
    """One plan being read: which columns come from where, and what types the result has."""

    def __init__(self, plan: ScanPlan, columns: Sequence[str] | None, planning: dict[str, Any]) -> None:
        self._plan = plan
        self._partitions = plan.dataset.partition_table(planning.get("timezone", "UTC") or "UTC")
        everything = self._with_partitions(_stored_schema(plan, plan.dataset.files[:1]))
        if columns is not None and plan.excluded and not set(columns) <= set(everything.names):
            everything = self._with_partitions(_stored_schema(plan, plan.excluded))
        self.schema = everything if columns is None else pa.schema([_field(everything, name) for name in columns])
        case_sensitive = planning.get("case_sensitive", True)
        tops = {column[0] for column in columns_of(plan.where)} if plan.where is not None else set()
        folded = {top.casefold() for top in tops}
        tested = {
            name for name in everything.names if name in tops or (not case_sensitive and name.casefold() in folded)
        }
        needed = {*self.schema.names, *tested}
        self._read_schema = pa.schema([field for field in everything if field.name in needed])
        self._stored_names = [name for name in self._read_schema.names if name not in self._partitions.column_names]
        self._matching = None
        if plan.where is not None:
            zone = planning.get("timezone", "UTC") or "UTC"
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


def _stored_schema(plan: ScanPlan, others: Sequence[FileInfo]) -> pa.Schema:
    """One schema over the files that planning opened, and `others`; differing types of a column are widened where Arrow
    can."""
    excluded = set(plan.excluded)
    unopened = [file for file in others if file in excluded]
    more = cache.row_groups(plan.dataset.storage, unopened, ReadCount(), skip_corrupt=True).footers if unopened else ()
    distinct = {
        (footer.layout, footer.key_values.get("ARROW:schema")): footer
        for footer in reversed([*more, *plan.table.footers])
    }
    schemas = list(dict.fromkeys(_arrow_schema(footer) for footer in reversed(distinct.values())))
    if len(schemas) == 1:
        return schemas[0]
    try:
        return pa.unify_schemas(map(_decoded, schemas), promote_options="permissive") if schemas else pa.schema([])
    except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
        raise PlanError(f"the files' schemas do not go together: {error}; read them apart") from error


def _decoded(schema: pa.Schema) -> pa.Schema:
    """Columns that are dictionaries in one file need not be in the next."""
    return pa.schema([f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in schema])


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
    if isinstance(column.type, pa.ExtensionType) and not isinstance(field.type, pa.ExtensionType):
        column = column.storage
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise PlanError(
            f"{path}: column {field.name} is {column.type} here and does not fit {field.type}, "
            f"which the other files make it: {error}; read the files apart"
        ) from error


def _field(everything: pa.Schema, name: str) -> pa.Field:
    at = everything.get_field_index(name)
    if at < 0:
        raise PlanError(
            f"column {name!r} is in none of the files{nearest(name, everything.names)}; "
            f"the columns are {', '.join(everything.names)}"
        )
    return everything.field(at)
