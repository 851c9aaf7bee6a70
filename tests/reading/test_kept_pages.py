"""Where the pages of a file lie is found once for each version of it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import bloomparquet as bp
from bloomparquet.planning.cache.plan_cache import process_cache
from bloomparquet.reading import parquet_file
from bloomparquet.reading.parquet_file import ParquetFileReader

ROWS = 150_000
IDS = np.random.default_rng(3).permutation(ROWS)


def write(path: Path, *, is_reversed: bool = False) -> pa.Table:
    """One row group, with a dozen pages in each column. Reversed: the same rows and about as many bytes."""
    table = pa.table({"id": IDS, "half": IDS / 2, "text": [f"{number:09}" for number in IDS]})
    table = table.take(np.arange(ROWS)[::-1]) if is_reversed else table
    bp.write_table(table, path, bloom=["id"], row_group_size=ROWS, max_rows_per_page=10_000)
    return table


def test_later_lookups_read_no_page_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process_cache.clear()
    write(tmp_path / "a.parquet")
    reads, read_bytes = list[int](), ParquetFileReader._read_bytes

    def count(reader: ParquetFileReader, start: int, end: int) -> bytes:
        reads[-1] += 1
        return read_bytes(reader, start, end)

    monkeypatch.setattr(ParquetFileReader, "_read_bytes", count)
    for number in IDS[[5, ROWS // 2, ROWS - 5]].tolist():
        reads.append(0)
        rows = bp.read_table(tmp_path, f"id = {number}").to_pylist()
        assert rows == [{"id": number, "half": number / 2, "text": f"{number:09}"}]
    assert reads[0] > 30
    assert max(reads[1:]) <= 25  # the pages of `id`, which are searched, and one of each other column
    monkeypatch.setattr(parquet_file, "_KEPT_COLUMNS", 1)
    reads.append(0)
    assert bp.read_table(tmp_path, f"id = {IDS[7]}").num_rows == 1
    assert reads[-1] > 30


def test_pages_of_a_former_version_are_not_used(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write(path)
    listed, where = bp.Dataset.open(path), f"id = {IDS[11]}"
    expected = bp.read_table(listed, where)
    write(path, is_reversed=True)
    for _ in range(2):
        with pytest.raises(bp.FileChangedError, match=r"a\.parquet"):
            bp.read_table(listed, where)
    assert bp.read_table(path, where).equals(expected)
    again = bp.Dataset.open(path)
    write(tmp_path / "b.parquet")
    os.replace(tmp_path / "b.parquet", path)
    with pytest.raises(bp.FileChangedError, match=r"a\.parquet"):
        bp.read_table(again, where)
    assert bp.read_table(path, where).equals(expected)
