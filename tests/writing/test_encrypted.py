"""Writing encrypted files: with the keys, readers read them and use their filters; without, encrypted columns stay
hidden."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.parquet.thrift.definitions import FileMetaData
from bloomparquet.parquet.thrift.reader import read_struct
from tests.support.encrypted_modules import (
    BLOOM_LENGTH,
    BLOOM_OFFSET,
    TOLD_TO_ALL,
    assert_page_indexes_open,
    bitsets,
    chunks,
    filter_excerpts,
    find_secrets,
    footer_of,
    hashes,
    metadata,
    record_writes,
)
from tests.support.encrypted_writes import (
    BLOOM,
    CITY,
    FOOTER,
    GROUPS,
    HOW,
    ID,
    IDS,
    KINDS,
    NAME,
    ROWS,
    TABLE,
    TAG,
    N,
    X,
    write,
)
from tests.support.stored import lacking


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
        encrypted = [
            window for chunk_id, bitset in filters.items() if chunk_id[1] == leaf for window in filter_excerpts(bitset)
        ]
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
    (ours, _), (theirs, _) = (
        read_struct(footer_of(each, keys).raw, FileMetaData) for each, keys in ((path, case.keys), (twin, None))
    )
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
        outcomes = [
            bp.write_table(table, tmp_path / f"{given}", bloom=bloom, row_group_size=ROWS, encryption=given)
            for given in (None, keys)
        ]
        assert "row" not in {column.column for column in outcomes[1].columns}
        assert outcomes[0].columns == outcomes[1].columns
        assert outcomes[1].filters >= 2
        assert outcomes[1].action == "written"
        assert outcomes[1].bytes_after == (tmp_path / f"{keys}").stat().st_size
        assert bitsets(tmp_path / f"{keys}", keys) == bitsets(tmp_path / "None", None)


@pytest.mark.parametrize("rows", [0, 1])
def test_empty_table_keeps_its_schema(tmp_path: Path, rows: int) -> None:
    case = KINDS["kms single"]("AES_GCM_V1", False, 128)
    path = write(tmp_path / "a.parquet", case, TABLE.slice(0, rows))
    assert pq.read_table(path, decryption_properties=case.pyarrow).equals(TABLE.slice(0, rows))
    assert bp.read_table(path, keys=case.keys).equals(TABLE.slice(0, rows))


def test_columns_with_equal_names_are_both_encrypted(tmp_path: Path) -> None:
    case = KINDS["kms single"]("AES_GCM_V1", False, 128)
    twice = pa.table([TABLE["id"], TABLE["name"], TABLE["id"], TABLE["st"]], names=["id", "name", "id", "st"])
    path = write(tmp_path / "a.parquet", case, twice, bloom="name")
    assert find_secrets(Path(path).read_bytes(), [int(i).to_bytes(8, "little") for i in IDS]) == []
    sums = [footer_of(path, case.keys).read_chunk_with_cipher(0, leaf)[0].max_value for leaf in (0, 2)]
    assert sums == [int(max(IDS[:ROWS])).to_bytes(8, "little")] * 2
