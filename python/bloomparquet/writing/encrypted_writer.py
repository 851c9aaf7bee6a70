"""An encrypted file in the making: row groups that pyarrow wrote into memory, sealed one by one.

pyarrow writes no filters into files that it encrypts. So it is told nothing of the encryption: each row group comes as
a file of its own, in memory, and goes out as modules. What belongs to the end of the file, page indexes and filters, is
kept in memory until then. Nowhere else is anything in plain text.

Sources: parquet-format ``Encryption.md``, ``PageIndex.md``, ``parquet.thrift`` (RowGroup); for what readers
insist on, parquet-java ``ParquetMetadataConverter`` (addRowGroup, filterFileMetaDataByMidpoint).
"""

from __future__ import annotations

from bloomparquet.errors import BloomParquetError, EncryptionError, FormatError, shorten
from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.parquet.encryption.modules import MAX_ORDINAL, Module
from bloomparquet.parquet.metadata.file_tail import ENCRYPTED_MAGIC, MAGIC
from bloomparquet.parquet.metadata.footer import Footer, parse_footer, require_plain_chunk
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
from bloomparquet.query.names import dotted_name
from bloomparquet.storage.atomic import Output
from bloomparquet.writing.encryption import FileEncryption
from bloomparquet.writing.filters.locate import Place
from bloomparquet.writing.footer_edit import OpenFooter, footer_tail, store_metadata
from bloomparquet.writing.pyarrow_output import filters_in, footer_of
from bloomparquet.writing.rewrite import Filters, filter_parts


class SealedFile:
    """Writes one encrypted file to `output`; `skeleton` is the footer that it would have without rows or encryption."""

    def __init__(self, output: Output, encryption: FileEncryption, skeleton: Footer, path: str) -> None:
        self._output, self._encryption, self._path = output, encryption, path
        self._leaves = skeleton.profile.schema.leaves
        self._tree, _ = read_struct(skeleton.raw, FileMetaData)
        self._tree.row_groups = []
        self._groups: list[RowGroup] = self._tree.row_groups
        self._column_indexes: dict[Place, bytes] = {}
        self._offset_indexes: dict[Place, OffsetIndex] = {}
        self._at = 0
        self._write(ENCRYPTED_MAGIC if encryption.crypto.encrypted_footer else MAGIC)

    def add(self, file: memoryview) -> dict[Place, SplitBlockBloomFilter]:
        """Write the row groups of a file that is in memory, in plain text. Gives its filters, by their places here.

        Raises EncryptionError for more row groups, or more pages of a column chunk, than can be encrypted.
        """
        footer = footer_of(file)
        metadata, _ = read_struct(footer.raw, FileMetaData)
        before = len(self._groups)
        for group in metadata.row_groups:
            ordinal, start = len(self._groups), self._at
            if ordinal >= MAX_ORDINAL:
                raise EncryptionError(
                    f"{self._path}: more than {MAX_ORDINAL} row groups cannot be encrypted; make them larger"
                )
            for leaf, chunk in zip(self._leaves, group.columns, strict=True):
                self._seal(file, ordinal, leaf, chunk)
            group.total_byte_size = sum(_metadata(chunk).total_uncompressed_size for chunk in group.columns)
            group.file_offset, group.total_compressed_size = start, self._at - start
            group.ordinal = ordinal
            self._groups.append(group)
        self._tree.num_rows += sum(footer.rows)
        return {(before + row_group, leaf): bloom for (row_group, leaf), _, bloom in filters_in(footer, file)}

    def footer(self) -> Footer:
        """The footer so far, as it would be without encryption."""
        return parse_footer(write_struct(self._tree))

    def finish(self, filters: Filters) -> int:
        """Write the end of the file, with these filters. Gives the size of the whole."""
        for place, index in self._column_indexes.items():
            chunk = self._chunk(place)
            chunk.column_index_offset, chunk.column_index_length = self._write_index(place, index, Module.COLUMN_INDEX)
        for place, locations in self._offset_indexes.items():
            chunk, index = self._chunk(place), write_struct(locations)
            chunk.offset_index_offset, chunk.offset_index_length = self._write_index(place, index, Module.OFFSET_INDEX)
        for place, bloom in sorted(filters.items()):
            if bloom is None:
                continue
            parts = filter_parts(bloom, self._encryption.cipher(place[0], self._leaves[place[1]]))
            metadata = _metadata(self._chunk(place))
            metadata.bloom_filter_offset, metadata.bloom_filter_length = self._at, sum(map(len, parts))
            for part in parts:
                self._write(part)
        for part in footer_tail(self._sealed_footer(), self._encryption.crypto):
            self._write(part)
        return self._at

    def _seal(self, file: memoryview, ordinal: int, leaf: LeafColumn, chunk: ColumnChunk) -> None:
        """Write the pages of a chunk, and make the chunk say where they are; of its indexes and filter it says nothing
        until they are written as well."""
        try:
            metadata = require_plain_chunk(chunk)
            self._seal_pages(file, ordinal, leaf, chunk, metadata)
        except BloomParquetError as error:
            where = f"{self._path}: row group {ordinal}, column {shorten(dotted_name(leaf.path))}"
            raise type(error)(f"{where}: {error}") from error
        chunk.file_offset = 0
        chunk.offset_index_offset = chunk.offset_index_length = None
        chunk.column_index_offset = chunk.column_index_length = None
        metadata.index_page_offset = metadata.bloom_filter_offset = metadata.bloom_filter_length = None

    def _seal_pages(
        self, file: memoryview, ordinal: int, leaf: LeafColumn, chunk: ColumnChunk, metadata: ColumnMetaData
    ) -> None:
        place = ordinal, leaf.index
        start, size = metadata.dictionary_page_offset or metadata.data_page_offset, metadata.total_compressed_size
        column_index = _index(file, chunk.column_index_offset, chunk.column_index_length)
        offset_index = _index(file, chunk.offset_index_offset, chunk.offset_index_length)
        if column_index is not None:
            self._column_indexes[place] = column_index
        if offset_index is not None:
            self._offset_indexes[place], _ = read_struct(offset_index, OffsetIndex)
        locations: list[PageLocation] = []
        if place in self._offset_indexes:
            locations = self._offset_indexes[place].page_locations
        cipher = self._encryption.cipher(ordinal, leaf)
        pages = file[start : start + size]
        if cipher is None:
            moved = self._at - start
            metadata.data_page_offset += moved
            if metadata.dictionary_page_offset is not None:
                metadata.dictionary_page_offset += moved
            for location in locations:
                location.offset += moved
        else:
            sealed = encrypt_chunk(pages, cipher, self._encryption.crypto.algorithm)
            if locations and len(locations) != len(sealed.pages):
                raise FormatError(f"the offset index has {len(locations)} pages; the chunk has {len(sealed.pages)}")
            for location, page in zip(locations, sealed.pages, strict=False):
                location.offset, location.compressed_page_size = self._at + page.offset, page.size
            metadata.total_uncompressed_size, metadata.total_compressed_size = (
                sealed.uncompressed_size,
                len(sealed.data),
            )
            metadata.data_page_offset = self._at + sealed.pages[0].offset
            if sealed.has_dictionary:
                metadata.dictionary_page_offset = self._at
            pages = memoryview(sealed.data)
        self._write(pages)

    def _write_index(self, place: Place, index: bytes, module: Module) -> tuple[int, int]:
        """The offset and the length of the index in the file."""
        cipher = self._encryption.cipher(place[0], self._leaves[place[1]])
        stored, start = index if cipher is None else cipher.encrypt(index, module), self._at
        self._write(stored)
        return start, len(stored)

    def _sealed_footer(self) -> bytes:
        """The FileMetaData as it goes into the footer; it is read back, and must be what was meant. The tree is of no
        other use after."""
        crypto = self._encryption.crypto
        meant: dict[Place, ColumnMetaData] = {}
        for ordinal, group in enumerate(self._groups):
            for leaf, chunk in zip(self._leaves, group.columns, strict=True):
                cipher = self._encryption.cipher(ordinal, leaf)
                metadata = meant[ordinal, leaf.index] = _metadata(chunk)
                if cipher is None:
                    continue
                chunk.crypto_metadata = self._encryption.described(leaf, metadata.path_in_schema)
                if self._encryption.is_apart(leaf):
                    chunk.encrypted_column_metadata = b""
                    if crypto.encrypted_footer:
                        chunk.meta_data = None
                store_metadata(chunk, metadata, cipher)
        if not crypto.encrypted_footer:
            self._tree.encryption_algorithm = crypto.algorithm.to_struct()
            self._tree.footer_signing_key_metadata = crypto.footer_metadata
        raw = write_struct(self._tree)
        if OpenFooter.read(self._path, parse_footer(raw, crypto)).metadata != meant:
            raise FormatError(f"{self._path}: its footer does not survive being written, so the file is not")
        return raw

    def _chunk(self, place: Place) -> ColumnChunk:
        row_group, leaf = place
        return self._groups[row_group].columns[leaf]

    def _write(self, data: bytes | memoryview) -> None:
        self._output.write(data)
        self._at += len(data)


def _metadata(chunk: ColumnChunk) -> ColumnMetaData:
    metadata = chunk.meta_data
    assert metadata is not None  # checked when its pages were written
    return metadata


def _index(file: memoryview, start: int | None, size: int | None) -> bytes | None:
    """A page index of a chunk; None where it has none."""
    return bytes(file[start : start + size]) if start and size else None
