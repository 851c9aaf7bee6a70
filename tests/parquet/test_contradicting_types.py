"""A column whose types contradict each other gives no evidence: readers differ about it.

The logical type may contradict the converted type, or the physical one: a DECIMAL of more digits than that holds.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from tests.support.core import Field, edit_footer

_CONVERTED_TYPE, _LOGICAL_TYPE = 6, 10  # fields of SchemaElement
_UTF8, _DECIMAL, _TIME_MICROS, _TIMESTAMP_MILLIS, _TIMESTAMP_MICROS = 0, 5, 8, 9, 10
_UINT_32, _INT_8, _INT_32, _JSON = 13, 15, 17, 19
INT8, MICROS, TEXT, DECIMAL = pa.int8(), pa.timestamp("us"), pa.string(), pa.decimal128(9, 2)
VALUES = {INT8: 5, MICROS: dt.datetime(2023, 1, 1), TEXT: "5", DECIMAL: Decimal(5)}
ABSENT = {INT8: 7, MICROS: dt.datetime(2024, 1, 1), TEXT: "7", DECIMAL: Decimal(7)}


def write(path: Path, kind: pa.DataType, converted_type: int) -> str:
    """A column ``x`` with filters. Its converted type is changed afterwards."""
    table = pa.table({"x": pa.array([VALUES[kind], None], kind)})
    pq.write_table(table, path, store_schema=False, bloom_filter_options={"x": {"ndv": 3, "fpp": 0.001}})

    def change(tree: dict[int, Field]) -> None:
        element = tree[2].value.values[1]
        element[_CONVERTED_TYPE] = Field(5, converted_type)
        tree[2].value.values[1] = dict(sorted(element.items()))

    return edit_footer(str(path), change)


@pytest.mark.parametrize(
    ("kind", "converted_type", "is_used"),
    [
        (INT8, _INT_8, True), (INT8, _UINT_32, False), (INT8, _INT_32, False), (INT8, 99, False),
        (MICROS, _TIMESTAMP_MICROS, True), (MICROS, _TIMESTAMP_MILLIS, False), (MICROS, _TIME_MICROS, False),
        (TEXT, _UTF8, True), (TEXT, _JSON, False), (DECIMAL, _DECIMAL, True), (DECIMAL, _INT_32, False),
    ],
)  # fmt: skip
def test_contradicting_types_are_kept(tmp_path: Path, kind: pa.DataType, converted_type: int, is_used: bool) -> None:
    path = write(tmp_path / "x.parquet", kind, converted_type)
    assert bp.plan(path, bp.Eq("x", ABSENT[kind])).kept == (not is_used)


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize(
    ("kind", "precision", "holds"),
    [
        (pa.int32(), 9, True), (pa.int32(), 10, False), (pa.int64(), 18, True), (pa.int64(), 19, False),
        (pa.binary(2), 4, True), (pa.binary(2), 5, False), (pa.binary(16), 38, True), (pa.binary(16), 39, False),
    ],
)  # fmt: skip
def test_decimals_that_the_physical_type_does_not_hold_are_kept(
    tmp_path: Path, kind: pa.DataType, precision: int, holds: bool, statistics: bool
) -> None:
    stored = 3 if pa.types.is_integer(kind) else b"\x03".rjust(kind.byte_width, b"\0")
    path = str(tmp_path / "x.parquet")
    pq.write_table(
        pa.table({"x": pa.array([stored], kind)}), path, store_schema=False, write_statistics=statistics,
        bloom_filter_options={"x": {"ndv": 3, "fpp": 0.001}},
    )  # fmt: skip

    def annotate(tree: dict[int, Field]) -> None:
        element = tree[2].value.values[1]
        element[_LOGICAL_TYPE] = Field(12, {5: Field(12, {1: Field(5, 2), 2: Field(5, precision)})})

    edit_footer(path, annotate)
    value = Decimal("0.03") if holds else stored
    assert bp.read_table(path).column("x").to_pylist() == [value]
    assert bp.read_table(path, bp.Eq("x", value)).num_rows == 1
    absent = Decimal("0.07") if holds else stored * 2
    assert bp.plan(path, bp.Eq("x", absent)).kept == (not holds)
