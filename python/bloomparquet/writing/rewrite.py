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
from bloomparquet.parquet.thrift.definitions import ColumnChunk, ColumnMetaData, OffsetIndex, RowGroup
from bloomparquet.parquet.thrift.reader import read_struct
from bloomparquet.parquet.thrift.struct import Field, ThriftStruct
from bloomparquet.parquet.thrift.writer import write_struct
from bloomparquet.writing.filters.locate import Extent, Place
from bloomparquet.writing.footer_edit import OpenFooter

_CHUNK_OFFSETS = (ColumnChunk.file_offset, ColumnChunk.offset_index_offset, ColumnChunk.column_index_offset)
_METADATA_OFFSETS = (
    ColumnMetaData.data_page_offset,
    ColumnMetaData.index_page_offset,
    ColumnMetaData.dictionary_page_offset,
    ColumnMetaData.bloom_filter_offset,
)

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
    _require_free(opened, filters, gaps, end, (_offset_index, _column_index))
    indexes: dict[Place, OffsetIndex] = {}
    if gaps and any(start < _data_end(opened) for start, _ in gaps):
        places = _index_extents(opened, end)
        gaps = _merged([*gaps, *places.values()])
        _require_free(opened, filters, gaps, end, (_column_index,))
        indexes = _offset_indexes(opened, places, read)
    pieces = _kept(gaps, end)
    moved = _shift(gaps)
    _move(opened, moved)
    at = sum(stop - start for start, stop in pieces)
    tail: list[bytes] = []
    for place, index in indexes.items():
        for location in index.page_locations:
            location.offset = moved(location.offset)
        chunk = opened.chunk(place)
        tail.append(_sealed(write_struct(index), opened.ciphers.get(place), Module.OFFSET_INDEX))
        chunk.offset_index_offset, chunk.offset_index_length = at, len(tail[-1])
        at += len(tail[-1])
    for place, bloom in sorted(filters.items()):
        metadata = opened.metadata[place]
        if bloom is None:
            metadata.bloom_filter_offset = metadata.bloom_filter_length = None
            continue
        parts = filter_parts(bloom, opened.ciphers.get(place))
        tail += parts
        length = sum(map(len, parts))
        metadata.bloom_filter_offset, metadata.bloom_filter_length = at, length
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
    return plain if cipher is None else cipher.encrypt(plain, module)


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
    for group in opened.tree.row_groups:
        _move_fields(group, (RowGroup.file_offset,), moved)
    for place in opened.places():
        _move_fields(opened.chunk(place), _CHUNK_OFFSETS, moved)
        if place in opened.metadata:
            _move_fields(opened.metadata[place], _METADATA_OFFSETS, moved)


def _move_fields(struct: ThriftStruct, fields: Iterable[Field[int]], moved: Callable[[int], int]) -> None:
    for field in fields:
        offset = field.read(struct)
        if offset is not None:
            struct[field.id] = moved(offset)  # with the type that it has


def _data_end(opened: OpenFooter) -> int:
    """The end of the last page. Columns whose metadata does not open are left out."""
    return max((stop for metadata in opened.metadata.values() for _, stop in [_pages(metadata)]), default=0)


def _pages(metadata: ColumnMetaData) -> Extent:
    offsets = (
        ColumnMetaData.data_page_offset.read(metadata),
        metadata.index_page_offset,
        metadata.dictionary_page_offset,
    )
    start = min((offset for offset in offsets if offset is not None and offset > 0), default=0)
    return start, start + max(ColumnMetaData.total_compressed_size.read(metadata) or 0, 0)


def _offset_index(chunk: ColumnChunk) -> Extent:
    start = chunk.offset_index_offset or 0
    return start, start + (chunk.offset_index_length or 0)


def _column_index(chunk: ColumnChunk) -> Extent:
    start = chunk.column_index_offset or 0
    return start, start + (chunk.column_index_length or 0)


def _index_extents(opened: OpenFooter, end: int) -> dict[Place, Extent]:
    """Where the offset indexes of all chunks are, before `end`."""
    found = {}
    for place in opened.places():
        chunk = opened.chunk(place)
        if chunk.offset_index_offset and chunk.offset_index_length:
            start, stop = found[place] = _offset_index(chunk)
            if not len(MAGIC) <= start < stop <= end:
                raise FormatError(
                    f"{_index_name(opened, place)} is said to be at bytes {start} to {stop}; "
                    f"expected {len(MAGIC)} to {end}"
                )
    return found


def _offset_indexes(
    opened: OpenFooter, places: Mapping[Place, Extent], read: Callable[[list[Extent]], list[bytes]]
) -> dict[Place, OffsetIndex]:
    indexes = {}
    for place, stored in zip(places, read(list(places.values())), strict=True):
        cipher = opened.ciphers.get(place)
        try:
            raw = stored if cipher is None else cipher.decrypt(stored, Module.OFFSET_INDEX)
            index, stop = read_struct(raw, OffsetIndex)
            for location in index.page_locations:
                location.offset  # noqa: B018 (FormatError unless it is an integer)
        except BloomParquetError as error:
            raise type(error)(f"{_index_name(opened, place)}: {error}") from error
        if cipher is not None and not any(raw[stop:]):  # parquet-java encrypts zeros with it
            stop = len(raw)
        if stop != len(raw):
            raise FormatError(f"{_index_name(opened, place)}: {len(raw) - stop} bytes follow its end")
        indexes[place] = index
    return indexes


def _index_name(opened: OpenFooter, place: Place) -> str:
    column = ".".join(opened.footer.profile.schema.leaves[place[1]].path)
    return f"{opened.path}: the offset index of row group {place[0]}, column {column}"


def _require_free(
    opened: OpenFooter,
    filters: Filters,
    gaps: list[Extent],
    end: int,
    indexes: tuple[Callable[[ColumnChunk], Extent], ...],
) -> None:
    """FormatError where `gaps` reach into something that is needed; of the page indexes, that are those that `indexes`
    give of a chunk."""
    needed: list[tuple[Extent, str]] = [((0, len(MAGIC)), "the beginning of the file"), ((end, end + 1), "the footer")]
    for place in opened.places():
        chunk, metadata = opened.chunk(place), opened.metadata.get(place, ColumnMetaData())
        name = ".".join(opened.footer.profile.schema.leaves[place[1]].path)
        what = f"row group {place[0]}, column {name}"
        needed.append((_pages(metadata), f"the pages of {what}"))
        needed += ((index(chunk), f"the page index of {what}") for index in indexes)
        start = metadata.bloom_filter_offset
        if place not in filters and start:
            needed.append(((start, start + (metadata.bloom_filter_length or 1)), f"the filter of {what}"))
    starts = [start for start, _ in gaps]
    for (start, stop), what in needed:
        i = bisect_right(starts, stop - 1) - 1
        if start < stop and i >= 0 and gaps[i][1] > start:
            raise FormatError(
                f"{opened.path}: what is to go, from byte {gaps[i][0]} on, reaches into {what}, at bytes {start} to "
                f"{stop}; the footer is damaged, and the file is left as it is"
            )
