"""The data source that Spark finds under the name ``bloomparquet``, and what ``bloomorc`` shares with it: checks
options, infers the schema, makes readers and writers.

Imported by every Spark session that looks for data sources, so what reads and writes files is imported when files are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.datasource import DataSource

from pyspark_bloomparquet.formats import PARQUET, Source

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pyspark_bloomparquet.reader import BloomParquetReader
    from pyspark_bloomparquet.writer import BloomParquetWriter


class BloomSource(DataSource):
    """A data source of one format; its options are in :mod:`pyspark_bloomparquet.options`."""

    source: ClassVar[Source]

    @classmethod
    def name(cls) -> str:
        return cls.source

    def schema(self) -> StructType:
        """The schema that Spark's own reader would infer. Not asked for where the user gives one."""
        from pyspark_bloomparquet.options import Options
        from pyspark_bloomparquet.table import Table

        return Table(Options.parse(self.options, self.source)).schema()

    def reader(self, schema: StructType) -> BloomParquetReader:
        """The reader of exactly the columns of `schema`."""
        from pyspark_bloomparquet.options import Options
        from pyspark_bloomparquet.reader import make_reader

        return make_reader(Options.parse(self.options, self.source), schema)

    def writer(self, schema: StructType, overwrite: bool) -> BloomParquetWriter:
        """The writer of a DataFrame of `schema`, in mode ``append`` or ``overwrite``: Spark asks for no other."""
        from pyspark_bloomparquet.write_options import parse
        from pyspark_bloomparquet.writer import make_writer

        return make_writer(parse(self.options, self.source), schema, overwrite)


class DefaultSource(BloomSource):
    """``spark.read.format("bloomparquet").load(path)``."""

    source = PARQUET
