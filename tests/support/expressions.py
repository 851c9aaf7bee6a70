"""A table of many types, and the rows of it that match an expression, as pyarrow selects them."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

import bloomparquet as bp

ROWS, PER_GROUP = 2_000, 100
NAN = float("nan")
ZONE = dt.timezone.utc


def table(seed: int = 0) -> pa.Table:
    """Columns of many types. Ids are spread, so that only filters find them; `day` grows with the row."""
    rng = random.Random(seed)
    ids = [(i * 7919 + seed) % 3_001 for i in range(ROWS)]
    some: list[int | None] = [None if i % 50 == 0 else i for i in ids]
    floats = [rng.choice([NAN, -0.0, 0.0, None, float(i), i / 8]) for i in ids]
    return pa.table(
        {
            "id": ids,
            "small": pa.array(some, pa.int16()),
            "big": pa.array([2**53 + i for i in ids]),
            "word": [f"w{i}" for i in ids],
            "f64": pa.array(floats, pa.float64()),
            "f32": pa.array(floats, pa.float32()),
            "price": pa.array([Decimal(i) / 100 for i in ids], pa.decimal128(10, 2)),
            "day": [dt.date(2026, 1, 1) + dt.timedelta(days=i // 10) for i in range(ROWS)],
            "at": pa.array(
                [dt.datetime(2026, 1, 1, tzinfo=ZONE) + dt.timedelta(hours=i) for i in ids], pa.timestamp("us", "UTC")
            ),
            "ntz": pa.array([dt.datetime(2026, 1, 1) + dt.timedelta(hours=i) for i in ids], pa.timestamp("ns")),
            "flag": [i % 2 == 0 for i in ids],
            "blob": [b"%d" % i for i in ids],
            "st": [{"a": i} for i in ids],
        }
    )


DATA = table()

f = pc.field


def expected(where: Any, data: pa.Table = DATA) -> pa.Table:
    """The rows that pyarrow selects."""
    return ds.InMemoryDataset(data).to_table(filter=where)


def same_rows(where: Any, path: str, data: pa.Table = DATA) -> bp.ScanPlan:
    rows = expected(where, data)
    assert bp.read_table(path, where).to_pandas().astype(str).equals(rows.to_pandas().astype(str))
    return bp.plan(path, where)
