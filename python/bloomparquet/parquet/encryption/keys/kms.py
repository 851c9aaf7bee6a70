"""Retrieves keys from a key management service (KMS) by the ``KmsClient`` classes of ``pyarrow.parquet.encryption``.

They decrypt files that pyarrow's ``CryptoFactory`` and parquet-java's ``PropertiesDrivenCryptoFactory`` wrote.
pyarrow's own factory is not used, because its result is for pyarrow's reader only.

The process caches unwrapped keys for each connection, for the time that the user allows. So a data set whose files
share a key-encryption key costs one request. Errors name only the type of a client's exception: its text may contain a
key.

Source: parquet-java ``FileKeyUnwrapper`` and ``FileKeyWrapper`` (org.apache.parquet.crypto.keytools), Arrow C++
``parquet/encryption/file_key_unwrapper.cc`` and ``file_key_wrapper.cc``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from bloomparquet.errors import EncryptionError, OptionError
from bloomparquet.parquet.encryption.keys.material import (
    FOOTER_REFERENCE,
    KeyMaterial,
    find_external,
    parse_metadata,
    quote,
    read_external,
    require_key,
    unwrap_locally,
)
from bloomparquet.parquet.encryption.keys.ttl_cache import TtlCache
from bloomparquet.storage.files import Storage
from bloomparquet.storage.forks import new_lock

DEFAULT_INSTANCE = "DEFAULT"
"""The ID and the URL of a KMS that has only one instance."""

# A plan asks again for each of thousands of files. A user who tries again by hand takes longer than this.
_ERROR_LIFETIME = timedelta(seconds=2)
_clients: TtlCache[Any] = TtlCache(64, error_lifetime=_ERROR_LIFETIME)
_unwrapped: TtlCache[bytes] = TtlCache(10_000, error_lifetime=_ERROR_LIFETIME)


@dataclass(frozen=True, repr=False)
class Connection:
    """One user's connection to a KMS: the content of a ``KmsConnectionConfig``, and the function that makes a client.

    Equal connections share cached clients and keys.
    """

    factory: Callable[[Any], Any]
    instance_id: str
    instance_url: str
    access_token: str
    custom: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, config: Any, factory: Callable[[Any], Any]) -> Connection:
        """The connection that `config` describes now. Its token may be refreshed later."""
        custom = frozenset(config.custom_kms_conf.items())
        return cls(factory, config.kms_instance_id, config.kms_instance_url, config.key_access_token, custom)

    def unwrap(self, wrapped: str, master_key_id: str, lifetime: timedelta) -> bytes:
        """Unwrap a key with a master key. Raises EncryptionError if the KMS does not."""

        def request() -> bytes:
            key = self._request("unwrap", lifetime, master_key_id, wrapped, master_key_id)
            try:
                return require_key(key, f"what the KMS unwrapped with master key {quote(master_key_id)}")
            except OptionError as error:
                raise EncryptionError(str(error)) from None

        return _unwrapped.get((self, wrapped, master_key_id), lifetime, request)

    def wrap(self, key: bytes, master_key_id: str, lifetime: timedelta) -> str:
        """Wrap `key` with a master key. Raises EncryptionError if the KMS does not."""
        try:
            return self._request("wrap", lifetime, master_key_id, key, master_key_id).decode()
        except UnicodeDecodeError:
            raise EncryptionError("the KMS client returned a wrapped key that is not text") from None

    def _request(self, verb: str, lifetime: timedelta, master_key_id: str, *arguments: Any) -> bytes:
        """The answer of the client's method. As for pyarrow, it may be text or bytes."""
        client = _clients.get(self, lifetime, self._connect)
        try:
            answer = getattr(client, f"{verb}_key")(*arguments)
            answer = answer.encode() if isinstance(answer, str) else answer
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - whatever the user's client raises
            raise EncryptionError(
                f"the KMS did not {verb} a key with master key {quote(master_key_id)}: "
                f"{type(client).__name__}.{verb}_key raised {type(error).__name__}"
            ) from None
        if not isinstance(answer, bytes):
            raise EncryptionError(
                f"{type(client).__name__}.{verb}_key returned a {type(answer).__name__}; expected bytes"
            )
        return answer

    def _connect(self) -> Any:
        from pyarrow.parquet.encryption import KmsClient, KmsConnectionConfig

        try:
            client = self.factory(
                KmsConnectionConfig(
                    kms_instance_id=self.instance_id,
                    kms_instance_url=self.instance_url,
                    key_access_token=self.access_token,
                    custom_kms_conf=dict(self.custom),
                )
            )
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - whatever the user's function raises
            raise EncryptionError(
                f"the KMS cannot be reached: kms_client_factory raised {type(error).__name__}"
            ) from None
        if not isinstance(client, KmsClient):
            raise EncryptionError(
                f"kms_client_factory returned a {type(client).__name__}; expected pyarrow.parquet.encryption.KmsClient"
            )
        return client


class KmsRetriever:
    """Retrieves keys by the KMS key material in key metadata; see :meth:`bloomparquet.Keys.from_kms`."""

    def __init__(
        self,
        config: Any,
        factory: Callable[[Any], Any],
        *,
        cache_lifetime: timedelta = timedelta(minutes=10),
        read_kms_url: bool = False,
    ) -> None:
        self.config, self.factory = require_config(config), require_factory(factory)
        if not isinstance(cache_lifetime, timedelta):
            raise OptionError(f"cache_lifetime is a {type(cache_lifetime).__name__}; expected a datetime.timedelta")
        self.cache_lifetime, self.read_kms_url = cache_lifetime, bool(read_kms_url)

    def for_file(self, storage: Storage, path: str) -> Callable[[bytes], bytes]:
        """The retriever for the current version of the file at `path`. Reads nothing yet."""
        return _FileUnwrapper(self, storage, path).unwrap

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KmsRetriever):
            return NotImplemented
        if (self.cache_lifetime, self.read_kms_url) != (other.cache_lifetime, other.read_kms_url):
            return False
        return Connection.of(self.config, self.factory) == Connection.of(other.config, other.factory)

    def __hash__(self) -> int:
        return hash((self.factory, self.cache_lifetime, self.read_kms_url))  # refreshing a token keeps the hash


class _FileUnwrapper:
    """Unwraps the keys of one file. Several threads may share one."""

    def __init__(self, kms: KmsRetriever, storage: Storage, path: str) -> None:
        self._kms, self._storage, self._path = kms, storage, path
        self._lock = new_lock()
        self._external: dict[str, str] | None = None
        self._footer: KeyMaterial | None = None

    def unwrap(self, metadata: bytes) -> bytes:
        material = self._material(metadata)
        if material.is_footer_key:
            self._footer = material
        connection, lifetime = self._connection(), self._kms.cache_lifetime
        if material.encryption_key is None:
            return connection.unwrap(material.wrapped, material.master_key_id, lifetime)
        key_id, wrapped = material.encryption_key
        return unwrap_locally(material.wrapped, connection.unwrap(wrapped, material.master_key_id, lifetime), key_id)

    def _material(self, metadata: bytes) -> KeyMaterial:
        material = parse_metadata(metadata)
        if isinstance(material, KeyMaterial):
            return material
        with self._lock:
            if self._external is None:
                self._external = read_external(self._storage, self._path)
        if self._footer is None and FOOTER_REFERENCE in self._external:
            self._footer = find_external(self._external, FOOTER_REFERENCE, self._path)
        return find_external(self._external, material, self._path)

    def _connection(self) -> Connection:
        """The connection to the KMS instance that the user named, or else that the footer key names."""
        config = self._kms.config
        instance_id, instance_url = config.kms_instance_id, config.kms_instance_url
        if not instance_id:
            instance_id = self._footer.kms_instance_id if self._footer is not None else None
        if not instance_url and self._kms.read_kms_url:
            instance_url = self._footer.kms_instance_url if self._footer is not None else None
        elif not instance_url:
            instance_url = DEFAULT_INSTANCE
        if not instance_id or not instance_url:
            raise EncryptionError(
                "neither the file nor the configuration names the KMS instance; "
                "set kms_instance_id and kms_instance_url of KmsConnectionConfig"
            )
        configured = Connection.of(config, self._kms.factory)
        return replace(configured, instance_id=instance_id, instance_url=instance_url)


def require_config(config: Any) -> Any:
    """Return `config`, or for None a ``KmsConnectionConfig`` with its defaults. Raises OptionError for another type."""
    from pyarrow.parquet.encryption import KmsConnectionConfig

    if config is None:
        return KmsConnectionConfig()
    if not isinstance(config, KmsConnectionConfig):
        raise OptionError(
            f"kms_connection_config is a {type(config).__name__}; "
            "expected pyarrow.parquet.encryption.KmsConnectionConfig"
        )
    return config


def require_factory(factory: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return `factory`. Raises OptionError unless it is callable and hashable, since it is part of a cache key."""
    if not callable(factory):
        raise OptionError(
            f"kms_client_factory is a {type(factory).__name__}; expected a function of KmsConnectionConfig to KmsClient"
        )
    try:
        hash(factory)
    except TypeError:
        raise OptionError(
            f"kms_client_factory is a {type(factory).__name__}, which has no hash; expected a function or a class"
        ) from None
    return factory


def _clear_caches() -> None:
    _clients.clear()
    _unwrapped.clear()


# A forked process has none of the threads that wait for a KMS, and must not share their connections.
os.register_at_fork(after_in_child=_clear_caches)
