"""Key material in a file or beside it: it is found, its size is limited, and damage is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet.encryption as pe
import pytest

import bloomparquet as bp
from bloomparquet.errors import EncryptionError
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.parquet.encryption.keys import material as key_material
from bloomparquet.parquet.encryption.keys.wrapping import KeyWrapper
from bloomparquet.storage.files import LocalStorage
from bloomparquet.storage.open import open_storage
from tests.support.kms import SECRET, Kms, Writer, configuration, full_text, reveals
from tests.support.kms_files import COLUMNS, TABLE, kms_keys, material_path, new_material, write_with_material_file

_OTHER = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="  # 44 bytes


DAMAGE: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "not JSON": (lambda it: b"kf", "the key metadata is not JSON; expected the output of a KMS's tools"),
    "deep": (lambda it: b"[" * 100_000, "the key metadata is not JSON"),
    "huge": (lambda it: {**it, "x": "y" * (1 << 20)}, r"the key metadata has \d+ bytes; expected at most 1048576"),
    "no type": (lambda it: {**it, "keyMaterialType": None}, "has the keyMaterialType none; expected PKMT1"),
    "another type": (lambda it: {**it, "keyMaterialType": "PKMT2"}, "has the keyMaterialType 'PKMT2'; expected PKMT1"),
    "a number": (lambda it: {**it, "masterKeyID": 7}, "masterKeyID of the key material is a int; expected a str"),
    "no base64": (lambda it: {**it, "wrappedDEK": "!" * 60}, "wrappedDEK in the key material is not base64"),
    "short": (lambda it: {**it, "wrappedDEK": "AAAA"}, "wrappedDEK has 3 bytes; a wrapped key has 44"),
    "replaced": (lambda it: {**it, "wrappedDEK": _OTHER}, "wrappedDEK cannot be decrypted with the key-encryption key"),
    "another KEK": (lambda it: {**it, "wrappedKEK": _OTHER}, "the KMS did not unwrap a key with master key 'footer'"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_key_material_is_named(damage: str) -> None:
    change, message = DAMAGE[damage]
    kms = Kms()
    key, metadata = KeyWrapper(None, kms.client, configuration()).new_key("footer", is_footer=True)
    changed = change(json.loads(metadata))
    raw = changed if isinstance(changed, bytes) else json.dumps(changed).encode()
    unwrapper = kms_keys(kms).for_file(LocalStorage(), "/a.parquet")
    with pytest.raises(EncryptionError, match="the footer key could not be retrieved: ") as caught:
        unwrapper.footer_key(raw)
    assert caught.match(message)
    text = full_text(caught.value)
    assert len(str(caught.value)) < 500
    assert SECRET not in text
    assert not reveals(text, key, *kms.master_keys.values())
    assert json.loads(metadata)["wrappedDEK"] not in text
    assert json.loads(metadata)["wrappedKEK"] not in text
    # Damage in one file does not affect another.
    assert kms_keys(kms).for_file(LocalStorage(), "/b.parquet").footer_key(metadata) == key


def test_a_forged_key_encryption_key_is_not_taken_from_cache() -> None:
    kms = Kms()
    wrapping = KeyWrapper(None, kms.client, configuration())
    key, metadata = wrapping.new_key("footer", is_footer=True)
    forged = {**json.loads(metadata), "wrappedKEK": new_material(wrapping, "another")["wrappedKEK"]}
    for order in ([forged, None], [None, forged]):
        keys = Keys.from_kms(pe.KmsConnectionConfig(key_access_token=str(order)), kms.client)
        unwrapper = keys.for_file(LocalStorage(), "/a")
        for each in order:
            if each is None:
                assert unwrapper.footer_key(metadata) == key
            else:
                with pytest.raises(EncryptionError):
                    unwrapper.footer_key(json.dumps(each).encode())


def test_a_key_material_file_is_read_once(tmp_path: Path) -> None:
    read: list[str] = []

    class Watched(LocalStorage):
        def read_whole(self, path: str, most: int) -> bytes:
            read.append(Path(path).name)
            return super().read_whole(path, most)

    kms = Kms()
    path = write_with_material_file(kms, tmp_path)
    materials = json.loads(material_path(path).read_text())
    unwrapper = kms_keys(kms).for_file(Watched(), path)
    for reference in materials:
        metadata = {"keyMaterialType": "PKMT1", "internalStorage": False, "keyReference": reference}
        assert len(unwrapper.footer_key(json.dumps(metadata).encode())) == 16
    assert sorted(materials) == ["columnKey0", "columnKey1", "footerKey"]
    assert read == ["_KEY_MATERIAL_FOR_a.parquet.json"]


def test_keys_are_those_of_the_current_file(tmp_path: Path) -> None:
    kms = Kms()
    keys = kms_keys(kms)
    path = write_with_material_file(kms, tmp_path)
    assert bp.read_table(path, keys=keys).num_rows == 100
    Writer(kms).write(TABLE.slice(50), Path(path), configuration(COLUMNS, internal_key_material=False))
    assert bp.read_table(path, keys=keys).equals(TABLE.slice(50))
    # Rotating the master keys changes the key material file only.
    writer = Writer(kms)
    writer.factory.rotate_master_keys(writer.config, path)
    assert bp.read_table(path, keys=keys).equals(TABLE.slice(50))
    assert bp.read_table(path, keys=kms_keys(kms, cache_lifetime=timedelta(0))).equals(TABLE.slice(50))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda file: file.unlink(), "the file's key material should be in {material}, which is missing"),
        (lambda file: file.write_bytes(b"{"), "{material} is not JSON"),
        (lambda file: file.write_bytes(b"{}"), "the key material file of {path} has no 'footerKey'"),
        (lambda file: file.write_bytes(b'{"footerKey":"{}"}'), "file of {path} has the keyMaterialType none"),
        (lambda file: (file.unlink(), file.mkdir()), "{material} is not a file"),
    ],
)
def test_a_damaged_key_material_file_is_named(tmp_path: Path, change: Callable[[Path], Any], message: str) -> None:
    kms = Kms()
    path = write_with_material_file(kms, tmp_path)
    change(material_path(path))
    with pytest.raises(EncryptionError) as caught:
        bp.read_table(path, keys=kms_keys(kms))
    assert message.format(material=material_path(path), path=path) in str(caught.value)
    assert str(caught.value).startswith(f"{path}: the footer key could not be retrieved: ")


def test_a_huge_key_material_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kms = Kms()
    path = write_with_material_file(kms, tmp_path)
    monkeypatch.setattr(key_material, "_MOST_FILE", 100)
    with pytest.raises(EncryptionError, match=r"has \d{3,} bytes; expected at most 100"):
        bp.read_table(path, keys=kms_keys(kms))


def test_key_material_files_are_read_from_any_storage(tmp_path: Path, memory: Any) -> None:
    kms = Kms()
    path = write_with_material_file(kms, tmp_path, "a b.parquet")
    for name in (path, material_path(path)):
        memory.pipe(f"/data/{Path(name).name}", Path(name).read_bytes())
    assert bp.read_table("memory://data/a b.parquet", keys=kms_keys(kms)).equals(TABLE)
    assert bp.plan("memory://data", "id = 500", keys=kms_keys(kms)).total == 1  # the key material is not a data file
    memory.rm(f"/data/{material_path(path).name}")
    storage, inner = open_storage("memory://data/a b.parquet")
    with pytest.raises(
        EncryptionError, match=r"should be in /?data/_KEY_MATERIAL_FOR_a b\.parquet\.json, which is missing"
    ):
        key_material.read_external(storage, inner)
