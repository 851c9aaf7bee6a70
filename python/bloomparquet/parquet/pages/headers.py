"""The page headers of one column chunk: where each page begins, its encoding, its number of values.

pyarrow decodes the pages themselves. Reading all headers is the only way to know that all data pages of a chunk are
dictionary encoded: the footer's ``encodings`` include the PLAIN dictionary page, and its ``encoding_stats`` are
optional.

Source: parquet-format ``parquet.thrift`` (PageHeader), ``README.md`` ("Data Pages").
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from bloomparquet.errors import FormatError
from bloomparquet.parquet.thrift.definitions import DataPageHeader, DataPageHeaderV2, DictionaryPageHeader, PageHeader
from bloomparquet.parquet.thrift.reader import CompactReader
from bloomparquet.parquet.thrift.struct import ThriftStruct

S = TypeVar("S", bound=ThriftStruct)

DATA_PAGE, _INDEX_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = range(4)
PLAIN, PLAIN_DICTIONARY, RLE, RLE_DICTIONARY = 0, 2, 3, 8


class Page(NamedTuple):
    """A page of a column chunk: its header begins at `start`, its `size` bytes, perhaps compressed, at `body`."""

    type: int
    start: int
    body: int
    size: int
    uncompressed_size: int
    crc: int | None
    values: int  # including nulls; for a dictionary page, the number of entries
    encoding: int


class Chunk(NamedTuple):
    """The pages of a column chunk: its dictionary page, if it has one, and its data pages. `end` is the last one's."""

    dictionary: Page | None
    data: tuple[Page, ...]
    end: int

    @property
    def is_dictionary_encoded(self) -> bool:
        """Whether every value of the chunk is an entry of its dictionary."""
        encodings = {page.encoding for page in self.data}
        return self.dictionary is not None and encodings <= {PLAIN_DICTIONARY, RLE_DICTIONARY}


def walk_pages(buffer: bytes | memoryview, values: int) -> Chunk:
    """The pages at the start of `buffer` that have `values` values together.

    Raises FormatError if a header is damaged, a page ends behind `buffer`, or the pages have another number of values.
    """
    dictionary: Page | None = None
    data: list[Page] = []
    position = seen = 0
    while seen < values:
        page = _read_page(buffer, position)
        position = page.body + page.size
        if page.type == DICTIONARY_PAGE:
            if dictionary is not None or data:
                raise FormatError(f"unexpected dictionary page at byte {page.start} of the column chunk")
            dictionary = page
        elif page.type in (DATA_PAGE, DATA_PAGE_V2):
            data.append(page)
            seen += page.values
    if seen != values:
        raise FormatError(f"the pages of the column chunk have {seen} values, but its metadata says {values}")
    return Chunk(dictionary, tuple(data), position)


def _read_page(buffer: bytes | memoryview, position: int) -> Page:
    reader = CompactReader(buffer, position)
    header = reader.read_struct(PageHeader)
    return parse_page(header, position, reader.position, len(buffer) - reader.position)


def parse_page(header: PageHeader, start: int, body: int, room: int) -> Page:
    """The page of `header`. Offsets are from the start of its chunk; the chunk has `room` bytes from `body` on.

    FormatError for a damaged header, and for a page larger than `room`.
    """
    try:
        details = _details(header)
        values, encoding = (0, 0) if details is None else (details.num_values, details.encoding)
        size, uncompressed_size = header.compressed_page_size, header.uncompressed_page_size
        page = Page(header.type, start, body, size, uncompressed_size, header.crc, values, encoding)
    except FormatError as error:
        raise FormatError(f"the page header at byte {start} of the column chunk: {error}") from error
    if min(page.type, size, uncompressed_size, values, encoding) < 0:
        raise FormatError(f"the page header at byte {start} of the column chunk has a negative number: {page}")
    if size > room:
        raise FormatError(f"the page at byte {start} of the column chunk claims {size} bytes; {room} are left")
    return page


def _details(header: PageHeader) -> DataPageHeader | DataPageHeaderV2 | DictionaryPageHeader | None:
    """The part of the header for its page type; None for index pages and unknown types."""
    if header.type == DATA_PAGE:
        return _required(header.data_page_header)
    if header.type == DATA_PAGE_V2:
        return _required(header.data_page_header_v2)
    return _required(header.dictionary_page_header) if header.type == DICTIONARY_PAGE else None


def _required(details: S | None) -> S:
    if details is None:
        raise FormatError("the part for its page type is missing")
    return details


def level_bytes(header: PageHeader, page: Page) -> int:
    """The number of bytes of a :data:`DATA_PAGE_V2` that are levels. They precede the values, uncompressed."""
    details = _required(header.data_page_header_v2)
    sizes = details.definition_levels_byte_length, details.repetition_levels_byte_length
    if min(sizes) < 0 or sum(sizes) > page.size:
        raise FormatError(
            f"the page at byte {page.start} of the column chunk claims levels of {sizes} bytes, but has {page.size}"
        )
    return sum(sizes)
