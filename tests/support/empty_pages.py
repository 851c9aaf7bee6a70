"""Files with data pages without values, which the format allows."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from bloomparquet.parquet.metadata.file_tail import TRAILER
from bloomparquet.parquet.pages import headers
from bloomparquet.parquet.thrift.definitions import DataPageHeader, DataPageHeaderV2, FileMetaData, PageHeader
from bloomparquet.parquet.thrift.reader import CompactReader
from bloomparquet.parquet.thrift.struct import I32
from bloomparquet.parquet.thrift.writer import write_struct
from tests.support.core import read_footer


def insert_empty_pages(
    path: Path | str, row_group: int, leaf: int, *, version: int = 1, after: int = 0, pages: int = 1
) -> str:
    """Give a chunk of an uncompressed file empty data `pages` behind the first `after` data pages."""
    data, footer = Path(path).read_bytes(), read_footer(str(path))
    metadata = CompactReader(footer).read_struct(FileMetaData)
    chunk = metadata.row_groups[row_group].columns[leaf]
    fields = chunk.meta_data
    assert fields is not None
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
