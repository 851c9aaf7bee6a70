"""The pages of an encrypted column chunk: opened for those who decode pages in plain text, and sealed.

An encrypted chunk is a row of modules, two for each page: its header and its bytes as they are after compression. A
header counts the bytes of the sealed page, and its checksum is of these; both Arrow and parquet-java do so. Data pages
are numbered from 0 in their chunk, which binds each to its place; the dictionary has no number.

Of version 2 data pages there are two forms. Arrow and parquet-rs seal a page whole, as the specification says;
parquet-java leaves the levels in front of the module in plain text. Both are opened, the first is sealed.

Source: parquet-format ``Encryption.md`` (sections 4.4.2 and 5.1), ``parquet.thrift`` (PageHeader); Arrow
``column_writer.cc`` and parquet-java ``ColumnChunkPageWriteStore``, for what is counted and checked.
"""

from __future__ import annotations

import zlib
from contextlib import suppress
from typing import NamedTuple

from bloomparquet.errors import EncryptionError, FormatError, LimitError
from bloomparquet.parquet.encryption.file_crypto import ChunkCipher
from bloomparquet.parquet.encryption.modules import LENGTH_BYTES, NONCE_BYTES, OVERHEAD, Algorithm, Module, module_size
from bloomparquet.parquet.pages import headers as pages
from bloomparquet.parquet.pages.headers import Page
from bloomparquet.parquet.thrift.definitions import PageHeader
from bloomparquet.parquet.thrift.reader import read_struct
from bloomparquet.parquet.thrift.writer import write_struct

_MOST_BYTES = 2**31 - 1
_COUNTER_MODE_OVERHEAD = LENGTH_BYTES + NONCE_BYTES


class DecryptedChunk(NamedTuple):
    """Where in the opened bytes the first data page begins, and the dictionary page, if there is one."""

    data: int
    dictionary: int | None


class EncryptedPage(NamedTuple):
    """A sealed data page with its header: where it begins in its chunk, and its bytes (as in a PageLocation)."""

    offset: int
    size: int


class EncryptedChunk(NamedTuple):
    """A sealed chunk, with what a footer and an offset index say of it; offsets count from the chunk's beginning.

    `uncompressed_size` is what the pages take without compression, with the headers as they are sealed. Where there is
    a dictionary page, it begins at 0. `pages` are the data pages.
    """

    data: bytes
    uncompressed_size: int
    has_dictionary: bool
    pages: tuple[EncryptedPage, ...]


def decrypt_chunk(
    buffer: bytes | memoryview,
    cipher: ChunkCipher,
    algorithm: Algorithm,
    values: int,
    out: bytearray,
    *,
    dictionary: bool,
) -> DecryptedChunk:
    """Append to `out` the pages at the beginning of `buffer`, in plain text, until they have `values` values.

    `dictionary` says that by the column's metadata there is a dictionary page: then there must be one. Headers keep
    everything but their checksums, which are of sealed bytes, and index pages are left out, which nobody reads.

    Raises EncryptionError for what was altered, removed, or moved here from another place or file, and FormatError or
    LimitError for what is no chunk. Nothing binds to the key what is in pages under AES_GCM_CTR_V1, nor the levels that
    parquet-java leaves in plain text: that they were altered only a page's checksum shows, if there is one, and not if
    it was done with care. Their headers and lengths are bound.
    """
    view = memoryview(buffer)
    found: int | None = None
    data: int | None = None
    position = seen = ordinal = 0
    while seen < values and position < len(view):
        start = position
        try:
            is_dictionary, raw = _open_header(view[start:], cipher, ordinal, first=start == 0, dictionary=dictionary)
            header, _ = read_struct(raw, PageHeader)
            body = start + module_size(view[start:])
            page = pages.parse_page(header, start, body, len(view) - body)
            if is_dictionary != (page.type == pages.DICTIONARY_PAGE):
                raise FormatError(f"a page of type {page.type} at byte {start} of the column chunk, where none may be")
            position = body + page.size
            if page.type not in (pages.DATA_PAGE, pages.DATA_PAGE_V2, pages.DICTIONARY_PAGE):
                continue
            plain = _open_page(view[body:position], header, page, cipher, algorithm, None if is_dictionary else ordinal)
        except EncryptionError as error:
            raise EncryptionError(f"the page at byte {start} of the column chunk: {error}") from error
        if is_dictionary:
            found = len(out)
        else:
            data = len(out) if data is None else data
            ordinal += 1
            seen += page.values
        header.compressed_page_size = len(plain)
        header.crc = None
        out += write_struct(header)
        out += plain
    if seen != values:
        raise FormatError(f"the pages of the column chunk have {seen} values, but its metadata says {values}")
    return DecryptedChunk(len(out) if data is None else data, found)


def _open_header(
    view: memoryview, cipher: ChunkCipher, ordinal: int, *, first: bool, dictionary: bool
) -> tuple[bool, bytes]:
    """Whether the header at the beginning of `view` is that of a dictionary page, and the header."""
    module = view[: module_size(view)]
    if first and dictionary:
        return True, cipher.decrypt(module, Module.DICTIONARY_PAGE_HEADER)
    try:
        return False, cipher.decrypt(module, Module.DATA_PAGE_HEADER, ordinal)
    except EncryptionError:
        if first:
            with suppress(EncryptionError):
                return True, cipher.decrypt(module, Module.DICTIONARY_PAGE_HEADER)
        raise


def _open_page(
    sealed: memoryview, header: PageHeader, page: Page, cipher: ChunkCipher, algorithm: Algorithm, ordinal: int | None
) -> bytes:
    """A page in plain text; `ordinal` is None for the dictionary."""
    levels = pages.level_bytes(header, page) if page.type == pages.DATA_PAGE_V2 else 0
    outside = bool(levels) and _fits(sealed[levels:], algorithm)
    if algorithm.counter_mode_pages:
        _require_checksum(sealed, page)
        # By chance the random bytes of a page that is sealed whole hardly ever are a length that fits.
        start = levels if outside else 0
        return bytes(sealed[:start]) + cipher.cipher.decrypt_counter_mode(sealed[start:])
    module, place = (Module.DICTIONARY_PAGE, ()) if ordinal is None else (Module.DATA_PAGE, (ordinal,))
    try:
        return cipher.decrypt(sealed, module, *place)
    except EncryptionError:
        if not outside:
            raise
    _require_checksum(sealed, page)
    return bytes(sealed[:levels]) + cipher.decrypt(sealed[levels:], module, *place)


def _fits(data: memoryview, algorithm: Algorithm) -> bool:
    """Whether `data` is as long as it would be if it were a module."""
    least = _COUNTER_MODE_OVERHEAD if algorithm.counter_mode_pages else OVERHEAD
    return len(data) >= least and LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "little") == len(data)


def _require_checksum(sealed: memoryview, page: Page) -> None:
    if page.crc is not None and zlib.crc32(sealed) != page.crc & 0xFFFFFFFF:
        raise EncryptionError("the page's bytes were altered: they do not have the checksum that its header says")


def encrypt_chunk(plain: bytes | memoryview, cipher: ChunkCipher, algorithm: Algorithm) -> EncryptedChunk:
    """The chunk whose pages in plain text fill `plain`, encrypted. Checksums are kept where pages have them, those of
    the sealed bytes.

    Raises FormatError where there is something else than one dictionary page and data pages, EncryptionError for more
    data pages than can be numbered, and LimitError for one that gets too large.
    """
    view = memoryview(plain)
    out = bytearray()
    has_dictionary = False
    found: list[EncryptedPage] = []
    position = uncompressed = 0
    while position < len(view):
        header, body = read_struct(view, PageHeader, position)
        page = pages.parse_page(header, position, body, len(view) - body)
        is_dictionary = page.type == pages.DICTIONARY_PAGE
        if page.type not in (pages.DATA_PAGE, pages.DATA_PAGE_V2) and not (is_dictionary and not out):
            raise FormatError(f"a page of type {page.type} at byte {position} of the column chunk, where none may be")
        position = body + page.size
        place = () if is_dictionary else (len(found),)
        sealed = _seal_page(view[body:position], cipher, algorithm, is_dictionary, place)
        header.compressed_page_size = len(sealed)
        if page.crc is not None:
            crc = zlib.crc32(sealed)
            header.crc = crc - (crc >> 31 << 32)
        module = Module.DICTIONARY_PAGE_HEADER if is_dictionary else Module.DATA_PAGE_HEADER
        sealed_header = cipher.encrypt(write_struct(header), module, *place)
        if is_dictionary:
            has_dictionary = True
        else:
            found.append(EncryptedPage(len(out), len(sealed_header) + len(sealed)))
        out += sealed_header
        out += sealed
        uncompressed += len(sealed_header) + page.uncompressed_size
    return EncryptedChunk(bytes(out), uncompressed, has_dictionary, tuple(found))


def _seal_page(
    plain: memoryview, cipher: ChunkCipher, algorithm: Algorithm, is_dictionary: bool, place: tuple[int, ...]
) -> bytes:
    if len(plain) > _MOST_BYTES - OVERHEAD:
        raise LimitError(f"a page of {len(plain)} bytes is too large to be encrypted; make pages smaller")
    if algorithm.counter_mode_pages:
        return cipher.cipher.encrypt_counter_mode(plain)
    return cipher.encrypt(plain, Module.DICTIONARY_PAGE if is_dictionary else Module.DATA_PAGE, *place)
