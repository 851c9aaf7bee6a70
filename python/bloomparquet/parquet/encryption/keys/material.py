"""Key material: how a data key was wrapped, in the JSON form of parquet-java's and Arrow's key management tools.

A data key is wrapped by a master key, which stays in the KMS. With double wrapping, a key-encryption key wraps the data
key, and the master key wraps the key-encryption key, so that one request to the KMS serves many files. The JSON is in
the file's key metadata, or in another file beside it that the key metadata refers to.

Source: parquet-java ``KeyMetadata``, ``KeyMaterial``, ``KeyToolkit.encryptKeyLocally`` and ``HadoopFSKeyMaterialStore``
(org.apache.parquet.crypto.keytools).
"""

from __future__ import annotations

import base64
import json
import os
from dataclasses import dataclass
from typing import Any

from bloomparquet.errors import EncryptionError, LimitError, OptionError
from bloomparquet.storage.files import Storage

KEY_BYTES = (16, 24, 32)
"""The sizes of AES keys."""
FOOTER_REFERENCE = "footerKey"
"""The footer key's name in the key material file."""

_TYPE = "PKMT1"
_MOST_METADATA = 1 << 20
_MOST_FILE = 64 << 20
_NONCE_BYTES, _TAG_BYTES = 12, 16
_MOST_QUOTED = 100


@dataclass(frozen=True, repr=False)
class KeyMaterial:
    """The wrapped form of one key. The material of a footer key also names the KMS instance.

    `wrapped` is the wrapped data key as text: by the KMS, or by :func:`wrap_locally` if there is an `encryption_key`.
    `encryption_key` is the ID of the key-encryption key and its wrapped form.
    """

    master_key_id: str
    wrapped: str
    encryption_key: tuple[str, str] | None = None
    is_footer_key: bool = False
    kms_instance_id: str | None = None
    kms_instance_url: str | None = None

    def to_json(self) -> bytes:
        """Key metadata that contains the material."""
        fields: dict[str, Any] = {"keyMaterialType": _TYPE, "internalStorage": True, "isFooterKey": self.is_footer_key}
        if self.is_footer_key:
            fields |= {"kmsInstanceID": self.kms_instance_id, "kmsInstanceURL": self.kms_instance_url}
        fields |= {"masterKeyID": self.master_key_id, "wrappedDEK": self.wrapped}
        fields["doubleWrapping"] = self.encryption_key is not None
        if self.encryption_key is not None:
            fields["keyEncryptionKeyID"], fields["wrappedKEK"] = self.encryption_key
        return json.dumps(fields, separators=(",", ":")).encode()


def require_key(key: object, label: str) -> bytes:
    """Return `key`. Raises OptionError, without showing it, if it is not an AES key."""
    if not isinstance(key, bytes | bytearray | memoryview):
        raise OptionError(f"{label} is a {type(key).__name__}; expected bytes")
    raw = bytes(key)
    if len(raw) not in KEY_BYTES:
        raise OptionError(f"{label} has {len(raw)} bytes; expected 16, 24 or 32")
    return raw


def parse_metadata(raw: bytes) -> KeyMaterial | str:
    """The material in key metadata, or its name in the key material file. Raises EncryptionError."""
    fields = _parse(raw, "the key metadata")
    if _field(fields, "internalStorage", bool):
        return _material(fields)
    return str(_field(fields, "keyReference", str))


def read_external(storage: Storage, path: str) -> dict[str, str]:
    """The key material file of the Parquet file at `path`: JSON by name, for :func:`find_external`.

    Raises EncryptionError if the file is missing or damaged, and the storage's OSError.
    """
    name = path.rpartition("/")[2]
    material_path = f"{path.removesuffix(name)}_KEY_MATERIAL_FOR_{name}.json"
    try:
        raw = storage.read_whole(material_path, _MOST_FILE)
    except FileNotFoundError:
        raise EncryptionError(f"the file's key material should be in {material_path}, which is missing") from None
    except IsADirectoryError:
        raise EncryptionError(f"{material_path} is not a file") from None
    except LimitError as error:
        raise EncryptionError(f"the file's key material: {error}") from None
    return _object(raw, material_path)


def find_external(materials: dict[str, str], name: str, path: str) -> KeyMaterial:
    """The material called `name` in the key material file of the file at `path`. Raises EncryptionError."""
    text = materials.get(name)
    if not isinstance(text, str):
        raise EncryptionError(f"the key material file of {path} has no {quote(name)}")
    return _material(_parse(text.encode("utf-8", "surrogatepass"), f"the key material file of {path}"))


def wrap_locally(key: bytes, encryption_key: bytes, key_id: bytes) -> str:
    """Wrap `key` with a key-encryption key, which has the ID `key_id`."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(_NONCE_BYTES)
    return base64.b64encode(nonce + AESGCM(encryption_key).encrypt(nonce, key, key_id)).decode()


def unwrap_locally(wrapped: str, encryption_key: bytes, key_id: str) -> bytes:
    """The inverse of :func:`wrap_locally`; `key_id` is in base64. Raises EncryptionError if decryption fails."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    encrypted, aad = _decode_base64(wrapped, "wrappedDEK"), _decode_base64(key_id, "keyEncryptionKeyID")
    if len(encrypted) - _NONCE_BYTES - _TAG_BYTES not in KEY_BYTES:
        raise EncryptionError(f"wrappedDEK has {len(encrypted)} bytes; a wrapped key has 44, 52 or 60")
    try:
        return AESGCM(encryption_key).decrypt(encrypted[:_NONCE_BYTES], encrypted[_NONCE_BYTES:], aad)
    except InvalidTag:
        raise EncryptionError(
            "wrappedDEK cannot be decrypted with the key-encryption key from the KMS: one of the two was altered or "
            "replaced"
        ) from None


def quote(name: str) -> str:
    """A name from a file, for a message: quoted, and cut if it is long."""
    return repr(name if len(name) <= _MOST_QUOTED else f"{name[:_MOST_QUOTED]}…")


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


def _parse(raw: bytes | bytearray, label: str) -> dict[str, Any]:
    """A JSON object that declares the supported type of key material."""
    if len(raw) > _MOST_METADATA:
        raise EncryptionError(f"{label} has {len(raw)} bytes; expected at most {_MOST_METADATA}")
    fields = _object(raw, label)
    if (kind := fields.get("keyMaterialType")) != _TYPE:
        actual = quote(kind) if isinstance(kind, str) else "none"
        raise EncryptionError(f"{label} has the keyMaterialType {actual}; expected {_TYPE}")
    return fields


def _object(raw: bytes | bytearray, label: str) -> dict[str, Any]:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        raise EncryptionError(f"{label} is not JSON; expected the output of a KMS's tools") from None
    if not isinstance(value, dict):
        raise EncryptionError(f"{label} is not a JSON object; expected the output of a KMS's tools")
    return value


def _field(fields: dict[str, Any], name: str, kind: type) -> Any:
    value = fields.get(name)
    if not isinstance(value, kind):
        actual = "missing" if value is None else f"a {type(value).__name__}"
        raise EncryptionError(f"{name} of the key material is {actual}; expected a {kind.__name__}")
    return value


def _decode_base64(text: str, label: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise EncryptionError(f"{label} in the key material is not base64") from None
