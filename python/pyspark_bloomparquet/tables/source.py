"""A Python data source over the live files of a table. The option ``where`` prunes and filters.

Filters of a query are not pushed: Spark would apply one query's filters to others over the same DataFrame
(:mod:`pyspark_bloomparquet.read.pushed_filters`). Spark filters the rows instead.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructField, StructType

from bloomparquet.errors import OptionError, UnsupportedError, did_you_mean, join_names, quoted
from bloomparquet.storage.forks import lazy_property

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    import bloomparquet as bp
    from bloomparquet.planning.dataset import RowDeletes
    from bloomparquet.planning.options import PlanOptions
    from bloomparquet.planning.plan import ScanPlan
    from bloomparquet.planning.table_columns import TableColumns
    from bloomparquet.storage.files import Storage
    from pyspark_bloomparquet.read.splits import Split

_MAX_PARTITION_BYTES = 128 << 20  # Spark's defaults for its own files
_OPEN_COST = 4 << 20


class TableSource(DataSource):
    """Base of the data sources of tables.

    Options: `where`, `columns` (a JSON list), `timeZone`, `caseSensitive`, and more in subclasses.
    """

    @property
    def location(self) -> str:
        """The directory or URL of the table."""
        raise NotImplementedError

    def open(self) -> bp.Dataset:
        """The version of the table that the options name."""
        raise NotImplementedError

    @lazy_property
    def dataset(self) -> bp.Dataset:
        return self.open()

    def schema(self) -> StructType:
        """The columns of the table, or the option `columns`."""
        from pyspark.sql.pandas.types import from_arrow_type

        columns = self.dataset.columns
        assert columns is not None
        names = json.loads(self.options["columns"]) if "columns" in self.options else columns.schema.names
        fields = []
        for name in names:
            if name not in columns.schema.names:
                raise OptionError(
                    f"the table has no column {quoted(name)}{did_you_mean(name, columns.schema.names)}; the columns "
                    f"are {join_names(columns.schema.names)}"
                )
            kind = columns.schema.field(name).type
            try:
                fields.append(StructField(name, from_arrow_type(kind, prefer_timestamp_ntz=True)))
            except Exception as error:
                raise UnsupportedError(
                    f"column {name} is of type {kind}, which Spark takes from no Python data source: {error}; name "
                    "the other columns with columns="
                ) from error
        return StructType(fields)

    def reader(self, schema: StructType) -> TableReader:
        return TableReader(self, schema)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "dataset"}


@dataclass(frozen=True)
class TableSplit(InputPartition):
    """The part of a scan that one task reads: a split of row groups, and the facts of the table about their files.

    `deletes` and `fallbacks` have one item per file, as in :class:`bloomparquet.Dataset`.
    """

    split: Split
    storage: Storage
    location: str
    partition_names: tuple[str, ...]
    columns: TableColumns
    deletes: tuple[RowDeletes | None, ...]
    fallbacks: tuple[tuple[tuple[str, Any], ...], ...]


class TableReader(DataSourceReader):
    """The reader of a table: plans on the driver, reads on the executors."""

    def __init__(self, source: TableSource, schema: StructType) -> None:
        self._source, self._schema = source, schema

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the row groups to read, as splits. Spark calls this on the driver, once for each query plan."""
        from bloomparquet.planning.plan import skipped_local_files
        from bloomparquet.planning.planner import plan_dataset
        from pyspark_bloomparquet.read.reader import pieces_of
        from pyspark_bloomparquet.read.splits import make_splits

        dataset, columns = self._source.dataset, self._source.dataset.columns
        assert columns is not None
        plan = plan_dataset(dataset, self._source.options.get("where"), self._options())
        for error in plan.unreadable.values():
            raise error
        splits = make_splits(
            pieces_of(plan),
            dict(zip(dataset.partition_names, dataset.partition_types or (), strict=True)),
            max_partition_bytes=_MAX_PARTITION_BYTES,
            open_cost=_OPEN_COST,
            min_partitions=os.cpu_count() or 1,
            where=plan.where,
            skipped=skipped_local_files(plan),
        )
        deletes = dict(zip(dataset.files, dataset.deletes, strict=False))
        fallbacks = dict(zip(dataset.files, dataset.fallbacks, strict=False))
        return [
            TableSplit(
                split, dataset.storage, self._source.location, dataset.partition_names, columns,
                tuple(deletes.get(part.file) for part in split.files),
                tuple(fallbacks.get(part.file, ()) for part in split.files),
            )
            for split in splits
        ]  # fmt: skip

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one split. Spark calls this on an executor."""
        if not isinstance(partition, TableSplit):  # Spark passes a placeholder if there are no splits
            return
        from bloomparquet.reading.scan import read_plan
        from bloomparquet.storage.staleness import require_unchanged
        from pyspark_bloomparquet.read.arrow_to_spark import to_spark_batch

        split = partition.split
        if split.files:
            plan = self._plan_of(partition)
            names = [field.name for field in self._schema.fields]
            for batch in read_plan(plan, names, self._options(), for_spark=True):
                yield to_spark_batch(batch, self._schema, {}, case_sensitive=True, path=partition.location)
        if split.skipped is not None:
            for file in split.skipped.files():
                require_unchanged(partition.storage, split.comparable(file))

    def _plan_of(self, partition: TableSplit) -> ScanPlan:
        """The plan of the row groups of one split, for the executor that reads them."""
        from bloomparquet.planning.dataset import Dataset
        from bloomparquet.planning.evidence.formats import FileFormat
        from bloomparquet.planning.planner import plan_row_groups

        split = partition.split
        dataset = Dataset(
            partition.storage,
            tuple(split.comparable(part.file) for part in split.files),
            partition.partition_names,
            tuple(part.values for part in split.files),
            tuple(split.partition_types.values()),
            FileFormat.PARQUET,
            None,
            partition.columns,
            partition.deletes,
            fallbacks=partition.fallbacks,
        )
        return plan_row_groups(dataset, split.where, [part.row_groups for part in split.files], self._options())

    def _options(self) -> PlanOptions:
        from bloomparquet.planning.options import PlanOptions

        options = self._source.options
        return PlanOptions(
            timezone=options.get("timeZone", "UTC"), case_sensitive=options.get("caseSensitive", "false") == "true"
        )


def load_table(
    spark: SparkSession,
    source: type[TableSource],
    where: bp.Where,
    columns: Sequence[str] | None,
    options: dict[str, str],
) -> DataFrame:
    """A DataFrame of the table that `options` name, with the session's time zone and rule for names."""
    from bloomparquet.query.predicate import to_sql
    from bloomparquet.query.sql.parse import parse_where

    predicate = parse_where(where)
    if predicate is not None:
        options["where"] = to_sql(predicate)
    if columns is not None:
        options["columns"] = json.dumps(list(columns))
    options["timeZone"] = str(spark.conf.get("spark.sql.session.timeZone"))
    options["caseSensitive"] = str(spark.conf.get("spark.sql.caseSensitive"))
    spark.dataSource.register(source)
    return spark.read.format(source.name()).options(**options).load()
