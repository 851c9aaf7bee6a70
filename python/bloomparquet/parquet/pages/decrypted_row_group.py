"""Column chunks of encrypted files as pyarrow gets to see them: in plain text, under a footer of our own.

pyarrow is shown nothing of an encrypted file, for it ends the process over metadata of a column whose key it lacks,
and takes keys in one way only. Of a row group it gets an image in memory: the pages of the wanted columns, and a footer
with the file's own schema and key-value metadata, so that types come out as they would of the file in plain text.
Columns that nobody wants have an empty chunk in it, and their keys are not asked for.

Sources: parquet-format ``parquet.thrift`` (FileMetaData, RowGroup, ColumnMetaData), ``Encryption.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bloomparquet.errors import BloomParquetError, FormatError, shorten
from bloomparquet.parquet.encryption.file_crypto import ChunkCipher
from bloomparquet.parquet.metadata.column_chunks import ChunkFields
from bloomparquet.parquet.metadata.file_tail import MAGIC
from bloomparquet.parquet.metadata.footer import Footer, require_same_file
from bloomparquet.parquet.pages.encrypted import DecryptedChunk, decrypt_chunk
from bloomparquet.parquet.thrift.definitions import (
    PHYSICAL_TYPES,
    ColumnChunk,
    ColumnMetaData,
    FileMetaData,
    RowGroup,
)
from bloomparquet.parquet.thrift.reader import read_struct
from bloomparquet.parquet.thrift.writer import write_struct
from bloomparquet.query.columns import LeafColumn
from bloomparquet.query.names import dotted_name
from bloomparquet.storage.files import ReadCount, Storage
from bloomparquet.storage.ranges import read_ranges

_BEFORE = len(MAGIC)
_KEPT_FIELDS = (
    ColumnMetaData.type,
    ColumnMetaData.encodings,
    ColumnMetaData.path_in_schema,
    ColumnMetaData.codec,
    ColumnMetaData.num_values,
    ColumnMetaData.total_uncompressed_size,
)


class DecryptedRowGroup(NamedTuple):
    """One row group in plain text: what pyarrow's readers take for a file, and for its footer."""

    data: pa.Buffer
    metadata: pq.FileMetaData


class _Stored(NamedTuple):
    """A column chunk that is to be opened: `extent` is where it begins and how many bytes it has."""

    leaf: LeafColumn
    fields: ChunkFields
    cipher: ChunkCipher | None
    metadata: ColumnMetaData
    extent: tuple[int, int]


def chunk_extent(fields: ChunkFields, limit: int) -> tuple[int, int]:
    """Where a column chunk begins and how many bytes it has. FormatError unless they all are before `limit`."""
    start, size, dictionary = fields.data_page_offset or 0, fields.compressed_size or 0, fields.dictionary_page_offset
    if dictionary is not None and _BEFORE <= dictionary < start:
        start = dictionary
    if start < _BEFORE or size <= 0 or start + size > limit:
        raise FormatError(
            f"the column chunk is said to have {size} bytes at byte {start}; expected {_BEFORE} to {limit}"
        )
    return start, size


def chunk_metadata(footer: Footer, row_group: int, leaf: LeafColumn) -> ColumnMetaData:
    """The ColumnMetaData of a chunk, however the file holds it, with numbers for its offsets and sizes.

    FormatError where there is none or the chunk lies in another file, EncryptionError where it does not open.
    """
    require_same_file(read_struct(footer.raw, ColumnChunk, footer.chunks[row_group][leaf.index])[0])
    return footer.chunk_metadata(row_group, leaf.index)


def append_decrypted(
    out: bytearray,
    stored: bytes | memoryview,
    fields: ChunkFields,
    cipher: ChunkCipher | None,
    footer: Footer,
) -> DecryptedChunk:
    """Append the pages of a column chunk to `out` in plain text; `stored` are its bytes in the file, from
    :func:`chunk_extent`. Raises as :func:`decrypt_chunk`."""
    data, dictionary = fields.data_page_offset or 0, fields.dictionary_page_offset or 0
    before = data - dictionary if _BEFORE <= dictionary < data else 0
    if cipher is not None and footer.crypto is not None:
        return decrypt_chunk(stored, cipher, footer.crypto.algorithm, fields.values or 0, out, dictionary=before > 0)
    start = len(out)
    out += stored
    return DecryptedChunk(start + before, start if before else None)


class DecryptedRowGroups:
    """The images of the row groups of one encrypted file, with the columns that pyarrow reads when it is asked for
    `columns`, names as it takes them; None is all."""

    def __init__(self, storage: Storage, path: str, footer: Footer, columns: Sequence[str] | None) -> None:
        self._storage, self._path, self._footer = storage, path, footer
        self._leaves = [leaf for leaf in footer.profile.schema.leaves if columns is None or _is_read(leaf, columns)]
        (self._file,) = storage.list_files(path, recursive=False)
        self._skeleton, _ = read_struct(footer.without_row_groups(), FileMetaData)

    def read(self, row_group: int, count: ReadCount) -> DecryptedRowGroup:
        """Read and open one row group: its wanted columns are in memory twice for that time.

        Raises EncryptionError that names the column for one whose key is not at hand and for what was altered, and
        FormatError for what is damaged. `count` grows by what was read.
        """
        stored = [self._find(row_group, leaf) for leaf in self._leaves]
        filled = [chunk for chunk in stored if chunk.extent[1]]
        at, size = (np.array([chunk.extent[i] for chunk in filled], np.int64) for i in range(2))
        ranges = read_ranges(self._storage, [self._path], np.zeros(len(filled), np.int64), at, size, count)
        starts = iter(ranges.starts.tolist())
        out = bytearray(MAGIC)  # to pyarrow a dictionary at byte 0 is none
        columns = [_empty_column(leaf) for leaf in self._footer.profile.schema.leaves]
        for chunk in stored:
            begin, start = len(out), next(starts) if chunk.extent[1] else 0
            raw = ranges.buffer.data[start : start + chunk.extent[1]]
            try:
                opened = append_decrypted(out, raw, chunk.fields, chunk.cipher, self._footer)
            except BloomParquetError as error:
                raise self._named(error, row_group, chunk.leaf) from error
            columns[chunk.leaf.index] = _column(chunk.metadata, opened, len(out) - begin)
        try:
            return DecryptedRowGroup(pa.py_buffer(out), self._metadata(columns, self._footer.rows[row_group]))
        except OSError as error:  # pyarrow's word for damage: no file is read here
            raise FormatError(f"{self._path}: row group {row_group}: {error}") from error

    def _find(self, row_group: int, leaf: LeafColumn) -> _Stored:
        try:
            fields, cipher = self._footer.read_chunk_with_cipher(row_group, leaf.index)
            metadata = chunk_metadata(self._footer, row_group, leaf)
            if fields.values is None or fields.values < 0:
                raise FormatError("the column chunk's metadata does not say how many values it has")
            extent = chunk_extent(fields, self._file.size - self._footer.size) if fields.values else (0, 0)
        except BloomParquetError as error:
            raise self._named(error, row_group, leaf) from error
        return _Stored(leaf, fields, cipher, metadata, extent)

    def _named(self, error: BloomParquetError, row_group: int, leaf: LeafColumn) -> BloomParquetError:
        return type(error)(f"{self._path}: row group {row_group}, column {shorten(dotted_name(leaf.path))}: {error}")

    def _metadata(self, columns: list[ColumnChunk], rows: int) -> pq.FileMetaData:
        whole = self._skeleton
        whole.num_rows = rows
        whole.row_groups = [RowGroup(columns=columns, total_byte_size=0, num_rows=rows)]
        raw = write_struct(whole)
        return pq.read_metadata(pa.BufferReader(raw + len(raw).to_bytes(4, "little") + MAGIC))


def _is_read(leaf: LeafColumn, columns: Sequence[str]) -> bool:
    """Whether pyarrow reads the leaf when it is asked for `columns`: each stands for all below it, with dots between
    names, which it does not tell from those in names."""
    path = ".".join(leaf.path)
    return any(path == name or path.startswith(f"{name}.") for name in columns)


def _column(metadata: ColumnMetaData, opened: DecryptedChunk, size: int) -> ColumnChunk:
    """The ColumnChunk of an opened chunk: what it takes to decode it, and nothing that pyarrow might trip over."""
    kept = ColumnMetaData(
        total_compressed_size=size, data_page_offset=opened.data, dictionary_page_offset=opened.dictionary
    )
    kept.copy_from(metadata, *_KEPT_FIELDS)
    return ColumnChunk(file_offset=0, meta_data=kept)


def _empty_column(leaf: LeafColumn) -> ColumnChunk:
    metadata = ColumnMetaData(
        type=PHYSICAL_TYPES.index(leaf.node.physical_type or ""),
        encodings=[],
        path_in_schema=[],
        codec=0,
        num_values=0,
        total_uncompressed_size=0,
        total_compressed_size=0,
        data_page_offset=_BEFORE,
    )
    return ColumnChunk(file_offset=0, meta_data=metadata)
