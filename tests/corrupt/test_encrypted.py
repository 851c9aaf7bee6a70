"""Whoever alters an encrypted file is noticed: an error to who looks, and a row group kept for who plans."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import bloomparquet as bp
from bloomparquet.parquet.encryption.modules import Module
from bloomparquet.parquet.metadata.footer import Footer, read_footers
from bloomparquet.parquet.thrift import struct as thrift
from bloomparquet.parquet.thrift.definitions import FileCryptoMetaData, FileMetaData
from bloomparquet.parquet.thrift.reader import read_struct
from bloomparquet.parquet.thrift.struct import ThriftStruct
from bloomparquet.parquet.thrift.writer import write_struct
from bloomparquet.planning.parquet.cache import process_cache
from bloomparquet.storage.files import ReadCount, open_storage

KEYS = bp.Keys(b"f" * 16, {"a": b"a" * 16, "b": b"b" * 16})
GROUPS, ROWS = 3, 200


@pytest.fixture(autouse=True)
def _nothing_is_known() -> Iterator[None]:
    """A file that was altered has its old size, and on some clocks its old time."""
    process_cache.clear()
    yield
    process_cache.clear()


@dataclass
class Secret:
    """A file whose columns `a` and `b` have keys of their own and hold the same even numbers; `c` is in plain text."""

    path: Path
    footer: Footer
    content: bytes

    def filter(self, row_group: int, column: int) -> tuple[int, int, int]:
        """Where the header module of a filter begins, its bitset's module, and where that ends."""
        fields = self.footer.read_chunk(row_group, column)
        assert fields.bloom_offset is not None
        assert fields.bloom_length is not None
        start = fields.bloom_offset
        middle = start + 4 + int.from_bytes(self.content[start : start + 4], "little")
        return start, middle, start + fields.bloom_length

    @property
    def footer_at(self) -> int:
        return len(self.content) - self.footer.size

    def altered(self, at: int, new: bytes) -> None:
        self.written(self.content[:at] + new + self.content[at + len(new) :])

    def written(self, content: bytes) -> None:
        process_cache.clear()
        self.path.write_bytes(content)


def secret(path: Path, *, plaintext_footer: bool = False, keys: bp.Keys = KEYS, seed: int = 1) -> Secret:
    values = np.random.default_rng(seed).permutation(np.arange(GROUPS * ROWS) * 2)
    table = pa.table(dict.fromkeys("abc", values))
    encryption = bp.Encryption(keys, plaintext_footer=plaintext_footer)
    bp.write_table(table, path, bloom=["a", "b", "c"], row_group_size=ROWS, encryption=encryption)
    storage = open_storage(str(path))[0]
    (footer,) = read_footers(storage, storage.list_files(str(path), recursive=False), ReadCount(), keys=keys)
    assert footer is not None
    return Secret(path, footer, path.read_bytes())


def assert_noticed(
    file: Secret, column: str, row_groups: int, kind: type[bp.BloomParquetError] = bp.EncryptionError
) -> None:
    """Looking is an error, planning keeps `row_groups` for an absent value, and counts each."""
    with pytest.raises(kind, match=file.path.name):
        bp.inspect(file.path, columns=[column], keys=KEYS)
    process_cache.clear()
    plan = bp.plan(file.path, f"{column} = 7", keys=KEYS)
    assert (len(plan.errors), {type(error) for error in plan.errors}) == (row_groups, {kind})
    assert plan.kept >= row_groups
    assert not plan.skipped["bloom"] or plan.skipped["bloom"] <= GROUPS - row_groups


@pytest.mark.parametrize("plaintext_footer", [False, True])
def test_every_byte_of_a_header_and_many_of_a_bitset(plaintext_footer: bool, tmp_path: Path) -> None:
    file = secret(tmp_path / "x.parquet", plaintext_footer=plaintext_footer)
    start, middle, end = file.filter(1, 0)
    assert bp.plan(file.path, "a = 7", keys=KEYS).kept == 0
    for at in [*range(start, middle + 20), *range(middle + 20, end, 37), end - 1]:
        file.altered(at, bytes([file.content[at] ^ (1 << at % 8)]))
        with pytest.raises(bp.EncryptionError, match=r"x\.parquet: row group 1, column a"):
            bp.inspect(file.path, columns=["a"], keys=KEYS)
        process_cache.clear()
        plan = bp.plan(file.path, "a = 7", keys=KEYS)
        assert (plan.kept, plan.skipped["bloom"], len(plan.errors)) == (1, GROUPS - 1, 1), at
    file.altered(end - 1, bytes([file.content[end - 1] ^ 1]))
    assert_noticed(file, "a", 1)


def test_every_byte_of_an_encrypted_footer(tmp_path: Path) -> None:
    """But for the last four bytes of the file and the four before, which are in plain text and say what it is."""
    file = secret(tmp_path / "x.parquet")
    for at in range(file.footer_at, len(file.content) - 8, 1):
        file.altered(at, bytes([file.content[at] ^ (1 << at % 8)]))
        with pytest.raises((bp.EncryptionError, bp.FormatError)) as caught:
            bp.inspect(file.path, keys=KEYS)
        process_cache.clear()
        if isinstance(caught.value, bp.FormatError):  # the algorithm's struct is in plain text, and not understood
            assert at < file.footer_at + 40
            continue
        if at % 4:
            continue
        plan = bp.plan(file.path, "a = 7", keys=KEYS)
        assert (plan.total, plan.kept, len(plan.errors), len(plan.unreadable)) == (1, 1, 1, 1), at


def test_every_byte_of_a_signed_footer_and_its_signature(tmp_path: Path) -> None:
    """What no longer is a footer is damaged, like any file's; what still is one is not what was signed."""
    file = secret(tmp_path / "x.parquet", plaintext_footer=True)
    noticed = {bp.EncryptionError: 0, bp.FormatError: 0}
    for at in range(file.footer_at, len(file.content) - 8):
        file.altered(at, bytes([file.content[at] ^ (1 << at % 8)]))
        with pytest.raises((bp.EncryptionError, bp.FormatError)) as caught:
            bp.inspect(file.path, keys=KEYS)
        noticed[caught.type] += 1
        if at >= len(file.content) - 8 - 28:
            assert caught.type is bp.EncryptionError
        process_cache.clear()
        if caught.type is bp.EncryptionError and at % 4 == 0:
            plan = bp.plan(file.path, "a = 7 AND c = 7", keys=KEYS)
            assert (plan.total, plan.kept, len(plan.errors)) == (1, 1, 1), at
    assert noticed[bp.EncryptionError] > noticed[bp.FormatError]


def test_a_signature_that_is_taken_away_is_missed(tmp_path: Path) -> None:
    file = secret(tmp_path / "x.parquet", plaintext_footer=True)
    size = file.footer.size - 8 - 28
    file.written(file.content[: file.footer_at + size] + size.to_bytes(4, "little") + b"PAR1")
    with pytest.raises(bp.FormatError, match="expected a signature of 28"):
        bp.inspect(file.path, keys=KEYS)
    tree, _ = read_struct(file.footer.raw, FileMetaData)
    tree.drop(8)
    tree.drop(9)
    raw = write_struct(tree)
    file.written(file.content[: file.footer_at] + raw + len(raw).to_bytes(4, "little") + b"PAR1")
    plan = bp.plan(file.path, "a = 7", keys=KEYS)
    assert (plan.kept, len(plan.errors)) == (GROUPS, GROUPS), "its columns say that they are encrypted"
    with pytest.raises(bp.EncryptionError, match="encrypted, but the footer does not say how"):
        bp.inspect(file.path, columns=["a"], keys=KEYS)


@pytest.mark.parametrize("part", ["header", "bitset", "filter"])
@pytest.mark.parametrize("other", ["row group", "column", "file"])
def test_modules_that_were_moved(part: str, other: str, tmp_path: Path) -> None:
    """Two filters of one size are swapped, between row groups or columns, or one is replayed from another file."""
    file = secret(tmp_path / "x.parquet")
    start, middle, end = file.filter(0, 0)
    there = secret(tmp_path / "other.parquet") if other == "file" else file
    ends = there.filter(1 if other == "row group" else 0, 1 if other == "column" else 0)
    assert [at - start for at in (start, middle, end)] == [at - ends[0] for at in ends]
    first, last = {"header": (0, 1), "bitset": (1, 2), "filter": (0, 2)}[part]
    here, theirs = slice((start, middle, end)[first], (start, middle, end)[last]), slice(ends[first], ends[last])
    content = bytearray(file.content)
    content[here] = there.content[theirs]
    if there is file:
        content[theirs] = file.content[here]
    file.written(bytes(content))
    assert_noticed(file, "a", 2 if other == "row group" else 1)
    if other == "column":
        assert_noticed(file, "b", 1)


def resealed(file: Secret, tree: ThriftStruct) -> None:
    """The file with another footer, by one who has the footer key."""
    assert file.footer.crypto is not None
    cipher, raw = file.footer.crypto.footer(), write_struct(tree)
    if file.footer.crypto.encrypted_footer:
        old = file.content[file.footer_at : -8]
        _, crypto_bytes = read_struct(old, FileCryptoMetaData)
        raw = old[:crypto_bytes] + cipher.encrypt(raw, Module.FOOTER)
    else:
        raw += cipher.sign(raw)
    end = len(raw).to_bytes(4, "little") + file.content[-4:]
    file.written(file.content[: file.footer_at] + raw + end)


@pytest.mark.parametrize("plaintext_footer", [False, True])
@pytest.mark.parametrize("swapped", [((0, 0), (1, 0)), ((0, 0), (0, 1))])
def test_column_metadata_that_was_moved_by_the_holder_of_the_footer_key(
    swapped: tuple[tuple[int, int], tuple[int, int]], plaintext_footer: bool, tmp_path: Path
) -> None:
    file = secret(tmp_path / "x.parquet", plaintext_footer=plaintext_footer)
    tree, _ = read_struct(file.footer.raw, FileMetaData)
    (first, second) = (tree[4][group][1][column] for group, column in swapped)
    first[9], second[9] = second[9], first[9]
    resealed(file, tree)
    assert_noticed(file, "a", len({group for group, _ in swapped}))


def test_row_group_ordinals_that_were_changed_by_the_holder_of_the_footer_key(tmp_path: Path) -> None:
    file = secret(tmp_path / "x.parquet")
    tree, _ = read_struct(file.footer.raw, FileMetaData)
    for ordinal in (1, -1, 32767, 40000):
        tree[4][0][7] = ordinal
        resealed(file, tree)
        assert_noticed(file, "a", 1)
    tree[4][0].drop(7)
    resealed(file, tree)
    assert bp.plan(file.path, "a = 7", keys=KEYS).kept == 0, "without one, the row group's place counts"


def test_a_filter_whose_length_the_footer_does_not_say_is_found(tmp_path: Path) -> None:
    """As parquet-java wrote them before 1.14."""
    file = secret(tmp_path / "x.parquet")
    tree, _ = read_struct(file.footer.raw, FileMetaData)
    for row_group, group in enumerate(tree[4]):
        cipher = file.footer.chunk_cipher(row_group, 0)
        assert cipher is not None
        metadata = file.footer.chunk_metadata(row_group, 0)
        metadata.drop(15)
        group[1][0].put(9, thrift.BINARY, cipher.encrypt(write_struct(metadata), Module.COLUMN_METADATA))
    resealed(file, tree)
    assert bp.plan(file.path, "a = 7", keys=KEYS).kept == 0
    for value in range(0, 2 * GROUPS * ROWS, 111):
        even = value // 2 * 2
        assert bp.read_table(file.path, f"a = {even}", keys=KEYS).column("a").to_pylist() == [even]


def test_a_schema_that_makes_another_type_of_a_column_excludes_nothing(tmp_path: Path) -> None:
    """The schema is under the footer key, the statistics under the column's: they say themselves what they are of."""
    file = secret(tmp_path / "x.parquet")
    for field_id, value in ((1, 1), (1, 5), (4, b"z")):  # INT32, DOUBLE; another name
        tree, _ = read_struct(file.footer.raw, FileMetaData)
        tree[2][1][field_id] = value
        resealed(file, tree)
        name = "z" if field_id == 4 else "a"
        keys = bp.Keys(b"f" * 16, {name: b"a" * 16})
        for where in (f"{name} = 7", f"{name} < 0", f"{name} > 100000"):
            plan = bp.plan(file.path, where, keys=keys)
            assert (plan.kept, len(plan.errors)) == (GROUPS, GROUPS), where
        with pytest.raises(bp.EncryptionError, match="is that of another column or type; the schema was altered"):
            bp.inspect(file.path, columns=[name], keys=keys)


def without_seal(chunk: ThriftStruct) -> None:
    chunk.drop(9)


def of_an_unknown_kind(chunk: ThriftStruct) -> None:
    chunk.drop(9)
    chunk.put(8, thrift.STRUCT, ThriftStruct())
    chunk[8].put(3, thrift.STRUCT, ThriftStruct())


def of_no_kind(chunk: ThriftStruct) -> None:
    chunk.drop(9)
    chunk.put(8, thrift.STRUCT, ThriftStruct())


def of_another_type(chunk: ThriftStruct) -> None:
    chunk.drop(9)
    chunk.put(8, thrift.I32, 1)


@pytest.mark.parametrize("forge", [without_seal, of_an_unknown_kind, of_no_kind, of_another_type])
@pytest.mark.parametrize("case", ["no key", "the footer key, signed", "the footer key, encrypted"])
def test_statistics_that_nobody_has_sealed_exclude_nothing(
    case: str, forge: Callable[[ThriftStruct], None], tmp_path: Path
) -> None:
    """Whoever has no key of a column, and at most that of the footer, says of it in plain text what he likes."""
    file = secret(tmp_path / "x.parquet", plaintext_footer="encrypted" not in case)
    tree, _ = read_struct(file.footer.raw, FileMetaData)
    lies = ThriftStruct()
    for field_id in (5, 6):
        lies.put(field_id, thrift.BINARY, (10**6).to_bytes(8, "little"))
    lies.put(3, thrift.I64, 0)
    for row_group, group in enumerate(tree[4]):
        metadata = file.footer.chunk_metadata(row_group, 0)
        metadata.put(12, thrift.STRUCT, lies)
        group[1][0].put(3, thrift.STRUCT, metadata)
        forge(group[1][0])
    resealed(file, tree)
    keys = KEYS if "footer" in case else bp.Keys(columns={"a": b"a" * 16, "b": b"b" * 16})
    for where in ("a = 8", "a < 9", "a IS NOT NULL"):
        plan = bp.plan(file.path, where, keys=keys)
        assert (plan.kept, len(plan.errors)) == (GROUPS, GROUPS), where
    with pytest.raises(bp.EncryptionError, match=r"x\.parquet: row group 0, column a"):
        bp.read_table(file.path, "a = 8", keys=keys)


def test_encryption_that_was_taken_away_is_noticed_by_who_asks_for_it(tmp_path: Path) -> None:
    file = secret(tmp_path / "x.parquet", plaintext_footer=True)
    tree, _ = read_struct(file.footer.raw, FileMetaData)
    for field_id in (8, 9):
        tree.drop(field_id)
        for group in tree[4]:
            for chunk in group[1]:
                chunk.drop(field_id)
    raw = write_struct(tree)
    file.written(file.content[: file.footer_at] + raw + len(raw).to_bytes(4, "little") + b"PAR1")
    strict = bp.Keys(b"f" * 16, {"a": b"a" * 16}, allow_plaintext_files=False)
    for where in ("c = 8", "a = 8"):
        plan = bp.plan(file.path, where, keys=strict)
        assert (plan.total, plan.kept, len(plan.unreadable)) == (1, 1, 1)
    with pytest.raises(bp.EncryptionError, match="the file is in plain text, which the keys do not allow"):
        bp.read_table(file.path, keys=strict)
    assert bp.plan(file.path, "c = 8", keys=KEYS).kept == 1

    file = secret(tmp_path / "y.parquet", keys=bp.Keys(b"f" * 16, {"b": b"b" * 16}))
    strict = bp.Keys(b"f" * 16, {"a": b"a" * 16, "b": b"b" * 16}, allow_plaintext_files=False)
    assert bp.plan(file.path, "a = 7", keys=KEYS).kept == 0
    assert bp.plan(file.path, "b = 7", keys=strict).kept == 0
    plan = bp.plan(file.path, "a = 7", keys=strict)
    assert (plan.kept, len(plan.errors)) == (GROUPS, GROUPS)


@pytest.mark.parametrize(
    ("field", "value"), [(14, 3), (14, -1), (14, 1 << 40), (15, 40), (15, 1), (15, 1 << 30), (14, 4)]
)
def test_places_that_lie_in_metadata_that_is_genuine(field: int, value: int, tmp_path: Path) -> None:
    file = secret(tmp_path / "x.parquet")
    tree, _ = read_struct(file.footer.raw, FileMetaData)
    cipher = file.footer.chunk_cipher(1, 0)
    assert cipher is not None
    metadata = file.footer.chunk_metadata(1, 0)
    metadata[field] = value
    tree[4][1][1][0].put(9, thrift.BINARY, cipher.encrypt(write_struct(metadata), Module.COLUMN_METADATA))
    resealed(file, tree)
    plan = bp.plan(file.path, "a = 7", keys=KEYS)
    assert plan.kept == 1
    assert plan.skipped["bloom"] == GROUPS - 1
    assert len(plan.errors) == (field == 15 or value >= 0)


def test_whatever_happens_to_a_file_no_row_is_lost(tmp_path: Path) -> None:
    """A plan with the keys either fails, or keeps the row group of a value that was there; so it does without them."""
    generator = random.Random(7)
    for plaintext_footer in (False, True):
        file = secret(tmp_path / f"{plaintext_footer}.parquet", plaintext_footer=plaintext_footer)
        where_is = {
            value: row_group
            for row_group in range(GROUPS)
            for value in bp.read_table(file.path, keys=KEYS).column("a").to_pylist()[row_group * ROWS :][:ROWS]
        }
        first = min(file.filter(i, j)[0] for i in range(GROUPS) for j in (0, 1))
        for _ in range(150):
            content = bytearray(file.content)
            for _ in range(generator.randrange(1, 4)):
                at = generator.randrange(first, len(content))
                content[at : at + generator.randrange(1, 5)] = os.urandom(generator.randrange(0, 5))
            file.written(bytes(content))
            value = generator.choice(list(where_is))
            for keys in (KEYS, None):
                for column in "ab":
                    try:
                        plan = bp.plan(file.path, f"{column} = {value}", keys=keys)
                    except (bp.FormatError, bp.LimitError):
                        continue
                    kept = {group.index for group in plan.kept_row_groups()}
                    assert kept & {None, where_is[value]}, (column, value)
