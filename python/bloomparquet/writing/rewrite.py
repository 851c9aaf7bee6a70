"""Composes a file with other Bloom filters: byte ranges of the old file, the filters, a new footer.

This one mechanism adds, replaces, shrinks and drops filters. The bytes of column chunks are copied unchanged. Filters
and footer follow at the end, one of the two positions that the format allows. If an old filter is removed, the bytes
after it move, and every offset in the footer is adjusted. So are the offsets in offset indexes, which are written
again.

Encrypted parts stay encrypted: filters and offset indexes with the keys of their columns, the footer as
:mod:`bloomparquet.writing.footer_edit` says. If the metadata of a column cannot be decrypted, its offsets cannot be
adjusted. Then every byte before the footer stays, old filters included.

Source: parquet-format ``BloomFilter.md`` ("File Format"), ``PageIndex.md``, ``Encryption.md``, ``parquet.thrift``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from bloomparquet.errors import FormatError, located
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
from bloomparquet.writing.filters.locate import ChunkId, Extent
from bloomparquet.writing.footer_edit import EditableFooter

_CHUNK_OFFSETS = (ColumnChunk.file_offset, ColumnChunk.offset_index_offset, ColumnChunk.column_index_offset)
_METADATA_OFFSETS = (
    ColumnMetaData.data_page_offset,
    ColumnMetaData.index_page_offset,
    ColumnMetaData.dictionary_page_offset,
    ColumnMetaData.bloom_filter_offset,
)

Filters = Mapping[ChunkId, SplitBlockBloomFilter | None]
"""The new filter of each chunk whose filter changes. None removes it."""
ReadExtents = Callable[[list[Extent]], Sequence[bytes | memoryview]]
"""Reads byte ranges of the old file."""


@dataclass(frozen=True)
class Rewrite:
    """A new file: the byte ranges `copied` from the old file, then the bytes of `tail`."""

    copied: tuple[Extent, ...]
    tail: tuple[bytes, ...]

    @property
    def size(self) -> int:
        return sum(end - start for start, end in self.copied) + sum(map(len, self.tail))


def rewrite(
    path: str,
    size: int,
    footer: Footer,
    filters: Filters,
    removed: Iterable[Extent],
    read: ReadExtents,
) -> Rewrite:
    """The file at `path`, of `size` bytes, with other `filters`.

    `removed` are the byte ranges of old filters to leave out; they stay if the metadata of a column cannot be
    decrypted. `read` reads byte ranges of the file; it is called only for offset indexes that change. Raises
    FormatError if `removed` overlaps bytes that are needed, EncryptionError if the key to encrypt or sign the footer is
    missing.
    """
    gaps = _merge(removed)
    edited = EditableFooter.read(path, footer, None if gaps else filters)
    if edited.undecrypted:
        gaps = []
    end = size - footer.size
    _require_unused(edited, filters, gaps, end, (_offset_index, _column_index))
    indexes: dict[ChunkId, OffsetIndex] = {}
    if gaps and any(start < _data_end(edited) for start, _ in gaps):
        index_extents = _index_extents(edited, end)
        gaps = _merge([*gaps, *index_extents.values()])
        _require_unused(edited, filters, gaps, end, (_column_index,))
        indexes = _offset_indexes(edited, index_extents, read)
    copied = _between(gaps, end)
    moved = _mover(gaps)
    _move_offsets(edited, moved)
    added = _AddedParts(sum(stop - start for start, stop in copied))
    for chunk_id, index in indexes.items():
        for location in index.page_locations:
            location.offset = moved(location.offset)
        chunk = edited.chunk(chunk_id)
        stored = _encrypt(write_struct(index), edited.ciphers.get(chunk_id), Module.OFFSET_INDEX)
        chunk.offset_index_offset, chunk.offset_index_length = added.append(stored)
    for chunk_id, bloom in sorted(filters.items()):
        metadata = edited.metadata[chunk_id]
        if bloom is None:
            metadata.bloom_filter_offset = metadata.bloom_filter_length = None
        else:
            parts = serialize_filter(bloom, edited.ciphers.get(chunk_id))
            metadata.bloom_filter_offset, metadata.bloom_filter_length = added.append(*parts)
    return Rewrite(tuple(copied), (*added.parts, *edited.tail()))


class _AddedParts:
    """The parts of the new file between the copied bytes, which end at byte `start`, and the footer."""

    def __init__(self, start: int) -> None:
        self.parts: list[bytes] = []
        self._end = start

    def append(self, *parts: bytes) -> tuple[int, int]:
        """Add `parts`, one after the other. Returns their offset in the new file, and their length."""
        offset, length = self._end, sum(map(len, parts))
        self.parts += parts
        self._end += length
        return offset, length


def serialize_filter(bloom: SplitBlockBloomFilter, cipher: ChunkCipher | None) -> list[bytes]:
    """Header and bitset of a filter as they are stored: two modules if `cipher` is given."""
    header, bitset = header_bytes(bloom.num_bytes), bloom.to_bytes()
    return [
        _encrypt(header, cipher, Module.BLOOM_FILTER_HEADER),
        _encrypt(bitset, cipher, Module.BLOOM_FILTER_BITSET),
    ]


def _encrypt(plain: bytes, cipher: ChunkCipher | None, module: Module) -> bytes:
    return plain if cipher is None else cipher.encrypt(plain, module)


def _merge(extents: Iterable[Extent]) -> list[Extent]:
    """Sort `extents`, leave out empty ones, and join those that overlap or touch."""
    merged: list[Extent] = []
    for start, end in sorted(extents):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif start < end:
            merged.append((start, end))
    return merged


def _between(gaps: list[Extent], end: int) -> list[Extent]:
    """The byte ranges before `end` that are outside of `gaps`."""
    starts = [0, *(stop for _, stop in gaps)]
    stops = [*(start for start, _ in gaps), end]
    return [(start, stop) for start, stop in zip(starts, stops, strict=True) if start < stop]


def _mover(gaps: list[Extent]) -> Callable[[int], int]:
    """A function from old offsets to new ones. An offset inside a gap becomes the offset of the byte after the gap."""
    starts = [start for start, _ in gaps]
    removed_bytes = [0, *accumulate(end - start for start, end in gaps)]

    def moved(offset: int) -> int:
        before = bisect_right(starts, offset)
        return max(offset, gaps[before - 1][1]) - removed_bytes[before] if before else offset

    return moved


def _move_offsets(edited: EditableFooter, moved: Callable[[int], int]) -> None:
    for group in edited.tree.row_groups:
        _move_fields(group, (RowGroup.file_offset,), moved)
    for chunk_id in edited.chunk_ids():
        _move_fields(edited.chunk(chunk_id), _CHUNK_OFFSETS, moved)
        if chunk_id in edited.metadata:
            _move_fields(edited.metadata[chunk_id], _METADATA_OFFSETS, moved)


def _move_fields(struct: ThriftStruct, fields: Iterable[Field[int]], moved: Callable[[int], int]) -> None:
    for field in fields:
        offset = field.read(struct)
        if offset is not None:
            struct[field.id] = moved(offset)  # keeps the field's type


def _data_end(edited: EditableFooter) -> int:
    """The end of the last page of the columns whose metadata is decrypted or in plain text."""
    return max((stop for metadata in edited.metadata.values() for _, stop in [_pages(metadata)]), default=0)


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


def _index_extents(edited: EditableFooter, end: int) -> dict[ChunkId, Extent]:
    """The byte ranges of all offset indexes. Raises FormatError if one is not before `end`."""
    extents = {}
    for chunk_id in edited.chunk_ids():
        chunk = edited.chunk(chunk_id)
        if chunk.offset_index_offset and chunk.offset_index_length:
            start, stop = extents[chunk_id] = _offset_index(chunk)
            if not len(MAGIC) <= start < stop <= end:
                raise FormatError(
                    f"{_index_name(edited, chunk_id)} is at bytes {start} to {stop} according to the footer; expected "
                    f"a range within bytes {len(MAGIC)} to {end}"
                )
    return extents


def _offset_indexes(
    edited: EditableFooter, extents: Mapping[ChunkId, Extent], read: ReadExtents
) -> dict[ChunkId, OffsetIndex]:
    indexes = {}
    for chunk_id, stored in zip(extents, read(list(extents.values())), strict=True):
        cipher = edited.ciphers.get(chunk_id)
        with located(_index_name(edited, chunk_id)):
            raw = stored if cipher is None else cipher.decrypt(stored, Module.OFFSET_INDEX)
            index, stop = read_struct(raw, OffsetIndex)
            for location in index.page_locations:
                location.offset  # noqa: B018 (raises FormatError unless it is an integer)
            if cipher is not None and not any(raw[stop:]):  # parquet-java pads the module with zeros
                stop = len(raw)
            if stop != len(raw):
                raise FormatError(f"{len(raw) - stop} bytes follow its end")
        indexes[chunk_id] = index
    return indexes


def _index_name(edited: EditableFooter, chunk_id: ChunkId) -> str:
    return f"{edited.path}: the offset index of {edited.footer.chunk_name(*chunk_id)}"


def _require_unused(
    edited: EditableFooter,
    filters: Filters,
    gaps: list[Extent],
    end: int,
    indexes: tuple[Callable[[ColumnChunk], Extent], ...],
) -> None:
    """Raise FormatError if one of `gaps` overlaps pages, kept filters or the page indexes that `indexes` return."""
    needed: list[tuple[Extent, str]] = [((0, len(MAGIC)), "the beginning of the file"), ((end, end + 1), "the footer")]
    for chunk_id in edited.chunk_ids():
        chunk, metadata = edited.chunk(chunk_id), edited.metadata.get(chunk_id, ColumnMetaData())
        what = edited.footer.chunk_name(*chunk_id)
        needed.append((_pages(metadata), f"the pages of {what}"))
        needed += ((index(chunk), f"the page index of {what}") for index in indexes)
        start = metadata.bloom_filter_offset
        if chunk_id not in filters and start:
            needed.append(((start, start + (metadata.bloom_filter_length or 1)), f"the filter of {what}"))
    starts = [start for start, _ in gaps]
    for (start, stop), what in needed:
        i = bisect_right(starts, stop - 1) - 1
        if start < stop and i >= 0 and gaps[i][1] > start:
            raise FormatError(
                f"{edited.path}: the bytes to remove, from byte {gaps[i][0]} on, overlap {what}, at bytes {start} to "
                f"{stop}; the footer is damaged, and the file is unchanged"
            )
