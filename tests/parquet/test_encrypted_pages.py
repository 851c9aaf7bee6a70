"""Encrypting and decrypting the pages of a column chunk. Altered or moved pages are an error."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.parquet.encryption.file_crypto import ChunkCipher
from bloomparquet.parquet.encryption.modules import Algorithm, Cipher, Module
from bloomparquet.parquet.pages import headers as pages
from bloomparquet.parquet.pages.encrypted import EncryptedChunk, decrypt_chunk, encrypt_chunk
from bloomparquet.parquet.pages.headers import walk_pages
from bloomparquet.parquet.thrift.definitions import PageHeader
from bloomparquet.parquet.thrift.reader import read_struct
from bloomparquet.parquet.thrift.writer import write_struct
from tests.parquet.test_page_headers import I32, STRUCT, chunk_of, page
from tests.support.core import Field

KEY = b"0123456789012345"
GCM, CTR = Algorithm(b"in-file!"), Algorithm(b"in-file!", counter_mode_pages=True)
BOTH = pytest.mark.parametrize("algorithm", [GCM, CTR], ids=["gcm", "ctr"])


def cipher_at(row_group: int = 1, column: int = 2, *, key: bytes = KEY, aad: bytes = b"in-file!") -> ChunkCipher:
    return ChunkCipher(Cipher(key, aad), row_group, column)


CIPHER = cipher_at()


def decrypted(
    encrypted: bytes, values: int, algorithm: Algorithm, cipher: ChunkCipher = CIPHER, *, dictionary: bool = False
) -> bytes:
    out = bytearray(b"before")
    offsets = decrypt_chunk(encrypted, cipher, algorithm, values, out, dictionary=dictionary)
    assert out.startswith(b"before")
    walked = walk_pages(bytes(out[6:]), values)
    assert offsets.data == 6 + walked.data[0].start
    assert offsets.dictionary == (None if walked.dictionary is None else 6)
    return bytes(out[6:])


def without_checksums(chunk: bytes) -> bytes:
    out, position = b"", 0
    while position < len(chunk):
        header, body = read_struct(chunk, PageHeader, position)
        position = body + header.compressed_page_size
        header.crc = None
        out += write_struct(header) + chunk[body:position]
    return out


def modules(data: bytes) -> Iterator[tuple[int, int]]:
    """The start and the end of each module: a page's header, then its bytes, and so on."""
    position = 0
    while position < len(data):
        end = position + 4 + int.from_bytes(data[position : position + 4], "little")
        yield position, end
        position = end


def small_chunk(*, crc: bool = False) -> bytes:
    """A dictionary and two data pages, one of each version."""
    bodies = (2, b"dictionary", 3, pages.PLAIN), (0, b"first", 4, pages.RLE_DICTIONARY)
    made = [page(*body, crc=zlib.crc32(body[1]) - (1 << 32) if crc else None) for body in bodies]
    return b"".join(made) + page_v2(b"", b"\x03", b"second", 5, crc=1 if crc else None)


def page_v2(repetition: bytes, definition: bytes, data: bytes, values: int, *, crc: int | None = None) -> bytes:
    details = {1: values, 2: 0, 3: values, 4: pages.RLE_DICTIONARY, 5: len(definition), 6: len(repetition)}
    more = {8: Field(STRUCT, {field_id: Field(I32, value) for field_id, value in details.items()})}
    return page(3, repetition + definition + data, values, crc=crc, more=more)


@BOTH
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_dictionary": False, "compression": "none"},
        {"data_page_version": "2.0", "compression": "zstd", "data_page_size": 500},
        {"write_page_checksum": True, "data_page_size": 100, "use_dictionary": False},
    ],
    ids=["dictionary", "plain", "version 2", "checksums"],
)
def test_decrypting_reverses_encrypting(options: dict[str, Any], algorithm: Algorithm, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    lists = [None if i % 7 == 0 else [i % 40, None] for i in range(3000)]
    pq.write_table(pa.table({"x": pa.array(lists, pa.list_(pa.int64()))}), path, **options)
    plain, values = chunk_of(path)
    chunk = encrypt_chunk(plain, CIPHER, algorithm)
    assert decrypted(chunk.data, values, algorithm, dictionary=chunk.has_dictionary) == without_checksums(plain)
    assert decrypted(chunk.data, values, algorithm, dictionary=False) == without_checksums(plain)
    walked = walk_pages(plain, values)
    assert chunk.has_dictionary == (walked.dictionary is not None)
    assert len(chunk.pages) == len(walked.data) >= (3 if "data_page_size" in options else 1)


@BOTH
def test_an_encrypted_chunk_has_the_offsets_of_its_pages(algorithm: Algorithm) -> None:
    chunk = encrypt_chunk(small_chunk(crc=True), CIPHER, algorithm)
    spans = list(modules(chunk.data))
    bodies = [b"dictionary", b"first", b"\x03second"]
    assert len(spans) == 6
    assert [(each.offset, each.offset + each.size) for each in chunk.pages] == [
        (spans[2][0], spans[3][1]),
        (spans[4][0], spans[5][1]),
    ]
    headers = spans[0], spans[2], spans[4]
    assert chunk.uncompressed_size == sum(end - start for start, end in headers) + 2 * sum(map(len, bodies))
    overhead = 16 if algorithm.counter_mode_pages else 32
    for ordinal, (start, end) in zip((None, 0, 1), headers, strict=True):
        module = Module.DICTIONARY_PAGE_HEADER if ordinal is None else Module.DATA_PAGE_HEADER
        ordinals = () if ordinal is None else (ordinal,)
        header, _ = read_struct(CIPHER.decrypt(chunk.data[start:end], module, *ordinals), PageHeader)
        encrypted = chunk.data[end : end + header.compressed_page_size]
        assert header.compressed_page_size == len(bodies[0 if ordinal is None else ordinal + 1]) + overhead
        assert (header.crc or 0) % (1 << 32) == zlib.crc32(encrypted)


@BOTH
def test_no_nonce_is_used_twice(algorithm: Algorithm) -> None:
    encrypted = [encrypt_chunk(small_chunk(), CIPHER, algorithm).data for _ in range(20)]
    nonces = {data[start + 4 : start + 16] for data in encrypted for start, _ in modules(data)}
    assert len(nonces) == 20 * 6


def test_counter_mode_authenticates_headers_and_lengths() -> None:
    encrypted = encrypt_chunk(small_chunk(), CIPHER, CTR).data
    spans = list(modules(encrypted))
    authenticated = {at for start, end in spans[0::2] for at in range(start, end)}
    authenticated |= {at for start, _ in spans[1::2] for at in range(start, start + 4)}
    for at in sorted(authenticated):
        with pytest.raises(bp.EncryptionError):
            decrypted(flip(encrypted, at), 9, CTR, dictionary=True)
    passed = sum(decrypted(flip(encrypted, end - 1), 9, CTR) != decrypted(encrypted, 9, CTR) for _, end in spans[1::2])
    assert passed == 3, "the specification authenticates no page bytes in counter mode"


def test_counter_mode_checks_checksums() -> None:
    encrypted = encrypt_chunk(small_chunk(crc=True), CIPHER, CTR).data
    for at in range(len(encrypted)):
        with pytest.raises(bp.EncryptionError):
            decrypted(flip(encrypted, at), 9, CTR, dictionary=True)


def flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes((data[at] ^ 0x10,)) + data[at + 1 :]


def parts(chunk: EncryptedChunk) -> list[bytes]:
    """The pages, each with its header."""
    bounds = [start for start, _ in list(modules(chunk.data))[::2]]
    return [chunk.data[i:j] for i, j in zip(bounds, [*bounds[1:], len(chunk.data)], strict=True)]


@BOTH
def test_a_moved_page_is_an_error(algorithm: Algorithm) -> None:
    plain = page(2, b"dictionary", 3) + b"".join(page(0, data, 2, pages.RLE_DICTIONARY) for data in (b"one", b"two"))
    mine = encrypt_chunk(plain, CIPHER, algorithm)
    dictionary, one, two = parts(mine)
    assert decrypted(dictionary + one + two, 4, algorithm) == plain
    swapped = [two + one, dictionary + two + one, dictionary + one + one, one + dictionary + two, dictionary * 2 + one]
    for other in (cipher_at(0), cipher_at(1, 3), cipher_at(2, 1), cipher_at(aad=b"another"), cipher_at(key=KEY[::-1])):
        theirs = parts(encrypt_chunk(plain, other, algorithm))
        swapped += [theirs[0] + one + two, dictionary + theirs[1] + two, dictionary + one + theirs[2]]
    for data in swapped:
        with pytest.raises(bp.EncryptionError):
            decrypted(data, 4, algorithm)
    with pytest.raises(bp.EncryptionError, match=f"the page at byte {len(dictionary)} of the column chunk"):
        decrypted(dictionary + two + one, 4, algorithm)


def java_page(
    algorithm: Algorithm, ordinal: int, repetition: bytes, definition: bytes, data: bytes, values: int
) -> bytes:
    """A version 2 page as parquet-java writes it: plaintext levels before the module, zeros behind the header."""
    module = (
        CIPHER.cipher.encrypt_counter_mode(data)
        if algorithm.counter_mode_pages
        else CIPHER.encrypt(data, Module.DATA_PAGE, ordinal)
    )
    encrypted = repetition + definition + module
    plain = page_v2(repetition, definition, b"", values)
    header, _ = read_struct(plain, PageHeader)
    header.compressed_page_size = len(encrypted)
    crc = zlib.crc32(encrypted)
    header.crc = crc - (crc >> 31 << 32)
    return CIPHER.encrypt(write_struct(header) + bytes(40), Module.DATA_PAGE_HEADER, ordinal) + encrypted


@BOTH
@pytest.mark.parametrize("definition", [b"", b"\x02\x01", b"\x03" * 40])
def test_version_2_pages_by_parquet_java_are_decrypted(definition: bytes, algorithm: Algorithm) -> None:
    first = java_page(algorithm, 0, b"\x06\x00", definition, b"values", 3)
    second = java_page(algorithm, 1, b"", definition, b"", 2)  # all values are null
    plain = page_v2(b"\x06\x00", definition, b"values", 3) + page_v2(b"", definition, b"", 2)
    # The headers differ in the uncompressed size.
    assert list(bodies_of(decrypted(first + second, 5, algorithm))) == list(bodies_of(plain))


def bodies_of(chunk: bytes) -> Iterator[bytes]:
    position = 0
    while position < len(chunk):
        header, body = read_struct(chunk, PageHeader, position)
        position = body + header.compressed_page_size
        yield chunk[body:position]


@BOTH
def test_a_checksum_protects_plaintext_levels(algorithm: Algorithm) -> None:
    encrypted = java_page(algorithm, 0, b"\x06\x00", b"\x02\x01\x03", b"values", 3)
    for at in range(len(encrypted)):
        with pytest.raises(bp.EncryptionError):
            decrypted(flip(encrypted, at), 3, algorithm)


def test_index_pages_are_left_out() -> None:
    def index(ordinal: int) -> bytes:
        return CIPHER.encrypt(page(1, size=7), Module.DATA_PAGE_HEADER, ordinal) + b"ignored"

    dictionary, one, two = parts(encrypt_chunk(small_chunk(), CIPHER, GCM))
    assert decrypted(dictionary + index(0) + one + index(1) + index(1) + two, 9, GCM) == small_chunk()


@BOTH
def test_missing_pages_are_an_error(algorithm: Algorithm) -> None:
    dictionary, one, two = parts(encrypt_chunk(small_chunk(), CIPHER, algorithm))
    with pytest.raises(bp.EncryptionError, match="dictionary page header cannot be decrypted"):
        decrypted(one + two, 9, algorithm, dictionary=True)
    with pytest.raises(bp.FormatError, match="have 4 values, but its metadata says 9"):
        decrypted(dictionary + one, 9, algorithm)
    with pytest.raises(bp.EncryptionError):
        decrypted(dictionary + two, 5, algorithm)
    with pytest.raises(bp.FormatError, match="have 9 values, but its metadata says 8"):
        decrypted(dictionary + one + two, 8, algorithm)
