"""The data source that Spark finds under the name ``bloomparquet``: it checks the options, infers the schema and makes the reader.

Imported by every Spark session that looks for data sources, so what reads files is imported when files are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pyspark_bloomparquet.reader import BloomParquetReader


class DefaultSource(DataSource):
    """``spark.read.format("bloomparquet").load(path)``. The options are those of :mod:`pyspark_bloomparquet.options`."""

    @classmethod
    def name(cls) -> str:
        return "bloomparquet"

    def schema(self) -> StructType:
        """The schema that ``spark.read.parquet`` would infer. Not called where the user gives one: that one is the projection."""
        from pyspark_bloomparquet.options import Options
        from pyspark_bloomparquet.table import Table

        return Table(Options.parse(self.options)).schema()

    def reader(self, schema: StructType) -> BloomParquetReader:
        from pyspark_bloomparquet.options import Options
        from pyspark_bloomparquet.reader import make_reader

        return make_reader(Options.parse(self.options), schema)
