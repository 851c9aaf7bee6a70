"""The data source ``bloomorc``, which reads and writes ORC files with the jar, and functions that attach the jar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark_bloomorc.source import DefaultSource
    from pyspark_bloomparquet import ScanSummary, attach, configure, jar_path, last_plan

__all__ = ["DefaultSource", "ScanSummary", "attach", "configure", "jar_path", "last_plan"]


def __getattr__(name: str) -> Any:
    if name == "DefaultSource":
        from pyspark_bloomorc.source import DefaultSource

        return DefaultSource
    if name in __all__:
        import pyspark_bloomparquet

        return getattr(pyspark_bloomparquet, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
