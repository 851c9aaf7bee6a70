"""`read_table` and `scan_batches` of both file formats return exactly the matching rows, as pyarrow does."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import bloomparquet as bp
from tests.support.events import ROWS, an_id, by_pyarrow, write, write_events

field = pc.field
UTC = dt.timezone.utc
FORMATS = ("parquet", "orc")


@pytest.fixture(scope="module", params=FORMATS)
def events(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_events(tmp_path_factory.mktemp("events"), request.param)


@pytest.fixture(params=FORMATS)
def suffix(request: pytest.FixtureRequest) -> str:
    return f".{request.param}"


def test_rows_equal_pyarrows(events: str) -> None:
    one = an_id(events)
    name, cents, day = f"user-{one % 977}", Decimal(one) / 100, dt.date(2026, 1, 2)
    moment = dt.datetime(2026, 1, 4, 20)
    unit = by_pyarrow(events, field("id") < 0).schema.field("at").type.unit
    instant = pa.scalar(moment.replace(tzinfo=UTC), pa.timestamp(unit, "UTC"))
    cases: list[tuple[str, Any]] = [
        (f"id = {one}", field("id") == one),
        (f"id IN ({one}, -1, {one + 1})", field("id").isin([one, -1, one + 1])),
        (f"name = '{name}'", field("name") == name),
        (f"amount = {cents}", field("amount") == pa.scalar(cents, pa.decimal128(12, 2))),
        ("day = DATE '2026-01-02' AND id < 5000", (field("day") == day) & (field("id") < 5000)),
        ("id >= 99000 OR name IS NULL", (field("id") >= 99000) | field("name").is_null()),
        ("NOT (id < 99000)", ~(field("id") < 99000)),
        ("name <> 'user-1' AND id > 98000", (field("name") != "user-1") & (field("id") > 98000)),
        (f"place.zip = {one}", field("place", "zip") == one),
        ("name LIKE 'user-97%'", pc.starts_with(field("name"), "user-97")),
        (f"at >= TIMESTAMP '{moment}'", field("at") >= instant),
        (f"clock >= TIMESTAMP '{moment}'", field("clock") >= pa.scalar(moment, pa.timestamp(unit))),
        ("id = -5", field("id") == -5),
    ]
    for where, condition in cases:
        expected = by_pyarrow(events, condition).sort_by([("day", "ascending")]).combine_chunks()
        result = bp.read_table(events, where)
        assert result.schema.equals(expected.schema), where
        assert result.drop_columns("score").equals(expected.drop_columns("score")), where
        assert repr(result.column("score").to_pylist()) == repr(expected.column("score").to_pylist()), where
        some = bp.read_table(events, where, columns=["day", "id"])
        assert some.to_pydict() == {name: expected[name].to_pylist() for name in ("day", "id")}, where


@pytest.mark.parametrize(
    ("where", "condition"),
    [
        (None, None),
        ("id < 50000", field("id") < 50_000),
        ("id = -1", field("id") == -1),
        ("day = DATE '2026-01-01'", field("day") == dt.date(2026, 1, 1)),
        ("day = DATE '1999-01-01'", field("id") < 0),
        ("FALSE", field("id") < 0),
    ],
    ids=str,
)
@pytest.mark.parametrize("columns", [None, ["id"], ["day"], ["amount", "day", "id"], ["place", "tags"], []], ids=str)
def test_the_schema_does_not_depend_on_what_matches(
    where: str | None, condition: Any, columns: list[str] | None, events: str
) -> None:
    everything = bp.read_table(events, "FALSE").schema
    result = bp.read_table(events, where, columns=columns)
    expected = everything if columns is None else pa.schema([everything.field(name) for name in columns])
    assert result.schema.equals(expected)
    batches = list(bp.scan_batches(events, where, columns=columns))
    assert sum(batch.num_rows for batch in batches) == result.num_rows
    assert all(batch.schema.equals(result.schema) for batch in batches)
    assert result.num_rows == (4 * ROWS if where is None else by_pyarrow(events, condition, ["id"]).num_rows)


def test_a_partition_column_alone_has_all_rows(tmp_path: Path, suffix: str) -> None:
    for value, rows in (("1", [1, 2]), ("2", [3]), ("__HIVE_DEFAULT_PARTITION__", [4])):
        write(tmp_path / f"p={value}" / f"x{suffix}", {"x": rows})
    assert sorted(bp.read_table(tmp_path, columns=["p"])["p"].to_pylist(), key=str) == [1, 1, 2, None]
    assert bp.read_table(tmp_path, "p IS NULL", columns=["x"]).to_pydict() == {"x": [4]}


def test_names_with_dots_or_another_case_are_read(tmp_path: Path, suffix: str) -> None:
    data = {"a.b": [1, 2], "a": pa.array([{"b": 3}, {"b": 4}]), "a.b.c": ["p", "q"], "UserId": ["x", "y"]}
    path = write(tmp_path / f"x{suffix}", data, ["UserId"])
    row = {"a.b": [2], "a": [{"b": 4}], "a.b.c": ["q"], "UserId": ["y"]}
    assert bp.read_table(path, "`a.b` = 2").to_pydict() == row
    assert bp.read_table(path, columns=["a.b"]).to_pydict() == {"a.b": [1, 2]}
    assert bp.read_table(path, bp.Eq(("a", "b"), 3), columns=["a.b"]).to_pydict() == {"a.b": [1]}
    assert bp.read_table(path, bp.Eq("a.b", 1), columns=["a"]).to_pydict() == {"a": [{"b": 3}]}
    assert bp.read_table(path, "userid = 'y'", case_sensitive=False).to_pydict() == row
    assert bp.read_table(path, columns=["userid", "A"], case_sensitive=False).column_names == ["UserId", "a"]
    with pytest.raises(bp.PlanError, match="did you mean 'UserId'"):
        bp.read_table(path, columns=["userid"])


def test_the_error_for_a_column_that_is_not_read_says_why(tmp_path: Path) -> None:
    write(tmp_path / "1.parquet", {"id": [1], "st": [{"x": {"y": 1}}]})
    for name in ("st.x", "st.x.y"):
        with pytest.raises(bp.PlanError, match=f"'{name}' is in none of the files; columns are read whole: name 'st'"):
            bp.read_table(tmp_path, columns=[name])
    write(tmp_path / "2.parquet", {"id": [2], "st": [{"x": {"y": 1}}], "extra": [3]})
    with pytest.raises(bp.PlanError, match=r"'extra' is not in the first file \(merge_schema=True, or --merge-schema"):
        bp.read_table(tmp_path, "extra = 3", columns=["extra"])
    assert bp.read_table(tmp_path, "extra = 3", columns=["extra"], merge_schema=True).to_pylist() == [{"extra": 3}]
    with pytest.raises(bp.PlanError, match="'extr' is in none of the files; did you mean 'extra'"):
        bp.read_table(tmp_path, columns=["extr"], merge_schema=True)


def test_ambiguous_names_are_errors(tmp_path: Path, suffix: str) -> None:
    twice = write(tmp_path / f"x{suffix}", pa.table([[1], [2]], names=["x", "x"]))
    with pytest.raises(bp.PlanError, match="is ambiguous: it matches x, x"):
        bp.read_table(twice)
    with pytest.raises(bp.PlanError, match="'x' is ambiguous: 2 columns have this name"):
        bp.read_table(twice, columns=["x"])
    for columns in ([1], [None], ["x", b"x"]):
        with pytest.raises(bp.OptionError, match="expected names, as text"):
            bp.read_table(twice, columns=columns)  # type: ignore[arg-type]
    cases = write(tmp_path / f"y{suffix}", {"id": [1], "ID": [2]})
    assert bp.read_table(cases, "ID = 2").to_pydict() == {"id": [1], "ID": [2]}
    with pytest.raises(bp.PlanError, match="ambiguous"):
        bp.read_table(cases, "Id = 2", case_sensitive=False)


def test_differing_schemas_are_merged_without_loss(tmp_path: Path, suffix: str) -> None:
    wide, narrow = pa.list_(pa.int64()), pa.list_(pa.int8())
    write(tmp_path / f"1{suffix}", {"id": [1], "x": pa.array([1], pa.int64()), "l": pa.array([[1]], wide)})
    write(tmp_path / f"2{suffix}", {"x": pa.array([2], pa.int32()), "new": ["n"], "l": pa.array([[2]], narrow)})
    result = bp.read_table(tmp_path)
    assert result.to_pydict() == {"id": [1, None], "x": [1, 2], "l": [[1], [2]]}
    assert bp.read_table(tmp_path, "x = 2").to_pydict() == {"id": [None], "x": [2], "l": [[2]]}
    assert bp.read_table(tmp_path, "id IS NULL")["x"].to_pylist() == [2]
    assert bp.read_table(tmp_path, "new IS NULL")["x"].to_pylist() == [1]
    assert bp.read_table(tmp_path, "new = 'n'").to_pydict() == {"id": [None], "x": [2], "l": [[2]]}
    merged = bp.read_table(tmp_path, "x > 0", merge_schema=True)
    assert merged.to_pydict() == {"id": [1, None], "x": [1, 2], "l": [[1], [2]], "new": [None, "n"]}
    write(tmp_path / f"3{suffix}", {"x": ["text"]})
    with pytest.raises(bp.PlanError, match=r"3\..*: column x has type string, which cannot be converted to int64"):
        bp.read_table(tmp_path)


def test_the_first_file_defines_the_columns_even_if_skipped(tmp_path: Path, suffix: str) -> None:
    write(tmp_path / "p=1" / f"x{suffix}", {"a": [1], "b": [1]})
    write(tmp_path / "p=2" / f"x{suffix}", {"a": [2]})
    assert bp.read_table(tmp_path, "p = 2").to_pydict() == {"a": [2], "b": [None], "p": [2]}
    assert bp.read_table(tmp_path, "p = 3").schema.names == ["a", "b", "p"]
    assert bp.read_table(tmp_path, columns=["p"]).to_pydict() == {"p": [1, 2]}
    write(tmp_path / "p=0" / f"x{suffix}", {"a": [0], "p": ["own"]})
    assert bp.read_table(tmp_path, "p = 0").to_pydict() == {"a": [0], "p": [0]}


def test_files_without_rows_or_columns_are_read(tmp_path: Path, suffix: str) -> None:
    write(tmp_path / f"1{suffix}", {"x": pa.array([], pa.int64())})
    assert bp.read_table(tmp_path, "x = 1").to_pydict() == {"x": []}
    write(tmp_path / f"2{suffix}", {"x": [1, 2]})
    assert bp.read_table(tmp_path, "x = 1").to_pydict() == {"x": [1]}
    assert bp.read_table(tmp_path, columns=[]).num_rows == 2
    assert bp.read_table(write(tmp_path / f"none{suffix}", pa.table({}))).shape == (0, 0)


def test_skip_corrupt_leaves_out_damaged_files_and_names_them(
    tmp_path: Path, suffix: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / f"2{suffix}", {"x": [1]})
    data = (tmp_path / f"2{suffix}").read_bytes()
    damaged = tmp_path / f"1{suffix}"
    damaged.write_bytes(data[: len(data) // 2])
    with pytest.raises(bp.FormatError, match=r"1\."):
        bp.read_table(tmp_path)
    for merge in (False, True):
        caplog.clear()
        assert bp.read_table(tmp_path, skip_corrupt=True, merge_schema=merge).to_pydict() == {"x": [1]}
        assert caplog.text.count(f"damaged files left out: 1; the first: {damaged}: ") == 1
    for where, kept in (("x = 1", 1), ("x = 2", 0), (None, 1)):
        plan = bp.plan(tmp_path, where, skip_corrupt=True)
        assert ([file.path for file in plan.left_out], plan.kept, plan.total) == ([str(damaged)], kept, 1)
        assert str(damaged) in str(*plan.left_out.values())
        assert "1 damaged file left out" in repr(plan)
        assert not bp.plan(tmp_path / f"2{suffix}", where, skip_corrupt=True).left_out
    with pytest.raises(FileNotFoundError, match=r"3\."):
        bp.read_table(tmp_path / f"3{suffix}")
