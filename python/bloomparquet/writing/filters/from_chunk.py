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

from bloomparquet.errors import BloomParquetError, FormatError, brief
from bloomparquet.parquet.bloom_filter.split_block import BYTES_PER_BLOCK, SplitBlockBloomFilter
from bloomparquet.parquet.metadata.file_tail import MAGIC
from bloomparquet.parquet.metadata.footer import Footer
from bloomparquet.parquet.pages import headers as pages
from bloomparquet.parquet.pages.decrypted_row_group import append_chunk, chunk_extent, chunk_metadata
from bloomparquet.parquet.thrift import reader as thrift
from bloomparquet.parquet.thrift.struct import Items, Tree, read_tree, write_tree
from bloomparquet.query.columns import LeafColumn, SchemaNode
from bloomparquet.query.names import shown
from bloomparquet.query.nested import leaf_arrays
from bloomparquet.storage.files import FileInfo, ReadCount, Storage, read_ranges
from bloomparquet.writing.filters.build import fill, num_bytes_for
from bloomparquet.writing.filters.spec import Bloom

_LEAST_BATCH = 1 << 16
"""Values decoded at a time: few enough to stay in a core's cache; more for a large filter, as each batch costs one."""
_MOST_BATCH_BYTES = 64 << 20

_BEFORE = len(MAGIC)
_PHYSICAL = {"INT32": 1, "INT64": 2, "FLOAT": 4, "DOUBLE": 5, "BYTE_ARRAY": 6, "FIXED_LEN_BYTE_ARRAY": 7}
_PLAIN = {pages.PLAIN, pages.PLAIN_DICTIONARY}
"""Encodings of a dictionary page; files of old have the second for the first."""
_REPETITIONS = ("REQUIRED", "OPTIONAL", "REPEATED")
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
        raise kind(f"{file.path}: row group {row_group}, column {brief(shown(leaf.path))}: {what}") from error


def _filter_chunk(
    storage: Storage, file: FileInfo, footer: Footer, row_group: int, leaf: LeafColumn, bloom: Bloom, count: ReadCount
) -> SplitBlockBloomFilter | None:
    fields, cipher = footer.unlock(row_group, leaf.index)
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
        append_chunk(opened, buffer.data[_BEFORE:], fields, cipher, footer)
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
    elements, num_bytes = _path_elements(footer.layout.schema.root, leaf), num_bytes_for(bloom, values)
    whole = pa.py_buffer(buffer[: _BEFORE + chunk.end])
    arrays = _decode(whole, metadata, elements, values, rows, footer, num_bytes, chunk)
    return fill(leaf, arrays, num_bytes, bloom)


def _dictionary_as_data(buffer: memoryview, dictionary: pages.Page) -> pa.Buffer:
    """A dictionary page as a data page of a column without nulls: the entries are PLAIN in either."""
    details = Tree()
    details.put(1, thrift.I32, dictionary.values)
    for field_id, encoding in ((2, pages.PLAIN), (3, pages.RLE), (4, pages.RLE)):
        details.put(field_id, thrift.I32, encoding)
    header = Tree()
    header.put(1, thrift.I32, pages.DATA_PAGE)
    header.put(2, thrift.I32, dictionary.uncompressed_size)
    header.put(3, thrift.I32, dictionary.size)
    if dictionary.crc is not None:  # it is that of the page's bytes, which are the same
        header.put(4, thrift.I32, dictionary.crc)
    header.put(5, thrift.STRUCT, details)
    return pa.py_buffer(
        bytes(_BEFORE) + write_tree(header) + buffer[dictionary.body : dictionary.body + dictionary.size]
    )


def _decode(
    pages_of_chunk: pa.Buffer,
    metadata: Tree,
    elements: list[Tree],
    values: int,
    rows: int,
    footer: Footer,
    num_bytes: int,
    found: pages.Chunk | None = None,
) -> Iterator[pa.Array]:
    """The values of pages as arrays of their physical type. The pages lie `_BEFORE` bytes into the buffer, as `found`;
    None is a single data page."""
    chunk = Tree()
    for field_id in (2, 3, 4):  # encodings, path, codec
        if field_id not in metadata:
            raise FormatError(f"field {field_id} of the column chunk's metadata is missing")
        chunk.put(field_id, metadata.kinds[field_id], metadata[field_id])
    chunk.put(1, thrift.I32, elements[-1][1])
    names = [element[4] for element in elements]
    chunk.put(3, thrift.LIST, Items(thrift.LIST, thrift.BINARY, names))
    chunk.put(5, thrift.I64, values)
    chunk.put(6, thrift.I64, max(int(metadata.get(6, 0)), 0))
    chunk.put(7, thrift.I64, pages_of_chunk.size - _BEFORE)
    chunk.put(9, thrift.I64, _BEFORE + (found.data[0].start if found else 0))
    if found and found.dictionary is not None:
        chunk.put(11, thrift.I64, _BEFORE + found.dictionary.start)
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


def _file_metadata(chunk: Tree, elements: list[Tree], rows: int, footer: Footer) -> pq.FileMetaData:
    root = Tree()
    root.put(4, thrift.BINARY, b"root")
    root.put(5, thrift.I32, 1)
    column = Tree()
    column.put(2, thrift.I64, 0)
    column.put(3, thrift.STRUCT, chunk)
    group = Tree()
    group.put(1, thrift.LIST, Items(thrift.LIST, thrift.STRUCT, [column]))
    group.put(2, thrift.I64, chunk[6])
    group.put(3, thrift.I64, rows)
    whole = Tree()
    whole.put(1, thrift.I32, 1)
    whole.put(2, thrift.LIST, Items(thrift.LIST, thrift.STRUCT, [root, *elements]))
    whole.put(3, thrift.I64, rows)
    whole.put(4, thrift.LIST, Items(thrift.LIST, thrift.STRUCT, [group]))
    created_by = read_tree(footer.layout.skeleton)[0].get(6)
    if created_by is not None:  # pyarrow mends what it knows old writers to have got wrong
        whole.put(6, thrift.BINARY, created_by)
    raw = write_tree(whole)
    return pq.read_metadata(pa.BufferReader(raw + len(raw).to_bytes(4, "little") + MAGIC))


def _path_elements(root: SchemaNode, leaf: LeafColumn) -> list[Tree]:
    """The schema elements from below the root down to the leaf, without its neighbours and without any meaning."""
    elements = []
    node = root
    for name in leaf.path[:-1]:
        node = next(child for child in node.children if child.name == name and _leads_to(child, leaf.node))
        element = _element(node.repetition)
        element.put(5, thrift.I32, 1)
        elements.append(element)
    return [*elements, _leaf_element(leaf.node, leaf.node.repetition)]


def _leads_to(node: SchemaNode, leaf: SchemaNode) -> bool:
    return node is leaf or any(_leads_to(child, leaf) for child in node.children)


def _element(repetition: str) -> Tree:
    element = Tree()
    element.put(3, thrift.I32, _REPETITIONS.index(repetition))
    element.put(4, thrift.BINARY, b"v")  # the file's name of it may be no text, or mean something to pyarrow
    return element


def _leaf_element(node: SchemaNode, repetition: str) -> Tree:
    element = _element(repetition)
    is_int96 = node.physical_type == "INT96"
    physical = "FIXED_LEN_BYTE_ARRAY" if is_int96 else node.physical_type or ""
    element.put(1, thrift.I32, _PHYSICAL[physical])
    if physical == "FIXED_LEN_BYTE_ARRAY":
        element.put(2, thrift.I32, _INT96_BYTES if is_int96 else node.type_length or 0)
    return element
