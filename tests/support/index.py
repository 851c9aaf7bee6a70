"""Plans with and without an index, compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bloomparquet as bp
from bloomparquet.planning.cache.plan_cache import PlanCache
from bloomparquet.planning.dataset import Dataset
from bloomparquet.planning.index.manifest import DIRECTORY
from bloomparquet.planning.options import PlanOptions
from bloomparquet.planning.planner import plan_dataset


def plan_by(index: str, path: Any, where: Any, **options: Any) -> bp.ScanPlan:
    """A plan with an empty footer cache, so that nothing is known but what `index` says: ``"auto"``, ``"off"`` or a
    directory."""
    keys = options.pop("keys", None)
    dataset = path if isinstance(path, Dataset) else Dataset.open(path, keys=keys)
    return plan_dataset(dataset, where, PlanOptions(cache=PlanCache(), index=index, **options))


def outcome(index: str, path: Any, where: Any, **options: Any) -> tuple[Any, ...]:
    """The row groups of a plan, its predicate, and its errors; or the error that it raises. NaN in the
    predicate does not differ."""
    try:
        plan = plan_by(index, path, where, **options)
    except (bp.BloomParquetError, OSError) as error:
        return type(error), str(error)
    unreadable = sorted((file.path, str(error)) for file, error in plan.unreadable.items())
    return plan.row_groups, repr(plan.where), sorted({str(error) for error in plan.errors}), unreadable


def assert_same_plans(path: Any, *predicates: Any, indexed: int | None = None, **options: Any) -> None:
    """Plans with the index beside the data equal those without it. `indexed`: how many files must be in the index."""
    for where in predicates:
        expected = outcome("off", path, where, **options)
        assert outcome("auto", path, where, **options) == expected, f"{where}, with the index"
        if indexed is not None:
            assert plan_by("auto", path, where, **options).indexed == indexed


def index_files(root: Path | str) -> dict[str, Path]:
    """The files of the index beside the data at `root`: ``_manifest.json``, and segments by name."""
    return {path.name: path for path in sorted((Path(root) / DIRECTORY).iterdir())}


def segments(root: Path | str) -> list[Path]:
    return [path for path in index_files(root).values() if path.suffix == ".segment"]
