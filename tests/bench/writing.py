"""Adding, shrinking and writing filters, compared with rewriting the file with pyarrow or Spark.

Files are in the page cache of the operating system, and output is flushed to disk, but for that of Spark.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import bloomparquet as bp
from tests.bench.events import LOOKED_UP, ROW_GROUP, events, pyarrow_rewrite
from tests.bench.measure import Contender, Row, compared, take_turns
from tests.bench.session import directory, session

_REWRITE, _SPARK = "rewrite with pyarrow", "rewrite with Spark"
_PLAIN, _NATIVE, _OURS = "no filters", "Spark's own filters", "format bloomparquet, bloomColumns"


def writing(rounds: int, rows: int) -> Iterator[Row]:
    """Add filters, shrink filters, and write files with filters."""
    columns = list(LOOKED_UP)
    with directory() as home, session(home) as spark:
        table = events(rows)
        plain, large, new = (str(home / f"{name}.parquet") for name in ("plain", "large", "new"))
        pq.write_table(table, plain, row_group_size=ROW_GROUP)
        # Filters for four times the values that there are.
        oversized = {name: {"ndv": 4 * ROW_GROUP, "fpp": 1e-8} for name in LOOKED_UP}
        pq.write_table(table, large, row_group_size=ROW_GROUP, bloom_filter_options=oversized)

        yield from _compare(rounds, f"add to {_megabytes(plain)} MB", {_REWRITE: 4, _SPARK: 8}, {
            "bloomparquet add": lambda: bp.add_filters(plain, new, bloom=columns),
            _REWRITE: lambda: pyarrow_rewrite(plain, new),
            _SPARK: lambda: _write(spark.read.parquet(plain), _NATIVE, home),
        })  # fmt: skip
        assert bp.shrink_filters(large, new, dry_run=True)[0].action == "shrunk"
        yield from _compare(rounds, f"shrink {_megabytes(large)} MB", {_REWRITE: 20}, {
            "bloomparquet shrink": lambda: bp.shrink_filters(large, new),
            _REWRITE: lambda: pyarrow_rewrite(large, new),
        })  # fmt: skip
        yield from _compare(rounds, "write a table of Arrow", {"write_table": 1 / 1.25}, {
            "write_table with bloom": lambda: bp.write_table(table, new, bloom=columns, row_group_size=ROW_GROUP),
            "write_table": lambda: bp.write_table(table, new, row_group_size=ROW_GROUP),
        })  # fmt: skip
        frame = spark.read.parquet(plain).repartition(2).cache()
        frame.count()
        yield from _compare(rounds, "write a table of Spark", {_PLAIN: 1 / 1.25, _NATIVE: 1}, {
            kind: lambda kind=kind: _write(frame, kind, home) for kind in (_OURS, _PLAIN, _NATIVE)
        })  # fmt: skip


def _compare(rounds: int, case: str, least: dict[str, float], runs: dict[str, Callable[[], object]]) -> Iterator[Row]:
    """Compare the first of `runs` with the others."""
    timings = take_turns([Contender(name, lambda _, run=run: run()) for name, run in runs.items()], rounds)
    yield from compared("writing", case, timings, least)


def _write(frame: Any, kind: str, home: Path) -> None:
    writer = frame.write.mode("overwrite")
    if kind == _NATIVE:
        writer = writer.options(**{f"parquet.bloom.filter.enabled#{name}": "true" for name in LOOKED_UP})
    if kind == _OURS:
        writer = writer.option("bloomColumns", ",".join(LOOKED_UP))
    writer.format("bloomparquet" if kind == _OURS else "parquet").save(str(home / "by-spark"))


def _megabytes(path: str) -> str:
    return f"{os.path.getsize(path) / 1e6:,.0f}"
