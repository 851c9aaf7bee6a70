"""The data source that Spark finds under the name ``bloomparquet``: checks options, infers the schema, makes readers.

Imported by every Spark session that looks for data sources, so what reads files is imported when files are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pyspark_bloomparquet.reader import BloomParquetReader


class DefaultSource(DataSource):
    """``spark.read.format("bloomparquet").load(path)``; its options are in :mod:`pyspark_bloomparquet.options`."""

    @classmethod
    def name(cls) -> str:
        return "bloomparquet"

    def schema(self) -> StructType:
        """The schema that ``spark.read.parquet`` would infer. Not asked for where the user gives one."""
        from pyspark_bloomparquet.options import Options
        from pyspark_bloomparquet.table import Table

        return Table(Options.parse(self.options)).schema()

    def reader(self, schema: StructType) -> BloomParquetReader:
        """The reader of exactly the columns of `schema`."""
        from pyspark_bloomparquet.options import Options
        from pyspark_bloomparquet.reader import make_reader

        return make_reader(Options.parse(self.options), schema)
