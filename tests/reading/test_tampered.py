"""Pages of an encrypted file that were altered or moved are an error that names the file and the place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import bloomparquet as bp
from bloomparquet.reading.parquet_file import ParquetFileReader
from bloomparquet.storage.files import ReadCount
from bloomparquet.writing.filters.from_chunk import filter_chunk
from bloomparquet.writing.filters.spec import Bloom
from tests.support.encrypted import COLUMNS, FOOTER_KEY, TABLE, Secret, chunk_extents, open_file

PLAIN: dict[str, Any] = {"use_dictionary": False, "compression": "none", "write_statistics": False}


@pytest.fixture
def secret(tmp_path: Path) -> Secret:
    return Secret(tmp_path)


def twins(secret: Secret, name: str, seed: int = 1) -> Path:
    """A file with two columns and two row groups, whose column chunks are all equally long."""
    random = np.random.default_rng(seed)
    table = pa.table({"a": random.integers(0, 2**62, 40), "b": random.integers(0, 2**62, 40)})
    secret.write_uniform(table, name=name, row_group_size=20, **PLAIN)
    return secret.path.with_stem(name)


def test_every_flipped_byte_of_every_chunk_is_an_error(secret: Secret) -> None:
    path, keys = twins(secret, "twins"), bp.Keys(FOOTER_KEY)
    storage, footer = open_file(path, keys)
    whole = path.read_bytes()
    for (row_group, column), (start, end) in chunk_extents(path, keys).items():
        for at in range(start, end, 7):
            path.write_bytes(whole[:at] + bytes((whole[at] ^ 1,)) + whole[at + 1 :])
            with pytest.raises(bp.EncryptionError, match=rf"twins\.parquet: row group {row_group}, column {column}: "):
                list(ParquetFileReader(storage, str(path), footer).read([row_group], [column]))
    path.write_bytes(whole)
    assert bp.read_table(path, keys=keys).num_rows == 40


def test_a_moved_chunk_is_an_error(secret: Secret) -> None:
    path, keys = twins(secret, "twins"), bp.Keys(FOOTER_KEY)
    other = twins(secret, "other", seed=2)
    extents, theirs = chunk_extents(path, keys), chunk_extents(other, keys)
    whole, others = path.read_bytes(), other.read_bytes()
    assert len({end - start for start, end in (*extents.values(), *theirs.values())}) == 1
    candidates: list[tuple[bytes, tuple[int, str] | None]]
    candidates = [(whole[start:end], chunk) for chunk, (start, end) in extents.items()]
    candidates += [(others[start:end], None) for start, end in theirs.values()]
    for chunk, (start, end) in extents.items():
        for data, source in candidates:
            if source == chunk:
                continue
            path.write_bytes(whole[:start] + data + whole[end:])
            with pytest.raises(bp.EncryptionError, match=f"row group {chunk[0]}, column {chunk[1]}: .*moved here"):
                bp.read_table(path, columns=[chunk[1]], keys=keys)
    path.write_bytes(whole)
    assert bp.read_table(path, keys=keys).num_rows == 40


def test_a_removed_dictionary_is_an_error(secret: Secret) -> None:
    """The data page is not altered, but it is where the dictionary page was."""
    secret.write_uniform(pa.table({"a": ["x", "y"] * 50}), compression="none")
    keys = bp.Keys(FOOTER_KEY)
    ((start, end),) = chunk_extents(secret.path, keys).values()
    whole = secret.path.read_bytes()
    dictionary, values = split_pages(whole[start:end])
    secret.path.write_bytes(whole[:start] + values + dictionary + whole[end:])
    with pytest.raises(
        bp.EncryptionError, match="page at byte 0 of the column chunk: the dictionary page header cannot be decrypted"
    ):
        bp.read_table(secret.path, keys=keys)


def split_pages(chunk: bytes) -> Iterator[bytes]:
    """The pages of a chunk, with their headers."""
    position = 0
    while position < len(chunk):
        start = position
        for _ in range(2):
            position += 4 + int.from_bytes(chunk[position : position + 4], "little")
        yield chunk[start:position]


def test_altered_ctr_pages_are_read_or_an_error(secret: Secret) -> None:
    table = pa.table({"a": pa.array([f"text {i}" for i in range(50)])})
    secret.write_uniform(table, encryption_algorithm="AES_GCM_CTR_V1", compression="none", use_dictionary=False)
    keys = bp.Keys(FOOTER_KEY)
    ((start, end),) = chunk_extents(secret.path, keys).values()
    whole = secret.path.read_bytes()
    errors = []
    for at in range(start, end, 9):
        secret.path.write_bytes(whole[:at] + bytes((whole[at] ^ 0x80,)) + whole[at + 1 :])
        try:
            assert bp.read_table(secret.path, keys=keys).num_rows == 50
        except (bp.EncryptionError, bp.FormatError) as error:
            errors.append(str(error))
    assert 10 < len(errors) < (end - start) // 9 - 10
    assert not any("text" in message for message in errors)
    assert all("secret.parquet: row group 0" in message for message in errors)


def test_no_filter_is_built_without_a_key_or_from_altered_data(secret: Secret) -> None:
    path = twins(secret, "twins")
    storage, footer = open_file(path, bp.Keys(FOOTER_KEY))
    (file,) = storage.list_files(str(path), recursive=False)
    whole = path.read_bytes()
    start, end = chunk_extents(path, bp.Keys(FOOTER_KEY))[1, "b"]
    leaf = footer.profile.schema.leaves[1]
    for at in range(start, end, 5):
        path.write_bytes(whole[:at] + bytes((whole[at] ^ 1,)) + whole[at + 1 :])
        (file,) = storage.list_files(str(path), recursive=False)
        with pytest.raises(bp.EncryptionError, match=r"twins\.parquet: row group 1, column b: "):
            filter_chunk(storage, file, footer, 1, leaf, Bloom(), ReadCount())
    secret.write(TABLE, COLUMNS, plaintext_footer=True)
    storage, footer = open_file(secret.path, None)
    (file,) = storage.list_files(str(secret.path), recursive=False)
    with pytest.raises(bp.EncryptionError, match=r"secret\.parquet: row group 0, column id: .*is not given"):
        filter_chunk(storage, file, footer, 0, footer.profile.schema.leaves[0], Bloom(), ReadCount())
