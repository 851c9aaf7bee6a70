"""Encrypted files looked into by their keys, module by module; and what of them must not be seen without."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import xxhash

import bloomparquet as bp
from bloomparquet.parquet.encryption.modules import Module, module_size
from bloomparquet.parquet.metadata.footer import Footer, read_footers
from bloomparquet.parquet.thrift.definitions import FileMetaData, PageHeader
from bloomparquet.parquet.thrift.reader import read_struct
from bloomparquet.parquet.thrift.struct import ThriftStruct
from bloomparquet.storage.files import ReadCount, open_storage
from tests.support.core import bloom_header, decode
from tests.support.stored import leaf_arrays, plain

BLOOM_OFFSET, BLOOM_LENGTH = 14, 15
TOLD_TO_ALL = {1, 2, 3, 4, 5, 6, 7, 9, 10, 11}
"""Fields of ColumnMetaData that say nothing of values."""

Place = tuple[int, int]


def footer_of(path: Path | str, keys: bp.Keys | None) -> Footer:
    storage, inner = open_storage(str(path))
    (footer,) = read_footers(storage, storage.list_files(inner, recursive=False), ReadCount(), keys=keys)
    assert footer is not None
    return footer


def chunk_ids(footer: Footer) -> Iterator[Place]:
    for i in range(len(footer.rows)):
        for j in range(len(footer.profile.schema.leaves)):
            yield i, j


def chunks(path: Path | str, keys: bp.Keys | None) -> dict[Place, ThriftStruct]:
    """The ColumnChunks as the footer has them."""
    tree, _ = read_struct(footer_of(path, keys).raw, FileMetaData)
    return {(i, j): chunk for i, group in enumerate(tree[4]) for j, chunk in enumerate(group[1])}


def metadata(path: Path | str, keys: bp.Keys | None) -> dict[Place, ThriftStruct]:
    """Their metadata, opened."""
    footer = footer_of(path, keys)
    return {place: footer.chunk_metadata(*place) for place in chunk_ids(footer)}


def bitsets(path: Path | str, keys: bp.Keys | None) -> dict[Place, bytes]:
    """The bitset of each filter that opens: those of encrypted columns are two modules just as long as the footer says,
    the others are in plain text."""
    data, footer = Path(path).read_bytes(), footer_of(path, keys)
    found = {}
    for place in chunk_ids(footer):
        try:
            cipher = footer.chunk_cipher(*place)
        except bp.EncryptionError:
            continue
        fields = footer.chunk_metadata(*place)
        if BLOOM_OFFSET not in fields:
            continue
        at, stop = fields[BLOOM_OFFSET], fields[BLOOM_OFFSET] + fields[BLOOM_LENGTH]
        if cipher is None:
            size = decode(data[at : at + 64])[1].value
            assert data[at:stop] == bloom_header(size) + data[stop - size : stop]
            found[place] = data[stop - size : stop]
            continue
        middle = at + module_size(data[at:stop])
        header = cipher.decrypt(data[at:middle], Module.BLOOM_FILTER_HEADER)
        found[place] = cipher.decrypt(data[middle:stop], Module.BLOOM_FILTER_BITSET)
        assert decode(header)[1].value == len(found[place])
        assert header.rstrip(b"\0") == bloom_header(len(found[place])).rstrip(b"\0")
    return found


def hashes(table: pa.Table, row_group: int, rows: int) -> list[set[int]]:
    """The hashes of the values of each leaf of a row group of so many rows."""
    part = table.slice(row_group * rows, rows)
    leaves = [leaf for column in part.columns for leaf in leaf_arrays(column)]
    physical = {"int64": "INT64", "string": "BYTE_ARRAY", "double": "DOUBLE"}
    return [{xxhash.xxh64_intdigest(one) for one in plain(leaf, physical[str(leaf.type)], 0)} for leaf in leaves]


def filter_excerpts(bitset: bytes) -> Iterator[bytes]:
    """What of a filter would tell: the whole, and each stretch of 64 bytes in which a bit is set."""
    yield bloom_header(len(bitset)) + bitset
    for at in range(0, max(len(bitset) - 64, 0) + 1, 32):
        if any(bitset[at : at + 64]):
            yield bitset[at : at + 64]


def find_secrets(data: bytes, secrets: Iterable[bytes]) -> list[bytes]:
    """Those of `secrets` that can be read in `data`."""
    return [secret for secret in secrets if secret in data]


def record_writes(monkeypatch: Any) -> list[bytes]:
    """All that goes to any file by `os.write` from now on."""
    import os

    found: list[bytes] = []
    original = os.write

    def write(descriptor: int, data: Any) -> int:
        found.append(bytes(data))
        return original(descriptor, data)

    monkeypatch.setattr(os, "write", write)
    return found


def assert_page_indexes_open(path: Path | str, keys: bp.Keys) -> int:
    """Each column index opens, and each offset index, and it leads to data pages that follow one another and open by
    their numbers, of the sizes that it says. The number of pages."""
    data, footer, pages = Path(path).read_bytes(), footer_of(path, keys), 0
    for place, chunk in chunks(path, keys).items():
        cipher, found = footer.chunk_cipher(*place), footer.chunk_metadata(*place)
        indexes = {}
        for field, module in ((6, Module.COLUMN_INDEX), (4, Module.OFFSET_INDEX)):
            raw = data[chunk[field] : chunk[field] + chunk[field + 1]]
            indexes[field], stop = read_struct(raw if cipher is None else cipher.decrypt(raw, module), ThriftStruct)
            assert cipher is not None or stop == len(raw)
        assert len(indexes[6][1]) == len(indexes[4][1])
        at, start = found[9], found.get(11) or found[9]
        for number, location in enumerate(indexes[4][1]):
            assert location[1] == at
            at += location[2]
            size = module_size(data[location[1] :]) if cipher is not None else 0
            raw = data[location[1] : at] if cipher is None else data[location[1] : location[1] + size]
            header, stop = read_struct(
                raw if cipher is None else cipher.decrypt(raw, Module.DATA_PAGE_HEADER, number), PageHeader
            )
            assert header[3] == location[2] - (size or stop)
            pages += 1
        assert at == start + found[7]
    return pages
