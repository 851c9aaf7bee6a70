"""The data sets that are measured. They are written once; later runs use them again.

Every value is a function of its row number, so a lookup knows its answer without reading. ``scatter`` is a bijection
that spreads adjacent rows over the whole range, so that min and max are useless. Rows past the last one give absent
values that lie within the bounds of all files.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

DEFAULT = Path(__file__).resolve().parents[2] / ".bench"
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_KEY_DIGITS = 16
_NON_NEGATIVE = np.uint64(2**63 - 1)
_FORMAT = 1  # part of the directory names: increase it when the data changes


@dataclass(frozen=True)
class Shape:
    """The number of files, of row groups in each file, and of rows in each row group; `fpp` sizes the filters."""

    files: int
    row_groups: int
    rows: int
    fpp: float = 0.01
    strings: bool = True

    @property
    def total_row_groups(self) -> int:
        return self.files * self.row_groups

    @property
    def total_rows(self) -> int:
        return self.total_row_groups * self.rows


def scatter(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """One id per row: distinct, non-negative, in no order."""
    mixed = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) & _NON_NEGATIVE
    return (mixed ^ (mixed >> np.uint64(29))).view(np.int64)


def keys(rows: NDArray[np.int64]) -> pa.StringArray:
    """One key per row: 16 hexadecimal digits, distinct, in no order."""
    mixed = (rows.astype(np.uint64) + np.uint64(1)) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed ^= mixed >> np.uint64(31)
    octets = mixed.astype(">u8").view(np.uint8).reshape(-1, 8)
    digits = np.empty((len(rows), _KEY_DIGITS), np.uint8)
    digits[:, 0::2] = _HEX[octets >> 4]
    digits[:, 1::2] = _HEX[octets & 15]
    ends = np.arange(0, _KEY_DIGITS * len(rows) + 1, _KEY_DIGITS, dtype=np.int32)
    return pa.StringArray.from_buffers(len(rows), pa.py_buffer(ends), pa.py_buffer(digits))


def table(rows: NDArray[np.int64], *, strings: bool = True) -> pa.Table:
    """The rows with these numbers."""
    columns = {"id": pa.array(scatter(rows)), "amount": pa.array((rows % 97) / 100)}
    if strings:
        columns["key"] = keys(rows)
    return pa.table(columns)


def base_directory() -> Path:
    """The directory of all data sets: ``BENCH_DATA_DIR``, or ``.bench``."""
    return Path(os.environ.get("BENCH_DATA_DIR") or DEFAULT)


def data_set(shape: Shape) -> Path:
    """The directory with the data of `shape`, which is written if it does not exist. It is always complete."""
    strings = "-strings" if shape.strings else ""
    name = f"v{_FORMAT}-{shape.files}x{shape.row_groups}x{shape.rows}-{shape.fpp:g}{strings}"
    return written_once(name, shape.files, lambda root, number: _write(root, shape, number))


def written_once(name: str, files: int, write: Callable[[Path, int], object]) -> Path:
    """The directory of a data set. If it does not exist, ``write(directory, number)`` writes each of its files."""
    base = base_directory()
    root = base / name
    if root.is_dir():
        return root
    base.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f"{name}.unfinished-", dir=base))
    try:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for _ in pool.map(lambda number: write(unfinished, number), range(files)):
                pass
        unfinished.chmod(0o755)
        try:
            unfinished.rename(root)
        except OSError:
            if not root.is_dir():  # another run was faster; its files are equal
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return root


def _write(directory: Path, shape: Shape, number: int) -> None:
    per_file = shape.row_groups * shape.rows
    rows = table(np.arange(number * per_file, (number + 1) * per_file), strings=shape.strings)
    filtered = [name for name in ("id", "key") if name in rows.column_names]
    pq.write_table(
        rows,
        directory / f"part-{number:05}.parquet",
        row_group_size=shape.rows,
        use_dictionary=["amount"],
        bloom_filter_options={name: {"ndv": shape.rows, "fpp": shape.fpp} for name in filtered},
    )


class Lookups:
    """The values that are looked up in one data set: of rows in all files (hit), or of rows past the last (miss)."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.root = data_set(shape)

    def row(self, number: int, *, hit: bool) -> int:
        if not hit:
            return self.shape.total_rows + 100 + number
        return (7919 * (number + 2) * self.shape.rows + 17) % self.shape.total_rows

    def id(self, number: int, *, hit: bool) -> int:
        return int(scatter(np.array([self.row(number, hit=hit)]))[0])

    def key(self, number: int, *, hit: bool) -> str:
        text: str = keys(np.array([self.row(number, hit=hit)]))[0].as_py()
        return text
