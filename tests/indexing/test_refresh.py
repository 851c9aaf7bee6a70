"""Plans that use an index."""

from __future__ import annotations

from pathlib import Path

import pytest

import bloomparquet as bp
from tests.support.files import write


def test_many_small_refreshes_leave_few_segments(tmp_path: Path) -> None:
    write(tmp_path / "0.parquet", {"x": [0, 9]}, ["x"])
    bp.build_index(tmp_path)
    counts = []
    for i in range(1, 20):
        write(tmp_path / f"{i}.parquet", {"x": [10 * i, 10 * i + 9]}, ["x"])
        counts.append(bp.refresh_index(tmp_path).segments)
    assert max(counts) == 8
    assert len(list((tmp_path / "_bloomparquet_index").glob("*.segment"))) == counts[-1]
    plan = bp.plan(tmp_path, "x = 59")
    assert (plan.indexed, plan.kept, plan.footer_reads.requests) == (20, 1, 1)  # one: the manifest


def test_a_partition_has_no_index_of_its_own(tmp_path: Path) -> None:
    for day in (1, 2):
        write(tmp_path / f"day={day}" / "x.parquet", {"x": [day]}, ["x"])
    bp.build_index(tmp_path)
    for run in (bp.build_index, bp.refresh_index, bp.drop_index):
        with pytest.raises(bp.PlanError, match="a partition of the data"):
            run(tmp_path / "day=1")
    assert bp.plan(tmp_path, "x = 2").indexed == 2
    assert bp.plan(tmp_path / "day=2", "x = 2").indexed == 1
