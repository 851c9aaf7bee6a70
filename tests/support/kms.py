"""A key management service in memory, for pyarrow and for this package, and files that pyarrow writes with it."""

from __future__ import annotations

import base64
import os
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

SECRET = "the-text-of-a-service's-own-exception"


@dataclass(eq=False)
class Kms:
    """A key management service that makes master keys on demand, rejects those in `denied`, and counts requests.

    `client` is the factory for pyarrow and :meth:`bloomparquet.Keys.from_kms`; `connections` are the configurations
    that it was called with.
    """

    denied: set[str] = field(default_factory=set)
    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    connections: list[tuple[str, str, str, dict[str, str]]] = field(default_factory=list)
    master_keys: dict[str, bytes] = field(default_factory=dict)

    def client(self, config: pe.KmsConnectionConfig) -> pe.KmsClient:
        self.connections.append(
            (config.kms_instance_id, config.kms_instance_url, config.key_access_token, config.custom_kms_conf)
        )
        return _Client(self)

    def cipher(self, verb: str, name: str) -> AESGCM:
        self.calls[verb, name] += 1
        if name in self.denied:
            raise PermissionError(SECRET, name, self.master_keys.get(name))
        return AESGCM(self.master_keys.setdefault(name, os.urandom(32)))

    def unwrapped(self) -> int:
        """The number of requests to unwrap a key."""
        return sum(count for (verb, _), count in self.calls.items() if verb == "unwrap")

    def wrapped(self) -> int:
        """The number of requests to wrap a key."""
        return sum(count for (verb, _), count in self.calls.items() if verb == "wrap")


COMMON = Kms()
"""Shared with functions of other modules, such as key providers."""


class _Client(pe.KmsClient):  # type: ignore[misc]
    def __init__(self, kms: Kms) -> None:
        super().__init__()
        self._kms = kms

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
        nonce = os.urandom(12)
        encrypted = self._kms.cipher("wrap", master_key_identifier).encrypt(nonce, key_bytes, None)
        return base64.b64encode(nonce + encrypted)

    def unwrap_key(self, wrapped_key: str, master_key_identifier: str) -> bytes:
        encrypted = base64.b64decode(wrapped_key)
        return self._kms.cipher("unwrap", master_key_identifier).decrypt(encrypted[:12], encrypted[12:], None)


def configuration(
    columns: Mapping[str, Sequence[str]] | None = None, *, footer: str = "footer", **options: Any
) -> pe.EncryptionConfiguration:
    """pyarrow's configuration. `columns`: column names by master key; without any, encryption is uniform."""
    column_keys = {"column_keys": {name: list(some) for name, some in columns.items()}} if columns else {}
    return pe.EncryptionConfiguration(
        footer, uniform_encryption=not columns, cache_lifetime=timedelta(minutes=10), **column_keys, **options
    )


class Writer:
    """Writes and reads files with pyarrow and a `kms`. The files of one writer share their key-encryption keys."""

    def __init__(self, kms: Kms, **connection: Any) -> None:
        self.config = pe.KmsConnectionConfig(**connection)
        self.factory = pe.CryptoFactory(kms.client)

    def write(self, table: pa.Table, path: Path, encryption: pe.EncryptionConfiguration, **options: Any) -> str:
        """Write an encrypted file, and its key material file if `encryption` demands one."""
        properties = self.factory.file_encryption_properties(self.config, encryption, str(path))
        pq.write_table(table, path, encryption_properties=properties, **options)
        return str(path)

    def read(self, path: Path | str) -> pa.Table:
        """Read the file with pyarrow."""
        properties = self.factory.file_decryption_properties(self.config, None, str(path))
        return pq.ParquetFile(path, decryption_properties=properties).read()


def reveals(text: str, *keys: bytes) -> list[str]:
    """The forms in which `text` contains one of `keys`: as text, ``repr``, hex, base64 or numbers."""
    forms = []
    for key in keys:
        written_forms = {
            "text": key.decode("latin-1"),
            "repr": repr(key)[2:-1],
            "hex": key.hex(),
            "base64": base64.b64encode(key).decode(),
            "numbers": str(list(key))[1:-1],
        }
        forms += [form for form, written in written_forms.items() if written.lower() in text.lower()]
    return forms


def full_text(error: BaseException) -> str:
    """The traceback of an exception, with chained exceptions, its ``repr`` and its arguments."""
    return "".join(traceback.format_exception(error)) + repr(error) + str(error.args)
