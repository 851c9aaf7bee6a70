"""What the tests of the footer cache on disk share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import bloomparquet as bp
from bloomparquet.planning.planner import cache, plan_scan
from tests.support.files import write

ROOM = 1 << 30


def cache_in(directory: Path) -> Iterator[Path]:
    """A directory in which the planner's cache keeps what it learns; the process knows nothing at first."""
    cache.clear()
    cache.use_disk(directory, ROOM)
    yield directory
    cache.use_disk(None)
    cache.clear()


def ten_files(root: Path) -> Path:
    """Of four row groups each; `x` and `name` have filters, and are even numbers."""
    for i in range(10):
        values = np.random.default_rng(i).permutation(np.arange(400) * 2)
        table = {"x": values, "name": [f"n{value}" for value in values], "y": values / 2}
        write(root / f"{i}.parquet", table, ["x", "name"], rows_per_group=100)
    return root


def told(plan: bp.ScanPlan) -> list[Any]:
    """All that a plan says of its row groups."""
    return [*plan.row_groups, plan.where, *dict.fromkeys(map(str, plan.errors))]


def uncached(dataset: Any, where: Any, **options: Any) -> list[Any]:
    """What a process that knows nothing says."""
    directory, cache._disk = cache._disk, None
    held, cache._tables = cache._tables, type(cache._tables)()
    try:
        return told(plan_scan(dataset, where, **options))
    finally:
        cache._disk, cache._tables = directory, held


def restart() -> None:
    """Store what was learnt, and forget it."""
    cache.persist()
    cache.clear()


def own(directory: Path) -> Path:
    """The cache's own directory in the one that it was given."""
    return directory / "bloomparquet-cache"


def entries(directory: Path) -> list[Path]:
    return sorted(own(directory).glob("*.columns"))
