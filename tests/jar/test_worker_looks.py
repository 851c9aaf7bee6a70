"""Looks at files before a plan: each serves one plan of its own query, and none is kept for long."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from bloomparquet.storage.staleness import local_versions
from pyspark_bloomparquet.jar import listing, planner_worker
from pyspark_bloomparquet.jar.planner_worker import Worker
from tests.support import files
from tests.support.planner_process import equals, listing_of, request_of


def test_a_plan_goes_by_a_look_of_its_own_query(
    five_files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The jar has the planner look at files when a query begins. Only the plans of that query go by the look, and only
    for a second."""
    looks: list[int] = []
    monkeypatch.setattr(listing, "local_versions", lambda paths: looks.append(1) or local_versions(paths))
    worker, paths = Worker(BytesIO()), [Path(shutil.copy(path, tmp_path)) for path in five_files]
    request = request_of(paths, equals(103), tmp_path / "cache")

    def look(query: str) -> None:
        with ThreadPoolExecutor() as threads:
            worker._look(threads, {"look": request["listing"], "execution": query})

    def plan(query: str | None, data: bytes = b"") -> tuple[int, int, list[int]]:
        before = len(looks)
        head, body, _ = worker._plan({**request, "execution": query}, data)
        numbers = np.frombuffer(body, ">i8")[3 * head["ranges"] :]
        return len(looks) - before, head["plan"]["numRowGroupsRead"], numbers[: len(paths)].tolist()

    def sizes() -> list[int]:
        return [path.stat().st_size for path in paths]

    plan(None, listing_of(paths))
    look("12")
    assert plan("12") == (0, 1, sizes())
    assert plan("12") == (1, 1, sizes()), "a look serves one plan"
    files.write(paths[4], {"id": [103] * 60}, {"id": {"ndv": 20, "fpp": 1e-4}}, rows_per_group=20)
    for query in ("13", None):
        assert plan(query) == (1, 4, sizes())
    look("14")
    assert plan("14") == (0, 4, sizes())
    look("15")
    monkeypatch.setattr(planner_worker, "_LOOK_SECONDS", 0.0)
    assert plan("15") == (1, 4, sizes())
