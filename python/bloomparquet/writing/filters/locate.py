"""Locates and reads the Bloom filters of a file, one filter in memory at a time.

Filters of encrypted columns are decrypted. Columns without a key are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from bloomparquet.errors import FormatError, located
from bloomparquet.parquet.bloom_filter.filter_bytes import FilterCiphers
from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.parquet.encryption.file_crypto import ChunkCipher
from bloomparquet.parquet.encryption.modules import Module
from bloomparquet.parquet.metadata.footer import Footer
from bloomparquet.storage.files import FileInfo, ReadCount, Storage
from bloomparquet.storage.ranges import read_extents, read_ranges

ChunkId = tuple[int, int]
"""A column chunk: the index of its row group, and the index of its leaf."""
Extent = tuple[int, int]
"""A byte range of a file: start and end offset."""


@dataclass(frozen=True, slots=True)
class StoredFilter:
    """A filter in a file: offsets of its header, its bitset and its end, and the cipher of an encrypted filter."""

    start: int
    bitset: int
    end: int
    cipher: ChunkCipher | None = None

    @property
    def extent(self) -> Extent:
        return self.start, self.end


def find_filters(
    storage: Storage, file: FileInfo, footer: Footer, count: ReadCount, *, skip_broken: bool = False
) -> dict[ChunkId, StoredFilter]:
    """The filters of `file`, except of columns whose key is missing. Reads all their headers at once.

    Raises FormatError, UnsupportedError, LimitError or EncryptionError, with the name of the chunk, for a filter that
    cannot be used. With `skip_broken` such a filter is left out.
    """
    end = file.size - footer.size
    offsets, ciphers = [], []
    chunk_ids = []
    for chunk_id, (offset, cipher) in _filter_offsets(file, footer).items():
        if 4 <= offset < end:
            chunk_ids.append(chunk_id)
            offsets.append(offset)
            ciphers.append(cipher)
        elif not skip_broken:
            raise FormatError(
                f"{_name(file, footer, chunk_id)}: the footer has offset {offset} for the Bloom filter; expected 4 to "
                f"{end}"
            )
    start = np.array(offsets, np.int64)
    filter_ciphers = FilterCiphers(ciphers, len(ciphers))
    sizes = np.minimum(end - start, filter_ciphers.max_header_bytes)
    ranges = read_ranges(storage, [file], np.zeros_like(start), start, sizes, count)
    headers = filter_ciphers.headers(np.arange(len(start)), ranges, sizes)
    if headers.errors and not skip_broken:
        i, error = min(headers.errors.items())
        raise type(error)(f"{_name(file, footer, chunk_ids[i])}: {error}") from error
    filters = {}
    for i in np.flatnonzero(headers.header_bytes).tolist():
        offset, header_size, size = offsets[i], int(headers.header_bytes[i]), int(headers.stored_bytes[i])
        bitset = offset + header_size
        if bitset + size <= end:
            filters[chunk_ids[i]] = StoredFilter(offset, bitset, bitset + size, ciphers[i])
        elif not skip_broken:
            raise FormatError(
                f"{_name(file, footer, chunk_ids[i])}: the Bloom filter at byte {offset} claims {size} bytes, "
                f"but the footer begins at byte {end}"
            )
    return filters


def _filter_offsets(file: FileInfo, footer: Footer) -> dict[ChunkId, tuple[int, ChunkCipher | None]]:
    """The offsets of filters as the footer has them, and their ciphers. Columns without a key are left out."""
    offsets = {}
    undecryptable: set[int] = set()  # leaves, so that a key is not requested again for each row group
    for row_group in range(len(footer.rows)):
        for leaf_index in range(len(footer.profile.schema.leaves)):
            chunk_id = row_group, leaf_index
            if leaf_index in undecryptable or not footer.is_decryptable(*chunk_id):
                undecryptable.add(leaf_index)
                continue
            with located(_name(file, footer, chunk_id)):
                fields, cipher = footer.read_chunk_with_cipher(*chunk_id)
            if fields.bloom_offset:
                offsets[chunk_id] = fields.bloom_offset, cipher
    return offsets


def read_filter(
    storage: Storage, file: FileInfo, footer: Footer, chunk_id: ChunkId, stored: StoredFilter, count: ReadCount
) -> SplitBlockBloomFilter:
    """Read the bitset of one filter. Raises EncryptionError, with the name of the chunk, if it does not decrypt."""
    (bitset,) = read_extents(storage, file, [(stored.bitset, stored.end)], count)
    if stored.cipher is None:
        return SplitBlockBloomFilter.from_bytes(bitset)
    with located(_name(file, footer, chunk_id)):
        return SplitBlockBloomFilter.from_bytes(stored.cipher.decrypt(bitset, Module.BLOOM_FILTER_BITSET))


def removed_extents(
    file: FileInfo, footer: Footer, filters: Mapping[ChunkId, StoredFilter], changed: Collection[ChunkId]
) -> list[Extent]:
    """The byte ranges of the filters to remove: those of the `changed` chunks.

    Raises FormatError if such a range overlaps a filter that is kept.
    """
    last: dict[bool, tuple[int, ChunkId]] = {True: (0, (0, 0)), False: (0, (0, 0))}
    for chunk_id, stored in sorted(filters.items(), key=lambda item: item[1].extent):
        is_removed = chunk_id in changed
        end, other = last[not is_removed]
        if stored.start < end:
            raise FormatError(
                f"{_name(file, footer, chunk_id)}: the Bloom filter at byte {stored.start} overlaps the filter of "
                f"{footer.chunk_name(*other)}; the footer is damaged, and the file is unchanged"
            )
        last[is_removed] = max(last[is_removed], (stored.end, chunk_id))
    return [filters[chunk_id].extent for chunk_id in changed if chunk_id in filters]


def _name(file: FileInfo, footer: Footer, chunk_id: ChunkId) -> str:
    return f"{file.path}: {footer.chunk_name(*chunk_id)}"
