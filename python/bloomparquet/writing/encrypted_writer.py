"""Writes an encrypted file: row groups that pyarrow wrote in memory are encrypted one by one.

pyarrow writes no filters into files that it encrypts. So it writes each row group as an unencrypted file in memory,
whose parts are encrypted here. Page indexes and filters are kept in memory until the end of the file. Plain text exists
only in memory.

Sources: parquet-format ``Encryption.md``, ``PageIndex.md``, ``parquet.thrift`` (RowGroup); for the requirements of
readers, parquet-java ``ParquetMetadataConverter`` (addRowGroup, filterFileMetaDataByMidpoint).
"""

from __future__ import annotations

from bloomparquet.errors import EncryptionError, FormatError, located
from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.parquet.encryption.file_crypto import ChunkCipher
from bloomparquet.parquet.encryption.modules import MAX_ORDINAL, Module
from bloomparquet.parquet.metadata.file_tail import ENCRYPTED_MAGIC, MAGIC
from bloomparquet.parquet.metadata.footer import Footer, parse_footer, require_metadata, require_same_file
from bloomparquet.parquet.pages.encrypted import encrypt_chunk
from bloomparquet.parquet.thrift.definitions import (
    ColumnChunk,
    ColumnMetaData,
    FileMetaData,
    OffsetIndex,
    PageLocation,
    RowGroup,
)
from bloomparquet.parquet.thrift.reader import read_struct
from bloomparquet.parquet.thrift.writer import write_struct
from bloomparquet.query.columns import LeafColumn
from bloomparquet.storage.atomic import Output
from bloomparquet.writing.encryption import FileEncryption
from bloomparquet.writing.filters.build import parse_file_end, read_filters
from bloomparquet.writing.filters.locate import ChunkId
from bloomparquet.writing.footer_edit import EditableFooter, footer_tail, store_metadata
from bloomparquet.writing.rewrite import Filters, serialize_filter


class EncryptedFile:
    """Writes one encrypted file to `output`. `skeleton` is the plain footer of the same file without rows."""

    def __init__(self, output: Output, encryption: FileEncryption, skeleton: Footer, path: str) -> None:
        self._output, self._encryption, self._skeleton, self._path = output, encryption, skeleton, path
        self._leaves = skeleton.profile.schema.leaves
        self._tree, _ = read_struct(skeleton.raw, FileMetaData)
        self._tree.row_groups = []
        self._groups: list[RowGroup] = self._tree.row_groups
        self._column_indexes: dict[ChunkId, bytes] = {}
        self._offset_indexes: dict[ChunkId, OffsetIndex] = {}
        self._offset = 0
        self._write(ENCRYPTED_MAGIC if encryption.crypto.encrypted_footer else MAGIC)

    def add(self, file: memoryview) -> dict[ChunkId, SplitBlockBloomFilter]:
        """Encrypt and write the row groups of an unencrypted `file` in memory.

        Returns the filters of the file, which are not written yet. Raises EncryptionError if the format allows no more
        row groups, or not so many pages in a column chunk.
        """
        footer = parse_file_end(file)
        metadata, _ = read_struct(footer.raw, FileMetaData)
        before = len(self._groups)
        for group in metadata.row_groups:
            ordinal, start = len(self._groups), self._offset
            if ordinal >= MAX_ORDINAL:
                raise EncryptionError(
                    f"{self._path}: an encrypted file has at most {MAX_ORDINAL} row groups; make row groups larger"
                )
            for leaf, chunk in zip(self._leaves, group.columns, strict=True):
                with located(f"{self._path}: {self._skeleton.chunk_name(ordinal, leaf.index)}"):
                    self._write_chunk(file, ordinal, leaf, chunk)
            group.total_byte_size = sum(_metadata(chunk).total_uncompressed_size for chunk in group.columns)
            group.file_offset, group.total_compressed_size = start, self._offset - start
            group.ordinal = ordinal
            self._groups.append(group)
        self._tree.num_rows += sum(footer.rows)
        return {
            (before + row_group, leaf_index): bloom for (row_group, leaf_index), _, bloom in read_filters(footer, file)
        }

    def footer(self) -> Footer:
        """The plain footer of the row groups that were added so far."""
        return parse_footer(write_struct(self._tree))

    def finish(self, filters: Filters) -> int:
        """Write page indexes, `filters` and the footer. Returns the size of the file."""
        for chunk_id, index in self._column_indexes.items():
            chunk, stored = self._chunk(chunk_id), self._encrypt(chunk_id, index, Module.COLUMN_INDEX)
            chunk.column_index_offset, chunk.column_index_length = self._write(stored)
        for chunk_id, locations in self._offset_indexes.items():
            chunk, stored = self._chunk(chunk_id), self._encrypt(chunk_id, write_struct(locations), Module.OFFSET_INDEX)
            chunk.offset_index_offset, chunk.offset_index_length = self._write(stored)
        for chunk_id, bloom in sorted(filters.items()):
            if bloom is None:
                continue
            parts, metadata = serialize_filter(bloom, self._cipher(chunk_id)), _metadata(self._chunk(chunk_id))
            metadata.bloom_filter_offset, metadata.bloom_filter_length = self._write(*parts)
        self._write(*footer_tail(self._encrypted_footer(), self._encryption.crypto))
        return self._offset

    def _write_chunk(self, file: memoryview, ordinal: int, leaf: LeafColumn, chunk: ColumnChunk) -> None:
        """Encrypt and write the pages of a chunk, and set its offsets.

        The offsets of page indexes and filter are cleared until these are written.
        """
        chunk_id = ordinal, leaf.index
        metadata = require_metadata(require_same_file(chunk).meta_data)
        start, size = metadata.dictionary_page_offset or metadata.data_page_offset, metadata.total_compressed_size
        locations: list[PageLocation] = []
        if index := _index(file, chunk.column_index_offset, chunk.column_index_length):
            self._column_indexes[chunk_id] = index
        if index := _index(file, chunk.offset_index_offset, chunk.offset_index_length):
            self._offset_indexes[chunk_id], _ = read_struct(index, OffsetIndex)
            locations = self._offset_indexes[chunk_id].page_locations
        chunk.file_offset = 0
        chunk.offset_index_offset = chunk.offset_index_length = None
        chunk.column_index_offset = chunk.column_index_length = None
        metadata.index_page_offset = metadata.bloom_filter_offset = metadata.bloom_filter_length = None
        cipher = self._encryption.cipher(ordinal, leaf)
        pages = file[start : start + size]
        if cipher is None:
            moved = self._offset - start
            metadata.data_page_offset += moved
            if metadata.dictionary_page_offset is not None:
                metadata.dictionary_page_offset += moved
            for location in locations:
                location.offset += moved
        else:
            encrypted = encrypt_chunk(pages, cipher, self._encryption.crypto.algorithm)
            if locations and len(locations) != len(encrypted.pages):
                raise FormatError(f"the offset index has {len(locations)} pages; the chunk has {len(encrypted.pages)}")
            for location, page in zip(locations, encrypted.pages, strict=False):
                location.offset, location.compressed_page_size = self._offset + page.offset, page.size
            metadata.total_uncompressed_size = encrypted.uncompressed_size
            metadata.total_compressed_size = len(encrypted.data)
            metadata.data_page_offset = self._offset + encrypted.pages[0].offset
            if encrypted.has_dictionary:
                metadata.dictionary_page_offset = self._offset
            pages = memoryview(encrypted.data)
        self._write(pages)

    def _cipher(self, chunk_id: ChunkId) -> ChunkCipher | None:
        return self._encryption.cipher(chunk_id[0], self._leaves[chunk_id[1]])

    def _encrypt(self, chunk_id: ChunkId, index: bytes, module: Module) -> bytes:
        cipher = self._cipher(chunk_id)
        return index if cipher is None else cipher.encrypt(index, module)

    def _encrypted_footer(self) -> bytes:
        """The FileMetaData of the footer, with encrypted columns; it is parsed again as a check.

        The tree must not be used afterwards.
        """
        crypto = self._encryption.crypto
        expected: dict[ChunkId, ColumnMetaData] = {}
        for ordinal, group in enumerate(self._groups):
            for leaf, chunk in zip(self._leaves, group.columns, strict=True):
                cipher = self._encryption.cipher(ordinal, leaf)
                metadata = expected[ordinal, leaf.index] = _metadata(chunk)
                if cipher is None:
                    continue
                chunk.crypto_metadata = self._encryption.crypto_metadata(leaf, metadata.path_in_schema)
                if self._encryption.is_apart(leaf):
                    chunk.encrypted_column_metadata = b""
                    if crypto.encrypted_footer:
                        chunk.meta_data = None
                store_metadata(chunk, metadata, cipher)
        if not crypto.encrypted_footer:
            self._tree.encryption_algorithm = crypto.algorithm.to_struct()
            self._tree.footer_signing_key_metadata = crypto.footer_metadata
        raw = write_struct(self._tree)
        if EditableFooter.read(self._path, parse_footer(raw, crypto)).metadata != expected:
            raise FormatError(f"{self._path}: the footer differs when it is parsed again; the file is not written")
        return raw

    def _chunk(self, chunk_id: ChunkId) -> ColumnChunk:
        row_group, leaf_index = chunk_id
        return self._groups[row_group].columns[leaf_index]

    def _write(self, *parts: bytes | memoryview) -> tuple[int, int]:
        """Write `parts`, one after the other. Returns their offset, and their length."""
        start = self._offset
        for part in parts:
            self._output.write(part)
            self._offset += len(part)
        return start, self._offset - start


def _metadata(chunk: ColumnChunk) -> ColumnMetaData:
    metadata = chunk.meta_data
    assert metadata is not None  # checked when the pages were written
    return metadata


def _index(file: memoryview, start: int | None, size: int | None) -> bytes | None:
    """The bytes of a page index in `file`. None if the chunk has none."""
    return bytes(file[start : start + size]) if start and size else None
