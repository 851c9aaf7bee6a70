"""The footer cache on disk: what a new process need not read, and that its plans are those without a cache."""

from __future__ import annotations

import datetime as dt
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloomparquet as bp
from bloomparquet.planning.cache.plan_cache import process_cache
from bloomparquet.planning.options import PlanOptions
from bloomparquet.planning.planner import plan_dataset
from tests.support.core import empty_filters, set_filter_location, watch_reads
from tests.support.disk_cache import cache_files, restart, summary, uncached, use_disk
from tests.support.files import write


def test_queries_repeated_in_a_new_process_read_nothing(data: Path, directory: Path, monkeypatch: Any) -> None:
    opened = bp.Dataset.open(data)
    wheres = ["x = 31", "x = 30", "name IN ('n4', 'n5')", "y < 3", "x IS NULL OR name = 'z'"]
    expected = {where: uncached(opened, where) for where in wheres}
    for where in wheres:
        bp.plan(opened, where)
    restart()
    shutil.rmtree(data)
    reads = watch_reads(monkeypatch)
    for where in wheres:
        plan = bp.plan(opened, where)
        assert (summary(plan), plan.requests) == (expected[where], 0)
    assert not reads.calls


def test_planning_writes_nothing_until_persist(data: Path, directory: Path) -> None:
    bp.plan(data, "x = 31")
    assert not directory.exists()
    process_cache.persist()
    (entry,) = cache_files(directory)
    written = entry.stat().st_ino
    bp.plan(data, "x = 33")
    process_cache.persist()
    assert cache_files(directory) == [entry]
    assert entry.stat().st_ino == written  # nothing new was learnt


def test_new_column_reads_all_footers_once(data: Path, directory: Path) -> None:
    bp.plan(data, "x = 31")
    restart()
    expected = uncached(data, "name = 'n31'")
    plan = bp.plan(data, "name = 'n31'")
    assert summary(plan) == expected
    assert plan.footer_reads.requests == 10
    assert bp.plan(data, "x = 31").requests == bp.plan(data, "y < 9").requests == 0
    restart()
    assert bp.plan(data, "x = 31 OR name = 'n31'").requests == 0


@pytest.mark.parametrize("from_disk", [False, True])
def test_only_new_files_of_a_data_set_are_read(tmp_path: Path, directory: Path, from_disk: bool) -> None:
    for i in range(120):
        write(tmp_path / "data" / f"{i:03}.parquet", {"x": [4 * i, 4 * i + 2, 4 * i + 800]}, ["x"])
    bp.plan(tmp_path / "data", "x = 401")
    if from_disk:
        restart()
    write(tmp_path / "data" / "100a.parquet", {"x": [0, 400, 402]}, ["x"])
    (tmp_path / "data" / "007.parquet").unlink()
    write(tmp_path / "data" / "008.parquet", {"x": [32, 402, 900]}, ["x"])
    expected = uncached(tmp_path / "data", "x = 401")
    plan = bp.plan(tmp_path / "data", "x = 401")
    assert summary(plan) == expected
    assert (plan.footer_reads.requests, plan.filter_reads.requests) == (2, 2)
    restart()
    assert len(cache_files(directory)) == 2  # of the first plan's files, and of the new ones
    again = bp.plan(tmp_path / "data", "x = 401")
    assert (summary(again), again.requests) == (expected, 0)


def test_threads_that_plan_at_once_have_the_files_they_asked_for(data: Path, directory: Path) -> None:
    bp.plan(data, "x = 31")
    restart()
    paths = sorted(data.iterdir())

    def has_its_files(some: list[Path]) -> bool:
        opened = bp.Dataset.open(some)
        return tuple(bp.plan(opened, "x = 31").table.files) == tuple(opened.files)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(has_its_files, [paths, paths[::-1], paths[:3], paths[3:]] * 8))


KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i8": (pa.int8(), [-3, 0, 7]),
    "u64": (pa.uint64(), [0, 5, 2**64 - 1]),
    "f": (pa.float32(), [-0.0, 1.5, float("nan")]),
    "s": (pa.string(), ["", "ä\0", "b\0\0"]),
    "b": (pa.binary(), [b"", b"\0", b"\xff" * 40]),
    "fixed": (pa.binary(3), [b"abc", b"\0\0\0", b"zz\0"]),
    "small": (pa.decimal128(20, 2), [Decimal("-1.25"), Decimal("3.00"), Decimal(0)]),
    "wide": (pa.decimal128(38, 0), [Decimal(10**37), Decimal(-(10**37)), Decimal(1)]),
    "d": (pa.date32(), [dt.date(2024, 1, 1), dt.date(2001, 9, 9), dt.date(1999, 1, 1)]),
    "t": (pa.timestamp("us", "UTC"), [dt.datetime(2024, 1, i, tzinfo=dt.timezone.utc) for i in (1, 2, 3)]),
    "yes": (pa.bool_(), [True, False, True]),
}


def test_bounds_of_all_types_survive_the_cache(tmp_path: Path, directory: Path) -> None:
    for i in range(3):
        columns = {name: pa.array([values[i], None, values[0]], kind) for name, (kind, values) in KINDS.items()}
        write(tmp_path / "data" / f"{i}.parquet", columns, [name for name in KINDS if name != "yes"])
    wheres = [
        leaf
        for name, (_, values) in KINDS.items()
        for value in values
        for leaf in (bp.Eq(name, value), bp.NotEq(name, value), bp.Lt(name, value), bp.GtEq(name, value))
    ] + [bp.IsNull(name) for name in KINDS]
    wheres += [bp.StartsWith("s", "b"), bp.Not(bp.StartsWith("s", "b"))]
    expected = [uncached(tmp_path / "data", where) for where in wheres]
    for where in wheres:
        bp.plan(tmp_path / "data", where)
    restart()
    assert [summary(bp.plan(tmp_path / "data", where)) for where in wheres] == expected
    write(tmp_path / "data" / "3.parquet", {"i8": pa.array([7], pa.int8()), "s": ["b"]}, ["i8", "s"])  # and when merged
    expected = [uncached(tmp_path / "data", where) for where in wheres]
    restart()
    assert [summary(bp.plan(tmp_path / "data", where)) for where in wheres] == expected


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> bp.Dataset:
    """Files of three schemas. Filters have several sizes; one is damaged, one over nulls, one never filled."""
    root = tmp_path_factory.mktemp("mixed")
    rng = np.random.default_rng(3)
    for i in range(12):
        kind = (pa.int32(), pa.int64(), pa.decimal128(20, 0))[i % 3]
        x = pa.array(rng.permutation(400)[: 120 + 10 * i] * 2).cast(kind)
        table = {"x": x, "name": [f"k{value}" for value in x.to_pylist()]} | ({"z": [i] * len(x)} if i % 2 else {})
        options = {"x": {"ndv": (50, 3000, 30000)[i % 4 % 3], "fpp": 0.001}, "name": {"ndv": 100, "fpp": 0.01}}
        path = write(root / f"{i:02}.parquet", table, options, rows_per_group=50)
        if i == 5:
            set_filter_location(path, offset=2)
        if i == 7:
            empty_filters(path)
    write(root / "12.parquet", {"x": pa.nulls(20, pa.int64()), "name": ["k"] * 20}, ["x"])
    return bp.Dataset.open(root)


STEPS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 12), min_size=1, max_size=16),  # in any order, some of them twice
        st.sampled_from(
            ["x = {}", "name = 'k{}'", "x > {} AND name IN ('k3', 'k{}')", "z = {}", "x IS NULL", "x <> {}"]
        ),
        st.integers(-1, 801),
        st.sampled_from(["", "persist", "restart", "off"]),
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.slow
@given(steps=STEPS)
def test_cached_plans_equal_uncached_plans(
    mixed: bp.Dataset, tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[list[int], str, int, str]]
) -> None:
    directory = tmp_path_factory.mktemp("cache")
    process_cache.clear()
    try:
        for indexes, pattern, value, then in steps:
            use_disk(None if then == "off" else directory)
            some = replace(mixed, files=tuple(mixed.files[i] for i in indexes), partition_values=((),) * len(indexes))
            where = pattern.format(value, value)
            assert summary(plan_dataset(some, where, PlanOptions(strict=False))) == uncached(some, where, strict=False)
            {"": list, "off": list, "persist": process_cache.persist, "restart": restart}[then]()
    finally:
        use_disk(None)
        process_cache.clear()


def test_unusable_filters_are_reported_from_the_cache(
    tmp_path: Path, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = set_filter_location(write(tmp_path / "data.parquet", {"x": [2, 4, 6]}, ["x"]), offset=2)
    (error,) = bp.plan(path, "x = 3").errors
    restart()
    caplog.clear()
    again = bp.plan(path, "x = 3")
    assert ([str(it) for it in again.errors], again.kept, again.requests) == ([str(error)], 1, 0)
    assert bp.plan(path, "x = 3").kept == 1
    assert [record.getMessage() for record in caplog.records] == [
        f"{error}; row groups without a usable filter are read"
    ]
    with pytest.raises(bp.FormatError, match="outside the file's data"):
        bp.plan(path, "x = 3", on_filter_error="fail")
