"""What a file with other Bloom filters is made of: pieces of the old file, the filters, a new footer.

One mechanism for adding filters, replacing, shrinking and dropping them. The column chunks are never touched: their
bytes are copied as they are, from where they are. Filters and footer follow at the end, which is one of the two places
that the format allows. Where the bytes of a filter that is no longer wanted are left out, what lies behind moves down,
and every offset in the footer moves with it; so do those inside the offset indexes, which are therefore written anew.

Source: parquet-format ``BloomFilter.md`` ("File Format"), ``PageIndex.md``, ``parquet.thrift``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

from bloomparquet.errors import BloomParquetError, FormatError
from bloomparquet.format import thrift
from bloomparquet.format.bloom import header_bytes
from bloomparquet.format.columns import column_chunks, require_chunk, row_groups
from bloomparquet.format.footer import MAGIC, Footer, parse_footer
from bloomparquet.format.tree import Tree, read_tree, write_tree
from bloomparquet.sbbf import SplitBlockBloomFilter

BLOOM_OFFSET, BLOOM_LENGTH = 14, 15
"""Fields of ColumnMetaData."""

_CHUNK_OFFSETS = (2, 4, 6)  # of ColumnChunk: file_offset, offset_index_offset, column_index_offset
_METADATA_OFFSETS = (9, 10, 11, BLOOM_OFFSET)  # of ColumnMetaData: data, index and dictionary pages, Bloom filter
_ROW_GROUP_OFFSET = 5

Place = tuple[int, int]
"""A column chunk: row group and leaf."""
Extent = tuple[int, int]
"""Bytes of a file: where they begin and where they end."""
Filters = Mapping[Place, SplitBlockBloomFilter | None]
"""The chunks whose filter changes; None has none from now on."""


@dataclass(frozen=True)
class Rewrite:
    """A new file: these pieces of the old one, and then these bytes."""

    pieces: tuple[Extent, ...]
    tail: tuple[bytes, ...]

    @property
    def size(self) -> int:
        return sum(end - start for start, end in self.pieces) + sum(map(len, self.tail))


def rewrite(
    path: str,
    size: int,
    footer: Footer,
    filters: Filters,
    dead: Iterable[Extent],
    read: Callable[[list[Extent]], list[bytes]],
) -> Rewrite:
    """The file at `path`, of `size` bytes, with other `filters`.

    `dead` are bytes that nothing needs from now on, those of old filters; they are left out. `read` gives bytes of the
    file, and is asked only for offset indexes that have to change. Raises FormatError where `dead` reaches into
    something that is needed.
    """
    tree = _tree_of(path, footer)
    end = size - len(footer.raw) - 4 - len(MAGIC)
    gaps = _merged(dead)
    _require_free(path, footer, tree, filters, gaps, end, (4, 6))
    indexes: dict[Place, Tree] = {}
    if gaps and any(start < _data_end(tree) for start, _ in gaps):
        places = _index_extents(tree, end)
        gaps = _merged([*gaps, *places.values()])
        _require_free(path, footer, tree, filters, gaps, end, (6,))
        indexes = _offset_indexes(places, read)
    pieces = _kept(gaps, end)
    moved = _shift(gaps)
    _move(tree, moved)
    at = sum(stop - start for start, stop in pieces)
    tail: list[bytes] = []
    for place, index in indexes.items():
        for location in index[1]:
            location[1] = moved(location[1])
        chunk = _chunk(tree, place)
        tail.append(write_tree(index))
        chunk.put(4, thrift.I64, at)
        chunk.put(5, thrift.I32, len(tail[-1]))
        at += len(tail[-1])
    for place, bloom in sorted(filters.items()):
        metadata = _chunk(tree, place)[3]
        if bloom is None:
            metadata.drop(BLOOM_OFFSET)
            metadata.drop(BLOOM_LENGTH)
            continue
        header = header_bytes(bloom.num_bytes)
        tail += header, bloom.to_bytes()
        length = len(header) + bloom.num_bytes
        metadata.put(BLOOM_OFFSET, thrift.I64, at)
        metadata.put(BLOOM_LENGTH, thrift.I32, length)
        at += length
    raw = write_tree(tree)
    _require_same(path, footer, raw, tree)
    return Rewrite(tuple(pieces), (*tail, raw, len(raw).to_bytes(4, "little") + MAGIC))


def _places(tree: Tree) -> Iterator[Place]:
    for i, group in enumerate(tree[4]):
        for j in range(len(group[1])):
            yield i, j


def _chunk(tree: Tree, place: Place) -> Tree:
    row_group, leaf = place
    chunk: Tree = tree[4][row_group][1][leaf]
    return chunk


def _merged(extents: Iterable[Extent]) -> list[Extent]:
    found: list[Extent] = []
    for start, end in sorted(extents):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        elif start < end:
            found.append((start, end))
    return found


def _kept(gaps: list[Extent], end: int) -> list[Extent]:
    starts = [0, *(stop for _, stop in gaps)]
    stops = [*(start for start, _ in gaps), end]
    return [(start, stop) for start, stop in zip(starts, stops, strict=True) if start < stop]


def _shift(gaps: list[Extent]) -> Callable[[int], int]:
    """Where each byte of the old file is in the new one; one that is gone, where what followed it is."""
    starts = [start for start, _ in gaps]
    removed = [0, *accumulate(end - start for start, end in gaps)]

    def moved(offset: int) -> int:
        before = bisect_right(starts, offset)
        return max(offset, gaps[before - 1][1]) - removed[before] if before else offset

    return moved


def _move(tree: Tree, moved: Callable[[int], int]) -> None:
    for group in tree[4]:
        if _ROW_GROUP_OFFSET in group:
            group[_ROW_GROUP_OFFSET] = moved(group[_ROW_GROUP_OFFSET])
        for chunk in group[1]:
            for struct, fields in ((chunk, _CHUNK_OFFSETS), (chunk[3], _METADATA_OFFSETS)):
                for field_id in fields:
                    if field_id in struct:
                        struct[field_id] = moved(struct[field_id])


def data_end(path: str, footer: Footer) -> int:
    """Where the last page of the file at `path` ends; what follows are filters, page indexes and the footer."""
    return _data_end(_tree_of(path, footer))


def _tree_of(path: str, footer: Footer) -> Tree:
    """The footer as a tree, of which every chunk has passed :func:`require_chunk`."""
    where = path
    try:
        tree, _ = read_tree(footer.raw)
        for row_group, group in enumerate(row_groups(tree)):
            for leaf, chunk in zip(footer.layout.schema.leaves, column_chunks(group), strict=True):
                where = f"{path}: row group {row_group}, column {'.'.join(leaf.path)}"
                require_chunk(chunk)
    except BloomParquetError as error:
        raise type(error)(f"{where}: {error}") from error
    return tree


def _data_end(tree: Tree) -> int:
    return max((stop for place in _places(tree) for _, stop in [_pages(_chunk(tree, place))]), default=0)


def _pages(chunk: Tree) -> Extent:
    metadata = chunk[3]
    offsets = (metadata.get(field_id) or 0 for field_id in (9, 10, 11))
    start = min((offset for offset in offsets if offset > 0), default=0)
    return start, start + max(metadata.get(7) or 0, 0)


def _index_extents(tree: Tree, end: int) -> dict[Place, Extent]:
    """Where the offset indexes of all chunks are, before `end`."""
    found = {}
    for place in _places(tree):
        chunk = _chunk(tree, place)
        if chunk.get(4) and chunk.get(5):
            start, stop = found[place] = _index_extent(chunk, 4)
            if not len(MAGIC) <= start < stop <= end:
                raise FormatError(
                    f"the offset index of row group {place[0]}, column {place[1]} is said to be at bytes {start} to "
                    f"{stop}; expected {len(MAGIC)} to {end}"
                )
    return found


def _offset_indexes(places: Mapping[Place, Extent], read: Callable[[list[Extent]], list[bytes]]) -> dict[Place, Tree]:
    indexes = {}
    for place, raw in zip(places, read(list(places.values())), strict=True):
        index, stop = read_tree(raw)
        locations = index.get(1)
        is_index = isinstance(locations, list) and all(
            isinstance(each, Tree) and each.kinds.get(1) in thrift.INTEGERS for each in locations
        )
        if not is_index or stop != len(raw):
            raise FormatError(f"the offset index of row group {place[0]}, column {place[1]} has no page locations")
        indexes[place] = index
    return indexes


def _index_extent(chunk: Tree, field_id: int) -> Extent:
    start, length = chunk.get(field_id) or 0, chunk.get(field_id + 1) or 0
    return start, start + length


def _require_free(
    path: str, footer: Footer, tree: Tree, filters: Filters, gaps: list[Extent], end: int, indexes: tuple[int, ...]
) -> None:
    """FormatError where `gaps` reach into something that is needed; of the page indexes, that are those which the
    fields `indexes` of a chunk point to."""
    needed: list[tuple[Extent, str]] = [((0, len(MAGIC)), "the beginning of the file"), ((end, end + 1), "the footer")]
    for place in _places(tree):
        chunk = _chunk(tree, place)
        name = ".".join(footer.layout.schema.leaves[place[1]].path)
        what = f"row group {place[0]}, column {name}"
        needed.append((_pages(chunk), f"the pages of {what}"))
        needed += ((_index_extent(chunk, field_id), f"the page index of {what}") for field_id in indexes)
        metadata = chunk[3]
        if place not in filters and metadata.get(BLOOM_OFFSET):
            start = metadata[BLOOM_OFFSET]
            needed.append(((start, start + (metadata.get(BLOOM_LENGTH) or 1)), f"the filter of {what}"))
    starts = [start for start, _ in gaps]
    for (start, stop), what in needed:
        i = bisect_right(starts, stop - 1) - 1
        if start < stop and i >= 0 and gaps[i][1] > start:
            raise FormatError(
                f"{path}: what is to go, from byte {gaps[i][0]} on, reaches into {what}, at bytes {start} to {stop}; "
                "the footer is damaged, and the file is left as it is"
            )


def _require_same(path: str, old: Footer, raw: bytes, tree: Tree) -> None:
    """Read back what was written: it must be what was meant, and for planning what it was before."""
    again, stop = read_tree(raw)
    new = parse_footer(raw)
    if again != tree or stop != len(raw) or new.rows != old.rows:
        raise FormatError(f"{path}: its footer does not survive being written again; the file is left as it is")
