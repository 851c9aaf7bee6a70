"""The Python data source ``bloomparquet``, which Spark uses where the jar is not attached. It only reads.

Every Spark session that looks for data sources imports this module, so it imports the modules that read files lazily.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from bloomparquet.errors import UnsupportedError
from pyspark_bloomparquet.options.table import ORC, PARQUET, Source

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType

    from pyspark_bloomparquet.read.reader import BloomParquetReader


class DefaultSource(DataSource):
    """The Python data source of ``spark.read.format("bloomparquet")``, without the jar.

    ``docs/options.md`` has its options.
    """

    @classmethod
    def name(cls) -> str:
        return PARQUET

    def schema(self) -> StructType:
        """The schema that Spark's own reader infers. Spark calls this only if the user gives no schema."""
        from pyspark_bloomparquet.options.load import Options
        from pyspark_bloomparquet.read.listing import LoadListing

        return LoadListing(Options.parse(self.options)).schema()

    def reader(self, schema: StructType) -> BloomParquetReader:
        """A reader of the columns of `schema`."""
        from pyspark_bloomparquet.options.load import Options
        from pyspark_bloomparquet.read.reader import make_reader

        return make_reader(Options.parse(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        raise UnsupportedError(
            f'format("{PARQUET}") writes with the jar only, and nothing was written. Call '
            "pyspark_bloomparquet.attach(spark) and write again; or write with df.write.parquet(path) and then add the "
            "filters with pyspark_bloomparquet.add_filters(spark, path, bloom=[…])"
        )

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        raise needs_jar(PARQUET, "writes streams")

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        raise needs_jar(PARQUET, "reads streams")


def needs_jar(source: Source, action: str) -> UnsupportedError:
    """The error for an action, such as "reads files", that `source` supports with the jar only."""
    name = {PARQUET: "parquet", ORC: "orc"}[source]
    return UnsupportedError(
        f'format("{source}") {action} with the jar only; call pyspark_bloomparquet.attach(spark) first, or start Spark '
        f'with --jars "$(bloomparquet jar)". Without it, use Spark\'s own format("{name}")'
    )
