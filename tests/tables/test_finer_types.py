"""Files whose types are finer or wider than the table's: no row that a reader would round or cut is skipped."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import convert_to_deltalake

import bloomparquet as bp
from tests.support import files

SECOND = dt.datetime(2023, 11, 14, 22, 13, 20)
NANOSECONDS = 1_700_000_000 * 10**9


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_nanoseconds_of_a_converted_directory_are_kept(tmp_path: Path, zone: str | None) -> None:
    """Delta Lake's type has microseconds, to which its readers truncate."""
    table = pa.table({"t": pa.array([NANOSECONDS + 1, NANOSECONDS + 999], pa.timestamp("ns", zone))})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1)
    convert_to_deltalake(str(tmp_path))
    dataset = bp.Dataset.from_delta(str(tmp_path))
    moment = SECOND if zone is None else SECOND.replace(tzinfo=dt.timezone.utc)
    for where in (bp.Eq("t", moment), bp.LtEq("t", moment), bp.In("t", [moment])):
        assert dataset.plan(where).kept == 2
        with pytest.raises(bp.PlanError, match="cannot be converted"):
            dataset.read_table(where)


CASES: list[tuple[str, pa.DataType, Any, Any]] = [
    ("decimal(9,2)", pa.decimal128(5, 4), Decimal("1.2345"), Decimal("1.23")),
    ("decimal(4,2)", pa.decimal128(9, 2), Decimal("12345.67"), Decimal("2345.67")),
    ("decimal(9,2)", pa.int32(), 2**31 - 1, Decimal(7483647)),
    ("float", pa.float64(), 0.1, 0.10000000149011612),
    ("double", pa.int64(), 2**60 + 1, 2**60),
    ("integer", pa.int64(), 2**32 + 5, 5),
    ("short", pa.int32(), 70_000, 4_464),
    ("integer", pa.uint32(), 2**32 - 1, -1),
]


@pytest.mark.parametrize(("kind", "stored", "value", "shown"), CASES)
def test_wider_values_are_kept(tmp_path: Path, kind: str, stored: pa.DataType, value: Any, shown: Any) -> None:
    files.write(tmp_path / "a.parquet", {"x": pa.array([value], stored)}, ["x"])
    _log(tmp_path, kind)
    for where in (bp.Eq("x", shown), bp.LtEq("x", shown), bp.GtEq("x", shown)):
        assert bp.Dataset.from_delta(str(tmp_path)).plan(where).kept == 1


@pytest.mark.parametrize(
    ("kind", "stored", "value", "other"),
    [
        ("decimal(9,2)", pa.decimal128(9, 2), Decimal("1.23"), Decimal("1.24")),
        ("decimal(11,3)", pa.decimal128(9, 2), Decimal("1.23"), Decimal("1.24")),
        ("decimal(10,0)", pa.int32(), 7, Decimal(8)),
        ("double", pa.float32(), 0.5, 0.75),
        ("double", pa.int32(), 7, 8.0),
        ("long", pa.int32(), 7, 8),
        ("integer", pa.int16(), 7, 8),
        ("timestamp", pa.timestamp("ms", "UTC"), SECOND, SECOND.replace(year=2024, tzinfo=dt.timezone.utc)),
        ("date", pa.date32(), SECOND.date(), dt.date(2020, 1, 1)),
    ],
)
def test_types_that_hold_all_values_skip(
    tmp_path: Path, kind: str, stored: pa.DataType, value: Any, other: Any
) -> None:
    files.write(tmp_path / "a.parquet", {"x": pa.array([value], stored)}, ["x"])
    _log(tmp_path, kind)
    assert bp.Dataset.from_delta(str(tmp_path)).plan(bp.Eq("x", other)).kept == 0


def _log(table: Path, kind: str) -> None:
    """The log of a Delta Lake table of the file ``a.parquet``, with one column ``x`` of the type `kind`."""
    field = {"name": "x", "type": kind, "nullable": True, "metadata": {}}
    metadata = {
        "id": "x", "format": {"provider": "parquet", "options": {}}, "partitionColumns": [], "configuration": {},
        "schemaString": json.dumps({"type": "struct", "fields": [field]}), "createdTime": 0,
    }  # fmt: skip
    size = (table / "a.parquet").stat().st_size
    add = {"path": "a.parquet", "partitionValues": {}, "size": size, "modificationTime": 0, "dataChange": True}
    actions = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}, {"add": add}]
    (table / "_delta_log").mkdir()
    (table / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
