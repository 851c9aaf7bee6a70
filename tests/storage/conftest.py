"""A Parquet file to change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "a.parquet"
    path.parent.mkdir()
    data = pa.table({"a": np.arange(2_000), "b": [f"text {i}" for i in range(2_000)]})
    pq.write_table(data, path, row_group_size=1_000)
    return path
