"""Conditions that rows are not filtered by: reading is an error that names them, and a plan keeps their row groups."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pytest

import bloomparquet as bp
from tests.support.commands import Run
from tests.support.files import write

ROWS = 400
DATA = pa.table(
    {
        "id": [i * 7919 % 4_001 for i in range(ROWS)],
        "other": range(ROWS),
        "word": [f"w{i}" if i % 7 else None for i in range(ROWS)],
        "day": pa.array(range(ROWS), pa.date32()),
        "f": pa.array(range(ROWS), pa.float64()),
        "s": [{"x": i} for i in range(ROWS)],
    }
)
AN_ID = DATA["id"][123].as_py()


@pytest.fixture(scope="module", params=["parquet", "orc"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("t")
    if request.param == "parquet":
        return write(root / "0.parquet", DATA, ["id"], rows_per_group=100)
    pyarrow.orc.write_table(DATA, str(root / "0.orc"))
    return str(root / "0.orc")


READ: dict[str, Callable[[str, Any], Any]] = {
    "read_table": bp.read_table,
    "scan_batches": bp.scan_batches,
    "count": bp.count,
    "Dataset.read_table": lambda path, where: bp.Dataset.open(path).read_table(where),
    "Dataset.scan_batches": lambda path, where: bp.Dataset.open(path).scan_batches(where),
    "Dataset.count": lambda path, where: bp.Dataset.open(path).count(where),
    "Dataset.to_dataset": lambda path, where: bp.Dataset.open(path).to_dataset(where),
}


def test_these_are_all_public_functions_with_a_condition() -> None:
    owned = {name: getattr(bp, name) for name in bp.__all__}
    methods = inspect.getmembers(bp.Dataset, inspect.isfunction)
    owned |= {f"Dataset.{name}": method for name, method in methods if not name.startswith("_")}
    functions = {name: function for name, function in owned.items() if inspect.isfunction(function)}
    conditional = {name for name, function in functions.items() if "where" in inspect.signature(function).parameters}
    assert conditional == READ.keys() | {"plan", "Dataset.plan"}


NAMED = {  # each condition, and the part of it that the error names
    "length(word) = 3": "LENGTH(word) = 3",
    f"id = {AN_ID} AND length(word) = 3": "LENGTH(word) = 3",
    f"id = {AN_ID} OR NOT trim(word) IN ('w1')": "TRIM(word) IN ('w1')",
    "id = -1 AND year(day) = 1970": "YEAR(day) = 1970",  # the plan skips everything
    "id < other": "id < other",
    "NOT (id <=> s.x)": "id IS NOT DISTINCT FROM s.x",
    "other BETWEEN 5 AND id": "other <= id",
    "isnan(f)": "ISNAN(f)",
    "abs(f) IS NULL": "ABS(f) IS NULL",
    "lower(word) LIKE 'w1%'": "LOWER(word) LIKE 'w1%'",
    "upper(word) = lower(word)": "UPPER(word) = LOWER(word)",
}


@pytest.mark.parametrize("name", READ)
def test_reading_is_an_error_that_names_the_condition(name: str, path: str) -> None:
    for where in NAMED if name == "read_table" else list(NAMED)[:2]:
        with pytest.raises(bp.PlanError, match="leave it out, and filter the result") as raised:
            READ[name](path, where)
        assert NAMED[where] in str(raised.value)
        if name != "Dataset.to_dataset":
            with pytest.raises(bp.PlanError, match="cannot use"):
                READ[name](path, bp.plan(path, where).where)


def test_the_command_line_refuses_them(path: str, run: Run) -> None:
    result = run("read", path, "--where", "length(word) = 3")
    assert (result.code, result.out) == (1, "")
    assert "cannot use 'LENGTH(word) = 3' in where" in result.err


KEPT = {  # the row groups of four that a plan keeps
    f"id = {AN_ID} AND length(word) = 4": 1,
    f"id = {AN_ID} AND id < other AND length(no_such) = 1": 1,
    f"id = {AN_ID} OR length(word) = 2": 4,
    f"NOT (id <> {AN_ID} OR word = trim(word))": 1,
    "other BETWEEN 300 AND id": 1,
    "length(word) = 3": 4,
    "NOT length(word) = 3": 4,
    "FALSE AND length(word) = 3": 0,
    f"(id = {AN_ID} AND initcap(word) = 'x') OR (other = 399 AND word = trim(word))": 2,
}


@pytest.mark.parametrize("where", KEPT)
def test_a_plan_keeps_what_the_rest_of_the_condition_keeps(where: str, tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", DATA, ["id"], rows_per_group=100)
    for plan in (bp.plan(path, where), bp.Dataset.open(path).plan(where)):
        assert (plan.kept, "not used: " in repr(plan)) == (KEPT[where], True)
    with pytest.raises(bp.PlanError, match="column 'no' is in none of the files"):
        bp.plan(path, f"({where}) AND no = 2")
