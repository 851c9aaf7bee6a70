"""The Bloom filters that a file has: where each lies, and its bits, one filter in memory at a time.

Filters of encrypted columns are opened where the column's key is at hand; of the others nothing is known here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from bloomparquet.errors import EncryptionError, FormatError, shorten
from bloomparquet.parquet.bloom_filter.filter_bytes import FilterCiphers
from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.parquet.encryption.file_crypto import ChunkCipher
from bloomparquet.parquet.encryption.modules import Module
from bloomparquet.parquet.metadata.footer import Footer
from bloomparquet.query.names import dotted_name
from bloomparquet.storage.files import FileInfo, ReadCount, Storage
from bloomparquet.storage.ranges import read_ranges

Place = tuple[int, int]
"""A column chunk: row group and leaf."""
Extent = tuple[int, int]
"""Bytes of a file: start and end offset."""


@dataclass(frozen=True, slots=True)
class Existing:
    """A filter in a file: where its header begins, where its bitset does, where that ends, and what opens the two."""

    start: int
    bitset: int
    end: int
    cipher: ChunkCipher | None = None

    @property
    def extent(self) -> Extent:
        return self.start, self.end


def find_filters(
    storage: Storage, file: FileInfo, footer: Footer, count: ReadCount, *, skip_broken: bool = False
) -> dict[Place, Existing]:
    """Where the filters of `file` lie, but those of columns whose key is not at hand. Reads their headers, all in one
    go.

    Raises FormatError, UnsupportedError, LimitError or EncryptionError that names the chunk for one that cannot be
    used; with `skip_broken` it is passed over.
    """
    end = file.size - footer.size
    told = {}
    for place, (offset, cipher) in _told(file, footer).items():
        if 4 <= offset < end:
            told[place] = offset, cipher
        elif not skip_broken:
            raise FormatError(
                f"{_name(file, footer, place)}: the Bloom filter is said to begin at byte {offset}; expected 4 to {end}"
            )
    places, ciphers = list(told), [cipher for _, cipher in told.values()]
    start = np.array([offset for offset, _ in told.values()], np.int64)
    seals = FilterCiphers(ciphers, len(ciphers))
    sizes = np.minimum(end - start, seals.max_header_bytes)
    ranges = read_ranges(storage, [file.path], np.zeros_like(start), start, sizes, count)
    headers = seals.headers(np.arange(len(start)), ranges, sizes)
    for i in sorted(headers.errors):
        if not skip_broken:
            error = headers.errors[i]
            raise type(error)(f"{_name(file, footer, places[i])}: {error}") from error
    filters = {}
    for i in np.flatnonzero(headers.taken).tolist():
        at, header, bitset = int(start[i]), int(headers.taken[i]), int(headers.stored[i])
        if at + header + bitset <= end:
            filters[places[i]] = Existing(at, at + header, at + header + bitset, ciphers[i])
        elif not skip_broken:
            raise FormatError(
                f"{_name(file, footer, places[i])}: the Bloom filter at byte {at} claims {bitset} bytes, "
                f"but the footer begins at byte {end}"
            )
    return filters


def _told(file: FileInfo, footer: Footer) -> dict[Place, tuple[int, ChunkCipher | None]]:
    """Where filters are said to begin, and what opens them, of the chunks that are open."""
    found = {}
    closed: set[int] = set()  # leaves: their keys are not asked for again in every row group
    for row_group in range(len(footer.rows)):
        for leaf in range(len(footer.profile.schema.leaves)):
            place = row_group, leaf
            if leaf in closed or not is_open(footer, place):
                closed.add(leaf)
                continue
            try:
                fields, cipher = footer.read_chunk_with_cipher(*place)
            except EncryptionError as error:
                raise EncryptionError(f"{_name(file, footer, place)}: {error}") from error
            if fields.bloom_offset:
                found[place] = fields.bloom_offset, cipher
    return found


def is_open(footer: Footer, place: Place) -> bool:
    """Whether a chunk is in plain text, or its key is at hand."""
    try:
        footer.chunk_cipher(*place)
    except EncryptionError:
        return False
    return True


def has_filter(file: FileInfo, footer: Footer, place: Place) -> bool:
    """Whether a chunk of `file` has a filter. EncryptionError that names it where that cannot be told."""
    try:
        return bool(footer.read_chunk(*place).bloom_offset)
    except EncryptionError as error:
        raise EncryptionError(f"{_name(file, footer, place)}: {error}") from error


def read_filter(
    storage: Storage, file: FileInfo, footer: Footer, place: Place, found: Existing, count: ReadCount
) -> SplitBlockBloomFilter:
    """The bits of one filter of `file`. EncryptionError that names the chunk where they do not open."""
    at, size = np.array([found.bitset]), np.array([found.end - found.bitset])
    bitset: bytes | memoryview = read_ranges(storage, [file.path], np.array([0]), at, size, count).buffer.data
    if found.cipher is not None:
        try:
            bitset = found.cipher.decrypt(bitset, Module.BLOOM_FILTER_BITSET)
        except EncryptionError as error:
            raise EncryptionError(f"{_name(file, footer, place)}: {error}") from error
    return SplitBlockBloomFilter.from_bytes(bitset)


def replaced(file: FileInfo, footer: Footer, old: Mapping[Place, Existing], changed: Collection[Place]) -> list[Extent]:
    """The bytes of the filters of the `changed` chunks. FormatError where one that stays shares some of them."""
    reach = {True: (0, (0, 0)), False: (0, (0, 0))}
    for place, found in sorted(old.items(), key=lambda item: item[1].extent):
        goes = place in changed
        end, other = reach[not goes]
        if found.start < end:
            raise FormatError(
                f"{_name(file, footer, place)}: the Bloom filter at byte {found.start} overlaps that of row group "
                f"{other[0]}, leaf {other[1]}; the footer is damaged, and the file is left as it is"
            )
        reach[goes] = max(reach[goes], (found.end, place))
    return [old[place].extent for place in changed if place in old]


def _name(file: FileInfo, footer: Footer, place: Place) -> str:
    return (
        f"{file.path}: row group {place[0]}, column {shorten(dotted_name(footer.profile.schema.leaves[place[1]].path))}"
    )
