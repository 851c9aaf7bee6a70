"""New keys for files that are written, wrapped by a key management service as pyarrow's ``CryptoFactory`` and
parquet-java's ``PropertiesDrivenCryptoFactory`` do: both open them, and so does
:mod:`bloomparquet.parquet.encryption.keys.kms`.

Source: parquet-java ``FileKeyWrapper`` (org.apache.parquet.crypto.keytools), Arrow C++
``parquet/encryption/file_key_wrapper.cc`` and ``crypto_factory.cc``.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bloomparquet.errors import OptionError, UnsupportedError, nearest
from bloomparquet.parquet.encryption.keys.kms import DEFAULT_INSTANCE, Connection, require_config, require_factory
from bloomparquet.parquet.encryption.keys.material import KEY_BYTES, KeyMaterial, wrap_locally
from bloomparquet.parquet.encryption.keys.ttl_cache import Expiring

if TYPE_CHECKING:
    from bloomparquet.query.predicate import Column

_KEY_ID_BYTES = 16


@dataclass(frozen=True, repr=False)
class _EncryptionKey:
    """A key-encryption key, as its master key wrapped it."""

    key: bytes
    key_id: bytes
    wrapped: str


_encryption_keys: Expiring[_EncryptionKey] = Expiring(1_000)
os.register_at_fork(after_in_child=_encryption_keys.clear)


class Wrapping:
    """What ``pyarrow.parquet.encryption`` is told to encrypt a file: a ``KmsConnectionConfig`` (or None), a function of
    one to a ``KmsClient``, and an ``EncryptionConfiguration``.

    `footer_key` is the ID of the footer's master key, which under uniform encryption is that of all columns. Raises
    OptionError for what is none of these or does not go together, UnsupportedError for key material in other files.
    """

    def __init__(
        self, kms_connection_config: Any, kms_client_factory: Callable[[Any], Any], encryption_config: Any
    ) -> None:
        self._config, self._factory = require_config(kms_connection_config), require_factory(kms_client_factory)
        _check(encryption_config)
        self._key_bytes = encryption_config.data_key_length_bits // 8
        self._double, self._lifetime = encryption_config.double_wrapping, encryption_config.cache_lifetime
        self.footer_key: str = encryption_config.footer_key
        self._column_keys = _column_keys(encryption_config)
        self.uniform: bool = encryption_config.uniform_encryption
        self.counter_mode_pages: bool = encryption_config.encryption_algorithm == "AES_GCM_CTR_V1"
        self.plaintext_footer: bool = encryption_config.plaintext_footer and not self.uniform  # as Arrow has it

    def master_keys(self, leaves: Sequence[Column]) -> dict[Column, str]:
        """The master key IDs of those of a file's leaf columns that are to have keys of their own; none of them under
        uniform encryption, where all are to have the footer's. What is named may be a group: all columns in it are
        meant.

        Raises OptionError for a name that no column has, and for one that may be two columns: pyarrow hides the spaces
        and commas in names.
        """
        found: dict[Column, str] = {}
        named: dict[str, set[str]] = {name: set() for name in self._column_keys}
        for leaf in leaves:
            for depth in range(1, len(leaf) + 1):  # an inner name after that of the group around it
                name = ".".join(leaf[:depth])
                squeezed = name.replace(" ", "")
                if "," in squeezed and all(part in named for part in squeezed.split(",")):
                    raise OptionError(f"column_keys may mean {name!r} or {squeezed.split(',')}; rename that column")
                if squeezed in named:
                    named[squeezed].add(name)
                    found[leaf] = self._column_keys[squeezed]
        for name, meant in named.items():
            if not meant:
                hint = nearest(name, map(".".join, leaves))
                raise OptionError(f"column_keys names {name}, which is no column of the file{hint}")
            if len(meant) > 1:
                raise OptionError(f"column_keys: {name} may be any of {sorted(meant)}; expected one but for its spaces")
        return found

    def new_key(self, master_key_id: str, *, is_footer: bool) -> tuple[bytes, bytes]:
        """A new data key, and its key metadata. Raises EncryptionError when the KMS does not wrap it."""
        key = os.urandom(self._key_bytes)
        return key, self.wrap(key, master_key_id, is_footer=is_footer)

    def wrap(self, key: bytes, master_key_id: str, *, is_footer: bool) -> bytes:
        """The key metadata of a data key. Raises EncryptionError when the KMS does not wrap it."""
        connection = Connection.of(self._config, self._factory)
        by = None
        if self._double:
            by = _encryption_keys.get(
                (connection, master_key_id, self._key_bytes),
                self._lifetime,
                lambda: self._encryption_key(connection, master_key_id),
            )
            wrapped = wrap_locally(key, by.key, by.key_id)
        else:
            wrapped = connection.wrap(key, master_key_id, self._lifetime)
        material = KeyMaterial(
            master_key_id,
            wrapped,
            None if by is None else (base64.b64encode(by.key_id).decode(), by.wrapped),
            is_footer,
            (self._config.kms_instance_id or DEFAULT_INSTANCE) if is_footer else None,
            (self._config.kms_instance_url or DEFAULT_INSTANCE) if is_footer else None,
        )
        return material.to_json()

    def _encryption_key(self, connection: Connection, master_key_id: str) -> _EncryptionKey:
        # As long as the data keys that it wraps: they are no safer than it is.
        key = os.urandom(self._key_bytes)
        return _EncryptionKey(key, os.urandom(_KEY_ID_BYTES), connection.wrap(key, master_key_id, self._lifetime))


def _check(config: Any) -> None:
    from pyarrow.parquet.encryption import EncryptionConfiguration

    if not isinstance(config, EncryptionConfiguration):
        raise OptionError(
            f"encryption_config is a {type(config).__name__}; "
            "expected pyarrow.parquet.encryption.EncryptionConfiguration"
        )
    if not config.internal_key_material:
        raise UnsupportedError(
            "internal_key_material=False: key material in files of its own is read, but not written; leave it True"
        )
    if config.data_key_length_bits not in [8 * size for size in KEY_BYTES]:
        raise OptionError(f"data_key_length_bits is {config.data_key_length_bits}; expected 128, 192 or 256")


def _column_keys(config: Any) -> dict[str, str]:
    """Column names, without their spaces, to master key IDs, as far as pyarrow's attribute tells them: it takes a text
    apart by its punctuation, without its spaces, and fails where there are no columns."""
    try:
        found: dict[str, list[str]] = config.column_keys
    except ValueError:
        if config.uniform_encryption:
            return {}
        raise OptionError(
            "column_keys names no columns, or one with a comma, colon or semicolon in its name; "
            "expected those to encrypt, or uniform_encryption=True"
        ) from None
    if config.uniform_encryption:
        raise OptionError("column_keys and uniform_encryption exclude each other")
    keys: dict[str, str] = {}
    for master_key_id, columns in found.items():
        for column in columns:
            if not column or not master_key_id:
                raise OptionError("column_keys has an empty name; expected {master key: [columns]}")
            if column in keys:
                raise OptionError(f"column_keys has two master keys for column {column}")
            keys[column] = master_key_id
    return keys
