"""Altered encrypted files: inspecting and reading raise errors, and a plan keeps the row groups."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import bloomparquet as bp
from bloomparquet.parquet.encryption.file_crypto import ChunkCipher
from bloomparquet.parquet.encryption.modules import Module
from bloomparquet.parquet.metadata.footer import Footer, read_footers
from bloomparquet.parquet.thrift import struct as thrift
from bloomparquet.parquet.thrift.definitions import (
    ColumnChunk,
    ColumnCryptoMetaData,
    ColumnMetaData,
    FileCryptoMetaData,
    FileMetaData,
    Statistics,
)
from bloomparquet.parquet.thrift.reader import read_struct
from bloomparquet.parquet.thrift.struct import ThriftStruct
from bloomparquet.parquet.thrift.writer import write_struct
from bloomparquet.planning.cache.plan_cache import process_cache
from bloomparquet.storage.files import ReadCount
from bloomparquet.storage.open import open_storage

pytestmark = pytest.mark.slow

KEYS = bp.Keys(b"f" * 16, {"a": b"a" * 16, "b": b"b" * 16})
GROUPS, ROWS = 3, 200


@pytest.fixture(autouse=True)
def _empty_cache() -> Iterator[None]:
    """An altered file may have its old size and modification time."""
    process_cache.clear()
    yield
    process_cache.clear()


@dataclass
class EncryptedFile:
    """A file whose columns `a` and `b` have their own keys and equal even numbers; `c` is not encrypted."""

    path: Path
    footer: Footer
    content: bytes

    def filter(self, row_group: int, column: int) -> tuple[int, int, int]:
        """The offsets of a filter's header module, of its bitset module, and of their end."""
        fields = self.footer.read_chunk(row_group, column)
        assert fields.bloom_offset is not None
        assert fields.bloom_length is not None
        start = fields.bloom_offset
        middle = start + 4 + int.from_bytes(self.content[start : start + 4], "little")
        return start, middle, start + fields.bloom_length

    @property
    def footer_at(self) -> int:
        return len(self.content) - self.footer.size

    def alter(self, at: int, new: bytes) -> None:
        self.write(self.content[:at] + new + self.content[at + len(new) :])

    def write(self, content: bytes) -> None:
        process_cache.clear()
        self.path.write_bytes(content)


def write_encrypted(path: Path, *, plaintext_footer: bool = False) -> EncryptedFile:
    values = np.random.default_rng(1).permutation(np.arange(GROUPS * ROWS) * 2)
    table = pa.table(dict.fromkeys("abc", values))
    encryption = bp.Encryption(KEYS, plaintext_footer=plaintext_footer)
    bp.write_table(table, path, bloom=["a", "b", "c"], row_group_size=ROWS, encryption=encryption)
    storage = open_storage(str(path))[0]
    (footer,) = read_footers(storage, storage.list_files(str(path), recursive=False), ReadCount(), keys=KEYS)
    assert footer is not None
    return EncryptedFile(path, footer, path.read_bytes())


def assert_error_and_kept(file: EncryptedFile, column: str, row_groups: int) -> None:
    """Inspecting raises an error. A plan for an absent value keeps `row_groups` row groups, each with an error."""
    with pytest.raises(bp.EncryptionError, match=file.path.name):
        bp.inspect(file.path, columns=[column], keys=KEYS)
    process_cache.clear()
    plan = bp.plan(file.path, f"{column} = 7", keys=KEYS)
    assert (len(plan.errors), {type(error) for error in plan.errors}) == (row_groups, {bp.EncryptionError})
    assert plan.kept >= row_groups
    assert not plan.skipped["bloom"] or plan.skipped["bloom"] <= GROUPS - row_groups


@pytest.mark.parametrize("plaintext_footer", [False, True])
def test_a_changed_filter_keeps_its_row_group(plaintext_footer: bool, tmp_path: Path) -> None:
    file = write_encrypted(tmp_path / "x.parquet", plaintext_footer=plaintext_footer)
    start, middle, end = file.filter(1, 0)
    assert bp.plan(file.path, "a = 7", keys=KEYS).kept == 0
    positions = [*range(start, middle + 20), *range(middle + 20, end, 37), end - 1]
    for at in positions[:: 10 if plaintext_footer else 1]:
        file.alter(at, bytes([file.content[at] ^ (1 << at % 8)]))
        with pytest.raises(bp.EncryptionError, match=r"x\.parquet: row group 1, column a"):
            bp.inspect(file.path, columns=["a"], keys=KEYS)
        process_cache.clear()
        plan = bp.plan(file.path, "a = 7", keys=KEYS)
        assert (plan.kept, plan.skipped["bloom"], len(plan.errors)) == (1, GROUPS - 1, 1), at
    file.alter(end - 1, bytes([file.content[end - 1] ^ 1]))
    assert_error_and_kept(file, "a", 1)


@pytest.mark.parametrize("plaintext_footer", [False, True])
def test_a_changed_footer_keeps_its_file(plaintext_footer: bool, tmp_path: Path) -> None:
    """Bytes that do not parse are a FormatError: in an encrypted footer only those of the algorithm's struct, which are
    in plain text. Other bytes do not match the signature, or cannot be decrypted."""
    file = write_encrypted(tmp_path / "x.parquet", plaintext_footer=plaintext_footer)
    errors = {bp.EncryptionError: 0, bp.FormatError: 0}
    for at in range(file.footer_at, len(file.content) - 8, 23):
        file.alter(at, bytes([file.content[at] ^ (1 << at % 8)]))
        with pytest.raises((bp.EncryptionError, bp.FormatError)) as caught:
            bp.inspect(file.path, keys=KEYS)
        errors[caught.type] += 1
        process_cache.clear()
        if caught.type is bp.EncryptionError:
            plan = bp.plan(file.path, "a = 7 AND c = 7", keys=KEYS)
            assert (plan.total, plan.kept, len(plan.errors), len(plan.unreadable)) == (1, 1, 1, 1), at
        elif not plaintext_footer:
            assert at < file.footer_at + 40
    assert errors[bp.EncryptionError] > errors[bp.FormatError]


def test_a_removed_signature_is_an_error(tmp_path: Path) -> None:
    file = write_encrypted(tmp_path / "x.parquet", plaintext_footer=True)
    size = file.footer.size - 8 - 28
    file.write(file.content[: file.footer_at + size] + size.to_bytes(4, "little") + b"PAR1")
    with pytest.raises(bp.FormatError, match="expected a signature of 28"):
        bp.inspect(file.path, keys=KEYS)
    tree, _ = read_struct(file.footer.raw, FileMetaData)
    tree.encryption_algorithm = tree.footer_signing_key_metadata = None
    raw = write_struct(tree)
    file.write(file.content[: file.footer_at] + raw + len(raw).to_bytes(4, "little") + b"PAR1")
    plan = bp.plan(file.path, "a = 7", keys=KEYS)
    assert (plan.kept, len(plan.errors)) == (GROUPS, GROUPS), "the column chunks are still encrypted"
    with pytest.raises(bp.EncryptionError, match="encrypted, but the footer does not say how"):
        bp.inspect(file.path, columns=["a"], keys=KEYS)


@pytest.mark.parametrize("part", ["header", "bitset", "filter"])
@pytest.mark.parametrize("other", ["row group", "column", "file"])
def test_a_moved_filter_keeps_its_row_group(part: str, other: str, tmp_path: Path) -> None:
    """Two filters of one size are swapped between row groups or columns, or one is copied from another file."""
    file = write_encrypted(tmp_path / "x.parquet")
    start, middle, end = file.filter(0, 0)
    there = write_encrypted(tmp_path / "other.parquet") if other == "file" else file
    ends = there.filter(1 if other == "row group" else 0, 1 if other == "column" else 0)
    assert [at - start for at in (start, middle, end)] == [at - ends[0] for at in ends]
    first, last = {"header": (0, 1), "bitset": (1, 2), "filter": (0, 2)}[part]
    here, theirs = slice((start, middle, end)[first], (start, middle, end)[last]), slice(ends[first], ends[last])
    content = bytearray(file.content)
    content[here] = there.content[theirs]
    if there is file:
        content[theirs] = file.content[here]
    file.write(bytes(content))
    assert_error_and_kept(file, "a", 2 if other == "row group" else 1)
    if other == "column":
        assert_error_and_kept(file, "b", 1)


def encrypted(metadata: ColumnMetaData, cipher: ChunkCipher) -> bytes:
    return cipher.encrypt(write_struct(metadata), Module.COLUMN_METADATA)


def write_footer(file: EncryptedFile, tree: FileMetaData) -> None:
    """Give the file another footer, encrypted or signed with the footer key."""
    assert file.footer.crypto is not None
    cipher, raw = file.footer.crypto.footer(), write_struct(tree)
    if file.footer.crypto.encrypted_footer:
        old = file.content[file.footer_at : -8]
        _, crypto_bytes = read_struct(old, FileCryptoMetaData)
        raw = old[:crypto_bytes] + cipher.encrypt(raw, Module.FOOTER)
    else:
        raw += cipher.sign(raw)
    end = len(raw).to_bytes(4, "little") + file.content[-4:]
    file.write(file.content[: file.footer_at] + raw + end)


@pytest.mark.parametrize("plaintext_footer", [False, True])
@pytest.mark.parametrize("swapped", [((0, 0), (1, 0)), ((0, 0), (0, 1))])
def test_moved_column_metadata_keeps_its_row_groups(
    swapped: tuple[tuple[int, int], tuple[int, int]], plaintext_footer: bool, tmp_path: Path
) -> None:
    file = write_encrypted(tmp_path / "x.parquet", plaintext_footer=plaintext_footer)
    tree, _ = read_struct(file.footer.raw, FileMetaData)
    first, second = (tree.row_groups[group].columns[column] for group, column in swapped)
    first.encrypted_column_metadata, second.encrypted_column_metadata = (
        second.encrypted_column_metadata,
        first.encrypted_column_metadata,
    )
    write_footer(file, tree)
    assert_error_and_kept(file, "a", len({group for group, _ in swapped}))


def test_a_changed_ordinal_keeps_its_row_group(tmp_path: Path) -> None:
    file = write_encrypted(tmp_path / "x.parquet")
    tree, _ = read_struct(file.footer.raw, FileMetaData)
    for ordinal in (1, -1, 32767, 40000):
        tree.row_groups[0].ordinal = ordinal
        write_footer(file, tree)
        assert_error_and_kept(file, "a", 1)
    tree.row_groups[0].ordinal = None
    write_footer(file, tree)
    assert bp.plan(file.path, "a = 7", keys=KEYS).kept == 0, "without an ordinal, the position counts"


def test_a_filter_without_a_length_in_the_footer_is_read(tmp_path: Path) -> None:
    """parquet-java before 1.14 writes no length."""
    file = write_encrypted(tmp_path / "x.parquet")
    tree, _ = read_struct(file.footer.raw, FileMetaData)
    for row_group, group in enumerate(tree.row_groups):
        cipher = file.footer.chunk_cipher(row_group, 0)
        assert cipher is not None
        metadata = file.footer.chunk_metadata(row_group, 0)
        metadata.bloom_filter_length = None
        group.columns[0].encrypted_column_metadata = encrypted(metadata, cipher)
    write_footer(file, tree)
    assert bp.plan(file.path, "a = 7", keys=KEYS).kept == 0
    for value in range(0, 2 * GROUPS * ROWS, 111):
        even = value // 2 * 2
        assert bp.read_table(file.path, f"a = {even}", keys=KEYS).column("a").to_pylist() == [even]


def test_a_column_of_another_type_keeps_its_row_groups(tmp_path: Path) -> None:
    """The schema is encrypted with the footer key, the column metadata with the column's key."""
    file = write_encrypted(tmp_path / "x.parquet")
    for change in ({"type": 1}, {"type": 5}, {"name": b"z"}):  # INT32, DOUBLE; another name
        tree, _ = read_struct(file.footer.raw, FileMetaData)
        for field, value in change.items():
            setattr(tree.schema[1], field, value)
        write_footer(file, tree)
        name = "z" if "name" in change else "a"
        keys = bp.Keys(b"f" * 16, {name: b"a" * 16})
        for where in (f"{name} = 7", f"{name} < 0", f"{name} > 100000"):
            plan = bp.plan(file.path, where, keys=keys)
            assert (plan.kept, len(plan.errors)) == (GROUPS, GROUPS), where
        with pytest.raises(
            bp.EncryptionError, match="has another path or type than the schema; the schema was altered"
        ):
            bp.inspect(file.path, columns=[name], keys=keys)


def unknown_member(chunk: ColumnChunk) -> None:
    chunk.crypto_metadata = ColumnCryptoMetaData()
    chunk.crypto_metadata.put(3, thrift.STRUCT, ThriftStruct())


FORGERIES: dict[str, Callable[[ColumnChunk], None]] = {
    "no encrypted metadata": lambda chunk: None,
    "unknown member": unknown_member,
    "no member": lambda chunk: setattr(chunk, "crypto_metadata", ColumnCryptoMetaData()),
    "another type": lambda chunk: chunk.put(ColumnChunk.crypto_metadata.id, thrift.I32, 1),
}


@pytest.mark.parametrize("forge", FORGERIES)
@pytest.mark.parametrize("case", ["no key", "the footer key, signed", "the footer key, encrypted"])
def test_unencrypted_statistics_keep_their_row_groups(case: str, forge: str, tmp_path: Path) -> None:
    """Somebody without the column's key writes false statistics in plain text, with or without the footer key."""
    file = write_encrypted(tmp_path / "x.parquet", plaintext_footer="encrypted" not in case)
    tree, _ = read_struct(file.footer.raw, FileMetaData)
    value = (10**6).to_bytes(8, "little")
    lies = Statistics(min_value=value, max_value=value, null_count=0)
    for row_group, group in enumerate(tree.row_groups):
        metadata = file.footer.chunk_metadata(row_group, 0)
        metadata.statistics = lies
        group.columns[0].meta_data = metadata
        group.columns[0].encrypted_column_metadata = None
        FORGERIES[forge](group.columns[0])
    write_footer(file, tree)
    keys = KEYS if "footer" in case else bp.Keys(columns={"a": b"a" * 16, "b": b"b" * 16})
    for where in ("a = 8", "a < 9", "a IS NOT NULL"):
        plan = bp.plan(file.path, where, keys=keys)
        assert (plan.kept, len(plan.errors)) == (GROUPS, GROUPS), where
    with pytest.raises(bp.EncryptionError, match=r"x\.parquet: row group 0, column a"):
        bp.read_table(file.path, "a = 8", keys=keys)


def test_removed_encryption_is_an_error_for_strict_keys(tmp_path: Path) -> None:
    file = write_encrypted(tmp_path / "x.parquet", plaintext_footer=True)
    tree, _ = read_struct(file.footer.raw, FileMetaData)
    tree.encryption_algorithm = tree.footer_signing_key_metadata = None
    for group in tree.row_groups:
        for chunk in group.columns:
            chunk.crypto_metadata = chunk.encrypted_column_metadata = None
    raw = write_struct(tree)
    file.write(file.content[: file.footer_at] + raw + len(raw).to_bytes(4, "little") + b"PAR1")
    strict = bp.Keys(b"f" * 16, {"a": b"a" * 16}, allow_plaintext_files=False)
    for where in ("c = 8", "a = 8"):
        plan = bp.plan(file.path, where, keys=strict)
        assert (plan.total, plan.kept, len(plan.unreadable)) == (1, 1, 1)
    with pytest.raises(
        bp.EncryptionError, match="the file is not encrypted, but the keys have allow_plaintext_files=False"
    ):
        bp.read_table(file.path, keys=strict)
    assert bp.plan(file.path, "c = 8", keys=KEYS).kept == 1


def test_random_changes_lose_no_row(tmp_path: Path) -> None:
    """With and without the keys, a plan raises an error or keeps the row group that held the value."""
    generator = random.Random(7)
    for plaintext_footer in (False, True):
        file = write_encrypted(tmp_path / f"{plaintext_footer}.parquet", plaintext_footer=plaintext_footer)
        where_is = {
            value: row_group
            for row_group in range(GROUPS)
            for value in bp.read_table(file.path, keys=KEYS).column("a").to_pylist()[row_group * ROWS :][:ROWS]
        }
        first = min(file.filter(i, j)[0] for i in range(GROUPS) for j in (0, 1))
        for _ in range(60):
            content = bytearray(file.content)
            for _ in range(generator.randrange(1, 4)):
                at = generator.randrange(first, len(content))
                content[at : at + generator.randrange(1, 5)] = generator.randbytes(generator.randrange(5))
            file.write(bytes(content))
            value = generator.choice(list(where_is))
            for keys in (KEYS, None):
                for column in "ab":
                    try:
                        plan = bp.plan(file.path, f"{column} = {value}", keys=keys)
                    except (bp.FormatError, bp.LimitError):
                        continue
                    kept = {group.index for group in plan.kept_row_groups()}
                    assert kept & {None, where_is[value]}, (column, value)
