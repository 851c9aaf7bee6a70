"""Lookups of ever other values take no memory that stays."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import bloomparquet as bp
from bloomparquet.planning.cache.plan_cache import process_cache
from tests.support.files import write


def test_a_looked_up_value_takes_no_memory(tmp_path: Path) -> None:
    process_cache.clear()
    write(tmp_path / "x.parquet", {"x": list(range(0, 4_000, 2))}, ["x"])

    def look_up(first: int, number: int) -> None:
        for value in range(first, first + 2 * number, 2):
            bp.plan(tmp_path, f"x = {value}")

    look_up(1, 200)
    tracemalloc.start()
    try:
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        look_up(2_001, 300)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 300 * 150, "bytes; numpy keeps some of its own"
    finally:
        tracemalloc.stop()
