"""bloomparquet for Spark: the data source, the jar, and functions that work on all files of a table.

:func:`attach` adds the jar to a session. :func:`add_filters`, :func:`shrink_filters`, :func:`build_index` and
:func:`refresh_index` work on Spark's executors. :func:`read_delta` and :func:`read_iceberg` read tables of Delta Lake
and Iceberg without their jars.

Every Spark session imports this package to look for data sources, and the jar's planner process imports it without
Spark. So each name is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark_bloomparquet.indexing.build import build_index, refresh_index
    from pyspark_bloomparquet.jar.check import SetupCheck, SetupReport, check
    from pyspark_bloomparquet.jar.session import attach, configure, explain_pruning, jar_path, last_plan
    from pyspark_bloomparquet.jar.summary import ScanExplanation, ScanSummary
    from pyspark_bloomparquet.retrofit.retrofit import add_filters, shrink_filters
    from pyspark_bloomparquet.source import DefaultSource
    from pyspark_bloomparquet.tables.delta import read_delta
    from pyspark_bloomparquet.tables.iceberg import read_iceberg

    __version__: str

__all__ = [
    "DefaultSource",
    "ScanExplanation",
    "ScanSummary",
    "SetupCheck",
    "SetupReport",
    "add_filters",
    "attach",
    "build_index",
    "check",
    "configure",
    "explain_pruning",
    "jar_path",
    "last_plan",
    "read_delta",
    "read_iceberg",
    "refresh_index",
    "shrink_filters",
]


_HOMES = {
    "DefaultSource": "source",
    "SetupCheck": "jar.check",
    "SetupReport": "jar.check",
    "add_filters": "retrofit.retrofit",
    "build_index": "indexing.build",
    "check": "jar.check",
    "read_delta": "tables.delta",
    "read_iceberg": "tables.iceberg",
    "refresh_index": "indexing.build",
    "shrink_filters": "retrofit.retrofit",
}
"""The modules of names that are not in ``jar.session``."""


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("bloomparquet").__version__
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'jar.session')}"), name)
