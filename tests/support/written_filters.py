"""Files that Spark writes with filters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame

import bloomparquet as bp

ROWS_PER_GROUP = "parquet.block.row.count.limit"


def save(frame: DataFrame, path: Path, **options: Any) -> str:
    """Write `frame` as one file. ``__`` in the name of an option stands for a dot."""
    given = {key.replace("__", "."): str(value) for key, value in options.items()}
    frame.coalesce(1).write.format("bloomparquet").mode("overwrite").options(**given).save(str(path))
    return str(path)


def filters(path: Path | str) -> dict[tuple[int, str], bp.SplitBlockBloomFilter]:
    """The filters of the only file in `path`, by row group and column."""
    (file,) = Path(path).glob("*.parquet")
    data, metadata = file.read_bytes(), pq.read_metadata(file)
    blooms = {}
    sizes = {(row["row_group"], row["column"]): row["bytes"] for row in bp.inspect(str(path)).to_pylist()}
    for group in range(metadata.num_row_groups):
        for i in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(i)
            if chunk.bloom_filter_offset is not None:
                end = chunk.bloom_filter_offset + chunk.bloom_filter_length
                size = sizes[group, chunk.path_in_schema]
                blooms[group, chunk.path_in_schema] = bp.SplitBlockBloomFilter.from_bytes(data[end - size : end])
    return blooms


def filtered_columns(path: Path | str) -> set[str]:
    """The columns with a filter. Asserts that each has one in every row group."""
    blooms = filters(path)
    groups = {group for group, _ in blooms}
    columns = {column for _, column in blooms}
    assert blooms.keys() == {(group, column) for group in groups for column in columns}
    return columns
