"""Tails and indexes of ORC files are cached, and shared by all sets of files that hold them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloomparquet as bp
from bloomparquet.planning.dataset import Dataset
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.index.cache import PlanCache, process_cache
from bloomparquet.planning.options import PlanOptions
from bloomparquet.planning.planner import plan_dataset
from tests.support.disk_cache import cache_files, cache_in, restart, use_disk
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


def test_skipped_files_do_not_empty_the_cache(files: list[str], tmp_path: Path) -> None:
    (tmp_path / "bad.orc").write_bytes(b"ORC" + b"x" * 500)
    first = bp.plan(tmp_path, WHERE, skip_corrupt=True)
    second = bp.plan(tmp_path, WHERE, skip_corrupt=True)
    assert first.requests > 4 >= second.requests > 0  # of the damaged file
    assert kept(first) == kept(second)
    with pytest.raises(bp.FormatError, match=r"bad\.orc"):
        bp.plan(tmp_path, WHERE)


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


def test_keys_without_plaintext_files_refuse_cached_files(files: list[str]) -> None:
    keys = bp.Keys(footer=bytes(16), allow_plaintext_files=False)
    for _ in range(2):
        with pytest.raises(bp.EncryptionError, match=r"0\.orc: the file is not encrypted, but the keys have"):
            bp.plan(files, WHERE, keys=keys)
        bp.plan(files, WHERE)


@pytest.fixture
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory in which the plans of a test cache what they read."""
    yield from cache_in(tmp_path_factory.mktemp("cache"))


PREDICATES = (
    "a = 500000000001", "a IN (1, 3, 500000000001)", "a < 7 OR a IS NULL", "t = TIMESTAMP '2001-01-01'", "s = 'x'",
)  # fmt: skip


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Files of three columns; half of them have no bounds."""
    values = random.Random(2)
    for number in range(4):
        table = pa.table(
            {
                "a": pa.array([values.randrange(10**12) * 2 for _ in range(600)], pa.int64()),
                "t": pa.array([values.randrange(10**15) for _ in range(600)], pa.timestamp("us")),
                "s": [f"s{values.randrange(9)}" if values.randrange(5) else None for _ in range(600)],
            }
        )
        path = write(tmp_path / f"{number}.orc", table, stripe=200, stride=50)
        if number % 2:
            drop_statistics(path)
    return tmp_path


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


def test_tables_in_memory_and_on_disk_make_one(mixed: Path, directory: Path) -> None:
    """Evidence that a table has only mapped from the disk reaches the next one; and one segment replaces the others."""
    for where in PREDICATES:
        bp.plan(mixed, where)
    restart()
    bp.plan(mixed, PREDICATES[0])  # of the other columns nothing is loaded
    (mixed / "0.orc").unlink()
    write(mixed / "4.orc", pa.table({"a": pa.array([500000000001] * 600, pa.int64())}), stripe=200, stride=50)
    use_disk(None)
    plans = [bp.plan(mixed, where) for where in PREDICATES[:3]]
    assert 0 < sum(plan.requests for plan in plans) <= 2 + 3 * STRIPES  # of the new file
    some = [str(mixed / f"{number}.orc") for number in (1, 2, 3)]
    assert sum(bp.plan(some, where).requests for where in PREDICATES) == 0
    use_disk(directory)
    bp.plan(mixed, PREDICATES[0])
    restart()
    assert sum(bp.plan(some, where).requests for where in PREDICATES) == 0
    again = [bp.plan(mixed, where) for where in PREDICATES[:3]]
    assert (again, sum(plan.requests for plan in again)) == (plans, 0)


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


@pytest.fixture(scope="module")
def varied(tmp_path_factory: pytest.TempPathFactory) -> bp.Dataset:
    """Files of three schemas; some have no bounds."""
    root, values = tmp_path_factory.mktemp("varied"), random.Random(3)
    for number in range(9):
        a = pa.array([values.randrange(400) * 2 for _ in range(300)], pa.int32() if number % 3 == 1 else pa.int64())
        s = [f"k{values.randrange(400)}" if values.randrange(9) else None for _ in range(300)]
        t = pa.array([values.randrange(10**15) for _ in range(300)], pa.timestamp("us"))
        columns = {"a": a, "s": s} if number % 3 else {"t": t, "s": s, "a": a}
        path = write(root / f"{number}.orc", pa.table(columns), stripe=100, stride=25)
        if number % 4 == 2:
            drop_statistics(path)
    return bp.Dataset.open(root)


STEPS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 8), min_size=1, max_size=12),  # in any order, some of them twice
        st.sampled_from(
            ["a = {}", "s = 'k{}'", "a > {} AND s IN ('k3', 'k{}')", "t = TIMESTAMP '2001-01-01 00:00:{}'", "s IS NULL"]
        ),
        st.integers(-1, 801),
        st.sampled_from(["", "persist", "restart", "off"]),
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.slow
@given(steps=STEPS)
def test_cached_plans_equal_uncached_plans(
    varied: bp.Dataset, tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[list[int], str, int, str]]
) -> None:
    directory = tmp_path_factory.mktemp("cache")
    process_cache.clear()
    try:
        for indexes, pattern, value, then in steps:
            use_disk(None if then == "off" else directory)
            some = replace(varied, files=tuple(varied.files[i] for i in indexes), partition_values=((),) * len(indexes))
            where = pattern.format(value % 60 if pattern[0] == "t" else value, value)
            cached, uncached = (
                plan_dataset(some, where, PlanOptions(strict=False, cache=cache))
                for cache in (process_cache, PlanCache())
            )
            assert cached == uncached
            {"": list, "off": list, "persist": process_cache.persist, "restart": restart}[then]()
            again = plan_dataset(some, where, PlanOptions(strict=False))
            assert (again, again.requests) == (uncached, 0)
    finally:
        use_disk(None)
        process_cache.clear()


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
