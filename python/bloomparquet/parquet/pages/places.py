"""Where the data pages of one column chunk lie, and which rows each has.

Either the page headers say it or the chunk's OffsetIndex. Headers are read in full, so that each page's first row is
the sum of the pages before it. An index is believed as far as it agrees with the footer and with the headers of the
pages that are read. For a column of lists only version 2 pages are used: a version 1 page does not say how many rows
it has, and a row may go on in the next page.

Source: parquet-format ``parquet.thrift`` (ColumnChunk, OffsetIndex), ``PageIndex.md``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import FormatError
from bloomparquet.parquet.metadata.footer import Footer
from bloomparquet.parquet.pages.headers import (
    DATA_PAGE,
    DATA_PAGE_V2,
    DICTIONARY_PAGE,
    Page,
    ReadBytes,
    read_header,
    read_headers,
)
from bloomparquet.parquet.thrift.definitions import (
    ColumnChunk,
    ColumnMetaData,
    OffsetIndex,
    PageEncodingStats,
    PageLocation,
)
from bloomparquet.parquet.thrift.numbers import Numbers, read_numbers
from bloomparquet.query.columns import LeafColumn

_DICTIONARY_WEIGHT = 1.3
"""Measured: a dictionary page of 1 MB for a few values costs as much more than its part of a whole chunk."""


@dataclass(frozen=True, slots=True, eq=False)
class ChunkPages:
    """The pages of one column chunk. Offsets are those of the file.

    Data page i is at the bytes ``start[i]:end[i]`` and has the rows ``first_row[i]:first_row[i + 1]`` of the row group.
    `codec` is the number of the compression codec. `dictionary` is the extent of the dictionary page, and
    ``may_use_dictionary[i]`` whether page i may need it: an index does not say it.
    """

    leaf: LeafColumn
    codec: int
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    first_row: NDArray[np.int64]
    dictionary: tuple[int, int] | None
    may_use_dictionary: NDArray[np.bool_]

    def pages_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The number of the page of each row. It is no page without rows."""
        return np.searchsorted(self.first_row, rows, side="right") - 1

    @property
    def size(self) -> int:
        """The bytes of all pages."""
        start, end = self.dictionary or (0, 0)
        return int((self.end - self.start).sum()) + end - start

    def cost(self, pages: NDArray[np.int64]) -> float:
        """The bytes of `pages` and of the dictionary page, if they may need it, with its weight."""
        start, end = self.dictionary or (0, 0)
        needed = _DICTIONARY_WEIGHT * (end - start) if self.may_use_dictionary[pages].any() else 0
        return float((self.end[pages] - self.start[pages]).sum()) + needed

    def read(self, page: int, read: ReadBytes) -> tuple[Page, bytes | memoryview]:
        """Read a data page: its parsed header, and its bytes with the header.

        FormatError if the header does not agree with this object.
        """
        rows = int(self.first_row[page + 1] - self.first_row[page])
        header, data = _read_page(read, int(self.start[page]), int(self.end[page]))
        if self.leaf.repeated and header.type != DATA_PAGE_V2:
            raise FormatError(f"the page at byte {self.start[page]} has version 1, which may hold a part of a row")
        claimed = header.rows if self.leaf.repeated else header.values
        if header.type not in (DATA_PAGE, DATA_PAGE_V2) or claimed != rows:
            raise FormatError(f"the page at byte {self.start[page]} is {header}; expected a data page of {rows} rows")
        return header, data

    def read_dictionary(self, read: ReadBytes) -> bytes | memoryview:
        """Read the dictionary page, with its header. FormatError if there is none."""
        if self.dictionary is None:
            raise FormatError("a page is dictionary encoded, but the column chunk has no dictionary page")
        header, data = _read_page(read, *self.dictionary)
        if header.type != DICTIONARY_PAGE:
            raise FormatError(f"the page at byte {self.dictionary[0]} is {header}; expected a dictionary page")
        return data


def _read_page(read: ReadBytes, start: int, end: int) -> tuple[Page, bytes | memoryview]:
    data = read_exactly(read, start, end)
    header = read_header(lambda a, b: data[a:b], 0, end - start)
    if header.end != end - start:
        raise FormatError(f"the page at byte {start} is {header}; expected its end at byte {end}")
    return header, data


def read_exactly(read: ReadBytes, start: int, end: int) -> bytes | memoryview:
    """The bytes of a file. FormatError if it ends before `end`."""
    data = read(start, end)
    if len(data) != end - start:
        raise FormatError(f"the file ends before byte {end}; expected {end - start} bytes at byte {start}")
    return data


def find_pages(
    footer: Footer, row_group: int, leaf: LeafColumn, read: ReadBytes, *, by_index: bool = False
) -> ChunkPages | None:
    """Find the pages of a column chunk. `read` reads bytes of the file.

    `by_index`: read the OffsetIndex instead of the headers, if there is one. None: the pages are encrypted or damaged
    or do not tell rows apart, and the chunk must be read whole. FormatError for damage.
    """
    chunk, _ = read_numbers(footer.raw, int(footer.chunks[row_group, leaf.index]))
    rows = footer.rows[row_group]
    if footer.crypto is not None or not _ENCRYPTED.isdisjoint(chunk):
        return None
    try:
        metadata = chunk[ColumnChunk.meta_data.id]
        codec, values = metadata[ColumnMetaData.codec.id], metadata[ColumnMetaData.num_values.id]
        data, size = metadata[ColumnMetaData.data_page_offset.id], metadata[ColumnMetaData.total_compressed_size.id]
        dictionary = metadata.get(ColumnMetaData.dictionary_page_offset.id) or data
        start = dictionary if 0 < dictionary < data else data
        index = chunk.get(ColumnChunk.offset_index_offset.id) or 0
        index_size = chunk.get(ColumnChunk.offset_index_length.id) or 0
        by_index = by_index and min(index, index_size) > 0
        if min(start, size, values, rows) <= 0 or (by_index and leaf.repeated and not _has_version_2_only(metadata)):
            return None
    except (LookupError, TypeError, AttributeError):  # a field is missing or of another type
        return None
    if by_index:
        raw = read_exactly(read, index, index + index_size)
        located = parse_offset_index(bytes(raw), data, start + size, rows)
        extent = (start, data) if start < data else None
        return ChunkPages(leaf, codec, *located, extent, np.full(len(located[0]), extent is not None))
    pages = read_headers(lambda a, b: read_exactly(read, start + a, start + b), size, values)
    if leaf.repeated and not all(page.type == DATA_PAGE_V2 for page in pages.data):
        return None
    starts = np.array([page.start for page in pages.data], np.int64) + start
    ends = np.array([page.end for page in pages.data], np.int64) + start
    counts = [page.rows if leaf.repeated else page.values for page in pages.data]
    first_row = np.array([0, *counts], np.int64).cumsum()
    if first_row[-1] != rows:
        raise FormatError(f"the pages of the column chunk have {first_row[-1]} rows; its row group has {rows}")
    place = pages.dictionary
    extent = None if place is None else (start + place.start, start + place.end)
    encoded = np.array([page.uses_dictionary for page in pages.data])
    return ChunkPages(leaf, codec, starts, ends, first_row, extent, encoded)


_ENCRYPTED = frozenset({ColumnChunk.crypto_metadata.id, ColumnChunk.encrypted_column_metadata.id})


def _has_version_2_only(metadata: Numbers) -> bool:
    """Whether the footer says that all data pages of a chunk have version 2."""
    stats = metadata.get(ColumnMetaData.encoding_stats.id) or []
    types = {each.get(PageEncodingStats.page_type.id) for each in stats}
    return DATA_PAGE_V2 in types and DATA_PAGE not in types


def parse_offset_index(
    raw: bytes, start: int, end: int, rows: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The `start`, `end` and `first_row` of :class:`ChunkPages` by an OffsetIndex.

    FormatError unless its pages fill the bytes from `start` to `end` and have `rows` rows.
    """
    locations: list[Numbers] = read_numbers(raw)[0].get(OffsetIndex.page_locations.id) or []
    try:
        offsets, sizes, first_rows = (
            np.array([location[each.id] for location in locations], np.int64)
            for each in (PageLocation.offset, PageLocation.compressed_page_size, PageLocation.first_row_index)
        )
    except (LookupError, TypeError, OverflowError):
        raise FormatError("a page location of the offset index lacks a field, or has one of another type") from None
    ends, first_row = offsets + sizes, np.append(first_rows, rows)
    is_filled = len(offsets) and offsets[0] == start and ends[-1] == end and (ends[:-1] == offsets[1:]).all()
    if not is_filled or (sizes <= 0).any() or first_row[0] != 0 or (np.diff(first_row) < 0).any():
        raise FormatError(
            f"the pages of the offset index do not follow each other from byte {start} to {end}, row 0 to {rows}"
        )
    return offsets, ends, first_row
