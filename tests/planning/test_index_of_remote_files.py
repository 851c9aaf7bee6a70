"""Files of a remote storage are found in an index although listings report their times in other units."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pyarrow.fs
import pytest

import bloomparquet as bp
from bloomparquet.planning.cache.plan_cache import PlanCache
from bloomparquet.planning.options import PlanOptions
from bloomparquet.planning.planner import plan_dataset
from bloomparquet.storage.staleness import are_same_times
from tests.support import files

REMOTE = pyarrow.fs.SubTreeFileSystem("/", pyarrow.fs.LocalFileSystem())
"""No local storage: it has no inodes, and files are not looked at again after they were listed."""
SECOND = 1_700_000_000 * 10**9
MS = 10**6


def write(path: Path, first: int, time: int) -> None:
    """All files have the same size."""
    ids = [first + i * 7 % 40 for i in range(40)]
    files.write(path, {"id": ids}, ["id"], rows_per_group=10, fpp=1e-5, compression="none", use_dictionary=False)
    os.utime(path, ns=(time, time))


def plan(data: Path, wanted: int, **listed: int) -> bp.ScanPlan:
    """A plan of a listing in which the first file has other values."""
    dataset = bp.Dataset.open(data, filesystem=REMOTE)
    first = dataset.files[0]._replace(**listed)
    dataset = replace(dataset, files=(first, *dataset.files[1:]))
    return plan_dataset(dataset, f"id = {wanted}", PlanOptions(cache=PlanCache(), index=str(data.parent / "index")))


@pytest.mark.parametrize(
    ("indexed", "listed", "larger", "matches"),
    [
        (SECOND + 123 * MS, SECOND + 123 * MS, 0, True),
        (SECOND + 123 * MS, SECOND, 0, True),
        (SECOND, SECOND + 123 * MS, 0, True),
        (SECOND, SECOND + 999_999_999, 0, True),
        (SECOND + 123 * MS, SECOND + 124 * MS, 0, False),
        (SECOND + 123 * MS, SECOND + 123 * MS + 1, 0, False),
        (SECOND, SECOND + 1000 * MS, 0, False),
        (SECOND, SECOND - 1, 0, False),
        (SECOND, SECOND, 1, False),
        (SECOND + 123 * MS, SECOND, 1, False),
        (500 * MS, 0, 0, False),
    ],
)
def test_times_in_two_units_match_as_after_a_read(
    tmp_path: Path, indexed: int, listed: int, larger: int, matches: bool
) -> None:
    for number in range(3):
        write(tmp_path / "data" / f"{number}.parquet", 100 * number, indexed)
    assert bp.build_index(tmp_path / "data", to=tmp_path / "index", filesystem=REMOTE).files == 3
    assert matches == bool(are_same_times(indexed, listed) and listed > 0 and not larger)
    if larger:
        return  # the file itself cannot be read with a wrong size
    planned = plan(tmp_path / "data", 7, mtime_ns=listed)
    assert (planned.indexed, planned.kept) == (3 if matches else 2, 1)


def test_the_newest_of_two_indexed_versions_is_found(tmp_path: Path) -> None:
    """A refresh keeps a segment that is mostly current, so an index may have two versions of a file."""
    for number in range(3):
        write(tmp_path / "data" / f"{number}.parquet", 100 * number, SECOND + 123 * MS)
    bp.build_index(tmp_path / "data", to=tmp_path / "index", filesystem=REMOTE)
    write(tmp_path / "data" / "0.parquet", 5000, SECOND + 124 * MS)
    assert bp.refresh_index(tmp_path / "data", to=tmp_path / "index", filesystem=REMOTE).files == 4
    exact, coarse = plan(tmp_path / "data", 5007), plan(tmp_path / "data", 5007, mtime_ns=SECOND)
    assert len({file.size for file in exact.dataset.files}) == 1
    assert (exact.indexed, exact.kept, exact.total) == (3, 1, 12)
    assert (coarse.indexed, coarse.kept, coarse.total) == (3, 1, 12)
