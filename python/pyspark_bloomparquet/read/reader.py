"""The reader behind ``format("bloomparquet")``: plans on the driver, reads on the executors.

There are two classes because Spark refuses a query when a reader *has* ``pushFilters`` while
``spark.sql.python.filterPushdown.enabled`` is off, and because on Spark 4.1 to 4.3 filters pushed by one query prune
the other queries over the same DataFrame or view (see :mod:`pyspark_bloomparquet.read.pushed_filters`): which one
serves a load is
the option ``pushFilters``.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyspark
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import DataType, StructType

from bloomparquet.errors import EncryptionError, OptionError, PlanError, UnsupportedError
from bloomparquet.planning.plan import KEPT
from bloomparquet.planning.planner import PlanOptions, plan_dataset
from bloomparquet.query.literals import coerce
from bloomparquet.query.predicate import And, Comparison, Membership, Not, Or, Predicate
from bloomparquet.query.predicate import columns as columns_of
from bloomparquet.query.resolve import NoLeaf, find_leaf, find_partition
from bloomparquet.query.sql import parse_where
from bloomparquet.storage.files import FileInfo, LocalStorage
from pyspark_bloomparquet.options.key_provider import doubt
from pyspark_bloomparquet.read.arrow_to_spark import arrow_schema
from pyspark_bloomparquet.read.listing import Table
from pyspark_bloomparquet.read.pushed_filters import filters_stay_in_their_scan, to_predicate
from pyspark_bloomparquet.read.spark_schema import resolve
from pyspark_bloomparquet.read.splits import Piece, Split, make_splits

if TYPE_CHECKING:
    import pyarrow as pa

    from bloomparquet.planning.plan import ScanPlan
    from bloomparquet.query.predicate import Column
    from pyspark_bloomparquet.options.load import Options

_INSTANTS = ("INT96", "TIMESTAMP", "TIMESTAMP_INSTANT")  # types of files whose columns Spark shows as TIMESTAMP
_PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


def make_reader(options: Options, schema: StructType) -> BloomParquetReader:
    """The reader of one load. :class:`UnsupportedError` for a schema with a type that Spark cannot take from Python."""
    try:
        arrow_schema(schema)
    except Exception as error:
        raise UnsupportedError(
            f"the schema has a type that Spark takes from no Python data source: {error}; "
            "give a schema that leaves the column out"
        ) from error
    # Filters are pushed in a worker of their own, which runs only where pushing is enabled: elsewhere the plain reader
    # is always right.
    if options.push_filters == "on" or (
        options.push_filters == "auto" and filters_stay_in_their_scan() and _in_pushdown_worker()
    ):
        return PushingReader(options, schema)
    return BloomParquetReader(options, schema)


def _in_pushdown_worker() -> bool:
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSHDOWN_WORKER in sys.modules or (main is not None and main.name == _PUSHDOWN_WORKER)


class BloomParquetReader(DataSourceReader):
    """Prunes by the load's own `where`, and by nothing that a query says.

    `schema` is what is read: the inferred one, or the user's.
    """

    def __init__(self, options: Options, schema: StructType) -> None:
        self.options = options
        self.schema = schema
        self._where = parse_where(options.where)
        self._filters: list[Filter] = []

    def __getstate__(self) -> dict[str, Any]:
        # Executors need no filters: Spark applies them to the rows.
        return {**self.__dict__, "_filters": []}

    def partitions(self) -> list[InputPartition]:
        """Plan: the row groups that may hold rows, as splits. On the driver, once for each query plan."""
        table = Table(self.options)
        found = self._plan(table)
        if any(isinstance(error, EncryptionError) for error in found.errors):
            doubt(self.options.key_provider)
        if found.unreadable:  # their rows may match, and nobody here can read them
            raise found.errors[0]
        if (
            self.options.push_filters == "auto"
            and self._where is None
            and found.total > 1
            and not filters_stay_in_their_scan()
        ):
            _warn()
        values = table.dataset.partition_values
        pieces = (
            Piece(
                found.table.files[file],
                group.index,
                group.length,
                values[int(found.file_positions[file])],
            )
            for file, group in _kept(found)
            if group.index is not None
        )
        splits: list[InputPartition] = list(
            make_splits(
                pieces,
                table.partition_types,
                max_partition_bytes=self.options.max_partition_bytes,
                open_cost=self.options.open_cost_in_bytes,
                min_partitions=self.options.min_partition_num or os.cpu_count() or 1,
                where=found.where,
                skipped=_skipped(found),
            )
        )
        return splits

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one split. On an executor."""
        if not isinstance(partition, Split):  # Spark's stand-in where no row group was left
            return iter(())
        from pyspark_bloomparquet.read.tasks import read_split

        return read_split(partition, self.schema, self.options)

    def _plan(self, table: Table) -> ScanPlan:
        options = self.options
        pushed = to_predicate(self._filters, self._plainly_meant(table)) if self._filters else None
        # Pushed filters fit Spark's types. Where a file's type is another, they skip nothing.
        reader_types = {} if pushed is None else _reader_types(pushed, self.schema)
        plan_options = PlanOptions(
            timezone=options.time_zone,
            case_sensitive=options.case_sensitive,
            on_filter_error=options.on_filter_error,
            skip_corrupt=options.ignore_corrupt_files,
            reader_types=reader_types,
            pushed=pushed,
        )
        plan = plan_dataset(table.dataset, self._where, plan_options)
        if self._where is not None and options.time_zone is None:
            _require_zone(self._where, plan, table)
        return plan

    def _plainly_meant(self, table: Table) -> StructType:
        """The schema without columns that the plan would take for something else.

        Those are partition columns that the user gave another type (the plan compares by the inferred one), and names
        with a dot that the first file does not have (the plan might find a field of a struct by them).
        """
        inferred = {field.name: field.dataType for field in table.partition_fields}
        partitions, stored = list(inferred), table.column_names
        kept = []
        for field in self.schema.fields:
            at = resolve(partitions, field.name, case_sensitive=self.options.case_sensitive)
            retyped = at is not None and inferred[partitions[at]] != field.dataType
            if not retyped and ("." not in field.name or field.name in stored):
                kept.append(field)
        return StructType(kept)


class PushingReader(BloomParquetReader):
    """Prunes by the filters of the query too."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take note of `filters` and give all of them back: pruning is by row group, Spark tests the rows."""
        self._filters = list(filters)
        return filters


def _kept(found: ScanPlan) -> Iterator[tuple[int, Any]]:
    by_path = {path: i for i, path in enumerate(found.table.paths)}
    return ((by_path[group.path], group) for group in found.kept_row_groups())


def _skipped(found: ScanPlan) -> list[FileInfo]:
    """The local files that a plan passes over, unless it is for their partition values."""
    files = found.dataset.files
    if not isinstance(found.dataset.storage, LocalStorage):
        return []
    kept = found.file_positions[np.unique(found.table.file[found.codes == KEPT])]
    excluded = set(found.excluded)
    return [files[i] for i in np.setdiff1d(np.arange(len(files)), kept).tolist() if files[i] not in excluded]


def _require_zone(where: Predicate, found: ScanPlan, table: Table) -> None:
    """OptionError where a timestamp of `where` means different instants in different zones."""
    for leaf in _leaves(where):
        values = leaf.values if isinstance(leaf, Membership) else (leaf.value,)
        if any(map(_names_no_zone, values)) and _holds_instants(leaf.column, found, table):
            raise OptionError(
                f"where compares the TIMESTAMP column {'.'.join(leaf.column)} with a time that names no zone; give the "
                "option timeZone (what spark.sql.session.timeZone is), or write the offset: "
                "TIMESTAMP '2026-01-31 12:00:00Z'"
            )


def _leaves(where: Predicate) -> Iterator[Comparison | Membership]:
    if isinstance(where, And | Or):
        for child in where.children:
            yield from _leaves(child)
    elif isinstance(where, Not):
        yield from _leaves(where.child)
    elif isinstance(where, Comparison | Membership):
        yield where


def _holds_instants(column: tuple[str, ...], found: ScanPlan, table: Table) -> bool:
    kinds = table.partition_types
    partition = find_partition(list(kinds), column[:1], case_sensitive=False)
    if partition is not None and str(kinds[partition]).startswith("timestamp"):
        return True
    for schema in found.table.schemas:
        leaf = find_leaf(schema, column, case_sensitive=False)
        if not isinstance(leaf, NoLeaf):
            annotation = leaf.node.annotation
            if leaf.node.physical_type in _INSTANTS:
                return True
            if annotation is not None and annotation.kind == "TIMESTAMP" and annotation.adjusted_to_utc:
                return True
    return False


def _reader_types(where: Predicate, schema: StructType) -> dict[Column, str]:
    """The types that the columns of `where` have in `schema`."""
    found: dict[Column, str] = {}
    for column in columns_of(where):
        kind: DataType | None = schema
        for name in column:
            fields = kind.fields if isinstance(kind, StructType) else []
            kind = next((field.dataType for field in fields if field.name == name), None)
        if kind is not None:
            found[column] = kind.simpleString()
    return found


def _names_no_zone(value: Any) -> bool:
    try:
        instants = {coerce(value, "timestamp", timezone=zone) for zone in ("UTC", "Asia/Tokyo")}
    except PlanError:  # not a timestamp: planning says so better
        return False
    return len(instants) > 1


def _warn() -> None:
    # Python shows a warning from one place once in a process.
    warnings.warn(
        f"bloomparquet reads every row group: on Spark {pyspark.__version__} a query's filters are no safe ground "
        "for skipping, because Spark mixes up the filters of different queries over one load. Give the load its "
        'predicate, .option("where", "id = 1"); or, for a load that serves one query only, .option("pushFilters", '
        '"on") with spark.sql.python.filterPushdown.enabled=true. .option("pushFilters", "off") is this, without the '
        "warning.",
        stacklevel=2,
    )
