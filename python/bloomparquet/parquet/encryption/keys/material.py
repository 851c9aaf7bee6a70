"""Key material: what stands in a file about how to get at one of its keys, in the form of the key management tools that
parquet-java and Arrow have.

A data key is wrapped by a master key, which stays in the KMS; or by a key-encryption key, which is wrapped by the
master key in its turn, so that the KMS is asked once for many files. Both forms are JSON, either in the file's key
metadata or in a file beside it, to which the key metadata then refers.

Source: parquet-java ``KeyMetadata``, ``KeyMaterial``, ``KeyToolkit.encryptKeyLocally`` and ``HadoopFSKeyMaterialStore``
(org.apache.parquet.crypto.keytools).
"""

from __future__ import annotations

import base64
import json
import os
from dataclasses import dataclass
from typing import Any

from bloomparquet.errors import EncryptionError, FormatError, OptionError
from bloomparquet.storage.files import Storage

KEY_BYTES = (16, 24, 32)
"""The sizes that AES keys have."""
FOOTER_REFERENCE = "footerKey"
"""What the key metadata of a footer refers to in the file beside it."""

_TYPE = "PKMT1"
_MOST_METADATA = 1 << 20
_MOST_FILE = 64 << 20
_NONCE_BYTES, _TAG_BYTES = 12, 16
_SHOWN = 100


@dataclass(frozen=True, repr=False)
class KeyMaterial:
    """How one key was wrapped. Of a footer key it also names the KMS.

    `wrapped` is the data key as text: as the KMS gave it, or where there is a key-encryption key, whose ID and whose
    own wrapping are `encryption_key`, by :func:`wrap_locally`.
    """

    master_key_id: str
    wrapped: str
    encryption_key: tuple[str, str] | None = None
    is_footer_key: bool = False
    kms_instance_id: str | None = None
    kms_instance_url: str | None = None

    def to_json(self) -> bytes:
        """Key metadata that has the material in it."""
        fields: dict[str, Any] = {"keyMaterialType": _TYPE, "internalStorage": True, "isFooterKey": self.is_footer_key}
        if self.is_footer_key:
            fields |= {"kmsInstanceID": self.kms_instance_id, "kmsInstanceURL": self.kms_instance_url}
        fields |= {"masterKeyID": self.master_key_id, "wrappedDEK": self.wrapped}
        fields["doubleWrapping"] = self.encryption_key is not None
        if self.encryption_key is not None:
            fields["keyEncryptionKeyID"], fields["wrappedKEK"] = self.encryption_key
        return json.dumps(fields, separators=(",", ":")).encode()


def require_key(key: object, what: str) -> bytes:
    """`key`, which is one. Raises OptionError that does not show it."""
    if not isinstance(key, bytes | bytearray | memoryview):
        raise OptionError(f"{what} is a {type(key).__name__}; expected bytes")
    found = bytes(key)
    if len(found) not in KEY_BYTES:
        raise OptionError(f"{what} has {len(found)} bytes; expected 16, 24 or 32")
    return found


def parse_metadata(raw: bytes) -> KeyMaterial | str:
    """The material that is in a key's metadata; or what it refers to in the file beside. Raises EncryptionError."""
    fields = _parse(raw, "the key metadata")
    if _field(fields, "internalStorage", bool):
        return _material(fields)
    return str(_field(fields, "keyReference", str))


def read_external(storage: Storage, path: str) -> dict[str, str]:
    """The key material beside the Parquet file at `path`: JSON by reference, for :func:`find_external`.

    Raises EncryptionError for a file that is missing or is none of these, and the storage's OSError.
    """
    name = path.rpartition("/")[2]
    beside = f"{path.removesuffix(name)}_KEY_MATERIAL_FOR_{name}.json"
    try:
        (info,) = storage.list_files(beside, recursive=False)
        if info.path.rpartition("/")[2] != beside.rpartition("/")[2]:
            raise EncryptionError(f"{beside} is no file")
        if info.size > _MOST_FILE:
            raise EncryptionError(f"{beside} has {info.size} bytes; expected key material of at most {_MOST_FILE}")
        raw = bytearray(info.size)
        if raw:
            storage.read_runs(beside, [0], [memoryview(raw)])
    except FileNotFoundError:
        raise EncryptionError(f"its key material is not in the file, and there is no {beside}") from None
    except (ValueError, FormatError):  # a directory, or a file that has just become shorter
        raise EncryptionError(f"{beside} is no file, or changed while it was read") from None
    return _object(raw, beside)


def find_external(found: dict[str, str], reference: str, path: str) -> KeyMaterial:
    """The material that a key's metadata refers to, among those beside the file at `path`. Raises EncryptionError."""
    text = found.get(reference)
    if not isinstance(text, str):
        raise EncryptionError(f"the key material beside {path} has nothing for {shown(reference)}")
    return _material(_parse(text.encode("utf-8", "surrogatepass"), f"the key material beside {path}"))


def wrap_locally(key: bytes, by: bytes, key_id: bytes) -> str:
    """`key`, wrapped by the key-encryption key `by`, which has the ID `key_id`."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(_NONCE_BYTES)
    return base64.b64encode(nonce + AESGCM(by).encrypt(nonce, key, key_id)).decode()


def unwrap_locally(wrapped: str, by: bytes, key_id: str) -> bytes:
    """The key that :func:`wrap_locally` wrapped; `key_id` in base64. Raises EncryptionError when it does not open."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    sealed, aad = _decoded(wrapped, "wrappedDEK"), _decoded(key_id, "keyEncryptionKeyID")
    if len(sealed) - _NONCE_BYTES - _TAG_BYTES not in KEY_BYTES:
        raise EncryptionError(f"wrappedDEK has {len(sealed)} bytes; expected those of a wrapped key: 44, 52 or 60")
    try:
        return AESGCM(by).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], aad)
    except InvalidTag:
        raise EncryptionError(
            "wrappedDEK does not open by the key-encryption key that the KMS gave: one of them was altered or replaced"
        ) from None


def shown(name: str) -> str:
    """A name that a file gave, fit for a message."""
    return repr(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…")


def _material(fields: dict[str, Any]) -> KeyMaterial:
    is_footer_key, double = _field(fields, "isFooterKey", bool), _field(fields, "doubleWrapping", bool)
    return KeyMaterial(
        _field(fields, "masterKeyID", str),
        _field(fields, "wrappedDEK", str),
        (_field(fields, "keyEncryptionKeyID", str), _field(fields, "wrappedKEK", str)) if double else None,
        is_footer_key,
        _field(fields, "kmsInstanceID", str) if is_footer_key else None,
        _field(fields, "kmsInstanceURL", str) if is_footer_key else None,
    )


def _parse(raw: bytes | bytearray, what: str) -> dict[str, Any]:
    """A JSON object that says it is key material of the type known here."""
    if len(raw) > _MOST_METADATA:
        raise EncryptionError(f"{what} has {len(raw)} bytes; expected at most {_MOST_METADATA}")
    fields = _object(raw, what)
    if (kind := fields.get("keyMaterialType")) != _TYPE:
        found = shown(kind) if isinstance(kind, str) else "none"
        raise EncryptionError(f"{what} has the keyMaterialType {found}; expected {_TYPE}")
    return fields


def _object(raw: bytes | bytearray, what: str) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        raise EncryptionError(f"{what} is not JSON; expected what a KMS's tools write") from None
    if not isinstance(found, dict):
        raise EncryptionError(f"{what} is not a JSON object; expected what a KMS's tools write")
    return found


def _field(fields: dict[str, Any], name: str, kind: type) -> Any:
    value = fields.get(name)
    if not isinstance(value, kind):
        found = "none" if value is None else f"a {type(value).__name__}"
        raise EncryptionError(f"the key material should have {name}, a {kind.__name__}; it has {found}")
    return value


def _decoded(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise EncryptionError(f"{what} in the key material is not base64") from None
