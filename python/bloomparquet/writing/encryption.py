"""The option `encryption`, and the encryption of one file: a footer key, column keys, and their metadata.

Source: parquet-format ``Encryption.md`` (sections 4.3, 5.2), ``parquet.thrift`` (ColumnCryptoMetaData).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from bloomparquet.errors import EncryptionError, OptionError, PlanError, did_you_mean, located
from bloomparquet.parquet.encryption.file_crypto import ChunkCipher, FileCrypto
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.parquet.encryption.keys.wrapping import KeyWrapper
from bloomparquet.parquet.encryption.modules import MAX_ORDINAL, Algorithm
from bloomparquet.parquet.thrift.definitions import ColumnCryptoMetaData, Empty, EncryptionWithColumnKey
from bloomparquet.query.columns import LeafColumn
from bloomparquet.query.names import names_of
from bloomparquet.query.predicate import Column
from bloomparquet.storage.files import Storage

if TYPE_CHECKING:
    from bloomparquet.parquet.encryption.keys.keys import ByColumn

ALGORITHMS = ("AES_GCM_V1", "AES_GCM_CTR_V1")


class Encryption:
    """The encryption of new files: with the given `keys`, or with keys of a KMS (:meth:`from_kms`).

    `keys` has the footer key and the keys of columns. Columns with a key are encrypted, the others are not. If no
    column has a key, all are encrypted with the footer key. The AAD prefix of `keys` is stored in the file, unless
    `store_aad_prefix` is False; then readers must know it. With `plaintext_footer`, the footer is signed instead of
    encrypted, and readers without support for encryption can read the other columns. `algorithm` is ``"AES_GCM_V1"`` or
    ``"AES_GCM_CTR_V1"``; the latter does not detect tampered pages. Key metadata is stored for key retrievers. Columns
    have the same names in `column_key_metadata` as in `keys`.

    Filters, statistics and page indexes of an encrypted column are encrypted with the column's key. Raises OptionError
    for arguments that contradict each other.

    >>> keys = bp.Keys(footer=b"0123456789abcdef", columns={"user_id": b"fedcba9876543210"})
    >>> encryption = bp.Encryption(keys, plaintext_footer=True)
    >>> table = pa.table({"user_id": range(1000), "country": ["CH"] * 1000})
    >>> outcome = bp.write_table(table, "secret.parquet", bloom="user_id", encryption=encryption)
    >>> bp.read_table("secret.parquet", columns=["country"]).num_rows
    1000
    """

    __slots__ = ("_algorithm", "_keys_name", "_keys_of_file", "_plaintext_footer", "_store_aad_prefix")

    def __init__(
        self,
        keys: Keys,
        *,
        plaintext_footer: bool = False,
        algorithm: str = "AES_GCM_V1",
        store_aad_prefix: bool = True,
        footer_key_metadata: bytes | None = None,
        column_key_metadata: ByColumn | None = None,
    ) -> None:
        if algorithm not in ALGORITHMS:
            raise OptionError(f"the algorithm is {algorithm!r}; expected {' or '.join(ALGORITHMS)}")
        self._algorithm, self._plaintext_footer = algorithm, bool(plaintext_footer)
        metadata: dict[str | Column, bytes] = dict((column_key_metadata or {}).items())
        _require_writable(keys, footer_key_metadata, metadata)
        self._keys_of_file: _KeysOfFile = partial(_given_keys, keys, footer_key_metadata, metadata)
        self._keys_name = repr(keys)
        if not store_aad_prefix and keys.aad_prefix is None:
            raise OptionError("store_aad_prefix=False needs keys with an aad_prefix, and these have none")
        self._store_aad_prefix = bool(store_aad_prefix)

    @classmethod
    def from_kms(
        cls, kms_connection_config: Any, kms_client_factory: Callable[[Any], Any], encryption_config: Any
    ) -> Encryption:
        """Encrypt each file with new keys, which are wrapped with master keys of a KMS.

        Arguments are those of ``pyarrow.parquet.encryption``: a ``KmsConnectionConfig`` (or None), a function from it
        to a ``KmsClient``, and an ``EncryptionConfiguration``. pyarrow's ``CryptoFactory`` reads the files. Raises
        OptionError for other types and for contradictions, UnsupportedError for key material outside the file.
        """
        wrapper = KeyWrapper(kms_connection_config, kms_client_factory, encryption_config)
        encryption = cls.__new__(cls)
        encryption._algorithm = ALGORITHMS[wrapper.counter_mode_pages]
        encryption._plaintext_footer, encryption._store_aad_prefix = wrapper.plaintext_footer, True
        encryption._keys_of_file = partial(_new_keys, wrapper)
        encryption._keys_name = f"keys of a KMS, footer_key={wrapper.footer_key!r}"
        return encryption

    def for_file(self, leaves: Sequence[LeafColumn], storage: Storage, path: str) -> FileEncryption:
        """The encryption of one file with the columns `leaves`.

        Raises PlanError or OptionError for a column that is to be encrypted and is not among `leaves`, and
        EncryptionError for more columns than an encrypted file can have, or if a KMS does not return keys.
        """
        if len(leaves) > MAX_ORDINAL:
            raise EncryptionError(
                f"{path}: the file has {len(leaves)} columns; an encrypted file has at most {MAX_ORDINAL}"
            )
        keys, footer_metadata, own, uniform = self._keys_of_file(leaves, path)
        algorithm = Algorithm.new(
            counter_mode_pages=self._algorithm == ALGORITHMS[1],
            aad_prefix=keys.aad_prefix,
            store_aad_prefix=self._store_aad_prefix,
        )
        file_keys = keys.for_file(storage, path)
        crypto = FileCrypto(algorithm, footer_metadata, file_keys, encrypted_footer=not self._plaintext_footer)
        return FileEncryption(crypto, own, uniform)

    def __repr__(self) -> str:
        footer = "signed" if self._plaintext_footer else "encrypted"
        return f"Encryption({self._keys_name}, {self._algorithm}, {footer} footer)"

    def __copy__(self) -> Encryption:
        return self

    def __deepcopy__(self, _: Any) -> Encryption:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("an encryption contains keys and is not pickled; create it in the process that writes")


def as_encryption(given: Encryption | Keys) -> Encryption:
    """The argument ``encryption=`` as an Encryption. Raises OptionError unless it is an Encryption or Keys."""
    if isinstance(given, Encryption):
        return given
    if isinstance(given, Keys):
        return Encryption(given)
    raise OptionError(
        f"encryption is a {type(given).__name__}; expected bloomparquet.Encryption or bloomparquet.Keys; for "
        "configurations of pyarrow, use Encryption.from_kms"
    )


@dataclass(frozen=True)
class FileEncryption:
    """The encryption of one file.

    `own` maps leaves with a column key to their key metadata. Other leaves are encrypted with the footer key if
    `uniform`, else not at all.
    """

    crypto: FileCrypto
    own: Mapping[int, bytes | None]
    uniform: bool

    def cipher(self, row_group: int, leaf: LeafColumn) -> ChunkCipher | None:
        """The cipher of a column chunk. None for a chunk in plain text."""
        if leaf.index in self.own:
            cipher = self.crypto.column(leaf.path, self.own[leaf.index])
        elif self.uniform:
            cipher = self.crypto.footer()
        else:
            return None
        return ChunkCipher(cipher, row_group, leaf.index)

    def is_apart(self, leaf: LeafColumn) -> bool:
        """Whether the metadata of an encrypted column is encrypted separately from the footer."""
        return not self.crypto.encrypted_footer or leaf.index in self.own

    def crypto_metadata(self, leaf: LeafColumn, path: list[bytes]) -> ColumnCryptoMetaData:
        """The ColumnCryptoMetaData of an encrypted column with the path_in_schema `path`."""
        if leaf.index not in self.own:
            return ColumnCryptoMetaData(ENCRYPTION_WITH_FOOTER_KEY=Empty())
        key = EncryptionWithColumnKey(path_in_schema=path, key_metadata=self.own[leaf.index])
        return ColumnCryptoMetaData(ENCRYPTION_WITH_COLUMN_KEY=key)


_FileKeys = tuple[Keys, bytes | None, Mapping[int, bytes | None], bool]
"""The keys of one file, the metadata of its footer key, and `own` and `uniform` of :class:`FileEncryption`."""
_KeysOfFile = Callable[[Sequence[LeafColumn], str], _FileKeys]
"""Returns the keys of a file, from its leaves and its path."""


def _require_writable(keys: Keys, footer: bytes | None, columns: Mapping[str | Column, bytes]) -> None:
    """OptionError for keys that no file can be written with, and for key metadata without a key."""
    if not isinstance(keys, Keys):
        raise OptionError(f"the keys of an encryption are a {type(keys).__name__}; expected bloomparquet.Keys")
    if keys.footer is None:
        raise OptionError("an encryption needs keys with a footer key, even if only columns are encrypted")
    if keys.aad_prefix == b"":
        raise OptionError("the aad_prefix of the keys is empty; leave it out, or use one that identifies the file")
    for name, metadata in {"the footer": footer, **columns}.items():
        if not isinstance(metadata, bytes | None):
            raise OptionError(f"the key metadata of {name} is a {type(metadata).__name__}; expected bytes")
    for name in columns:
        if name not in keys.columns:
            raise OptionError(f"column_key_metadata has {name!r}, but the keys have no column of that name")


def _given_keys(
    keys: Keys, footer: bytes | None, columns: Mapping[str | Column, bytes], leaves: Sequence[LeafColumn], path: str
) -> _FileKeys:
    """Encrypt every file with `keys`. `footer` and `columns` are the metadata of these keys."""
    names = {leaf.index: keys.name_of(leaf.path) for leaf in leaves}
    for name in keys.columns.keys() - names.values():
        if all(name not in names_of(leaf.path) for leaf in leaves):
            shown = name if isinstance(name, str) else ".".join(name)
            hint = did_you_mean(shown, (".".join(leaf.path) for leaf in leaves))
            raise PlanError(f"{path}: the keys name a column {shown!r}, which the file does not have{hint}")
    own = {leaf: columns.get(name) for leaf, name in names.items() if name is not None}
    return keys, footer, own, not keys.columns


def _new_keys(wrapper: KeyWrapper, leaves: Sequence[LeafColumn], path: str) -> _FileKeys:
    """New keys for every file, wrapped by a KMS."""
    masters = wrapper.master_keys([leaf.path for leaf in leaves])
    with located(f"{path}: the file is not written"):
        footer, metadata = wrapper.new_key(wrapper.footer_key, is_footer=True)
        new_keys = {column: wrapper.new_key(master, is_footer=False) for column, master in masters.items()}
    keys = Keys(footer, {column: key for column, (key, _) in new_keys.items()})
    own = {leaf.index: new_keys[leaf.path][1] for leaf in leaves if leaf.path in new_keys}
    return keys, metadata, own, wrapper.uniform
