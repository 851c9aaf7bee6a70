"""Expressions of pyarrow as `where`: the rows are those of pyarrow, read from fewer row groups."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import bloomparquet as bp
from tests.support.expressions import DATA, PER_GROUP, ROWS, ZONE, f, same_rows
from tests.support.files import hive, write

BLOOM = [*(name for name in DATA.schema.names if name not in ("flag", "st", "f64", "f32", "day")), "st.a"]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("expressions") / "t" / "0.parquet", DATA, BLOOM, rows_per_group=PER_GROUP)


AT = dt.datetime(2026, 1, 3, 5, tzinfo=ZONE)
PRUNED: dict[str, Any] = {
    "equal": f("id") == 42,
    "exchanged": pc.scalar(42) == f("id"),
    "beside an unknown function": (f("id") == 42) & (pc.utf8_lower(f("word")) == "w42"),
    "list": f("word").isin(["w42", "w43"]),
    "or": (f("id") == 42) | (f("word") == "w43"),
    "decimal": f("price") == Decimal("0.42"),
    "timestamp": f("at") == AT,
    "bytes": f("blob") == b"42",
    "narrow": f("small") == pa.scalar(42, pa.int16()),
    "date": f("day") > dt.date(2026, 7, 1),
    "not": ~(f("day") <= dt.date(2026, 7, 1)),
    "two": (f("id") == 42) & (f("day") >= dt.date(2026, 1, 1)),
    "literal": pc.scalar(False) | (f("id") == 42),
    "field": f("st", "a") == 42,
    "field in a list": f("st", "a").isin([42]),
    "field not null": f("st", "a").is_valid() & ~(f("id") != 42),
    "list of DuckDB": pc.if_else(f("id").is_valid(), f("id").isin([42]), pa.scalar(None, pa.bool_())),
    "flag": f("flag") & (f("id") == 42),
    "not an or": ~((f("id") != 42) | f("small").is_null()),
}
KEPT: dict[str, Any] = {
    "or with an unknown function": (f("id") == 42) | (pc.utf8_lower(f("word")) == "w43"),
    "cast": f("id").cast(pa.float64()) == 42.0,
    "columns": f("id") == f("big"),
    "no column": pc.scalar(True),
    "a choice": pc.if_else(f("id") == 42, f("small") == 42, f("word") == "w43"),
    "a bit": pc.bit_wise_and(f("id"), 1) == 1,
}


@pytest.mark.parametrize("name", PRUNED)
def test_what_is_understood_skips_row_groups(name: str, path: str) -> None:
    plan = same_rows(PRUNED[name], path)
    assert plan.total == ROWS // PER_GROUP
    assert 1 <= plan.kept <= 4, plan


@pytest.mark.parametrize("name", KEPT)
def test_what_is_not_understood_keeps_everything(name: str, path: str) -> None:
    plan = same_rows(KEPT[name], path)
    assert plan.kept == ROWS // PER_GROUP
    is_true = name == "no column"
    assert ("not used: " in repr(plan)) is not is_true
    assert any(each.reason.name == "ALWAYS_TRUE" for each in plan.explain().reasons()) is is_true


def test_partition_columns_and_later_columns_are_found(tmp_path: Path) -> None:
    root = hive(
        tmp_path / "t",
        {f"day=2026-01-0{day}": {"id": [day], **({"more": [day]} if day == 3 else {})} for day in (1, 2, 3)},
    )
    where = f("day") == dt.date(2026, 1, 2)
    assert bp.plan(root, where).skipped == {"partition": 2}
    assert bp.read_table(root, where)["id"].to_pylist() == [2]
    assert bp.read_table(root, f("more") == 3, ["id"])["id"].to_pylist() == [3]
    assert bp.read_table(root, f("more").is_null(), ["id"])["id"].to_pylist() == [1, 2]


@pytest.mark.parametrize(("where", "message"), [(f("nothing") == 1, "nothing"), (f("word") == 1, "has no kernel")])
def test_an_expression_that_does_not_fit_is_an_error(where: Any, message: str, path: str) -> None:
    for function in (bp.plan, bp.read_table):
        with pytest.raises(bp.PlanError, match=message):
            function(path, where)


def test_an_error_of_one_row_names_the_file_and_not_the_value(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", {"u": pa.array([1, 2**63], pa.uint64())})
    with pytest.raises(bp.PlanError, match=r"t\.parquet: where is .* fails for some rows") as error:
        bp.read_table(path, f("u").cast(pa.int8()) == 1)
    assert str(2**63) not in str(error.value)


def test_columns_by_number_are_an_error(path: str) -> None:
    for where in (pc.field(0) > 2, (pc.field("id") > 2) & (pc.field(1) == 3)):
        with pytest.raises(bp.PlanError, match="by its number"):
            bp.plan(path, where)


def test_a_file_may_lack_a_column_of_an_expression(tmp_path: Path) -> None:
    root = hive(tmp_path / "t", {"day=1": {"id": [1, 2]}, "day=2": {"id": [3], "s": ["a"]}})
    where = (pc.field("day") == 1) & (pc.starts_with(pc.field("s"), "a") | (pc.field("id") == 1))
    assert bp.read_table(root, where)["id"].to_pylist() == [1]


def test_deeply_nested_expressions_are_planned(path: str) -> None:
    wanted = DATA["id"][1234]
    where = pc.field("id") == wanted
    for number in range(2_000):
        where = where & (pc.field("id") != 4_000 + number)
    deep = pc.field("id") == wanted
    for number in range(200):
        deep = ~(~deep & (pc.field("id") != 4_000 + number))
    for number in range(200):
        deep = pc.if_else(pc.field("id") != 4_000 + number, deep, pa.scalar(None, pa.bool_()))
    where = where & deep
    plan = bp.plan(path, where)
    assert 0 < plan.kept < plan.total
    assert bp.read_table(path, where)["id"].to_pylist() == [wanted.as_py()]


def test_an_expression_of_polars_is_an_error_with_the_remedy(path: str) -> None:
    where: Any = pl.col("id") == 42
    dataset = bp.Dataset.open(path)
    of_dataset = (dataset.plan, dataset.read_table, dataset.scan_batches, dataset.count, dataset.to_dataset)
    functions: list[Callable[[Any], Any]] = [
        partial(each, path) for each in (bp.plan, bp.read_table, bp.scan_batches, bp.count)
    ]
    for function in (*functions, *of_dataset):
        with pytest.raises(
            bp.PlanError, match=r"of polars; expected SQL text.*pl\.scan_pyarrow_dataset\(bp\.dataset\(path\)\)"
        ):
            function(where)
    frame = pl.scan_pyarrow_dataset(bp.dataset(path))
    assert frame.filter(where).collect()["word"].to_list() == ["w42"]
