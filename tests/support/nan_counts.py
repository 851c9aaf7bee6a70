"""Files with NaN counts, which DuckDB writes, and with the total order of IEEE 754, which no writer here has yet.

Source: parquet-format 2.13, ``parquet.thrift`` (Statistics, ColumnOrder).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.core import Field, column_metadata, decode, edit_footer, read_footer
from tests.support.stored import leaf_arrays

TYPE_ORDER, IEEE_754_TOTAL_ORDER = 1, 2  # members of ColumnOrder
_COLUMN_ORDERS = 7  # field of FileMetaData
_STATISTICS = 12  # field of ColumnMetaData
_NAN_COUNT = 9  # field of Statistics
_I64, _STRUCT = 6, 12  # types of Thrift


def write(
    path: Path | str,
    groups: Sequence[Sequence[float | None]],
    kind: pa.DataType,
    order: int = IEEE_754_TOTAL_ORDER,
    counts: Sequence[int | None] | None = None,
) -> str:
    """Write a column ``x`` with a row group for each of `groups`, which have one size. `counts`: the NaN counts in the
    footer, None for one that it lacks; by default they are right."""
    values = [value for group in groups for value in group]
    table = pa.table({"x": pa.array(values, kind), "row": range(len(values))})
    pq.write_table(table, path, row_group_size=len(groups[0]), store_schema=False)
    if counts is None and pa.types.is_floating(kind):
        return add(path, order)

    def change(metadata: dict[int, Field]) -> None:
        metadata[_COLUMN_ORDERS].value.values[0] = {order: Field(_STRUCT, {})}
        for number, nans in enumerate(counts or ()):
            _count(metadata, number, 0, nans)

    return edit_footer(str(path), change)


def add(path: Path | str, order: int) -> str:
    """Add NaN counts to the statistics of floating-point columns, and set the order of these columns."""
    file = pq.ParquetFile(path)
    groups = [
        [leaf for column in file.read_row_group(i).columns for leaf in leaf_arrays(column)]
        for i in range(file.num_row_groups)
    ]

    def change(metadata: dict[int, Field]) -> None:
        for number, leaves in enumerate(groups):
            for i, leaf in enumerate(leaves):
                if pa.types.is_floating(leaf.type):
                    metadata[_COLUMN_ORDERS].value.values[i] = {order: Field(_STRUCT, {})}
                    _count(metadata, number, i, sum(map(math.isnan, leaf.drop_null().to_pylist())))

    return edit_footer(str(path), change)


def _count(metadata: dict[int, Field], row_group: int, column: int, nans: int | None) -> None:
    statistics = column_metadata(metadata, row_group, column).get(_STATISTICS)
    if nans is not None and statistics is not None:
        statistics.value[_NAN_COUNT] = Field(_I64, nans)


def are_in(path: str) -> bool:
    """Whether the first column chunk of a file has a NaN count."""
    statistics = column_metadata(decode(read_footer(path))).get(_STATISTICS)
    return statistics is not None and _NAN_COUNT in statistics.value
