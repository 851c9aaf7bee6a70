"""The modules of encrypted files, decrypted one by one; and secrets that must not appear in a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import xxhash

import bloomparquet as bp
from bloomparquet.parquet.encryption.modules import Module, module_size
from bloomparquet.parquet.metadata.footer import Footer, read_footers
from bloomparquet.parquet.thrift.definitions import ColumnChunk, ColumnMetaData, FileMetaData, OffsetIndex, PageHeader
from bloomparquet.parquet.thrift.reader import read_struct
from bloomparquet.parquet.thrift.struct import ThriftStruct
from bloomparquet.storage.files import ReadCount
from bloomparquet.storage.open import open_storage
from tests.support.core import bloom_header, decode
from tests.support.stored import leaf_arrays, plain

BLOOM_OFFSET, BLOOM_LENGTH = 14, 15
TOLD_TO_ALL = {1, 2, 3, 4, 5, 6, 7, 9, 10, 11}
"""Fields of ColumnMetaData that reveal no values."""

ChunkId = tuple[int, int]


def footer_of(path: Path | str, keys: bp.Keys | None) -> Footer:
    storage, inner = open_storage(str(path))
    (footer,) = read_footers(storage, storage.list_files(inner, recursive=False), ReadCount(), keys=keys)
    assert footer is not None
    return footer


def chunk_ids(footer: Footer) -> Iterator[ChunkId]:
    for i in range(len(footer.rows)):
        for j in range(len(footer.profile.schema.leaves)):
            yield i, j


def chunks(path: Path | str, keys: bp.Keys | None) -> dict[ChunkId, ColumnChunk]:
    """The ColumnChunks of the footer."""
    tree, _ = read_struct(footer_of(path, keys).raw, FileMetaData)
    return {(i, j): chunk for i, group in enumerate(tree.row_groups) for j, chunk in enumerate(group.columns)}


def metadata(path: Path | str, keys: bp.Keys | None) -> dict[ChunkId, ColumnMetaData]:
    """The metadata of each column chunk, decrypted."""
    footer = footer_of(path, keys)
    return {chunk_id: footer.chunk_metadata(*chunk_id) for chunk_id in chunk_ids(footer)}


def bitsets(path: Path | str, keys: bp.Keys | None) -> dict[ChunkId, bytes]:
    """The bitset of each Bloom filter whose key is known.

    The filter of an encrypted column must be two modules of exactly the length in the footer.
    """
    data, footer = Path(path).read_bytes(), footer_of(path, keys)
    bitset_of = {}
    for chunk_id in chunk_ids(footer):
        try:
            cipher = footer.chunk_cipher(*chunk_id)
        except bp.EncryptionError:
            continue
        fields = footer.chunk_metadata(*chunk_id)
        if fields.bloom_filter_offset is None:
            continue
        at, stop = fields.bloom_filter_offset, fields.bloom_filter_offset + fields.bloom_filter_length
        if cipher is None:
            size = decode(data[at : at + 64])[1].value
            assert data[at:stop] == bloom_header(size) + data[stop - size : stop]
            bitset_of[chunk_id] = data[stop - size : stop]
            continue
        middle = at + module_size(data[at:stop])
        header = cipher.decrypt(data[at:middle], Module.BLOOM_FILTER_HEADER)
        bitset_of[chunk_id] = cipher.decrypt(data[middle:stop], Module.BLOOM_FILTER_BITSET)
        assert decode(header)[1].value == len(bitset_of[chunk_id])
        assert header.rstrip(b"\0") == bloom_header(len(bitset_of[chunk_id])).rstrip(b"\0")
    return bitset_of


def hashes(table: pa.Table, row_group: int, rows: int) -> list[set[int]]:
    """The hashes of the values of each leaf in a row group of `rows` rows."""
    part = table.slice(row_group * rows, rows)
    leaves = [leaf for column in part.columns for leaf in leaf_arrays(column)]
    physical = {"int64": "INT64", "string": "BYTE_ARRAY", "double": "DOUBLE"}
    return [{xxhash.xxh64_intdigest(one) for one in plain(leaf, physical[str(leaf.type)], 0)} for leaf in leaves]


def filter_excerpts(bitset: bytes) -> Iterator[bytes]:
    """Parts of a filter that reveal it: the whole, and each stretch of 64 bytes in which a bit is set."""
    yield bloom_header(len(bitset)) + bitset
    for at in range(0, max(len(bitset) - 64, 0) + 1, 32):
        if any(bitset[at : at + 64]):
            yield bitset[at : at + 64]


def find_secrets(data: bytes, secrets: Iterable[bytes]) -> list[bytes]:
    """The `secrets` that `data` contains."""
    return [secret for secret in secrets if secret in data]


def record_writes(monkeypatch: Any) -> list[bytes]:
    """The bytes that go to any file by `os.write` from now on."""
    import os

    writes: list[bytes] = []
    original = os.write

    def write(descriptor: int, data: Any) -> int:
        writes.append(bytes(data))
        return original(descriptor, data)

    monkeypatch.setattr(os, "write", write)
    return writes


def assert_page_indexes_open(path: Path | str, keys: bp.Keys) -> int:
    """Decrypt every page index, and the header of every data page that an offset index names. Returns the pages.

    The pages must follow one another, and have the sizes that the offset index says.
    """
    data, footer, pages = Path(path).read_bytes(), footer_of(path, keys), 0
    for chunk_id, chunk in chunks(path, keys).items():
        cipher, metadata = footer.chunk_cipher(*chunk_id), footer.chunk_metadata(*chunk_id)

        def read(start: int, length: int, module: Module, cls: Any, *page: int, cipher: Any = cipher) -> Any:
            raw = data[start : start + length]
            struct, size = read_struct(raw if cipher is None else cipher.decrypt(raw, module, *page), cls)
            assert cipher is not None or size == length
            return struct

        column_index = read(chunk.column_index_offset, chunk.column_index_length, Module.COLUMN_INDEX, ThriftStruct)
        offset_index = read(chunk.offset_index_offset, chunk.offset_index_length, Module.OFFSET_INDEX, OffsetIndex)
        assert len(column_index[1]) == len(offset_index.page_locations)
        first, stop = metadata.data_page_offset, metadata.data_page_offset
        for number, location in enumerate(offset_index.page_locations):
            assert location.offset == stop
            start, stop = stop, stop + location.compressed_page_size
            if cipher is None:
                header, header_size = read_struct(data[start:stop], PageHeader)
            else:
                header_size = module_size(data[start:stop])
                header = read(start, header_size, Module.DATA_PAGE_HEADER, PageHeader, number)
            assert header_size + header.compressed_page_size == location.compressed_page_size
            pages += 1
        assert stop == (metadata.dictionary_page_offset or first) + metadata.total_compressed_size
    return pages
