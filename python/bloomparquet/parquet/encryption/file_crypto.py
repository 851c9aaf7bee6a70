"""The encryption of one file: its algorithm, its keys, and the ciphers of its columns.

The footer says which key a column chunk has. A key is requested when it is first needed, once for each column of a
file.

Source: parquet-format ``Encryption.md`` (section 5), ``parquet.thrift`` (ColumnCryptoMetaData).
"""

from __future__ import annotations

from typing import NamedTuple

from bloomparquet.errors import EncryptionError, FormatError, MissingKeyError, shorten
from bloomparquet.parquet.encryption.keys import FileKeys, missing_key
from bloomparquet.parquet.encryption.modules import SIGNATURE_BYTES, Algorithm, Cipher, Module, parse_file_crypto
from bloomparquet.query.names import dotted_name


class ChunkCipher(NamedTuple):
    """The cipher of one column chunk, and the chunk's position in the file, which is part of its modules' AAD."""

    cipher: Cipher
    row_group: int
    column: int

    def decrypt(self, data: bytes | memoryview, module: Module, *page: int) -> bytes:
        """Decrypt a module of this chunk; see :meth:`Cipher.decrypt`."""
        return self.cipher.decrypt(data, module, self.row_group, self.column, *page)

    def encrypt(self, plain: bytes | memoryview, module: Module, *page: int) -> bytes:
        """Encrypt a module of this chunk; see :meth:`Cipher.encrypt`."""
        return self.cipher.encrypt(plain, module, self.row_group, self.column, *page)


class FileCrypto:
    """The encryption of one file, and its keys. `keys` may be None, or lack some."""

    def __init__(
        self, algorithm: Algorithm, footer_metadata: bytes | None, keys: FileKeys | None, *, encrypted_footer: bool
    ) -> None:
        self.algorithm, self.footer_metadata, self.encrypted_footer = algorithm, footer_metadata, encrypted_footer
        self._keys = keys
        self._ciphers: dict[tuple[str, ...], Cipher] = {}  # by column; the footer's has the empty path

    def footer(self) -> Cipher:
        """The cipher of the footer key. Raises EncryptionError if there is no such key."""
        return self._cipher((), self.footer_metadata)

    def column(self, path: tuple[str, ...], metadata: bytes | None) -> Cipher:
        """The cipher of a leaf column with its own key; `metadata` is its key metadata in the file.

        Raises EncryptionError if there is no such key.
        """
        return self._cipher(path, metadata)

    def require_no_own_key(self, path: tuple[str, ...]) -> None:
        """EncryptionError if the keys demand that this column, which has no key of its own, has one."""
        if self._keys is not None:
            self._keys.require_no_own_key(path)

    def forget_key(self, path: tuple[str, ...]) -> None:
        """Request the key of a column again: the one that was given cannot decrypt it."""
        self._ciphers.pop(path, None)

    def _cipher(self, path: tuple[str, ...], metadata: bytes | None) -> Cipher:
        cipher = self._ciphers.get(path)
        if cipher is None:
            cipher = self._ciphers[path] = self._make(path, metadata)
        return cipher

    def _make(self, path: tuple[str, ...], metadata: bytes | None) -> Cipher:
        if self._keys is None:
            raise missing_key(f"the key of column {shorten(dotted_name(path))}" if path else "the footer key")
        aad = self.algorithm.file_aad(self._keys.aad_prefix)
        key = self._keys.column_key(path, metadata) if path else self._keys.footer_key(metadata)
        return Cipher(key, aad, supplied=self.algorithm.supply_aad_prefix)


def decrypt_footer(raw: bytes, keys: FileKeys | None) -> tuple[bytes, FileCrypto]:
    """Decrypt the FileMetaData of an encrypted footer. `raw` lies between the row groups and the footer's length.

    Raises EncryptionError if decryption fails, FormatError if the bytes are damaged.
    """
    algorithm, metadata, size = parse_file_crypto(raw)
    crypto = FileCrypto(algorithm, metadata, keys, encrypted_footer=True)
    cipher = crypto.footer()
    try:
        return cipher.decrypt(memoryview(raw)[size:], Module.FOOTER), crypto
    except EncryptionError as error:
        if algorithm.file_unique:
            raise
        raise EncryptionError(
            f"{error}; the file has no identifier, like files that DuckDB encrypts, which violate the specification"
        ) from None


def verify_footer(
    raw: bytes, signature: bytes, algorithm: Algorithm, metadata: bytes | None, keys: FileKeys | None
) -> FileCrypto:
    """Verify the `signature` of a plaintext footer, and return the file's encryption.

    Without the footer key nothing is verified, as in other readers. Raises EncryptionError if the signature is wrong.
    """
    crypto = FileCrypto(algorithm, metadata, keys, encrypted_footer=False)
    try:
        cipher = crypto.footer()
    except MissingKeyError:
        return crypto
    if len(signature) != SIGNATURE_BYTES:
        raise FormatError(f"{len(signature)} bytes follow the footer; expected a signature of {SIGNATURE_BYTES}")
    cipher.verify(raw, signature)
    return crypto
