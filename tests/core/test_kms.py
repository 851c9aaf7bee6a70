"""Keys from a key management service: what pyarrow writes opens with the same configuration, at few requests."""

from __future__ import annotations

import gc
import json
import os
import re
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet.encryption as pe
import pytest

import bloomparquet as bp
from bloomparquet.errors import EncryptionError, OptionError, UnsupportedError
from bloomparquet.keys import Keys, expiring
from bloomparquet.keys import material as key_material
from bloomparquet.keys.wrapping import Wrapping
from bloomparquet.storage import LocalStorage, open_storage
from tests.support.kms import SECRET, Kms, Writer, configuration, reveals, whole_text

TABLE = pa.table({"id": list(range(100)), "name": [f"n{i}" for i in range(100)], "open": [i / 7 for i in range(100)]})
COLUMNS = {"of_ids": ["id"], "of_names": ["name"]}


def keys(kms: Kms, **options: Any) -> Keys:
    return Keys.from_kms(None, kms.client, **options)


def beside(path: str | Path) -> Path:
    return Path(path).parent / f"_KEY_MATERIAL_FOR_{Path(path).name}.json"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(expiring, "monotonic", clock)
    return clock


@pytest.mark.parametrize("bits", [128, 192, 256])
@pytest.mark.parametrize("double", [False, True], ids=["single", "double"])
@pytest.mark.parametrize("columns", [COLUMNS, None], ids=["columns", "uniform"])
@pytest.mark.parametrize("options", [{}, {"plaintext_footer": True}, {"internal_key_material": False}], ids=str)
def test_what_pyarrow_wrote_opens_with_the_same_configuration(
    tmp_path: Path, bits: int, double: bool, columns: Any, options: dict[str, Any]
) -> None:
    kms = Kms()
    how = configuration(columns, data_key_length_bits=bits, double_wrapping=double, **options)
    path = Writer(kms).write(TABLE, tmp_path / "a.parquet", how)
    assert beside(path).exists() == ("internal_key_material" in options)
    assert bp.read_table(path, keys=keys(kms)).equals(TABLE)
    assert bp.read_table(path, "id = 3 OR name = 'n70'", keys=keys(kms)).num_rows == 2
    # Every key that it needed, once: three of this file, whichever way they are wrapped.
    assert kms.unwrapped() == (3 if columns else 1)


def test_a_data_set_costs_one_request_for_each_key_encryption_key(tmp_path: Path) -> None:
    kms = Kms()
    writer = Writer(kms)
    for i in range(40):
        writer.write(TABLE, tmp_path / f"{i}.parquet", configuration(COLUMNS))
    assert kms.wrapped() == 3
    # Two of equal configuration share what the service gave: a provider may make one for each query.
    assert bp.plan(str(tmp_path), "id = 5 AND name = 'n5'", keys=keys(kms)).kept == 40
    assert bp.read_table(str(tmp_path), "id = 5", keys=keys(kms)).num_rows == 40
    assert kms.unwrapped() == 3
    assert len(kms.connections) == 2  # pyarrow's client, and one of ours


def test_key_encryption_keys_of_many_writers_are_asked_for_one_by_one(tmp_path: Path) -> None:
    kms = Kms()
    for i in range(3):
        Writer(kms).write(TABLE, tmp_path / f"{i}.parquet", configuration())
    assert bp.read_table(str(tmp_path), keys=keys(kms)).num_rows == 300
    assert kms.unwrapped() == 3


def test_one_of_many_threads_asks(tmp_path: Path) -> None:
    kms = Kms()
    writer = Writer(kms)
    paths = [writer.write(TABLE, tmp_path / f"{i}.parquet", configuration()) for i in range(8)]
    waiting = threading.Barrier(8)
    original, asked = kms.cipher, threading.Event()

    def slow(verb: str, name: str) -> Any:
        asked.wait(0.2)  # others come meanwhile
        return original(verb, name)

    kms.cipher = slow  # type: ignore[method-assign]

    def read(path: str) -> int:
        waiting.wait()
        return len(bp.read_table(path, keys=keys(kms)))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(read, paths)) == [100] * 8
    assert kms.calls["unwrap", "footer"] == 1


def test_what_the_service_gave_is_kept_for_its_time(tmp_path: Path, clock: Clock) -> None:
    kms = Kms()
    writer = Writer(kms)
    paths = iter([writer.write(TABLE, tmp_path / f"{i}.parquet", configuration()) for i in range(5)])

    def unwrapped_by(lifetime: timedelta) -> int:
        bp.inspect(next(paths), keys=keys(kms, cache_lifetime=lifetime))
        return kms.unwrapped()

    assert unwrapped_by(timedelta(minutes=10)) == 1
    clock.now += 599
    assert unwrapped_by(timedelta(minutes=10)) == 1
    clock.now += 1
    assert unwrapped_by(timedelta(minutes=10)) == 2
    clock.now += 60
    assert unwrapped_by(timedelta(minutes=1)) == 3
    assert unwrapped_by(timedelta(0)) == 4
    assert len(kms.connections) == 5  # clients likewise: pyarrow's, and one for each request


@pytest.mark.filterwarnings("ignore:.*could not be retrieved")
def test_a_key_that_is_refused_keeps_its_row_groups_and_is_not_asked_for_again_at_once(
    tmp_path: Path, clock: Clock
) -> None:
    kms = Kms()
    writer = Writer(kms)
    for i in range(20):
        writer.write(TABLE, tmp_path / f"{i}.parquet", configuration(COLUMNS), row_group_size=50)
    kms.denied.add("of_ids")
    plan = bp.plan(str(tmp_path), "id = 1000", keys=keys(kms))
    assert (plan.kept, plan.total) == (40, 40)
    assert kms.calls["unwrap", "of_ids"] == 1
    refused = "the key of column id could not be retrieved: the KMS did not unwrap a key by master key 'of_ids': "
    with pytest.raises(EncryptionError, match=refused + "_Client.unwrap_key raised PermissionError") as caught:
        bp.read_table(str(tmp_path), "id = 1000", keys=keys(kms))
    assert SECRET not in whole_text(caught.value)
    assert not reveals(whole_text(caught.value), *kms.master_keys.values())
    assert kms.calls["unwrap", "of_ids"] == 1
    # The other columns are there to be read, and with the right comes the column.
    assert bp.read_table(str(tmp_path), columns=["name", "open"], keys=keys(kms)).num_rows == 2000
    kms.denied.clear()
    clock.now += 2
    assert bp.plan(str(tmp_path), "id = 1000", keys=keys(kms)).kept == 0
    assert kms.calls["unwrap", "of_ids"] == 2


def seen(kms: Kms) -> tuple[str, str, str, dict[str, str]]:
    """What the last client was made with."""
    return kms.connections[-1]


def test_the_instance_is_the_configurations_else_the_footers(tmp_path: Path) -> None:
    kms = Kms()
    named = {"kms_instance_id": "eu-1", "kms_instance_url": "https://kms.eu-1"}
    paths = [
        Writer(kms, **named).write(TABLE, tmp_path / "named.parquet", configuration(COLUMNS)),
        Writer(kms, **named).write(TABLE, tmp_path / "b.parquet", configuration(COLUMNS, internal_key_material=False)),
        Writer(kms).write(TABLE, tmp_path / "default.parquet", configuration(COLUMNS)),
    ]

    def instance(path: str, **connection: Any) -> tuple[str, str]:
        """As a client sees it; but for the URL, which older versions take from the file, as pyarrow's client does."""
        Writer(kms, **connection).read(path)
        theirs = seen(kms)
        made = len(kms.connections)
        given = Keys.from_kms(pe.KmsConnectionConfig(**connection), kms.client, cache_lifetime=timedelta(0))
        assert bp.read_table(path, keys=given).equals(TABLE)
        assert len(kms.connections) > made
        expected = (theirs[0], seen(kms)[1], *theirs[2:])
        assert [ours for ours in kms.connections[made:] if ours != expected] == []
        return expected[:2]

    for path in paths[:2]:
        assert instance(path) == ("eu-1", "DEFAULT")
        assert instance(path, kms_instance_id="us-1") == ("us-1", "DEFAULT")
        assert instance(path, kms_instance_url="https://mine") == ("eu-1", "https://mine")
        bp.inspect(path, keys=keys(kms, read_kms_url=True, cache_lifetime=timedelta(0)))
        assert seen(kms)[:2] == ("eu-1", "https://kms.eu-1")
    assert instance(paths[2]) == ("DEFAULT", "DEFAULT")
    custom = {"custom_kms_conf": {"region": "x", "role": "y"}, "key_access_token": "t"}
    assert instance(paths[2], **custom) == ("DEFAULT", "DEFAULT")
    assert seen(kms)[2:] == ("t", {"region": "x", "role": "y"})


def test_a_column_alone_says_no_instance(tmp_path: Path) -> None:
    kms = Kms()
    path = Writer(kms).write(TABLE, tmp_path / "a.parquet", configuration(COLUMNS))
    unwrapper = keys(kms).for_file(LocalStorage(), path)
    metadata = json.dumps(material(Wrapping(None, kms.client, configuration()), "of_ids")).encode()
    with pytest.raises(EncryptionError, match="neither the file nor the configuration says which KMS instance has it"):
        unwrapper.column_key(("id",), metadata)
    assert (
        Keys.from_kms(pe.KmsConnectionConfig(kms_instance_id="x"), kms.client)
        .for_file(LocalStorage(), path)
        .column_key(("id",), metadata)
    )


def test_a_refreshed_token_reaches_the_service(tmp_path: Path) -> None:
    kms = Kms()
    writer = Writer(kms)
    paths = [writer.write(TABLE, tmp_path / f"{i}.parquet", configuration()) for i in range(3)]
    config = pe.KmsConnectionConfig(key_access_token="first")
    given = Keys.from_kms(config, kms.client)
    before = hash(given)
    bp.inspect(paths[0], keys=given)
    bp.inspect(paths[1], keys=given)
    assert (seen(kms)[2], kms.unwrapped()) == ("first", 1)
    config.refresh_key_access_token("second")
    bp.inspect(paths[2], keys=given)
    # What was given for one token is not given for another.
    assert (seen(kms)[2], kms.unwrapped()) == ("second", 2)
    assert hash(given) == before


def test_equal_configurations_and_the_same_function_make_equal_keys() -> None:
    kms = Kms()

    def made(factory: Any = kms.client, **connection: Any) -> Keys:
        return Keys.from_kms(pe.KmsConnectionConfig(**connection), factory)

    same = {"kms_instance_id": "a", "key_access_token": "t", "custom_kms_conf": {"x": "1", "y": "2"}}
    again = {**same, "custom_kms_conf": {"y": "2", "x": "1"}}
    assert made(**same) == made(**again)
    assert hash(made(**same)) == hash(made(**again))
    assert made() == Keys.from_kms(None, kms.client)
    others = [
        made(**{**same, "key_access_token": "u"}),
        made(**{**same, "kms_instance_url": "b"}),
        made(**{**same, "custom_kms_conf": {"x": "1"}}),
        made(Kms().client, **same),
        Keys.from_kms(pe.KmsConnectionConfig(**same), kms.client, cache_lifetime=timedelta(1)),
        Keys.from_kms(pe.KmsConnectionConfig(**same), kms.client, read_kms_url=True),
        Keys.from_kms(pe.KmsConnectionConfig(**same), kms.client, aad_prefix=b"p"),
    ]
    assert all(made(**same) != other for other in others)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ({}, Kms().client),
            "kms_connection_config is a dict; expected pyarrow.parquet.encryption.KmsConnectionConfig",
        ),
        ((None, "boto3"), "kms_client_factory is a str; expected a function of KmsConnectionConfig to KmsClient"),
        ((None, type("F", (), {"__call__": len, "__hash__": None})()), "is a F, which has no hash"),
    ],
)
def test_a_configuration_of_the_wrong_kind_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Keys.from_kms(*arguments)
    config, factory = arguments
    with pytest.raises(OptionError, match=message):
        Wrapping(config, factory, configuration())


def test_a_lifetime_is_a_timedelta() -> None:
    with pytest.raises(OptionError, match=r"cache_lifetime is a int; expected a datetime\.timedelta"):
        keys(Kms(), cache_lifetime=600)


class Strange(pe.KmsClient):  # type: ignore[misc]
    """A client that answers with whatever it was made with."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self._answer = answer

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> Any:
        return self._answer

    unwrap_key = wrap_key


def answering(answer: Any, config: Any) -> Strange:
    return Strange(answer)


def no_client(config: Any) -> Any:
    raise ConnectionRefusedError(SECRET)


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (no_client, "the KMS cannot be reached: kms_client_factory raised ConnectionRefusedError"),
        (
            lambda config: object(),
            "kms_client_factory returned a object; expected pyarrow.parquet.encryption.KmsClient",
        ),
        (lambda config: pe.KmsClient(), "KmsClient.unwrap_key raised NotImplementedError"),
        (partial(answering, None), "Strange.unwrap_key returned a NoneType; expected bytes"),
        (
            partial(answering, b"short"),
            "what the KMS unwrapped by master key 'm' has 5 bytes; expected 16, 24 or 32",
        ),
        (partial(answering, "\udc80" * 16), "Strange.unwrap_key raised UnicodeEncodeError"),
    ],
)
def test_what_a_client_does_wrong_is_told_without_its_text(factory: Any, message: str) -> None:
    metadata = key_material.KeyMaterial("m", "wrapped", None, True, "i", "u").to_json()
    unwrapper = Keys.from_kms(None, factory).for_file(LocalStorage(), "/a")
    for _ in range(2):  # asked, and remembered
        with pytest.raises(EncryptionError, match=message) as caught:
            unwrapper.footer_key(metadata)
        assert SECRET not in whole_text(caught.value)


def test_a_client_may_answer_with_text_as_for_pyarrow() -> None:
    metadata = key_material.KeyMaterial("m", "wrapped", None, True, "i", "u").to_json()
    given = Keys.from_kms(None, partial(answering, "0123456789abcdef"))
    assert given.for_file(LocalStorage(), "/a").footer_key(metadata) == b"0123456789abcdef"


def material(wrapping: Wrapping, master_key_id: str = "footer", *, is_footer: bool = False) -> dict[str, Any]:
    """The key metadata of a new key, as the JSON that it is."""
    found: dict[str, Any] = json.loads(wrapping.new_key(master_key_id, is_footer=is_footer)[1])
    return found


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
    key, metadata = Wrapping(None, kms.client, configuration()).new_key("footer", is_footer=True)
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
    wrapping = Wrapping(None, kms.client, configuration())
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


def external(kms: Kms, folder: Path, name: str = "a.parquet") -> str:
    return Writer(kms).write(TABLE, folder / name, configuration(COLUMNS, internal_key_material=False))


def test_key_material_beside_a_file_is_read_once(tmp_path: Path) -> None:
    read: list[str] = []

    class Watched(LocalStorage):
        def read_runs(self, path: str, starts: Any, views: Any) -> None:
            read.append(Path(path).name)
            super().read_runs(path, starts, views)

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


@pytest.fixture
def memory() -> Iterator[Any]:
    filesystem = fsspec.filesystem("memory")
    yield filesystem
    filesystem.store.clear()
    filesystem.pseudo_dirs[:] = [""]


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


@pytest.mark.parametrize("bits", [128, 192, 256])
@pytest.mark.parametrize("double", [False, True], ids=["single", "double"])
def test_pyarrow_unwraps_what_is_wrapped_here(tmp_path: Path, bits: int, double: bool) -> None:
    kms = Kms()
    path = external(kms, tmp_path)
    place = beside(path)
    # The keys of pyarrow's file, wrapped here instead: pyarrow reads the file by these.
    unwrapper = keys(kms).for_file(LocalStorage(), path)
    wrapping = Wrapping(None, kms.client, configuration(double_wrapping=double, data_key_length_bits=bits))
    again = {}
    for reference, text in json.loads(place.read_text()).items():
        metadata = {"keyMaterialType": "PKMT1", "internalStorage": False, "keyReference": reference}
        key = unwrapper.footer_key(json.dumps(metadata).encode())
        again[reference] = wrapping.wrap(key, "mine", is_footer=reference == "footerKey").decode()
        assert again[reference] != text
    place.write_text(json.dumps(again))
    kms.calls.clear()
    assert Writer(kms).read(path).equals(TABLE)
    assert set(kms.calls) == {("unwrap", "mine")}
    assert bp.read_table(path, keys=keys(kms)).equals(TABLE)


@pytest.mark.parametrize("columns", [COLUMNS, None], ids=["columns", "uniform"])
@pytest.mark.parametrize(
    "options",
    [
        {"double_wrapping": False},
        {"plaintext_footer": True},
        {"data_key_length_bits": 256, "encryption_algorithm": "AES_GCM_CTR_V1"},
    ],
    ids=str,
)
def test_pyarrow_reads_what_is_written_with_a_service(tmp_path: Path, columns: Any, options: dict[str, Any]) -> None:
    kms = Kms()
    path = str(tmp_path / "a.parquet")
    encryption = bp.Encryption.from_kms(None, kms.client, configuration(columns, **options))
    bp.write_table(TABLE, path, bloom={"id": bp.Bloom()}, encryption=encryption)
    assert Writer(kms).read(path).equals(TABLE)
    assert bp.read_table(path, "id = 7", keys=keys(kms)).num_rows == 1
    before = wrapped_keys(path)
    bp.write_table(TABLE, path, encryption=encryption)
    assert len(wrapped_keys(path)) == (3 if columns and "plaintext_footer" in options else 1)
    assert not before & wrapped_keys(path)


def wrapped_keys(path: str) -> set[bytes]:
    """Those of a file that stand in it in plain text."""
    return set(re.findall(rb'"wrappedDEK":"([^"]+)"', Path(path).read_bytes()))


@pytest.mark.parametrize("bits", [128, 192, 256])
@pytest.mark.parametrize("double", [False, True], ids=["single", "double"])
def test_new_keys_are_new_and_of_their_size(bits: int, double: bool, clock: Clock) -> None:
    kms = Kms()
    wrapping = Wrapping(None, kms.client, configuration(double_wrapping=double, data_key_length_bits=bits))
    made = [wrapping.new_key(name, is_footer=name == "f") for name in ("f", "a", "a", "b", "f")]
    assert {len(key) for key, _ in made} == {bits // 8}
    assert len({key for key, _ in made}) == len({metadata for _, metadata in made}) == 5
    assert kms.wrapped() == (3 if double else 5)
    unwrapper = keys(kms).for_file(LocalStorage(), "/a")
    assert [unwrapper.footer_key(metadata) for _, metadata in made] == [key for key, _ in made]
    assert kms.unwrapped() == (3 if double else 5)
    for key, metadata in made:
        assert not reveals(metadata.decode(), key)
    # Where a key-encryption key is asked to live long enough, a new one is made.
    clock.now += 600
    wrapping.new_key("a", is_footer=False)
    assert kms.wrapped() == (4 if double else 6)


def test_key_metadata_names_the_service_for_the_footer_alone() -> None:
    kms = Kms()
    named = pe.KmsConnectionConfig(kms_instance_id="eu-1", kms_instance_url="https://kms")
    footer = material(Wrapping(named, kms.client, configuration()), is_footer=True)
    assert (footer["isFooterKey"], footer["kmsInstanceID"], footer["kmsInstanceURL"]) == (True, "eu-1", "https://kms")
    assert material(Wrapping(None, kms.client, configuration()), is_footer=True)["kmsInstanceID"] == "DEFAULT"
    column = material(Wrapping(named, kms.client, configuration()))
    assert sorted(column) == [
        "doubleWrapping", "internalStorage", "isFooterKey", "keyEncryptionKeyID", "keyMaterialType", "masterKeyID",
        "wrappedDEK", "wrappedKEK",
    ]  # fmt: skip


def test_a_service_that_refuses_to_wrap_is_named_without_its_text() -> None:
    kms = Kms(denied={"a"})
    for double in (False, True):
        wrapping = Wrapping(None, kms.client, configuration(double_wrapping=double))
        with pytest.raises(EncryptionError, match=r"did not wrap a key by master key 'a': .* PermissionE") as caught:
            wrapping.new_key("a", is_footer=False)
        assert SECRET not in whole_text(caught.value)
        kms.denied.clear()
        assert wrapping.new_key("a", is_footer=False)  # at once: it was the user who asked
        kms.denied.add("a")
    for answer, message in ((b"\xff", "is no text"), (None, "returned a NoneType; expected bytes")):
        with pytest.raises(EncryptionError, match=message):
            Wrapping(None, partial(answering, answer), configuration()).new_key("a", is_footer=True)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"internal_key_material": False}, UnsupportedError, "key material in files of its own is read, but not writt"),
        ({"data_key_length_bits": 100}, OptionError, "data_key_length_bits is 100; expected 128, 192 or 256"),
        ({"column_keys": {"k": ["a"]}}, OptionError, "column_keys and uniform_encryption exclude each other"),
        ({"uniform_encryption": False}, OptionError, "column_keys names no columns"),
        ({"uniform_encryption": False, "column_keys": {"k": ["a:b"]}}, OptionError, "or one with a comma, colon"),
        ({"uniform_encryption": False, "column_keys": {"k": ["a;b"]}}, OptionError, "or one with a comma, colon"),
        ({"uniform_encryption": False, "column_keys": {"k": []}}, OptionError, "column_keys has an empty name"),
        ({"uniform_encryption": False, "column_keys": {"k": ["a"], "l": ["a"]}}, OptionError, "two master keys for"),
    ],
)
def test_an_encryption_that_does_not_go_together_is_refused(options: Any, error: Any, message: str) -> None:
    encryption = pe.EncryptionConfiguration("footer", **{"uniform_encryption": True, **options})
    with pytest.raises(error, match=message):
        Wrapping(None, Kms().client, encryption)


def test_an_encryption_is_pyarrows() -> None:
    with pytest.raises(OptionError, match="encryption_config is a dict; expected pyarrow"):
        Wrapping(None, Kms().client, {})
    uniform = Wrapping(None, Kms().client, configuration(plaintext_footer=True, encryption_algorithm="AES_GCM_CTR_V1"))
    # pyarrow too encrypts the footer where all columns have its key.
    assert (uniform.uniform, uniform.plaintext_footer, uniform.counter_mode_pages) == (True, False, True)
    columns = Wrapping(None, Kms().client, configuration(COLUMNS, footer="f", plaintext_footer=True))
    assert (columns.uniform, columns.plaintext_footer, columns.counter_mode_pages) == (False, True, False)
    assert columns.footer_key == "f"
    assert uniform.master_keys([("id",)]) == {}


def test_columns_have_the_master_keys_that_name_them() -> None:
    leaves = [("id",), ("user id",), ("at", "x"), ("at", "y"), ("tags", "list", "element"), ("open",)]
    encryption = configuration({"k": ["id", "user id"], "l": ["at", "tags.list.element"], "m": ["at.y"]})
    assert Wrapping(None, Kms().client, encryption).master_keys(leaves) == {
        ("id",): "k",
        ("user id",): "k",
        ("at", "x"): "l",
        ("at", "y"): "m",
        ("tags", "list", "element"): "l",
    }


def test_a_column_that_is_not_there_is_not_passed_over() -> None:
    wrapping = Wrapping(None, Kms().client, configuration({"k": ["id", "nmae"]}))
    with pytest.raises(
        OptionError, match="column_keys names nmae, which is no column of the file; did you mean 'name'"
    ):
        wrapping.master_keys([("id",), ("name",)])


def test_a_column_that_pyarrow_does_not_tell_from_another_is_not_guessed() -> None:
    wrapping = Wrapping(None, Kms().client, configuration({"k": ["user id"]}))
    with pytest.raises(OptionError, match=r"userid may be any of \['user id', 'userid'\]"):
        wrapping.master_keys([("user id",), ("userid",)])
    wrapping = Wrapping(None, Kms().client, configuration({"k": ["city, country"]}))
    with pytest.raises(OptionError, match=r"may mean 'city, country' or \['city', 'country'\]; rename that column"):
        wrapping.master_keys([("city",), ("country",), ("city, country",)])


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_asks_for_itself() -> None:
    kms = Kms()
    key, metadata = Wrapping(None, kms.client, configuration()).new_key("footer", is_footer=True)

    def asked() -> int:
        assert keys(kms).for_file(LocalStorage(), "/a").footer_key(metadata) == key
        return kms.unwrapped()

    assert [asked(), asked()] == [1, 1]
    child = os.fork()
    if child == 0:
        os._exit(asked() + len(kms.connections))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2 + len(kms.connections) + 1
    assert asked() == 1


def test_what_was_used_least_recently_goes_first() -> None:
    cache: expiring.Expiring[str] = expiring.Expiring(2)
    made: list[str] = []

    def make(key: str) -> str:
        made.append(key)
        return key

    for key in "abacabcb":
        assert cache.get(key, timedelta(minutes=1), partial(make, key)) == key
    assert "".join(made) == "abcbc"


def test_what_is_past_its_time_is_not_kept(clock: Clock) -> None:
    class Value:
        """What can be seen to be gone."""

    cache: expiring.Expiring[Value] = expiring.Expiring(100)
    values = [weakref.ref(cache.get(i, timedelta(seconds=10 + i), Value)) for i in range(3)]
    clock.now += 11
    cache.get("another", timedelta(seconds=1), Value)
    gc.collect()
    assert [value() is None for value in values] == [True, True, False]


def test_who_waits_for_one_that_was_interrupted_is_told_and_the_next_asks_again() -> None:
    cache: expiring.Expiring[int] = expiring.Expiring(2, refused_for=timedelta(minutes=1))
    began, told = threading.Event(), threading.Event()

    def interrupted() -> int:
        began.set()
        told.wait(10)
        raise KeyboardInterrupt

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(cache.get, "a", timedelta(minutes=1), interrupted)
        began.wait(10)
        second = pool.submit(cache.get, "a", timedelta(minutes=1), lambda: 2)
        told.set()
        assert isinstance(first.exception(), KeyboardInterrupt)
        assert second.exception() is None or isinstance(second.exception(), EncryptionError)
    assert cache.get("a", timedelta(minutes=1), lambda: 3) in (2, 3)
