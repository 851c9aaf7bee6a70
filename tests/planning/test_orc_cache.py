"""Tails and indexes of ORC files are cached, and shared by all sets of files that hold them."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.planning.cache.plan_cache import process_cache
from bloomparquet.planning.dataset import Dataset
from bloomparquet.planning.evidence.formats import FileFormat
from tests.support.disk_cache import cache_files, restart, use_disk
from tests.support.orc_rewriting import drop_statistics, write

WHERE = "a = 500000000001"
FILES, STRIPES = 8, 3


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    process_cache.clear()
    values = random.Random(1)
    for number in range(FILES):
        rows = pa.table({"a": pa.array([values.randrange(10**12) * 2 for _ in range(600)], pa.int64())})
        write(tmp_path / f"{number}.orc", rows, stripe=200, stride=50)
    return sorted(map(str, tmp_path.glob("*.orc")))


def kept(plan: bp.ScanPlan) -> set[tuple[str, int | None]]:
    return {(group.path, group.index) for group in plan.row_groups if group.kept}


@pytest.mark.parametrize("skip_corrupt", [False, True])
def test_files_of_two_formats_are_an_error_even_if_cached(files: list[str], tmp_path: Path, skip_corrupt: bool) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "z.parquet")
    for _ in range(2):
        for some in (tmp_path, [str(tmp_path / "z.parquet"), *files]):
            with pytest.raises(bp.PlanError, match="expected files of one format"):
                bp.plan(some, WHERE, skip_corrupt=skip_corrupt)
        bp.plan(files, WHERE)
    declared = replace(Dataset.open(tmp_path), format=FileFormat.ORC)
    if skip_corrupt:
        assert kept(bp.plan(declared, WHERE, skip_corrupt=True)) == kept(bp.plan(files, WHERE))
    else:
        with pytest.raises(bp.FormatError, match=r"z\.parquet: not an ORC file"):
            bp.plan(declared, WHERE)


PREDICATES = (
    "a = 500000000001", "a IN (1, 3, 500000000001)", "a < 7 OR a IS NULL", "t = TIMESTAMP '2001-01-01'", "s = 'x'",
)  # fmt: skip


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Files of three columns; half of them have no bounds."""
    values, root = random.Random(2), tmp_path / "data"
    root.mkdir()
    for number in range(4):
        table = pa.table(
            {
                "a": pa.array([values.randrange(10**12) * 2 for _ in range(600)], pa.int64()),
                "t": pa.array([values.randrange(10**15) for _ in range(600)], pa.timestamp("us")),
                "s": [f"s{values.randrange(9)}" if values.randrange(5) else None for _ in range(600)],
            }
        )
        path = write(root / f"{number}.orc", table, stripe=200, stride=50)
        if number % 2:
            drop_statistics(path)
    return root


def test_a_new_process_reads_nothing_again(mixed: Path, directory: Path) -> None:
    first = [bp.plan(mixed, where) for where in PREDICATES]
    for _ in range(2):
        restart()
        again = [bp.plan(mixed, where) for where in PREDICATES]
        assert again == first
        assert sum(plan.requests for plan in again) == 0
    (entry,) = cache_files(directory)
    written = entry.read_bytes()
    restart()
    assert entry.read_bytes() == written
    some = [str(mixed / f"{number}.orc") for number in (3, 1)]
    assert bp.plan(some, PREDICATES[0]).requests == 0
    assert bp.read_table(mixed, "s = 's1'").num_rows == bp.read_table(mixed).filter(pc.field("s") == "s1").num_rows


def test_changed_and_new_files_are_read_in_a_new_process(mixed: Path, directory: Path) -> None:
    bp.plan(mixed, PREDICATES[0])
    restart()
    found = pa.table({"a": pa.array([500000000001] * 600, pa.int64())})
    write(mixed / "2.orc", found, stripe=200, stride=50)
    write(mixed / "4.orc", found, stripe=200, stride=50)
    (mixed / "0.orc").unlink()
    plan = bp.plan(mixed, PREDICATES[0])
    assert kept(plan) >= {(str(mixed / name), stripe) for name in ("2.orc", "4.orc") for stripe in range(STRIPES)}
    assert 0 < plan.requests <= 2 * (1 + STRIPES)
    process_cache.clear()
    use_disk(None)
    assert bp.plan(mixed, PREDICATES[0]) == plan


def test_damaged_cache_files_change_no_answer(mixed: Path, directory: Path) -> None:
    first = [bp.plan(mixed, where) for where in PREDICATES]
    restart()
    (entry,) = cache_files(directory)
    whole = entry.read_bytes()
    for at in range(0, len(whole), len(whole) // 40):
        damaged = bytearray(whole)
        damaged[at] ^= 4
        entry.write_bytes(damaged)
        process_cache.clear()
        assert [bp.plan(mixed, where) for where in PREDICATES] == first
    entry.write_bytes(whole[:-1])
    restart()
    assert [bp.plan(mixed, where) for where in PREDICATES] == first
    restart()
    assert sum(bp.plan(mixed, where).requests for where in PREDICATES) == 0  # the file was replaced
