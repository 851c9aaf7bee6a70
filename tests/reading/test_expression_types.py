"""Expressions on types with rules of their own: NaN and zeros, time zones, lists of another type, fields of structs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import bloomparquet as bp
from tests.support.expressions import DATA, NAN, expected, f, same_rows
from tests.support.files import write

UNPRUNED: dict[str, Any] = {
    f"{name} {text}": make(f(name))
    for name in ("f64", "f32")
    for text, make in {
        "> 5": lambda x: x > 5.0, "not > 5": lambda x: ~(x > 5.0), "not < 5": lambda x: ~(x < 5.0),
        "= nan": lambda x: x == NAN,
        "not = nan": lambda x: ~(x == NAN), "in nan": lambda x: x.isin([NAN]), "not in 0": lambda x: ~x.isin([0.0]),
        "= 0": lambda x: x == 0.0, "not in -0": lambda x: ~x.isin([-0.0]), "in null": lambda x: x.isin([None, 3.0]),
        "null": lambda x: x.is_null(nan_is_null=True), "not null": lambda x: ~x.is_null(), "<> 0": lambda x: x != 0.0,
    }.items()
}  # fmt: skip


@pytest.mark.parametrize("name", UNPRUNED)
def test_nan_and_zeros_match_by_the_rules_of_arrow(name: str, tmp_path: Path) -> None:
    """Each row group has few values, so that a wrong verdict on one of them loses rows."""
    where, column = UNPRUNED[name], name.partition(" ")[0]
    values = [[NAN], [NAN, 3.0], [0.0], [-0.0], [None], [10.0, NAN], [5.0], [0.0, None]]
    data = pa.table(
        {column: pa.array([v for group in values for v in (group * 2)[:2]], DATA.schema.field(column).type)}
    )
    path = write(tmp_path / "0.parquet", data, [column], rows_per_group=2)
    same_rows(where, path, data)


def test_fields_of_structs_match_by_the_rules_of_pyarrow(tmp_path: Path) -> None:
    """Null structs, null fields, fields whose names hide columns, and fields of fields; a row group each."""
    values: list[list[Any]] = [
        [None, {"a": 1, "in": {"b": 1}}], [{"a": None, "in": None}] * 2, [{"a": 2, "in": {"b": None}}] * 2, [None] * 2,
        [{"a": 7, "in": {"b": 7}}] * 2,
    ]  # fmt: skip
    kind = pa.struct([("a", pa.int64()), ("in", pa.struct([("b", pa.int64())])), ("l", pa.list_(pa.int64()))])
    rows = [row for group in values for row in group]
    data = pa.table({"st": pa.array(rows, kind), "st.a": list(range(10)), "a": [5] * 10})
    path = write(tmp_path / "x.parquet", data, ["st.a", "st.in.b"], rows_per_group=2)
    skipped = 0
    column = f("st.a")
    for field in (f("st", "a"), f("st", "in", "b")):
        for test in (
            field == 7, field != 2, field > 1, field.is_null(), ~field.is_null(), ~(field == 1), field == 100,
            (field == 1) | (field >= 7), field.isin([1, 2]),
        ):  # fmt: skip
            skipped += sum(bp.plan(path, test).skipped.values())
            for where in (test, test & (column < 9), test | (column == 3)):
                assert bp.read_table(path, where)["st.a"].equals(expected(where, data)["st.a"]), str(where)
    assert skipped > 40


@pytest.mark.parametrize("value", [0, 7, 2**63 - 1, 2**63, 2**64 - 1])
def test_unsigned_literals_skip_row_groups(tmp_path: Path, value: int) -> None:
    values: list[list[int | None]] = [[0, 1], [7, 8], [2**63 - 1] * 2, [2**63] * 2, [2**64 - 2, 2**64 - 1], [None] * 2]
    data = pa.table({"u": pa.array([each for group in values for each in group], pa.uint64())})
    path = write(tmp_path / "x.parquet", data, ["u"], rows_per_group=2)
    column, literal = f("u"), pc.scalar(pa.scalar(value, pa.uint64()))
    listed = pa.array([value, 8], pa.uint64())
    for where in (
        column == literal, column < literal, column >= literal, column != literal, column.isin(listed),
        (column == literal) | (column == pc.scalar(pa.scalar(1, pa.uint64()))), ~(column <= literal),
    ):  # fmt: skip
        same_rows(where, path, data)
    assert sum(bp.plan(path, column == literal).skipped.values()) == 5
    assert sum(bp.plan(path, column.isin(listed)).skipped.values()) >= 4
