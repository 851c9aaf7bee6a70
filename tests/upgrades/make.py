"""``python -m tests.upgrades.make``: writes the files of ``last``, as the release that is checked out writes them.

Run it when a version is released. The next release's tests then read what this one wrote.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs
from pyarrow import orc

import bloomparquet as bp
from tests.support.disk_cache import cache_files, restart, use_disk
from tests.support.files import write

LAST = Path(__file__).parent / "last"
TIME = 1_790_000_000 * 10**9
COLUMNS = {"parquet": ["id", "name", "lower(name)", "day"], "orc": None}
QUERY = "id = 103 AND name = 'User 103'"


def rows(first: int) -> dict[str, Any]:
    ids = list(range(first, first + 120, 2))
    return {"id": ids, "name": [f"User {each + each % 4 // 2}" for each in ids], "day": [each / 7 for each in ids]}


def restore_times(root: Path) -> None:
    """Give the data below `root` the times that the indexes name."""
    for path in (*root.glob("parquet/*.parquet"), *root.glob("orc/*.orc")):
        os.utime(path, ns=(TIME, TIME))


def storage(root: Path) -> pa.fs.FileSystem:
    """The data below `root`, without the inodes and change times of files: a checkout cannot restore them."""
    return pa.fs.SubTreeFileSystem(str(root), pa.fs.LocalFileSystem())


def build_indexes(root: Path, to: Path) -> None:
    for kind, columns in COLUMNS.items():
        bp.build_index(kind, columns, to / f"{kind}-index", filesystem=storage(root))


def make() -> None:
    shutil.rmtree(LAST, ignore_errors=True)
    for i in range(3):
        write(LAST / "parquet" / f"{i}.parquet", rows(i), ["id", "name"][: 2 - i % 2], rows_per_group=20)
    (LAST / "orc").mkdir()
    filters: dict[str, Any] = {"bloom_filter_columns": [0, 1], "bloom_filter_fpp": 0.05, "row_index_stride": 1000}
    orc.write_table(pa.table(rows(0)), LAST / "orc" / "0.orc", **filters)
    restore_times(LAST)
    build_indexes(LAST, LAST)
    with tempfile.TemporaryDirectory() as home:
        use_disk(Path(home))
        bp.plan(LAST / "parquet", QUERY, index="off")
        restart()
        use_disk(None)
        (segment,) = cache_files(Path(home))
        shutil.copy(segment, LAST / "cache.columns")
        request = json.dumps(jar_request(Path(home)), indent=1)
    (LAST / "request.json").write_text(request + "\n", encoding="utf-8")


def jar_request(home: Path) -> dict[str, Any]:
    """The request of the jar for a plan of QUERY."""
    from pyspark.sql import SparkSession

    from pyspark_bloomparquet import attach
    from pyspark_bloomparquet.jar.protocol import read_frame

    python = home / "python"
    python.write_text(f'#!/bin/sh\ntee {home}/frames | {sys.executable} "$@"\n')
    python.chmod(0o755)
    settings = {"spark.bloomparquet.python": str(python), "spark.ui.enabled": "false"}
    spark = attach(SparkSession.builder.master("local[1]").config(map=settings).getOrCreate())
    spark.read.parquet(str(LAST / "parquet")).where(QUERY).collect()
    spark.stop()
    with open(home / "frames", "rb") as frames:
        while frame := read_frame(frames):
            if "predicate" in frame[0]:
                frame[0]["options"].pop("cacheDirectory", None)
                return frame[0]
    raise LookupError("the jar has asked for no plan")


if __name__ == "__main__":
    make()
