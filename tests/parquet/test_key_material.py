"""Key material, in files and beside them: found, bounded, and named where it is damaged."""

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
from bloomparquet.storage.files import LocalStorage, open_storage
from tests.support.kms import SECRET, Kms, Writer, configuration, reveals, whole_text
from tests.support.kms_files import COLUMNS, TABLE, beside, external, keys, material

_OTHER = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="  # 44 bytes


DAMAGE: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "not JSON": (lambda it: b"kf", "the key metadata is not JSON; expected what a KMS's tools write"),
    "empty": (lambda it: b"", "the key metadata is not JSON"),
    "no UTF-8": (lambda it: b'{"keyMaterialType":"\xff"}', "the key metadata is not JSON"),
    "cut": (lambda it: json.dumps(it)[:-1].encode(), "the key metadata is not JSON"),
    "deep": (lambda it: b"[" * 100_000, "the key metadata is not JSON"),
    "a list": (lambda it: [it], "the key metadata is not a JSON object"),
    "huge": (lambda it: {**it, "x": "y" * (1 << 20)}, r"the key metadata has \d+ bytes; expected at most 1048576"),
    "no type": (lambda it: {**it, "keyMaterialType": None}, "has the keyMaterialType none; expected PKMT1"),
    "another type": (lambda it: {**it, "keyMaterialType": "PKMT2"}, "has the keyMaterialType 'PKMT2'; expected PKMT1"),
    "a long type": (lambda it: {**it, "keyMaterialType": "x" * 9999}, "keyMaterialType 'x{100}…'; expected PKMT1"),
    "no key": (lambda it: {**it, "wrappedDEK": None}, "should have wrappedDEK, a str; it has none"),
    "a number": (lambda it: {**it, "masterKeyID": 7}, "should have masterKeyID, a str; it has a int"),
    "no truth": (lambda it: {**it, "doubleWrapping": "yes"}, "should have doubleWrapping, a bool; it has a str"),
    "nowhere": (lambda it: {**it, "internalStorage": None}, "should have internalStorage, a bool; it has none"),
    "no base64": (lambda it: {**it, "wrappedDEK": "!" * 60}, "wrappedDEK in the key material is not base64"),
    "no ASCII": (lambda it: {**it, "wrappedDEK": "\udc80" * 60}, "wrappedDEK in the key material is not base64"),
    "no ID": (lambda it: {**it, "keyEncryptionKeyID": "*"}, "keyEncryptionKeyID in the key material is not base64"),
    "short": (lambda it: {**it, "wrappedDEK": "AAAA"}, "wrappedDEK has 3 bytes; expected those of a wrapped key"),
    "replaced": (lambda it: {**it, "wrappedDEK": _OTHER}, "wrappedDEK does not open by the key-encryption key"),
    "another ID": (lambda it: {**it, "keyEncryptionKeyID": "AAAA"}, "wrappedDEK does not open by the key-encryption"),
    "another KEK": (lambda it: {**it, "wrappedKEK": _OTHER}, "the KMS did not unwrap a key by master key 'footer'"),
    "another master": (lambda it: {**it, "masterKeyID": "m\n"}, r"the KMS did not unwrap a key by master key 'm\\n'"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_key_material_opens_nothing_and_is_named(damage: str) -> None:
    change, message = DAMAGE[damage]
    kms = Kms()
    key, metadata = KeyWrapper(None, kms.client, configuration()).new_key("footer", is_footer=True)
    changed = change(json.loads(metadata))
    raw = changed if isinstance(changed, bytes) else json.dumps(changed).encode()
    unwrapper = keys(kms).for_file(LocalStorage(), "/a.parquet")
    with pytest.raises(EncryptionError, match="the footer key could not be retrieved: ") as caught:
        unwrapper.footer_key(raw)
    assert caught.match(message)
    text = whole_text(caught.value)
    assert len(str(caught.value)) < 500
    assert SECRET not in text
    assert not reveals(text, key, *kms.master_keys.values())
    assert json.loads(metadata)["wrappedDEK"] not in text
    assert json.loads(metadata)["wrappedKEK"] not in text
    # A file is no worse for another's damage.
    assert keys(kms).for_file(LocalStorage(), "/b.parquet").footer_key(metadata) == key


def test_a_forged_key_encryption_key_does_not_pass_for_one_that_is_known() -> None:
    kms = Kms()
    wrapping = KeyWrapper(None, kms.client, configuration())
    key, metadata = wrapping.new_key("footer", is_footer=True)
    forged = {**json.loads(metadata), "wrappedKEK": material(wrapping, "another")["wrappedKEK"]}
    for order in ([forged, None], [None, forged]):
        given = Keys.from_kms(pe.KmsConnectionConfig(key_access_token=str(order)), kms.client)
        unwrapper = given.for_file(LocalStorage(), "/a")
        for each in order:
            if each is None:
                assert unwrapper.footer_key(metadata) == key
            else:
                with pytest.raises(EncryptionError):
                    unwrapper.footer_key(json.dumps(each).encode())


def test_key_material_beside_a_file_is_read_once(tmp_path: Path) -> None:
    read: list[str] = []

    class Watched(LocalStorage):
        def read_into(self, path: str, starts: Any, views: Any) -> None:
            read.append(Path(path).name)
            super().read_into(path, starts, views)

    kms = Kms()
    path = external(kms, tmp_path)
    found = json.loads(beside(path).read_text())
    unwrapper = keys(kms).for_file(Watched(), path)
    for reference in found:
        metadata = {"keyMaterialType": "PKMT1", "internalStorage": False, "keyReference": reference}
        assert len(unwrapper.footer_key(json.dumps(metadata).encode())) == 16
    assert sorted(found) == ["columnKey0", "columnKey1", "footerKey"]
    assert read == ["_KEY_MATERIAL_FOR_a.parquet.json"]


def test_keys_are_those_of_the_file_that_is_there_now(tmp_path: Path) -> None:
    kms = Kms()
    given = keys(kms)
    path = external(kms, tmp_path)
    assert bp.read_table(path, keys=given).num_rows == 100
    Writer(kms).write(TABLE.slice(50), Path(path), configuration(COLUMNS, internal_key_material=False))
    assert bp.read_table(path, keys=given).equals(TABLE.slice(50))
    # Rotating the master keys changes the material, and not the file.
    writer = Writer(kms)
    writer.factory.rotate_master_keys(writer.config, path)
    assert bp.read_table(path, keys=given).equals(TABLE.slice(50))
    assert bp.read_table(path, keys=keys(kms, cache_lifetime=timedelta(0))).equals(TABLE.slice(50))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda place: place.unlink(), "its key material is not in the file, and there is no {place}"),
        (lambda place: place.write_bytes(b""), "{place} is not JSON"),
        (lambda place: place.write_bytes(b"{"), "{place} is not JSON"),
        (lambda place: place.write_bytes(b"7"), "{place} is not a JSON object"),
        (lambda place: place.write_bytes(b"{}"), "the key material beside {path} has nothing for 'footerKey'"),
        (lambda place: place.write_bytes(b'{"footerKey":{}}'), "beside {path} has nothing for 'footerKey'"),
        (lambda place: place.write_bytes(b'{"footerKey":"{"}'), "the key material beside {path} is not JSON"),
        (lambda place: place.write_bytes(b'{"footerKey":"{}"}'), "beside {path} has the keyMaterialType none"),
        (lambda place: (place.unlink(), place.mkdir()), "{place} is no file"),
        (lambda place: (place.unlink(), place.mkdir(), (place / "a").touch()), "{place} is no file"),
    ],
)
def test_damaged_material_beside_a_file_is_named(tmp_path: Path, change: Callable[[Path], Any], message: str) -> None:
    kms = Kms()
    path = external(kms, tmp_path)
    change(beside(path))
    with pytest.raises(EncryptionError) as caught:
        bp.read_table(path, keys=keys(kms))
    assert message.format(place=beside(path), path=path) in str(caught.value)
    assert str(caught.value).startswith(f"{path}: the footer key could not be retrieved: ")


def test_material_beside_a_file_of_absurd_size_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kms = Kms()
    path = external(kms, tmp_path)
    monkeypatch.setattr(key_material, "_MOST_FILE", 100)
    with pytest.raises(EncryptionError, match=r"has \d{3,} bytes; expected key material of at most 100"):
        bp.read_table(path, keys=keys(kms))


def test_material_is_found_beside_a_file_on_any_storage(tmp_path: Path, memory: Any) -> None:
    kms = Kms()
    path = external(kms, tmp_path, "a b.parquet")
    for name in (path, beside(path)):
        memory.pipe(f"/data/{Path(name).name}", Path(name).read_bytes())
    assert bp.read_table("memory://data/a b.parquet", keys=keys(kms)).equals(TABLE)
    assert bp.plan("memory://data", "id = 500", keys=keys(kms)).total == 1  # it is no data file
    memory.rm(f"/data/{beside(path).name}")
    storage, inner = open_storage("memory://data/a b.parquet")
    with pytest.raises(EncryptionError, match=r"there is no /?data/_KEY_MATERIAL_FOR_a b\.parquet\.json"):
        key_material.read_external(storage, inner)


def test_material_of_a_file_without_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kms = Kms()
    external(kms, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert bp.read_table("a.parquet", keys=keys(kms)).equals(TABLE)
