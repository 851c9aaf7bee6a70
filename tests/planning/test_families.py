"""Comparisons across type families: exact ones skip row groups, all others skip nothing."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

import bloomparquet as bp
from tests.support.files import write

ID = UUID("123e4567-e89b-12d3-a456-426614174000")
COLUMNS = {  # three values each, of which the second one is asked for
    "f": pa.array([1.5, 10.5, 20.5], pa.float32()),
    "g": pa.array([1.5, 10.1, 20.5], pa.float64()),
    "i": pa.array([-3, 5, 2**30], pa.int32()),
    "l": pa.array([-3, 2**60 + 1, 2**62], pa.int64()),
    "k": pa.array([Decimal(1), Decimal(5), Decimal(10**37)], pa.decimal128(38, 0)),
    "p": pa.array([Decimal("1.10"), Decimal("9.99"), Decimal("20.00")], pa.decimal128(9, 2)),
    "q": pa.array([Decimal("1.1"), Decimal("9.9"), Decimal("20.0")], pa.decimal128(38, 18)),
    "day": pa.array([dt.date(2024, 5, day) for day in (1, 17, 30)]),
    "t": pa.array([dt.datetime(2024, 5, day) for day in (1, 17, 30)], pa.timestamp("us", "UTC")),
    "n": pa.array([dt.datetime(2024, 5, day) for day in (1, 17, 30)], pa.timestamp("us")),
    "u": pa.array([bytes(16), ID.bytes, b"\xff" * 16], pa.uuid()),
    "b": pa.array([b"a", b"text", b"z"]),
}
EQUALITIES = [
    "f = 10.5", "f = 10.5D", "g = 10.1", "i = 5.0", "i = 5D", "l = 1152921504606846977", "l = 1152921504606846977BD",
    "k = 5", "k = 5BD", "p = 9.99", "p = 9.990", "p = 9.99D", "q = 9.9", "day = '2024-05-17'",
    "t = '2024-05-17'", "t = DATE '2024-05-17'", "t = '2024-05-17 02:00:00+02:00'", "n = '2024-05-17 00:00:00'",
    "n = DATE '2024-05-17'", f"u = '{ID}'", f"u = X'{ID.hex}'", "b = 'text'", "i IN (5, 5.5)", "i IN (5.0D, 6)",
    "p IN (9.99, 7)", "p IN (9.99D, 7.5D)", "k IN (5, 6BD)", "f IN (10.5, 10)",
]  # fmt: skip


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A row group for each value."""
    return write(tmp_path_factory.mktemp("families") / "x.parquet", COLUMNS, list(COLUMNS), rows_per_group=1)


@pytest.mark.parametrize("where", EQUALITIES)
def test_comparisons_across_families_skip(where: str, path: str) -> None:
    column = where.split(maxsplit=1)[0]
    wheres = {where: [1]}
    if " = " in where:
        wheres |= {where.replace(" = ", " < "): [0], where.replace(" = ", " <= "): [0, 1]}
        if column not in ("f", "g"):  # whose bounds leave out NaN
            wheres |= {where.replace(" = ", " > "): [2], where.replace(" = ", " >= "): [1, 2]}
    for each, rows in wheres.items():
        plan = bp.plan(path, each)
        assert [group.index for group in plan.row_groups if group.kept] == rows, each
        assert bp.read_table(path, each)[column].combine_chunks().equals(COLUMNS[column].take(pa.array(rows)))


@pytest.mark.parametrize(
    ("column", "value"),
    [("i", float("inf")), ("l", 2.0**60), ("k", Decimal("1.5")), ("k", 5.0), ("q", Decimal("1E-30")), ("p", 10**50)],
)
def test_inexact_comparisons_skip_nothing(column: str, value: Any, path: str) -> None:
    """Rows are compared exactly all the same."""
    assert bp.plan(path, bp.Eq(column, value)).kept == 3
    assert bp.read_table(path, bp.Eq(column, value)).num_rows == int((column, value) == ("k", 5.0))
