"""Damaged page headers and indexes are an error, or the column is read whole; never are other rows read."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.parquet.metadata.footer import parse_footer
from bloomparquet.parquet.pages.headers import DATA_PAGE, DATA_PAGE_V2, PLAIN, RLE
from bloomparquet.parquet.pages.image import find_column, read_rows
from bloomparquet.parquet.pages.places import parse_offset_index
from bloomparquet.parquet.thrift.definitions import (
    ColumnChunk,
    ColumnMetaData,
    DataPageHeader,
    DataPageHeaderV2,
    FileMetaData,
    OffsetIndex,
    PageHeader,
    PageLocation,
    RowGroup,
    SchemaElement,
)
from bloomparquet.parquet.thrift.reader import read_struct
from bloomparquet.parquet.thrift.struct import BINARY
from bloomparquet.parquet.thrift.writer import write_struct
from tests.support.core import read_footer
from tests.support.page_files import SEED, flat_table, footer_of, nested_table, reader_of, taken

FLIPS = int(os.environ.get("BLOOMPARQUET_FLIPS", "150"))
COLUMNS = ["int64", "text", "few_texts", "struct", "list", "list_of_structs", "map"]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One row group with many pages and an index; most columns have a dictionary that some pages do not use."""
    path = tmp_path_factory.mktemp("damage") / "sound.parquet"
    table = flat_table(2_000).select(COLUMNS[:3])
    for name in COLUMNS[3:]:
        table = table.append_column(name, nested_table(2_000)[name])
    pq.write_table(
        table, path, data_page_version="2.0", write_page_index=True, data_page_size=300, write_batch_size=50,
        dictionary_pagesize_limit=4_000,
    )  # fmt: skip
    return path


def read_damaged(path: Path, column: int, rows: np.ndarray, by_index: bool) -> pa.Array | None:
    """The rows of a column; None where its row group is to be read whole."""
    read = reader_of(path)
    try:
        pages = find_column(footer_of(path), 0, column, read, by_index=by_index)
        return None if pages is None else read_rows(pages, rows, read)
    except bp.BloomParquetError:
        return None


def whole_or_none(path: Path, name: str, rows: np.ndarray) -> pa.Array | None:
    try:
        return taken(pq.ParquetFile(path).read_row_group(0, columns=[name])[name], rows)
    except (OSError, pa.ArrowException, IndexError):
        return None


def check_flips(sound: Path, path: Path, extents: Callable[[int], list[tuple[int, int]]], by_index: bool) -> None:
    """Flip bits in the `extents` of each column, one by one, and read some rows."""
    rng = np.random.default_rng(SEED)
    data = sound.read_bytes()
    unread = total = 0
    for column, name in enumerate(COLUMNS):
        places = extents(column)
        for _ in range(FLIPS // len(COLUMNS) + 1):
            start, end = places[rng.integers(0, len(places))]
            damaged = bytearray(data)
            damaged[rng.integers(start, end)] ^= 1 << int(rng.integers(0, 8))
            path.write_bytes(damaged)
            rows = np.unique(rng.integers(0, 2_000, 3))
            values = read_damaged(path, column, rows, by_index)
            total += 1
            unread += values is None
            if values is not None and not values.equals(whole_or_none(sound, name, rows)):
                assert values.equals(whole_or_none(path, name, rows)), (name, rows)
    assert 0 < unread < total


def test_flipped_bits_in_headers_give_no_other_rows(sound: Path, tmp_path: Path) -> None:
    footer, read = footer_of(sound), reader_of(sound)

    def headers(column: int) -> list[tuple[int, int]]:
        pages = find_column(footer, 0, column, read)
        starts = [start for chunk in pages.chunks for start in chunk.start.tolist()]
        starts += [chunk.dictionary[0] for chunk in pages.chunks if chunk.dictionary]
        return [(start, read_struct(read(start, start + 1_000), PageHeader)[1] + start) for start in starts]

    check_flips(sound, tmp_path / "a.parquet", headers, by_index=False)


def test_flipped_bits_in_indexes_give_no_other_rows(sound: Path, tmp_path: Path) -> None:
    chunks = read_struct(footer_of(sound).raw, FileMetaData)[0].row_groups[0].columns

    def indexes(column: int) -> list[tuple[int, int]]:
        own = [chunk for chunk in chunks if (chunk.meta_data or ColumnMetaData()).path_in_schema[0] == names[column]]
        return [(c.offset_index_offset or 0, (c.offset_index_offset or 0) + (c.offset_index_length or 0)) for c in own]

    names = [name.encode() for name in COLUMNS]
    check_flips(sound, tmp_path / "a.parquet", indexes, by_index=True)


@pytest.mark.parametrize(
    "locations",
    [
        [],
        [(5, 15, 0), (20, 10, 3)],
        [(4, 15, 0), (20, 10, 3)],
        [(4, 16, 0), (20, 11, 3)],
        [(4, 16, 1), (20, 10, 3)],
        [(4, 16, 0), (20, 10, 8)],
        [(4, 16, 0), (20, 5, 3), (25, 5, 2)],
        [(4, 26, 0), (30, -5, 3), (25, 5, 4)],
    ],
)
def test_an_index_must_cover_the_chunk(locations: list[tuple[int, int, int]]) -> None:
    with pytest.raises(bp.FormatError, match="the offset index"):
        parse_offset_index(offset_index(locations), 4, 30, 7)


def test_a_number_of_an_index_must_be_an_integer() -> None:
    index, _ = read_struct(offset_index([(4, 16, 0), (20, 10, 3)]), OffsetIndex)
    index.page_locations[1].put(PageLocation.first_row_index.id, BINARY, b"3")
    with pytest.raises(bp.FormatError, match="has a field of another type"):
        parse_offset_index(write_struct(index), 4, 30, 7)


def test_an_index_gives_extents_and_rows() -> None:
    start, end, first_row = parse_offset_index(offset_index([(4, 16, 0), (20, 10, 3)]), 4, 30, 7)
    assert [start.tolist(), end.tolist(), first_row.tolist()] == [[4, 20], [20, 30], [0, 3, 7]]


def test_an_index_may_have_many_pages() -> None:
    pages = 100_000
    start, _, _ = parse_offset_index(offset_index([(4 + 9 * i, 9, i) for i in range(pages)]), 4, 4 + 9 * pages, pages)
    assert len(start) == pages


def offset_index(locations: list[tuple[int, int, int]]) -> bytes:
    return write_struct(
        OffsetIndex(
            page_locations=[
                PageLocation(offset=offset, compressed_page_size=size, first_row_index=row)
                for offset, size, row in locations
            ]
        )
    )


def page(version: int, values: list[int]) -> bytes:
    """A page of a required INT64 column."""
    body = np.array(values, "<i8").tobytes()
    header = PageHeader(
        type=DATA_PAGE if version == 1 else DATA_PAGE_V2, uncompressed_page_size=len(body),
        compressed_page_size=len(body),
    )  # fmt: skip
    if version == 1:
        header.data_page_header = DataPageHeader(
            num_values=len(values), encoding=PLAIN, definition_level_encoding=RLE, repetition_level_encoding=RLE
        )
    else:
        header.data_page_header_v2 = DataPageHeaderV2(
            num_values=len(values), num_nulls=0, num_rows=len(values), encoding=PLAIN,
            definition_levels_byte_length=0, repetition_levels_byte_length=0, is_compressed=False,
        )  # fmt: skip
    return write_struct(header) + body


def forged(pages: list[bytes], values: int, *, rows: int | None = None) -> tuple[bytes, bytes]:
    """A file of one column, without its footer, and the footer."""
    body = b"".join(pages)
    metadata = ColumnMetaData(
        type=2, encodings=[0], path_in_schema=[b"a"], codec=0, num_values=values, total_uncompressed_size=len(body),
        total_compressed_size=len(body), data_page_offset=4,
    )  # fmt: skip
    group = RowGroup(
        columns=[ColumnChunk(file_offset=0, meta_data=metadata)], total_byte_size=len(body), num_rows=rows or values
    )
    schema = [SchemaElement(name=b"root", num_children=1), SchemaElement(name=b"a", type=2, repetition_type=0)]
    return b"PAR1" + body, write_struct(FileMetaData(version=1, schema=schema, num_rows=values, row_groups=[group]))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("empty", [[0], [1], [2], [0, 0, 1, 1, 2, 2, 3]])
def test_empty_pages_are_left_out(version: int, empty: list[int]) -> None:
    """pyarrow reads no row of a chunk whose first page is empty."""
    pages = [page(version, list(range(i, i + 10))) for i in (0, 10, 20)]
    for i in reversed(empty):
        pages.insert(i, page(version, []))
    data, raw = forged(pages, 30)
    read = memoryview(data)
    column = find_column(parse_footer(raw), 0, 0, lambda start, end: read[start:end])
    for rows in ([0], [10], [29], [9, 10], [0, 19], [10, 25]):
        values = read_rows(column, np.array(rows), lambda start, end: read[start:end])
        assert values.to_pylist() == rows


@pytest.mark.parametrize(
    ("values", "rows", "message"),
    [
        (29, 29, "the pages of the column chunk have 30 values"),
        (31, 31, "end inside"),
        (30, 31, "the pages of the column chunk have 30 rows"),
    ],
)
def test_pages_must_add_up(values: int, rows: int, message: str) -> None:
    data, raw = forged([page(1, list(range(15))), page(1, list(range(15)))], values, rows=rows)
    with pytest.raises(bp.FormatError, match=message):
        find_column(parse_footer(raw), 0, 0, lambda start, end: data[start:end])


def test_another_page_than_the_found_one_is_an_error() -> None:
    data, raw = forged([page(1, list(range(10)))] * 3, 30)
    column = find_column(parse_footer(raw), 0, 0, lambda start, end: data[start:end])
    assert column is not None
    for changed in (
        forged([page(1, list(range(size))) for size in (9, 11, 10)], 30)[0],
        forged([page(2, list(range(10)))] * 3, 30)[0],
        data[:60],
    ):
        with pytest.raises(bp.FormatError):
            read_rows(column, np.array([5, 12]), lambda start, end, changed=changed: changed[start:end])
    shifted = replace(column.chunks[0], first_row=np.array([0, 9, 20, 30]))
    with pytest.raises(bp.FormatError, match="expected a data page of 9 rows"):
        read_rows(replace(column, chunks=(shifted,)), np.array([5, 12]), lambda start, end: data[start:end])


def test_a_page_of_lists_must_have_as_many_rows_as_it_claims(tmp_path: Path) -> None:
    """One page claims a row more than it has, and the next one a row less: without an error, rows would be shifted."""
    path = tmp_path / "a.parquet"
    table = pa.table({"a": [[i, i] for i in range(1_000)]})
    pq.write_table(
        table, path, data_page_version="2.0", use_dictionary=False, data_page_size=300, write_batch_size=50,
        write_page_index=False,
    )  # fmt: skip
    data, footer = bytearray(path.read_bytes()), footer_of(path)
    pages = find_column(footer, 0, 0, reader_of(path))
    for page_number, claimed in [(1, 26), (2, 24)]:
        start = int(pages.chunks[0].start[page_number])
        header, end = read_struct(bytes(data), PageHeader, start)
        assert header.data_page_header_v2.num_rows == 25
        header.data_page_header_v2.num_rows = claimed
        data[start:end] = write_struct(header)
    path.write_bytes(data)
    column = find_column(footer, 0, 0, reader_of(path))
    assert column.chunks[0].first_row[:4].tolist() == [0, 25, 51, 75]
    with pytest.raises(bp.FormatError, match="the pages have 25 rows; expected 24"):
        read_rows(column, np.array([60]), reader_of(path))


def test_encrypted_columns_are_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(flat_table(100).select(["int64"]), path)
    metadata, _ = read_struct(read_footer(str(path)), FileMetaData)
    metadata.row_groups[0].columns[0].encrypted_column_metadata = b"secret"
    assert find_column(parse_footer(write_struct(metadata)), 0, 0, reader_of(path)) is None


def test_an_index_beyond_the_dictionary_is_an_error(tmp_path: Path) -> None:
    """pyarrow does not check the indexes of a column that it reads as a dictionary."""
    path, rows = tmp_path / "x.parquet", 40_000
    texts = pa.array([["x", "yy", "zzz"][i % 3] for i in range(rows)])
    pq.write_table(pa.table({"a": texts}), path, compression="none")
    chunk, data = pq.read_metadata(path).row_group(0).column(0), bytearray(path.read_bytes())
    start = chunk.data_page_offset + chunk.total_compressed_size // 4
    data[start : start + 8] = b"\xff" * 8  # the index 3, in two bits
    path.write_bytes(data)
    around = range(rows // 4 - 500, rows // 4 + 500)
    values = [read_damaged(path, 0, np.array([row]), by_index=False) for row in around]
    assert None in values, "a named error"
    for row, value in zip(around, values, strict=True):
        assert value is None or value.to_pylist() == [texts[row].as_py()]
