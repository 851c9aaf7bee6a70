"""Encrypts and decrypts *modules*, the encrypted parts of a Parquet file.

A module is the footer, a column's metadata, a page or its header, a Bloom filter's header or its bitset. AES in
Galois/Counter mode (GCM) authenticates it together with its position in the file (the AAD), so decryption fails if
bytes were altered or moved. AES_GCM_CTR_V1 encrypts pages in counter mode, which authenticates nothing.

AES is the ``cryptography`` library's. Nonces are random, as the specification requires.

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
"""Bytes that encryption in Galois/Counter mode adds to a module."""
SIGNATURE_BYTES = NONCE_BYTES + TAG_BYTES
MAX_ORDINAL = 32767
"""The AAD holds the numbers of row groups, columns and pages as signed 16-bit integers."""

_FILE_UNIQUE_BYTES = 8
_SUFFIXES = [struct.Struct("<b" + ordinals * "h") for ordinals in range(4)]


class Module(IntEnum):
    """The kind of a module. Its number is part of the AAD."""

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
"""Every other module is a Thrift struct."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    """The encryption algorithm of a file, with its parameters.

    `aad_prefix`: the prefix that the file stores. `supply_aad_prefix`: the file does not store its prefix, and readers
    must know it.
    """

    file_unique: bytes
    counter_mode_pages: bool = False
    aad_prefix: bytes | None = None
    supply_aad_prefix: bool = False

    @classmethod
    def new(cls, *, counter_mode_pages: bool, aad_prefix: bytes | None, store_aad_prefix: bool) -> Algorithm:
        """The algorithm of a new file."""
        return cls(
            os.urandom(_FILE_UNIQUE_BYTES),
            counter_mode_pages,
            aad_prefix if store_aad_prefix else None,
            aad_prefix is not None and not store_aad_prefix,
        )

    @classmethod
    def parse(cls, union: EncryptionAlgorithm) -> Algorithm:
        """Parse an EncryptionAlgorithm. Raises EncryptionError if it is unknown."""
        if len(union) != 1:
            raise FormatError(f"the file's encryption algorithm has {len(union)} values; expected one")
        counter_mode_pages = union.has(EncryptionAlgorithm.AES_GCM_CTR_V1)
        fields = union.AES_GCM_CTR_V1 if counter_mode_pages else union.AES_GCM_V1
        if fields is None:
            raise EncryptionError(
                f"the file is encrypted with algorithm {next(iter(union))}; known are AES_GCM_V1 and AES_GCM_CTR_V1"
            )
        return cls(
            fields.aad_file_unique or b"",
            counter_mode_pages,
            fields.aad_prefix or None,
            fields.supply_aad_prefix is True,
        )

    def to_struct(self) -> EncryptionAlgorithm:
        """The inverse of :meth:`parse`."""
        fields = AesGcm(
            aad_prefix=self.aad_prefix,
            aad_file_unique=self.file_unique,
            supply_aad_prefix=self.supply_aad_prefix or None,
        )
        name = "AES_GCM_CTR_V1" if self.counter_mode_pages else "AES_GCM_V1"
        return EncryptionAlgorithm(**{name: fields})

    def file_aad(self, aad_prefix: bytes | None) -> bytes:
        """The start of the AAD of every module of the file. `aad_prefix` is the reader's.

        Raises EncryptionError if it is not the file's prefix.
        """
        if self.aad_prefix is not None:
            if aad_prefix is not None and aad_prefix != self.aad_prefix:
                raise EncryptionError("aad_prefix differs from the AAD prefix in the file; is it the right file?")
            return self.aad_prefix + self.file_unique
        if self.supply_aad_prefix and aad_prefix is None:
            raise EncryptionError(
                "the file was written with an AAD prefix and does not store it; set Keys(aad_prefix=…)"
            )
        if aad_prefix is not None and not self.supply_aad_prefix:
            raise EncryptionError("aad_prefix is set, but the file was written without one; is it the right file?")
        return (aad_prefix or b"") + self.file_unique


def parse_file_crypto(raw: bytes) -> tuple[Algorithm, bytes | None, int]:
    """Parse a FileCryptoMetaData: the algorithm, the footer key's metadata, and the offset after the struct."""
    reader = CompactReader(raw)
    metadata = reader.read_struct(FileCryptoMetaData)
    return Algorithm.parse(metadata.encryption_algorithm), metadata.key_metadata, reader.position


def module_aad(file_aad: bytes, module: Module, *ordinals: int) -> bytes:
    """The AAD of a module. `ordinals` are the numbers of its row group, column and page, as far as it has them.

    Raises EncryptionError for a number that has no representation.
    """
    for ordinal in ordinals:
        if not 0 <= ordinal <= MAX_ORDINAL:
            raise EncryptionError(
                f"row group, column or page {ordinal} of an encrypted file; expected a number from 0 to {MAX_ORDINAL}"
            )
    return file_aad + _SUFFIXES[len(ordinals)].pack(module, *ordinals)


class Cipher:
    """Encrypts and decrypts with one key of one file. `supplied`: the AAD prefix is the reader's, and may be wrong."""

    __slots__ = ("_gcm", "_key", "_supplied", "file_aad")

    def __init__(self, key: bytes, file_aad: bytes, *, supplied: bool = False) -> None:
        self._key, self.file_aad, self._supplied = key, file_aad, supplied
        self._gcm = _gcm(key)

    def decrypt(self, data: bytes | memoryview, module: Module, *ordinals: int) -> bytes:
        """Decrypt the module that fills `data`, from its length on. Raises EncryptionError if that fails."""
        from cryptography.exceptions import InvalidTag

        _require_size(data, module_size(data))
        nonce, encrypted = bytes(data[LENGTH_BYTES : LENGTH_BYTES + NONCE_BYTES]), data[LENGTH_BYTES + NONCE_BYTES :]
        aad = module_aad(self.file_aad, module, *ordinals)
        try:
            return self._gcm.decrypt(nonce, encrypted, aad)
        except InvalidTag:
            raise EncryptionError(self._diagnose(nonce, bytes(encrypted[:-TAG_BYTES]), module)) from None

    def encrypt(self, plain: bytes | memoryview, module: Module, *ordinals: int) -> bytes:
        """The module that contains `plain`, from its length on."""
        nonce = os.urandom(NONCE_BYTES)
        encrypted = self._gcm.encrypt(nonce, plain, module_aad(self.file_aad, module, *ordinals))
        return (NONCE_BYTES + len(encrypted)).to_bytes(LENGTH_BYTES, "little") + nonce + encrypted

    def decrypt_counter_mode(self, data: bytes | memoryview) -> bytes:
        """Decrypt the page of AES_GCM_CTR_V1 that fills `data`, from its length on."""
        _require_size(data, module_size(data, NONCE_BYTES))
        start = LENGTH_BYTES + NONCE_BYTES
        return self._counter_mode(bytes(data[LENGTH_BYTES:start]), data[start:], 1)

    def encrypt_counter_mode(self, plain: bytes | memoryview) -> bytes:
        """The page of AES_GCM_CTR_V1 that contains `plain`, from its length on."""
        nonce = os.urandom(NONCE_BYTES)
        return (NONCE_BYTES + len(plain)).to_bytes(LENGTH_BYTES, "little") + nonce + self._counter_mode(nonce, plain, 1)

    def sign(self, footer: bytes) -> bytes:
        """The signature that follows a plaintext footer."""
        return self._signature(footer, os.urandom(NONCE_BYTES))

    def verify(self, footer: bytes, signature: bytes) -> None:
        """Raise EncryptionError unless `signature` is the signature of `footer`."""
        if not hmac.compare_digest(self._signature(footer, signature[:NONCE_BYTES]), signature):
            prefix = " or aad_prefix" if self._supplied else ""
            raise EncryptionError(
                f"the footer's signature is wrong: the footer was altered, or the footer key{prefix} is wrong"
            )

    def _signature(self, footer: bytes, nonce: bytes) -> bytes:
        return nonce + self._gcm.encrypt(nonce, footer, module_aad(self.file_aad, Module.FOOTER))[-TAG_BYTES:]

    def _counter_mode(self, nonce: bytes, data: bytes | memoryview, counter: int) -> bytes:
        from cryptography.hazmat.primitives.ciphers import Cipher as LibraryCipher
        from cryptography.hazmat.primitives.ciphers import algorithms, modes

        first = nonce + counter.to_bytes(4, "big")
        encryptor = LibraryCipher(algorithms.AES(self._key), modes.CTR(first)).encryptor()
        return encryptor.update(data) + encryptor.finalize()

    def _diagnose(self, nonce: bytes, encrypted: bytes, module: Module) -> str:
        """The most likely reason why a module cannot be decrypted.

        GCM is counter mode, starting at 2, with a tag. So the right key yields a Thrift struct even if the tag is
        wrong. That tells a wrong key from a wrong position, and is used for nothing else.
        """
        failure = f"the {module.name.lower().replace('_', ' ')} cannot be decrypted"
        if module in _OPAQUE:
            return f"{failure}: its bytes were altered, or moved here from another position or file"
        if not _is_struct(self._counter_mode(nonce, encrypted, 2)):
            return f"{failure}: the key is wrong, or its bytes were altered"
        if self._supplied:
            return f"{failure}, though the key is right: aad_prefix is wrong"
        return f"{failure}, though the key is right: it was altered, or moved here from another position or file"


def module_size(data: bytes | memoryview, least: int = NONCE_BYTES + TAG_BYTES) -> int:
    """The size of the module at the start of `data`, the four bytes of its length included.

    Raises EncryptionError if it is smaller than any module.
    """
    size = int.from_bytes(data[:LENGTH_BYTES], "little")
    if len(data) < LENGTH_BYTES or size < least:
        raise EncryptionError(f"not an encrypted module: its length is {size}; expected {least} or more")
    return LENGTH_BYTES + size


def _require_size(data: bytes | memoryview, size: int) -> None:
    if size != len(data):
        raise EncryptionError(f"the encrypted module has {size} bytes by its own length; expected {len(data)}")


def _is_struct(data: bytes) -> bool:
    reader = CompactReader(data)
    try:
        reader.read_struct(ThriftStruct)
    except BloomParquetError:
        return False
    return not any(data[reader.position :])  # parquet-java pads some with zeros


@lru_cache(maxsize=1024)
def _gcm(key: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)
