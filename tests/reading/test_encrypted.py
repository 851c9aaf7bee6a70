"""Encrypted files have the rows of the same files in plain text. Only the keys of the columns that are read matter."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

import bloomparquet as bp
from bloomparquet.parquet.pages.decrypted_row_group import DecryptedRowGroups
from bloomparquet.storage.files import ReadCount
from tests.support.encrypted import COLUMNS, FOOTER_KEY, LAYOUTS, ROWS, TABLE, Secret, open_file


@pytest.fixture
def secret(tmp_path: Path) -> Secret:
    return Secret(tmp_path)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("plaintext_footer", [False, True], ids=["encrypted footer", "plaintext footer"])
@pytest.mark.parametrize("algorithm", ["AES_GCM_V1", "AES_GCM_CTR_V1"])
def test_all_rows_of_all_types_are_read(secret: Secret, algorithm: str, plaintext_footer: bool, layout: str) -> None:
    encryption: dict[str, Any] = {"encryption_algorithm": algorithm, "plaintext_footer": plaintext_footer}
    bits = {"data_key_length_bits": (128, 192, 256)[list(LAYOUTS).index(layout) % 3]}
    secret.write(TABLE, COLUMNS, **encryption, **bits, **LAYOUTS[layout])
    expected = bp.read_table(secret.plain)
    assert_same(bp.read_table(secret.path, keys=secret.keys()), expected)
    key = os.urandom(bits["data_key_length_bits"] // 8)
    secret.write_uniform(TABLE, key, **encryption, **LAYOUTS[layout])
    assert_same(bp.read_table(secret.path, keys=bp.Keys(key)), expected)


def same_values(one: pa.Table, other: pa.Table) -> bool:
    """Whatever the dictionaries: each row group of the encrypted file is read apart."""
    return one.unify_dictionaries().equals(other.unify_dictionaries())


def assert_same(result: pa.Table, expected: pa.Table) -> None:
    assert result.num_rows == ROWS
    assert same_values(result, expected)
    assert result.schema.equals(expected.schema, check_metadata=True)


@pytest.mark.parametrize("encoding", ["DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT", "PLAIN"])
def test_predicates_and_columns_work_as_in_plain_files(secret: Secret, encoding: str) -> None:
    secret.write(TABLE, COLUMNS, row_group_size=300, use_dictionary=False, column_encoding={"id": encoding})
    where, columns = "id IN (7, 650, 5000) OR struct.b.c = '11' OR word = 'word 3' AND id > 1100", ["list", "id"]
    for chosen in (columns, [], None):
        result = bp.read_table(secret.path, where, columns=chosen, keys=secret.keys())
        assert same_values(result, bp.read_table(secret.plain, where, columns=chosen))
        assert result.num_rows == 4
    batches = list(bp.scan_batches(secret.path, "id < 400", columns=["word"], keys=secret.keys()))
    assert pa.Table.from_batches(batches)["word"].to_pylist() == TABLE["word"].to_pylist()[:400]


def test_empty_row_groups_and_files(secret: Secret) -> None:
    properties = pe.create_encryption_properties(FOOTER_KEY)
    some = TABLE.slice(0, 5)
    with pq.ParquetWriter(secret.path, TABLE.schema, encryption_properties=properties) as writer:
        for part in (TABLE.slice(0, 0), some, TABLE.slice(0, 0)):
            writer.write_table(part)
    _, footer = open_file(secret.path, bp.Keys(FOOTER_KEY))
    assert footer.rows == (0, 5, 0)
    assert bp.read_table(secret.path, keys=bp.Keys(FOOTER_KEY)).equals(some)
    secret.write_uniform(TABLE.slice(0, 0))
    assert bp.read_table(secret.path, keys=bp.Keys(FOOTER_KEY)).equals(TABLE.slice(0, 0))


def test_encrypted_files_are_read_from_any_storage(secret: Secret, tmp_path: Path) -> None:
    secret.write_uniform(TABLE, row_group_size=500)
    filesystem = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    result = bp.read_table(secret.path.name, filesystem=filesystem, keys=bp.Keys(FOOTER_KEY))
    assert_same(result, bp.read_table(secret.plain))


def test_encrypted_and_plain_files_make_one_table(secret: Secret, tmp_path: Path) -> None:
    secret.write(TABLE, COLUMNS, plaintext_footer=True, row_group_size=500)
    twice = pa.concat_tables([TABLE, TABLE])
    assert bp.read_table(tmp_path, keys=secret.keys()).equals(twice)
    where = "id = 700 OR random = 12"
    assert bp.read_table(tmp_path, where, keys=secret.keys())["id"].to_pylist() == [700, 700]


def test_an_aad_prefix_that_is_not_stored_in_the_file(secret: Secret) -> None:
    secret.write_uniform(TABLE, aad_prefix=b"visits", store_aad_prefix=False)
    result = bp.read_table(secret.path, keys=bp.Keys(FOOTER_KEY, aad_prefix=b"visits"))
    assert_same(result, bp.read_table(secret.plain))


def test_only_the_requested_columns_are_fetched(secret: Secret) -> None:
    secret.write_uniform(TABLE, row_group_size=600, use_dictionary=False, compression="none")
    storage, footer = open_file(secret.path, bp.Keys(FOOTER_KEY))
    count = ReadCount()
    image = DecryptedRowGroups(storage, str(secret.path), footer, ["random"]).read(1, count)
    leaf = next(leaf for leaf in footer.profile.schema.leaves if leaf.path == ("random",))
    assert count == ReadCount(1, footer.read_chunk(1, leaf.index).compressed_size or 0)
    assert 8 * 600 < image.data.size < count.bytes < 9 * 600


SCRIPT = """
import sys
import pyarrow.parquet.encryption as pe
import bloomparquet as bp
from tests.support.kms import Kms

path, footer, k1 = sys.argv[1:]
kms = Kms(denied={"k2"}, master_keys={"footer": bytes.fromhex(footer), "k1": bytes.fromhex(k1)})
keys = bp.Keys.from_kms(pe.KmsConnectionConfig(), kms.client)
columns = ["id", "category", "list", "amount", "nothing"]
result = bp.read_table(path, "id >= 1198", columns=columns, keys=keys)
print(result["id"].to_pylist(), result["category"].to_pylist(), result["list"].to_pylist())
for name in ("word", "struct", "map"):
    for question in ({"columns": [name]}, {"where": f"{name} IS NULL", "columns": ["id"]}):
        try:
            print(bp.read_table(path, keys=keys, **question))
        except bp.EncryptionError as error:
            print("closed", name, "row group 0, column " + name in str(error), "k2" in str(error))
"""


def test_a_missing_key_is_an_error_only_if_the_column_is_read(secret: Secret) -> None:
    """In a subprocess: pyarrow would abort on metadata of a column whose key is missing."""
    secret.write(TABLE, COLUMNS, row_group_size=500)
    masters = [secret.kms.master_keys[name].hex() for name in ("footer", "k1")]
    command = [sys.executable, "-c", SCRIPT, str(secret.path), *masters]
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(root / "python"), str(root)))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = TABLE.slice(1198).select(["id", "category", "list"]).to_pydict()
    closed = [f"closed {name} True True" for name in ("word", "struct", "map") for _ in range(2)]
    assert done.stdout.splitlines() == [" ".join(map(str, rows.values())), *closed]


def test_the_error_names_the_missing_key_and_the_remedy(secret: Secret) -> None:
    secret.write(TABLE, COLUMNS, plaintext_footer=True)
    with pytest.raises(
        bp.EncryptionError, match=r"secret\.parquet: row group 0, column id: .*pass it in keys"
    ) as caught:
        bp.read_table(secret.path, columns=["id"])
    assert "key of column id is not given" in str(caught.value)
    assert bp.read_table(secret.path, columns=["amount"]).equals(TABLE.select(["amount"]))


PARQUET_TESTING = {
    "encrypt_columns_and_footer_bloom_filter": bp.Keys(
        FOOTER_KEY, {"double_field": b"1234567890123450", "float_field": b"1234567890123451"}
    ),
    "encrypt_columns_plaintext_footer": bp.Keys(
        columns={"double_field": b"1234567890123450", "float_field": b"1234567890123451"}
    ),
    "uniform_encryption": bp.Keys(FOOTER_KEY),
}


@pytest.mark.parametrize("name", PARQUET_TESTING)
def test_files_by_other_implementations_are_read(name: str, parquet_testing_dir: Path) -> None:
    """Arrow wrote two. parquet-java wrote the one with filters; it encrypts page headers with trailing zeros."""
    result = bp.read_table(parquet_testing_dir / f"{name}.parquet.encrypted", keys=PARQUET_TESTING[name])
    if name.endswith("bloom_filter"):
        expected: dict[str, Sequence[Any]] = {
            "double_field": [i + 0.5 for i in range(2000)],
            "float_field": [i + 0.25 for i in range(2000)],
            "int32_field": range(2000),
            "name": [f"name_{i}" for i in range(2000)],
        }
    else:
        expected = {
            "boolean_field": [i % 2 == 0 for i in range(50)],
            "int64_field": [[2 * i * 10**12, (2 * i + 1) * 10**12] for i in range(50)],
            "float_field": [float(np.float32(i) * np.float32(1.1)) for i in range(50)],
            "double_field": [i * 1.1111111 for i in range(50)],
            "ba_field": [None if i % 2 else f"parquet{i:03}".encode() for i in range(50)],
            "flba_field": [bytes([i]) * 10 for i in range(50)],
        }
    for column, values in expected.items():
        assert result[column].to_pylist() == list(values), column
