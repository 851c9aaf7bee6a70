"""Files whose schemas differ from each other or from the reader's: missing and widened columns, unchanged values."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.query.evaluate.mask import mask
from tests.support.core import plan_with
from tests.support.files import write

NEW_YEAR = dt.datetime(2024, 1, 1)


@pytest.mark.parametrize(
    ("narrow", "wide", "value"),
    [
        (pa.int32(), pa.int64(), 1),
        (pa.uint8(), pa.int16(), 1),
        (pa.float32(), pa.float64(), 1),
        (pa.decimal128(5, 2), pa.decimal128(12, 4), decimal.Decimal("1.50")),
        (pa.timestamp("ms"), pa.timestamp("us"), dt.datetime(2024, 1, 1)),
        (pa.timestamp("us"), pa.timestamp("ns"), dt.datetime(2024, 1, 1)),
        (pa.date32(), pa.date64(), dt.date(2024, 1, 1)),
        (pa.dictionary(pa.int32(), pa.string()), pa.string(), "a"),
        (pa.null(), pa.int64(), 1),
        (pa.binary(), pa.large_binary(), b"a"),
    ],
    ids=str,
)
def test_types_are_widened(narrow: pa.DataType, wide: pa.DataType, value: Any, tmp_path: Path) -> None:
    first = None if pa.types.is_null(narrow) else value
    write(tmp_path / "1.parquet", {"x": pa.array([first, first], narrow)})
    write(tmp_path / "2.parquet", {"x": pa.array([value], wide)})
    assert bp.read_table(tmp_path, bp.Eq("x", value), merge_schema=True).num_rows == (3 if first is not None else 1)
    assert bp.read_table(tmp_path, merge_schema=True).num_rows == 3


def test_missing_struct_fields_are_null(tmp_path: Path) -> None:
    write(tmp_path / "1.parquet", {"st": pa.array([{"x": 1}, None])})
    write(tmp_path / "2.parquet", {"st": pa.array([{"x": 1, "y": "b"}])})
    assert bp.read_table(tmp_path, merge_schema=True).to_pydict() == {
        "st": [{"x": 1, "y": None}, None, {"x": 1, "y": "b"}]
    }
    assert bp.read_table(tmp_path, "st.y IS NULL", merge_schema=True).num_rows == 2
    assert bp.read_table(tmp_path, "st.y = 'b'", merge_schema=True).num_rows == 1
    assert bp.read_table(tmp_path, "st.x = 1", merge_schema=True).num_rows == 2


def test_incompatible_types_are_an_error(tmp_path: Path) -> None:
    write(tmp_path / "1.parquet", {"x": [1]})
    write(tmp_path / "2.parquet", {"x": ["a"]})
    for merge in (True, False):
        with pytest.raises(bp.PlanError, match="x"):
            bp.read_table(tmp_path, merge_schema=merge)


def test_two_types_of_timestamps_are_an_error_whatever_is_asked(tmp_path: Path) -> None:
    """A literal without a zone means another moment in each file. So it must not skip one of them."""
    noon = dt.datetime(2024, 5, 17, 12)
    write(tmp_path / "1.parquet", {"c": pa.array([noon], pa.timestamp("us", "UTC"))})
    write(tmp_path / "2.parquet", {"C": pa.array([noon], pa.timestamp("us"))})
    write(tmp_path / "3.parquet", {"c": pa.array([noon], pa.timestamp("us"))})
    where = "c = TIMESTAMP '2024-05-17 09:00:00'"
    plan = bp.plan(tmp_path, where, timezone="America/Sao_Paulo", case_sensitive=False)
    assert (len(plan.kept_row_groups()), plan.total) == (3, 3)
    assert "one type for all files" in str(plan.explain())
    with pytest.raises(bp.PlanError, match="timestamp"):
        bp.read_table(tmp_path, where, timezone="America/Sao_Paulo")
    alone = bp.plan([tmp_path / "1.parquet"], where, timezone="America/Sao_Paulo")
    assert len(alone.kept_row_groups()) == 1
    assert len(bp.plan([tmp_path / "3.parquet"], where, timezone="America/Sao_Paulo").kept_row_groups()) == 0


@pytest.mark.parametrize(
    ("first", "second", "asked"),
    [
        (pa.array([0.5]), pa.array([2**53 + 1]), 2**53 + 1),
        (pa.array([2**53 + 1]), pa.array([0.5]), 0.5),
        (pa.array([0.5], pa.float32()), pa.array([0.1]), float(np.float32(0.1))),
        (pa.array([1], pa.int32()), pa.array([2**40]), 2**40),
        (pa.array([NEW_YEAR]), pa.array([1704067200000000001], pa.timestamp("ns")), NEW_YEAR),
        (pa.array([1.5]), pa.array([decimal.Decimal("12345678901234567.89")]), 12345678901234568.0),
        (pa.array([decimal.Decimal("1.5")]), pa.array([decimal.Decimal("1.55")]), decimal.Decimal("1.5")),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
@pytest.mark.parametrize("merge", [True, False])
def test_values_never_change_to_fit_another_type(
    first: pa.Array, second: pa.Array, asked: Any, merge: bool, tmp_path: Path
) -> None:
    """A plan judges each file by its stored values. Rows with changed values could match and yet be skipped."""
    write(tmp_path / "1.parquet", {"x": first})
    write(tmp_path / "2.parquet", {"x": second})
    try:
        everything = bp.read_table(tmp_path, merge_schema=merge)
    except bp.PlanError:
        return
    expected = everything.filter(mask(bp.Eq("x", asked), everything))
    assert bp.read_table(tmp_path, bp.Eq("x", asked), merge_schema=merge).equals(expected)


@pytest.mark.parametrize(
    ("first", "value", "literal"),
    [
        (pa.float64(), 2**53, 2**53 + 1),
        (pa.float64(), 2**53, decimal.Decimal(2**53 + 1)),  # as a double, the literal is 2**53
        (pa.float64(), -(2**53), decimal.Decimal(-(2**53) - 1)),
        (pa.decimal128(30, 2), 1152921504606847000, float(2**60)),  # as a decimal, the literal is its shortest text
    ],
)
def test_literal_that_rounds_in_the_scan_type_skips_nothing(
    first: pa.DataType, value: int, literal: Any, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"x": pa.array([None], first)}), tmp_path / "1.parquet")
    write(tmp_path / "2.parquet", {"x": [value]}, ["x"])
    for predicate in (bp.Eq("x", literal), bp.In("x", [literal, 7]), bp.GtEq("x", literal), bp.LtEq("x", literal)):
        assert bp.read_table(tmp_path, predicate)["x"].to_pylist() == [value]


SPARK_TYPES = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date", "timestamp",
    "timestamp_ntz", "time(3)", "time(6)", "decimal(5,2)", "decimal(9,2)", "decimal(20,0)", "decimal(38,18)", "char(5)",
    "varchar(5)", "void", "interval day to second", "interval year to month", "string collate UTF8_LCASE", "",
)  # fmt: skip
TIMESTAMPS = {"timestamp", "timestamp_ntz"}
LOSSLESS: list[tuple[pa.DataType, set[str]]] = [
    (pa.int32(), {"int", "bigint", "double", "decimal(20,0)", "decimal(38,18)"}),
    (pa.int64(), {"bigint", "decimal(20,0)", "decimal(38,18)"}),
    (pa.uint32(), {"bigint"}),
    (pa.float16(), set()),
    (pa.float32(), {"float", "double"}),
    (pa.float64(), {"double"}),
    (pa.decimal128(4, 1), {"decimal(5,2)", "decimal(9,2)", "decimal(38,18)"}),
    (pa.decimal128(9, 2), {"decimal(9,2)", "decimal(38,18)"}),
    (pa.decimal128(38, 18), {"decimal(38,18)"}),
    (pa.string(), {"string", "binary"}),
    (pa.binary(), {"string", "binary"}),
    (pa.binary(4), {"string", "binary"}),
    (pa.bool_(), {"boolean"}),
    (pa.date32(), {"date"}),
    (pa.time64("us"), {"time(6)"}),
    (pa.time32("ms"), {"time(6)"}),
    (pa.timestamp("us"), TIMESTAMPS),
    (pa.timestamp("ms", "UTC"), TIMESTAMPS),
    (pa.time64("ns"), set()),
    (pa.timestamp("ns"), set()),
    (pa.timestamp("ns", "UTC"), set()),
]


@pytest.mark.parametrize("as_integer", [False, True], ids=["bytes", "integers"])
@pytest.mark.parametrize(("stored", "lossless"), [pytest.param(*case, id=str(case[0])) for case in LOSSLESS])
def test_only_lossless_reader_types_are_judged(
    tmp_path: Path, stored: pa.DataType, lossless: set[str], as_integer: bool
) -> None:
    """A DECIMAL, however it is stored, is not judged if it is read as an integer, which may lack its point."""
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": pa.nulls(3, stored)}), path, store_decimal_as_integer=as_integer)
    judged = {name for name in SPARK_TYPES if plan_with(path, "x IS NOT NULL", reader_types={("x",): name}).kept == 0}
    assert judged == lossless


def test_the_file_of_another_type_is_named(tmp_path: Path) -> None:
    for i in range(3):
        write(tmp_path / f"{i}.parquet", {"id": ["a"] if i == 1 else [3]})
    for ask in (bp.plan, bp.read_table):
        with pytest.raises(bp.PlanError, match=r"1\.parquet: column 'id' is of type string, .* with the int 3"):
            ask(tmp_path, "id = 3")
        with pytest.raises(bp.PlanError, match=r"0\.parquet: column 'id' is of type integer, .* with the str 'a'"):
            ask(tmp_path, "id = 'a'")
