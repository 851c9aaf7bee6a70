"""The rows of ORC files: exactly those that match, against pyarrow's own data sets and against an unpruned read; and
plans over ORC on the command line, which are of stripes."""

from __future__ import annotations

import datetime as dt
import gzip
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.orc as orc
import pytest
from rich.console import Console

import bloomparquet as bp
from bloomparquet.cli import render
from tests.support.commands import Run

field = pc.field
UTC = dt.timezone.utc
ROWS = 6_000
NTZ = {"spark.sql.catalyst.type": "timestamp_ntz"}


def write(path: Path, table: pa.Table | dict[str, Any], bloom: list[str] | None = None, **options: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = table if isinstance(table, pa.Table) else pa.table(table)
    if bloom:
        options |= {
            "bloom_filter_columns": [table.schema.names.index(name) for name in bloom],
            "bloom_filter_fpp": 0.01,
        }
    orc.write_table(table, str(path), **options)
    return str(path)


def events(day: int) -> pa.Table:
    ids = np.random.default_rng(day).integers(0, 100_000, ROWS)
    clock = pa.array([dt.datetime(2026, 1, day) + dt.timedelta(seconds=int(i)) for i in ids], pa.timestamp("us"))
    return pa.table(
        {
            "id": ids,
            "name": pa.array([f"user-{i % 977}" if i % 13 else None for i in ids.tolist()]),
            "amount": pa.array([Decimal(int(i)) / 100 for i in ids], pa.decimal128(12, 2)),
            "at": clock.cast(pa.timestamp("us", "UTC")),
            "clock": clock,
            "score": pa.array(np.where(ids % 7 == 0, np.nan, ids / 8)),
            "tags": pa.array([[int(i), 1] for i in ids]),
            "place": pa.array([{"city": f"c{i % 50}", "zip": int(i)} for i in ids.tolist()]),
        }
    )  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    """4 files in 4 partitions, of several stripes with several row groups each."""
    folder = tmp_path_factory.mktemp("events")
    for day in range(1, 5):
        options: dict[str, Any] = {"stripe_size": 200_000, "batch_size": 1000, "row_index_stride": 1000}
        write(folder / f"day=2026-01-0{day}" / "x.orc", events(day), ["id", "name"], **options)
    return str(folder)


def theirs(root: str, condition: Any, columns: list[str] | None = None) -> pa.Table:
    partitioning = ds.partitioning(pa.schema([("day", pa.date32())]), flavor="hive")
    return ds.dataset(root, format="orc", partitioning=partitioning).to_table(filter=condition, columns=columns)


def an_id(root: str) -> int:
    return theirs(root, None, ["id"]).column("id")[777].as_py()  # type: ignore[no-any-return]


def test_rows_are_those_of_pyarrows_filter(root: str) -> None:
    one = an_id(root)
    name, cents, day = f"user-{one % 977}", Decimal(one) / 100, dt.date(2026, 1, 2)
    moment = dt.datetime(2026, 1, 4, 20)
    instant = pa.scalar(moment.replace(tzinfo=UTC), pa.timestamp("ns", "UTC"))
    cases: list[tuple[str, Any]] = [
        (f"id = {one}", field("id") == one),
        (f"id IN ({one}, -1, {one + 1})", field("id").isin([one, -1, one + 1])),
        (f"name = '{name}'", field("name") == name),
        (f"amount = {cents}", field("amount") == pa.scalar(cents, pa.decimal128(12, 2))),
        ("day = DATE '2026-01-02' AND id < 5000", (field("day") == day) & (field("id") < 5000)),
        ("id >= 99000 OR name IS NULL", (field("id") >= 99000) | field("name").is_null()),
        ("name <> 'user-1' AND id > 98000", (field("name") != "user-1") & (field("id") > 98000)),
        (f"place.zip = {one}", field("place", "zip") == one),
        ("name LIKE 'user-97%'", pc.starts_with(field("name"), "user-97")),
        (f"at >= TIMESTAMP '{moment}'", field("at") >= instant),
        (f"clock >= TIMESTAMP '{moment}'", field("clock") >= pa.scalar(moment, pa.timestamp("ns"))),
        ("id = -5", field("id") == -5),
    ]  # fmt: skip
    for where, condition in cases:
        expected = theirs(root, condition).sort_by([("day", "ascending")])
        found = bp.read_table(root, where)
        assert found.schema.equals(expected.schema), where
        assert found.drop_columns("score").equals(expected.drop_columns("score").combine_chunks()), where
        assert repr(found.column("score").to_pylist()) == repr(expected.column("score").to_pylist()), where
        some = bp.read_table(root, where, columns=["day", "id"])
        assert some.to_pydict() == {name: expected[name].to_pylist() for name in ("day", "id")}, where


def test_a_lookup_reads_only_the_stripes_that_were_kept(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one, stripes = an_id(root), []
    read_stripe = orc.ORCFile.read_stripe

    def counted(file: orc.ORCFile, number: int, columns: Any = None) -> pa.RecordBatch:
        stripes.append((number, columns))
        return read_stripe(file, number, columns)

    monkeypatch.setattr(orc.ORCFile, "read_stripe", counted)
    plan = bp.plan(root, f"id = {one}")
    assert (plan.unit, plan.total) == ("stripe", 24)
    assert 1 <= plan.kept <= 4
    assert bp.read_table(root, f"id = {one}", columns=["name"]).num_rows >= 1
    assert stripes == [(group.index, ["id", "name"]) for group in plan.kept_row_groups()]


@pytest.mark.parametrize("where", [None, "id < 50000", "id = -1", "day = DATE '1999-01-01'", "FALSE"])
@pytest.mark.parametrize("columns", [None, ["id"], ["day"], ["amount", "day", "id"], ["place", "tags"], []], ids=str)
def test_the_schema_does_not_depend_on_what_matches(where: str | None, columns: list[str] | None, root: str) -> None:
    everything = bp.read_table(root, "FALSE").schema
    found = bp.read_table(root, where, columns=columns)
    expected = everything if columns is None else pa.schema([everything.field(name) for name in columns])
    assert found.schema.equals(expected)
    batches = list(bp.scan_batches(root, where, columns=columns))
    assert sum(batch.num_rows for batch in batches) == found.num_rows
    assert all(batch.schema.equals(found.schema) for batch in batches)
    assert found.num_rows == bp.read_table(root, where, columns=["id"]).num_rows
    assert found.num_rows == (
        4 * ROWS if where is None else theirs(root, field("id") < 50000).num_rows if "50" in where else 0
    )


def test_files_of_other_writers_are_read_whole(orc_examples_dir: Path) -> None:
    over1k = orc_examples_dir / "over1k_bloom.orc"
    with gzip.open(orc_examples_dir / "over1k_bloom.jsn.gz", "rt") as lines:
        expected = [json.loads(line) for line in lines]
    found = bp.read_table(over1k)
    assert found.num_rows == len(expected)
    for name in ("_col0", "_col3", "_col7"):
        assert found[name].to_pylist() == [row[name] for row in expected]
    row = expected[123]
    where = f"_col3 = {row['_col3']} AND _col7 = '{row['_col7']}'"
    matching = [other for other in expected if (other["_col3"], other["_col7"]) == (row["_col3"], row["_col7"])]
    assert bp.read_table(over1k, where)["_col0"].to_pylist() == [other["_col0"] for other in matching]
    bad = orc_examples_dir / "bad_bloom_filter_1.6.0.orc"
    assert bp.read_table(bad, "id = 18000000000").to_pydict() == {"id": [18000000000], "name": ["Mike"]}
    assert bp.read_table(bad)["id"].to_pylist() == [0, 1, 2, 3, 18000000000]


# --- names


def test_columns_with_dots_and_other_cases_are_read_and_filtered(tmp_path: Path) -> None:
    path = write(tmp_path / "x.orc", {"a.b": [1, 2], "a": pa.array([{"b": 3}, {"b": 4}]), "UserId": ["x", "y"]})
    assert bp.read_table(path, "`a.b` = 2", columns=["a.b", "a"]).to_pydict() == {"a.b": [2], "a": [{"b": 4}]}
    assert bp.read_table(path, bp.Eq(("a", "b"), 3), columns=["a.b"]).to_pydict() == {"a.b": [1]}
    assert bp.read_table(path, bp.Eq("a.b", 1), columns=["a"]).to_pydict() == {"a": [{"b": 3}]}
    found = bp.read_table(path, "userid = 'y'", columns=["UserId"], case_sensitive=False)
    assert found.to_pydict() == {"UserId": ["y"]}
    with pytest.raises(bp.PlanError, match="did you mean 'UserId'"):
        bp.read_table(path, columns=["userid"])


def test_names_that_may_be_several_columns_are_an_error(tmp_path: Path) -> None:
    twice = write(tmp_path / "x.orc", pa.table([[1], [2]], names=["x", "x"]))
    with pytest.raises(bp.PlanError, match="may be any of x, x"):
        bp.read_table(twice)
    cases = write(tmp_path / "y.orc", {"id": [1], "ID": [2]})
    assert bp.read_table(cases, "ID = 2").to_pydict() == {"id": [1], "ID": [2]}
    with pytest.raises(bp.PlanError, match=r"ambiguous|may be any of"):
        bp.read_table(cases, "Id = 2", case_sensitive=False)


def test_files_that_differ_go_together_where_values_stay_what_they_are(tmp_path: Path) -> None:
    write(tmp_path / "1.orc", {"id": [1], "x": pa.array([1], pa.int64()), "l": pa.array([[1]], pa.list_(pa.int64()))})
    write(tmp_path / "2.orc", {"x": pa.array([2], pa.int32()), "new": ["n"], "l": pa.array([[2]], pa.list_(pa.int8()))})
    found = bp.read_table(tmp_path)
    assert found.to_pydict() == {"id": [1, None], "x": [1, 2], "l": [[1], [2]]}
    assert bp.read_table(tmp_path, "x = 2").to_pydict() == {"id": [None], "x": [2], "l": [[2]]}
    assert bp.read_table(tmp_path, "id IS NULL")["x"].to_pylist() == [2]
    assert bp.read_table(tmp_path, "new = 'n'").to_pydict() == {"id": [None], "x": [2], "l": [[2]]}
    merged = bp.read_table(tmp_path, "x > 0", merge_schema=True)
    assert merged.to_pydict() == {"id": [1, None], "x": [1, 2], "l": [[1], [2]], "new": [None, "n"]}
    write(tmp_path / "3.orc", {"x": ["text"]})
    with pytest.raises(bp.PlanError, match=r"3\.orc: column x is string here, which does not fit int64"):
        bp.read_table(tmp_path)


def test_the_first_file_says_what_the_columns_are_also_where_its_partition_is_not_read(tmp_path: Path) -> None:
    write(tmp_path / "p=1" / "x.orc", {"a": [1], "b": [1]})
    write(tmp_path / "p=2" / "x.orc", {"a": [2]})
    assert bp.read_table(tmp_path, "p = 2").to_pydict() == {"a": [2], "b": [None], "p": [2]}
    assert bp.read_table(tmp_path, "p = 3").schema.names == ["a", "b", "p"]
    assert bp.read_table(tmp_path, columns=["p"]).to_pydict() == {"p": [1, 2]}
    write(tmp_path / "p=0" / "x.orc", {"a": [0], "p": ["own"]})
    assert bp.read_table(tmp_path, "p = 0").to_pydict() == {"a": [0], "p": [0]}


def test_files_without_rows_or_columns_have_none(tmp_path: Path) -> None:
    write(tmp_path / "1.orc", {"x": pa.array([], pa.int64())})
    assert bp.read_table(tmp_path, "x = 1").to_pydict() == {"x": []}
    write(tmp_path / "2.orc", {"x": [1, 2]})
    assert bp.read_table(tmp_path, "x = 1").to_pydict() == {"x": [1]}
    assert bp.read_table(tmp_path, columns=[]).num_rows == 2
    assert bp.read_table(write(tmp_path / "none.orc", pa.table({}))).shape == (0, 0)


# --- types


@pytest.mark.parametrize(
    ("array", "value"),
    [
        (pa.array([1, -1, None], pa.int8()), -1),
        (pa.array([1.5, 2.5, None], pa.float32()), 2.5),
        (pa.array([float("nan"), 0.0, None]), float("nan")),
        (pa.array([-0.0, 1.0]), 0.0),
        (pa.array([True, False, None]), True),
        (pa.array([b"abc", b"abd"], pa.binary(3)), b"abd"),
        (pa.array([dt.date(2024, 1, 1), dt.date(1500, 1, 2)]), dt.date(1500, 1, 2)),
        (pa.array([Decimal("1.10"), Decimal("-2.20")], pa.decimal128(38, 2)), Decimal("-2.2")),
        (pa.array([dt.datetime(2024, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 500_000)]),
         dt.datetime(1969, 12, 31, 23, 59, 59, 500_000)),
        (pa.array([dt.datetime(2024, 1, 1), dt.datetime(1960, 1, 1, 0, 0, 0, 999_999)], pa.timestamp("us", "UTC")),
         dt.datetime(1960, 1, 1, 0, 0, 0, 999_999, UTC)),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)  # fmt: skip
def test_every_type_finds_its_value_and_nothing_else(array: pa.Array, value: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "x.orc", {"x": array, "s": pa.StructArray.from_arrays([array], ["in"])}, ["x"])
    for column in ("x", ("s", "in")):
        assert bp.read_table(path, bp.Eq(column, value)).num_rows == 1
        assert bp.read_table(path, bp.IsNull(column)).num_rows == array.null_count
        assert bp.read_table(path, bp.NotEq(column, value)).num_rows == len(array) - array.null_count - 1
        assert bp.read_table(path, bp.In(column, (value, None))).num_rows == 1


def test_sparks_timestamps_without_a_zone_are_compared_as_such(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("t", pa.int64(), metadata=NTZ)])
    micros = [1_715_940_000_000_001 + i for i in range(3000)]
    path = write(tmp_path / "x.orc", pa.table([micros], schema=schema), ["t"], row_index_stride=1000)
    first = dt.datetime(2024, 5, 17, 10, 0, 0, 1)
    assert bp.read_table(path, bp.Eq("t", first))["t"].to_pylist() == [first]
    assert bp.read_table(path, f"t <= TIMESTAMP '{first}'").num_rows == 1
    assert (
        bp.plan(path, bp.Eq("t", first)).row_group_counts == bp.plan(path, f"t = TIMESTAMP '{first}'").row_group_counts
    )
    assert bp.read_table(path, "t = TIMESTAMP '2024-05-17 10:00:00.0000005'").num_rows == 0


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
def test_a_reading_of_a_clock_is_compared_as_it_stands_and_moments_as_the_clock_shows_them(
    zone: str, tmp_path: Path
) -> None:
    readings = [dt.datetime(2024, 5, 17) + dt.timedelta(hours=i) for i in range(48)]
    path = write(tmp_path / "x.orc", {"t": pa.array(readings, pa.timestamp("us"))}, ["t"])
    at = readings[20]
    assert bp.read_table(path, bp.Eq("t", at), timezone=zone)["t"].to_pylist() == [at]
    hours = {"UTC": 0, "Europe/Berlin": 2, "America/New_York": -4}[zone]
    shown = at + dt.timedelta(hours=hours)
    for literal in (at.replace(tzinfo=UTC), f"{at}+00:00"):
        assert bp.read_table(path, bp.Eq("t", literal), timezone=zone)["t"].to_pylist() == [shown]
        assert bp.read_table(path, bp.Lt("t", literal), timezone=zone).num_rows == 20 + hours
        assert bp.read_table(path, bp.In("t", (literal,)), timezone=zone)["t"].to_pylist() == [shown]


def test_what_is_asked_of_a_clock_does_not_depend_on_which_files_are_opened(tmp_path: Path) -> None:
    write(tmp_path / "p=1" / "x.orc", {"t": [dt.datetime(2024, 5, 17)]})
    for day, rows in ((1, 1), (2, 0)):
        where = f"p = {day} AND t = TIMESTAMP '2024-05-16 22:00:00+00:00'"
        assert bp.read_table(tmp_path, where, timezone="Europe/Berlin").num_rows == rows


def test_unions_and_empty_structs_are_carried_along(tmp_path: Path) -> None:
    union = pa.UnionArray.from_sparse(pa.array([0, 1, 0], pa.int8()), [pa.array([1, 2, 3]), pa.array(["a", "b", "c"])])
    empty = pa.array([{}, None, {}], pa.struct([]))
    write(tmp_path / "1.orc", {"u": union, "e": empty, "x": [1, 2, 3]})
    write(tmp_path / "2.orc", {"x": [2]})
    assert bp.read_table(tmp_path, "x = 2").to_pydict() == {"u": ["b", None], "e": [None, None], "x": [2, 2]}


# --- storage and damage


def test_rows_come_from_memory_as_from_disk(tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    data = Path(write(tmp_path / "x.orc", {"x": list(range(5000))}, ["x"], row_index_stride=1000)).read_bytes()
    for i in range(3):
        memory.pipe(f"/orc/p={i}/x.orc", data)
    try:
        assert bp.read_table("memory://orc", "x = 4321 AND p > 0").to_pydict() == {"x": [4321, 4321], "p": [1, 2]}
    finally:
        memory.rm("/orc", recursive=True)


def test_a_damaged_stripe_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "x.orc", {"x": [f"{i:x}" * 7 for i in range(5000)]}, compression="zlib"))
    (stripe,) = bp.plan(path).kept_row_groups()
    data = bytearray(path.read_bytes())
    middle = stripe.start + stripe.length // 2
    data[middle : middle + 64] = b"\xff" * 64
    path.write_bytes(data)
    with pytest.raises(bp.FormatError, match=r"x\.orc: stripe 0: pyarrow cannot read it"):
        bp.read_table(path, "x = 'a'")


def test_damaged_files_are_passed_over_where_that_is_asked_for(tmp_path: Path) -> None:
    write(tmp_path / "2.orc", {"x": [1]})
    data = (tmp_path / "2.orc").read_bytes()
    (tmp_path / "1.orc").write_bytes(data[: len(data) // 2])
    with pytest.raises(bp.FormatError, match=r"1\.orc"):
        bp.read_table(tmp_path)
    for merge in (False, True):
        assert bp.read_table(tmp_path, skip_corrupt=True, merge_schema=merge).to_pydict() == {"x": [1]}
    with pytest.raises(FileNotFoundError, match=r"3\.orc"):
        bp.read_table(tmp_path / "3.orc")


def test_a_file_that_is_replaced_while_it_is_read_is_an_error_and_not_less_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By one of as many stripes and rows, with the row that is looked for in a stripe that was not kept."""
    options = {"stripe_size": 20_000, "batch_size": 1000, "row_index_stride": 1000}
    numbers = np.random.default_rng(5).integers(0, 10**9, 10_000)
    numbers[0], numbers[-1] = -7, 0
    path = write(tmp_path / "x.orc", {"x": numbers}, ["x"], **options)
    assert bp.plan(path, "x = -7").kept == 1
    read_stripe = orc.ORCFile.read_stripe

    def replaced(file: orc.ORCFile, number: int, columns: Any = None) -> pa.RecordBatch:
        found = read_stripe(file, number, columns)
        write(tmp_path / "x.orc", {"x": numbers[::-1]}, ["x"], **options)
        return found

    monkeypatch.setattr(orc.ORCFile, "read_stripe", replaced)
    with pytest.raises(bp.FormatError, match=r"x\.orc: the file changed since it was listed"):
        bp.read_table(path, "x = -7")


# --- reports and the command line


def test_a_report_is_of_stripes_and_tells_the_row_groups_inside(root: str) -> None:
    plan = bp.plan(root, f"id = {an_id(root)}")
    assert plan.row_group_counts is not None
    for detail in ("kept", "file", "all", "none"):
        out = io.StringIO()
        Console(file=out, width=200).print(render.plan_report(plan, detail=detail))
        text = out.getvalue()
        assert "stripes" in text.splitlines()[0]
        assert f"Row groups inside: {plan.row_group_counts.kept} of {plan.row_group_counts.total} might match" in text
        assert detail == "none" or "stripe " in text.split("Planned")[1] or "stripes" in text.split("Planned")[1]
        assert "row group " not in text
    whole = io.StringIO()
    Console(file=whole, width=200).print(render.plan_report(bp.plan(root, "id >= 0")))
    assert f"{plan.row_group_counts.total} of {plan.row_group_counts.total} might match." in whole.getvalue()


def test_json_says_what_the_unit_is(run: Run, root: str) -> None:
    one = an_id(root)
    found = json.loads(run("plan", root, "--where", f"id = {one}", "--json").out)
    plan = bp.plan(root, f"id = {one}")
    assert plan.row_group_counts is not None
    assert (found["unit"], found["total"], found["kept"]) == ("stripe", plan.total, plan.kept)
    assert len(found["row_groups"]) == plan.total
    inside = found["inside"]
    assert inside["total"] == inside["kept"] + sum(inside["skipped"].values()) == plan.row_group_counts.total
    assert inside["kept"] == plan.row_group_counts.kept


def test_the_command_line_reads_what_matches(run: Run, root: str) -> None:
    one = an_id(root)
    rows = run("read", root, "--where", f"id = {one}", "--columns", "id,name,day", "--json").out.splitlines()
    expected = theirs(root, field("id") == one, ["id", "name", "day"]).to_pylist()
    assert sorted(map(json.loads, rows), key=str) == sorted(({**r, "day": str(r["day"])} for r in expected), key=str)
    empty = run("read", root, "--where", "id = -1", "--columns", "id,day")
    assert empty.out.split() == ["id", "day"]
