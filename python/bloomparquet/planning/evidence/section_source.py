"""The bytes of a file of sections: mapped, copied, or read from a storage in ranges."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bloomparquet.storage.descriptors import open_untrusted
from bloomparquet.storage.exact_reads import fill_views
from bloomparquet.storage.files import NEVER_CHANGES_NS, ArrowStorage, FileInfo, ReadCount, Storage
from bloomparquet.storage.forks import new_lock
from bloomparquet.storage.host_files import HostStorage
from bloomparquet.storage.ranges import Ranges, read_ranges

_FIRST_READ = 256 * 1024
_FIRST_OPEN_READ = 16 * 1024
_RESIDENT_BYTES = 32 * 1024 * 1024  # of records of one remote file


Bits = NDArray[np.uint8]


class DamagedFileError(Exception):
    """A file is damaged, or another version of its writer wrote it. It is used as if it were not there."""


class Records(Protocol):
    """Part of a file: records of one size, side by side. `threads`: how many reads at a time are worthwhile."""

    @property
    def threads(self) -> int: ...

    def take(self, numbers: NDArray[np.int64], reads: ReadCount) -> tuple[Bits, NDArray[np.int64]]:
        """An array of shape (m, bytes) that has the records `numbers`, and where each of them is in it."""


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


class _LocalSource:
    """A local file that is open."""

    def __init__(self, path: str) -> None:
        self.path, self._file = path, open_untrusted(path)
        status = os.fstat(self._file.fileno())
        if not stat.S_ISREG(status.st_mode) or not status.st_size:
            self._file.close()
            raise DamagedFileError(f"{path}: not a file of sections")
        self.size, self.owner = status.st_size, status.st_uid


class MappedSource(_LocalSource):
    """A local file, mapped into memory. The process ends if the file shrinks while its bytes are used."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        with self._file:
            self._map = mmap.mmap(self._file.fileno(), self.size, access=mmap.ACCESS_READ)

    def read_start(self, reads: ReadCount) -> memoryview:
        return memoryview(self._map)

    def read(self, offset: int, size: int, reads: ReadCount) -> memoryview:
        return memoryview(self._map)[offset : offset + size]

    def records(self, offset: int, record_bytes: int, count: int) -> Records:
        return RecordsInMemory(np.frombuffer(self._map, np.uint8, record_bytes * count, offset).reshape(count, -1))


class OpenSource(_LocalSource):
    """A local file that stays open, and is copied into memory. It may shrink, or be replaced, at any time."""

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()  # if this is interrupted, the file is closed when it is dropped, with a ResourceWarning

    def read_start(self, reads: ReadCount) -> memoryview:
        return self.read(0, min(self.size, _FIRST_OPEN_READ), reads)

    def read(self, offset: int, size: int, reads: ReadCount) -> memoryview:
        pieces, at = list[bytes](), offset
        while at < offset + size:
            piece = os.pread(self._file.fileno(), offset + size - at, at)
            if not piece:
                raise DamagedFileError(f"{self.path}: it was truncated while it was read")
            pieces.append(piece)
            at += len(piece)
        return memoryview(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def records(self, offset: int, record_bytes: int, count: int) -> Records:
        whole = self.read(offset, record_bytes * count, ReadCount())
        return RecordsInMemory(np.frombuffer(whole, np.uint8).reshape(count, -1))


@dataclass(frozen=True, slots=True)
class RecordsInMemory:
    records: Bits
    threads: int = 1

    def take(self, numbers: NDArray[np.int64], reads: ReadCount) -> tuple[Bits, NDArray[np.int64]]:
        return self.records, numbers


class StoredSource:
    """A file on a storage, read in ranges. `start_bytes`: how much the first read gives, 0 if unknown."""

    def __init__(self, storage: Storage, path: str, size: int, start_bytes: int = 0) -> None:
        self.path, self.size, self.threads = path, size, storage.threads
        # Where a file must be opened, each time would be a request.
        self._storage: Storage = storage if isinstance(storage, HostStorage) else _OpenFile(storage)
        self._file = FileInfo(path, size, NEVER_CHANGES_NS)
        self._start_bytes, self._start = min(start_bytes or _FIRST_READ, size), memoryview(b"")

    def read_start(self, reads: ReadCount) -> memoryview:
        self._start = self.read(0, self._start_bytes, reads)
        return self._start

    def read(self, offset: int, size: int, reads: ReadCount) -> memoryview:
        if offset < 0 or offset + size > self.size:
            raise DamagedFileError(f"{self.path}: bytes {offset} to {offset + size} lie beyond its end at {self.size}")
        if offset + size <= len(self._start):
            return self._start[offset : offset + size]
        return self.read_all(np.array([offset]), np.array([size]), reads).buffer.data

    def read_all(self, offsets: NDArray[np.int64], sizes: NDArray[np.int64], reads: ReadCount) -> Ranges:
        if isinstance(self._storage, _OpenFile):
            self._storage.open(self.path, reads)
        return read_ranges(self._storage, [self._file], np.zeros_like(offsets), offsets, sizes, reads)

    def records(self, offset: int, record_bytes: int, count: int) -> Records:
        return _StoredRecords(self, offset, record_bytes)


class _OpenFile(ArrowStorage):
    """A storage of one file, which is opened only once."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage.filesystem, storage.key)
        self._lock = new_lock()
        self._opened: pa.NativeFile | None = None

    def open(self, path: str, reads: ReadCount) -> None:
        with self._lock:
            if self._opened is None:
                self._opened = self.filesystem.open_input_file(path)
                reads.requests += 1

    def read_into(self, path: str, offsets: Sequence[int], views: Sequence[memoryview], threads: int = 1) -> None:
        assert self._opened is not None
        with nullcontext() if self.is_native else self._lock:  # a file of fsspec has one position
            # By one thread: several ask at once, one for each record.
            fill_views(self._opened, path, offsets, views, is_native=self.is_native)


class _StoredRecords:
    """Records of a remote file. Those that were asked last stay in memory."""

    def __init__(self, file: StoredSource, offset: int, record_bytes: int) -> None:
        self._file, self._offset, self._bytes, self.threads = file, offset, record_bytes, file.threads
        self._resident: dict[int, Bits] = {}
        self._lock = new_lock()

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
                    del self._resident[next(iter(self._resident))]
        return result, positions.reshape(numbers.shape)
