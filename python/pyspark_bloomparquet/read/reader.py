"""The readers of ``format("bloomparquet")`` without the jar: plan on the driver, read on the executors.

One reader has the method ``pushFilters``, the other does not; the option ``pushFilters`` chooses. There are two readers
because Spark refuses a query if the reader has that method while ``spark.sql.python.filterPushdown.enabled`` is false,
and because on Spark 4.1 to 4.3 one query's filters would apply to other queries over the same DataFrame or view
(:mod:`pyspark_bloomparquet.read.pushed_filters`).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from bloomparquet.errors import EncryptionError, OptionError, PlanError, UnsupportedError
from bloomparquet.planning.index.lookup import IndexDirectory, open_directory
from bloomparquet.planning.options import PlanOptions
from bloomparquet.planning.planner import plan_dataset
from bloomparquet.query.elements import ElementIn
from bloomparquet.query.literals import coerce
from bloomparquet.query.normal_form import to_provable
from bloomparquet.query.predicate import Comparison, Leaf, Membership, Predicate, columns, leaves
from bloomparquet.query.resolve import NoLeaf, find_leaf_of, find_partition
from bloomparquet.query.sql.parse import parse_where
from pyspark_bloomparquet.options.key_provider import invalidate
from pyspark_bloomparquet.read.arrow_to_spark import arrow_schema
from pyspark_bloomparquet.read.listing import LoadListing
from pyspark_bloomparquet.read.pushed_filters import CAN_PUSH, filters_to_predicate, find_field
from pyspark_bloomparquet.read.spark_schema import resolve
from pyspark_bloomparquet.read.splits import Split, make_splits

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter

    from bloomparquet.planning.plan import ScanPlan
    from bloomparquet.query.predicate import Column
    from pyspark_bloomparquet.options.load import Options

_INSTEAD = 'Attach the jar (pyspark_bloomparquet.attach), or give the load its predicate: .option("where", "id = 1").'


def make_reader(options: Options, schema: StructType) -> BloomParquetReader:
    """The reader of one load.

    UnsupportedError if Spark takes a type of `schema` from no Python data source, or if pushFilters=on and Spark pushes
    no filters.
    """
    try:
        arrow_schema(schema)
    except Exception as error:
        raise UnsupportedError(
            f"the schema has a type that Spark does not take from a Python data source: {error}; "
            "give a schema without the column"
        ) from error
    if options.push_filters != "on":
        return BloomParquetReader(options, schema)
    if not CAN_PUSH:
        raise UnsupportedError(
            f"pushFilters=on needs Spark 4.1 or newer: Spark {pyspark.__version__} pushes no filters to Python data "
            f"sources. {_INSTEAD}"
        )
    return PushingReader(options, schema)


class BloomParquetReader(DataSourceReader):
    """The reader that skips row groups by the load's `where`, not by a query's filters.

    `schema` is the inferred schema or the user's.
    """

    def __init__(self, options: Options, schema: StructType) -> None:
        self.options = options
        self.schema = schema
        self._where = parse_where(options.where)
        self._filters: list[Filter] = []

    def __getstate__(self) -> dict[str, Any]:
        # Executors do not need the filters: Spark applies them to the rows.
        return {**self.__dict__, "_filters": []}

    def partitions(self) -> list[InputPartition]:
        """Plan the row groups to read, as splits. Spark calls this on the driver, once for each query plan."""
        plan, options = self._plan(), self.options
        if any(isinstance(error, EncryptionError) for error in plan.errors):
            invalidate(options.key_provider)
        for error in plan.unreadable.values():  # their rows may match, and cannot be read
            raise error
        if options.push_filters == "auto" and self._where is None and plan.total > 1:
            _warn_that_nothing_is_skipped()
        return [
            *make_splits(
                plan,
                max_partition_bytes=options.max_partition_bytes,
                open_cost=options.open_cost_in_bytes,
                min_partitions=options.min_partition_num or os.cpu_count() or 1,
            )
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one split. Spark calls this on an executor."""
        if not isinstance(partition, Split):  # Spark passes a placeholder if there are no splits
            return iter(())
        from pyspark_bloomparquet.read.tasks import read_split

        return read_split(partition, self.schema, self.options)

    def _plan(self) -> ScanPlan:
        options, listing = self.options, LoadListing(self.options)
        pushed = filters_to_predicate(self._filters, self._prunable_schema(listing)) if self._filters else None
        # Values of pushed filters have Spark's types. Where a file's type differs, the planner keeps its row groups.
        reader_types = {} if pushed is None else _reader_types(pushed, self.schema)
        index: str | IndexDirectory = options.index
        if options.index not in ("auto", "off"):
            index = open_directory(options.index, listing.dataset.storage, is_url=False)
        plan_options = PlanOptions(
            timezone=options.time_zone,
            case_sensitive=options.case_sensitive,
            on_filter_error=options.on_filter_error,
            skip_corrupt=options.ignore_corrupt_files,
            reader_types=reader_types,
            pushed=pushed,
            index=index,
        )
        plan = plan_dataset(listing.dataset, self._where, plan_options)
        if self._where is not None and options.time_zone is None:
            _require_zone(self._where, plan, listing)
        return plan

    def _prunable_schema(self, listing: LoadListing) -> StructType:
        """The schema without the columns that the planner would misinterpret.

        The planner compares a partition column by its inferred type, not by the user's. It may take a name with a dot
        for a field of a struct, if the first file has no column of that name.
        """
        inferred = {field.name: field.dataType for field in listing.partition_fields}
        kept = []
        for field in self.schema.fields:
            partition = resolve(inferred, field.name, case_sensitive=self.options.case_sensitive)
            is_retyped = partition is not None and inferred[partition] != field.dataType
            if not is_retyped and ("." not in field.name or field.name in listing.column_names):
                kept.append(field)
        return StructType(kept)


class PushingReader(BloomParquetReader):
    """The reader that skips row groups by the query's filters too."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Keep `filters` for the plan, and return all of them, so that Spark applies them to the rows."""
        self._filters = list(filters)
        return filters


def _require_zone(where: Predicate, plan: ScanPlan, listing: LoadListing) -> None:
    """OptionError if `where` compares a TIMESTAMP column with a time without a zone."""
    for leaf in (part for each in leaves(where) for part in leaves(to_provable(each))):
        if not isinstance(leaf, Comparison | Membership | ElementIn):
            continue
        values = (leaf.value,) if isinstance(leaf, Comparison) else leaf.values
        if any(map(_lacks_zone, values)) and _is_timestamp(leaf, plan, listing):
            raise OptionError(
                f"where compares the TIMESTAMP column {'.'.join(leaf.column)} with a time without a zone; set the "
                "option timeZone to the value of spark.sql.session.timeZone, or write the offset: "
                "TIMESTAMP '2026-01-31 12:00:00Z'"
            )


def _is_timestamp(predicate: Leaf, plan: ScanPlan, listing: LoadListing) -> bool:
    kinds = listing.partition_types
    partition = find_partition(list(kinds), predicate.column[:1], case_sensitive=False)
    if partition is not None and str(kinds[partition]).startswith("timestamp"):
        return True
    for schema in plan.table.schemas:
        leaf = find_leaf_of(schema, predicate, case_sensitive=False)
        if not isinstance(leaf, NoLeaf):
            annotation = leaf.node.annotation
            is_instant = annotation is not None and annotation.kind == "TIMESTAMP" and annotation.adjusted_to_utc
            if is_instant or leaf.node.physical_type == "INT96":
                return True
    return False


def _reader_types(where: Predicate, schema: StructType) -> dict[Column, str]:
    """The types of the columns of `where` in `schema`."""
    fields = {column: find_field(schema, column) for column in columns(where)}
    return {column: field.dataType.simpleString() for column, field in fields.items() if field is not None}


def _lacks_zone(value: Any) -> bool:
    try:
        instants = {coerce(value, "timestamp", timezone=zone) for zone in ("UTC", "Asia/Tokyo")}
    except PlanError:  # not a timestamp; the planner's error says so
        return False
    return len(instants) > 1


def _warn_that_nothing_is_skipped() -> None:
    if CAN_PUSH:
        reason = "mixes up the filters of different queries over one load, so a query's filters cannot safely skip any"
        instead = (
            f'{_INSTEAD} For a load that serves one query only, set .option("pushFilters", "on") and '
            "spark.sql.python.filterPushdown.enabled=true."
        )
    else:
        reason = "pushes no filters to Python data sources"
        instead = _INSTEAD
    # Python shows a warning once per process for each line of code.
    warnings.warn(
        f"bloomparquet reads every row group: Spark {pyspark.__version__} {reason}. {instead} "
        'To silence this warning, set .option("pushFilters", "off").',
        stacklevel=2,
    )
