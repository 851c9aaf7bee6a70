"""Plans: how evidence is combined, files of many shapes, and that caches are never stale."""

from __future__ import annotations

import copy
import math
import pickle
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import bloomparquet as bp
from bloomparquet.planning.cache.plan_cache import process_cache
from bloomparquet.query.evaluate.mask import mask
from bloomparquet.query.sql.parse import parse_where
from tests.support.core import kept, plan_with
from tests.support.files import hive, write, write_groups

EVEN = list(range(0, 100, 2))


@pytest.fixture
def two_columns(tmp_path: Path) -> str:
    """The filter of `a` excludes 31, its bounds exclude 500; the filter of `b` excludes 33, its bounds 700."""
    return write(
        tmp_path / "x.parquet", {"a": EVEN, "b": EVEN, "n": pa.array([None] * 50, pa.int64())}, ["a", "b", "n"]
    )


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("a = 31", "bloom"),
        ("a = 500", "statistics"),
        ("a = 30", None),
        ("a = 500 OR b = 33", "bloom"),
        ("a = 31 OR b = 33", "bloom"),
        ("a = 31 AND b = 30", "bloom"),
        ("a = 30 AND b = 700", "statistics"),
        ("(a = 31 OR b = 500) AND (a = 30 OR b = 30)", "bloom"),
        ("a IN (31, 33, 500)", "bloom"),
        ("a <=> 31", "bloom"),
        ("NOT a <> 31", "bloom"),
        ("NOT (a NOT IN (31, 33))", "bloom"),
        ("NOT (a = 30 OR NOT b = 33)", "bloom"),
        ("n = 5", "statistics"),
        ("n IS NULL", None),
        ("n IS NOT NULL", "statistics"),
        ("a = NULL", "constant"),
        ("a = 31 OR TRUE", None),
    ],
)
def test_evidence_is_combined_leaf_by_leaf(where: str, reason: str | None, two_columns: str) -> None:
    plan = bp.plan(two_columns, where)
    assert plan.skipped == ({} if reason is None else {reason: 1}) or reason == "constant"
    assert plan.kept == (reason is None)
    assert plan.bloom_bytes_read == 0 or reason not in ("constant", "statistics")
    whole = bp.read_table(two_columns)
    assert bp.read_table(two_columns, where).equals(whole.filter(mask(parse_where(where), whole)))


def test_value_in_the_last_row_group_is_found(tmp_path: Path) -> None:
    for i in range(8):
        groups = [{"x": EVEN} for _ in range(5)]
        if i == 7:
            groups[4] = {"x": [*EVEN[:-1], 31]}
        write_groups(tmp_path / f"{i}.parquet", groups, ["x"])
    plan = bp.plan(tmp_path, "x = 31")
    assert kept(plan) == {("7.parquet", 4)}
    assert plan.skipped == {"bloom": 39}
    assert bp.read_table(tmp_path, "x = 31").num_rows == 1


def test_counts_agree_with_row_groups(tmp_path: Path) -> None:
    root = hive(tmp_path, {f"p={i}": {"x": [100 * i + j for j in EVEN]} for i in range(4)}, ["x"], rows_per_group=25)
    plan = bp.plan(root, "p IN (1, 2) AND x IN (110, 111)")
    assert plan.total == plan.kept + plan.skipped.total() == 2 + 4
    groups = plan.row_groups
    assert len(groups) == plan.total
    assert Counter(group.reason for group in groups if group.reason) == plan.skipped
    assert [group for group in groups if group.kept] == plan.kept_row_groups()
    assert plan.to_arrow().column("kept").to_pylist() == [group.kept for group in groups]
    assert "1 of 4 row groups kept" in repr(plan)


def test_literal_of_the_wrong_type_fails_or_skips_nothing(two_columns: str) -> None:
    for predicate in (bp.Eq("a", "31"), bp.In("a", [31, "x"]), bp.Gt("a", True), bp.Eq("a", b"x")):
        with pytest.raises(bp.PlanError, match="'a'"):
            bp.plan(two_columns, predicate)
        assert plan_with(two_columns, predicate, strict=False).kept == 1
    with pytest.raises(bp.OptionError, match="keep"):
        bp.plan(two_columns, "a = 1", on_filter_error="ignore")  # type: ignore[arg-type]


def test_nan_among_keys_skips_nothing_less(tmp_path: Path) -> None:
    """pandas has NaN for a missing number. A column of integers or decimals holds no NaN."""
    groups = [{"i": range(n, n + 50, 2), "d": pa.array(range(n, n + 50, 2), pa.decimal128(9, 2))} for n in (0, 50)]
    path = write_groups(tmp_path / "x.parquet", groups, ["i", "d"])
    keys = [4.0, math.nan]
    for column in ("i", "d"):
        assert bp.plan(path, bp.In(column, keys)).kept == 1
        assert bp.read_table(path, bp.In(column, keys))["i"].to_pylist() == [4]
        assert bp.plan(path, bp.In(column, [5.0, math.nan])).kept == bp.plan(path, bp.Eq(column, math.nan)).kept == 0
        assert bp.read_table(path, bp.NotIn(column, keys)).num_rows == 49
        assert bp.read_table(path, bp.Lt(column, math.nan)).num_rows == 50


def test_pushed_predicate_skips_too_and_is_never_strict(two_columns: str, tmp_path: Path) -> None:
    for where in (None, "b = 30"):
        plan = plan_with(two_columns, where, pushed=bp.Eq("a", 31))
        assert plan.skipped == {"bloom": 1}
        assert plan.where == (None if where is None else bp.Eq("b", 30))
    for pushed in (bp.Eq("a", "31"), bp.Eq("nothing", 1)):
        assert plan_with(two_columns, "b = 30", pushed=pushed).kept == 1
    with pytest.raises(bp.PlanError, match="'nothing'"):
        plan_with(two_columns, "nothing = 1", pushed=bp.Eq("a", 31))
    with pytest.raises(bp.PlanError, match="'b'"):
        plan_with(two_columns, "b = 'x'", pushed=bp.Eq("a", 30))
    root = hive(tmp_path / "p", {f"day={day}": {"id": [day]} for day in (1, 2)})
    assert plan_with(root, "id = 2", pushed=bp.Eq("day", 1)).skipped == {"partition": 1, "statistics": 1}
    assert plan_with(root, "id = 2", pushed=bp.Eq("day", "x")).kept == 1


def test_threads_plan_at_once(tmp_path: Path) -> None:
    values = np.random.default_rng(0).permutation(np.arange(4000) * 2)
    for i in range(4):
        write(tmp_path / f"{i}.parquet", {"x": values, "y": values}, ["x", "y"], rows_per_group=200)
    expected = {value: kept(bp.plan(tmp_path, bp.Eq("x", value))) for value in range(0, 160, 2)}
    process_cache.clear()

    def is_right(start: int) -> bool:
        pairs = [(column, value) for value in range(start, 160, 8) for column in "xy"]
        return all(kept(bp.plan(tmp_path, bp.Eq(column, value))) == expected[value] for column, value in pairs)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(is_right, range(0, 8, 2)))


def test_files_of_alternating_schemas_keep_their_evidence(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    truth: dict[int, set[tuple[str, int]]] = {}
    for i in range(12):
        kind = (pa.int32(), pa.int64(), pa.decimal128(20, 0))[i % 3]
        groups = [rng.integers(0, 10**6, 20).tolist() for _ in range(1 + i % 4)]
        for j, group in enumerate(groups):
            for value in group:
                truth.setdefault(value, set()).add((f"{i:02}.parquet", j))
        tables = [pa.table({"x": pa.array(group, pa.int64()).cast(kind), "n": [i] * 20}) for group in groups]
        write_groups(
            tmp_path / f"{i:02}.parquet", [table if i % 2 else table.select(["n", "x"]) for table in tables], ["x"]
        )
    total = bp.plan(tmp_path).total
    for value in list(truth)[::7]:
        plan = bp.plan(tmp_path, bp.Eq("x", value))
        assert truth[value] <= kept(plan)
        assert plan.kept <= total / 3
    for i in range(12):
        assert {name for name, _ in kept(bp.plan(tmp_path, bp.Eq("n", i)))} == {f"{i:02}.parquet"}


def test_partition_values_fit_when_files_are_left_out(tmp_path: Path) -> None:
    """Files are left out because of partition values or damage; the others keep their own partition values."""
    root = hive(tmp_path, {f"p={i}": {"x": [i, 100 + i]} for i in range(9)}, ["x"])
    for i in (0, 4, 5):
        Path(root, f"p={i}", "part-0.parquet").write_bytes(b"damaged beyond repair")
    rows = bp.read_table(root, "p <> 2 AND x >= 100", skip_corrupt=True)
    assert rows.to_pydict() == {"x": [101, 103, 106, 107, 108], "p": [1, 3, 6, 7, 8]}
    plan = bp.plan(root, "p > 2 AND x = 107", skip_corrupt=True)
    assert [(Path(group.path).parent.name, group.kept) for group in plan.row_groups if group.kept] == [("p=7", True)]
    assert plan.total == plan.kept + plan.skipped.total()


def test_other_processes_get_the_data_set_of_a_plan(two_columns: str) -> None:
    plan = bp.plan(two_columns, "a = 30")
    with pytest.raises(TypeError, match=r"the path and the predicate, or plan.to_dataset\(\)"):
        pickle.dumps(plan)
    assert copy.copy(plan) is copy.deepcopy(plan) is plan
    dataset = pickle.loads(pickle.dumps(plan.to_dataset()))
    assert dataset.to_table() == plan.to_dataset().to_table()
    assert dataset.to_table().num_rows == 50


def test_path_may_contain_a_hash_sign(tmp_path: Path) -> None:
    path = write(tmp_path / "a#b.parquet", {"x": [1]})
    assert bp.plan(path).total == bp.plan(Path(path).as_uri()).total == bp.plan(f"file://{path}").total == 1


def test_one_leaf_may_appear_twice(two_columns: str) -> None:
    leaf = bp.Eq("a", 31)
    assert bp.plan(two_columns, bp.And(bp.Or(leaf, bp.Eq("b", 33)), bp.Or(leaf, bp.Eq("b", 700)))).kept == 0
    assert bp.plan(two_columns, bp.Or(leaf, ~leaf)).kept == 1


def test_each_file_is_judged_by_its_own_type(tmp_path: Path) -> None:
    write(tmp_path / "int.parquet", {"x": pa.array(EVEN, pa.int32())}, ["x"], write_statistics=False)
    write(tmp_path / "long.parquet", {"x": pa.array([*EVEN, 2**40], pa.int64())}, ["x"], write_statistics=False)
    both = {("int.parquet", 0), ("long.parquet", 0)}
    assert all(kept(bp.plan(tmp_path, bp.Eq("x", value))) == both for value in EVEN)
    assert kept(bp.plan(tmp_path, bp.Eq("x", 2**40))) == {("long.parquet", 0)}
    assert bp.read_table(tmp_path, bp.In("x", [2**40, 4]), merge_schema=True).num_rows == 3


def test_empty_files_and_row_groups_are_read(tmp_path: Path) -> None:
    write(tmp_path / "none.parquet", pa.table({"x": pa.array([], pa.int64())}), ["x"])
    write_groups(tmp_path / "some.parquet", [pa.table({"x": pa.array([], pa.int64())}), {"x": [5]}], ["x"])
    plan = bp.plan(tmp_path, "x = 5")
    assert plan.errors == ()
    assert bp.read_table(tmp_path, "x = 5").num_rows == 1
    assert bp.read_table(tmp_path).num_rows == 1
    assert bp.read_table(tmp_path / "none.parquet", "x = 5").schema.names == ["x"]
    assert bp.plan(tmp_path / "none.parquet", "x IS NULL").kept == 0
