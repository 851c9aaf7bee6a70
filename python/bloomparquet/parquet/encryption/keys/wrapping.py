"""Makes keys for new files, and lets a key management service wrap them.

pyarrow's ``CryptoFactory`` and parquet-java's ``PropertiesDrivenCryptoFactory`` unwrap these keys, and so does
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

from bloomparquet.errors import OptionError, UnsupportedError, did_you_mean
from bloomparquet.parquet.encryption.keys.kms import DEFAULT_INSTANCE, Connection, require_config, require_factory
from bloomparquet.parquet.encryption.keys.material import KEY_BYTES, KeyMaterial, wrap_locally
from bloomparquet.parquet.encryption.keys.ttl_cache import TtlCache

if TYPE_CHECKING:
    from bloomparquet.query.predicate import Column

_KEY_ID_BYTES = 16


@dataclass(frozen=True, repr=False)
class _EncryptionKey:
    """A key-encryption key, and its form wrapped by a master key."""

    key: bytes
    key_id: bytes
    wrapped: str


_encryption_keys: TtlCache[_EncryptionKey] = TtlCache(1_000)
os.register_at_fork(after_in_child=_encryption_keys.clear)


class KeyWrapper:
    """Makes and wraps data keys, configured as for ``pyarrow.parquet.encryption``.

    The arguments are a ``KmsConnectionConfig`` (or None), a function that makes a ``KmsClient`` of one, and an
    ``EncryptionConfiguration``. `footer_key`: the ID of the footer's master key; with `uniform` encryption, all columns
    have it too. Raises OptionError for invalid arguments, UnsupportedError for key material in other files.
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
        # As in Arrow, uniform encryption always encrypts the footer.
        self.plaintext_footer: bool = encryption_config.plaintext_footer and not self.uniform

    def master_keys(self, leaves: Sequence[Column]) -> dict[Column, str]:
        """The master key ID of each leaf column with its own key. Empty for uniform encryption.

        A group's name in ``column_keys`` applies to all columns in it. pyarrow strips spaces and splits at commas in
        these names: raises OptionError for a name that matches no column, or more than one because of that.
        """
        master_keys: dict[Column, str] = {}
        matches: dict[str, set[str]] = {name: set() for name in self._column_keys}
        for leaf in leaves:
            for depth in range(1, len(leaf) + 1):  # outer groups first: the innermost name wins
                name = ".".join(leaf[:depth])
                stripped = name.replace(" ", "")
                if "," in stripped and all(part in matches for part in stripped.split(",")):
                    raise OptionError(f"column_keys may mean {name!r} or {stripped.split(',')}; rename that column")
                if stripped in matches:
                    matches[stripped].add(name)
                    master_keys[leaf] = self._column_keys[stripped]
        for name, columns in matches.items():
            if not columns:
                hint = did_you_mean(name, map(".".join, leaves))
                raise OptionError(f"column_keys names {name}, which is not a column of the file{hint}")
            if len(columns) > 1:
                raise OptionError(f"column_keys: {name} may be any of {sorted(columns)}, which differ only in spaces")
        return master_keys

    def new_key(self, master_key_id: str, *, is_footer: bool) -> tuple[bytes, bytes]:
        """A new data key and its key metadata. Raises EncryptionError if the KMS does not wrap it."""
        key = os.urandom(self._key_bytes)
        return key, self.wrap(key, master_key_id, is_footer=is_footer)

    def wrap(self, key: bytes, master_key_id: str, *, is_footer: bool) -> bytes:
        """The key metadata of a data key. Raises EncryptionError if the KMS does not wrap it."""
        connection = Connection.of(self._config, self._factory)
        encryption_key = None
        if self._double:
            wrapper = _encryption_keys.get(
                (connection, master_key_id, self._key_bytes),
                self._lifetime,
                lambda: self._new_encryption_key(connection, master_key_id),
            )
            wrapped = wrap_locally(key, wrapper.key, wrapper.key_id)
            encryption_key = base64.b64encode(wrapper.key_id).decode(), wrapper.wrapped
        else:
            wrapped = connection.wrap(key, master_key_id, self._lifetime)
        material = KeyMaterial(
            master_key_id,
            wrapped,
            encryption_key,
            is_footer,
            (self._config.kms_instance_id or DEFAULT_INSTANCE) if is_footer else None,
            (self._config.kms_instance_url or DEFAULT_INSTANCE) if is_footer else None,
        )
        return material.to_json()

    def _new_encryption_key(self, connection: Connection, master_key_id: str) -> _EncryptionKey:
        # The key is as long as the data keys: these are no safer than the key that wraps them.
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
            "internal_key_material=False: key material in other files is read, but not written; leave it True"
        )
    if config.data_key_length_bits not in [8 * size for size in KEY_BYTES]:
        raise OptionError(f"data_key_length_bits is {config.data_key_length_bits}; expected 128, 192 or 256")


def _column_keys(config: Any) -> dict[str, str]:
    """Maps column names, without their spaces, to master key IDs.

    pyarrow's attribute parses a text: it strips spaces, splits at punctuation, and fails if there are no columns.
    """
    try:
        by_master_key: dict[str, list[str]] = config.column_keys
    except ValueError:
        if config.uniform_encryption:
            return {}
        raise OptionError(
            "column_keys names no column, or one with a comma, colon or semicolon in its name; "
            "expected the columns to encrypt, or uniform_encryption=True"
        ) from None
    if config.uniform_encryption:
        raise OptionError("column_keys and uniform_encryption exclude each other")
    keys: dict[str, str] = {}
    for master_key_id, columns in by_master_key.items():
        for column in columns:
            if not column or not master_key_id:
                raise OptionError("column_keys has an empty name; expected {master key: [columns]}")
            if column in keys:
                raise OptionError(f"column_keys has two master keys for column {column}")
            keys[column] = master_key_id
    return keys
