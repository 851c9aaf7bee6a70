"""Adding, shrinking and writing filters, compared with rewriting the file by pyarrow. All output is flushed to disk."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import bloomparquet as bp
from tests.bench.measure import Contender, Row, compared, take_turns

_LOOKED_UP = ["user_id", "url"]
_ROW_GROUP = 250_000


def writing(rounds: int, rows: int) -> Iterator[Row]:
    """Filters on two of ten columns, random integers and URLs."""
    with tempfile.TemporaryDirectory() as home:
        table = _events(rows)
        plain, large, new = (str(Path(home) / f"{name}.parquet") for name in ("plain", "large", "new"))
        pq.write_table(table, plain, row_group_size=_ROW_GROUP)
        # Filters for four times the values that there are.
        oversized = {name: {"ndv": 4 * _ROW_GROUP, "fpp": 1e-8} for name in _LOOKED_UP}
        pq.write_table(table, large, row_group_size=_ROW_GROUP, bloom_filter_options=oversized)
        yield from _compare(rounds, f"add to {os.path.getsize(plain) >> 20:,} MiB", 4, {
            "bloomparquet add": lambda: bp.add_filters(plain, new, bloom=_LOOKED_UP),
            "rewrite with pyarrow": lambda: _rewrite(plain, new),
        })  # fmt: skip
        assert bp.shrink_filters(large, new, dry_run=True)[0].action == "shrunk"
        yield from _compare(rounds, f"shrink {os.path.getsize(large) >> 20:,} MiB", 20, {
            "bloomparquet shrink": lambda: bp.shrink_filters(large, new),
            "rewrite with pyarrow": lambda: _rewrite(large, new),
        })  # fmt: skip
        yield from _compare(rounds, "write a table of Arrow", 1 / 1.25, {
            "write_table with bloom": lambda: bp.write_table(table, new, bloom=_LOOKED_UP, row_group_size=_ROW_GROUP),
            "write_table": lambda: bp.write_table(table, new, row_group_size=_ROW_GROUP),
        })  # fmt: skip


def _compare(rounds: int, case: str, least: float, runs: dict[str, Callable[[], object]]) -> Iterator[Row]:
    """Compare the first of `runs` with the second, than which it should be `least` times as fast."""
    timings = take_turns([Contender(name, lambda _, run=run: run()) for name, run in runs.items()], rounds)
    yield from compared("writing", case, timings, {list(runs)[1]: least})


def _events(rows: int) -> pa.Table:
    random = np.random.default_rng(7)
    ids = random.integers(0, 1 << 48, rows)
    urls = [f"https://example.com/{i:x}/{i % 97}" for i in ids.tolist()]
    return pa.table({"user_id": ids, "url": urls} | {f"measure_{i}": random.random(rows) for i in range(8)})


def _rewrite(source: str, target: str) -> None:
    """Rewrite a file with filters, one row group at a time."""
    filters = {name: {"ndv": _ROW_GROUP, "fpp": 0.01} for name in _LOOKED_UP}
    with open(target, "wb") as sink, pq.ParquetFile(source) as file:
        with pq.ParquetWriter(sink, file.schema_arrow, bloom_filter_options=filters) as writer:
            for i in range(file.num_row_groups):
                writer.write_table(file.read_row_group(i))
        sink.flush()
        os.fsync(sink.fileno())
