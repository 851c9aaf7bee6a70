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

from bloomparquet.encoding import has_signed_order, order_keys
from bloomparquet.errors import FormatError
from bloomparquet.format.chunks import ChunkFields
from bloomparquet.format.footer import Footer, Layout, WriterTraits
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
        counts = [len(footer.rows) for footer in footers]
        self.file = np.repeat(np.arange(len(files)), counts)
        first = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
        self.index = np.arange(first[-1]) - first[self.file]
        self.rows = np.array([rows for footer in footers for rows in footer.rows], np.int64)
        numbers: dict[int, int] = {}
        self.layouts: list[Layout] = []
        layout_of_file = np.empty(len(files), np.int64)
        for i, footer in enumerate(footers):
            number = numbers.setdefault(id(footer.layout), len(numbers))
            if number == len(self.layouts):
                self.layouts.append(footer.layout)
            layout_of_file[i] = number
        layout = layout_of_file[self.file]
        by_layout = np.argsort(layout, kind="stable")
        self._members = np.split(by_layout, np.cumsum(np.bincount(layout, minlength=len(self.layouts)))[:-1])
        self._footer_starts = np.array(
            [info.size - len(footer.raw) - 8 for info, footer in zip(files, footers, strict=True)], np.int64
        )
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

    @property
    def kept_bytes(self) -> int:
        """About what this takes of memory: footers, and bitsets that were kept."""
        filters = [chunks.filters.kept_bytes for chunks in list(self._chunks.values())]
        return sum(len(footer.raw) for footer in self.footers) + sum(filters)

    def members(self, layout: int) -> NDArray[np.int64]:
        return self._members[layout]

    def extent(self, row_group: int) -> tuple[int, int]:
        """The byte offset at which the row group begins in its file, and how many bytes its column chunks take."""
        place = int(self.file[row_group])
        footer: Footer = self.footers[place]
        try:
            return footer.extent(int(self.index[row_group]))
        except FormatError as error:
            raise FormatError(f"{self.paths[place]}: the footer is damaged: {error}") from error

    def _extract(self, layout: int, leaf: LeafColumn) -> ColumnChunks:
        members = self.members(layout)
        file = self.file[members]
        chunks: list[ChunkFields] = []
        for place in dict.fromkeys(file.tolist()):
            footer: Footer = self.footers[place]
            try:
                chunks += [footer.read_chunk(i, leaf.index) for i in range(len(footer.rows))]
            except FormatError as error:
                raise FormatError(f"{self.paths[place]}: the footer is damaged: {error}") from error
        values, nulls, offset, length = (
            np.array([UNKNOWN if chunk[i] is None else chunk[i] for chunk in chunks], np.int64) for i in range(4)
        )
        nulls[(nulls > values) | (nulls < 0)] = UNKNOWN
        filled = (values > nulls) & ((nulls >= 0) | (leaf.node.repetition == "REQUIRED" and len(leaf.path) == 1))
        index, column = self.index[members], ".".join(leaf.path)
        filters = Filters(self.paths, file, index, column, offset, length, self._footer_starts[file], filled)
        bounds = _bounds(leaf, self.layouts[layout].traits, chunks)
        return ColumnChunks(leaf, self.layouts[layout], members, bounds, nulls, values, filters)


def _bounds(leaf: LeafColumn, traits: WriterTraits, chunks: Sequence[ChunkFields]) -> Bounds | None:
    """The bounds that can be relied on: min_value and max_value where the file defines their order, else the deprecated
    ones where every writer ordered them alike."""
    ordered, signed = traits.column_orders[leaf.index], has_signed_order(leaf)
    lower: list[bytes | None] = []
    upper: list[bytes | None] = []
    for chunk in chunks:
        deprecated = signed and chunk.min_value is None and chunk.max_value is None
        lower.append(chunk.deprecated_min if deprecated else chunk.min_value if ordered else None)
        upper.append(chunk.deprecated_max if deprecated else chunk.max_value if ordered else None)
    lows, highs = order_keys(leaf, lower), order_keys(leaf, upper)
    if lows is None or highs is None:
        return None
    known = lows[1] & highs[1]
    # Bounds the wrong way round prove nothing but that their writer erred.
    known &= np.asarray(lows[0] <= highs[0], np.bool_)
    return Bounds(lows[0], highs[0], known)
