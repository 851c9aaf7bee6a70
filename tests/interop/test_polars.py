"""Files of polars. Its own writer makes no Bloom filters; with use_pyarrow it calls pyarrow."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import bloomparquet as bp
from tests.support import interop

polars = pytest.importorskip("polars")

COLUMNS = {
    "int64": interop.INT64,
    "uint32": interop.UINT32,
    "float64": interop.DOUBLE,
    "decimal_9_2": interop.decimal(9, 2),
    "string": interop.STRING,
    "binary": interop.BINARY,
    "date": interop.DATE,
    "time": interop.time_of_day("ns"),
    "timestamp_us": interop.timestamp("us"),
    "utc_ms": interop.timestamp("ms", "UTC"),
}


def test_polars_writer_makes_no_filters(tmp_path: Path) -> None:
    path = str(tmp_path / "own.parquet")
    polars.from_arrow(interop.table(COLUMNS)).write_parquet(path, row_group_size=interop.ROWS)
    assert interop.filtered_columns(path) == set()
    for column, kind in COLUMNS.items():
        interop.assert_keeps_all(path, column, [*kind.literals[0][::64], *kind.absent[::64]])


def test_polars_through_pyarrow_makes_filters_that_skip(tmp_path: Path) -> None:
    path = str(tmp_path / "pyarrow.parquet")
    bloom = {column: {"ndv": 512, "fpp": 0.01} for column in COLUMNS}
    polars.from_arrow(interop.table(COLUMNS)).write_parquet(
        path, use_pyarrow=True, row_group_size=interop.ROWS, pyarrow_options={"bloom_filter_options": bloom}
    )
    assert interop.filtered_columns(path) == set(COLUMNS)
    for column, kind in COLUMNS.items():
        interop.assert_same_bits(path, column, kind)
        interop.assert_never_skipped(path, column, kind)
        assert interop.skip_rate(path, column, kind) >= 0.95


def test_what_exports_arrow_data_is_a_table(tmp_path: Path) -> None:
    table = pa.table({"id": list(range(1000)), "s": ["a", None] * 500})
    for same in (table.to_batches()[0], table.to_reader(), table.to_pandas(), polars.from_arrow(table)):
        assert bp.write_table(same, tmp_path / "a", bloom=["id"]).filters == 1
        assert bp.read_table(tmp_path / "a") == table
