"""Iceberg tables as pruned DataFrames."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark_bloomparquet.tables.source import TableSource, load_table

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession

    import bloomparquet as bp
    from bloomparquet.planning.dataset import PathLike

_STORAGE_PROPERTIES = ("s3.", "gcs.", "adls.", "client.", "hdfs.", "py-io-impl")
"""The prefixes of the properties by which pyiceberg opens files. Only properties with these prefixes are passed on."""


class IcebergSource(TableSource):
    """The data source of Iceberg tables. Options: `metadata`, the path of a metadata file; `snapshotId`; and
    `properties`, a JSON object."""

    @classmethod
    def name(cls) -> str:
        return "bloomparquet-iceberg"

    @property
    def location(self) -> str:
        return self.options["metadata"]

    def open(self) -> bp.Dataset:
        from pyiceberg.table import StaticTable

        import bloomparquet as bp

        table = StaticTable.from_metadata(self.location, json.loads(self.options["properties"]))
        snapshot_id = self.options.get("snapshotId")
        return bp.Dataset.from_iceberg(table, snapshot_id=None if snapshot_id is None else int(snapshot_id))


def read_iceberg(
    spark: SparkSession,
    table: Table | PathLike,
    snapshot_id: int | None = None,
    *,
    where: bp.Where = None,
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """The rows of an Iceberg table for which `where` is TRUE, without Iceberg's jars. Deleted rows are left out.

    `where` skips row groups by partition values, statistics and Bloom filters; conditions on the DataFrame filter rows,
    but skip nothing. The DataFrame stays at the version of the table that `table` is at this call. Driver and executors
    need this package and ``pyiceberg`` (``bloomparquet[iceberg]``).

    * `table`: a ``pyiceberg.table.Table``, with whose credentials driver and executors read the files, or the path of a
      metadata file (``….metadata.json``). Plans do not show the credentials.
    * `snapshot_id`: the snapshot to read, with the schema that it was written with; None for the current one.
    * `where`: as for :func:`bloomparquet.plan`, with the session's time zone and case rule.
    * `columns`: the columns to read. Name those that the query needs: Spark does not tell the source.

    Raises the errors of :meth:`bloomparquet.Dataset.from_iceberg`; those about live files and predicates when Spark
    plans the query.
    """
    from bloomparquet.tables.iceberg import open_metadata

    opened = open_metadata(table)
    properties = {key: value for key, value in opened.io.properties.items() if key.startswith(_STORAGE_PROPERTIES)}
    options = {"metadata": opened.metadata_location, "properties": json.dumps(properties)}
    if snapshot_id is not None:
        options["snapshotId"] = str(snapshot_id)
    return load_table(spark, IcebergSource, where, columns, options)
