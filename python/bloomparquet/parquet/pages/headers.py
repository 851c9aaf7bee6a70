"""The pages of one column chunk: where each begins, how it is encoded, how many values it has.

Only headers are read here; what is in a page is pyarrow's to decode. The walk is what tells for certain that all data
pages of a chunk are dictionary encoded: a footer's ``encodings`` cannot tell it for files of the present, as the
dictionary page itself is PLAIN, and its ``encoding_stats`` are optional.

Source: parquet-format ``parquet.thrift`` (PageHeader), ``README.md`` ("Data Pages").
"""

from __future__ import annotations

from typing import Any, NamedTuple

from bloomparquet.errors import FormatError, quoted
from bloomparquet.parquet.thrift.reader import CompactReader, Struct

DATA_PAGE, _INDEX_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = range(4)
PLAIN, PLAIN_DICTIONARY, RLE, RLE_DICTIONARY = 0, 2, 3, 8

_HEADERS = {DATA_PAGE: (5, 2), DICTIONARY_PAGE: (7, 2), DATA_PAGE_V2: (8, 4)}
"""Page type → the field of PageHeader that is about this type, and there the field with the encoding."""


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
        elif page.type in _HEADERS:
            data.append(page)
            seen += page.values
    if seen != values:
        raise FormatError(f"the pages of the column chunk have {seen} values, but its metadata says {values}")
    return Chunk(dictionary, tuple(data), position)


def _read_page(buffer: bytes | memoryview, position: int) -> Page:
    reader = CompactReader(buffer, position)
    header = reader.read_struct()
    return parse_page(header, position, reader.position, len(buffer) - reader.position)


def parse_page(header: Struct, start: int, body: int, room: int) -> Page:
    """The page whose `header` begins at byte `start` of its chunk, while the page itself begins at `body`, with `room`
    bytes from there to the chunk's end. FormatError where these do not fit together."""
    kind = _number(header, 1, start)
    field, encoding = _HEADERS.get(kind, (0, 0))
    details = header.get(field, {})
    if field and not isinstance(details, dict):
        raise FormatError(f"the page header at byte {start} of the column chunk lacks field {field}")
    size = _number(header, 3, start)
    if size > room:
        raise FormatError(f"the page at byte {start} of the column chunk claims {size} bytes; {room} are left")
    crc: Any = header.get(4)
    return Page(
        kind,
        start,
        body,
        size,
        _number(header, 2, start),
        crc if isinstance(crc, int) else None,
        _number(details, 1, start) if field else 0,
        _number(details, encoding, start) if field else 0,
    )


def level_bytes(header: Struct, page: Page) -> int:
    """How many bytes of a :data:`DATA_PAGE_V2` are levels, which lie before its values and are never compressed."""
    details: Struct = header[_HEADERS[DATA_PAGE_V2][0]]
    size = _number(details, 5, page.start) + _number(details, 6, page.start)
    if size > page.size:
        raise FormatError(
            f"the page at byte {page.start} of the column chunk claims levels of {size} bytes, but has {page.size}"
        )
    return size


def _number(fields: Struct, field_id: int, position: int) -> int:
    value = fields.get(field_id)
    if not isinstance(value, int) or value < 0:
        raise FormatError(
            f"field {field_id} of the page header at byte {position} of the column chunk is {quoted(value)}; "
            "expected a number, not negative"
        )
    return value
