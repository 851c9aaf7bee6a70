"""What a file with other Bloom filters is made of: pieces of the old file, the filters, a new footer.

One mechanism for adding filters, replacing, shrinking and dropping them. The column chunks are never touched: their
bytes are copied as they are, from where they are. Filters and footer follow at the end, which is one of the two places
that the format allows. Where the bytes of a filter that is no longer wanted are left out, what lies behind moves down,
and every offset in the footer moves with it; so do those inside the offset indexes, which are therefore written anew.

What is encrypted stays so: filters and offset indexes are sealed with the keys of their columns, the footer as
:mod:`bloomparquet.writing.footer_edit` says. Where the metadata of some column does not open, nobody knows what lies
where: every byte before the footer stays then, those of old filters as well.

Source: parquet-format ``BloomFilter.md`` ("File Format"), ``PageIndex.md``, ``Encryption.md``, ``parquet.thrift``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate

from bloomparquet.errors import BloomParquetError, FormatError
from bloomparquet.parquet.bloom_filter.header import header_bytes
from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.parquet.encryption.file_crypto import ChunkCipher
from bloomparquet.parquet.encryption.modules import Module
from bloomparquet.parquet.metadata.file_tail import MAGIC
from bloomparquet.parquet.metadata.footer import Footer
from bloomparquet.parquet.thrift import reader as thrift
from bloomparquet.parquet.thrift.struct import Tree, read_tree, write_tree
from bloomparquet.writing.filters.locate import Extent, Place
from bloomparquet.writing.footer_edit import OpenFooter

BLOOM_OFFSET, BLOOM_LENGTH = 14, 15
"""Fields of ColumnMetaData."""

_CHUNK_OFFSETS = (2, 4, 6)  # of ColumnChunk: file_offset, offset_index_offset, column_index_offset
_METADATA_OFFSETS = (9, 10, 11, BLOOM_OFFSET)  # of ColumnMetaData: data, index and dictionary pages, Bloom filter
_ROW_GROUP_OFFSET = 5

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

    `dead` are bytes that nothing needs from now on, those of old filters; they are left out, unless there is a column
    whose metadata does not open. `read` gives bytes of the file, and is asked only for offset indexes that have to
    change. Raises FormatError where `dead` reaches into something that is needed, EncryptionError where the footer
    would have to be sealed or signed by a key that is not at hand.
    """
    gaps = _merged(dead)
    opened = OpenFooter.read(path, footer, None if gaps else filters)
    if opened.closed:
        gaps = []
    end = size - footer.size
    _require_free(opened, filters, gaps, end, (4, 6))
    indexes: dict[Place, Tree] = {}
    if gaps and any(start < _data_end(opened) for start, _ in gaps):
        places = _index_extents(opened, end)
        gaps = _merged([*gaps, *places.values()])
        _require_free(opened, filters, gaps, end, (6,))
        indexes = _offset_indexes(opened, places, read)
    pieces = _kept(gaps, end)
    moved = _shift(gaps)
    _move(opened, moved)
    at = sum(stop - start for start, stop in pieces)
    tail: list[bytes] = []
    for place, index in indexes.items():
        for location in index[1]:
            location[1] = moved(location[1])
        chunk = opened.chunk(place)
        tail.append(_sealed(write_tree(index), opened.ciphers.get(place), Module.OFFSET_INDEX))
        chunk.put(4, thrift.I64, at)
        chunk.put(5, thrift.I32, len(tail[-1]))
        at += len(tail[-1])
    for place, bloom in sorted(filters.items()):
        metadata = opened.metadata[place]
        if bloom is None:
            metadata.drop(BLOOM_OFFSET)
            metadata.drop(BLOOM_LENGTH)
            continue
        parts = filter_parts(bloom, opened.ciphers.get(place))
        tail += parts
        length = sum(map(len, parts))
        metadata.put(BLOOM_OFFSET, thrift.I64, at)
        metadata.put(BLOOM_LENGTH, thrift.I32, length)
        at += length
    return Rewrite(tuple(pieces), (*tail, *opened.tail()))


def filter_parts(bloom: SplitBlockBloomFilter, cipher: ChunkCipher | None) -> list[bytes]:
    """A filter as a file has it, header and bitset: two modules where its column is encrypted."""
    header, bitset = header_bytes(bloom.num_bytes), bloom.to_bytes()
    return [
        _sealed(header, cipher, Module.BLOOM_FILTER_HEADER),
        _sealed(bitset, cipher, Module.BLOOM_FILTER_BITSET),
    ]


def _sealed(plain: bytes, cipher: ChunkCipher | None, module: Module) -> bytes:
    return plain if cipher is None else cipher.seal(plain, module)


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


def _move(opened: OpenFooter, moved: Callable[[int], int]) -> None:
    for group in opened.tree[4]:
        if _ROW_GROUP_OFFSET in group:
            group[_ROW_GROUP_OFFSET] = moved(group[_ROW_GROUP_OFFSET])
    for place in opened.places():
        for struct, fields in (
            (opened.chunk(place), _CHUNK_OFFSETS),
            (opened.metadata.get(place, Tree()), _METADATA_OFFSETS),
        ):
            for field_id in fields:
                if field_id in struct:
                    struct[field_id] = moved(struct[field_id])


def _data_end(opened: OpenFooter) -> int:
    """The end of the last page. Columns whose metadata does not open are left out."""
    return max((stop for metadata in opened.metadata.values() for _, stop in [_pages(metadata)]), default=0)


def _pages(metadata: Tree) -> Extent:
    offsets = (metadata.get(field_id) or 0 for field_id in (9, 10, 11))
    start = min((offset for offset in offsets if offset > 0), default=0)
    return start, start + max(metadata.get(7) or 0, 0)


def _index_extents(opened: OpenFooter, end: int) -> dict[Place, Extent]:
    """Where the offset indexes of all chunks are, before `end`."""
    found = {}
    for place in opened.places():
        chunk = opened.chunk(place)
        if chunk.get(4) and chunk.get(5):
            start, stop = found[place] = _index_extent(chunk, 4)
            if not len(MAGIC) <= start < stop <= end:
                raise FormatError(
                    f"{_index_name(opened, place)} is said to be at bytes {start} to {stop}; "
                    f"expected {len(MAGIC)} to {end}"
                )
    return found


def _offset_indexes(
    opened: OpenFooter, places: Mapping[Place, Extent], read: Callable[[list[Extent]], list[bytes]]
) -> dict[Place, Tree]:
    indexes = {}
    for place, stored in zip(places, read(list(places.values())), strict=True):
        cipher = opened.ciphers.get(place)
        try:
            raw = stored if cipher is None else cipher.open(stored, Module.OFFSET_INDEX)
            index, stop = read_tree(raw)
        except BloomParquetError as error:
            raise type(error)(f"{_index_name(opened, place)}: {error}") from error
        if cipher is not None and not any(raw[stop:]):  # parquet-java encrypts zeros with it
            stop = len(raw)
        locations = index.get(1)
        is_index = isinstance(locations, list) and all(
            isinstance(each, Tree) and each.kinds.get(1) in thrift.INTEGERS for each in locations
        )
        if not is_index or stop != len(raw):
            raise FormatError(f"{_index_name(opened, place)} has no page locations")
        indexes[place] = index
    return indexes


def _index_name(opened: OpenFooter, place: Place) -> str:
    column = ".".join(opened.footer.layout.schema.leaves[place[1]].path)
    return f"{opened.path}: the offset index of row group {place[0]}, column {column}"


def _index_extent(chunk: Tree, field_id: int) -> Extent:
    start, length = chunk.get(field_id) or 0, chunk.get(field_id + 1) or 0
    return start, start + length


def _require_free(opened: OpenFooter, filters: Filters, gaps: list[Extent], end: int, indexes: tuple[int, ...]) -> None:
    """FormatError where `gaps` reach into something that is needed; of the page indexes, that are those which the
    fields `indexes` of a chunk point to."""
    needed: list[tuple[Extent, str]] = [((0, len(MAGIC)), "the beginning of the file"), ((end, end + 1), "the footer")]
    for place in opened.places():
        chunk, metadata = opened.chunk(place), opened.metadata.get(place, Tree())
        name = ".".join(opened.footer.layout.schema.leaves[place[1]].path)
        what = f"row group {place[0]}, column {name}"
        needed.append((_pages(metadata), f"the pages of {what}"))
        needed += ((_index_extent(chunk, field_id), f"the page index of {what}") for field_id in indexes)
        if place not in filters and metadata.get(BLOOM_OFFSET):
            start = metadata[BLOOM_OFFSET]
            needed.append(((start, start + (metadata.get(BLOOM_LENGTH) or 1)), f"the filter of {what}"))
    starts = [start for start, _ in gaps]
    for (start, stop), what in needed:
        i = bisect_right(starts, stop - 1) - 1
        if start < stop and i >= 0 and gaps[i][1] > start:
            raise FormatError(
                f"{opened.path}: what is to go, from byte {gaps[i][0]} on, reaches into {what}, at bytes {start} to "
                f"{stop}; the footer is damaged, and the file is left as it is"
            )
