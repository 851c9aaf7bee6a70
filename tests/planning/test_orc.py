"""Plans over ORC files: no stripe with a matching row is skipped, most others are, and few reads are needed."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import bloomparquet as bp
from bloomparquet.orc import protobuf as messages
from bloomparquet.orc.bloom_filter import hash_longs
from bloomparquet.orc.stripe_indexes import ROW_INDEX
from bloomparquet.planning.cache.plan_cache import process_cache as cache
from tests.orc.test_files import TABLE
from tests.support.core import kept, watch_reads
from tests.support.orc import OrcFile
from tests.support.orc_rewriting import drop_statistics, rewrite, write

FILES, STRIPE, STRIDE = 3, 300, 100
ROWS = TABLE.num_rows // FILES
UNSURE = ("tiny", "flag", "real")  # ORC C++ does not hash the stored values of these
EXTRA = {
    "tiny": pa.array([i % 251 - 125 if i % 5 else None for i in range(TABLE.num_rows)], pa.int8()),
    "flag": pa.array([i % 3 == 0 if i % 5 else None for i in range(TABLE.num_rows)]),
    "real": pa.array([i / 7 if i % 5 else None for i in range(TABLE.num_rows)], pa.float32()),
    "odd": pa.array([math.nan if i % 11 == 0 else (i * 7919 % 1013) / 3 for i in range(TABLE.num_rows)]),
    "inner": pa.array(
        [None if i % 3 == 0 else {"x": i * 31 % 1009, "y": None} for i in range(TABLE.num_rows)],
        pa.struct([("x", pa.int64()), ("y", pa.int32())]),
    ),
    "e.f": pa.array([f"{i * 7919 % 100_003}" for i in range(TABLE.num_rows)]),
}
EVERY = TABLE
for _name, _values in EXTRA.items():
    EVERY = EVERY.append_column(_name, _values)
LEAVES = [name for name in EVERY.column_names if name != "inner"] + ["inner.x"]
EVIDENCE = {"statistics": {}, "filters only": {"stripes": True, "row_groups": True}, "of row groups": {"stripes": True}}


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files of the same rows with all statistics, with none, and with statistics of row groups only."""
    directories = {}
    for name in EVIDENCE:
        root = directories[name] = tmp_path_factory.mktemp("orc") / name.replace(" ", "-")
        root.mkdir()
        for i in range(FILES):
            path = write(root / f"{i}.orc", EVERY.slice(i * ROWS, ROWS), stripe=STRIPE, stride=STRIDE)
            if name != "statistics":
                drop_statistics(path, row_groups=name == "filters only")
    return directories


def values_of(leaf: str) -> list[Any]:
    name, _, within = leaf.partition(".")
    column = (
        EVERY[leaf]
        if leaf in EVERY.column_names
        else pa.array([row and row[within] for row in EVERY[name].to_pylist()])
    )
    if column.type == pa.timestamp("ns"):
        return [None if not value.is_valid else np.datetime64(value.value, "ns") for value in column]
    return list(column.to_pylist())


def stripe_of(row: int) -> tuple[str, int]:
    return f"{row // ROWS}.orc", row % ROWS // STRIPE


def true_for(column: str | tuple[str, ...], value: Any, other: Any, way: int) -> bp.Predicate:
    """Predicates that are TRUE for `value`."""
    equal = bp.Eq(column, value)
    return (
        equal,
        bp.In(column, (other, None, value)),
        bp.EqNullSafe(column, value),
        bp.Not(bp.NotIn(column, (value,))),
        bp.And(bp.Not(bp.Lt(column, value)), bp.Not(bp.Gt(column, value)), bp.IsNotNull(column)),
        bp.Or(bp.And(equal, bp.IsNull(column)), bp.And(equal, bp.Not(bp.IsNull(column)))),
    )[way]


@pytest.mark.parametrize("evidence", list(EVIDENCE))
@pytest.mark.parametrize("leaf", LEAVES)
def test_written_values_are_kept_and_most_others_skipped(roots: dict[str, Path], leaf: str, evidence: str) -> None:
    column = tuple(leaf.split(".")) if leaf == "inner.x" else (leaf,)
    values, groups, total, n = values_of(leaf), 0, 0, 0
    for row in range(0, len(values), 83):
        value = values[row]
        if value is None:
            continue
        n += 1
        plan = bp.plan(roots[evidence], true_for(column, value, values[row - 1], n % 6))
        assert not plan.errors
        assert stripe_of(row) in kept(plan), (value, plan)
        assert plan.row_group_counts.total == FILES * ROWS // STRIDE
        if n % 6 in (0, 2, 3, 5) and not (isinstance(value, float) and math.isnan(value)):
            held = sum(value in values[at : at + STRIDE] for at in range(0, len(values), STRIDE))
            groups += plan.row_group_counts.kept - held
            total += plan.row_group_counts.total - held
    assert n > 10
    assert leaf in ("near", *UNSURE) or groups <= total * 0.1


@pytest.mark.parametrize("evidence", list(EVIDENCE))
def test_is_null_keeps_only_nulls(roots: dict[str, Path], evidence: str) -> None:
    for leaf in LEAVES:
        column = tuple(leaf.split(".")) if leaf == "inner.x" else (leaf,)
        values = values_of(leaf)
        for predicate in (bp.IsNull(column), bp.EqNullSafe(column, None), bp.Not(bp.IsNotNull(column))):
            plan = bp.plan(roots[evidence], predicate)
            null = {stripe_of(row) for row, value in enumerate(values) if value is None}
            assert null <= kept(plan)
            if evidence == "statistics" and leaf != "inner.x":
                assert kept(plan) == null, leaf
        assert kept(bp.plan(roots[evidence], bp.IsNotNull(column))) == {stripe_of(row) for row in range(len(values))}
    empty = bp.plan(roots[evidence], bp.IsNotNull(("inner", "y")))
    assert (empty.kept == 0) == (evidence != "filters only")
    assert bp.plan(roots[evidence], bp.IsNull(("inner", "y"))).skipped == {}


@pytest.mark.parametrize("evidence", ["statistics", "of row groups"])
@pytest.mark.parametrize("leaf", [name for name in LEAVES if name not in ("blob", "flag", "odd")])
def test_ranges_are_judged_right_at_their_edges(roots: dict[str, Path], leaf: str, evidence: str) -> None:
    column = tuple(leaf.split(".")) if leaf == "inner.x" else (leaf,)
    values = values_of(leaf)
    for at in range(0, len(values), STRIPE // 3 * 4):
        group = [value for value in values[at : at + STRIDE] if value is not None]
        low, high = min(group), max(group)
        for predicate in (
            bp.LtEq(column, low), bp.GtEq(column, high), bp.And(bp.GtEq(column, low), bp.LtEq(column, low)),
            bp.Not(bp.Gt(column, low)), bp.Not(bp.Lt(column, high)), bp.NotEq(column, low),
        ):  # fmt: skip
            assert stripe_of(at) in kept(bp.plan(roots[evidence], predicate)), predicate


def test_a_value_only_in_the_very_last_row_group_is_kept(tmp_path: Path) -> None:
    even = [i * 2 for i in range(900)]
    for i in range(4):
        values = [*even[:-1], 31] if i == 3 else even
        drop_statistics(write(tmp_path / f"{i}.orc", pa.table({"x": values}), bloom_filter_fpp=1e-6))
    plan = bp.plan(tmp_path, "x = 31")
    assert kept(plan) == {("3.orc", 2)}
    assert (plan.skipped, plan.row_group_counts) == ({"bloom": 11}, (36, 1, 0, 35))


@pytest.mark.parametrize(("stripe", "stride"), [(250, 100), (101, 100), (99, 100), (64, 8)])
def test_every_shape_of_stripes_is_right(tmp_path: Path, stripe: int, stride: int) -> None:
    values = [i * 7919 % 1009 for i in range(303)]
    path = write(tmp_path / "x.orc", pa.table({"x": values}), stripe=stripe, stride=stride)
    stripes = [each.rows for each in OrcFile.open(path).tail.stripes]
    assert len(stripes) == -(-303 // stripe)
    for evidence in ("statistics", "filters"):
        for row in range(0, 303, 14):
            plan = bp.plan(path, bp.Eq("x", values[row]))
            at = int(np.searchsorted(np.cumsum(stripes), row, "right"))
            assert ("x.orc", at) in kept(plan)
            assert plan.row_group_counts.total == sum(-(-rows // stride) for rows in stripes)
            assert evidence == "filters" or plan.row_group_counts.kept <= plan.row_group_counts.total / 2 + 1
        drop_statistics(path)


@pytest.mark.parametrize("stride", [0, 100])
def test_files_without_row_indexes_are_judged_by_their_stripes(tmp_path: Path, stride: int) -> None:
    path = write(tmp_path / "x.orc", pa.table({"x": list(range(600)), "y": [None] * 300 + [1] * 300}))
    rewrite(path, stream=lambda kind, column, data: None, footer=lambda tail: setattr(tail, "row_index_stride", stride))
    for where, stripes, groups in (("x = 299", {0}, 1), ("x = 300", {1}, 1), ("x > 600", set(), 0), ("y = 1", {1}, 1)):
        plan = bp.plan(path, where)
        assert {index for _, index in kept(plan)} == stripes
        assert plan.row_group_counts[:2] == ((6, groups * 3) if stride else (2, groups))
        assert not plan.errors


def test_empty_stripes_and_files_are_planned(tmp_path: Path) -> None:
    def empty(tail: Any) -> None:
        tail.stripes[0].number_of_rows = 0

    path = write(tmp_path / "a.orc", pa.table({"x": list(range(600))}))
    rewrite(path, footer=empty)
    write(tmp_path / "b.orc", pa.table({"x": pa.array([], pa.int64())}))
    plan = bp.plan(tmp_path, "x IN (5, 599)")
    assert (kept(plan), plan.total) == ({("a.orc", 1)}, 2)
    assert bp.plan(tmp_path, "x IS NULL OR x IS NOT NULL").kept == 1
    assert bp.plan(tmp_path / "b.orc", "x = 1").total == 0


def test_files_of_two_schemas_and_two_writers_are_one_plan(tmp_path: Path) -> None:
    write(tmp_path / "a.orc", pa.table({"x": pa.array(range(300), pa.int32()), "y": ["a"] * 300}))
    write(tmp_path / "b.orc", pa.table({"y": ["b"] * 300, "x": pa.array(range(300, 600), pa.int64())}))
    bad = write(tmp_path / "c.orc", pa.table({"x": pa.array([i * 2 for i in range(300)], pa.int32())}))
    drop_statistics(bad)
    rewrite(bad, footer=lambda tail: setattr(tail, "software_version", b"1.6.5"))
    good = write(tmp_path / "d.orc", pa.table({"x": pa.array([i * 2 for i in range(300)], pa.int32())}))
    drop_statistics(good)
    assert {name for name, _ in kept(bp.plan(tmp_path, "x = 299"))} == {"a.orc", "c.orc"}
    assert {name for name, _ in kept(bp.plan(tmp_path, "x = 301 AND y = 'b'"))} == {"b.orc"}
    assert {name for name, _ in kept(bp.plan(tmp_path, "x = 300 AND y IS NULL"))} == {"c.orc", "d.orc"}
    assert {name for name, _ in kept(bp.plan(tmp_path, "y <> 'a'"))} == {"b.orc"}
    assert {name for name, _ in kept(bp.plan(tmp_path, "NOT y <=> 'a'"))} == {"b.orc", "c.orc", "d.orc"}
    assert bp.plan(tmp_path, f"x = {2**40}").kept == 1  # in c.orc: its filters prove nothing


def scattered(n: int, size: int = 600) -> pa.Table:
    return pa.table({"x": [(i * 7919 + n) % 100_003 for i in range(size)], "y": list(range(size))})


def test_stripes_excluded_by_statistics_cost_no_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "x.orc", scattered(0, 3000))
    file = OrcFile.open(path)
    cache.clear()
    reads = watch_reads(monkeypatch)
    plan = bp.plan(path, "y = 1000")
    assert (plan.skipped, plan.kept) == ({"statistics": 9}, 1)
    assert plan.filter_reads.requests == 1
    for i, stripe in enumerate(file.tail.stripes):
        size = file.tail.size + 16 * 1024  # reading the tail may have touched these bytes
        if stripe.offset + stripe.length < Path(path).stat().st_size - size:
            assert bool(reads.touching(path, stripe.offset, stripe.offset + stripe.length)) == (i == 3)
    cache.clear()
    reads.calls.clear()
    nothing = bp.plan(path, "y = 99999")
    assert (nothing.kept, nothing.filter_reads.requests) == (0, 0)
    assert len(reads.of(path)) == nothing.requests <= 2


@pytest.mark.parametrize("number", [1, 5000])
def test_a_list_of_values_answers_like_single_values(tmp_path: Path, number: int) -> None:
    path = write(tmp_path / "x.orc", pa.table({"x": [i * 2 for i in range(900)]}), bloom_filter_fpp=1e-5)
    drop_statistics(path)
    file = OrcFile.open(path)
    filters = [each for stripe in range(3) for each in file.filters("x", stripe)]  # type: ignore[union-attr]
    absent = np.arange(1, number * 2, 2)
    for values in (absent, np.append(absent, 1798), np.insert(absent, 0, 0)):
        held = [bool(each.check(hash_longs(values)).any()) for each in filters]
        plan = bp.plan(path, bp.In("x", values.tolist()))
        assert plan.row_group_counts.kept == sum(held)
        assert {index for _, index in kept(plan)} == {i // 3 for i, each in enumerate(held) if each}


def test_bounds_of_a_stripe_serve_row_groups_that_have_none(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.orc", pa.table({"x": [i * 2 for i in range(600)], "d": [Decimal(i) for i in range(600)]})
    )
    drop_statistics(path, stripes=False)
    plan = bp.plan(path, "x = 700")
    assert kept(plan) == {("x.orc", 1)}
    assert plan.row_group_counts.by_statistics == 3
    assert bp.plan(path, "x IS NULL").kept == 0
    assert kept(bp.plan(path, "d = 599")) == {("x.orc", 1)}


def test_a_row_group_without_statistics_is_kept(tmp_path: Path) -> None:
    def gap(kind: int, column: int, data: bytes) -> bytes:
        if kind != ROW_INDEX:
            return data
        index = messages.RowIndex.FromString(data)
        index.entry[1].ClearField("statistics")
        return bytes(index.SerializeToString())

    path = write(tmp_path / "x.orc", pa.table({"x": list(range(300))}), bloom_filter_columns=None)
    rewrite(path, stream=gap, statistics=lambda _: b"")
    for value, count in ((50, 2), (150, 1), (250, 2), (999, 1)):
        plan = bp.plan(path, bp.Eq("x", value))
        assert (plan.kept, plan.row_group_counts.kept) == (1, count)
