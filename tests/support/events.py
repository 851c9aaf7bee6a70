"""A data set of events in Parquet or in ORC, and its rows by pyarrow."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.orc as orc

from tests.support import files

ROWS = 6_000


def write(path: Path, data: pa.Table | Mapping[str, Any], bloom: Sequence[str] = (), **options: Any) -> str:
    """Write a file in the format of its suffix, with filters on the top-level columns `bloom`, and return its path."""
    table = data if isinstance(data, pa.Table) else pa.table(dict(data))
    if path.suffix == ".parquet":
        return files.write(path, table, bloom, **options)
    path.parent.mkdir(parents=True, exist_ok=True)
    if bloom:
        columns = [table.schema.names.index(name) for name in bloom]
        options |= {"bloom_filter_columns": columns, "bloom_filter_fpp": 0.01}
    orc.write_table(table, str(path), **options)
    return str(path)


def write_events(root: Path, file_format: str) -> str:
    """Four files in four partitions ``day=…``, with several row groups; in ORC, with several stripes of them."""
    options: dict[str, Any] = {"stripe_size": 200_000, "batch_size": 1000, "row_index_stride": 1000}
    if file_format == "parquet":
        options = {"rows_per_group": 1000}
    for day in range(1, 5):
        write(root / f"day=2026-01-0{day}" / f"x.{file_format}", _events(day), ["id", "name"], **options)
    return str(root)


def _events(day: int) -> pa.Table:
    ids = np.random.default_rng(day).integers(0, 100_000, ROWS)
    clock = pa.array([dt.datetime(2026, 1, day) + dt.timedelta(seconds=int(i)) for i in ids], pa.timestamp("us"))
    return pa.table(
        {
            "id": ids,
            "name": pa.array([f"user-{i % 977}" if i % 13 else None for i in ids.tolist()]),
            "amount": pa.array([Decimal(int(i)) / 100 for i in ids], pa.decimal128(12, 2)),
            "at": clock.cast(pa.timestamp("us", "UTC")),
            "clock": clock,
            "score": pa.array(np.where(ids % 7 == 0, np.nan, ids / 8)),
            "tags": pa.array([[int(i), 1] for i in ids]),
            "place": pa.array([{"city": f"c{i % 50}", "zip": int(i)} for i in ids.tolist()]),
        }
    )


def by_pyarrow(root: str, condition: Any, columns: list[str] | None = None) -> pa.Table:
    """The matching rows, in the order of the partitions."""
    partitioning = ds.partitioning(pa.schema([("day", pa.date32())]), flavor="hive")
    file_format = next(Path(root).rglob("x.*")).suffix[1:]
    rows = ds.dataset(root, format=file_format, partitioning=partitioning)
    return rows.to_table(filter=condition, columns=columns)


def an_id(root: str) -> int:
    """An id that is in the data set."""
    return by_pyarrow(root, None, ["id"]).column("id")[777].as_py()  # type: ignore[no-any-return]
