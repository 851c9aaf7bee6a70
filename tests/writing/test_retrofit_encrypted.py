"""Adding and shrinking filters in encrypted files: filters of encrypted columns are encrypted, the rest is kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import bloomparquet as bp
from bloomparquet.parquet.encryption.modules import Module
from bloomparquet.parquet.thrift import struct as thrift
from bloomparquet.parquet.thrift.definitions import FileMetaData, OffsetIndex
from bloomparquet.parquet.thrift.reader import read_struct
from bloomparquet.parquet.thrift.writer import write_struct
from bloomparquet.writing.encryption import Encryption
from bloomparquet.writing.footer_edit import EditableFooter
from bloomparquet.writing.retrofit.retrofit import add_filters, shrink_filters
from tests.support.encrypted_modules import (
    BLOOM_LENGTH,
    BLOOM_OFFSET,
    TOLD_TO_ALL,
    assert_page_indexes_open,
    bitsets,
    chunks,
    footer_of,
    metadata,
    record_writes,
)
from tests.support.kms import Kms, Writer, configuration
from tests.support.retrofit_encrypted import (
    ALL,
    BLOOM,
    CITY,
    FOOTERS,
    GROUPS,
    ID,
    IDS,
    LARGE,
    NAME,
    ROWS,
    TABLE,
    WITHOUT_NAME,
    N,
    X,
    assert_filters_hold_all,
    assert_hidden,
    data_end,
    less_filters,
    others,
    write,
)


@pytest.mark.parametrize("algorithm", ["AES_GCM_V1", "AES_GCM_CTR_V1"])
@pytest.mark.parametrize("kind", ["uniform", "columns", "signed"])
def test_filters_are_added_to_files_of_pyarrow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, algorithm: str
) -> None:
    kms = Kms()
    factory, keys = Writer(kms), bp.Keys.from_kms(None, kms.client)
    columns = None if kind == "uniform" else {"k1": ["id"], "k2": ["name"]}
    how = configuration(columns, encryption_algorithm=algorithm, plaintext_footer=kind == "signed")
    path = factory.write(TABLE, tmp_path / "a.parquet", how, row_group_size=ROWS, write_page_index=True)
    before, end = Path(path).read_bytes(), data_end(path, keys)
    was, rest = less_filters(path, keys), others(path, keys, {0, 1, 3})
    output = record_writes(monkeypatch)
    (outcome,) = add_filters(path, bloom=["id", "name", "st.x"], keys=keys)
    after = Path(path).read_bytes()
    assert (outcome.action, outcome.filters, outcome.bytes_after) == ("added", 9, len(after))
    assert after[:end] == before[:end]
    assert less_filters(path, keys) == was
    assert others(path, keys, {0, 1, 3}) == rest
    assert factory.read(path).equals(TABLE)
    assert bp.read_table(path, keys=keys).equals(TABLE)
    filters = assert_filters_hold_all(path, keys, {ID, NAME, X})
    assert_hidden(b"".join(output) + after, filters, set() if kind == "uniform" else {X})
    absent = [bp.plan(path, f"id = {i + 1}", keys=keys).skipped.get("bloom", 0) for i in IDS[:30]]
    assert sum(absent) >= 0.9 * GROUPS * 30
    assert all(bp.plan(path, f"id = {IDS[i]}", keys=keys).kept >= 1 for i in range(0, N, 37))
    assert_page_indexes_open(path, keys)
    (outcome,) = add_filters(path, bloom=["id", "name", "st.x"], keys=keys)
    assert outcome.action == "unchanged"
    assert Path(path).read_bytes() == after


OTHERS = bp.Keys(b"0123456789012345", {"double_field": b"1234567890123450", "float_field": b"1234567890123451"})


@pytest.mark.filterwarnings("ignore:the Bloom filters of column")
@pytest.mark.parametrize(
    ("name", "bloom"),
    [
        ("uniform_encryption", ["int64_field", "double_field", "ba_field"]),
        ("encrypt_columns_plaintext_footer", ["int64_field", "double_field", "float_field"]),
        ("encrypt_columns_and_footer_bloom_filter", ["int32_field", "name"]),
    ],
)
def test_files_of_other_writers_keep_all_else(
    parquet_testing_dir: Path, tmp_path: Path, name: str, bloom: list[str]
) -> None:
    before = (parquet_testing_dir / f"{name}.parquet.encrypted").read_bytes()
    path = str(tmp_path / "a.parquet")
    Path(path).write_bytes(before)
    rows, end, was = bp.read_table(path, keys=OTHERS), data_end(path, OTHERS), less_filters(path, OTHERS)
    old = bitsets(path, OTHERS)
    (outcome,) = add_filters(path, bloom=bloom, keys=OTHERS)
    assert outcome.filters == len(bloom) * len(footer_of(path, OTHERS).rows)
    assert Path(path).read_bytes()[:end] == before[:end]
    assert less_filters(path, OTHERS) == was
    assert bp.read_table(path, keys=OTHERS).equals(rows)
    filters = bitsets(path, OTHERS)
    assert {chunk_id: filters[chunk_id] for chunk_id in old} == old
    encrypted = set(bloom) & {"double_field", "float_field"} if "columns" in name else set(bloom)
    leaves = footer_of(path, OTHERS).profile.schema.leaves
    plain = {leaf.index for leaf in leaves if leaf.path[0] in set(bloom) - encrypted}
    assert_hidden(Path(path).read_bytes(), filters, plain)
    for column in bloom:
        for value in [value for value in rows[column].to_pylist()[::97] if not isinstance(value, list | None)]:
            assert bp.plan(path, bp.Eq(column, value), keys=OTHERS).kept >= 1
    shrink_filters(path, fpp=0.2, keys=OTHERS)
    assert bp.read_table(path, keys=OTHERS).equals(rows)
    assert less_filters(path, OTHERS).keys() == was.keys()
    assert max(map(len, bitsets(path, OTHERS).values())) <= max(map(len, filters.values()))


@FOOTERS
def test_shrinking_folds_filters_and_closes_the_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plaintext_footer: bool
) -> None:
    path = write(tmp_path / "a.parquet", dict.fromkeys(BLOOM, LARGE), plaintext_footer=plaintext_footer)
    fitting, twin = write(tmp_path / "b.parquet", BLOOM, plaintext_footer=plaintext_footer), tmp_path / "c.parquet"
    bp.write_table(TABLE, twin, bloom=dict.fromkeys(BLOOM, LARGE), row_group_size=ROWS)
    shrink_filters(twin)
    output = record_writes(monkeypatch)
    (outcome,) = shrink_filters(path, keys=ALL)
    assert (outcome.action, outcome.filters) == ("shrunk", 12)
    filters = assert_filters_hold_all(path, ALL, {ID, NAME, CITY, X})
    assert filters == bitsets(twin, None) == bitsets(fitting, ALL)
    assert_hidden(b"".join(output) + Path(path).read_bytes(), filters)
    assert abs(Path(path).stat().st_size - Path(fitting).stat().st_size) < 100
    assert bp.read_table(path, keys=ALL).equals(TABLE)
    assert_page_indexes_open(path, ALL)
    after = Path(path).read_bytes()
    assert shrink_filters(path, keys=ALL)[0].action == "unchanged"
    assert Path(path).read_bytes() == after


def between(path: str, keys: bp.Keys) -> None:
    """Move the filters of the first row group behind it, as some writers do. Pad offset indexes with zeros, as
    parquet-java does."""
    data, footer = Path(path).read_bytes(), footer_of(path, keys)
    edited = EditableFooter.read(path, footer)
    cut, end = edited.tree[4][0][5] + edited.tree[4][0][6], len(data) - footer.size
    extents = {
        chunk_id: (stored[BLOOM_OFFSET], stored[BLOOM_OFFSET] + stored[BLOOM_LENGTH])
        for chunk_id, stored in edited.metadata.items()
        if BLOOM_OFFSET in stored and chunk_id[0] == 0
    }
    moved = b"".join(data[start:stop] for start, stop in extents.values())
    by, tail, at = len(moved), b"", cut
    for chunk_id, stored in edited.metadata.items():
        chunk, cipher = edited.chunk(chunk_id), edited.ciphers.get(chunk_id)
        raw = data[chunk[4] : chunk[4] + chunk[5]]
        index, _ = read_struct(raw if cipher is None else cipher.decrypt(raw, Module.OFFSET_INDEX), OffsetIndex)
        for location in index[1]:
            location[1] += by if location[1] >= cut else 0
        for struct, fields in ((chunk, (6,)), (stored, (9, 11, BLOOM_OFFSET))):
            for field in fields:
                if field in struct and struct[field] >= cut:
                    struct[field] += by
        raw = write_struct(index)
        raw = raw if cipher is None else cipher.encrypt(raw + bytes(77), Module.OFFSET_INDEX)
        chunk[4], chunk[5] = end + by + len(tail), len(raw)
        tail += raw
    for chunk_id, (start, stop) in extents.items():
        edited.metadata[chunk_id][BLOOM_OFFSET] = at
        at += stop - start
    for group in list(edited.tree[4])[1:]:
        group[5] += by
    Path(path).write_bytes(data[:cut] + moved + data[cut:end] + tail + b"".join(edited.tail()))


@FOOTERS
def test_filter_between_row_groups_shrinks_and_data_moves(tmp_path: Path, plaintext_footer: bool) -> None:
    path = write(tmp_path / "a.parquet", dict.fromkeys(BLOOM, LARGE), plaintext_footer=plaintext_footer)
    between(path, ALL)
    pages = assert_page_indexes_open(path, ALL)
    assert pages >= 20
    before = assert_filters_hold_all(path, ALL, {ID, NAME, CITY, X})
    assert metadata(path, ALL)[0, 0][BLOOM_OFFSET] < metadata(path, ALL)[1, 0][9]
    closed = Path(path).read_bytes()
    altered = bytearray(closed)
    altered[chunks(path, ALL)[1, NAME][4] + 30] ^= 1
    Path(path).write_bytes(altered)
    with pytest.raises(bp.EncryptionError, match=r"offset index of row group 1, column name: .* cannot be decrypted"):
        shrink_filters(path, keys=ALL)
    assert Path(path).read_bytes() == altered
    Path(path).write_bytes(closed)
    with pytest.raises(bp.EncryptionError, match="shrinking would make it larger"):
        shrink_filters(path, keys=WITHOUT_NAME)
    assert Path(path).read_bytes() == closed
    assert shrink_filters(path, keys=ALL)[0].filters == 12
    filters = assert_filters_hold_all(path, ALL, {ID, NAME, CITY, X})
    saved = sum(map(len, before.values())) - sum(map(len, filters.values()))
    zeros = 77 * 2 * GROUPS
    assert abs(len(closed) - saved - zeros - Path(path).stat().st_size) < 200
    assert assert_page_indexes_open(path, ALL) == pages
    assert bp.read_table(path, keys=ALL).equals(TABLE)
    for chunk_id, chunk in chunks(path, ALL).items():
        if plaintext_footer and 9 in chunk:
            assert set(chunk[3]) <= TOLD_TO_ALL
            assert {field: metadata(path, ALL)[chunk_id][field] for field in chunk[3]} == dict(chunk[3])
    tree, _ = read_struct(footer_of(path, ALL).raw, FileMetaData)
    for i, group in enumerate(tree[4]):
        first = metadata(path, ALL)[i, 0]
        assert group[5] == (first.get(11) or first[9])


@FOOTERS
def test_unknown_fields_of_encrypted_columns_survive_encrypted(tmp_path: Path, plaintext_footer: bool) -> None:
    path = write(tmp_path / "a.parquet", plaintext_footer=plaintext_footer)
    edited = EditableFooter.read(path, footer_of(path, ALL))
    for stored in edited.metadata.values():
        stored.put(100, thrift.BINARY, b"of-the-future")
    end = data_end(path, ALL)
    Path(path).write_bytes(Path(path).read_bytes()[:end] + b"".join(edited.tail()))
    add_filters(path, bloom=["id", "name"], keys=ALL)
    assert all(stored[100] == b"of-the-future" for stored in metadata(path, ALL).values())
    if plaintext_footer:
        for (_, leaf), chunk in chunks(path, None).items():
            assert leaf not in (ID, NAME) or set(chunk[3]) <= TOLD_TO_ALL
        assert Path(path).read_bytes().count(b"of-the-future") == 2 * GROUPS, "in plain columns only"


@FOOTERS
def test_copy_and_dry_run(tmp_path: Path, plaintext_footer: bool) -> None:
    path = write(tmp_path / "a.parquet", plaintext_footer=plaintext_footer)
    before = Path(path).read_bytes()
    (told,) = add_filters(path, tmp_path / "b.parquet", bloom="id", keys=ALL, dry_run=True)
    assert os.listdir(tmp_path) == ["a.parquet"]
    assert add_filters(path, tmp_path / "b.parquet", bloom="id", keys=ALL) == [told]
    assert Path(path).read_bytes() == before
    assert_filters_hold_all(str(tmp_path / "b.parquet"), ALL, {ID})
    assert told.bytes_after == (tmp_path / "b.parquet").stat().st_size
    how = Encryption(ALL, plaintext_footer=plaintext_footer, footer_key_metadata=b'{"what": "no KMS wrote"}')
    bp.write_table(TABLE, path, encryption=how)
    assert add_filters(path, tmp_path / "c.parquet", bloom="id", keys=ALL)[0].action == "added"


def test_file_with_external_key_material_is_changed_in_place(tmp_path: Path) -> None:
    kms = Kms()
    factory, keys = Writer(kms), bp.Keys.from_kms(None, kms.client)
    how = configuration({"k1": ["id"]}, internal_key_material=False)
    path = factory.write(TABLE, tmp_path / "a.parquet", how, row_group_size=ROWS)
    names = sorted(os.listdir(tmp_path))
    assert len(names) == 2
    with pytest.raises(bp.EncryptionError, match=r"key material of the file is in a separate file.* leave out dst"):
        add_filters(path, tmp_path / "b.parquet", bloom="id", keys=keys)
    assert sorted(os.listdir(tmp_path)) == names
    add_filters(path, bloom="id", keys=keys)
    assert_filters_hold_all(path, keys, {ID})
    assert factory.read(path).equals(TABLE)
