"""The stored values of one column chunk, and the Bloom filter of them.

What a filter holds is the hash of each value as it is stored, whatever it means. So pyarrow, which has every encoding
and every codec, is shown the chunk through a footer of our own making that says nothing of meanings: integers are
integers whatever unit they count, text is bytes, INT96 is twelve bytes. No conversion can come between the file and
the hash, and nothing in the file's own footer can trouble pyarrow. An encrypted chunk is opened before.

Of a chunk that is dictionary encoded throughout only the dictionary is decoded, but for lists.

Sources: parquet-format ``BloomFilter.md``, ``Encodings.md``; parquet.thrift (FileMetaData).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bloomparquet.errors import BloomParquetError, FormatError, shorten
from bloomparquet.parquet.bloom_filter.split_block import BYTES_PER_BLOCK, SplitBlockBloomFilter
from bloomparquet.parquet.metadata.file_tail import MAGIC
from bloomparquet.parquet.metadata.footer import Footer
from bloomparquet.parquet.pages import headers as pages
from bloomparquet.parquet.pages.decrypted_row_group import append_decrypted, chunk_extent, chunk_metadata
from bloomparquet.parquet.thrift.definitions import (
    PHYSICAL_TYPES,
    REPETITIONS,
    ColumnChunk,
    ColumnMetaData,
    DataPageHeader,
    FileMetaData,
    PageHeader,
    RowGroup,
    SchemaElement,
)
from bloomparquet.parquet.thrift.reader import read_struct
from bloomparquet.parquet.thrift.writer import write_struct
from bloomparquet.query.columns import LeafColumn, SchemaNode
from bloomparquet.query.names import dotted_name
from bloomparquet.query.nested import leaf_arrays
from bloomparquet.storage.files import FileInfo, ReadCount, Storage
from bloomparquet.storage.ranges import read_ranges
from bloomparquet.writing.filters.build import fill, num_bytes_for
from bloomparquet.writing.filters.spec import Bloom

_LEAST_BATCH = 1 << 16
"""Values decoded at a time: few enough to stay in a core's cache; more for a large filter, as each batch costs one."""
_MOST_BATCH_BYTES = 64 << 20

_BEFORE = len(MAGIC)
_PLAIN = {pages.PLAIN, pages.PLAIN_DICTIONARY}
"""Encodings of a dictionary page; files of old have the second for the first."""
_INT96_BYTES = 12


def filter_chunk(
    storage: Storage, file: FileInfo, footer: Footer, row_group: int, leaf: LeafColumn, bloom: Bloom, count: ReadCount
) -> SplitBlockBloomFilter | None:
    """The filter of one column chunk, of the size that its values need; None of a chunk without values.

    Reads the chunk in one request and holds it, with one decoded batch and the filter; an encrypted one is opened
    first, and held twice for that time. Raises errors that name the chunk: FormatError where it is damaged,
    EncryptionError where its key is not at hand or it was altered.
    """
    try:
        return _filter_chunk(storage, file, footer, row_group, leaf, bloom, count)
    except (BloomParquetError, pa.ArrowException) as error:
        what = next(iter(str(error).splitlines()), type(error).__name__)
        kind = type(error) if isinstance(error, BloomParquetError) else FormatError
        raise kind(f"{file.path}: row group {row_group}, column {shorten(dotted_name(leaf.path))}: {what}") from error


def _filter_chunk(
    storage: Storage, file: FileInfo, footer: Footer, row_group: int, leaf: LeafColumn, bloom: Bloom, count: ReadCount
) -> SplitBlockBloomFilter | None:
    fields, cipher = footer.read_chunk_with_cipher(row_group, leaf.index)
    values = fields.values
    if not values:
        return None
    metadata = chunk_metadata(footer, row_group, leaf)
    rows = footer.rows[row_group]
    if not leaf.repeated and values != rows:
        raise FormatError(f"the column chunk has {values} values, but its row group has {rows} rows")
    start, length = chunk_extent(fields, file.size - footer.size)
    # With the bytes before it, for to pyarrow a dictionary at byte 0 is none.
    at, size = np.array([start - _BEFORE]), np.array([length + _BEFORE])
    buffer = read_ranges(storage, [file.path], np.array([0]), at, size, count).buffer
    if cipher is not None:
        opened = bytearray(_BEFORE)
        append_decrypted(opened, buffer.data[_BEFORE:], fields, cipher, footer)
        buffer = np.frombuffer(opened, np.uint8)
    body = buffer.data[_BEFORE:]
    chunk = pages.walk_pages(body, values)
    # How many values a list column has only its metadata says: all of them are decoded, to see that its rows are there.
    dictionary_tells = chunk.is_dictionary_encoded and not leaf.repeated
    if dictionary_tells and chunk.dictionary is not None and chunk.dictionary.encoding in _PLAIN:
        one_page = _dictionary_as_data(body, chunk.dictionary)
        entries = chunk.dictionary.values
        if not entries:  # all values are null
            return fill(leaf, iter(()), BYTES_PER_BLOCK, bloom)
        elements, num_bytes = [_leaf_element(leaf.node, "REQUIRED")], num_bytes_for(bloom, entries)
        arrays = _decode(one_page, metadata, elements, entries, entries, footer, num_bytes)
        return fill(leaf, arrays, num_bytes, bloom)
    # The number of nulls would tell that less is enough; but nothing holds a footer to it.
    elements, num_bytes = _path_elements(footer.profile.schema.root, leaf), num_bytes_for(bloom, values)
    whole = pa.py_buffer(buffer[: _BEFORE + chunk.end])
    arrays = _decode(whole, metadata, elements, values, rows, footer, num_bytes, chunk)
    return fill(leaf, arrays, num_bytes, bloom)


def _dictionary_as_data(buffer: memoryview, dictionary: pages.Page) -> pa.Buffer:
    """A dictionary page as a data page of a column without nulls: the entries are PLAIN in either."""
    header = PageHeader(
        type=pages.DATA_PAGE,
        uncompressed_page_size=dictionary.uncompressed_size,
        compressed_page_size=dictionary.size,
        crc=dictionary.crc,  # it is that of the page's bytes, which are the same
        data_page_header=DataPageHeader(
            num_values=dictionary.values,
            encoding=pages.PLAIN,
            definition_level_encoding=pages.RLE,
            repetition_level_encoding=pages.RLE,
        ),
    )
    return pa.py_buffer(
        bytes(_BEFORE) + write_struct(header) + buffer[dictionary.body : dictionary.body + dictionary.size]
    )


def _decode(
    pages_of_chunk: pa.Buffer,
    metadata: ColumnMetaData,
    elements: list[SchemaElement],
    values: int,
    rows: int,
    footer: Footer,
    num_bytes: int,
    found: pages.Chunk | None = None,
) -> Iterator[pa.Array]:
    """The values of pages as arrays of their physical type. The pages lie `_BEFORE` bytes into the buffer, as `found`;
    None is a single data page."""
    chunk = ColumnMetaData(
        type=elements[-1].type,
        encodings=metadata.encodings,
        path_in_schema=[element.name for element in elements],
        codec=metadata.codec,
        num_values=values,
        total_uncompressed_size=max(ColumnMetaData.total_uncompressed_size.read(metadata) or 0, 0),
        total_compressed_size=pages_of_chunk.size - _BEFORE,
        data_page_offset=_BEFORE + (found.data[0].start if found else 0),
    )
    if found and found.dictionary is not None:
        chunk.dictionary_page_offset = _BEFORE + found.dictionary.start
    batch_size = max(_LEAST_BATCH, num_bytes // 16)
    if found and found.dictionary is not None:  # a few large values may be those of all rows
        mean = found.dictionary.uncompressed_size // max(found.dictionary.values, 1)
        batch_size = min(batch_size, max(_MOST_BATCH_BYTES // max(mean, 1), 1))
    seen = 0
    try:
        whole = _file_metadata(chunk, elements, rows, footer)
        source = pq.ParquetFile(pa.BufferReader(pages_of_chunk), metadata=whole, page_checksum_verification=True)
        for batch in source.iter_batches(batch_size=batch_size, use_threads=False):
            seen += batch.num_rows
            (leaf,) = leaf_arrays(batch.column(0))
            yield leaf.drop_null()
    except OSError as error:  # pyarrow's word for damage: no file is read here
        raise FormatError(str(error)) from error
    if seen != rows:
        raise FormatError(f"{seen} rows were decoded; expected {rows}")


def _file_metadata(chunk: ColumnMetaData, elements: list[SchemaElement], rows: int, footer: Footer) -> pq.FileMetaData:
    column = ColumnChunk(file_offset=0, meta_data=chunk)
    whole = FileMetaData(
        version=1,
        schema=[SchemaElement(name=b"root", num_children=1), *elements],
        num_rows=rows,
        row_groups=[RowGroup(columns=[column], total_byte_size=chunk.total_uncompressed_size, num_rows=rows)],
        # pyarrow mends what it knows old writers to have got wrong
        created_by=read_struct(footer.profile.skeleton, FileMetaData)[0].created_by,
    )
    raw = write_struct(whole)
    return pq.read_metadata(pa.BufferReader(raw + len(raw).to_bytes(4, "little") + MAGIC))


def _path_elements(root: SchemaNode, leaf: LeafColumn) -> list[SchemaElement]:
    """The schema elements from below the root down to the leaf, without its neighbours and without any meaning."""
    elements = []
    node = root
    for name in leaf.path[:-1]:
        node = next(child for child in node.children if child.name == name and _leads_to(child, leaf.node))
        element = _element(node.repetition)
        element.num_children = 1
        elements.append(element)
    return [*elements, _leaf_element(leaf.node, leaf.node.repetition)]


def _leads_to(node: SchemaNode, leaf: SchemaNode) -> bool:
    return node is leaf or any(_leads_to(child, leaf) for child in node.children)


def _element(repetition: str) -> SchemaElement:
    # The file's name of it may be no text, or mean something to pyarrow.
    return SchemaElement(repetition_type=REPETITIONS.index(repetition), name=b"v")


def _leaf_element(node: SchemaNode, repetition: str) -> SchemaElement:
    element = _element(repetition)
    is_int96 = node.physical_type == "INT96"
    physical = "FIXED_LEN_BYTE_ARRAY" if is_int96 else node.physical_type or ""
    element.type = PHYSICAL_TYPES.index(physical)
    if physical == "FIXED_LEN_BYTE_ARRAY":
        element.type_length = _INT96_BYTES if is_int96 else node.type_length or 0
    return element
