"""Footers and filter headers with random changes give a plan or an error of ours."""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bloomparquet as bp
from tests.support.core import Field, column_metadata, edit_footer, plan_with
from tests.support.files import filter_offset, write

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
_number = itertools.count()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("made") / "x.parquet", TABLE, ["x", "s", "f", "d"], rows_per_group=10)


def plan_bytes(folder: Path, data: bytes) -> bp.ScanPlan | None:
    """A plan for a file of these bytes. None after an error of ours, which must name the file."""
    number = next(_number)
    path = folder / f"{number}.parquet"
    path.write_bytes(data)
    plan, error = None, None
    try:
        for where in (WHERES[number % 8], WHERES[(number + 3) % 8], "x IN (4, 31)"):
            plan = plan_with(path, where, strict=False)
            assert plan.total == plan.kept + plan.skipped.total() == len(list(plan.row_groups))
    except bp.BloomParquetError as raised:
        plan, error = None, raised
    finally:
        path.unlink()
    assert error is None or path.name in str(error)
    return plan


@settings(max_examples=150)
@given(data=st.data())
def test_a_changed_filter_header_keeps_its_row_group(
    data: st.DataObject, made: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The footer's filter length confirms the size in the header, so no changed header is accepted."""
    content = bytearray(Path(made).read_bytes())
    offset, _ = filter_offset(made)
    for _ in range(data.draw(st.integers(1, 3))):
        content[offset + data.draw(st.integers(0, 14))] = data.draw(st.integers(0, 255))
    plan = plan_bytes(tmp_path_factory.getbasetemp(), bytes(content))
    assert plan is not None, "the footer is whole"
    assert plan.row_groups[0].kept


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
    plan = plan_bytes(tmp_path, Path(path).read_bytes())
    assert plan is None or plan.kept == 1


@pytest.mark.parametrize("low", [b"", b"\x01", b"\0" * 9, b"\xff" * 8])
def test_bounds_of_a_wrong_width_are_not_used(low: bytes, tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", TABLE)

    def spoil(metadata: dict[int, Field]) -> None:
        for column in (0, 2, 3, 6):
            statistics = column_metadata(metadata, 0, column)[12].value
            statistics[6] = Field(8, low)
            statistics.pop(2, None)

    edit_footer(path, spoil)
    for where in ("x = 4", "f = 3.5D", "b = TRUE"):
        assert bp.plan(path, where).kept == 1, where
    assert bp.plan(path, "d = 5").kept == 1


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


def test_deprecated_bounds_of_signed_numbers_are_used(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", {"x": [-1, 5]})

    def age(metadata: dict[int, Field]) -> None:
        metadata.pop(7)
        statistics = column_metadata(metadata)[12].value
        statistics[1], statistics[2] = statistics.pop(5), statistics.pop(6)
        column_metadata(metadata)[12] = Field(12, dict(sorted(statistics.items())))

    edit_footer(path, age)
    assert [bp.plan(path, where).kept for where in ("x = 3", "x = -1", "x = 6", "x < -1")] == [1, 1, 0, 0]


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
