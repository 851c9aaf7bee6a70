"""Parquet files with Bloom filters at every position that the format allows, and what must hold after filters change.

Written with the tests' own Thrift decoder, so that it does not share the faults of the product's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import bloomparquet as bp
from bloomparquet.parquet.thrift.struct import ThriftStruct
from tests.support.core import BLOOM_LENGTH, BLOOM_OFFSET, Field, bloom_header, decode, encode, read_footer
from tests.support.stored import bitsets, hashes_by_chunk

_I32, _I64, _STRUCT = 5, 6, 12
# Field ids of parquet.thrift
_ROW_GROUPS = 4  # of FileMetaData
_COLUMNS, _GROUP_OFFSET = 1, 5  # of RowGroup
_CHUNK_OFFSET, _METADATA, _OFFSET_INDEX, _COLUMN_INDEX = 2, 3, 4, 6  # of ColumnChunk; the length is the next field
_COMPRESSED_SIZE = 7  # of ColumnMetaData
_PAGE_OFFSETS = (9, 10, 11)  # of ColumnMetaData: data, index and dictionary pages
_LOCATIONS = 1  # of OffsetIndex
_LOCATION_OFFSET, _LOCATION_SIZE = 1, 2  # of PageLocation

ChunkId = tuple[int, int]
"""A row group and a leaf."""


def chunks(metadata: dict[int, Field]) -> Iterator[tuple[ChunkId, dict[int, Field]]]:
    """The ColumnChunk structs of a FileMetaData, by row group and leaf."""
    for i, group in enumerate(metadata[_ROW_GROUPS].value.values):
        for j, chunk in enumerate(group[_COLUMNS].value.values):
            yield (i, j), chunk


def pages(chunk: dict[int, Field]) -> tuple[int, int]:
    """The start and end of a chunk's pages in the file."""
    metadata = chunk[_METADATA].value
    start = min(metadata[field].value for field in _PAGE_OFFSETS if field in metadata and metadata[field].value > 0)
    return start, start + metadata[_COMPRESSED_SIZE].value


def insert_filters(path: Path | str, num_bytes: int, *, where: str, columns: Mapping[int, bool] | None = None) -> str:
    """Give columns filters of `num_bytes` with their values. `where` is "between" the row groups, or at the end of the
    file, "before" or "behind" the page indexes. `columns` says for each leaf whether the footer stores the length."""
    path = str(path)
    columns = columns or {0: True}
    data, metadata, hashes = Path(path).read_bytes(), decode(read_footer(path)), hashes_by_chunk(path)
    old = {chunk_id: pages(chunk) for chunk_id, chunk in chunks(metadata)}
    indexes = {
        (chunk_id, field): data[chunk[field].value : chunk[field].value + chunk[field + 1].value]
        for chunk_id, chunk in chunks(metadata)
        for field in (_OFFSET_INDEX, _COLUMN_INDEX)
        if field in chunk
    }
    body = bytearray(b"PAR1")

    def insert(row_groups: list[int]) -> None:
        for (i, j), chunk in chunks(metadata):
            if i in row_groups and j in columns:
                bloom = bp.SplitBlockBloomFilter.empty(num_bytes // 32)
                bloom.insert(np.array(sorted(hashes[i, j]), np.uint64))
                chunk[_METADATA].value[BLOOM_OFFSET] = Field(_I64, len(body))
                if columns[j]:
                    chunk[_METADATA].value[BLOOM_LENGTH] = Field(_I32, len(bloom_header(num_bytes)) + num_bytes)
                body.extend(bloom_header(num_bytes) + bloom.to_bytes())

    groups = len(metadata[_ROW_GROUPS].value.values)
    moved: dict[ChunkId, int] = {}
    for i in range(groups):
        for chunk_id, chunk in chunks(metadata):
            if chunk_id[0] == i:
                start, stop = old[chunk_id]
                moved[chunk_id] = len(body) - start
                _move_pages(chunk, moved[chunk_id])
                chunk[_CHUNK_OFFSET] = Field(_I64, 0)
                body += data[start:stop]
        metadata[_ROW_GROUPS].value.values[i][_GROUP_OFFSET] = Field(_I64, old[i, 0][0] + moved[i, 0])
        if where == "between":
            insert([i])
    if where == "before":
        insert(list(range(groups)))
    for field in (_COLUMN_INDEX, _OFFSET_INDEX):
        for chunk_id, chunk in chunks(metadata):
            if (chunk_id, field) in indexes:
                raw = indexes[chunk_id, field]
                if field == _OFFSET_INDEX:
                    raw = _moved_offset_index(raw, moved[chunk_id])
                chunk[field] = Field(_I64, len(body))
                chunk[field + 1] = Field(_I32, len(raw))
                body += raw
    if where == "behind":
        insert(list(range(groups)))
    footer = encode(_sorted(metadata))
    Path(path).write_bytes(bytes(body) + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    assert_page_indexes_resolve(path)
    return path


def _move_pages(chunk: dict[int, Field], distance: int) -> None:
    """Add `distance` to the offsets of a chunk's pages."""
    metadata = chunk[_METADATA].value
    for field in _PAGE_OFFSETS:
        if field in metadata and metadata[field].value > 0:
            metadata[field] = Field(_I64, metadata[field].value + distance)


def _moved_offset_index(raw: bytes, distance: int) -> bytes:
    index = decode(raw)
    for location in index[_LOCATIONS].value.values:
        location[_LOCATION_OFFSET] = Field(_I64, location[_LOCATION_OFFSET].value + distance)
    return encode(index)


def _sorted(fields: dict[int, Field]) -> dict[int, Field]:
    for _, chunk in chunks(fields):
        chunk[_METADATA] = Field(_STRUCT, dict(sorted(chunk[_METADATA].value.items())))
    for group in fields[_ROW_GROUPS].value.values:
        for chunk in group[_COLUMNS].value.values:
            items = sorted(chunk.items())
            chunk.clear()
            chunk.update(items)
        items = sorted(group.items())
        group.clear()
        group.update(items)
    return fields


def assert_page_indexes_resolve(path: str) -> int:
    """Assert that column indexes have the stored lengths, and that offset indexes have the offsets and sizes of the
    pages. Returns the number of pages."""
    data, seen = Path(path).read_bytes(), 0
    for chunk_id, chunk in chunks(decode(read_footer(path))):
        for field in (_OFFSET_INDEX, _COLUMN_INDEX):
            if field in chunk:
                raw = data[chunk[field].value : chunk[field].value + chunk[field + 1].value]
                assert len(encode(decode(raw))) == len(raw), (chunk_id, field)
        if _OFFSET_INDEX not in chunk:
            continue
        start, stop = pages(chunk)
        locations = decode(
            data[chunk[_OFFSET_INDEX].value : chunk[_OFFSET_INDEX].value + chunk[_OFFSET_INDEX + 1].value]
        )[_LOCATIONS].value.values
        assert locations[-1][_LOCATION_OFFSET].value + locations[-1][_LOCATION_SIZE].value == stop
        for location in locations:
            at = location[_LOCATION_OFFSET].value
            assert start <= at < stop
            header = decode(data[at:stop])
            assert header[1].value in (0, 3), f"{chunk_id}: no data page at byte {at}"
            assert len(encode(header)) + header[3].value == location[_LOCATION_SIZE].value
            seen += 1
        if _COLUMN_INDEX in chunk:
            index_start, index_length = chunk[_COLUMN_INDEX].value, chunk[_COLUMN_INDEX + 1].value
            index = decode(data[index_start : index_start + index_length])
            assert len(index[1].value.values) == len(locations)
    return seen


def without(path: str, *fields: str) -> str:
    """The FileMetaData without the fields of Bloom filters, and without offsets if `fields` has "offsets". As text, NaN
    equals NaN."""
    metadata = decode(read_footer(path))
    for _, chunk in chunks(metadata):
        chunk[_METADATA].value.pop(BLOOM_OFFSET, None)
        chunk[_METADATA].value.pop(BLOOM_LENGTH, None)
        if "offsets" in fields:
            for field in (_CHUNK_OFFSET, _OFFSET_INDEX, _OFFSET_INDEX + 1, _COLUMN_INDEX):
                chunk.pop(field, None)
            for field in _PAGE_OFFSETS:
                chunk[_METADATA].value.pop(field, None)
    if "offsets" in fields:
        for group in metadata[_ROW_GROUPS].value.values:
            group.pop(_GROUP_OFFSET, None)
    return repr(_comparable(metadata))


def _comparable(value: Any) -> Any:
    if isinstance(value, dict):
        return sorted((key, _comparable(each)) for key, each in value.items())
    if isinstance(value, (tuple, list)):
        return [_comparable(each) for each in value]
    return value


def assert_only_filters_changed(before: Path | str, after: Path | str, *, moved: bool = False) -> None:
    """Assert that `after` is `before` with other filters: the bytes before the old footer are equal, and so are the
    footers without the fields of Bloom filters. If the data has `moved`, each chunk has equal bytes, and its offsets
    point to them."""
    before, after = str(before), str(after)
    old, new = Path(before).read_bytes(), Path(after).read_bytes()
    if not moved:
        end = len(old) - 8 - len(read_footer(before))
        assert new[:end] == old[:end], "the data region has changed"
        assert without(after) == without(before)
    else:
        assert without(after, "offsets") == without(before, "offsets")
    there = zip(chunks(decode(read_footer(before))), chunks(decode(read_footer(after))), strict=True)
    for (chunk_id, was), (_, now) in there:
        (start, stop), (new_start, new_stop) = pages(was), pages(now)
        assert new[new_start:new_stop] == old[start:stop], f"{chunk_id}: other bytes"
        for field in _PAGE_OFFSETS:
            old_at, new_at = (
                was[_METADATA].value.get(field, (6, start))[1],
                now[_METADATA].value.get(field, (6, new_start))[1],
            )
            assert new_at - new_start == old_at - start
        if _COLUMN_INDEX in was:
            a, b, length = was[_COLUMN_INDEX].value, now[_COLUMN_INDEX].value, was[_COLUMN_INDEX + 1].value
            assert length == now[_COLUMN_INDEX + 1].value
            assert old[a : a + length] == new[b : b + length], f"{chunk_id}: another column index"
    assert_page_indexes_resolve(after)
    for group in decode(read_footer(after))[_ROW_GROUPS].value.values:
        if _GROUP_OFFSET in group:
            assert group[_GROUP_OFFSET].value == pages(group[_COLUMNS].value.values[0])[0]
    assert pq.read_table(after).equals(pq.read_table(before))


def sizes(path: Path | str) -> list[int]:
    """The bytes of each filter."""
    return [len(bitset) for bitset in bitsets(str(path)).values()]


def without_filters(tree: ThriftStruct) -> ThriftStruct:
    """Remove the fields of Bloom filters from the footer `tree`. Adding filters does not change the rest."""
    for group in tree[_ROW_GROUPS]:
        for chunk in group[_COLUMNS]:
            chunk[_METADATA].drop(BLOOM_OFFSET)
            chunk[_METADATA].drop(BLOOM_LENGTH)
    return tree
