"""Builds the Bloom filter of one column chunk of a file.

A filter holds hashes of the values as they are stored. pyarrow decodes the pages, because it supports every encoding
and codec. It gets a footer that is made here and has physical types only: timestamps are integers, text is bytes, INT96
is 12 bytes. So no conversion changes a value before it is hashed, and nothing else in the file's footer can make
pyarrow fail. An encrypted chunk is decrypted first.

If all data pages of a chunk use the dictionary, only the dictionary is decoded, except for lists.

Sources: parquet-format ``BloomFilter.md``, ``Encodings.md``; parquet.thrift (FileMetaData).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bloomparquet.errors import FormatError, first_line, located
from bloomparquet.parquet.bloom_filter.sizes import BYTES_PER_BLOCK
from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.parquet.metadata.file_tail import MAGIC, to_arrow_metadata
from bloomparquet.parquet.metadata.footer import Footer
from bloomparquet.parquet.pages import headers as pages
from bloomparquet.parquet.pages.decrypted_row_group import append_decrypted, chunk_extent
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
from bloomparquet.parquet.thrift.writer import write_struct
from bloomparquet.query.columns import LeafColumn, SchemaNode
from bloomparquet.query.literals import DAY_NANOSECONDS
from bloomparquet.query.nested import leaf_arrays
from bloomparquet.storage.files import FileInfo, ReadCount, Storage
from bloomparquet.storage.ranges import read_extents
from bloomparquet.writing.filters.build import build_filter, num_bytes_for
from bloomparquet.writing.filters.spec import Bloom

_LEAST_BATCH = 1 << 16
"""Values per batch: few enough for the CPU cache; more for a large filter, as each batch builds one filter."""
_MOST_BATCH_BYTES = 64 << 20

_BEFORE = len(MAGIC)
_PLAIN = {pages.PLAIN, pages.PLAIN_DICTIONARY}
"""Encodings of a dictionary page. Old files have PLAIN_DICTIONARY for PLAIN."""
_INT96_BYTES = 12


def filter_chunk(
    storage: Storage,
    file: FileInfo,
    footer: Footer,
    row_group: int,
    leaf: LeafColumn,
    bloom: Bloom,
    count: ReadCount,
    change: Callable[[pa.Array], pa.Array] | None = None,
) -> SplitBlockBloomFilter | None:
    """The filter of one column chunk, in the size that its values need. None for a chunk without values, and for an
    INT96 chunk with times that readers do not show exactly.

    `change` changes the values before they are hashed. It gets arrays of the physical type without nulls.

    Reads the chunk in one request. Memory holds the chunk (twice while it is decrypted), one decoded batch and the
    filter. Raises FormatError for a damaged chunk, EncryptionError for a missing key or a tampered chunk; both name the
    chunk.
    """
    with suppress(_InexactError), located(f"{file.path}: {footer.chunk_name(row_group, leaf.index)}"):
        fields, cipher = footer.read_chunk_with_cipher(row_group, leaf.index)
        values = fields.values
        if not values:
            return None
        if leaf.node.physical_type == "INT96":
            change = _require_micros
        metadata = footer.chunk_metadata(row_group, leaf.index)
        rows = footer.rows[row_group]
        if not leaf.repeated and values != rows:
            raise FormatError(f"the column chunk has {values} values, but its row group has {rows} rows")
        start, length = chunk_extent(fields, file.size - footer.size)
        # Read a few bytes before the chunk, too: pyarrow ignores a dictionary at offset 0.
        (buffer,) = read_extents(storage, file, [(start - _BEFORE, start + length)], count)
        if cipher is not None:
            decrypted = bytearray(_BEFORE)
            append_decrypted(decrypted, buffer[_BEFORE:], fields, cipher, footer)
            buffer = memoryview(decrypted)
        body = buffer[_BEFORE:]
        chunk = pages.walk_pages(body, values)
        layout: pages.Chunk | None = chunk
        # Lists are decoded completely, because nothing else confirms the number of values in their metadata.
        dictionary = chunk.dictionary if chunk.is_dictionary_encoded and not leaf.repeated else None
        if dictionary is not None and dictionary.encoding in _PLAIN:
            if not dictionary.values:  # all values are null
                return build_filter(leaf, iter(()), BYTES_PER_BLOCK, bloom)
            values = rows = dictionary.values
            encoded, layout = _dictionary_as_data(body, dictionary), None
            elements = [_leaf_element(leaf.node, "REQUIRED")]
        else:
            encoded = pa.py_buffer(buffer[: _BEFORE + chunk.end])
            elements = _path_elements(footer.profile.schema.root, leaf)
        # The null count in the footer would allow a smaller filter, but nothing confirms it.
        num_bytes = num_bytes_for(bloom, values)
        arrays = _decode(encoded, metadata, elements, values, rows, footer, num_bytes, layout)
        return build_filter(leaf, arrays if change is None else map(change, arrays), num_bytes, bloom)
    return None


class _InexactError(Exception):
    """A time is not what readers show."""


def _require_micros(times: pa.Array) -> pa.Array:
    """The INT96 values, if each is a whole number of microseconds within its day.

    Readers truncate nanoseconds, so a filter would deny a value that they show. Spark writes no such value, but other
    writers append row groups to files that Spark wrote.
    """
    raw = np.frombuffer(times.buffers()[1], np.uint8)[times.offset * _INT96_BYTES :][: len(times) * _INT96_BYTES]
    nanoseconds = np.ascontiguousarray(raw.reshape(-1, _INT96_BYTES)[:, :8]).view("<i8")
    if ((nanoseconds < 0) | (nanoseconds >= DAY_NANOSECONDS) | (nanoseconds % 1_000 != 0)).any():
        raise _InexactError
    return times


def _dictionary_as_data(buffer: memoryview, dictionary: pages.Page) -> pa.Buffer:
    """Turn a dictionary page into a data page of a column without nulls. Both have PLAIN values."""
    header = PageHeader(
        type=pages.DATA_PAGE,
        uncompressed_page_size=dictionary.uncompressed_size,
        compressed_page_size=dictionary.size,
        crc=dictionary.crc,  # the checksum covers only the page's bytes, which are unchanged
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
    layout: pages.Chunk | None,
) -> Iterator[pa.Array]:
    """The values of pages as arrays of their physical type.

    The pages begin at offset `_BEFORE` of the buffer. `layout` has their positions; None means a single data page.
    """
    chunk = ColumnMetaData(
        type=elements[-1].type,
        encodings=metadata.encodings,
        path_in_schema=[element.name for element in elements],
        codec=metadata.codec,
        num_values=values,
        total_uncompressed_size=max(ColumnMetaData.total_uncompressed_size.read(metadata) or 0, 0),
        total_compressed_size=pages_of_chunk.size - _BEFORE,
        data_page_offset=_BEFORE + (layout.data[0].start if layout else 0),
    )
    if layout and layout.dictionary is not None:
        chunk.dictionary_page_offset = _BEFORE + layout.dictionary.start
    batch_size = max(_LEAST_BATCH, num_bytes // 16)
    if layout and layout.dictionary is not None:  # every row may have a large value
        mean = layout.dictionary.uncompressed_size // max(layout.dictionary.values, 1)
        batch_size = min(batch_size, max(_MOST_BATCH_BYTES // max(mean, 1), 1))
    decoded = 0
    try:
        whole = _file_metadata(chunk, elements, rows, footer)
        source = pq.ParquetFile(pa.BufferReader(pages_of_chunk), metadata=whole, page_checksum_verification=True)
        for batch in source.iter_batches(batch_size=batch_size, use_threads=False):
            decoded += batch.num_rows
            (leaf,) = leaf_arrays(batch.column(0))
            yield leaf.drop_null()
    except (OSError, pa.ArrowException) as error:  # pyarrow raises them for damaged pages
        raise FormatError(first_line(error)) from error
    if decoded != rows:
        raise FormatError(f"{decoded} rows were decoded; expected {rows}")


def _file_metadata(chunk: ColumnMetaData, elements: list[SchemaElement], rows: int, footer: Footer) -> pq.FileMetaData:
    column = ColumnChunk(file_offset=0, meta_data=chunk)
    whole = FileMetaData(
        version=1,
        schema=[SchemaElement(name=b"root", num_children=1), *elements],
        num_rows=rows,
        row_groups=[RowGroup(columns=[column], total_byte_size=chunk.total_uncompressed_size, num_rows=rows)],
        created_by=footer.created_by,  # pyarrow works around known bugs of old writers
    )
    return to_arrow_metadata(write_struct(whole))


def _path_elements(root: SchemaNode, leaf: LeafColumn) -> list[SchemaElement]:
    """The schema elements on the path from below the root to the leaf, without logical types."""
    elements = []
    node = root
    for name in leaf.path[:-1]:
        node = next(child for child in node.children if child.name == name and _leads_to(child, leaf.node))
        elements.append(_element(node.repetition, num_children=1))
    return [*elements, _leaf_element(leaf.node, leaf.node.repetition)]


def _leads_to(node: SchemaNode, leaf: SchemaNode) -> bool:
    return node is leaf or any(_leads_to(child, leaf) for child in node.children)


def _element(repetition: str, **fields: int) -> SchemaElement:
    # The file's own name may not be UTF-8, or may be special to pyarrow.
    return SchemaElement(repetition_type=REPETITIONS.index(repetition), name=b"v", **fields)


def _leaf_element(node: SchemaNode, repetition: str) -> SchemaElement:
    physical, length = node.physical_type or "", node.type_length or 0
    if physical == "INT96":
        physical, length = "FIXED_LEN_BYTE_ARRAY", _INT96_BYTES
    lengths = {"type_length": length} if physical == "FIXED_LEN_BYTE_ARRAY" else {}
    return _element(repetition, type=PHYSICAL_TYPES.index(physical), **lengths)
