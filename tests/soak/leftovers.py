"""The leftovers of a run: processes and files. Only Spark may leave some, for processes that were killed."""

from __future__ import annotations

import re
import time
from pathlib import Path

from bloomparquet.planning.index.manifest import MANIFEST, SEGMENT_SUFFIX
from tests.soak.data import Tables
from tests.soak.processes import running

_SECONDS_TO_END = 60
_DATA = re.compile(r"(day=\d/)?[^._/][^/]*\.(parquet|orc)")
_WRITTEN = re.compile(r"[\w-]+/(_SUCCESS|\.?_SUCCESS\.crc|\.?part-[^/]*\.(parquet|orc)(\.crc)?)")
_INDEX = "_bloomparquet_index"
_OF_SPARK = re.compile(
    # Directories of the block managers and native libraries of JVMs that were killed, and the JVMs' own statistics.
    r"(spark-|blockmgr-|hsperfdata_|pyspark-|liblz4|libzstd|snappy|netty|libnetty|jansi|liblz4-java|artifacts)"
)


def processes(mark: str) -> list[str]:
    """The processes that have not ended a minute after everything was stopped."""
    deadline = time.monotonic() + _SECONDS_TO_END
    while (left := running(mark)) and time.monotonic() < deadline:
        time.sleep(1)
    return [f"{process.role} {process.pid}: {process.command[:200]}" for process in left]


def files(home: Path, tables: Tables) -> list[str]:
    """Files that belong to nothing: in the tables, their indexes, the planner's cache, and the temporary directory."""
    left: list[Path] = []
    for table in (tables.events, tables.events_orc, tables.changing):
        left += [path for path in _below(table) if not _DATA.fullmatch(_relative(path, table)) and not _indexed(path)]
        left += _unnamed_segments(table / _INDEX)
    left += [path for path in _below(tables.written) if not _WRITTEN.fullmatch(_relative(path, tables.written))]
    left += [path for path in tables.root.iterdir() if path.name.startswith("restored-")]
    left += [path for path in _below(home / "cache") if ".unfinished" in path.name]
    left += [path for path in (home / "tmp").iterdir() if not _OF_SPARK.match(path.name)]
    return sorted(str(path.relative_to(home)) for path in left)


def _below(directory: Path) -> list[Path]:
    """All files below a directory, and its directories that hold none."""
    return [path for path in directory.rglob("*") if path.is_file() or not any(path.iterdir())]


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def _indexed(path: Path) -> bool:
    return path.parent.name == _INDEX and (path.name == MANIFEST or path.name.endswith(SEGMENT_SUFFIX))


def _unnamed_segments(index: Path) -> list[Path]:
    """Segments that the manifest does not name. No build runs, so nobody needs them."""
    if not index.is_dir():
        return []
    manifest = (index / MANIFEST).read_text() if (index / MANIFEST).exists() else ""
    return [path for path in index.glob(f"*{SEGMENT_SUFFIX}") if path.name.removesuffix(SEGMENT_SUFFIX) not in manifest]
