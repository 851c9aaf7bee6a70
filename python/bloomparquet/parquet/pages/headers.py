"""The pages of one column chunk: where each begins, how it is encoded, how many values it has.

Only headers are read here; what is in a page is pyarrow's to decode. The walk is what tells for certain that all data
pages of a chunk are dictionary encoded: a footer's ``encodings`` cannot tell it for files of the present, as the
dictionary page itself is PLAIN, and its ``encoding_stats`` are optional.

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
    """A page of a chunk. `start` is where its header begins, `body` where what the header is about does; from there
    `size` bytes, which are compressed as the chunk says."""

    type: int
    start: int
    body: int
    size: int
    uncompressed_size: int
    crc: int | None
    values: int  # nulls included; of a dictionary page, its entries
    encoding: int


class Chunk(NamedTuple):
    """The pages of a chunk: its dictionary, if it has one, and its data pages. `end` is where the last one ends."""

    dictionary: Page | None
    data: tuple[Page, ...]
    end: int

    @property
    def is_dictionary_encoded(self) -> bool:
        """Whether every value of the chunk is an entry of its dictionary."""
        encodings = {page.encoding for page in self.data}
        return self.dictionary is not None and encodings <= {PLAIN_DICTIONARY, RLE_DICTIONARY}


def walk_pages(buffer: bytes | memoryview, values: int) -> Chunk:
    """The pages from the beginning of `buffer` on, until they have `values` values.

    FormatError where the headers are damaged, reach beyond the buffer, or have another number of values.
    """
    dictionary: Page | None = None
    data: list[Page] = []
    position = seen = 0
    while seen < values:
        page = _read_page(buffer, position)
        position = page.body + page.size
        if page.type == DICTIONARY_PAGE:
            if dictionary is not None or data:
                raise FormatError(f"a dictionary page at byte {page.start} of the column chunk, where none may be")
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
    """The page whose `header` begins at byte `start` of its chunk, while the page itself begins at `body`, with `room`
    bytes from there to the chunk's end. FormatError where these do not fit together."""
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
    """The part of the header that belongs to its page type; None for a type that is not read here."""
    if header.type == DATA_PAGE:
        return _required(header.data_page_header)
    if header.type == DATA_PAGE_V2:
        return _required(header.data_page_header_v2)
    return _required(header.dictionary_page_header) if header.type == DICTIONARY_PAGE else None


def _required(details: S | None) -> S:
    if details is None:
        raise FormatError("it lacks the part that belongs to its page type")
    return details


def level_bytes(header: PageHeader, page: Page) -> int:
    """How many bytes of a :data:`DATA_PAGE_V2` are levels, which lie before its values and are never compressed."""
    details = _required(header.data_page_header_v2)
    sizes = details.definition_levels_byte_length, details.repetition_levels_byte_length
    if min(sizes) < 0 or sum(sizes) > page.size:
        raise FormatError(
            f"the page at byte {page.start} of the column chunk claims levels of {sizes} bytes, but has {page.size}"
        )
    return sum(sizes)
