"""Where pyarrow reads fewer rows than a row group has, reading is an error: it stops at some empty data pages."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bloomparquet as bp
from bloomparquet.parquet.metadata.file_tail import TRAILER
from bloomparquet.parquet.pages import headers
from bloomparquet.parquet.thrift.definitions import DataPageHeader, DataPageHeaderV2, FileMetaData, PageHeader
from bloomparquet.parquet.thrift.reader import CompactReader
from bloomparquet.parquet.thrift.struct import I32
from bloomparquet.parquet.thrift.writer import write_struct
from bloomparquet.storage.files import LocalStorage
from bloomparquet.tables.iceberg_deletes import PositionDeleteFile
from tests.support.core import read_footer

_ROWS = 3_000
_DATA = {
    "id": pa.array(range(_ROWS)),
    "name": pa.array([f"n{i}" for i in range(_ROWS)]),
    "pair": pa.array([{"a": i, "b": i} for i in range(_ROWS)]),
    "items": pa.array([[i, i] for i in range(_ROWS)]),
    "map": pa.array([[(str(i), i)] for i in range(_ROWS)], pa.map_(pa.string(), pa.int64())),
}
_LEAVES = ["id", "name", "pair", "pair", "items", "map", "map"]


def write(path: Path, version: int = 1, **options: object) -> str:
    """A file of three row groups."""
    pq.write_table(
        pa.table(_DATA), path, row_group_size=1_000, compression="none", data_page_version=f"{version}.0", **options
    )
    return str(path)


def insert_empty_pages(
    path: Path | str, row_group: int, leaf: int, *, version: int = 1, after: int = 0, pages: int = 1
) -> str:
    """Give a chunk of an uncompressed file empty data `pages` behind the first `after` data pages."""
    data, footer = Path(path).read_bytes(), read_footer(str(path))
    metadata = CompactReader(footer).read_struct(FileMetaData)
    chunk = metadata.row_groups[row_group].columns[leaf]
    fields = chunk.meta_data
    assert fields.codec == 0
    start = fields.dictionary_page_offset or fields.data_page_offset
    dictionary = data[start : fields.data_page_offset]
    data_pages = data[fields.data_page_offset : start + fields.total_compressed_size]
    empty = pages * _empty_page(version, pq.ParquetFile(path).schema.column(leaf))
    body = data[: len(data) - TRAILER - len(footer)]
    if fields.dictionary_page_offset:
        fields.dictionary_page_offset = len(body)
    fields.data_page_offset = len(body) + len(dictionary)
    fields.total_compressed_size += len(empty)
    fields.total_uncompressed_size += len(empty)
    chunk.offset_index_offset = chunk.offset_index_length = None
    chunk.column_index_offset = chunk.column_index_length = None
    there = headers.walk_pages(dictionary + data_pages, fields.num_values).data
    at = there[after].start - len(dictionary)
    body += dictionary + data_pages[:at] + empty + data_pages[at:]
    new_footer = write_struct(metadata)
    Path(path).write_bytes(body + new_footer + len(new_footer).to_bytes(4, "little") + b"PAR1")
    return str(path)


def _empty_page(version: int, column: pq.ColumnSchema) -> bytes:
    levels = (column.max_repetition_level > 0) + (column.max_definition_level > 0)
    body = bytes(4 * levels) if version == 1 else b""  # version 1 stores the length of the levels, here 0
    header = PageHeader(type=headers.DATA_PAGE, uncompressed_page_size=len(body), compressed_page_size=len(body))
    if version == 1:
        header.data_page_header = DataPageHeader(
            num_values=0,
            encoding=headers.PLAIN,
            definition_level_encoding=headers.RLE,
            repetition_level_encoding=headers.RLE,
        )
    else:
        header.type = headers.DATA_PAGE_V2
        header.data_page_header_v2 = DataPageHeaderV2(
            num_values=0,
            num_rows=0,
            encoding=headers.PLAIN,
            definition_levels_byte_length=0,
            repetition_levels_byte_length=0,
        )
        header.data_page_header_v2.put(2, I32, 0)  # num_nulls
    return write_struct(header) + body


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("leaf", range(len(_LEAVES)))
def test_an_empty_first_page_loses_no_rows(tmp_path: Path, version: int, leaf: int) -> None:
    path = insert_empty_pages(write(tmp_path / "a.parquet", version), 1, leaf, version=version)
    message = rf"a\.parquet: row group 1: column {_LEAVES[leaf]}: .*expected 1000"
    for columns in (None, [_LEAVES[leaf]], ["id", _LEAVES[leaf]]):
        with pytest.raises(bp.FormatError, match=message):
            bp.read_table(path, columns=columns)
    assert bp.read_table(path, "id >= 2000", ["id", _LEAVES[leaf]]).num_rows == 1_000
    others = [name for name in _DATA if name != _LEAVES[leaf]]
    assert bp.read_table(path, columns=others).equals(pa.table(_DATA).select(others))


def test_the_found_and_the_expected_rows_are_named(tmp_path: Path) -> None:
    path = insert_empty_pages(write(tmp_path / "a.parquet"), 0, 1)
    with pytest.raises(bp.FormatError, match="row group 0: column name: pyarrow read 0 rows; expected 1000"):
        bp.read_table(path, "name = 'n7'", ["id"])


def test_empty_pages_between_others_lose_no_rows(tmp_path: Path) -> None:
    """Two empty pages behind each other make pyarrow end a batch early; values of other columns would move."""
    path = tmp_path / "a.parquet"
    data = pa.table({"a": range(200_000), "b": range(200_000)})
    pq.write_table(data, path, compression="none", use_dictionary=False, data_page_size=80_000, write_batch_size=100)
    insert_empty_pages(path, 0, 1, after=3, pages=2)
    equal: list[bool] = []
    with pytest.raises(bp.FormatError, match=r"column b: .*expected 200000"):
        equal.extend(batch["a"].equals(batch["b"]) for batch in bp.scan_batches(str(path)))
    assert all(equal)


@pytest.mark.parametrize("version", [1, 2])
def test_filters_of_chunks_with_empty_pages_hold_all(tmp_path: Path, version: int) -> None:
    """A filter of the values that pyarrow reads would exclude the others."""
    path = insert_empty_pages(write(tmp_path / "a.parquet", version), 0, 0, version=version)
    before = Path(path).read_bytes()
    message = "row group 0, column id: 0 rows were decoded; expected 1000"
    with pytest.raises(bp.FormatError, match=message):
        bp.add_filters(path, bloom=["id"])
    index = bp.build_index(path, columns={"id": bp.Bloom()}, to=tmp_path / "_index")
    assert message in index.left_out[path]
    assert Path(path).read_bytes() == before


def test_position_deletes_behind_an_empty_page_count(tmp_path: Path) -> None:
    path = tmp_path / "deletes.parquet"
    pq.write_table(pa.table({"file_path": ["a", "a"], "pos": [1, 2]}), path, compression="none")
    for leaf in (0, 1):
        insert_empty_pages(path, 0, leaf)
    with pytest.raises(bp.FormatError, match=r"deletes\.parquet: pyarrow read 0 rows .* expected 2"):
        PositionDeleteFile(str(path)).read(LocalStorage(), "a")


def test_the_inserted_pages_are_within_the_format(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = write(tmp_path / "a.parquet")
    for leaf in range(len(_LEAVES)):
        insert_empty_pages(path, 0, leaf)
    assert CompactReader(read_footer(path)).read_struct(FileMetaData).num_rows == _ROWS
    assert duckdb.sql(f"SELECT count(*), count(name), sum(id) FROM '{path}'").fetchall() == [(
        _ROWS, _ROWS, sum(range(_ROWS)),
    )]  # fmt: skip
