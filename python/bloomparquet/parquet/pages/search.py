"""Finds the pages of a flat column that may hold one of a few values, without decoding them.

A page is decompressed and searched for the bytes that the PLAIN encoding has for the values. Of a dictionary, only the
dictionary page is searched. A page without these bytes is proven to hold none of the values. Of other encodings,
nothing is proven.

Source: parquet-format ``Encodings.md`` (PLAIN, RLE), ``README.md`` ("Data Pages"), ``Compression.md``.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bloomparquet.parquet.metadata.codecs import codec_name
from bloomparquet.parquet.pages.headers import (
    DATA_PAGE_V2,
    DICTIONARY_PAGE,
    PLAIN,
    PLAIN_DICTIONARY,
    RLE,
    Page,
    read_header,
)
from bloomparquet.parquet.pages.places import ChunkPages
from bloomparquet.storage.ranges import ReadBytes
from bloomparquet.storage.threads import in_threads

PlainValues = NDArray[np.unsignedinteger] | list[bytes]
"""Values as PLAIN stores them: numbers of the column's width, or bytes with their length where it is stored."""

_CODECS_OF_ARROW = frozenset({"SNAPPY", "GZIP", "BROTLI", "ZSTD", "LZ4_RAW"})


def rows_of_pages_with(chunk: ChunkPages, values: PlainValues, read: ReadBytes, threads: int) -> NDArray[np.int64]:
    """The rows of the pages of `chunk` that may hold one of `values`, ascending. The column must have no repeated node
    and at most one optional one. FormatError for damage."""
    is_nullable = chunk.leaf.node.repetition != "REQUIRED"
    dictionary_holds = True
    if chunk.dictionary is not None and chunk.may_use_dictionary.any():
        data = chunk.read_dictionary(read)
        header = read_header(lambda a, b: data[a:b], 0, len(data))
        dictionary_holds = _may_hold(header, data, chunk.codec, values, is_nullable=False)

    def may_hold(page: int) -> bool:
        if chunk.may_use_dictionary[page] and dictionary_holds:
            return True
        header, data = chunk.read(page, read)
        if header.uses_dictionary:
            return dictionary_holds
        return _may_hold(header, data, chunk.codec, values, is_nullable=is_nullable)

    pages = np.flatnonzero(list(in_threads(threads, may_hold, range(len(chunk.start)))))
    ranges = [np.arange(chunk.first_row[page], chunk.first_row[page + 1]) for page in pages.tolist()]
    return np.concatenate(ranges) if ranges else np.zeros(0, np.int64)


def _may_hold(header: Page, data: bytes | memoryview, codec: int, values: PlainValues, *, is_nullable: bool) -> bool:
    """Whether the page `data`, which begins with its header, may hold one of `values`."""
    is_plain = header.encoding == PLAIN or (header.type == DICTIONARY_PAGE and header.encoding == PLAIN_DICTIONARY)
    bodies = _bodies(header, data, codec) if is_plain else []
    return not bodies or any(_body_may_hold(header, body, values, is_nullable=is_nullable) for body in bodies)


def _body_may_hold(header: Page, body: bytes, values: PlainValues, *, is_nullable: bool) -> bool:
    if isinstance(values, list):
        return any(value in body for value in values)
    start = 0
    if is_nullable and header.type != DATA_PAGE_V2:
        if header.level_encoding != RLE:
            return True
        start = 4 + int.from_bytes(body[:4], "little")
    if start > len(body) or (len(body) - start) % values.itemsize:
        return True
    numbers = np.frombuffer(body, values.dtype, offset=start)
    return any(bool((numbers == value).any()) for value in values)


def _bodies(header: Page, data: bytes | memoryview, codec: int) -> list[bytes]:
    """What a page may hold after its header: its values, in version 1 after their levels. Empty if that is unknown.

    Writers store a page of version 2 uncompressed if compression does not make it smaller. So the stored bytes and the
    decompressed ones are both returned where both are possible.
    """
    stored = data[header.body + header.level_bytes : header.end]
    size = header.uncompressed_size - header.level_bytes
    name = codec_name(codec)
    is_stored = name == "UNCOMPRESSED" or header.type == DATA_PAGE_V2
    bodies = [bytes(stored)] if is_stored and len(stored) == size else []
    if name in _CODECS_OF_ARROW and len(stored):
        with suppress(OSError, pa.ArrowException):  # the error of a damaged page comes from pyarrow, which decodes it
            bodies.append(pa.Codec(name.lower()).decompress(stored, size, asbytes=True))
    return bodies
