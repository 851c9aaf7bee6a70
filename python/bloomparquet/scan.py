"""Reading the rows: the row groups that a plan kept, by pyarrow, filtered to exactly the rows that match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bloomparquet.dataset import Dataset, Paths
from bloomparquet.errors import PlanError, nearest
from bloomparquet.format.schema import SchemaNode
from bloomparquet.predicate import columns as columns_of
from bloomparquet.pruning.binding import readings
from bloomparquet.pruning.plan import ScanPlan
from bloomparquet.pruning.planner import plan
from bloomparquet.residual import mask
from bloomparquet.storage import Storage
from bloomparquet.where import Where

BATCH_ROWS = 64 * 1024


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
        self._timezone = planning.get("timezone", "UTC") or "UTC"
        self._case_sensitive = planning.get("case_sensitive", True)
        self._partitions = plan.dataset.partition_table(self._timezone)
        stored = _unified_schema(plan)
        partition_fields = list(self._partitions.schema)
        names = {field.name for field in partition_fields}
        everything = pa.schema([*(field for field in stored if field.name not in names), *partition_fields])
        self.schema = everything if columns is None else pa.schema([_field(everything, name, plan) for name in columns])
        needed = set(self.schema.names) | self._tested(everything)
        self._read_schema = pa.schema([field for field in everything if field.name in needed])
        self._stored_names = [name for name in self._read_schema.names if name not in names]

    def batches(self) -> Iterator[pa.RecordBatch]:
        plan = self._plan
        for place, row_groups in plan.kept_by_file():
            file, footer = plan.table.files[place], plan.table.footers[place]
            present = {field.name for field in footer.layout.schema.root.children}
            names = [name for name in self._stored_names if name in present]
            constants = self._partitions.slice(int(plan.file_places[place]), 1)
            for batch in read_row_groups(plan.dataset.storage, file.path, row_groups, names, metadata=footer.metadata):
                whole = self._conform(batch, constants)
                if plan.where is not None:
                    whole = whole.filter(
                        mask(plan.where, whole, timezone=self._timezone, case_sensitive=self._case_sensitive)
                    )
                if whole.num_rows:
                    yield whole.select(self.schema.names)

    def _tested(self, everything: pa.Schema) -> set[str]:
        """The top-level columns that the predicate looks at."""
        tops = {
            path[0]
            for column in (columns_of(self._plan.where) if self._plan.where else ())
            for path in readings(column)
        }
        if self._case_sensitive:
            return tops
        folded = {top.casefold() for top in tops}
        return {name for name in everything.names if name.casefold() in folded}

    def _conform(self, batch: pa.RecordBatch, constants: pa.Table) -> pa.RecordBatch:
        arrays = []
        for field in self._read_schema:
            if field.name in constants.column_names:
                arrays.append(pa.repeat(constants.column(field.name)[0], batch.num_rows))
            elif field.name in batch.schema.names:
                arrays.append(_cast(batch.column(field.name), field.type))
            else:
                arrays.append(pa.nulls(batch.num_rows, field.type))
        if not arrays:
            return batch
        return pa.RecordBatch.from_arrays(arrays, schema=self._read_schema)


def _unified_schema(plan: ScanPlan) -> pa.Schema:
    """One schema over all files that were opened; differing types of a column are widened where Arrow can."""
    table = plan.table
    first = {id(footer.layout): footer for footer in reversed(table.footers)}
    schemas = []
    for layout in table.layouts:
        arrow = first[id(layout)].metadata.schema.to_arrow_schema().remove_metadata()
        nodes = {node.name: node for node in layout.schema.root.children}
        schemas.append(
            pa.schema([field.with_type(_spark_timestamps(field.type, nodes.get(field.name))) for field in arrow])
        )
    if not schemas:
        return pa.schema([])
    try:
        return pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
        raise PlanError(f"the files' schemas do not go together: {error}; read them apart") from error


def _spark_timestamps(kind: pa.DataType, node: SchemaNode | None) -> pa.DataType:
    """INT96 is an instant, which pyarrow shows as a naive timestamp."""
    if node is None:
        return kind
    if node.physical_type == "INT96":
        return pa.timestamp("us", "UTC")
    if pa.types.is_struct(kind):
        nodes = {child.name: child for child in node.children}
        return pa.struct([field.with_type(_spark_timestamps(field.type, nodes.get(field.name))) for field in kind])
    return kind


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    if isinstance(column.type, pa.ExtensionType) and not isinstance(kind, pa.ExtensionType):
        column = column.storage
    return column.cast(kind)


def _field(everything: pa.Schema, name: str, plan: ScanPlan) -> pa.Field:
    at = everything.get_field_index(name)
    if at < 0:
        raise PlanError(
            f"column {name!r} is in none of the files{nearest(name, everything.names)}; "
            f"the columns are {', '.join(everything.names)}"
        )
    return everything.field(at)
