"""Decrypts and encrypts the pages of a column chunk.

An encrypted chunk has two modules for each page: the header, and the page as it is after compression. The header has
the size and the checksum of the encrypted page, as in Arrow and parquet-java. Data pages are numbered from 0 in their
chunk, which binds each to its position; the dictionary page has no number.

There are two forms of encrypted version 2 data pages. Arrow and parquet-rs encrypt the whole page, as the specification
says. parquet-java leaves the levels in front of the module in plain text. This module decrypts both and writes the
first.

Source: parquet-format ``Encryption.md`` (sections 4.4.2 and 5.1), ``parquet.thrift`` (PageHeader); for sizes and
checksums Arrow ``column_writer.cc`` and parquet-java ``ColumnChunkPageWriteStore``.
"""

from __future__ import annotations

import zlib
from contextlib import suppress
from typing import NamedTuple

from bloomparquet.errors import EncryptionError, FormatError, LimitError
from bloomparquet.parquet.encryption.file_crypto import ChunkCipher
from bloomparquet.parquet.encryption.modules import LENGTH_BYTES, NONCE_BYTES, OVERHEAD, Algorithm, Module, module_size
from bloomparquet.parquet.pages.headers import (
    DATA_PAGE,
    DATA_PAGE_V2,
    DICTIONARY_PAGE,
    Page,
    parse_page,
)
from bloomparquet.parquet.thrift.definitions import PageHeader
from bloomparquet.parquet.thrift.reader import read_struct
from bloomparquet.parquet.thrift.writer import write_struct

_MAX_PAGE_BYTES = 2**31 - 1
_COUNTER_MODE_OVERHEAD = LENGTH_BYTES + NONCE_BYTES


class DecryptedChunk(NamedTuple):
    """The offsets of the first data page, and of the dictionary page if there is one, in the decrypted bytes."""

    data: int
    dictionary: int | None


class EncryptedPage(NamedTuple):
    """An encrypted data page with its header, as in a PageLocation. The offset is from the start of its chunk."""

    offset: int
    size: int


class EncryptedChunk(NamedTuple):
    """An encrypted chunk, with the sizes and offsets for a footer and an offset index.

    `uncompressed_size` is the size of the uncompressed pages with their encrypted headers. A dictionary page is at
    offset 0. `pages` are the data pages.
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
    """Append to `out` the decrypted pages at the start of `buffer` that have `values` values together.

    `dictionary`: whether the column's metadata claims a dictionary page, so that there must be one. Headers lose their
    checksums, which belong to the encrypted bytes. Index pages are left out, as no reader uses them.

    Raises EncryptionError for data that was altered, removed, or moved here from elsewhere, and FormatError or
    LimitError for other damage.

    Under AES_GCM_CTR_V1, pages are not authenticated, and neither are the levels that parquet-java leaves in plain
    text. Only a page's checksum, if it has one, shows that they were altered. Headers and lengths are always
    authenticated.
    """
    view = memoryview(buffer)
    dictionary_offset: int | None = None
    data_offset: int | None = None
    position = seen = ordinal = 0
    while seen < values and position < len(view):
        start = position
        try:
            is_dictionary, raw = _decrypt_header(view[start:], cipher, ordinal, first=start == 0, dictionary=dictionary)
            page = parse_page(raw, start, len(view), start + module_size(view[start:]))
            if is_dictionary != (page.type == DICTIONARY_PAGE):
                raise FormatError(f"unexpected page of type {page.type} at byte {start} of the column chunk")
            position = page.end
            if page.type not in (DATA_PAGE, DATA_PAGE_V2, DICTIONARY_PAGE):
                continue
            page_ordinal = None if is_dictionary else ordinal
            plain = _decrypt_page(view[page.body : position], page, cipher, algorithm, page_ordinal)
        except EncryptionError as error:
            raise EncryptionError(f"the page at byte {start} of the column chunk: {error}") from error
        if is_dictionary:
            dictionary_offset = len(out)
        else:
            data_offset = len(out) if data_offset is None else data_offset
            ordinal += 1
            seen += page.values
        header, _ = read_struct(raw, PageHeader)
        header.compressed_page_size = len(plain)
        header.crc = None
        out += write_struct(header)
        out += plain
    if seen != values:
        raise FormatError(f"the pages of the column chunk have {seen} values, but its metadata says {values}")
    return DecryptedChunk(len(out) if data_offset is None else data_offset, dictionary_offset)


def _decrypt_header(
    view: memoryview, cipher: ChunkCipher, ordinal: int, *, first: bool, dictionary: bool
) -> tuple[bool, bytes]:
    """Whether the page at the start of `view` is a dictionary page, and its decrypted header."""
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


def _decrypt_page(
    data: memoryview, page: Page, cipher: ChunkCipher, algorithm: Algorithm, ordinal: int | None
) -> bytes:
    """The decrypted page. `ordinal` is None for the dictionary page."""
    levels = page.level_bytes
    plain_levels = bool(levels) and _has_module_length(data[levels:], algorithm)
    if algorithm.counter_mode_pages:
        _require_checksum(data, page)
        # The random bytes of a page that is encrypted whole are hardly ever a module length that fits.
        start = levels if plain_levels else 0
        return bytes(data[:start]) + cipher.cipher.decrypt_counter_mode(data[start:])
    module, ordinals = (Module.DICTIONARY_PAGE, ()) if ordinal is None else (Module.DATA_PAGE, (ordinal,))
    try:
        return cipher.decrypt(data, module, *ordinals)
    except EncryptionError:
        if not plain_levels:
            raise
    _require_checksum(data, page)
    return bytes(data[:levels]) + cipher.decrypt(data[levels:], module, *ordinals)


def _has_module_length(data: memoryview, algorithm: Algorithm) -> bool:
    """Whether the length at the start of `data` would make all of `data` one module."""
    least = _COUNTER_MODE_OVERHEAD if algorithm.counter_mode_pages else OVERHEAD
    return len(data) >= least and LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "little") == len(data)


def _require_checksum(data: memoryview, page: Page) -> None:
    if page.crc is not None and zlib.crc32(data) != page.crc & 0xFFFFFFFF:
        raise EncryptionError("the page's bytes do not have the checksum of its header; they were altered")


def encrypt_chunk(plain: bytes | memoryview, cipher: ChunkCipher, algorithm: Algorithm) -> EncryptedChunk:
    """Encrypt the chunk whose pages fill `plain`. A page with a checksum gets the one of its encrypted bytes.

    Raises FormatError for other pages than one dictionary page and data pages, EncryptionError for more data pages than
    can be numbered, and LimitError for a page that gets too large.
    """
    view = memoryview(plain)
    out = bytearray()
    has_dictionary = False
    pages: list[EncryptedPage] = []
    position = uncompressed = 0
    while position < len(view):
        header, body = read_struct(view, PageHeader, position)
        page = parse_page(bytes(view[position:body]), position, len(view))
        is_dictionary = page.type == DICTIONARY_PAGE
        if page.type not in (DATA_PAGE, DATA_PAGE_V2) and not (is_dictionary and not out):
            raise FormatError(f"unexpected page of type {page.type} at byte {position} of the column chunk")
        position = page.end
        ordinals = () if is_dictionary else (len(pages),)
        encrypted = _encrypt_page(view[body:position], cipher, algorithm, is_dictionary, ordinals)
        header.compressed_page_size = len(encrypted)
        if page.crc is not None:
            crc = zlib.crc32(encrypted)
            header.crc = crc - (crc >> 31 << 32)
        module = Module.DICTIONARY_PAGE_HEADER if is_dictionary else Module.DATA_PAGE_HEADER
        encrypted_header = cipher.encrypt(write_struct(header), module, *ordinals)
        if is_dictionary:
            has_dictionary = True
        else:
            pages.append(EncryptedPage(len(out), len(encrypted_header) + len(encrypted)))
        out += encrypted_header
        out += encrypted
        uncompressed += len(encrypted_header) + page.uncompressed_size
    return EncryptedChunk(bytes(out), uncompressed, has_dictionary, tuple(pages))


def _encrypt_page(
    plain: memoryview, cipher: ChunkCipher, algorithm: Algorithm, is_dictionary: bool, ordinals: tuple[int, ...]
) -> bytes:
    if len(plain) > _MAX_PAGE_BYTES - OVERHEAD:
        raise LimitError(f"a page of {len(plain)} bytes is too large to be encrypted; make pages smaller")
    if algorithm.counter_mode_pages:
        return cipher.cipher.encrypt_counter_mode(plain)
    return cipher.encrypt(plain, Module.DICTIONARY_PAGE if is_dictionary else Module.DATA_PAGE, *ordinals)
