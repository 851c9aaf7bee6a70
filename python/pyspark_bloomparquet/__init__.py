"""``spark.read.format("bloomparquet")`` without a jar: Spark finds :class:`DefaultSource` in this module by its name.

Every Spark session imports this to see which data sources there are, so nothing heavy may be imported here.
"""

from __future__ import annotations

from pyspark_bloomparquet.source import DefaultSource

__all__ = ["DefaultSource"]
