"""The page headers of one column chunk: where each page begins, its encoding, its number of values.

pyarrow decodes the pages themselves. Reading all headers is the only way to know that all data pages of a chunk are
dictionary encoded: the footer's ``encodings`` include the PLAIN dictionary page, and its ``encoding_stats`` are
optional.

Source: parquet-format ``parquet.thrift`` (PageHeader), ``README.md`` ("Data Pages").
"""

from __future__ import annotations

from typing import NamedTuple

from bloomparquet.errors import FormatError, LimitError, quoted
from bloomparquet.parquet.thrift.definitions import DataPageHeader, DataPageHeaderV2, PageHeader
from bloomparquet.parquet.thrift.reader import CompactReader, S
from bloomparquet.storage.ranges import ReadBytes

DATA_PAGE, _INDEX_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = range(4)
PLAIN, PLAIN_DICTIONARY, RLE, RLE_DICTIONARY = 0, 2, 3, 8

_TYPE, _UNCOMPRESSED, _COMPRESSED = (
    PageHeader.type.id, PageHeader.uncompressed_page_size.id, PageHeader.compressed_page_size.id,
)  # fmt: skip
_CRC = PageHeader.crc.id
_V1, _DICTIONARY, _V2 = (
    PageHeader.data_page_header.id, PageHeader.dictionary_page_header.id, PageHeader.data_page_header_v2.id,
)  # fmt: skip
_LEVELS = DataPageHeader.definition_level_encoding.id
_VALUES, _ENCODING = DataPageHeader.num_values.id, DataPageHeader.encoding.id
"""The header of a dictionary page has the same numbers for these fields."""
_V2_FIELDS = tuple(
    each.id
    for each in (
        DataPageHeaderV2.num_values, DataPageHeaderV2.num_rows, DataPageHeaderV2.encoding,
        DataPageHeaderV2.definition_levels_byte_length, DataPageHeaderV2.repetition_levels_byte_length,
    )
)  # fmt: skip
_HEADER_BYTES = 256
"""Most headers have fewer bytes. Those with long bounds are read in several steps."""


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
    rows: int  # of a DATA_PAGE_V2; 0 for other pages, which do not say it
    definition_bytes: int  # of a DATA_PAGE_V2: the levels precede the values, uncompressed
    repetition_bytes: int
    level_encoding: int = RLE  # of the definition levels of a DATA_PAGE

    @property
    def end(self) -> int:
        return self.body + self.size

    @property
    def uses_dictionary(self) -> bool:
        """Whether the values of a data page are entries of its chunk's dictionary."""
        return self.encoding in (PLAIN_DICTIONARY, RLE_DICTIONARY)

    @property
    def level_bytes(self) -> int:
        return self.definition_bytes + self.repetition_bytes


class Chunk(NamedTuple):
    """The pages of a column chunk: its dictionary page, if it has one, and its data pages. `end` is the last one's."""

    dictionary: Page | None
    data: tuple[Page, ...]
    end: int

    @property
    def is_dictionary_encoded(self) -> bool:
        """Whether every value of the chunk is an entry of its dictionary."""
        return self.dictionary is not None and all(page.uses_dictionary for page in self.data)


def walk_pages(buffer: bytes | memoryview, values: int) -> Chunk:
    """The pages at the start of `buffer` that have `values` values together.

    Raises FormatError if a header is damaged, a page ends behind `buffer`, or the pages have another number of values.
    """
    return read_headers(lambda start, end: buffer[start:end], len(buffer), values)


def read_headers(read: ReadBytes, size: int, values: int) -> Chunk:
    """:func:`walk_pages` over a chunk of `size` bytes that `read` reads. It reads the headers and little more."""
    dictionary: Page | None = None
    data: list[Page] = []
    position = seen = 0
    while seen < values:
        page = read_header(read, position, size)
        position = page.end
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


def read_header(read: ReadBytes, start: int, limit: int) -> Page:
    """The page at byte `start` of a chunk, by reading its header. It must end at byte `limit` at the latest."""
    length = _HEADER_BYTES
    while True:
        end = min(start + length, limit)
        try:
            return parse_page(bytes(read(start, end)), start, limit)
        except FormatError:
            if end == limit or length >= limit:
                raise
            length *= 64


def read_fields(data: bytes, definition: type[S], position: int = 0) -> tuple[S, int]:
    """The struct at `position` of `data`, and where it ends. FormatError if it is damaged."""
    reader = CompactReader(data, position)
    try:
        return reader.read_struct(definition), reader.position
    except LimitError as error:
        raise FormatError(str(error)) from None


def parse_page(header: bytes, start: int, limit: int, body: int | None = None) -> Page:
    """The page whose header is at the start of the bytes `header` and at byte `start` of its chunk.

    `body`: where the page's bytes begin; None: after the header. FormatError for a damaged header, and for a page that
    ends behind byte `limit` of the chunk.
    """
    place = f"at byte {start} of the column chunk"
    try:
        fields, length = read_fields(header, PageHeader)
    except FormatError as error:
        raise FormatError(f"the page header {place}: {error}") from error
    body = start + length if body is None else body
    try:
        kind, size, uncompressed_size = fields[_TYPE], fields[_COMPRESSED], fields[_UNCOMPRESSED]
        values = encoding = rows = definitions = repetitions = 0
        levels = RLE
        if kind == DATA_PAGE_V2:
            details = fields[_V2]
            values, rows, encoding, definitions, repetitions = [details[each] for each in _V2_FIELDS]
        elif kind in (DATA_PAGE, DICTIONARY_PAGE):
            details = fields[_V1 if kind == DATA_PAGE else _DICTIONARY]
            values, encoding = details[_VALUES], details[_ENCODING]
            levels = details.get(_LEVELS, RLE) if kind == DATA_PAGE else RLE
        crc = fields.get(_CRC)
        if any(type(each) is not int for each in (values, encoding, levels, 0 if crc is None else crc)):
            raise TypeError
        is_negative = kind | size | uncompressed_size | values | encoding | rows | definitions | repetitions < 0
    except (LookupError, TypeError):
        raise FormatError(
            f"the page header {place} lacks a required field, or has one of another type: {quoted(fields)}"
        ) from None
    page = Page(
        kind, start, body, size, uncompressed_size, crc, values, encoding, rows, definitions, repetitions, levels
    )  # fmt: skip
    if is_negative:
        raise FormatError(f"the page header {place} has a negative number: {page}")
    if body + size > limit:
        raise FormatError(f"the page {place} claims {size} bytes; {limit - body} are left")
    if definitions + repetitions > size:
        raise FormatError(f"the page {place} has more bytes of levels than bytes: {page}")
    return page
