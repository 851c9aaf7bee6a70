"""The keys of one encrypted file at work: its footer opened or verified, its columns' ciphers found.

Which key a column chunk has stands beside it in the footer; a key is asked for when something is to be opened by it,
once for each column of a file.

Source: parquet-format ``Encryption.md`` (section 5), ``parquet.thrift`` (ColumnCryptoMetaData).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bloomparquet.errors import EncryptionError, FormatError, MissingKeyError, brief
from bloomparquet.parquet.encryption.keys import Keys, missing_key
from bloomparquet.parquet.encryption.modules import SIGNATURE_BYTES, Algorithm, Cipher, Module, parse_file_crypto
from bloomparquet.parquet.metadata.schema import LeafColumn
from bloomparquet.parquet.thrift.definitions import PHYSICAL_TYPES, ColumnMetaData
from bloomparquet.parquet.thrift.reader import CompactReader
from bloomparquet.query.names import shown

if TYPE_CHECKING:
    from bloomparquet.parquet.metadata.column_chunks import ChunkFields
    from bloomparquet.storage.files import Storage


class ChunkCipher(NamedTuple):
    """The key of one column chunk, and the chunk's place in its file, which its modules are bound to."""

    cipher: Cipher
    row_group: int
    column: int

    def open(self, data: bytes | memoryview, module: Module, *page: int) -> bytes:
        """As :meth:`Cipher.open`."""
        return self.cipher.open(data, module, self.row_group, self.column, *page)

    def seal(self, plain: bytes | memoryview, module: Module, *page: int) -> bytes:
        """As :meth:`Cipher.seal`."""
        return self.cipher.seal(plain, module, self.row_group, self.column, *page)


class FileCrypto:
    """How one file is encrypted, and the keys to it: `keys` may be None, or lack some."""

    def __init__(
        self,
        algorithm: Algorithm,
        footer_metadata: bytes | None,
        keys: Keys | None,
        storage: Storage,
        path: str,
        *,
        encrypted_footer: bool,
    ) -> None:
        self.algorithm, self.footer_metadata, self.encrypted_footer = algorithm, footer_metadata, encrypted_footer
        self._keys = None if keys is None else keys.for_file(storage, path)
        self._ciphers: dict[tuple[str, ...], Cipher] = {}  # the empty path is the footer's

    def footer(self) -> Cipher:
        """The footer key's cipher. EncryptionError where it is not given."""
        return self._cipher((), self.footer_metadata)

    def column(self, path: tuple[str, ...], metadata: bytes | None) -> Cipher:
        """That of a leaf column which has its own key, with its `metadata`. EncryptionError where it is not given."""
        return self._cipher(path, metadata)

    def chunk(self, fields: ChunkFields, path: tuple[str, ...], row_group: int, column: int) -> ChunkCipher | None:
        """That of the column chunk of which the footer has `fields`; None where it is in plain text.

        EncryptionError where its key is not at hand, and where it is not encrypted as it has to be: what nobody has
        sealed, somebody else may have written.
        """
        if self._keys is not None and fields.column_key is None:
            self._keys.require_no_own(path)
        if not fields.is_encrypted:
            return None
        if fields.sealed_metadata is None and (fields.column_key is not None or not self.encrypted_footer):
            raise EncryptionError("the column is encrypted, but not its metadata; the footer was altered")
        if fields.column_key is not None:
            return ChunkCipher(self.column(path, fields.key_metadata), row_group, column)
        if fields.footer_key is not None:
            return ChunkCipher(self.footer(), row_group, column)
        raise EncryptionError("the column is encrypted, but nothing that is known here says by which key")

    def forget(self, path: tuple[str, ...]) -> None:
        """Ask for the key of a column again, as what was given does not open it."""
        self._ciphers.pop(path, None)

    def _cipher(self, path: tuple[str, ...], metadata: bytes | None) -> Cipher:
        cipher = self._ciphers.get(path)
        if cipher is None:
            cipher = self._ciphers[path] = self._make(path, metadata)
        return cipher

    def _make(self, path: tuple[str, ...], metadata: bytes | None) -> Cipher:
        if self._keys is None:
            raise missing_key(f"the key of column {brief(shown(path))}" if path else "the footer key")
        aad = self.algorithm.file_aad(self._keys.aad_prefix)
        key = self._keys.column_key(path, metadata) if path else self._keys.footer_key(metadata)
        return Cipher(key, aad, supplied=self.algorithm.supply_aad_prefix)


def require_column(metadata: bytes, leaf: LeafColumn) -> None:
    """EncryptionError unless an opened ColumnMetaData is that of `leaf`: the schema is not under the column's key, and
    whoever may write it must not change what the column's statistics mean."""
    column = CompactReader(metadata).read_struct(ColumnMetaData, stop_after=ColumnMetaData.path_in_schema.id)
    names = [name.encode("utf-8", "surrogateescape") for name in leaf.path]
    if column.type != PHYSICAL_TYPES.index(leaf.node.physical_type or "") or column.path_in_schema != names:
        raise EncryptionError("the column's metadata is that of another column or type; the schema was altered")


def open_footer(raw: bytes, storage: Storage, path: str) -> tuple[bytes, FileCrypto]:
    """The FileMetaData in an encrypted footer: `raw` is what lies between the row groups and the footer's length.

    EncryptionError where it does not open, FormatError where there is none.
    """
    algorithm, metadata, size = parse_file_crypto(raw)
    crypto = FileCrypto(algorithm, metadata, storage.keys, storage, path, encrypted_footer=True)
    cipher = crypto.footer()
    try:
        return cipher.open(memoryview(raw)[size:], Module.FOOTER), crypto
    except EncryptionError as error:
        if algorithm.file_unique:
            raise
        raise EncryptionError(
            f"{error}; it has no identifier, like files that DuckDB encrypts, which are not as the specification says"
        ) from None


def verified(
    raw: bytes, signature: bytes, algorithm: Algorithm, metadata: bytes | None, storage: Storage, path: str
) -> FileCrypto:
    """The keys to a file whose footer `raw` is in plain text, with its `signature` behind it.

    It is verified where the footer key is at hand; without that key, readers take such a footer as it is. Raises
    EncryptionError where it does not fit.
    """
    if len(signature) != SIGNATURE_BYTES:
        raise FormatError(f"{len(signature)} bytes follow the footer; expected a signature of {SIGNATURE_BYTES}")
    crypto = FileCrypto(algorithm, metadata, storage.keys, storage, path, encrypted_footer=False)
    try:
        cipher = crypto.footer()
    except MissingKeyError:
        return crypto
    cipher.verify(raw, signature)
    return crypto
