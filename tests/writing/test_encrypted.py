"""Encrypted writes: readers with the keys use the filters, others see nothing; keys, options, and errors that keep the
old file."""

from __future__ import annotations

import copy
import itertools
import os
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

import bloomparquet as bp
from bloomparquet.parquet.encryption import modules as crypto
from bloomparquet.parquet.thrift.definitions import FileMetaData
from bloomparquet.parquet.thrift.reader import read_struct
from bloomparquet.writing import encrypted_writer, encryption
from bloomparquet.writing.encryption import Encryption
from tests.support.encrypted_modules import (
    BLOOM_LENGTH,
    BLOOM_OFFSET,
    TOLD_TO_ALL,
    assert_page_indexes_open,
    bitsets,
    chunk_ids,
    chunks,
    filter_excerpts,
    find_secrets,
    footer_of,
    hashes,
    metadata,
    record_writes,
)
from tests.support.kms import SECRET, Kms, configuration, full_text, reveals
from tests.support.stored import lacking

ROWS, GROUPS = 500, 2
N = ROWS * GROUPS
IDS = np.random.default_rng(7).choice(1 << 50, N, replace=False) * 2
TABLE = pa.table({
    "id": IDS,
    "name": pa.array([f"secret name {i}" if i % 9 else None for i in IDS]),
    "city": pa.array([f"city {i * 7919 % 1009}" for i in range(N)]),
    "st": pa.array([{"x": int(i) ^ 0x5555, "tags": [f"tag {i}", "all"]} for i in IDS]),
})  # fmt: skip
ID, NAME, CITY, X, TAG = range(5)  # leaves
BLOOM = ["id", "name", "city", "st.x"]
FOOTER, FIRST, SECOND = b"the-footer's-key", b"key-of-column-id", b"names'-very-key!"
OWN = {"id": FIRST, "name": SECOND}
"""Keys of columns. The columns city and st are in plain text."""


@dataclass
class Case:
    """A way to encrypt: what writes, what reads, and what pyarrow reads with, if it can."""

    encryption: Encryption | bp.Keys
    keys: bp.Keys
    pyarrow: Any = None
    hidden: tuple[int, ...] = (ID, NAME, CITY, X, TAG)


def explicit(algorithm: str, plaintext_footer: bool, bits: int, *, columns: bool) -> Case:
    footer, own = (FOOTER * 2)[: bits // 8], {name: (key * 2)[: bits // 8] for name, key in OWN.items()}
    keys = bp.Keys(footer, own if columns else None)
    encryption = Encryption(keys, algorithm=algorithm, plaintext_footer=plaintext_footer)
    if columns:
        return Case(encryption, keys, None, (ID, NAME))
    return Case(encryption, keys, pe.create_decryption_properties(footer))


def by_kms(algorithm: str, plaintext_footer: bool, bits: int, *, columns: bool, double: bool) -> Case:
    kms, config = Kms(), pe.KmsConnectionConfig()
    encryption = configuration(
        {"k1": ["id"], "k2": ["name", "st.x"]} if columns else None,
        encryption_algorithm=algorithm,
        plaintext_footer=plaintext_footer,
        double_wrapping=double,
        data_key_length_bits=bits,
    )
    return Case(
        Encryption.from_kms(config, kms.client, encryption),
        bp.Keys.from_kms(config, kms.client),
        pe.CryptoFactory(kms.client).file_decryption_properties(config),
        (ID, NAME, X) if columns else (ID, NAME, CITY, X, TAG),
    )


KINDS = {
    "uniform": lambda *how: explicit(*how, columns=False),
    "columns": lambda *how: explicit(*how, columns=True),
    "kms uniform": lambda *how: by_kms(*how, columns=False, double=True),
    "kms single": lambda *how: by_kms(*how, columns=True, double=False),
    "kms double": lambda *how: by_kms(*how, columns=True, double=True),
}
HOW = [
    pytest.param(kind, ("AES_GCM_V1", "AES_GCM_CTR_V1")[i % 2], plaintext, 128 << i // 2 % 2, id=f"{kind}-{plaintext}")
    for i, (kind, plaintext) in enumerate(itertools.product(KINDS, (False, True)))
]
"""Each kind with an encrypted and with a plaintext footer, each algorithm, and each length of keys."""


def write(path: Path, case: Case | None, table: pa.Table = TABLE, **options: Any) -> str:
    options = {"bloom": BLOOM, "row_group_size": ROWS, "compression": "none", "use_dictionary": ["city"]} | options
    bp.write_table(table, path, encryption=None if case is None else case.encryption, **options)
    return str(path)


@pytest.mark.parametrize(("kind", "algorithm", "plaintext_footer", "bits"), HOW)
def test_with_the_keys_all_rows_and_filters_are_read(
    tmp_path: Path, kind: str, algorithm: str, plaintext_footer: bool, bits: int
) -> None:
    case = KINDS[kind](algorithm, plaintext_footer, bits)
    path, twin = write(tmp_path / "a.parquet", case), write(tmp_path / "plain.parquet", None)
    assert bp.read_table(path, keys=case.keys).equals(TABLE)
    if case.pyarrow is not None:
        assert pq.read_table(path, decryption_properties=case.pyarrow).equals(TABLE)
        # With a plaintext footer, pyarrow does not decrypt the metadata of columns with the footer key.
        known = pq.read_metadata(path, decryption_properties=case.pyarrow).row_group(1).column(ID)
        there = (known.bloom_filter_offset, known.bloom_filter_length)
        told = tuple(metadata(path, case.keys)[1, ID][field] for field in (BLOOM_OFFSET, BLOOM_LENGTH))
        assert there == ((None, None) if kind == "uniform" and plaintext_footer else told)
    filters, plain = bitsets(path, case.keys), bitsets(twin, None)
    assert filters == plain, "the filters are those of a file in plain text"
    for (row_group, leaf), bitset in filters.items():
        assert not lacking(bitset, hashes(TABLE, row_group, ROWS)[leaf])
    for row in bp.inspect(path, keys=case.keys).to_pylist():
        assert row["bytes"] == len(filters[row["row_group"], BLOOM.index(row["column"])])
    for i in (0, ROWS - 1, ROWS, N - 1):
        probe = bp.probe(path, column="id", value=int(IDS[i]), keys=case.keys)[i // ROWS]
        assert probe.verdict is bp.Verdict.MIGHT_MATCH
        assert bp.read_table(path, f"id = {IDS[i]}", keys=case.keys).num_rows == 1
    absent = IDS[:25] + 1
    skipped = [bp.plan(path, f"id = {i}", keys=case.keys).skipped.get("bloom", 0) for i in absent]
    assert sum(skipped) >= 0.9 * GROUPS * len(absent)


@pytest.mark.parametrize("plaintext_footer", [False, True])
@pytest.mark.parametrize("kind", ["uniform", "columns", "kms double"])
def test_encrypted_columns_are_never_written_in_plain_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, plaintext_footer: bool
) -> None:
    case = KINDS[kind]("AES_GCM_CTR_V1", plaintext_footer, 128)
    options: dict[str, Any] = {"write_page_index": True, "data_page_size": 1_000, "use_dictionary": False}
    plain = Path(write(tmp_path / "plain.parquet", None, **options)).read_bytes()
    output = record_writes(monkeypatch)
    path = write(tmp_path / "a.parquet", case, **options)
    told = b"".join(output) + Path(path).read_bytes()
    filters = bitsets(path, case.keys)
    secrets = {
        ID: [int(i).to_bytes(8, "little") for i in IDS],
        NAME: [f"secret name {i}".encode() for i in IDS if i % 9],
        CITY: [b"city 5"],
        X: [(int(i) ^ 0x5555).to_bytes(8, "little") for i in IDS],
        TAG: [b"tag 1"],
    }
    for leaf, values in secrets.items():
        bitsets_of_leaf = [bitset for chunk_id, bitset in filters.items() if chunk_id[1] == leaf]
        encrypted = [window for bitset in bitsets_of_leaf for window in filter_excerpts(bitset)]
        assert find_secrets(plain, values) == values
        assert find_secrets(plain, encrypted) == encrypted
        if leaf in case.hidden:
            assert find_secrets(told, [*values, *encrypted]) == []
        else:
            assert find_secrets(told, values) == values, "what nobody asked to encrypt is not"
            assert find_secrets(told, encrypted) == encrypted


@pytest.mark.parametrize("plaintext_footer", [False, True])
@pytest.mark.parametrize("kind", ["uniform", "columns"])
def test_footer_equals_that_of_a_plaintext_file(tmp_path: Path, kind: str, plaintext_footer: bool) -> None:
    case = KINDS[kind]("AES_GCM_V1", plaintext_footer, 128)
    table = TABLE.replace_schema_metadata({"mine": "kept"})
    options = {"sorting_columns": [pq.SortingColumn(2)], "write_page_index": True}
    path, twin = write(tmp_path / "a", case, table, **options), write(tmp_path / "b", None, table, **options)
    ours, _ = read_struct(footer_of(path, case.keys).raw, FileMetaData)
    theirs, _ = read_struct(footer_of(twin, None).raw, FileMetaData)
    assert (8 in ours) == plaintext_footer
    data = Path(path).read_bytes()
    assert data[:4] == data[-4:] == (b"PAR1" if plaintext_footer else b"PARE")
    start = 4
    for ordinal, (group, other) in enumerate(zip(ours[4], theirs[4], strict=True)):
        assert (group[5], group[7]) == (start, ordinal)
        for field, total in ((7, 6), (6, 2)):
            assert group[total] == sum(metadata(path, case.keys)[ordinal, leaf][field] for leaf in range(5))
        start += group[6]
        for tree in (group, other):
            for field in (1, 2, 5, 6, 7):
                tree.drop(field)
        assert group == other
    for tree in (ours, theirs):
        for field in (4, 8, 9):
            tree.drop(field)
    assert ours == theirs
    for chunk_id, actual in metadata(path, case.keys).items():
        expected = metadata(twin, None)[chunk_id]
        is_separate = 8 in chunks(path, case.keys)[chunk_id]
        assert (actual[6] - expected[6] >= 32, actual[7] - expected[7] >= 64) == (is_separate, is_separate)
        if kind == "columns" and not plaintext_footer:
            assert (3 in chunks(path, case.keys)[chunk_id]) != is_separate
        for tree in (actual, expected):
            for field in (6, 7, 9, 11, 14, 15):
                tree.drop(field)
        assert actual == expected


@pytest.mark.parametrize("kind", KINDS)
def test_plaintext_footer_has_no_statistics_of_encrypted_columns(tmp_path: Path, kind: str) -> None:
    case = KINDS[kind]("AES_GCM_V1", True, 128)
    path = write(tmp_path / "a.parquet", case)
    if Path(path).read_bytes()[-4:] == b"PARE":
        assert kind == "kms uniform", "as pyarrow has it"
        return
    for chunk_id, chunk in chunks(path, None).items():
        if chunk_id[1] in case.hidden:
            assert {8, 9, 3} <= set(chunk)
            assert set(chunk[3]) <= TOLD_TO_ALL
            whole = metadata(path, case.keys)[chunk_id]
            assert {field: whole[field] for field in chunk[3]} == dict(chunk[3])
            assert 12 in whole
        else:
            assert 12 in chunk[3]
            assert not {8, 9} & set(chunk)


@pytest.mark.parametrize("algorithm", ["AES_GCM_V1", "AES_GCM_CTR_V1"])
@pytest.mark.parametrize("dictionary", [False, True])
def test_page_indexes_point_to_the_pages(tmp_path: Path, algorithm: str, dictionary: bool) -> None:
    case = KINDS["columns"](algorithm, False, 128)
    options = {"write_page_index": True, "data_page_size": 1_000, "use_dictionary": dictionary, "write_batch_size": 64}
    path = write(tmp_path / "a.parquet", case, write_page_checksum=True, **options)
    assert assert_page_indexes_open(path, case.keys) >= 20
    assert bp.read_table(path, keys=case.keys).equals(TABLE)


@pytest.mark.filterwarnings("ignore:the Bloom filters of column")
def test_outcome_equals_that_of_a_plaintext_file(tmp_path: Path) -> None:
    keys = bp.Keys(FOOTER)
    table = TABLE.append_column("row", pa.array(range(N)))
    for bloom in ("*", ["*", "city"], {"id": bp.Bloom(0.2), "st.tags.list.element": bp.Bloom(0.01, ndv=5_000)}):
        options: dict[str, Any] = {"bloom": bloom, "row_group_size": ROWS}
        outcomes = [bp.write_table(table, tmp_path / f"{each}", encryption=each, **options) for each in (None, keys)]
        assert "row" not in {column.column for column in outcomes[1].columns}
        assert outcomes[0].columns == outcomes[1].columns
        assert outcomes[1].filters >= 2
        assert outcomes[1].action == "written"
        assert outcomes[1].bytes_after == (tmp_path / f"{keys}").stat().st_size
        assert bitsets(tmp_path / f"{keys}", keys) == bitsets(tmp_path / "None", None)


def test_empty_tables_and_columns_with_equal_names_are_encrypted(tmp_path: Path) -> None:
    case = KINDS["kms single"]("AES_GCM_V1", False, 128)
    for rows in (0, 1):
        path = write(tmp_path / "a.parquet", case, TABLE.slice(0, rows))
        assert pq.read_table(path, decryption_properties=case.pyarrow).equals(TABLE.slice(0, rows))
        assert bp.read_table(path, keys=case.keys).equals(TABLE.slice(0, rows))
    twice = pa.table([TABLE["id"], TABLE["name"], TABLE["id"], TABLE["st"]], names=["id", "name", "id", "st"])
    path = write(tmp_path / "a.parquet", case, twice, bloom="name")
    assert find_secrets(Path(path).read_bytes(), [int(i).to_bytes(8, "little") for i in IDS]) == []
    sums = [footer_of(path, case.keys).read_chunk_with_cipher(0, leaf)[0].max_value for leaf in (0, 2)]
    assert sums == [int(max(IDS[:ROWS])).to_bytes(8, "little")] * 2


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
    assert all(footer.crypto is not None for footer in both)
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
