"""Helpers for tests of the footer cache on disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import bloomparquet as bp
from bloomparquet.planning.cache.plan_cache import PlanCache, process_cache
from bloomparquet.planning.options import PlanOptions
from bloomparquet.planning.planner import plan_dataset
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
    """Ten files with four row groups each. `x` and `name` are even numbers and have filters."""
    for i in range(10):
        values = np.random.default_rng(i).permutation(np.arange(400) * 2)
        table = {"x": values, "name": [f"n{value}" for value in values], "y": values / 2}
        write(root / f"{i}.parquet", table, ["x", "name"], rows_per_group=100)
    return root


def summary(plan: bp.ScanPlan) -> list[Any]:
    """The row groups of a plan, its predicate and its errors."""
    return [*plan.row_groups, plan.where, *dict.fromkeys(map(str, plan.errors))]


def uncached(path: Any, where: Any, **options: Any) -> list[Any]:
    """The summary of a plan with an empty cache."""
    dataset = path if isinstance(path, bp.Dataset) else bp.Dataset.open(path)
    return summary(plan_dataset(dataset, where, PlanOptions(cache=PlanCache(), **options)))


def restart() -> None:
    """Write the cache to disk and clear the memory, as if a new process began."""
    process_cache.persist()
    process_cache.clear()


def cache_directory(directory: Path) -> Path:
    """The directory that the cache makes in the given one."""
    return directory / "bloomparquet-cache"


def cache_files(directory: Path) -> list[Path]:
    return sorted(cache_directory(directory).glob("*.columns"))
