"""Keys from a key management service: files of pyarrow are read with the same configuration, and few requests."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet.encryption as pe
import pytest

import bloomparquet as bp
from bloomparquet.errors import EncryptionError, OptionError
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.parquet.encryption.keys import material as key_material
from bloomparquet.parquet.encryption.keys.wrapping import KeyWrapper
from bloomparquet.storage.files import LocalStorage
from tests.support.kms import SECRET, Kms, Writer, configuration, full_text, reveals
from tests.support.kms_files import COLUMNS, TABLE, Clock, answering, kms_keys, material_path, new_material


@pytest.mark.parametrize("bits", [128, 192, 256])
@pytest.mark.parametrize("double", [False, True], ids=["single", "double"])
@pytest.mark.parametrize("columns", [COLUMNS, None], ids=["columns", "uniform"])
@pytest.mark.parametrize("options", [{}, {"plaintext_footer": True}, {"internal_key_material": False}], ids=str)
def test_files_of_pyarrow_are_read_with_its_configuration(
    tmp_path: Path, bits: int, double: bool, columns: Any, options: dict[str, Any]
) -> None:
    kms = Kms()
    how = configuration(columns, data_key_length_bits=bits, double_wrapping=double, **options)
    path = Writer(kms).write(TABLE, tmp_path / "a.parquet", how)
    assert material_path(path).exists() == ("internal_key_material" in options)
    assert bp.read_table(path, keys=kms_keys(kms)).equals(TABLE)
    assert bp.read_table(path, "id = 3 OR name = 'n70'", keys=kms_keys(kms)).num_rows == 2
    # One request for each of the file's keys.
    assert kms.unwrapped() == (3 if columns else 1)


def test_one_request_unwraps_a_key_encryption_key_for_all_files(tmp_path: Path) -> None:
    kms = Kms()
    writer = Writer(kms)
    for i in range(40):
        writer.write(TABLE, tmp_path / f"{i}.parquet", configuration(COLUMNS))
    assert kms.wrapped() == 3
    # Equal configurations share unwrapped keys: a provider may make one for each query.
    assert bp.plan(str(tmp_path), "id = 5 AND name = 'n5'", keys=kms_keys(kms)).kept == 40
    assert bp.read_table(str(tmp_path), "id = 5", keys=kms_keys(kms)).num_rows == 40
    assert kms.unwrapped() == 3
    assert len(kms.connections) == 2  # pyarrow's client, and one of ours


def test_one_of_many_threads_makes_the_request(tmp_path: Path) -> None:
    kms = Kms()
    writer = Writer(kms)
    paths = [writer.write(TABLE, tmp_path / f"{i}.parquet", configuration()) for i in range(8)]
    waiting = threading.Barrier(8)
    original, asked = kms.cipher, threading.Event()

    def slow(verb: str, name: str) -> Any:
        asked.wait(0.2)  # the other threads arrive meanwhile
        return original(verb, name)

    kms.cipher = slow  # type: ignore[method-assign]

    def read(path: str) -> int:
        waiting.wait()
        return len(bp.read_table(path, keys=kms_keys(kms)))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(read, paths)) == [100] * 8
    assert kms.calls["unwrap", "footer"] == 1


def test_unwrapped_keys_are_cached_for_their_lifetime(tmp_path: Path, clock: Clock) -> None:
    kms = Kms()
    writer = Writer(kms)
    paths = iter([writer.write(TABLE, tmp_path / f"{i}.parquet", configuration()) for i in range(5)])

    def unwrapped_by(lifetime: timedelta) -> int:
        bp.inspect(next(paths), keys=kms_keys(kms, cache_lifetime=lifetime))
        return kms.unwrapped()

    assert unwrapped_by(timedelta(minutes=10)) == 1
    clock.now += 599
    assert unwrapped_by(timedelta(minutes=10)) == 1
    clock.now += 1
    assert unwrapped_by(timedelta(minutes=10)) == 2
    clock.now += 60
    assert unwrapped_by(timedelta(minutes=1)) == 3
    assert unwrapped_by(timedelta(0)) == 4
    assert len(kms.connections) == 5  # clients too: pyarrow's, and one for each request


@pytest.mark.filterwarnings("ignore:.*could not be retrieved")
def test_a_denied_key_keeps_row_groups_and_is_requested_once(tmp_path: Path, clock: Clock) -> None:
    kms = Kms()
    writer = Writer(kms)
    for i in range(20):
        writer.write(TABLE, tmp_path / f"{i}.parquet", configuration(COLUMNS), row_group_size=50)
    kms.denied.add("of_ids")
    plan = bp.plan(str(tmp_path), "id = 1000", keys=kms_keys(kms))
    assert (plan.kept, plan.total) == (40, 40)
    assert kms.calls["unwrap", "of_ids"] == 1
    refused = "the key of column id could not be retrieved: the KMS did not unwrap a key with master key 'of_ids': "
    with pytest.raises(EncryptionError, match=refused + "_Client.unwrap_key raised PermissionError") as caught:
        bp.read_table(str(tmp_path), "id = 1000", keys=kms_keys(kms))
    assert SECRET not in full_text(caught.value)
    assert not reveals(full_text(caught.value), *kms.master_keys.values())
    assert kms.calls["unwrap", "of_ids"] == 1
    # Other columns can be read. The column can be read when the key is granted.
    assert bp.read_table(str(tmp_path), columns=["name", "open"], keys=kms_keys(kms)).num_rows == 2000
    kms.denied.clear()
    clock.now += 2
    assert bp.plan(str(tmp_path), "id = 1000", keys=kms_keys(kms)).kept == 0
    assert kms.calls["unwrap", "of_ids"] == 2


def test_the_instance_is_the_configurations_or_the_footers(tmp_path: Path) -> None:
    kms = Kms()
    writer = Writer(kms, kms_instance_id="eu-1", kms_instance_url="https://kms.eu-1")
    paths = [
        writer.write(TABLE, tmp_path / f"{inside}.parquet", configuration(COLUMNS, internal_key_material=inside))
        for inside in (True, False)
    ]

    def instance(path: str, *, read_kms_url: bool = False, **connection: Any) -> tuple[str, str]:
        options = {"cache_lifetime": timedelta(0), "read_kms_url": read_kms_url}
        keys = Keys.from_kms(pe.KmsConnectionConfig(**connection), kms.client, **options)
        assert bp.read_table(path, keys=keys).equals(TABLE)
        return kms.connections[-1][:2]

    for path in paths:
        assert instance(path) == ("eu-1", "DEFAULT")
        assert instance(path, kms_instance_id="us-1") == ("us-1", "DEFAULT")
        assert instance(path, kms_instance_url="https://mine") == ("eu-1", "https://mine")
        assert instance(path, read_kms_url=True) == ("eu-1", "https://kms.eu-1")
    unnamed = Writer(kms).write(TABLE, tmp_path / "default.parquet", configuration(COLUMNS))
    custom = {"custom_kms_conf": {"region": "x", "role": "y"}, "key_access_token": "t"}
    assert instance(unnamed, **custom) == ("DEFAULT", "DEFAULT")
    assert kms.connections[-1][2:] == ("t", {"region": "x", "role": "y"})


def test_column_key_metadata_names_no_instance(tmp_path: Path) -> None:
    kms = Kms()
    path = Writer(kms).write(TABLE, tmp_path / "a.parquet", configuration(COLUMNS))
    unwrapper = kms_keys(kms).for_file(LocalStorage(), path)
    metadata = json.dumps(new_material(KeyWrapper(None, kms.client, configuration()), "of_ids")).encode()
    with pytest.raises(EncryptionError, match="neither the file nor the configuration names the KMS instance"):
        unwrapper.column_key(("id",), metadata)
    named = Keys.from_kms(pe.KmsConnectionConfig(kms_instance_id="x"), kms.client)
    assert named.for_file(LocalStorage(), path).column_key(("id",), metadata)


def test_a_refreshed_token_is_used(tmp_path: Path) -> None:
    kms = Kms()
    writer = Writer(kms)
    paths = [writer.write(TABLE, tmp_path / f"{i}.parquet", configuration()) for i in range(3)]
    config = pe.KmsConnectionConfig(key_access_token="first")
    keys = Keys.from_kms(config, kms.client)
    before = hash(keys)
    bp.inspect(paths[0], keys=keys)
    bp.inspect(paths[1], keys=keys)
    assert (kms.connections[-1][2], kms.unwrapped()) == ("first", 1)
    config.refresh_key_access_token("second")
    bp.inspect(paths[2], keys=keys)
    # Keys that were unwrapped with one token are not reused with another.
    assert (kms.connections[-1][2], kms.unwrapped()) == ("second", 2)
    assert hash(keys) == before


def test_equal_configurations_make_equal_keys() -> None:
    kms = Kms()

    def made(factory: Any = kms.client, **connection: Any) -> Keys:
        return Keys.from_kms(pe.KmsConnectionConfig(**connection), factory)

    same = {"kms_instance_id": "a", "key_access_token": "t", "custom_kms_conf": {"x": "1", "y": "2"}}
    again = {**same, "custom_kms_conf": {"y": "2", "x": "1"}}
    assert made(**same) == made(**again)
    assert hash(made(**same)) == hash(made(**again))
    assert made() == Keys.from_kms(None, kms.client)
    for other in ({"key_access_token": "u"}, {"kms_instance_url": "b"}, {"custom_kms_conf": {"x": "1"}}):
        assert made(**same) != made(**{**same, **other})
    assert made(**same) != made(Kms().client, **same)
    for options in ({"cache_lifetime": timedelta(1)}, {"read_kms_url": True}, {"aad_prefix": b"p"}):
        assert made() != kms_keys(kms, **options)


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
def test_a_configuration_of_the_wrong_type_is_rejected(arguments: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Keys.from_kms(*arguments)
    config, factory = arguments
    with pytest.raises(OptionError, match=message):
        KeyWrapper(config, factory, configuration())


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
        (partial(answering, None), "StrangeClient.unwrap_key returned a NoneType; expected bytes"),
        (partial(answering, b"short"), "what the KMS unwrapped with master key 'm' has 5 bytes; expected 16, 24 or 32"),
        (partial(answering, "\udc80" * 16), "StrangeClient.unwrap_key raised UnicodeEncodeError"),
    ],
)
def test_errors_of_clients_do_not_show_their_text(factory: Any, message: str) -> None:
    metadata = key_material.KeyMaterial("m", "wrapped", None, True, "i", "u").to_json()
    unwrapper = Keys.from_kms(None, factory).for_file(LocalStorage(), "/a")
    for _ in range(2):  # requested, and cached
        with pytest.raises(EncryptionError, match=message) as caught:
            unwrapper.footer_key(metadata)
        assert SECRET not in full_text(caught.value)
