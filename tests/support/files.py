"""Parquet files with Bloom filters, written by pyarrow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def write(
    path: Path | str,
    data: pa.Table | Mapping[str, Any],
    bloom: Iterable[str] | Mapping[str, Mapping[str, Any]] = (),
    *,
    rows_per_group: int | None = None,
    fpp: float = 0.01,
    **options: Any,
) -> str:
    """Write one file with a filter on each column of `bloom`, and return its path.

    `bloom` is a list of dotted leaf paths, with filters sized for the rows of a row group, or pyarrow's options by
    path. Parent directories are created. `options` go to `pyarrow.parquet.write_table`.
    """
    table = data if isinstance(data, pa.Table) else pa.table(dict(data))
    per_group = max(1, min(rows_per_group or table.num_rows, table.num_rows))
    if not isinstance(bloom, Mapping):
        bloom = {column: {"ndv": per_group, "fpp": fpp} for column in bloom}
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        table,
        str(path),
        row_group_size=per_group,
        bloom_filter_options={column: dict(given) for column, given in bloom.items()} or None,
        **options,
    )
    return str(path)


def write_groups(path: Path | str, groups: Iterable[Mapping[str, Any] | pa.Table], bloom: Iterable[str] = ()) -> str:
    """Write one file with one row group for each item of `groups`."""
    tables = [group if isinstance(group, pa.Table) else pa.table(dict(group)) for group in groups]
    largest = max(1, *(table.num_rows for table in tables))
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    options = {column: {"ndv": largest, "fpp": 0.01} for column in bloom} or None
    with pq.ParquetWriter(str(path), tables[0].schema, bloom_filter_options=options) as writer:
        for table in tables:
            writer.write_table(table.cast(tables[0].schema), row_group_size=max(1, table.num_rows))
    return str(path)


def hive(
    root: Path | str, parts: Mapping[str, Mapping[str, Any] | pa.Table], bloom: Iterable[str] = (), **options: Any
) -> str:
    """A directory of hive partitions: ``{"day=2026-01-01": {...}, "day=2026-01-02/hour=3": {...}}``."""
    columns = tuple(bloom)
    for folder, data in parts.items():
        write(Path(root) / folder / "part-0.parquet", data, columns, **options)
    return str(root)


def filter_offset(path: Path | str, row_group: int = 0) -> tuple[int, int | None]:
    """The offset of the first column's filter, and its length with the header (None if the footer lacks it)."""
    chunk = pq.ParquetFile(str(path)).metadata.row_group(row_group).column(0)
    assert chunk.bloom_filter_offset is not None, f"{path} has no filter for column 0 in row group {row_group}"
    return chunk.bloom_filter_offset, chunk.bloom_filter_length


def patch(path: Path | str, offset: int, new: bytes) -> str:
    """Overwrite bytes of a file in place."""
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(new)
    return str(path)


EVEN = list(range(0, 40, 2))


def even(path: Path, add: int = 0, bloom: tuple[str, ...] = ("id",), **more: Any) -> str:
    """Twenty even ids in random order, in four row groups of five."""
    ids = [EVEN[i * 7 % 20] + add for i in range(20)]
    return write(path, {"id": ids, **more}, bloom, rows_per_group=5, fpp=0.0001)
