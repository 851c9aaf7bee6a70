"""Where things are in a Parquet file, told by the tests' own decoder: files with filters in every place that the format
allows, and what must hold of a file when its filters have changed."""

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

I32, I64 = 5, 6
_OFFSETS = (9, 10, 11)  # of ColumnMetaData: data, index and dictionary pages

Place = tuple[int, int]


def chunks(metadata: dict[int, Field]) -> Iterator[tuple[Place, dict[int, Field]]]:
    """The ColumnChunk structs of a FileMetaData, by row group and leaf."""
    for i, group in enumerate(metadata[4].value.values):
        for j, chunk in enumerate(group[1].value.values):
            yield (i, j), chunk


def pages(chunk: dict[int, Field]) -> tuple[int, int]:
    """The bytes of a chunk's pages."""
    metadata = chunk[3].value
    start = min(metadata[field].value for field in _OFFSETS if field in metadata and metadata[field].value > 0)
    return start, start + metadata[7].value


def insert_filters(path: Path | str, num_bytes: int, *, where: str, columns: Mapping[int, bool] | None = None) -> str:
    """Give columns filters of `num_bytes` each that hold their values, `where`: "between" the row groups, at the end
    "before" the page indexes, or "behind" them. Of `columns` the value says whether the filter's length is told."""
    path = str(path)
    columns = columns or {0: True}
    data, metadata, hashes = Path(path).read_bytes(), decode(read_footer(path)), hashes_by_chunk(path)
    old = {place: pages(chunk) for place, chunk in chunks(metadata)}
    indexes = {
        (place, field): data[chunk[field].value : chunk[field].value + chunk[field + 1].value]
        for place, chunk in chunks(metadata)
        for field in (4, 6)
        if field in chunk
    }
    body = bytearray(b"PAR1")

    def insert_row_groups(row_groups: list[int]) -> None:
        for (i, j), chunk in chunks(metadata):
            if i in row_groups and j in columns:
                bloom = bp.SplitBlockBloomFilter.empty(num_bytes // 32)
                bloom.insert(np.array(sorted(hashes[i, j]), np.uint64))
                chunk[3].value[BLOOM_OFFSET] = Field(I64, len(body))
                if columns[j]:
                    chunk[3].value[BLOOM_LENGTH] = Field(I32, len(bloom_header(num_bytes)) + num_bytes)
                body.extend(bloom_header(num_bytes) + bloom.to_bytes())

    groups = len(metadata[4].value.values)
    by: dict[Place, int] = {}
    for i in range(groups):
        for place, chunk in chunks(metadata):
            if place[0] == i:
                start, stop = old[place]
                by[place] = len(body) - start
                for field in _OFFSETS:
                    if field in chunk[3].value and chunk[3].value[field].value > 0:
                        chunk[3].value[field] = Field(I64, chunk[3].value[field].value + by[place])
                chunk[2] = Field(I64, 0)
                body += data[start:stop]
        metadata[4].value.values[i][5] = Field(I64, old[i, 0][0] + by[i, 0])
        if where == "between":
            insert_row_groups([i])
    if where == "before":
        insert_row_groups(list(range(groups)))
    for field in (6, 4):
        for place, chunk in chunks(metadata):
            if (place, field) in indexes:
                raw = indexes[place, field]
                if field == 4:
                    index = decode(raw)
                    for location in index[1].value.values:
                        location[1] = Field(I64, location[1].value + by[place])
                    raw = encode(index)
                chunk[field] = Field(I64, len(body))
                chunk[field + 1] = Field(I32, len(raw))
                body += raw
    if where == "behind":
        insert_row_groups(list(range(groups)))
    footer = encode(_sorted(metadata))
    Path(path).write_bytes(bytes(body) + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    assert_page_indexes_resolve(path)
    return path


def _sorted(fields: dict[int, Field]) -> dict[int, Field]:
    for _, chunk in chunks(fields):
        chunk[3] = Field(12, dict(sorted(chunk[3].value.items())))
    for group in fields[4].value.values:
        for chunk in group[1].value.values:
            items = sorted(chunk.items())
            chunk.clear()
            chunk.update(items)
        items = sorted(group.items())
        group.clear()
        group.update(items)
    return fields


def assert_page_indexes_resolve(path: str) -> int:
    """Each column index is a struct of just the length that is told, and each offset index names the places where page
    headers are, with the sizes that these have. The number of pages."""
    data, seen = Path(path).read_bytes(), 0
    for place, chunk in chunks(decode(read_footer(path))):
        for field in (4, 6):
            if field in chunk:
                raw = data[chunk[field].value : chunk[field].value + chunk[field + 1].value]
                assert len(encode(decode(raw))) == len(raw), (place, field)
        if 4 not in chunk:
            continue
        start, stop = pages(chunk)
        locations = decode(data[chunk[4].value : chunk[4].value + chunk[4 + 1].value])[1].value.values
        assert locations[-1][1].value + locations[-1][2].value == stop
        for location in locations:
            at = location[1].value
            assert start <= at < stop
            header = decode(data[at:stop])
            assert header[1].value in (0, 3), f"{place}: no data page at byte {at}"
            assert len(encode(header)) + header[3].value == location[2].value
            seen += 1
        if 6 in chunk:
            index = decode(data[chunk[6].value : chunk[6].value + chunk[7].value])
            assert len(index[1].value.values) == len(locations)
    return seen


def without(path: str, *fields: str) -> str:
    """The FileMetaData as text, less its Bloom fields; less the offsets as well where "offsets" is said. As text, for a
    NaN to equal itself."""
    metadata = decode(read_footer(path))
    for _, chunk in chunks(metadata):
        chunk[3].value.pop(BLOOM_OFFSET, None)
        chunk[3].value.pop(BLOOM_LENGTH, None)
        if "offsets" in fields:
            for field in (2, 4, 5, 6):
                chunk.pop(field, None)
            for field in _OFFSETS:
                chunk[3].value.pop(field, None)
    if "offsets" in fields:
        for group in metadata[4].value.values:
            group.pop(5, None)
    return repr(_plain(metadata))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return sorted((key, _plain(each)) for key, each in value.items())
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    return value


def assert_only_filters_changed(before: Path | str, after: Path | str, *, moved: bool = False) -> None:
    """`after` is the file `before` with other filters: the same bytes before the old footer, and the same footer less
    the Bloom fields. Where the data has `moved`, each chunk has its bytes, and its offsets point to them."""
    before, after = str(before), str(after)
    old, new = Path(before).read_bytes(), Path(after).read_bytes()
    if not moved:
        end = len(old) - 8 - len(read_footer(before))
        assert new[:end] == old[:end], "the data region has changed"
        assert without(after) == without(before)
    else:
        assert without(after, "offsets") == without(before, "offsets")
    there = zip(chunks(decode(read_footer(before))), chunks(decode(read_footer(after))), strict=True)
    for (place, was), (_, now) in there:
        (start, stop), (new_start, new_stop) = pages(was), pages(now)
        assert new[new_start:new_stop] == old[start:stop], f"{place}: other bytes"
        for field in _OFFSETS:
            old_at, new_at = was[3].value.get(field, (6, start))[1], now[3].value.get(field, (6, new_start))[1]
            assert new_at - new_start == old_at - start
        if 6 in was:
            a, b = was[6].value, now[6].value
            assert old[a : a + was[7].value] == new[b : b + now[7].value], f"{place}: another column index"
    assert_page_indexes_resolve(after)
    for group in decode(read_footer(after))[4].value.values:
        if 5 in group:
            assert group[5].value == pages(group[1].value.values[0])[0]
    assert pq.read_table(after).equals(pq.read_table(before))


def sizes(path: Path | str) -> list[int]:
    """The bytes of each filter."""
    return [len(bitset) for bitset in bitsets(str(path)).values()]


def without_filters(tree: ThriftStruct) -> ThriftStruct:
    """`tree`, a footer, with the fields of its Bloom filters taken out: what adding filters never changes."""
    for group in tree[4]:
        for chunk in group[1]:
            chunk[3].drop(BLOOM_OFFSET)
            chunk[3].drop(BLOOM_LENGTH)
    return tree
