"""Nested columns in predicates: planning and reading refuse the same comparisons with the same error."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

import bloomparquet as bp
from tests.support.core import plan_with
from tests.support.files import hive, write

COLUMNS = {
    "id": [1, 2],
    "st": pa.array([{"x": 1, "in": {"y": 1}}, None]),
    "l": pa.array([[1], None], pa.list_(pa.int64())),
    "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
    "ls": pa.array([[{"z": 1}], None]),
}
REFUSED = [
    ("st = 5", "column 'st' is a struct; only .* can be used on it; compare one of its fields: x, in"),
    ("NOT (id = 1 OR st < 5)", "column 'st' is a struct"),
    ("st.in >= 5", r"column 'st\.in' is a struct"),
    ("l = 5", "column 'l' is a list; only IS NULL and IS NOT NULL can be used on it$"),
    ("m = 5", "column 'm' is a map; only"),
    *(
        (where, r"is inside a (list|map); only structs have fields to compare")
        for where in ("l.element = 5", "l.list.element = 5", "m.key = 'k'", "m.value IS NULL", "ls.element.z = 1")
    ),
]


def parquet(path: Path) -> str:
    return write(path / "t.parquet", pa.table(COLUMNS))


def orc_file(path: Path) -> str:
    orc.write_table(pa.table(COLUMNS), path / "t.orc")
    return str(path / "t.orc")


@pytest.fixture(scope="module", params=[parquet, orc_file])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    made: str = request.param(tmp_path_factory.mktemp("comparable"))
    return made


@pytest.mark.parametrize(("where", "message"), REFUSED)
def test_structs_lists_maps_and_what_is_in_them_are_not_compared(where: str, message: str, path: str) -> None:
    for function in (bp.plan, bp.read_table, bp.scan_batches):
        with pytest.raises(bp.PlanError, match=message):
            function(path, where)
    assert plan_with(path, where, strict=False).kept == 1  # not strict: Spark decides


@pytest.mark.parametrize("column", ["st", "`st`.`in`", "l", "m", "ls"])
def test_is_null_works_on_nested_columns(column: str, path: str) -> None:
    for where in (f"{column} IS NULL", f"{column} <=> NULL", f"{column} IS NOT NULL"):
        assert bp.plan(path, where).kept == 1
        assert bp.read_table(path, where).num_rows == 1


def test_partition_column_hides_a_struct_of_its_name(tmp_path: Path) -> None:
    root = hive(tmp_path, {"st=5": {"id": [1], "st": pa.array([{"x": 1}])}})
    assert bp.plan(root, "st = 5").kept == 1
    assert bp.read_table(root, "st = 5", columns=["id"]).num_rows == 1
