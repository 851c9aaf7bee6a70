"""Decrypts row groups for pyarrow.

pyarrow must not see an encrypted file: it ends the process over metadata of a column whose key it lacks, and it accepts
keys in only one way. So a row group is copied into memory as a file in plain text: the decrypted pages of the wanted
columns, and a footer with the file's schema and key-value metadata, so that pyarrow gives the types that it would give
for a plaintext file. Other columns have an empty chunk there, and their keys are not requested.

Sources: parquet-format ``parquet.thrift`` (FileMetaData, RowGroup, ColumnMetaData), ``Encryption.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from bloomparquet.errors import FormatError, located
from bloomparquet.parquet.encryption.file_crypto import ChunkCipher
from bloomparquet.parquet.metadata.chunk_fields import ChunkFields
from bloomparquet.parquet.metadata.file_profile import without_row_groups
from bloomparquet.parquet.metadata.file_tail import MAGIC
from bloomparquet.parquet.metadata.footer import Footer
from bloomparquet.parquet.pages.encrypted import DecryptedChunk, decrypt_chunk
from bloomparquet.parquet.pages.image import image_column, image_metadata, image_skeleton
from bloomparquet.parquet.thrift.definitions import ColumnMetaData
from bloomparquet.query.columns import LeafColumn
from bloomparquet.storage.files import ReadCount, Storage
from bloomparquet.storage.ranges import read_extents

_BEFORE = len(MAGIC)


class DecryptedRowGroup(NamedTuple):
    """A row group in plain text: the bytes of a file, and its footer."""

    data: pa.Buffer
    metadata: pq.FileMetaData


class _Chunk(NamedTuple):
    """A column chunk to decrypt. `extent` is its start offset and its size."""

    leaf: LeafColumn
    fields: ChunkFields
    cipher: ChunkCipher | None
    metadata: ColumnMetaData
    extent: tuple[int, int]


def chunk_extent(fields: ChunkFields, limit: int) -> tuple[int, int]:
    """The start offset and the size of a column chunk. FormatError unless it ends before `limit`."""
    start, size, dictionary = fields.data_page_offset or 0, fields.compressed_size or 0, fields.dictionary_page_offset
    if dictionary is not None and _BEFORE <= dictionary < start:
        start = dictionary
    if start < _BEFORE or size <= 0 or start + size > limit:
        raise FormatError(
            f"the footer puts the column chunk at byte {start} with {size} bytes; expected bytes {_BEFORE} to {limit}"
        )
    return start, size


def append_decrypted(
    out: bytearray,
    stored: bytes | memoryview,
    fields: ChunkFields,
    cipher: ChunkCipher | None,
    footer: Footer,
) -> DecryptedChunk:
    """Append the pages of a column chunk to `out` in plain text. `stored` are its bytes in the file, at
    :func:`chunk_extent`. Errors are those of :func:`decrypt_chunk`."""
    data, dictionary = fields.data_page_offset or 0, fields.dictionary_page_offset or 0
    before = data - dictionary if _BEFORE <= dictionary < data else 0
    if cipher is not None and footer.crypto is not None:
        return decrypt_chunk(stored, cipher, footer.crypto.algorithm, fields.values or 0, out, dictionary=before > 0)
    start = len(out)
    out += stored
    return DecryptedChunk(start + before, start if before else None)


class DecryptedRowGroups:
    """The row groups of one encrypted file, in plain text, with the columns that pyarrow reads for the names `columns`;
    with all columns if that is None."""

    def __init__(self, storage: Storage, path: str, footer: Footer, columns: Sequence[str] | None) -> None:
        self._storage, self._path, self._footer = storage, path, footer
        self._leaves = [leaf for leaf in footer.profile.schema.leaves if columns is None or _is_read(leaf, columns)]
        (self._file,) = storage.list_files(path, recursive=False)
        self._skeleton = image_skeleton(without_row_groups(footer.raw))

    def read(self, row_group: int, count: ReadCount) -> DecryptedRowGroup:
        """Read and decrypt one row group. Its wanted columns are in memory twice meanwhile.

        Raises, with the column's name, EncryptionError if a key is missing or the data was altered, and FormatError for
        damaged data. The reads are added to `count`.
        """
        chunks = [self._find_chunk(row_group, leaf) for leaf in self._leaves]
        extents = [(start, start + size) for start, size in (chunk.extent for chunk in chunks)]
        raws = read_extents(self._storage, self._file, extents, count)
        out = bytearray(MAGIC)  # pyarrow ignores a dictionary page at byte 0
        columns = [image_column(leaf, 0, 0, 0, _BEFORE) for leaf in self._footer.profile.schema.leaves]
        for chunk, raw in zip(chunks, raws, strict=True):
            begin = len(out)
            with located(self._name(row_group, chunk.leaf)):
                decrypted = append_decrypted(out, raw, chunk.fields, chunk.cipher, self._footer)
                codec, values, size = chunk.metadata.codec, chunk.metadata.num_values, len(out) - begin
            columns[chunk.leaf.index] = image_column(chunk.leaf, codec, values, size, *decrypted)
        try:
            metadata = image_metadata(self._skeleton, columns, self._footer.rows[row_group])
            return DecryptedRowGroup(pa.py_buffer(out), metadata)
        except OSError as error:  # pyarrow raises OSError for damaged data, too
            raise FormatError(f"{self._path}: row group {row_group}: {error}") from error

    def _find_chunk(self, row_group: int, leaf: LeafColumn) -> _Chunk:
        with located(self._name(row_group, leaf)):
            fields, cipher = self._footer.read_chunk_with_cipher(row_group, leaf.index)
            metadata = self._footer.chunk_metadata(row_group, leaf.index)
            if fields.values is None or fields.values < 0:
                raise FormatError("the column chunk's metadata lacks the number of values")
            extent = chunk_extent(fields, self._file.size - self._footer.size) if fields.values else (0, 0)
        return _Chunk(leaf, fields, cipher, metadata, extent)

    def _name(self, row_group: int, leaf: LeafColumn) -> str:
        return f"{self._path}: {self._footer.chunk_name(row_group, leaf.index)}"


def _is_read(leaf: LeafColumn, columns: Sequence[str]) -> bool:
    """Whether pyarrow reads the leaf for the names `columns`. A name stands for everything below it. pyarrow does not
    distinguish the dots in names from those between names."""
    path = ".".join(leaf.path)
    return any(path == name or path.startswith(f"{name}.") for name in columns)
