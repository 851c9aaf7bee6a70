"""A Python data source over the live files of a table. The option ``where`` prunes and filters.

Filters of a query are not pushed: Spark would apply one query's filters to others over the same DataFrame
(:mod:`pyspark_bloomparquet.read.pushed_filters`). Spark filters the rows instead.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructField, StructType

from bloomparquet.errors import OptionError, UnsupportedError, did_you_mean, join_names, quoted
from bloomparquet.planning.options import PlanOptions
from bloomparquet.planning.planner import plan_dataset
from bloomparquet.query.predicate import to_sql
from bloomparquet.query.sql.parse import parse_where
from bloomparquet.storage.forks import lazy_property
from pyspark_bloomparquet.options.load import Options
from pyspark_bloomparquet.read.reader import BloomParquetReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    import bloomparquet as bp
    from bloomparquet.planning.plan import ScanPlan


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


class TableReader(BloomParquetReader):
    """The reader of a table: plans the live files."""

    def __init__(self, source: TableSource, schema: StructType) -> None:
        given = {name: source.options[name] for name in ("where", "caseSensitive") if name in source.options}
        options = Options.parse({"path": source.location, "pushFilters": "off", **given})
        # Not parsed: a session may have a zone that Python lacks, and need it for nothing.
        super().__init__(replace(options, time_zone=source.options.get("timeZone", "UTC")), schema)
        self._source = source

    def _plan(self) -> ScanPlan:
        options = PlanOptions(timezone=self.options.time_zone, case_sensitive=self.options.case_sensitive)
        return plan_dataset(self._source.dataset, self._where, options)


def load_table(
    spark: SparkSession,
    source: type[TableSource],
    where: bp.Where,
    columns: Sequence[str] | None,
    options: dict[str, str],
) -> DataFrame:
    """A DataFrame of the table that `options` name, with the session's time zone and rule for names."""
    predicate = parse_where(where)
    if predicate is not None:
        options["where"] = to_sql(predicate)
    if columns is not None:
        options["columns"] = json.dumps(list(columns))
    options["timeZone"] = str(spark.conf.get("spark.sql.session.timeZone"))
    options["caseSensitive"] = str(spark.conf.get("spark.sql.caseSensitive"))
    spark.dataSource.register(source)
    return spark.read.format(source.name()).options(**options).load()
