"""An encrypted file in the making: row groups that pyarrow wrote into memory, sealed one by one.

pyarrow writes no filters into files that it encrypts. So it is told nothing of the encryption: each row group comes as
a file of its own, in memory, and goes out as modules. What belongs to the end of the file, page indexes and filters, is
kept in memory until then. Nowhere else is anything in plain text.

Sources: parquet-format ``Encryption.md``, ``PageIndex.md``, ``parquet.thrift`` (RowGroup); for what readers
insist on, parquet-java ``ParquetMetadataConverter`` (addRowGroup, filterFileMetaDataByMidpoint).
"""

from __future__ import annotations

from bloomparquet.errors import BloomParquetError, EncryptionError, FormatError, brief
from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.parquet.encryption.modules import MAX_ORDINAL, Module
from bloomparquet.parquet.metadata.fields import column_chunks, require_chunk, row_groups
from bloomparquet.parquet.metadata.file_tail import ENCRYPTED_MAGIC, MAGIC
from bloomparquet.parquet.metadata.footer import Footer, parse_footer
from bloomparquet.parquet.pages.encrypted import seal_chunk
from bloomparquet.parquet.thrift import reader as thrift
from bloomparquet.parquet.thrift.struct import Items, Tree, read_tree, write_tree
from bloomparquet.query.columns import LeafColumn
from bloomparquet.query.names import shown
from bloomparquet.storage.atomic import Output
from bloomparquet.writing.encryption import FileEncryption
from bloomparquet.writing.filters.locate import Place
from bloomparquet.writing.footer_edit import (
    CRYPTO_METADATA,
    ENCRYPTION_ALGORITHM,
    METADATA,
    SEALED_METADATA,
    SIGNING_KEY_METADATA,
    OpenFooter,
    footer_tail,
    store_metadata,
)
from bloomparquet.writing.pyarrow_output import filters_in, footer_of
from bloomparquet.writing.rewrite import BLOOM_LENGTH, BLOOM_OFFSET, Filters, filter_parts

_OFFSET_INDEX, _COLUMN_INDEX = 4, 6
"""Fields of ColumnChunk with the offset; the one behind has the length."""


class SealedFile:
    """Writes one encrypted file to `output`; `skeleton` is the footer that it would have without rows or encryption."""

    def __init__(self, output: Output, encryption: FileEncryption, skeleton: Footer, path: str) -> None:
        self._output, self._encryption, self._path = output, encryption, path
        self._leaves = skeleton.layout.schema.leaves
        self._tree, _ = read_tree(skeleton.raw)
        self._groups = Items(thrift.LIST, thrift.STRUCT, [])
        self._tree.put(4, thrift.LIST, self._groups)
        self._column_indexes: dict[Place, bytes] = {}
        self._offset_indexes: dict[Place, Tree] = {}
        self._at = 0
        self._write(ENCRYPTED_MAGIC if encryption.crypto.encrypted_footer else MAGIC)

    def add(self, file: memoryview) -> dict[Place, SplitBlockBloomFilter]:
        """Write the row groups of a file that is in memory, in plain text. Gives its filters, by their places here.

        Raises EncryptionError for more row groups, or more pages of a column chunk, than can be encrypted.
        """
        footer = footer_of(file)
        tree, _ = read_tree(footer.raw)
        before = len(self._groups)
        for group in row_groups(tree):
            ordinal, start = len(self._groups), self._at
            if ordinal >= MAX_ORDINAL:
                raise EncryptionError(
                    f"{self._path}: more than {MAX_ORDINAL} row groups cannot be encrypted; make them larger"
                )
            for leaf, chunk in zip(self._leaves, column_chunks(group), strict=True):
                self._seal(file, ordinal, leaf, chunk)
            group.put(2, thrift.I64, sum(chunk[METADATA][6] for chunk in group[1]))
            group.put(5, thrift.I64, start)
            group.put(6, thrift.I64, self._at - start)
            group.put(7, thrift.I16, ordinal)
            self._groups.append(group)
        self._tree[3] += sum(footer.rows)
        return {(before + row_group, leaf): bloom for (row_group, leaf), _, bloom in filters_in(footer, file)}

    def footer(self) -> Footer:
        """The footer so far, as it would be without encryption."""
        return parse_footer(write_tree(self._tree))

    def finish(self, filters: Filters) -> int:
        """Write the end of the file, with these filters. Gives the size of the whole."""
        for place, index in self._column_indexes.items():
            self._write_index(place, _COLUMN_INDEX, index, Module.COLUMN_INDEX)
        for place, locations in self._offset_indexes.items():
            self._write_index(place, _OFFSET_INDEX, write_tree(locations), Module.OFFSET_INDEX)
        for place, bloom in sorted(filters.items()):
            if bloom is None:
                continue
            parts = filter_parts(bloom, self._encryption.cipher(place[0], self._leaves[place[1]]))
            metadata = self._chunk(place)[METADATA]
            metadata.put(BLOOM_OFFSET, thrift.I64, self._at)
            metadata.put(BLOOM_LENGTH, thrift.I32, sum(map(len, parts)))
            for part in parts:
                self._write(part)
        for part in footer_tail(self._sealed_footer(), self._encryption.crypto):
            self._write(part)
        return self._at

    def _seal(self, file: memoryview, ordinal: int, leaf: LeafColumn, chunk: Tree) -> None:
        """Write the pages of a chunk, and make the chunk say where they are; of its indexes and filter it says nothing
        until they are written as well."""
        try:
            self._seal_pages(file, ordinal, leaf, require_chunk(chunk))
        except BloomParquetError as error:
            where = f"{self._path}: row group {ordinal}, column {brief(shown(leaf.path))}"
            raise type(error)(f"{where}: {error}") from error
        chunk.put(2, thrift.I64, 0)
        for struct, fields in ((chunk, (4, 5, 6, 7)), (chunk[METADATA], (10, BLOOM_OFFSET, BLOOM_LENGTH))):
            for field_id in fields:
                struct.drop(field_id)

    def _seal_pages(self, file: memoryview, ordinal: int, leaf: LeafColumn, chunk: Tree) -> None:
        place, metadata = (ordinal, leaf.index), chunk[METADATA]
        start, size = metadata.get(11) or metadata[9], metadata[7]
        column_index, offset_index = (_index(file, chunk, field_id) for field_id in (_COLUMN_INDEX, _OFFSET_INDEX))
        if column_index is not None:
            self._column_indexes[place] = column_index
        if offset_index is not None:
            self._offset_indexes[place], _ = read_tree(offset_index)
        locations = self._offset_indexes[place][1] if place in self._offset_indexes else []
        cipher = self._encryption.cipher(ordinal, leaf)
        pages = file[start : start + size]
        if cipher is None:
            for struct, field_id in [*((metadata, each) for each in (9, 11)), *((each, 1) for each in locations)]:
                if field_id in struct:
                    struct[field_id] += self._at - start
        else:
            sealed = seal_chunk(pages, cipher, self._encryption.crypto.algorithm)
            if locations and len(locations) != len(sealed.pages):
                raise FormatError(f"the offset index has {len(locations)} pages; the chunk has {len(sealed.pages)}")
            for location, page in zip(locations, sealed.pages, strict=False):
                location[1], location[2] = self._at + page.offset, page.size
            metadata[6], metadata[7] = sealed.uncompressed_size, len(sealed.data)
            metadata[9] = self._at + sealed.pages[0].offset
            if sealed.has_dictionary:
                metadata[11] = self._at
            pages = memoryview(sealed.data)
        self._write(pages)

    def _write_index(self, place: Place, field_id: int, index: bytes, module: Module) -> None:
        cipher = self._encryption.cipher(place[0], self._leaves[place[1]])
        stored = index if cipher is None else cipher.seal(index, module)
        chunk = self._chunk(place)
        chunk.put(field_id, thrift.I64, self._at)
        chunk.put(field_id + 1, thrift.I32, len(stored))
        self._write(stored)

    def _sealed_footer(self) -> bytes:
        """The FileMetaData as it goes into the footer; it is read back, and must be what was meant. The tree is of no
        other use after."""
        crypto = self._encryption.crypto
        meant: dict[Place, Tree] = {}
        for ordinal, group in enumerate(self._groups):
            for leaf, chunk in zip(self._leaves, group[1], strict=True):
                cipher = self._encryption.cipher(ordinal, leaf)
                metadata = meant[ordinal, leaf.index] = chunk[METADATA]
                if cipher is None:
                    continue
                chunk.put(CRYPTO_METADATA, thrift.STRUCT, self._encryption.described(leaf, metadata[3]))
                if self._encryption.is_apart(leaf):
                    chunk.put(SEALED_METADATA, thrift.BINARY, b"")
                    if crypto.encrypted_footer:
                        chunk.drop(METADATA)
                store_metadata(chunk, metadata, cipher)
        if not crypto.encrypted_footer:
            self._tree.put(ENCRYPTION_ALGORITHM, thrift.STRUCT, crypto.algorithm.to_tree())
            if crypto.footer_metadata is not None:
                self._tree.put(SIGNING_KEY_METADATA, thrift.BINARY, crypto.footer_metadata)
        raw = write_tree(self._tree)
        if OpenFooter.read(self._path, parse_footer(raw, crypto)).metadata != meant:
            raise FormatError(f"{self._path}: its footer does not survive being written, so the file is not")
        return raw

    def _chunk(self, place: Place) -> Tree:
        row_group, leaf = place
        chunk: Tree = self._groups[row_group][1][leaf]
        return chunk

    def _write(self, data: bytes | memoryview) -> None:
        self._output.write(data)
        self._at += len(data)


def _index(file: memoryview, chunk: Tree, field_id: int) -> bytes | None:
    """A page index of a chunk; None where it has none."""
    start, size = chunk.get(field_id), chunk.get(field_id + 1)
    return bytes(file[start : start + size]) if start and size else None
