"""Rows read by decoding only the pages that hold them are those that pyarrow reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bloomparquet.parquet.pages.image import find_column, read_rows
from tests.support.page_files import check_file, flat_table, footer_of, nested_table, reader_of

pytestmark = pytest.mark.slow

CODECS = [(codec, version) for version in ("1.0", "2.0") for codec in ("none", "snappy")]
CODECS += [("gzip", "1.0"), ("brotli", "1.0"), ("zstd", "2.0"), ("lz4", "2.0")]
MANY_PAGES = {"data_page_size": 300, "write_batch_size": 50, "row_group_size": 4_000}
TWO_GROUPS = {**MANY_PAGES, "row_group_size": 2_000}


@pytest.mark.parametrize(("codec", "version"), CODECS)
def test_flat_columns_of_pyarrow(tmp_path: Path, version: str, codec: str) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(
        flat_table(3_000), path, data_page_version=version, compression=codec, dictionary_pagesize_limit=8_000,
        write_page_index=version == "2.0", **TWO_GROUPS,
    )  # fmt: skip
    assert check_file(path) > 0.8


@pytest.mark.parametrize(
    ("encoding", "columns"),
    [
        ("PLAIN", ["int64", "int32", "text", "sparse_text", "decimal", "double"]),
        ("DELTA_BINARY_PACKED", ["int64", "int32"]),
        ("DELTA_LENGTH_BYTE_ARRAY", ["text", "sparse_text"]),
        ("DELTA_BYTE_ARRAY", ["text", "sparse_text", "decimal"]),
        ("BYTE_STREAM_SPLIT", ["int64", "int32", "double", "decimal"]),
        ("RLE", ["bool"]),
    ],
)
def test_encodings(tmp_path: Path, encoding: str, columns: list[str]) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(
        flat_table(3_000).select(columns), path, use_dictionary=False, column_encoding=dict.fromkeys(columns, encoding),
        write_page_index=True, **TWO_GROUPS,
    )  # fmt: skip
    assert check_file(path) > 0.8


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_nested_columns(tmp_path: Path, version: str) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(
        nested_table(3_000), path, data_page_version=version, dictionary_pagesize_limit=8_000, write_page_index=True,
        **TWO_GROUPS,
    )  # fmt: skip
    # A version 1 page may hold a part of a list: only the two structs are read by pages.
    assert check_file(path) > (0.25 if version == "1.0" else 0.5)


def test_required_structs_are_filled_up(tmp_path: Path) -> None:
    base = flat_table(4_000)
    names = ["int64", "text", "few_texts"]
    kind = pa.struct([pa.field(name, base.schema.field(name).type, nullable=False) for name in names])
    columns = [base[name].combine_chunks() for name in names]
    fixed = pa.array([text.as_py().encode()[-3:] for text in base["text"]], pa.binary(3))
    flags = pa.array([number % 2 == 0 for number in range(4_000)])
    kind = pa.struct([*kind, pa.field("fixed", pa.binary(3), False), pa.field("flag", pa.bool_(), False)])
    struct = pa.StructArray.from_arrays([*columns, fixed, flags], fields=list(kind))
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.table([struct], pa.schema([pa.field("s", kind, nullable=False)])), path, use_dictionary=["s.few_texts"],
        **MANY_PAGES,
    )  # fmt: skip
    assert check_file(path) > 0.8


def test_types_of_arrow(tmp_path: Path) -> None:
    """Types that only the stored Arrow schema tells."""
    base = flat_table(4_000)
    texts = base["text"].combine_chunks()
    table = pa.table({
        "large": texts.cast(pa.large_string()),
        "view": texts.cast(pa.string_view()),
        "dictionary": base["few_texts"].combine_chunks().dictionary_encode(),
        "duration": base["int64"].cast(pa.duration("ms")),
        "zone": base["int64"].cast(pa.timestamp("ms", "Europe/Zurich")),
        "null": pa.nulls(4_000),
        "half": base["few"].cast(pa.float16()),
        "json": pa.ExtensionArray.from_storage(pa.json_(), texts),
        "fixed_list": pa.FixedSizeListArray.from_arrays(base["int64"].combine_chunks(), 1),
        "uint32": pa.array(np.arange(4_000), pa.uint32()),
        "time": pa.array(np.arange(4_000), pa.time64("ns")),
    })  # fmt: skip
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, dictionary_pagesize_limit=8_000, data_page_version="2.0", **MANY_PAGES)
    assert check_file(path) > 0.8


def test_fields_keep_their_metadata_and_ids(tmp_path: Path) -> None:
    field = pa.field("inner", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "7", "comment": "of inner"})
    kind = pa.struct([field, pa.field("text", pa.string())])
    base = flat_table(4_000)
    struct = pa.StructArray.from_arrays([base["int64"].combine_chunks(), base["text"].combine_chunks()], fields=[*kind])
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": base["few"], "s": struct}), path, use_dictionary=False, **MANY_PAGES)
    footer, read = footer_of(path), reader_of(path)
    pages = find_column(footer, 0, 1, read)
    values = read_rows(pages, np.array([9]), read)
    expected = pq.ParquetFile(path).read_row_group(0).schema.field("s").type
    assert values.type.field(0).equals(expected.field(0), check_metadata=True)


def test_int96_is_read_as_microseconds(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"a": pa.array(np.arange(4_000) * 1_000_000, pa.timestamp("us"))})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True, **MANY_PAGES)
    assert check_file(path) == 1


def test_the_dictionary_is_read_only_for_pages_that_use_it(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"a": pa.array([f"text {i}" for i in range(4_000)])})
    pq.write_table(table, path, dictionary_pagesize_limit=20_000, **MANY_PAGES)
    log: list[tuple[int, int]] = []
    footer, read = footer_of(path), reader_of(path, log)
    pages = find_column(footer, 0, 0, read)
    dictionary = pages.chunks[0].dictionary
    for row, uses_it in [(0, True), (3_999, False)]:
        log.clear()
        values = read_rows(pages, np.array([row]), read)
        assert values.to_pylist() == [f"text {row}"]
        assert (dictionary in log) is uses_it


def test_most_pages_are_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(flat_table(4_000).select(["int64"]), path, use_dictionary=False, **MANY_PAGES)
    footer, read = footer_of(path), reader_of(path)
    pages = find_column(footer, 0, 0, read)
    assert read_rows(pages, np.arange(4_000), read) is None
    half = read_rows(pages, np.arange(2_000), read)
    assert len(half) == 2_000


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.decimal128(9, 2)])
def test_values_of_a_dictionary_have_the_type_of_the_column(kind: pa.DataType, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    values = pa.array([None, "1", "2.50"] * 20_000).cast(kind)
    pq.write_table(pa.table({"a.b": values, "n": [1] * len(values)}), path)
    pages, read = find_column(footer_of(path), 0, 0, reader_of(path)), reader_of(path)
    rows = read_rows(pages, np.array([0, 1, 2_999]), read)
    assert rows.type == kind
    assert rows.to_pylist() == [values[i].as_py() for i in (0, 1, 2_999)]


@pytest.mark.parametrize("options", [{}, {"write_page_index": True}])
def test_the_index_spares_the_headers(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(flat_table(4_000).select(["text"]), path, use_dictionary=False, **MANY_PAGES, **options)
    log: list[tuple[int, int]] = []
    pages = find_column(footer_of(path), 0, 0, reader_of(path, log), by_index=True)
    assert (len(log) == 1) is bool(options)
    assert len(pages.chunks[0].start) > 10
