"""Schemas of users, of some files only, and of other writers: rows, types and errors are those of Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support import files
from tests.support.files import EVEN
from tests.support.scenarios import Readers
from tests.support.spark import conf

pytestmark = pytest.mark.slow


def column(path: Path, values: Any, kind: pa.DataType, **more: Any) -> str:
    return files.write(path, pa.table({"c": pa.array(values, kind), **more}), ["c"], rows_per_group=5, fpp=0.0001)


def test_nanoseconds_that_spark_reads_as_numbers_are_found(readers: Readers, tmp_path: Path) -> None:
    path = column(tmp_path / "t.parquet", [v * 1001 for v in EVEN], pa.timestamp("ns"), k=pa.array(range(20)))
    with conf(readers.spark, {"spark.sql.legacy.parquet.nanosAsLong": "true"}):
        for where, count in (("c = 18018", 1), ("c = 18", 0), ("c = 19019", 0), ("c IN (0, 38038)", 2)):
            ran = readers.ask(path, where, rows_per_group=5)
            assert (where, len(ran.rows)) == (where, count)


def test_a_uuid_as_binary(readers: Readers, tmp_path: Path) -> None:
    values = [bytes([v]) * 16 for v in EVEN]
    path = files.write(tmp_path / "t.parquet", pa.table({"u": pa.array(values, pa.uuid())}), ["u"], rows_per_group=5)
    ran = readers.ask(path, f"u = X'{'12' * 16}'", schema="u BINARY", rows_per_group=5, by_python=True)
    assert (len(ran.rows), ran.plan.kept) == (1, 1)


def test_intervals_and_times_lose_no_row(readers: Readers, tmp_path: Path) -> None:
    frame = readers.spark.sql(
        "SELECT id, make_dt_interval(0, 0, 0, id) AS dt, make_ym_interval(0, CAST(id AS INT)) AS ym,"
        " id % 2 = 0 AS even, CAST(id AS STRING) COLLATE UTF8_LCASE AS lower FROM range(20)"
    )
    bloom = {f"parquet.bloom.filter.enabled#{name}": "true" for name in ("dt", "ym", "even", "lower")}
    frame.coalesce(1).write.options(**bloom).parquet(str(tmp_path / "t"))
    for where in ("dt = INTERVAL '7' SECOND", "ym = INTERVAL '7' MONTH", "even AND id = 8", "lower = '7'"):
        assert readers.ask(tmp_path / "t", where, select=("id",)).rows in (["(7,)"], ["(8,)"])
