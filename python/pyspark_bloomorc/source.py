"""The data source that Spark finds under the name ``bloomorc`` where the jar is not attached: every use is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from pyspark_bloomparquet.formats import ORC
from pyspark_bloomparquet.source import needs_jar

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """``format("bloomorc")`` without the jar. Each method raises UnsupportedError, which says how to attach the jar."""

    @classmethod
    def name(cls) -> str:
        return ORC

    def schema(self) -> StructType:
        raise needs_jar(ORC, "reads files")

    def reader(self, schema: StructType) -> DataSourceReader:
        raise needs_jar(ORC, "reads files")

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        raise needs_jar(ORC, "writes files")

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        raise needs_jar(ORC, "reads streams")

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        raise needs_jar(ORC, "writes streams")
