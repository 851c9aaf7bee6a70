"""Files of named arrays, used only if their checksums match: cache files and the segments of an index.

A file holds *sections*, groups of arrays that are used together, and *tiles* (:mod:`.bit_slices`). Each section has its
own checksum, so that a reader checks and reads only what it needs; a tile has one for each of its parts. Large local
files are mapped into memory, others are read in ranges. A file that another version of its writer wrote counts as
absent; it is not an error.

    magic (8 bytes) | format (u32) | size of the index (u32) | XXH3 of the index and the 16 bytes before (u64)
    index: JSON {"writer": version, "seed": number, "bytes": of the file,
                 "sections": {name: [offset, bytes, XXH3, [[array, dtype, shape, offset in the section], …]]},
                 "tiles": {name: [offset, filters, slices]}}, padded with spaces
    sections and tiles, one after another; each array and tile begins at a multiple of 64 bytes; the padding of sections
    is included in the checksum

Alternatives: .npz and Arrow IPC have no sufficient checksums, and .npz and SQLite cannot be mapped.
"""

from __future__ import annotations

import json
import logging
import math
import mmap
import os
import stat
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from bloomparquet.errors import FormatError
from bloomparquet.planning.evidence.bit_slices import Bits, BitSlices, Records, SliceLayout
from bloomparquet.storage.exact_reads import fill_views
from bloomparquet.storage.files import ArrowStorage, FileInfo, ReadCount, Storage
from bloomparquet.storage.ranges import Ranges, read_ranges

log = logging.getLogger("bloomparquet.index")

Section = Mapping[str, NDArray[Any]]

MAGIC = b"BLOOMPQ\n"
_FORMAT = 2  # of the head and the records; what sections mean has a version of its own, the name of the writer
_HEAD = 24
_ALIGN = 64
_FIRST_READ = 256 * 1024
_FIRST_OPEN_READ = 16 * 1024
_RESIDENT_BYTES = 32 * 1024 * 1024  # of records of one remote file


class DamagedFileError(Exception):
    """A file is damaged, or another version of its writer wrote it. It is used as if it were not there."""


class Source(Protocol):
    """The bytes of a file."""

    path: str
    size: int

    def read_start(self, reads: ReadCount) -> memoryview:
        """The first bytes, as many as one read gives. May raise ``OSError`` and FormatError."""

    def read(self, offset: int, size: int, reads: ReadCount) -> memoryview:
        """`size` bytes from `offset` on. May raise ``OSError`` and FormatError."""

    def records(self, offset: int, record_bytes: int, count: int) -> Records:
        """`count` records from `offset` on."""


def _open_regular(path: str) -> tuple[int, int]:
    """A descriptor of the regular file at `path`, and its size. Raises :class:`DamagedFileError` for anything else."""
    # Something else may have this name: opening a pipe must not block, and a link must not be followed.
    flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size < _HEAD:
            raise DamagedFileError(f"{path}: not a file of sections")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, status.st_size


class MappedSource:
    """A local file, mapped into memory. The process ends if the file shrinks while its bytes are used."""

    def __init__(self, path: str) -> None:
        self.path = path
        descriptor, self.size = _open_regular(path)
        try:
            self._map = mmap.mmap(descriptor, self.size, access=mmap.ACCESS_READ)
        finally:
            os.close(descriptor)

    def read_start(self, reads: ReadCount) -> memoryview:
        return memoryview(self._map)

    def read(self, offset: int, size: int, reads: ReadCount) -> memoryview:
        return memoryview(self._map)[offset : offset + size]

    def records(self, offset: int, record_bytes: int, count: int) -> Records:
        return _RecordsInMemory(np.frombuffer(self._map, np.uint8, record_bytes * count, offset).reshape(count, -1))


class OpenSource:
    """A local file that stays open, and is copied into memory. It may shrink, or be replaced, at any time."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor, self.size = _open_regular(path)
        weakref.finalize(self, os.close, self._descriptor)

    @property
    def owner(self) -> int:
        """The user whose file it is."""
        return os.fstat(self._descriptor).st_uid

    def read_start(self, reads: ReadCount) -> memoryview:
        return self.read(0, min(self.size, _FIRST_OPEN_READ), reads)

    def read(self, offset: int, size: int, reads: ReadCount) -> memoryview:
        pieces, at = list[bytes](), offset
        while at < offset + size:
            piece = os.pread(self._descriptor, offset + size - at, at)
            if not piece:
                raise DamagedFileError(f"{self.path}: it was truncated while it was read")
            pieces.append(piece)
            at += len(piece)
        return memoryview(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def records(self, offset: int, record_bytes: int, count: int) -> Records:
        whole = self.read(offset, record_bytes * count, ReadCount())
        return _RecordsInMemory(np.frombuffer(whole, np.uint8).reshape(count, -1))


class _RecordsInMemory:
    threads = 1

    def __init__(self, records: Bits) -> None:
        self._records = records

    def take(self, numbers: NDArray[np.int64], reads: ReadCount) -> tuple[Bits, NDArray[np.int64]]:
        return self._records, numbers


class StoredSource:
    """A file on a storage, read in ranges. `start_bytes`: how much the first read gives, 0 if unknown."""

    def __init__(self, storage: Storage, path: str, size: int, start_bytes: int = 0) -> None:
        self.path, self.size = path, size
        self._start_bytes = min(start_bytes or _FIRST_READ, size)
        self._start = memoryview(b"")
        self._file = _OpenFile(storage, path)

    def read_start(self, reads: ReadCount) -> memoryview:
        self._start = self._file.read(0, self._start_bytes, reads)
        return self._start

    def read(self, offset: int, size: int, reads: ReadCount) -> memoryview:
        if offset < 0 or offset + size > self.size:
            raise DamagedFileError(f"{self.path}: bytes {offset} to {offset + size} lie beyond its end at {self.size}")
        if offset + size <= len(self._start):
            return self._start[offset : offset + size]
        return self._file.read(offset, size, reads)

    def records(self, offset: int, record_bytes: int, count: int) -> Records:
        return _StoredRecords(self._file, offset, record_bytes)


class _OpenFile(ArrowStorage):
    """A storage of one file, which is opened only once: each time would be a request."""

    def __init__(self, storage: Storage, path: str) -> None:
        super().__init__(storage.filesystem, storage.key)
        self._path, self._lock = path, threading.Lock()
        self._opened: pa.NativeFile | None = None

    def read(self, offset: int, size: int, reads: ReadCount) -> memoryview:
        """`size` bytes of the file from `offset` on. May raise ``OSError`` and FormatError."""
        return self.read_all(np.array([offset]), np.array([size]), reads).buffer.data

    def read_all(self, offsets: NDArray[np.int64], sizes: NDArray[np.int64], reads: ReadCount) -> Ranges:
        with self._lock:
            if self._opened is None:
                self._opened = self.filesystem.open_input_file(self._path)
                reads.requests += 1
        return read_ranges(self, [FileInfo(self._path, 0, 0)], np.zeros_like(offsets), offsets, sizes, reads)

    def read_into(self, path: str, offsets: Sequence[int], views: Sequence[memoryview]) -> None:
        assert self._opened is not None
        with self._lock:  # the position in the file is shared
            fill_views(self._opened, path, offsets, views, is_native=self.is_native)


class _StoredRecords:
    """Records of a remote file. Those that were asked last stay in memory."""

    def __init__(self, file: _OpenFile, offset: int, record_bytes: int) -> None:
        self._file, self._offset, self._bytes = file, offset, record_bytes
        self.threads = file.threads
        self._resident: OrderedDict[int, Bits] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, numbers: NDArray[np.int64], reads: ReadCount) -> tuple[Bits, NDArray[np.int64]]:
        asked, positions = np.unique(numbers, return_inverse=True)
        result = np.empty((len(asked), self._bytes), np.uint8)
        with self._lock:
            resident = {
                i: self._resident[number] for i, number in enumerate(asked.tolist()) if number in self._resident
            }
        for i, record in resident.items():
            result[i] = record
        missing = np.array([i for i in range(len(asked)) if i not in resident], np.int64)
        if len(missing):
            offsets, sizes = self._offset + asked[missing] * self._bytes, np.full(len(missing), self._bytes)
            result[missing] = self._file.read_all(offsets, sizes, reads).rows(self._bytes)
            with self._lock:
                for i in missing.tolist():
                    self._resident[int(asked[i])] = result[i].copy()
                while len(self._resident) * self._bytes > _RESIDENT_BYTES:
                    self._resident.popitem(last=False)
        return result, positions.reshape(numbers.shape)


class _SectionEntry(NamedTuple):
    """The entry of a section in the index of a file."""

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
            raise DamagedFileError(f"{self.path}: its index is damaged")
        try:
            index = json.loads(raw)
            if index["writer"] != writer or index["bytes"] != source.size:
                raise DamagedFileError(f"{self.path}: written by another version of the code, or truncated")
            self.seed = index["seed"] & (1 << 64) - 1
            self._sections = {name: _SectionEntry(*each) for name, each in index["sections"].items()}
            self._tiles = {
                name: _TileEntry(offset, SliceLayout(filters, slices))
                for name, (offset, filters, slices) in index["tiles"].items()
            }
            for section in self._sections.values():
                _require_within(source.size, section.offset, section.size)
            for tile in self._tiles.values():
                _require_within(source.size, tile.offset, tile.layout.num_bytes)
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise DamagedFileError(f"{self.path}: its index is damaged: {error}") from error

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
                str(key): np.frombuffer(data, dtype, math.prod(shape), at).reshape(shape)
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
    end = 0  # of what lies behind the index
    for name, section in sections.items():
        section_entries[name], arrays = _serialise_section(section, end)
        body += arrays
        end += section_entries[name].size
    # The sections name the files, so a tile of another segment fails the checksums that this seed makes.
    seed = xxhash.xxh3_64_intdigest(json.dumps(section_entries).encode())
    for name, tile in tiles.items():
        tile_entries[name] = [end, tile.layout.filters, tile.layout.n_slices]
        end += _padded(tile.layout.num_bytes)

    def index(first: int, total: int) -> bytes:
        return json.dumps(
            {
                "writer": writer, "seed": seed, "bytes": total,
                "sections": {name: [first + each[0], *each[1:]] for name, each in section_entries.items()},
                "tiles": {name: [first + each[0], *each[1:]] for name, each in tile_entries.items()},
            }
        ).encode()  # fmt: skip

    # The offsets depend on the size of the index, which depends on the digits of the offsets: leave room.
    room = _padded(_HEAD + len(index(0, end)) + 20 * (len(section_entries) + len(tile_entries) + 1))
    raw = index(room, room + end).ljust(room - _HEAD)
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


def _require_within(total: int, offset: int, size: int) -> None:
    """ValueError unless `size` bytes from `offset` on lie in a file of `total` bytes."""
    if not (isinstance(offset, int) and isinstance(size, int) and 0 <= offset <= offset + size <= total):
        raise ValueError(f"{size!r} bytes from {offset!r} on do not lie within its {total} bytes")


def _padded(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


UNUSABLE = (DamagedFileError, FormatError, OSError)
"""Why a file cannot be used."""
