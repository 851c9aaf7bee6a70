"""Footers and filter headers with random changes give a plan or an error of ours."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

import bloomparquet as bp
from tests.support.core import Field, column_metadata, edit_footer, plan_with
from tests.support.files import write

TABLE = pa.table(
    {
        "x": list(range(0, 60, 2)),
        "s": [f"value {i}" for i in range(30)],
        "f": [i / 2 for i in range(30)],
        "d": pa.array(range(30), pa.int64()).cast(pa.decimal128(20, 0)),
        "st": pa.array([{"u": bytes([i] * 16)} if i % 3 else None for i in range(30)]),
        "l": [[i] for i in range(30)],
        "b": [True, None, False] * 10,
    }
)
WHERES = [
    "x = 31",
    "s = 'value 7'",
    "f >= 3.5 OR d < 4",
    "d = 5 AND x IN (1, 2, 3)",
    "st.u = X'01' OR b IS NULL",
    "b = TRUE",
    "s LIKE 'value%'",
    "NOT x = 3",
]


@pytest.mark.parametrize("number", [2**63, 2**64 - 1, 2**69, -(2**63), -1])
@pytest.mark.parametrize("field", ["num_values", "null_count", "offset", "length", "rows"])
def test_numbers_out_of_range_are_errors_or_skip_nothing(field: str, number: int, tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", TABLE, ["x"])

    def spoil(metadata: dict[int, Field]) -> None:
        chunk = column_metadata(metadata)
        if field == "rows":
            metadata[4].value.values[0][3] = Field(6, number)
        elif field == "null_count":
            chunk[12].value[3] = Field(6, number)
        else:
            chunk[{"num_values": 5, "offset": 14, "length": 15}[field]] = Field(6, number)

    edit_footer(path, spoil)
    plan = None
    with suppress(bp.BloomParquetError):
        plan = plan_with(path, "x IN (4, 31)", strict=False)
    assert plan is None or plan.kept == 1


def test_bounds_without_a_defined_order_are_not_used(tmp_path: Path) -> None:
    """Older files have no column_orders, and deprecated bounds of unsigned numbers and text in signed byte order."""
    table = pa.table({"s": ["a", "ä"], "u": pa.array([1, 2**31], pa.uint32()), "x": [1, 5]})
    path = write(tmp_path / "x.parquet", table)

    def age(metadata: dict[int, Field]) -> None:
        metadata.pop(7)
        for column in (0, 1):
            statistics = column_metadata(metadata, 0, column)[12].value
            statistics[1], statistics[2] = (
                statistics.pop(6),
                statistics.pop(5),
            )  # as signed bytes: "ä" before "a", 2**31 before 1

    edit_footer(path, age)
    for where in ("s = 'b'", "s = 'ä'", "u = 2147483648", "u > 5", "x = 4"):
        assert bp.plan(path, where).kept == 1, where


def test_bounds_in_a_custom_order_are_not_used(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", {"s": ["a", "B", "c"]})

    def reorder(metadata: dict[int, Field]) -> None:
        statistics = column_metadata(metadata)[12].value
        statistics[5], statistics[6] = Field(8, b"c"), Field(8, b"a")  # case ignored
        metadata[7] = Field(9, metadata[7].value._replace(values=[{9: Field(12, {})}]))

    edit_footer(path, reorder)
    assert bp.plan(path, "s = 'B'").kept == 1
    edit_footer(path, lambda metadata: metadata.pop(7))
    assert bp.plan(path, "s = 'B'").kept == 1


def test_unknown_fields_change_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", TABLE, ["x"], rows_per_group=10)

    def add(metadata: dict[int, Field]) -> None:
        metadata[99] = Field(12, {1: Field(8, b"later"), 7: Field(9, metadata[2].value._replace(values=[]))})
        for i in range(3):
            column_metadata(metadata, i)[60] = Field(8, bytes(i))
            metadata[4].value.values[i][77] = Field(1, True)

    before = [bp.plan(path, where).kept for where in WHERES]
    edit_footer(path, add)
    assert [bp.plan(path, where).kept for where in WHERES] == before


def test_a_group_without_leaf_columns_is_a_named_error(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", TABLE.select(["x"]), [])

    def add_group(metadata: dict[int, Field]) -> None:
        schema = metadata[2].value.values
        schema[0][5] = Field(5, 2)
        schema += [
            {3: Field(5, 1), 4: Field(8, b"n"), 5: Field(5, 1)},
            {3: Field(5, 1), 4: Field(8, b"u")},  # neither a type nor children
        ]

    edit_footer(path, add_group)
    assert bp.read_table(path, "x = 8", ["x"]).to_pylist() == [{"x": 8}]
    with pytest.raises(bp.FormatError, match=r"x\.parquet: row group 0: column 'n' is a group without leaf columns"):
        bp.read_table(path, "x = 8")
