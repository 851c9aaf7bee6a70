"""Encrypted modules: what they are bound to, how they are opened and sealed.

Everything in an encrypted file that has a key is a *module*: the footer, the metadata of a column, a page and its
header, a filter's header and its bitset. Each is sealed by AES in Galois/Counter mode together with its place in the
file (the AAD), so that bytes which were altered, or moved here from elsewhere, do not open. Under AES_GCM_CTR_V1 pages
alone are in plain counter mode, which nothing protects.

AES is that of the ``cryptography`` library; nonces are random, as the specification wants them.

Source: parquet-format ``Encryption.md`` (sections 4 and 5), ``parquet.thrift`` (EncryptionAlgorithm,
FileCryptoMetaData).
"""

from __future__ import annotations

import hmac
import os
import struct
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING

from bloomparquet.errors import BloomParquetError, EncryptionError, FormatError
from bloomparquet.parquet.thrift.definitions import AesGcm, EncryptionAlgorithm, FileCryptoMetaData
from bloomparquet.parquet.thrift.reader import CompactReader
from bloomparquet.parquet.thrift.struct import ThriftStruct

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

LENGTH_BYTES, NONCE_BYTES, TAG_BYTES = 4, 12, 16
OVERHEAD = LENGTH_BYTES + NONCE_BYTES + TAG_BYTES
"""Bytes that a module in Galois/Counter mode has more than what is in it."""
SIGNATURE_BYTES = NONCE_BYTES + TAG_BYTES
MAX_ORDINAL = 32767
"""Row groups, columns and pages are numbered by signed 16-bit integers: no more of them can be encrypted."""

_FILE_UNIQUE_BYTES = 8
_SUFFIXES = [struct.Struct("<b" + ordinals * "h") for ordinals in range(4)]


class Module(IntEnum):
    """What a module is; the number is part of its AAD."""

    FOOTER = 0
    COLUMN_METADATA = 1
    DATA_PAGE = 2
    DICTIONARY_PAGE = 3
    DATA_PAGE_HEADER = 4
    DICTIONARY_PAGE_HEADER = 5
    COLUMN_INDEX = 6
    OFFSET_INDEX = 7
    BLOOM_FILTER_HEADER = 8
    BLOOM_FILTER_BITSET = 9


_OPAQUE = {Module.DATA_PAGE, Module.DICTIONARY_PAGE, Module.BLOOM_FILTER_BITSET}
"""The others are Thrift structs."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    """How a file is encrypted. `aad_prefix` is the one that the file holds; with `supply_aad_prefix` it holds none,
    and readers have to know it."""

    file_unique: bytes
    counter_mode_pages: bool = False
    aad_prefix: bytes | None = None
    supply_aad_prefix: bool = False

    @classmethod
    def new(cls, *, counter_mode_pages: bool, aad_prefix: bytes | None, store_aad_prefix: bool) -> Algorithm:
        """That of a file to be written."""
        unique = os.urandom(_FILE_UNIQUE_BYTES)
        stored = aad_prefix if store_aad_prefix else None
        return cls(unique, counter_mode_pages, stored, aad_prefix is not None and not store_aad_prefix)

    @classmethod
    def parse(cls, union: EncryptionAlgorithm) -> Algorithm:
        """An EncryptionAlgorithm. EncryptionError for one that is not known here."""
        if len(union) != 1:
            raise FormatError("the file's encryption algorithm is no union of AES_GCM_V1 and AES_GCM_CTR_V1")
        fields = union.AES_GCM_CTR_V1 if union.has(EncryptionAlgorithm.AES_GCM_CTR_V1) else union.AES_GCM_V1
        if fields is None:
            raise EncryptionError(
                f"the file is encrypted by algorithm {next(iter(union))}; known are AES_GCM_V1 and AES_GCM_CTR_V1"
            )
        counter_mode_pages = union.has(EncryptionAlgorithm.AES_GCM_CTR_V1)
        return cls(
            fields.aad_file_unique or b"",
            counter_mode_pages,
            fields.aad_prefix or None,
            fields.supply_aad_prefix is True,
        )

    def to_struct(self) -> EncryptionAlgorithm:
        """The EncryptionAlgorithm."""
        fields = AesGcm(
            aad_prefix=self.aad_prefix,
            aad_file_unique=self.file_unique,
            supply_aad_prefix=self.supply_aad_prefix or None,
        )
        name = "AES_GCM_CTR_V1" if self.counter_mode_pages else "AES_GCM_V1"
        return EncryptionAlgorithm(**{name: fields})

    def file_aad(self, given: bytes | None) -> bytes:
        """What the AAD of every module begins with, when the reader was given that AAD prefix. EncryptionError where
        it is not the file's."""
        if self.aad_prefix is not None:
            if given is not None and given != self.aad_prefix:
                raise EncryptionError(
                    "the AAD prefix that was given is not the one that the file holds; is it the right file?"
                )
            return self.aad_prefix + self.file_unique
        if self.supply_aad_prefix and given is None:
            raise EncryptionError(
                "the file was written with an AAD prefix that it does not hold; give Keys its aad_prefix"
            )
        if given is not None and not self.supply_aad_prefix:
            raise EncryptionError("an AAD prefix was given, but the file was written with none; is it the right file?")
        return (given or b"") + self.file_unique


def parse_file_crypto(raw: bytes) -> tuple[Algorithm, bytes | None, int]:
    """A FileCryptoMetaData: the algorithm, the footer key's metadata, and where the struct ends."""
    reader = CompactReader(raw)
    metadata = reader.read_struct(FileCryptoMetaData)
    return Algorithm.parse(metadata.encryption_algorithm), metadata.key_metadata, reader.position


def module_aad(file_aad: bytes, module: Module, *ordinals: int) -> bytes:
    """The AAD of a module; `ordinals` are those of the row group, the column and the page, as far as it has them.

    EncryptionError for one that does not fit.
    """
    if ordinals and not 0 <= min(ordinals) <= max(ordinals) <= MAX_ORDINAL:
        found = max(ordinals, key=lambda ordinal: abs(2 * ordinal - MAX_ORDINAL))
        raise EncryptionError(
            f"row group, column or page {found} of an encrypted file; they are numbered from 0 to {MAX_ORDINAL}"
        )
    return file_aad + _SUFFIXES[len(ordinals)].pack(module, *ordinals)


class Cipher:
    """One key of one file. `supplied` says that the AAD prefix came from the reader, so that it may be wrong."""

    __slots__ = ("_gcm", "_key", "_supplied", "file_aad")

    def __init__(self, key: bytes, file_aad: bytes, *, supplied: bool = False) -> None:
        self._key, self.file_aad, self._supplied = key, file_aad, supplied
        self._gcm = _gcm(key)

    def decrypt(self, data: bytes | memoryview, module: Module, *ordinals: int) -> bytes:
        """What is in the module that fills the whole of `data`, its length first. EncryptionError when it does not
        open; nothing of it is then known."""
        size = module_size(data)
        if size != len(data):
            raise EncryptionError(f"the module says that it has {size} bytes; expected {len(data)}")
        nonce, sealed = bytes(data[LENGTH_BYTES : LENGTH_BYTES + NONCE_BYTES]), data[LENGTH_BYTES + NONCE_BYTES :]
        aad = module_aad(self.file_aad, module, *ordinals)
        try:
            return self._gcm.decrypt(nonce, sealed, aad)
        except _invalid_tag():
            raise EncryptionError(self._why(nonce, bytes(sealed[:-TAG_BYTES]), module)) from None

    def encrypt(self, plain: bytes | memoryview, module: Module, *ordinals: int) -> bytes:
        """A module with `plain` in it, its length first."""
        nonce = os.urandom(NONCE_BYTES)
        sealed = self._gcm.encrypt(nonce, plain, module_aad(self.file_aad, module, *ordinals))
        return (NONCE_BYTES + len(sealed)).to_bytes(LENGTH_BYTES, "little") + nonce + sealed

    def decrypt_counter_mode(self, data: bytes | memoryview) -> bytes:
        """What is in the page that fills the whole of `data`, its length first, under AES_GCM_CTR_V1."""
        size = module_size(data, NONCE_BYTES)
        if size != len(data):
            raise EncryptionError(f"the page says that it has {size} bytes; expected {len(data)}")
        start = LENGTH_BYTES + NONCE_BYTES
        return self._counter_mode(bytes(data[LENGTH_BYTES:start]), data[start:], 1)

    def encrypt_counter_mode(self, plain: bytes | memoryview) -> bytes:
        """A page with `plain` in it, its length first, under AES_GCM_CTR_V1."""
        nonce = os.urandom(NONCE_BYTES)
        return (NONCE_BYTES + len(plain)).to_bytes(LENGTH_BYTES, "little") + nonce + self._counter_mode(nonce, plain, 1)

    def sign(self, footer: bytes) -> bytes:
        """The signature behind a footer in plain text."""
        return self._signature(footer, os.urandom(NONCE_BYTES))

    def verify(self, footer: bytes, signature: bytes) -> None:
        """EncryptionError unless `signature` is that of `footer`."""
        if not hmac.compare_digest(self._signature(footer, signature[:NONCE_BYTES]), signature):
            prefix = ", or the AAD prefix that was given" if self._supplied else ""
            raise EncryptionError(
                f"the footer's signature does not fit: the footer was altered, or the footer key{prefix} is wrong"
            )

    def _signature(self, footer: bytes, nonce: bytes) -> bytes:
        return nonce + self._gcm.encrypt(nonce, footer, module_aad(self.file_aad, Module.FOOTER))[-TAG_BYTES:]

    def _counter_mode(self, nonce: bytes, data: bytes | memoryview, counter: int) -> bytes:
        from cryptography.hazmat.primitives.ciphers import Cipher as LibraryCipher
        from cryptography.hazmat.primitives.ciphers import algorithms, modes

        first = nonce + counter.to_bytes(4, "big")
        done = LibraryCipher(algorithms.AES(self._key), modes.CTR(first)).encryptor()
        return done.update(data) + done.finalize()

    def _why(self, nonce: bytes, sealed: bytes, module: Module) -> str:
        """What is most likely wrong with a module that does not open.

        Galois/Counter mode is counter mode from 2 on, with a tag over it: under the right key a Thrift struct appears
        even where the tag does not fit. It tells a wrong key from a wrong place, and is used for nothing else.
        """
        what = module.name.lower().replace("_", " ")
        if module in _OPAQUE:
            return f"the {what} does not open: its bytes were altered, or moved here from another place or file"
        if not _is_struct(self._counter_mode(nonce, sealed, 2)):
            return f"the {what} does not open: the key is wrong, or its bytes were altered"
        if self._supplied:
            return f"the {what} does not open, though the key fits: the AAD prefix that was given is wrong"
        return (
            f"the {what} does not open, though the key fits: it was altered, or moved here from another place or file"
        )


def module_size(data: bytes | memoryview, least: int = NONCE_BYTES + TAG_BYTES) -> int:
    """The bytes of the module at the start of `data`, its length's four included. EncryptionError where there can be
    none."""
    size = int.from_bytes(data[:LENGTH_BYTES], "little")
    if len(data) < LENGTH_BYTES or size < least:
        raise EncryptionError(f"no encrypted module: its length is {size}; expected {least} or more")
    return LENGTH_BYTES + size


def _is_struct(data: bytes) -> bool:
    reader = CompactReader(data)
    try:
        reader.read_struct(ThriftStruct)
    except BloomParquetError:
        return False
    return not any(data[reader.position :])  # parquet-java leaves zeros behind some


@lru_cache(maxsize=1024)
def _gcm(key: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


def _invalid_tag() -> type[Exception]:
    from cryptography.exceptions import InvalidTag

    return InvalidTag
