"""Delta Lake tables as pruned DataFrames."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark_bloomparquet.tables.source import TableSource, load_table

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

    import bloomparquet as bp
    from bloomparquet.planning.dataset import PathLike


class DeltaSource(TableSource):
    """The data source of Delta Lake tables. Options: `path`, `version`, and `storageOptions`, a JSON object."""

    @classmethod
    def name(cls) -> str:
        return "bloomparquet-delta"

    @property
    def location(self) -> str:
        return self.options["path"]

    def open(self) -> bp.Dataset:
        import bloomparquet as bp

        storage_options = json.loads(self.options["storageOptions"]) if "storageOptions" in self.options else None
        return bp.Dataset.from_delta(
            self.location, version=int(self.options["version"]), storage_options=storage_options
        )


def read_delta(
    spark: SparkSession,
    path: PathLike | DeltaTable,
    version: int | None = None,
    *,
    where: bp.Where = None,
    columns: Sequence[str] | None = None,
    storage_options: dict[str, str] | None = None,
) -> DataFrame:
    """The rows of a Delta Lake table for which `where` is TRUE, without Delta's jars. Deleted rows are left out.

    `where` skips row groups by partition values, statistics and Bloom filters; conditions on the DataFrame filter rows,
    but skip nothing. The DataFrame stays at one version of the table: `version`, or the newest one at this call. The
    driver and the executors need this package, and the driver ``deltalake`` (``bloomparquet[delta]``).

    * `path`: the directory or URL of the table, which driver and executors find under the same name, or an open
      ``deltalake.DeltaTable``.
    * `where`: as for :func:`bloomparquet.plan`, with the session's time zone and case rule.
    * `columns`: the columns to read. Name those that the query needs: Spark does not tell the source.
    * `storage_options`: how ``deltalake`` opens the log.

    Raises the errors of :meth:`bloomparquet.Dataset.from_delta`; those about live files and predicates when Spark plans
    the query.
    """
    from bloomparquet.tables.delta import open_log

    table = open_log(path, version, storage_options)
    options = {"path": table.table_uri, "version": str(table.version())}
    if storage_options:
        options["storageOptions"] = json.dumps(storage_options)
    return load_table(spark, DeltaSource, where, columns, options)
