"""`advise` for files with unusual filters: too large, too small, empty, damaged, encrypted, of several types; and what
it says about page indexes, row groups and codecs."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.cli.advice import advice_commands, advice_report
from bloomparquet.cli.render import filters_report
from bloomparquet.planning.cache.plan_cache import process_cache
from bloomparquet.planning.dataset import Dataset
from bloomparquet.planning.parquet.open import open_row_groups
from bloomparquet.storage.files import ReadCount
from bloomparquet.writing.advice import advise as advice
from bloomparquet.writing.advice.advise import advise
from bloomparquet.writing.advice.columns import table_columns
from bloomparquet.writing.advice.sampling import take_samples
from tests.support.advice import by_column, only, printed
from tests.support.core import (
    BLOOM_LENGTH,
    BLOOM_OFFSET,
    Field,
    column_metadata,
    edit_footer,
    empty_filters,
    graft_filters,
)
from tests.support.files import hive, patch, write


def draw(seed: int, n: int = 4000) -> Any:
    return np.random.default_rng(seed).integers(0, 10**9, n)


def test_oversized_filters_shrink(tmp_path: Path) -> None:
    for i in range(4):
        graft_filters(write(tmp_path / f"{i}.parquet", {"x": draw(i)}, rows_per_group=1000), 1 << 20)
    row = only(tmp_path)
    assert (row["advice"], row["filters"]) == ("shrink", 16)
    assert row["filter_bytes_now"] == pytest.approx(16 << 20, rel=0.001)
    assert row["filter_bytes"] < 16 * 3000
    assert row["ndv_per_row_group"] == pytest.approx(1000, rel=0.01)


def test_too_small_filters_are_replaced(tmp_path: Path) -> None:
    for i in range(4):
        write(tmp_path / f"{i}.parquet", {"x": draw(i)}, {"x": {"ndv": 30, "fpp": 0.01}}, rows_per_group=1000)
    row = only(tmp_path)
    assert row["advice"] == "replace"
    assert "of absent values" in row["reason"]
    assert row["ndv_per_row_group"] == pytest.approx(1000, rel=0.02)
    assert advice_commands(advise(tmp_path), "x") == ["bloomparquet add x --columns x --replace"]


def test_empty_filters_are_dropped(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", {"x": list(range(1000, 0, -1)) * 2}, ["x"], rows_per_group=1000)
    empty_filters(path)
    row = only(path)
    assert row["advice"] == "drop"
    assert "empty" in row["reason"]
    assert advice_commands(advise(path), path) == [f"bloomparquet shrink {path}"]


def test_missing_filters_are_added_beside_existing_ones(tmp_path: Path) -> None:
    for i in range(4):
        write(tmp_path / f"{i}.parquet", {"x": draw(i)}, ["x"] if i else [], rows_per_group=1000)
    row = only(tmp_path)
    assert (row["advice"], row["filters"], row["row_groups"]) == ("add", 12, 16)
    assert row["reason"].endswith("4 of 16 row groups have no filter")
    assert len(advice_commands(advise(tmp_path), "x")) == 1
    for i in range(1, 4):
        graft_filters(write(tmp_path / f"{i}.parquet", {"x": draw(i)}), 1 << 20)
    assert advice_commands(advise(tmp_path), "x") == ["bloomparquet add x --columns x", "bloomparquet shrink x"]


def test_a_damaged_page_in_the_sample_is_a_reason(tmp_path: Path) -> None:
    for i in range(3):
        columns = {"x": draw(i), "y": draw(i)}
        path = write(tmp_path / f"{i}.parquet", columns, use_dictionary=False, compression="none")
        patch(path, pq.read_metadata(path).row_group(0).column(0).data_page_offset, b"\xff" * 16)
    advised = by_column(advise(tmp_path))
    assert advised["x"]["advice"] == "none"
    assert "could not be read" in advised["x"]["reason"]
    assert "column x" in advised["x"]["reason"]
    assert advised["y"]["advice"] == "add"


def test_files_with_different_schemas_are_one_table(tmp_path: Path) -> None:
    draws = [np.random.default_rng(i).integers(0, 2**30, 4000) for i in range(4)]
    write(tmp_path / "0.parquet", {"x": draws[0].astype(np.int32), "old": draws[0]}, rows_per_group=1000)
    write(tmp_path / "1.parquet", {"x": draws[1]}, rows_per_group=1000)
    write(tmp_path / "2.parquet", {"x": draws[2], "new": [str(value) for value in draws[2]]}, rows_per_group=1000)
    write(tmp_path / "3.parquet", {"new": [str(value) for value in draws[3]]}, rows_per_group=1000)
    advised = by_column(advise(tmp_path))
    assert {name: row["row_groups"] for name, row in advised.items()} == {"x": 12, "old": 4, "new": 8}
    assert advised["x"]["type"] == "INT32, INT64"
    assert {row["advice"] for row in advised.values()} == {"add"}
    write(tmp_path / "4.parquet", {"x": [str(value) for value in draws[3]]}, rows_per_group=1000)
    assert by_column(advise(tmp_path))["x"]["type"] == "INT32, INT64, BYTE_ARRAY (STRING)"


def test_types_that_store_values_differently_do_not_compare(tmp_path: Path) -> None:
    for i in range(6):
        values = np.random.default_rng(i).permutation(1000)
        whole = pa.array(values.astype(np.int32 if i % 2 else np.int64))
        priced = pa.array(values).cast(pa.decimal128(19, 0)).cast(pa.decimal128(25, 4 if i % 2 else 2))
        write(tmp_path / f"{i}.parquet", {"x": whole, "price": priced})
    advised = by_column(advise(tmp_path))
    for name in ("x", "price"):
        assert advised[name]["min_max_skip"] == 0
        assert advised[name]["skip_rate"] == pytest.approx(0, abs=0.05)
        assert advised[name]["advice"] == "none"


def test_partition_columns_need_no_filter(tmp_path: Path) -> None:
    parts = {f"day={day}": {"x": draw(day, 1000), "DAY": [7 + day] * 1000} for day in range(6)}
    advised = by_column(advise(hive(tmp_path, parts)))
    assert list(advised) == ["x", "DAY"]
    assert advised["x"]["advice"] == "add"
    assert "partition" in advised["DAY"]["reason"]


def test_undecryptable_columns_get_no_advice(parquet_testing_dir: Path) -> None:
    path = str(parquet_testing_dir / "encrypt_columns_plaintext_footer.parquet.encrypted")
    table = advise(path).to_pylist()
    locked = {row["column"]: row for row in table if "is encrypted" in row["reason"]}
    assert locked.keys() == {"float_field", "double_field"}
    for name, row in locked.items():
        assert (row["advice"], row["values"], row["filters"]) == ("none", 0, 0)
        assert f"the key of column {name} is not given" in row["reason"]
        assert row["false_row_groups_now"] is row["false_row_groups"] is None
    columns = {"float_field": b"1234567890123451", "double_field": b"1234567890123450"}
    opened = advise(path, keys=bp.Keys(columns=columns)).to_pylist()
    assert all(row["values"] > 0 and "encrypted" not in row["reason"] for row in opened)
    with pytest.raises(bp.EncryptionError, match=r"uniform_encryption.*the footer key is not given"):
        advise(str(parquet_testing_dir / "uniform_encryption.parquet.encrypted"))


def test_sizes_of_encrypted_filters_are_read_from_headers(parquet_testing_dir: Path) -> None:
    path = parquet_testing_dir / "encrypt_columns_and_footer_bloom_filter.parquet.encrypted"
    columns = {"float_field": b"1234567890123451", "double_field": b"1234567890123450"}
    dataset = Dataset.open(path, keys=bp.Keys(b"0123456789012345", columns))
    table = open_row_groups(dataset.storage, dataset.files, ReadCount(), cache=process_cache, keys=dataset.keys)
    known = [column for column in table_columns(table) if (column.offset >= 0).any()]
    unknown = [replace(column, length=np.full_like(column.length, -1)) for column in known]
    advised = take_samples(table, unknown, [False] * len(unknown), 0, ReadCount())
    assert len(advised) == 2
    assert [sample.sizes for sample in advised] == [column.length.tolist() for column in known]


def test_boolean_filters_by_spark_are_dropped(tmp_path: Path) -> None:
    data = {"x": draw(1), "flag": [True, False] * 2000}
    path = empty_filters(graft_filters(write(tmp_path / "x.parquet", data, rows_per_group=1000), 4096))

    def give_away(metadata: dict[int, Field]) -> None:
        for i in range(4):
            chunk, other = column_metadata(metadata, i, 0), column_metadata(metadata, i, 1)
            other[BLOOM_OFFSET], other[BLOOM_LENGTH] = chunk.pop(BLOOM_OFFSET), chunk.pop(BLOOM_LENGTH)

    advised = by_column(advise(edit_footer(path, give_away)))
    assert (advised["x"]["advice"], advised["flag"]["advice"]) == ("add", "drop")


def test_a_file_replaced_before_sampling_is_a_reason(tmp_path: Path) -> None:
    first = write(tmp_path / "t" / "x.parquet", {"x": draw(1, 10_000)}, rows_per_group=1000)
    dataset = bp.Dataset.open(tmp_path / "t")
    groups = open_row_groups(dataset.storage, dataset.files, ReadCount(), cache=process_cache, keys=dataset.keys)
    shutil.copy(write(tmp_path / "other.parquet", {"x": np.arange(10)}), first)
    (row,) = advice.advise_on(dataset, groups, 0.01, 1 << 20, ReadCount()).to_pylist()
    assert row["advice"] == "none"
    assert "could not be read" in row["reason"]


ROWS = 6_000
SCATTERED = [i * 7919 % 1_000_003 for i in range(ROWS)]
TABLE = pa.table({"id": SCATTERED, "key": list(map(str, SCATTERED))})
KEYS = bp.Keys(footer=b"0123456789abcdef", columns={"key": b"abcdef0123456789"})


def write_keys(path: Path, **options: Any) -> str:
    bp.write_table(TABLE, path, bloom=["id", "key"], row_group_size=1_000, **options)
    return str(path)


def lines(advice: pa.Table, start: str) -> list[str]:
    return [line for line in printed(advice_report(advice)).splitlines() if line.startswith(start)]


def with_rows(advice: pa.Table, rows: int) -> pa.Table:
    """`advice` on row groups of `rows` rows."""
    each = pa.array([rows * n for n in advice["row_groups"].to_pylist()])
    return advice.set_column(advice.column_names.index("rows"), "rows", each)


@pytest.mark.parametrize(("indexes", "word"), [((True, True), "yes"), ((False, False), "no"), ((True, False), "in ")])
def test_page_indexes_are_counted(tmp_path: Path, indexes: tuple[bool, bool], word: str) -> None:
    for i, has_index in enumerate(indexes):
        write_keys(tmp_path / f"{i}.parquet", write_page_index=has_index)
    advice, filters = bp.advise(str(tmp_path)), bp.inspect(str(tmp_path))
    assert advice["page_indexes"].to_pylist() == [6 * sum(indexes)] * 2
    by_file = {Path(row["file"]).name: row["page_index"] for row in filters.to_pylist()}
    assert by_file == {f"{i}.parquet": has_index for i, has_index in enumerate(indexes)}
    assert f"page index: {word}" in printed(advice_report(advice))
    assert f"page index: {word}" in printed(filters_report(filters, width=400))


def test_encrypted_files_tell_the_page_index_without_column_keys(tmp_path: Path) -> None:
    path = write_keys(tmp_path / "a.parquet", encryption=KEYS)
    advice = bp.advise(path, keys=bp.Keys(footer=KEYS.footer)).to_pylist()
    assert [row["page_indexes"] for row in advice] == [6, 6]
    assert [row["codec"] for row in advice] == ["SNAPPY", None]


def test_large_row_groups_of_lookups_get_one_line(tmp_path: Path) -> None:
    advice = bp.advise(write_keys(tmp_path / "a.parquet"))
    assert lines(advice, "row groups:") == []
    assert lines(with_rows(advice, 300_000), "row groups:") == []
    (line,) = lines(with_rows(advice, 1_000_000), "row groups:")
    assert "1,000,000 rows" in line
    bp.write_table(pa.table({"country": ["CH", "DE"] * 3_000}), tmp_path / "b.parquet", row_group_size=1_000)
    assert lines(with_rows(bp.advise(tmp_path / "b.parquet"), 1_000_000), "row groups:") == []


@pytest.mark.parametrize(("codec", "name"), [("snappy", "SNAPPY"), ("zstd", "ZSTD"), ("lz4", "LZ4_RAW")])
def test_text_keys_in_snappy_get_one_line(tmp_path: Path, codec: str, name: str) -> None:
    advice = bp.advise(write_keys(tmp_path / "a.parquet", compression=codec))
    assert advice["codec"].to_pylist() == [name, name]
    assert lines(advice, "codec:") == []
    assert len(lines(with_rows(advice, 100_000), "codec:")) == (codec == "snappy")
    assert lines(with_rows(advice.slice(0, 1), 100_000), "codec:") == []
