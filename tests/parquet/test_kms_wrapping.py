"""New keys that a key management service wraps: pyarrow unwraps them."""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet.encryption as pe
import pytest

import bloomparquet as bp
from bloomparquet.errors import EncryptionError, OptionError, UnsupportedError
from bloomparquet.parquet.encryption.keys.wrapping import KeyWrapper
from bloomparquet.storage.files import LocalStorage
from tests.support.kms import SECRET, Kms, Writer, configuration, full_text, reveals
from tests.support.kms_files import COLUMNS, TABLE, Clock, answering, kms_keys, new_material


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
def test_pyarrow_reads_files_written_with_a_kms(tmp_path: Path, columns: Any, options: dict[str, Any]) -> None:
    kms = Kms()
    path = str(tmp_path / "a.parquet")
    encryption = bp.Encryption.from_kms(None, kms.client, configuration(columns, **options))
    bp.write_table(TABLE, path, bloom={"id": bp.Bloom()}, encryption=encryption)
    assert Writer(kms).read(path).equals(TABLE)
    assert bp.read_table(path, "id = 7", keys=kms_keys(kms)).num_rows == 1
    before = wrapped_keys(path)
    bp.write_table(TABLE, path, encryption=encryption)
    assert len(wrapped_keys(path)) == (3 if columns and "plaintext_footer" in options else 1)
    assert not before & wrapped_keys(path)


def wrapped_keys(path: str) -> set[bytes]:
    """The wrapped keys that stand in a file in plain text."""
    return set(re.findall(rb'"wrappedDEK":"([^"]+)"', Path(path).read_bytes()))


@pytest.mark.parametrize("bits", [128, 192, 256])
@pytest.mark.parametrize("double", [False, True], ids=["single", "double"])
def test_new_keys_are_random_and_of_the_right_size(bits: int, double: bool, clock: Clock) -> None:
    kms = Kms()
    wrapping = KeyWrapper(None, kms.client, configuration(double_wrapping=double, data_key_length_bits=bits))
    made = [wrapping.new_key(name, is_footer=name == "f") for name in ("f", "a", "a", "b", "f")]
    assert {len(key) for key, _ in made} == {bits // 8}
    assert len({key for key, _ in made}) == len({metadata for _, metadata in made}) == 5
    assert kms.wrapped() == (3 if double else 5)
    unwrapper = kms_keys(kms).for_file(LocalStorage(), "/a")
    assert [unwrapper.footer_key(metadata) for _, metadata in made] == [key for key, _ in made]
    assert kms.unwrapped() == (3 if double else 5)
    for key, metadata in made:
        assert not reveals(metadata.decode(), key)
    # A key-encryption key is replaced when its lifetime has passed.
    clock.now += 600
    wrapping.new_key("a", is_footer=False)
    assert kms.wrapped() == (4 if double else 6)


def test_only_the_footers_key_metadata_names_the_kms() -> None:
    kms = Kms()
    named = pe.KmsConnectionConfig(kms_instance_id="eu-1", kms_instance_url="https://kms")
    footer = new_material(KeyWrapper(named, kms.client, configuration()), is_footer=True)
    assert (footer["isFooterKey"], footer["kmsInstanceID"], footer["kmsInstanceURL"]) == (True, "eu-1", "https://kms")
    assert new_material(KeyWrapper(None, kms.client, configuration()), is_footer=True)["kmsInstanceID"] == "DEFAULT"
    column = new_material(KeyWrapper(named, kms.client, configuration()))
    assert sorted(column) == [
        "doubleWrapping", "internalStorage", "isFooterKey", "keyEncryptionKeyID", "keyMaterialType", "masterKeyID",
        "wrappedDEK", "wrappedKEK",
    ]  # fmt: skip


def test_errors_of_wrapping_do_not_show_their_text() -> None:
    kms = Kms(denied={"a"})
    for double in (False, True):
        wrapping = KeyWrapper(None, kms.client, configuration(double_wrapping=double))
        with pytest.raises(EncryptionError, match=r"did not wrap a key with master key 'a': .* PermissionE") as caught:
            wrapping.new_key("a", is_footer=False)
        assert SECRET not in full_text(caught.value)
        kms.denied.clear()
        assert wrapping.new_key("a", is_footer=False)  # errors of wrapping are not cached
        kms.denied.add("a")
    for answer, message in ((b"\xff", "is not text"), (None, "returned a NoneType; expected bytes")):
        with pytest.raises(EncryptionError, match=message):
            KeyWrapper(None, partial(answering, answer), configuration()).new_key("a", is_footer=True)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"internal_key_material": False}, UnsupportedError, "key material in other files is read, but not written"),
        ({"data_key_length_bits": 100}, OptionError, "data_key_length_bits is 100; expected 128, 192 or 256"),
        ({"column_keys": {"k": ["a"]}}, OptionError, "column_keys and uniform_encryption exclude each other"),
        ({"uniform_encryption": False}, OptionError, "column_keys names no column"),
        ({"uniform_encryption": False, "column_keys": {"k": ["a:b"]}}, OptionError, "or one with a comma, colon"),
        ({"uniform_encryption": False, "column_keys": {"k": ["a;b"]}}, OptionError, "or one with a comma, colon"),
        ({"uniform_encryption": False, "column_keys": {"k": []}}, OptionError, "column_keys has an empty name"),
        ({"uniform_encryption": False, "column_keys": {"k": ["a"], "l": ["a"]}}, OptionError, "two master keys for"),
    ],
)
def test_contradictory_configurations_are_rejected(options: Any, error: Any, message: str) -> None:
    encryption = pe.EncryptionConfiguration("footer", **{"uniform_encryption": True, **options})
    with pytest.raises(error, match=message):
        KeyWrapper(None, Kms().client, encryption)


def test_columns_have_the_master_keys_of_their_names() -> None:
    leaves = [("id",), ("user id",), ("at", "x"), ("at", "y"), ("tags", "list", "element"), ("open",)]
    encryption = configuration({"k": ["id", "user id"], "l": ["at", "tags.list.element"], "m": ["at.y"]})
    assert KeyWrapper(None, Kms().client, encryption).master_keys(leaves) == {
        ("id",): "k",
        ("user id",): "k",
        ("at", "x"): "l",
        ("at", "y"): "m",
        ("tags", "list", "element"): "l",
    }


def test_a_missing_column_is_an_error() -> None:
    wrapping = KeyWrapper(None, Kms().client, configuration({"k": ["id", "nmae"]}))
    with pytest.raises(
        OptionError, match="column_keys names nmae, which is not a column of the file; did you mean 'name'"
    ):
        wrapping.master_keys([("id",), ("name",)])


def test_an_ambiguous_column_name_is_an_error() -> None:
    wrapping = KeyWrapper(None, Kms().client, configuration({"k": ["user id"]}))
    with pytest.raises(OptionError, match=r"userid may be any of \['user id', 'userid'\]"):
        wrapping.master_keys([("user id",), ("userid",)])
    wrapping = KeyWrapper(None, Kms().client, configuration({"k": ["city, country"]}))
    with pytest.raises(OptionError, match=r"may mean 'city, country' or \['city', 'country'\]; rename that column"):
        wrapping.master_keys([("city",), ("country",), ("city, country",)])


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_makes_its_own_requests() -> None:
    kms = Kms()
    key, metadata = KeyWrapper(None, kms.client, configuration()).new_key("footer", is_footer=True)

    def requests() -> int:
        assert kms_keys(kms).for_file(LocalStorage(), "/a").footer_key(metadata) == key
        return kms.unwrapped()

    assert [requests(), requests()] == [1, 1]
    child = os.fork()
    if child == 0:
        os._exit(requests() + len(kms.connections))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2 + len(kms.connections) + 1
    assert requests() == 1
