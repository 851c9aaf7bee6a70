"""An event log in one file: two columns for lookups, and eight others."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

LOOKED_UP = ("user_id", "url")
ROW_GROUP = 250_000


def events(rows: int) -> pa.Table:
    """`rows` rows with random ids, their URLs, and eight more columns."""
    random = np.random.default_rng(7)
    ids = random.integers(0, 1 << 48, rows)
    columns: dict[str, Any] = {
        "user_id": ids,
        "url": pa.array([f"https://example.com/{i:x}/{i % 97}" for i in ids.tolist()]),
        "ts": pa.array(1_700_000_000_000_000 + np.arange(rows) * 997, pa.timestamp("us", "UTC")),
        "country": pa.array(random.choice(["de", "ch", "fr", "it", "at"], rows)),
        "agent": pa.array([f"Mozilla/5.0 (agent {i})" for i in random.integers(0, 400, rows).tolist()]),
        "status": random.integers(200, 600, rows).astype(np.int32),
    }
    columns |= {f"measure_{i}": random.random(rows) for i in range(4)}
    return pa.table(columns)


def pyarrow_rewrite(source: str, target: str) -> None:
    """Rewrite a file with filters by pyarrow, one row group at a time, and flush it to disk."""
    filters = {name: {"ndv": ROW_GROUP, "fpp": 0.01} for name in LOOKED_UP}
    with open(target, "wb") as sink, pq.ParquetFile(source) as file:
        with pq.ParquetWriter(sink, file.schema_arrow, bloom_filter_options=filters) as writer:
            for i in range(file.num_row_groups):
                writer.write_table(file.read_row_group(i))
        sink.flush()
        os.fsync(sink.fileno())
