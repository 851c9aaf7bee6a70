"""bloomparquet for Spark: the data source, the jar, and functions that work on all files of a table.

:func:`attach` adds the jar to a session. :func:`add_filters`, :func:`shrink_filters`, :func:`build_index` and
:func:`refresh_index` work on Spark's executors. :func:`read_delta` and :func:`read_iceberg` read tables of Delta Lake
and Iceberg without their jars.

Every Spark session imports this package to look for data sources, and the jar's planner process imports it without
Spark. So each name is imported when it is first used.
"""

from __future__ import annotations

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


def __getattr__(name: str) -> Any:
    if name == "__version__":
        import bloomparquet

        return bloomparquet.__version__
    if name == "DefaultSource":
        from pyspark_bloomparquet.source import DefaultSource

        return DefaultSource
    if name in ("add_filters", "shrink_filters"):
        from pyspark_bloomparquet.retrofit import retrofit

        return getattr(retrofit, name)
    if name in ("build_index", "refresh_index"):
        from pyspark_bloomparquet.indexing import build

        return getattr(build, name)
    if name == "read_delta":
        from pyspark_bloomparquet.tables.delta import read_delta

        return read_delta
    if name == "read_iceberg":
        from pyspark_bloomparquet.tables.iceberg import read_iceberg

        return read_iceberg
    if name in ("SetupCheck", "SetupReport", "check"):
        from pyspark_bloomparquet.jar import check

        return getattr(check, name)
    if name in __all__:
        from pyspark_bloomparquet.jar import session

        return getattr(session, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
