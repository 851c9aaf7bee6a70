"""The keys of one encrypted file at work: its footer opened or verified, its columns' ciphers found.

Which key a column chunk has stands beside it in the footer; a key is asked for when something is to be opened by it,
once for each column of a file.

Source: parquet-format ``Encryption.md`` (section 5), ``parquet.thrift`` (ColumnCryptoMetaData).
"""

from __future__ import annotations

from typing import NamedTuple

from bloomparquet.errors import EncryptionError, FormatError, MissingKeyError, shorten
from bloomparquet.parquet.encryption.keys import FileKeys, missing_key
from bloomparquet.parquet.encryption.modules import SIGNATURE_BYTES, Algorithm, Cipher, Module, parse_file_crypto
from bloomparquet.query.names import dotted_name


class ChunkCipher(NamedTuple):
    """The key of one column chunk, and the chunk's place in its file, which its modules are bound to."""

    cipher: Cipher
    row_group: int
    column: int

    def decrypt(self, data: bytes | memoryview, module: Module, *page: int) -> bytes:
        """As :meth:`Cipher.open`."""
        return self.cipher.decrypt(data, module, self.row_group, self.column, *page)

    def encrypt(self, plain: bytes | memoryview, module: Module, *page: int) -> bytes:
        """As :meth:`Cipher.seal`."""
        return self.cipher.encrypt(plain, module, self.row_group, self.column, *page)


class FileCrypto:
    """How one file is encrypted, and the keys to it: `keys` may be None, or lack some."""

    def __init__(
        self,
        algorithm: Algorithm,
        footer_metadata: bytes | None,
        keys: FileKeys | None,
        *,
        encrypted_footer: bool,
    ) -> None:
        self.algorithm, self.footer_metadata, self.encrypted_footer = algorithm, footer_metadata, encrypted_footer
        self._keys = keys
        self._ciphers: dict[tuple[str, ...], Cipher] = {}  # the empty path is the footer's

    def footer(self) -> Cipher:
        """The footer key's cipher. EncryptionError where it is not given."""
        return self._cipher((), self.footer_metadata)

    def column(self, path: tuple[str, ...], metadata: bytes | None) -> Cipher:
        """That of a leaf column which has its own key, with its `metadata`. EncryptionError where it is not given."""
        return self._cipher(path, metadata)

    def require_no_own_key(self, path: tuple[str, ...]) -> None:
        """EncryptionError for a column without a key of its own, if the keys name it and allow no plaintext files."""
        if self._keys is not None:
            self._keys.require_no_own_key(path)

    def forget_key(self, path: tuple[str, ...]) -> None:
        """Ask for the key of a column again, as what was given does not open it."""
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
    """The FileMetaData in an encrypted footer: `raw` is what lies between the row groups and the footer's length.

    EncryptionError where it does not open, FormatError where there is none.
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
            f"{error}; it has no identifier, like files that DuckDB encrypts, which are not as the specification says"
        ) from None


def verify_footer(
    raw: bytes, signature: bytes, algorithm: Algorithm, metadata: bytes | None, keys: FileKeys | None
) -> FileCrypto:
    """The keys to a file whose footer `raw` is in plain text, with its `signature` behind it.

    It is verified where the footer key is at hand; without that key, readers take such a footer as it is. Raises
    EncryptionError where it does not fit.
    """
    if len(signature) != SIGNATURE_BYTES:
        raise FormatError(f"{len(signature)} bytes follow the footer; expected a signature of {SIGNATURE_BYTES}")
    crypto = FileCrypto(algorithm, metadata, keys, encrypted_footer=False)
    try:
        cipher = crypto.footer()
    except MissingKeyError:
        return crypto
    cipher.verify(raw, signature)
    return crypto
