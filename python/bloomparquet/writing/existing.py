"""The Bloom filters that a file has: where each lies, and its bits, one filter in memory at a time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from bloomparquet.errors import FormatError
from bloomparquet.format.bloom import MAX_HEADER_BYTES, parse_headers
from bloomparquet.format.footer import Footer
from bloomparquet.sbbf import SplitBlockBloomFilter
from bloomparquet.storage import FileInfo, ReadCount, Storage, read_ranges
from bloomparquet.writing.rewrite import Extent, Place


@dataclass(frozen=True, slots=True)
class Existing:
    """A filter in a file: where its header begins, where its bitset does, and where that ends."""

    start: int
    bitset: int
    end: int

    @property
    def extent(self) -> Extent:
        return self.start, self.end


def find_filters(
    storage: Storage, file: FileInfo, footer: Footer, count: ReadCount, *, skip_broken: bool = False
) -> dict[Place, Existing]:
    """Where the filters of `file` lie. Reads their headers, all in one go.

    Raises FormatError, UnsupportedError or LimitError that names the chunk for one that cannot be used; with
    `skip_broken` it is passed over.
    """
    end = file.size - len(footer.raw) - 8
    places: list[Place] = []
    offsets: list[int] = []
    for row_group in range(len(footer.rows)):
        for leaf in range(len(footer.layout.schema.leaves)):
            offset = footer.read_chunk(row_group, leaf).bloom_offset
            if not offset:
                continue
            if 4 <= offset < end:
                places.append((row_group, leaf))
                offsets.append(offset)
            elif not skip_broken:
                raise FormatError(
                    f"{_name(file, footer, (row_group, leaf))}: the Bloom filter is said to begin at byte {offset}; "
                    f"expected 4 to {end}"
                )
    start = np.array(offsets, np.int64)
    sizes = np.minimum(end - start, MAX_HEADER_BYTES)
    ranges = read_ranges(storage, [file.path], np.zeros_like(start), start, sizes, count)
    heads = np.zeros((len(start), MAX_HEADER_BYTES), np.uint8)
    for i, (at, size) in enumerate(zip(ranges.starts.tolist(), sizes.tolist(), strict=True)):
        heads[i, :size] = ranges.buffer[at : at + size]
    header_bytes, bitset_bytes, errors = parse_headers(heads, sizes)
    for i, error in errors.items():
        if skip_broken:
            continue
        raise type(error)(f"{_name(file, footer, places[i])}: {error}") from error
    found = {}
    for place, at, header, bitset in zip(places, offsets, header_bytes.tolist(), bitset_bytes.tolist(), strict=True):
        if skip_broken and (not header or at + header + bitset > end):
            continue
        if at + header + bitset > end:
            raise FormatError(
                f"{_name(file, footer, place)}: the Bloom filter at byte {at} claims {bitset} bytes, "
                f"but the footer begins at byte {end}"
            )
        found[place] = Existing(at, at + header, at + header + bitset)
    return found


def read_filter(storage: Storage, file: FileInfo, found: Existing, count: ReadCount) -> SplitBlockBloomFilter:
    """The bits of one filter of `file`."""
    at, size = np.array([found.bitset]), np.array([found.end - found.bitset])
    bitset = read_ranges(storage, [file.path], np.array([0]), at, size, count).buffer
    return SplitBlockBloomFilter.from_bytes(bitset.data)


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
    return f"{file.path}: row group {place[0]}, column {'.'.join(footer.layout.schema.leaves[place[1]].path)}"
