"""The data source that Spark finds under the name ``bloomorc``."""

from __future__ import annotations

from pyspark_bloomparquet.formats import ORC
from pyspark_bloomparquet.source import BloomSource


class DefaultSource(BloomSource):
    """``spark.read.format("bloomorc").load(path)``."""

    source = ORC
