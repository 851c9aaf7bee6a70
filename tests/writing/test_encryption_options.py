"""Keys and options of encrypted writes, and what fails: the old file stays, and no key is shown."""

from __future__ import annotations

import copy
import os
import pickle
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

import bloomparquet as bp
from bloomparquet.parquet.encryption import modules as crypto
from bloomparquet.writing import encrypted_writer, encryption
from bloomparquet.writing.encryption import Encryption
from tests.support.encrypted_modules import chunk_ids, footer_of
from tests.support.encrypted_writes import FIRST, FOOTER, KINDS, ROWS, SECOND, TABLE, write
from tests.support.kms import SECRET, Kms, configuration, full_text, reveals


@pytest.mark.parametrize("stored", [True, False])
def test_aad_prefix_is_stored_or_required(tmp_path: Path, stored: bool) -> None:
    path, keys = tmp_path / "a.parquet", bp.Keys(FOOTER, aad_prefix=b"table one")
    bp.write_table(TABLE, path, bloom="id", encryption=Encryption(keys, store_aad_prefix=stored))
    assert (b"table one" in path.read_bytes()) == stored
    assert len(bp.inspect(str(path), keys=keys)) == 1
    known = pe.create_decryption_properties(FOOTER, aad_prefix=b"table one")
    assert pq.read_table(path, decryption_properties=known).equals(TABLE)
    for other in (bp.Keys(FOOTER, aad_prefix=b"table two"), *([] if stored else [bp.Keys(FOOTER)])):
        with pytest.raises(bp.EncryptionError, match="aad_prefix"):
            bp.inspect(str(path), keys=other)


def test_key_metadata_is_passed_to_retrievers(tmp_path: Path) -> None:
    keys = bp.Keys(FOOTER, {"id": FIRST, "st": SECOND})
    said = {"footer_key_metadata": b"f", "column_key_metadata": {"id": b"one", "st": b"two"}}
    for plaintext in (False, True):
        path = str(tmp_path / f"{plaintext}.parquet")
        bp.write_table(TABLE, path, bloom="st.x", encryption=Encryption(keys, plaintext_footer=plaintext, **said))
        asked: list[bytes] = []

        def retrieve(metadata: bytes, asked: list[bytes] = asked) -> bytes:
            asked.append(metadata)
            return {b"f": FOOTER, b"one": FIRST, b"two": SECOND}[metadata]

        assert bp.read_table(path, keys=bp.Keys(retriever=retrieve)).equals(TABLE)
        assert set(asked) == {b"f", b"one", b"two"}


def test_kms_makes_new_keys_for_each_file(tmp_path: Path) -> None:
    case = KINDS["kms double"]("AES_GCM_V1", False, 128)
    paths = [write(tmp_path / name, case) for name in ("a", "b")]
    both = [footer_of(path, case.keys) for path in paths]
    assert both[0].crypto is not None
    assert both[1].crypto is not None
    assert both[0].crypto.footer_metadata != both[1].crypto.footer_metadata
    for chunk_id in chunk_ids(both[0]):
        one, other = (footer._stored(*chunk_id).key_metadata for footer in both)
        assert (one is None and other is None) or one != other
    assert both[0].crypto.algorithm.file_unique != both[1].crypto.algorithm.file_unique


def test_kms_error_leaves_the_old_file(tmp_path: Path) -> None:
    kms, path = Kms(denied={"k1"}), tmp_path / "a.parquet"
    path.write_bytes(b"old")
    encryption = Encryption.from_kms(pe.KmsConnectionConfig(), kms.client, configuration({"k1": ["id"]}))
    with pytest.raises(bp.EncryptionError, match=r"a.parquet: the file is not written: .*'k1'") as caught:
        bp.write_table(TABLE, path, encryption=encryption)
    assert SECRET not in full_text(caught.value)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.parquet"]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"encryption": bp.Keys(None, {"id": FIRST})}, bp.OptionError, "keys with a footer key"),
        ({"encryption": FOOTER}, bp.OptionError, "expected bloomparquet.Encryption or bloomparquet.Keys"),
        ({"encryption": bp.Keys(FOOTER, {"nam": FIRST})}, bp.PlanError, "name a column 'nam'.* did you mean 'name'"),
        ({"encryption": bp.Keys(FOOTER, {("st", "y"): FIRST})}, bp.PlanError, r"name a column 'st.y', which the file"),
        ({"encryption": bp.Keys(FOOTER), "data_page_version": "2.0"}, bp.OptionError, "leave it at 1.0"),
        ({"encryption_properties": None}, bp.OptionError, "use encryption=, a bloomparquet.Encryption"),
    ],
)
def test_unsupported_input_is_an_error_and_keeps_the_old_file(
    tmp_path: Path, given: dict[str, Any], error: type[Exception], message: str
) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"old")
    with pytest.raises(error, match=message) as caught:
        bp.write_table(TABLE, path, bloom="id", **given)
    assert reveals(full_text(caught.value), FOOTER, FIRST) == []
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.parquet"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "AES_GCM_V2"}, "'AES_GCM_V2'; expected AES_GCM_V1 or AES_GCM_CTR_V1"),
        ({"store_aad_prefix": False}, "needs keys with an aad_prefix"),
        ({"keys": bp.Keys(FOOTER, aad_prefix=b"")}, "aad_prefix of the keys is empty"),
        ({"keys": FOOTER}, "keys of an encryption are a bytes"),
        ({"column_key_metadata": {"name": b"x"}}, "has 'name', but the keys have no column of that name"),
        ({"footer_key_metadata": "text"}, "metadata of the footer is a str"),
        ({"column_key_metadata": {"id": 3}}, "metadata of id is a int"),
    ],
)
def test_contradicting_encryption_options_are_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(bp.OptionError, match=message):
        Encryption(**{"keys": bp.Keys(FOOTER, {"id": FIRST}), **options})


def test_keys_are_not_shown_and_not_pickled() -> None:
    for make in KINDS.values():
        encryption = make("AES_GCM_V1", True, 128).encryption
        assert reveals(repr(encryption) + str(encryption), FOOTER, FIRST, SECOND) == []
        assert "Encryption(" in repr(encryption)
        assert copy.deepcopy(encryption) is copy.copy(encryption) is encryption
        with pytest.raises(TypeError, match="not pickled"):
            pickle.dumps(encryption)


def test_too_many_row_groups_or_columns_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"old")
    monkeypatch.setattr(encrypted_writer, "MAX_ORDINAL", 2)
    bp.write_table(TABLE, tmp_path / "b.parquet", row_group_size=ROWS, encryption=bp.Keys(FOOTER))
    with pytest.raises(bp.EncryptionError, match="at most 2 row groups"):
        bp.write_table(TABLE, path, row_group_size=ROWS - 1, encryption=bp.Keys(FOOTER))
    monkeypatch.setattr(encryption, "MAX_ORDINAL", 4)
    with pytest.raises(bp.EncryptionError, match="has 5 columns; an encrypted file has at most 4"):
        bp.write_table(TABLE, path, encryption=bp.Keys(FOOTER))
    assert crypto.MAX_ORDINAL == 32_767
    monkeypatch.undo()
    monkeypatch.setattr(crypto, "MAX_ORDINAL", 5)
    pages = {"data_page_size": 10, "write_batch_size": 10, "use_dictionary": False}
    with pytest.raises(bp.EncryptionError, match=r"a.parquet: row group 0, column id: .*page"):
        bp.write_table(TABLE, path, encryption=bp.Keys(FOOTER), **pages)
    assert path.read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["a.parquet", "b.parquet"]
