"""Encrypted files of a small table. Some of its columns have their own keys."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

import bloomparquet as bp

FOOTER, OWN, OTHER = b"f" * 16, b"a" * 24, b"b" * 32
COLUMNS = {"id": OWN, "text": OTHER}
KEYS = bp.Keys(FOOTER, COLUMNS)
GROUPS, ROWS = 5, 400


def rows(first: int = 0) -> pa.Table:
    """`GROUPS` row groups of even numbers. `id` is in random order, `at` is sorted."""
    numbers = (np.arange(GROUPS * ROWS) + first) * 2
    spread = np.random.default_rng(5).permutation(numbers)
    return pa.table({"id": spread, "text": [f"t{number}" for number in spread], "at": numbers, "v": spread * 0.5})


def write(path: Path, keys: bp.Keys | None = KEYS, *, first: int = 0, **how: object) -> Path:
    """Write a file with a filter on every column, encrypted unless `keys` is None."""
    encryption = None if keys is None else bp.Encryption(keys, **how)  # type: ignore[arg-type]
    bp.write_table(
        rows(first), path, bloom=["id", "text", "at", "v"], row_group_size=ROWS, encryption=encryption,
        compression="none",
    )  # fmt: skip
    return path
