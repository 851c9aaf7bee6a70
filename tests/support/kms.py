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
    """Master keys by name, made as they are asked for. It wraps keys by them, refuses those in `denied`, and counts
    what it is asked; `connections` are the configurations that clients were made with, as pyarrow's attributes.

    `client` is the factory that pyarrow and :meth:`bloomparquet.Keys.from_kms` take.
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
        """How many keys it was asked to unwrap."""
        return sum(count for (verb, _), count in self.calls.items() if verb == "unwrap")

    def wrapped(self) -> int:
        """How many keys it was asked to wrap."""
        return sum(count for (verb, _), count in self.calls.items() if verb == "wrap")


COMMON = Kms()
"""One that functions of other modules find, such as key providers."""


class _Client(pe.KmsClient):  # type: ignore[misc]
    def __init__(self, kms: Kms) -> None:
        super().__init__()
        self._kms = kms

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
        nonce = os.urandom(12)
        sealed = self._kms.cipher("wrap", master_key_identifier).encrypt(nonce, key_bytes, None)
        return base64.b64encode(nonce + sealed)

    def unwrap_key(self, wrapped_key: str, master_key_identifier: str) -> bytes:
        sealed = base64.b64decode(wrapped_key)
        return self._kms.cipher("unwrap", master_key_identifier).decrypt(sealed[:12], sealed[12:], None)


def configuration(
    columns: Mapping[str, Sequence[str]] | None = None, *, footer: str = "footer", **options: Any
) -> pe.EncryptionConfiguration:
    """`columns` are column names by master key; without any the encryption is uniform. `options` are pyarrow's."""
    given = {"column_keys": {name: list(some) for name, some in columns.items()}} if columns else {}
    return pe.EncryptionConfiguration(
        footer, uniform_encryption=not columns, cache_lifetime=timedelta(minutes=10), **given, **options
    )


class Writer:
    """pyarrow's factory over a `kms`: files that one of it has written share their key-encryption keys."""

    def __init__(self, kms: Kms, **connection: Any) -> None:
        self.config = pe.KmsConnectionConfig(**connection)
        self.factory = pe.CryptoFactory(kms.client)

    def write(self, table: pa.Table, path: Path, encryption: pe.EncryptionConfiguration, **options: Any) -> str:
        """`table` as an encrypted file; key material that is to lie beside it does. `options` are pyarrow's."""
        properties = self.factory.file_encryption_properties(self.config, encryption, str(path))
        pq.write_table(table, path, encryption_properties=properties, **options)
        return str(path)

    def read(self, path: Path | str) -> pa.Table:
        """The file, as pyarrow reads it."""
        properties = self.factory.file_decryption_properties(self.config, None, str(path))
        return pq.ParquetFile(path, decryption_properties=properties).read()


def reveals(text: str, *keys: bytes) -> list[str]:
    """The ways in which `text` has one of `keys` in it: as it is, as Python writes it, in hex, base64 or numbers."""
    found = []
    for key in keys:
        ways = {
            "text": key.decode("latin-1"),
            "repr": repr(key)[2:-1],
            "hex": key.hex(),
            "base64": base64.b64encode(key).decode(),
            "numbers": str(list(key))[1:-1],
        }
        found += [way for way, written in ways.items() if written.lower() in text.lower()]
    return found


def whole_text(error: BaseException) -> str:
    """All that a traceback prints of an exception, what it chains included."""
    return "".join(traceback.format_exception(error)) + repr(error) + str(error.args)
