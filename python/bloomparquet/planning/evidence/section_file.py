"""Files of named arrays, used only if their checksums match: cache files and the segments of an index.

A file holds *sections*, groups of arrays that are used together, and *tiles* (:mod:`.bit_slices`). Each section has its
own checksum, so that a reader reads only what it needs; a tile has one for each of its units. A file that another
version of its writer wrote counts as absent.

    magic (8 bytes) | format (u32) | size of the table of contents (u32) | XXH3 of it and of the 16 bytes before (u64)
    table of contents: JSON {
        "writer": version, "seed": number, "bytes": of the file,
        "sections": {name: [offset, bytes, XXH3, [[array, dtype, shape, offset in the section], …]]},
        "tiles": {name: [offset, filters, slices]}
    }, padded with spaces
    sections and tiles, one after another; each array and tile begins at a multiple of 64 bytes; the padding of sections
    is included in the checksum

Alternatives: .npz and Arrow IPC have no sufficient checksums, and .npz and SQLite cannot be mapped.
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from bloomparquet.errors import FormatError
from bloomparquet.planning.evidence.bit_slices import BitSlices, SliceLayout
from bloomparquet.planning.evidence.section_source import Bits, DamagedFileError, Source
from bloomparquet.storage.files import ReadCount

log = logging.getLogger("bloomparquet.index")

Section = Mapping[str, NDArray[Any]]

MAGIC = b"BLOOMPQ\n"
_FORMAT = 2  # of the head and the records; what sections mean has a version of its own, the name of the writer
_HEAD = 24
_ALIGN = 64
_DTYPE = re.compile("[<|][biuf][1248]")


class _SectionEntry(NamedTuple):
    """The entry of a section in the table of contents of a file."""

    offset: int
    size: int
    checksum: int
    arrays: list[Any]


class _TileEntry(NamedTuple):
    offset: int
    layout: SliceLayout


class SectionFile:
    """An open file of sections, written by `writer`. Raises :class:`DamagedFileError`, FormatError or ``OSError`` if it
    cannot be used. Damage that is found later is logged at `level`."""

    def __init__(
        self, source: Source, writer: str, reads: ReadCount | None = None, *, level: int = logging.WARNING
    ) -> None:
        self.path = source.path
        self._level = level
        self._source = source
        self._warned: set[str] = set()
        reads = reads or ReadCount()
        start = source.read_start(reads)
        head = bytes(start[:_HEAD])
        size = int.from_bytes(head[12:16], "little")
        if head[:8] != MAGIC or int.from_bytes(head[8:12], "little") != _FORMAT or _HEAD + size > source.size:
            raise DamagedFileError(f"{self.path}: not a file of this version")
        raw = bytes(start[_HEAD : _HEAD + size])
        if len(raw) < size:
            with source.read(_HEAD, size, reads) as rest:
                raw = bytes(rest)
        if xxhash.xxh3_64_intdigest(head[:16] + raw) != int.from_bytes(head[16:], "little"):
            raise DamagedFileError(f"{self.path}: its table of contents is damaged")
        try:
            contents = json.loads(raw)
            if contents["writer"] != writer or contents["bytes"] != source.size:
                raise DamagedFileError(f"{self.path}: written by another version of the code, or truncated")
            self.seed = contents["seed"] & (1 << 64) - 1
            self._sections = {name: _SectionEntry(*each) for name, each in contents["sections"].items()}
            self._tiles = {
                name: _TileEntry(offset, SliceLayout(filters, slices))
                for name, (offset, filters, slices) in contents["tiles"].items()
            }
            for section in self._sections.values():
                _require_within(source.size, section.offset, section.size)
            for tile in self._tiles.values():
                _require_within(source.size, tile.offset, tile.layout.num_bytes)
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise DamagedFileError(f"{self.path}: its table of contents is damaged: {error}") from error

    def warn(self, message: str) -> None:
        """Log what is wrong with this file, unless the same was logged before."""
        if message not in self._warned:
            self._warned.add(message)
            log.log(self._level, "%s: %s", self.path, message)

    @property
    def sections(self) -> list[str]:
        return list(self._sections)

    @property
    def tiles(self) -> dict[str, SliceLayout]:
        return {name: tile.layout for name, tile in self._tiles.items()}

    def section(self, name: str, reads: ReadCount | None = None) -> dict[str, NDArray[Any]]:
        """The arrays of a section, read-only. Raises :class:`DamagedFileError`, FormatError or ``OSError``."""
        offset, size, checksum, arrays = self._sections[name]
        data = self._source.read(offset, size, reads or ReadCount())
        if xxhash.xxh3_64_intdigest(data) != checksum:
            raise DamagedFileError(f"{self.path}: its section {name} is damaged")
        try:
            return {
                str(key): np.frombuffer(data, _dtype(dtype), math.prod(shape), at).reshape(shape)
                for key, dtype, shape, at in arrays
            }
        except (OverflowError, TypeError, ValueError) as error:
            raise DamagedFileError(f"{self.path}: its section {name} is damaged: {error}") from error

    def tile(self, name: str) -> BitSlices:
        offset, layout = self._tiles[name]
        return BitSlices(layout, self.seed, self._source.records(offset, layout.row_bytes, layout.rows))


class NewTile(NamedTuple):
    """A tile to write. `make` gives its bytes in pieces, for the seed of the file."""

    layout: SliceLayout
    make: Callable[[int], Iterable[Bits]]


class Serialised(NamedTuple):
    """The contents of a file in pieces, and its size. `start_bytes`: where its first section ends."""

    pieces: Iterator[bytes | memoryview]
    size: int
    start_bytes: int


def serialise(sections: Mapping[str, Section], writer: str, tiles: Mapping[str, NewTile] | None = None) -> Serialised:
    """Make a file of `sections` and `tiles`."""
    tiles = tiles or {}
    body: list[bytes | memoryview] = []
    section_entries: dict[str, _SectionEntry] = {}
    tile_entries: dict[str, list[int]] = {}
    end = 0  # of what lies behind the table of contents
    for name, section in sections.items():
        section_entries[name], arrays = _serialise_section(section, end)
        body += arrays
        end += section_entries[name].size
    # The sections name the files, so a tile of another segment fails the checksums that this seed makes.
    seed = xxhash.xxh3_64_intdigest(json.dumps(section_entries).encode())
    for name, tile in tiles.items():
        tile_entries[name] = [end, tile.layout.filters, tile.layout.n_slices]
        end += _padded(tile.layout.num_bytes)

    def table_of_contents(first: int, total: int) -> bytes:
        return json.dumps(
            {
                "writer": writer, "seed": seed, "bytes": total,
                "sections": {name: [first + each[0], *each[1:]] for name, each in section_entries.items()},
                "tiles": {name: [first + each[0], *each[1:]] for name, each in tile_entries.items()},
            }
        ).encode()  # fmt: skip

    # The offsets depend on the size of the table, which depends on the digits of the offsets: leave room.
    room = _padded(_HEAD + len(table_of_contents(0, end)) + 20 * (len(section_entries) + len(tile_entries) + 1))
    raw = table_of_contents(room, room + end).ljust(room - _HEAD)
    head = MAGIC + _FORMAT.to_bytes(4, "little") + len(raw).to_bytes(4, "little")
    checksum = xxhash.xxh3_64_intdigest(head + raw).to_bytes(8, "little")

    def pieces() -> Iterator[bytes | memoryview]:
        yield from (head, checksum, raw, *body)
        for tile in tiles.values():
            for piece in tile.make(seed):
                yield np.ascontiguousarray(piece).reshape(-1).data
            yield bytes(_padded(tile.layout.num_bytes) - tile.layout.num_bytes)

    return Serialised(pieces(), room + end, room + next((each.size for each in section_entries.values()), 0))


def _serialise_section(section: Section, offset: int) -> tuple[_SectionEntry, list[bytes | memoryview]]:
    """The entry of a section at `offset`, and its contents in pieces."""
    digest, size, arrays, pieces = xxhash.xxh3_64(), 0, list[Any](), list[bytes | memoryview]()
    for name, array in section.items():
        contiguous = np.ascontiguousarray(array)
        arrays.append([name, contiguous.dtype.newbyteorder("<").str, list(contiguous.shape), size])
        for piece in (contiguous.reshape(-1).view(np.uint8).data, bytes(-contiguous.nbytes % _ALIGN)):
            digest.update(piece)
            pieces.append(piece)
        size += _padded(contiguous.nbytes)
    return _SectionEntry(offset, size, digest.intdigest(), arrays), pieces


def _dtype(text: str) -> np.dtype[Any]:
    """A type of numbers. Raises ValueError for the other texts, some of which numpy parses as Python."""
    if not _DTYPE.fullmatch(text):
        raise ValueError(f"{text!r} is no type of numbers")
    return np.dtype(text)


def _require_within(total: int, offset: int, size: int) -> None:
    """ValueError unless `size` bytes from `offset` on lie in a file of `total` bytes."""
    if not (isinstance(offset, int) and isinstance(size, int) and 0 <= offset <= offset + size <= total):
        raise ValueError(f"{size!r} bytes from {offset!r} on do not lie within its {total} bytes")


def _padded(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


UNUSABLE = (DamagedFileError, FormatError, OSError)
"""Why a file cannot be used."""
