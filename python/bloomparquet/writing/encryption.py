"""How a file is to be encrypted: what a caller says, and what it is for one file: a key for the footer, keys for
columns, and what the file says of them.

Source: parquet-format ``Encryption.md`` (sections 4.3, 5.2), ``parquet.thrift`` (ColumnCryptoMetaData).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from bloomparquet.errors import EncryptionError, OptionError, PlanError, did_you_mean
from bloomparquet.parquet.encryption.file_crypto import ChunkCipher, FileCrypto
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.parquet.encryption.keys.wrapping import KeyWrapper
from bloomparquet.parquet.encryption.modules import MAX_ORDINAL, Algorithm
from bloomparquet.parquet.thrift.definitions import ColumnCryptoMetaData, Empty, EncryptionWithColumnKey
from bloomparquet.query.columns import LeafColumn
from bloomparquet.query.names import names_of
from bloomparquet.query.predicate import Column
from bloomparquet.storage.files import Storage

ALGORITHMS = ("AES_GCM_V1", "AES_GCM_CTR_V1")


class Encryption:
    """How files are encrypted when they are written: by the `keys` given, or by those of a KMS (:meth:`from_kms`).

    `keys` has the footer key and the keys of columns, named as for reading; these columns are encrypted, the others are
    not. Where none has a key, all are encrypted, by the footer key. Its AAD prefix is stored in the file, unless
    `store_aad_prefix` is False: then readers have to know it. With `plaintext_footer` the footer is signed instead of
    encrypted, and readers that know nothing of encryption can read the other columns. The `algorithm` is
    ``"AES_GCM_V1"`` or ``"AES_GCM_CTR_V1"``, under which nobody notices when pages are altered. Key metadata is stored
    for retrievers; that of a column is given under the name that its key is given under.

    Filters, statistics and page indexes of an encrypted column are encrypted by the column's key. Raises OptionError
    for what does not go together.

    >>> keys = bp.Keys(footer=b"0123456789abcdef", columns={"user_id": b"fedcba9876543210"})
    >>> encryption = bp.Encryption(keys, plaintext_footer=True)
    >>> table = pa.table({"user_id": range(1000), "country": ["CH"] * 1000})
    >>> outcome = bp.write_table(table, "secret.parquet", bloom="user_id", encryption=encryption)
    >>> bp.read_table("secret.parquet", columns=["country"]).num_rows
    1000
    """

    __slots__ = ("_algorithm", "_plaintext_footer", "_source", "_store_aad_prefix")

    def __init__(
        self,
        keys: Keys,
        *,
        plaintext_footer: bool = False,
        algorithm: str = "AES_GCM_V1",
        store_aad_prefix: bool = True,
        footer_key_metadata: bytes | None = None,
        column_key_metadata: Mapping[str | Column, bytes] | None = None,
    ) -> None:
        if algorithm not in ALGORITHMS:
            raise OptionError(f"the algorithm is {algorithm!r}; expected {' or '.join(ALGORITHMS)}")
        self._algorithm, self._plaintext_footer = algorithm, bool(plaintext_footer)
        self._source: _Source = _Given(keys, footer_key_metadata, dict(column_key_metadata or {}))
        if not store_aad_prefix and keys.aad_prefix is None:
            raise OptionError("store_aad_prefix=False is about the aad_prefix of the keys, and they have none")
        self._store_aad_prefix = bool(store_aad_prefix)

    @classmethod
    def from_kms(
        cls, kms_connection_config: Any, kms_client_factory: Callable[[Any], Any], encryption_config: Any
    ) -> Encryption:
        """By keys that are made anew for each file and wrapped by master keys that a KMS has.

        Takes what ``pyarrow.parquet.encryption`` takes: a ``KmsConnectionConfig`` (or None), a function of one to a
        ``KmsClient``, and an ``EncryptionConfiguration``; ``CryptoFactory`` reads what is written. Raises OptionError
        for what is none of these or does not go together, UnsupportedError for key material outside the file.
        """
        wrapping = KeyWrapper(kms_connection_config, kms_client_factory, encryption_config)
        made = cls.__new__(cls)
        made._algorithm = ALGORITHMS[wrapping.counter_mode_pages]
        made._plaintext_footer, made._store_aad_prefix = wrapping.plaintext_footer, True
        made._source = _FromKms(wrapping)
        return made

    def for_file(self, leaves: Sequence[LeafColumn], storage: Storage, path: str) -> FileEncryption:
        """That of one file with the columns `leaves`.

        Raises PlanError or OptionError for a column that is to be encrypted and is not among them, EncryptionError for
        more columns than an encrypted file can have, and where a KMS does not give keys.
        """
        if len(leaves) > MAX_ORDINAL:
            raise EncryptionError(f"{path}: a file with {len(leaves)} columns; at most {MAX_ORDINAL} can be encrypted")
        found = self._source.for_file(leaves, path)
        algorithm = Algorithm.new(
            counter_mode_pages=self._algorithm == ALGORITHMS[1],
            aad_prefix=found.keys.aad_prefix,
            store_aad_prefix=self._store_aad_prefix,
        )
        file_keys = found.keys.for_file(storage, path)
        crypto = FileCrypto(algorithm, found.footer_metadata, file_keys, encrypted_footer=not self._plaintext_footer)
        return FileEncryption(crypto, found.own, found.uniform)

    def __repr__(self) -> str:
        footer = "signed" if self._plaintext_footer else "encrypted"
        return f"Encryption({self._source!r}, {self._algorithm}, {footer} footer)"

    def __copy__(self) -> Encryption:
        return self

    def __deepcopy__(self, _: Any) -> Encryption:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("an encryption has keys, and is not pickled; make it in the process that writes")


def as_encryption(given: Encryption | Keys) -> Encryption:
    """What was given as ``encryption=``: keys alone are those of :class:`Encryption`. OptionError for anything else."""
    if isinstance(given, Encryption):
        return given
    if isinstance(given, Keys):
        return Encryption(given)
    raise OptionError(
        f"encryption is a {type(given).__name__}; expected bloomparquet.Encryption or bloomparquet.Keys (what pyarrow "
        "has for it is taken by Encryption.from_kms)"
    )


@dataclass(frozen=True)
class FileEncryption:
    """The encryption of one file. `own` are the leaves that have keys of their own, with the key metadata; the others
    are under the footer key where the file is `uniform`, and in plain text where it is not."""

    crypto: FileCrypto
    own: Mapping[int, bytes | None]
    uniform: bool

    def cipher(self, row_group: int, leaf: LeafColumn) -> ChunkCipher | None:
        """That of a column chunk; None of one in plain text."""
        if leaf.index in self.own:
            cipher = self.crypto.column(leaf.path, self.own[leaf.index])
        elif self.uniform:
            cipher = self.crypto.footer()
        else:
            return None
        return ChunkCipher(cipher, row_group, leaf.index)

    def is_apart(self, leaf: LeafColumn) -> bool:
        """Whether the metadata of an encrypted column is encrypted by itself, as the footer around it is not, or is by
        another key."""
        return not self.crypto.encrypted_footer or leaf.index in self.own

    def described(self, leaf: LeafColumn, path: list[bytes]) -> ColumnCryptoMetaData:
        """The ColumnCryptoMetaData of an encrypted column, of which `path` is the path_in_schema."""
        if leaf.index not in self.own:
            return ColumnCryptoMetaData(ENCRYPTION_WITH_FOOTER_KEY=Empty())
        key = EncryptionWithColumnKey(path_in_schema=path, key_metadata=self.own[leaf.index])
        return ColumnCryptoMetaData(ENCRYPTION_WITH_COLUMN_KEY=key)


@dataclass(frozen=True, repr=False)
class _FileKeys:
    """The keys of one file, and what :class:`FileEncryption` says of them."""

    keys: Keys
    footer_metadata: bytes | None
    own: Mapping[int, bytes | None]
    uniform: bool


class _Source(Protocol):
    """Where the keys of files come from."""

    def for_file(self, leaves: Sequence[LeafColumn], path: str) -> _FileKeys:
        """Those of a file with the columns `leaves`."""


class _Given:
    """The same keys for every file."""

    def __init__(self, keys: Keys, footer: bytes | None, columns: Mapping[str | Column, bytes]) -> None:
        if not isinstance(keys, Keys):
            raise OptionError(f"the keys of an encryption are a {type(keys).__name__}; expected bloomparquet.Keys")
        if keys.footer is None:
            raise OptionError("an encryption needs keys with a footer key, also where only columns are to be encrypted")
        if keys.aad_prefix == b"":
            raise OptionError("the aad_prefix of the keys is empty; give them none, or one that says which file it is")
        for name, metadata in {"the footer": footer, **columns}.items():
            if not isinstance(metadata, bytes | None):
                raise OptionError(f"the key metadata of {name} is a {type(metadata).__name__}; expected bytes")
        for name in columns:
            if name not in keys.columns:
                raise OptionError(f"column_key_metadata names {name!r}, which is no name that a key is given under")
        self._keys, self._footer, self._columns = keys, footer, columns

    def for_file(self, leaves: Sequence[LeafColumn], path: str) -> _FileKeys:
        columns = self._keys.columns
        names = {leaf.index: self._keys.name_of(leaf.path) for leaf in leaves}
        for name in columns.keys() - names.values():
            if all(name not in names_of(leaf.path) for leaf in leaves):
                shown = name if isinstance(name, str) else ".".join(name)
                hint = did_you_mean(shown, (".".join(leaf.path) for leaf in leaves))
                raise PlanError(f"{path}: there is no column {shown!r}, which is to be encrypted{hint}")
        own = {leaf: self._columns.get(name) for leaf, name in names.items() if name is not None}
        return _FileKeys(self._keys, self._footer, own, not columns)

    def __repr__(self) -> str:
        return repr(self._keys)


class _FromKms:
    """Keys that a KMS wraps, new ones for every file."""

    def __init__(self, wrapping: KeyWrapper) -> None:
        self._wrapping = wrapping

    def for_file(self, leaves: Sequence[LeafColumn], path: str) -> _FileKeys:
        wrapping = self._wrapping
        masters = wrapping.master_keys([leaf.path for leaf in leaves])
        try:
            footer, metadata = wrapping.new_key(wrapping.footer_key, is_footer=True)
            found = {column: wrapping.new_key(master, is_footer=False) for column, master in masters.items()}
        except EncryptionError as error:
            raise EncryptionError(f"{path}: the file is not written: {error}") from error
        keys = Keys(footer, {column: key for column, (key, _) in found.items()})
        own = {leaf.index: found[leaf.path][1] for leaf in leaves if leaf.path in found}
        return _FileKeys(keys, metadata, own, wrapping.uniform)

    def __repr__(self) -> str:
        return f"keys of a KMS, footer_key={self._wrapping.footer_key!r}"
