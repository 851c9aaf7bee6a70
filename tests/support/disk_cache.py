"""What the tests of the footer cache on disk share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import bloomparquet as bp
from bloomparquet.planning.parquet.cache import FooterCache, process_cache
from bloomparquet.planning.planner import PlanOptions, plan_dataset
from tests.support.files import write

ROOM = 1 << 30


def use_disk(directory: Path | None, max_bytes: int = ROOM) -> None:
    """Let all plans of this process keep what they read in `directory`; None: in memory only."""
    process_cache._disk = None if directory is None else process_cache.on_disk(directory, max_bytes)._disk


def cache_in(directory: Path) -> Iterator[Path]:
    """A directory in which the plans of this process keep what they read. At first, nothing is cached."""
    process_cache.clear()
    use_disk(directory)
    yield directory
    use_disk(None)
    process_cache.clear()


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


def uncached(path: Any, where: Any, **options: Any) -> list[Any]:
    """What a plan with an empty cache says."""
    dataset = path if isinstance(path, bp.Dataset) else bp.Dataset.open(path)
    return told(plan_dataset(dataset, where, PlanOptions(cache=FooterCache(), **options)))


def restart() -> None:
    """Store what was learnt, and forget it."""
    process_cache.persist()
    process_cache.clear()


def own(directory: Path) -> Path:
    """The cache's own directory in the one that it was given."""
    return directory / "bloomparquet-cache"


def entries(directory: Path) -> list[Path]:
    return sorted(own(directory).glob("*.columns"))
