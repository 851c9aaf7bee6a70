"""Plans that use an index."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import bloomparquet as bp
from tests.support.files import write


def test_a_refresh_indexes_the_new_version_of_a_file(tmp_path: Path) -> None:
    for i in range(4):
        write(tmp_path / f"{i}.parquet", {"x": [10 * i, 10 * i + 9]}, ["x"])
    assert bp.build_index(tmp_path).files == 4
    for version in range(3):
        write(tmp_path / "2.parquet", {"x": [version, 100 + version]}, ["x"])
        stale = bp.plan(tmp_path, f"x = {100 + version}")
        assert (stale.kept, stale.indexed) == (1, 3)
        bp.refresh_index(tmp_path)
        plan = bp.plan(tmp_path, f"x = {100 + version}")
        assert (plan.kept, plan.indexed, plan.filter_reads.requests) == (1, 4, 0)
    assert bp.read_table(tmp_path, "x = 102")["x"].to_pylist() == [102]
    bp.drop_index(tmp_path)
    assert not os.path.exists(tmp_path / "_bloomparquet_index")
    assert bp.plan(tmp_path, "x = 102").indexed == 0


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
