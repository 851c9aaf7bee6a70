"""A column whose logical type and converted type contradict each other gives no evidence: readers differ about it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from tests.support.core import Field, edit_footer

_CONVERTED_TYPE = 6  # a field of SchemaElement
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
