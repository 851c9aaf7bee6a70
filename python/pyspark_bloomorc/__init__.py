"""The data source that Spark finds under the name ``bloomorc`` where the jar is not attached: every use is an error.

Spark imports every installed package whose name begins with ``pyspark_``, and asks it for ``DefaultSource``.
"""

from __future__ import annotations

from typing import Any, NoReturn

from pyspark.sql.datasource import DataSource

from pyspark_bloomparquet.options.table import ORC
from pyspark_bloomparquet.source import needs_jar


class DefaultSource(DataSource):
    """``format("bloomorc")`` without the jar. Each method raises UnsupportedError, which says how to attach the jar."""

    @classmethod
    def name(cls) -> str:
        return ORC

    def schema(self) -> NoReturn:
        raise needs_jar(ORC, "reads files")

    def reader(self, schema: Any) -> NoReturn:
        raise needs_jar(ORC, "reads files")

    def writer(self, schema: Any, overwrite: bool) -> NoReturn:
        raise needs_jar(ORC, "writes files")

    def streamReader(self, schema: Any) -> NoReturn:
        raise needs_jar(ORC, "reads streams")

    def streamWriter(self, schema: Any, overwrite: bool) -> NoReturn:
        raise needs_jar(ORC, "writes streams")
