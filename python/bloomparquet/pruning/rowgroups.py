"""What the footers of many files say, as columns: one row per row group, arrays instead of objects.

A plan over thousands of row groups is then a few numpy operations. The arrays of a column are made when a query first
names it, from footers that are already in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bloomparquet.encoding import order_keys
from bloomparquet.format.footer import Footer, Layout
from bloomparquet.format.schema import LeafColumn
from bloomparquet.pruning.filters import Filters
from bloomparquet.storage import FileInfo

UNKNOWN = -1


@dataclass(frozen=True)
class Bounds:
    """Statistics' minima and maxima in the order of :func:`bloomparquet.encoding.order_keys`; all of shape (n,)."""

    lower: NDArray[Any]
    upper: NDArray[Any]
    known: NDArray[np.bool_]


@dataclass(frozen=True)
class ColumnChunks:
    """One leaf column of the row groups of one layout.

    `members` (n,) are the places of these chunks among all row groups; `nulls` and `values` (n,) their counts,
    UNKNOWN where absent.
    """

    leaf: LeafColumn
    layout: Layout
    members: NDArray[np.int64]
    bounds: Bounds | None
    nulls: NDArray[np.int64]
    values: NDArray[np.int64]
    filters: Filters


class RowGroups:
    """The row groups of `files`, in file order: `file` (place of the file), `index` (within the file) and `rows`,
    each of shape (n,)."""

    def __init__(self, files: Sequence[FileInfo], footers: Sequence[Footer]) -> None:
        self.files = files
        self.footers = footers
        self.paths = [file.path for file in files]
        counts = [footer.metadata.num_row_groups for footer in footers]
        self.file = np.repeat(np.arange(len(files)), counts)
        first = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
        self.index = np.arange(first[-1]) - first[self.file]
        self.rows = np.array(
            [
                footer.metadata.row_group(i).num_rows
                for footer in footers
                for i in range(footer.metadata.num_row_groups)
            ],
            np.int64,
        )
        numbers: dict[int, int] = {}
        self.layouts: list[Layout] = []
        layout_of_file = np.empty(len(files), np.int64)
        for i, footer in enumerate(footers):
            number = numbers.setdefault(id(footer.layout), len(numbers))
            if number == len(self.layouts):
                self.layouts.append(footer.layout)
            layout_of_file[i] = number
        self._layout = layout_of_file[self.file]
        self._chunks: dict[tuple[int, int], ColumnChunks] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.file)

    def chunks(self, layout: int, leaf: LeafColumn) -> ColumnChunks:
        """The chunks of `leaf` in the row groups whose files have ``layouts[layout]``."""
        with self._lock:
            key = (layout, leaf.index)
            if key not in self._chunks:
                self._chunks[key] = self._extract(layout, leaf)
            return self._chunks[key]

    def members(self, layout: int) -> NDArray[np.int64]:
        return np.flatnonzero(self._layout == layout)

    def extent(self, row_group: int) -> tuple[int, int]:
        """The byte offset at which the row group begins in its file, and how many bytes its column chunks take."""
        group = self.footers[self.file[row_group]].metadata.row_group(int(self.index[row_group]))
        start, length = None, 0
        for i in range(group.num_columns):
            chunk = group.column(i)
            begins = chunk.data_page_offset
            dictionary = chunk.dictionary_page_offset
            if dictionary is not None and 0 < dictionary < begins:
                begins = dictionary
            start = begins if start is None else min(start, begins)
            length += chunk.total_compressed_size
        return start or 0, length

    def _extract(self, layout: int, leaf: LeafColumn) -> ColumnChunks:
        members = self.members(layout)
        lower: list[Any] = []
        upper: list[Any] = []
        counts: list[tuple[int, int, int, int]] = []
        groups = (
            (metadata, i)
            for footer in self.footers
            if footer.layout is self.layouts[layout]
            for metadata in (footer.metadata,)
            for i in range(metadata.num_row_groups)
        )
        for metadata, i in groups:
            chunk = metadata.row_group(i).column(leaf.index)
            statistics = chunk.statistics
            nulls = UNKNOWN
            low = high = None
            if statistics is not None:
                if statistics.has_null_count:
                    nulls = statistics.null_count
                if statistics.has_min_max:
                    low, high = statistics.min_raw, statistics.max_raw
            lower.append(low)
            upper.append(high)
            offset, length = chunk.bloom_filter_offset, chunk.bloom_filter_length
            counts.append(
                (nulls, chunk.num_values, UNKNOWN if offset is None else offset, UNKNOWN if length is None else length)
            )
        numbers = np.array(counts, np.int64).reshape(-1, 4)
        file = self.file[members]
        footer_starts = np.array(
            [
                info.size - footer.metadata.serialized_size - 8
                for info, footer in zip(self.files, self.footers, strict=True)
            ],
            np.int64,
        )
        filters = Filters(
            self.paths,
            file,
            self.index[members],
            ".".join(leaf.path),
            numbers[:, 2],
            numbers[:, 3],
            footer_starts[file],
        )
        return ColumnChunks(
            leaf, self.layouts[layout], members, _bounds(leaf, lower, upper), numbers[:, 0], numbers[:, 1], filters
        )


def _bounds(leaf: LeafColumn, lower: Sequence[Any], upper: Sequence[Any]) -> Bounds | None:
    low, high = order_keys(leaf, lower), order_keys(leaf, upper)
    if low is None or high is None:
        return None
    known = low[1] & high[1]
    # Bounds the wrong way round prove nothing but that their writer erred.
    known &= np.asarray(low[0] <= high[0], np.bool_)
    return Bounds(low[0], high[0], known)
