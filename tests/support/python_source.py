"""The Python data source under a name of its own, so that a session with the jar has both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark_bloomparquet import DefaultSource
from tests.support.scenarios import PYTHON

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Register it as ``bloomparquet_python``."""

    class PythonSource(DefaultSource):  # Spark pickles a local class by value
        @classmethod
        def name(cls) -> str:
            return PYTHON

    spark.dataSource.register(PythonSource)
