"""Where the data pages of one column chunk lie, and which rows each has.

Either the page headers say it or the chunk's OffsetIndex. Headers are read in full, so that each page's first row is
the sum of the pages before it. An index is believed as far as it agrees with the footer and with the headers of the
pages that are read. For a column of lists only version 2 pages are used: a version 1 page does not say how many rows
it has, and a row may go on in the next page.

Source: parquet-format ``parquet.thrift`` (ColumnChunk, OffsetIndex), ``PageIndex.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import FormatError, LimitError
from bloomparquet.parquet.metadata.footer import Footer, is_encrypted, require_metadata
from bloomparquet.parquet.pages.headers import (
    DATA_PAGE,
    DATA_PAGE_V2,
    DICTIONARY_PAGE,
    PLAIN_DICTIONARY,
    RLE_DICTIONARY,
    Page,
    read_fields,
    read_header,
    read_headers,
)
from bloomparquet.parquet.thrift.definitions import (
    ColumnChunk,
    OffsetIndex,
    PageEncodingStats,
    PageLocation,
)
from bloomparquet.parquet.thrift.reader import read_struct
from bloomparquet.query.columns import LeafColumn
from bloomparquet.storage.ranges import ReadBytes

_DICTIONARY_WEIGHT = 1.3
"""Measured: a dictionary page of 1 MB for a few values costs as much more than its part of a whole chunk."""


_COST_OF_ROW = {"FIXED_LEN_BYTE_ARRAY": 24, "BYTE_ARRAY": 8}
"""Measured: the bytes of pages of numbers that take as long as one value more."""


@dataclass(frozen=True, slots=True, eq=False)
class ChunkPages:
    """The pages of one column chunk. Offsets are those of the file.

    Data page i is at the bytes ``start[i]:end[i]`` and has the rows ``first_row[i]:first_row[i + 1]`` of the row group.
    `codec` is the number of the compression codec. `dictionary` is the extent of the dictionary page, and
    ``may_use_dictionary[i]`` whether page i is expected to need it: an index does not say it.
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
    def cost_of_all(self) -> float:
        """What decoding the column chunk whole costs; see :meth:`cost`."""
        start, end = self.dictionary or (0, 0)
        return float((self.end - self.start).sum() + end - start + self._cost_of_row * self.first_row[-1])

    def cost(self, pages: NDArray[np.int64]) -> float:
        """What decoding `pages` costs, and the dictionary page if they may need it, in bytes that take as long."""
        start, end = self.dictionary or (0, 0)
        needed = _DICTIONARY_WEIGHT * (end - start) if self.may_use_dictionary[pages].any() else 0
        rows = (self.first_row[pages + 1] - self.first_row[pages]).sum()
        return float((self.end[pages] - self.start[pages]).sum() + self._cost_of_row * rows) + needed

    @property
    def _cost_of_row(self) -> int:
        return _COST_OF_ROW.get(self.leaf.node.physical_type or "", 0)

    def extents(self, pages: NDArray[np.int64]) -> list[tuple[int, int]]:
        """The start and end offsets of `pages`, and of the dictionary page if they may need it."""
        extents = list(zip(self.start[pages].tolist(), self.end[pages].tolist(), strict=True))
        if self.dictionary is not None and self.may_use_dictionary[pages].any():
            extents.append(self.dictionary)
        return extents

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
    chunk = _read_chunk(footer, row_group, leaf)
    rows = footer.rows[row_group]
    if footer.crypto is not None or is_encrypted(chunk):
        return None
    try:
        metadata = require_metadata(chunk.meta_data)
        codec, values = metadata.codec, metadata.num_values
        data, size = metadata.data_page_offset, metadata.total_compressed_size
        dictionary = metadata.dictionary_page_offset or data
        start = dictionary if 0 < dictionary < data else data
        data_pages = [each for each in metadata.encoding_stats or () if each.page_type in (DATA_PAGE, DATA_PAGE_V2)]
        is_version_2 = {each.page_type for each in data_pages} == {DATA_PAGE_V2}
        n_with_dictionary = _count_dictionary_pages(data_pages)
        index = _index_extent(chunk) if by_index else None
    except FormatError:  # a field is missing or of another type
        return None
    if min(start, size, values, rows) <= 0 or (index is not None and leaf.repeated and not is_version_2):
        return None
    if index is not None:
        located = parse_offset_index(bytes(read_exactly(read, *index)), data, start + size, rows)
        extent = (start, data) if start < data else None
        uses_dictionary = np.arange(len(located[0])) < n_with_dictionary
        return ChunkPages(leaf, codec, *located, extent, uses_dictionary & (extent is not None))
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


def _read_chunk(footer: Footer, row_group: int, leaf: LeafColumn) -> ColumnChunk:
    return read_fields(footer.raw, ColumnChunk, int(footer.chunks[row_group, leaf.index]))[0]


def index_extent(footer: Footer, row_group: int, leaf: LeafColumn) -> tuple[int, int] | None:
    """The start and end offsets of a column chunk's OffsetIndex; None if there is none, or if the footer is damaged."""
    with suppress(FormatError):  # pyarrow may accept the footer, and then reads the whole column
        return _index_extent(_read_chunk(footer, row_group, leaf))
    return None


def has_page_index(footer: Footer) -> bool:
    """Whether the first column chunk of a file has an OffsetIndex: writers give one to all chunks or to none."""
    return footer.chunks.size > 0 and index_extent(footer, 0, footer.profile.schema.leaves[0]) is not None


def _index_extent(chunk: ColumnChunk) -> tuple[int, int] | None:
    start, size = chunk.offset_index_offset or 0, chunk.offset_index_length or 0
    return (start, start + size) if min(start, size) > 0 else None


def _count_dictionary_pages(data_pages: Sequence[PageEncodingStats]) -> float:
    """How many data pages use the dictionary, as the footer says. Writers that give the dictionary up do so once, so
    these are the first ones."""
    dictionary = PLAIN_DICTIONARY, RLE_DICTIONARY
    return sum(each.count for each in data_pages if each.encoding in dictionary) if data_pages else np.inf


def parse_offset_index(
    raw: bytes, start: int, end: int, rows: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The `start`, `end` and `first_row` of :class:`ChunkPages` by an OffsetIndex.

    FormatError unless its pages fill the bytes from `start` to `end` and have `rows` rows.
    """
    fields = PageLocation.offset, PageLocation.compressed_page_size, PageLocation.first_row_index
    try:
        # A chunk may have more pages than a reader allows values in other structs.
        numbers = [[page[each.id] for each in fields] for page in read_struct(raw, OffsetIndex)[0].page_locations]
    except LimitError as error:
        raise FormatError(str(error)) from None
    except KeyError:
        raise FormatError("a page location of the offset index lacks a field") from None
    if any(type(number) is not int for page in numbers for number in page):
        raise FormatError("a page location of the offset index has a field of another type")
    offsets, sizes, first_rows = np.array(numbers, np.int64).reshape(-1, 3).T
    ends, first_row = offsets + sizes, np.append(first_rows, rows)
    is_filled = len(offsets) and offsets[0] == start and ends[-1] == end and (ends[:-1] == offsets[1:]).all()
    if not is_filled or (sizes <= 0).any() or first_row[0] != 0 or (np.diff(first_row) < 0).any():
        raise FormatError(
            f"the pages of the offset index do not follow each other from byte {start} to {end}, row 0 to {rows}"
        )
    return offsets, ends, first_row
