"""Listings of files as arrays. A segment of an index or of the cache holds the listing of its files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, overload

import numpy as np
import xxhash
from numpy.typing import NDArray

from bloomparquet.planning.cache.directory import code_fingerprint
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.evidence.section_file import Section
from bloomparquet.planning.evidence.stored_arrays import as_bytes
from bloomparquet.storage.files import FileInfo, Storage, data_root
from bloomparquet.storage.forks import lazy_property

TABLE = "table"
"""The section that says which files there are."""

NUMBERS = ("sizes", "mtimes", "inodes", "ctimes")
"""The arrays of a listing that, beside the paths, say which versions of the files were listed."""


class Listing:
    """A list of files on one storage as arrays."""

    def __init__(self, storage: Storage, files: Sequence[FileInfo]) -> None:
        joined = "\0".join([file.path for file in files])
        self._unique = joined.count("\0") == len(files) - 1
        self.arrays: dict[str, NDArray[Any]] = {
            "storage": storage_digest(storage),
            "paths": as_bytes(joined.encode("utf-8", "surrogatepass")),
            "sizes": np.array([file.size for file in files], np.int64),
            "mtimes": np.array([file.mtime_ns for file in files], np.int64),
            "inodes": np.array([file.inode for file in files], np.uint64),
            "ctimes": np.array([file.ctime_ns for file in files], np.int64),
        }
        self._storage = storage

    @property
    def storable(self) -> bool:
        """Whether the names mean the same files in another process. A file system that was passed as an object is
        unknown there."""
        return self._unique and isinstance(self._storage.key, str)

    @property
    def digest(self) -> str:
        """Names a segment in the cache. Listings are compared as a whole, so a collision cannot pass one off as
        another."""
        digest = xxhash.xxh3_128()
        for array in self.arrays.values():
            digest.update(len(array).to_bytes(8, "little"))
            digest.update(array.data)
        return digest.hexdigest()


def segment_prefix(file_format: FileFormat, storage: Storage, files: Sequence[FileInfo]) -> str:
    """The prefix of the names of a data set's segments in the cache, whichever of its files a query asks for."""
    text = f"{code_fingerprint()}\0{file_format.value}\0{storage.key}\0{data_root(files)}"
    return xxhash.xxh3_64_hexdigest(text.encode("utf-8", "surrogatepass")) + "-"


class StoredFiles(Sequence[FileInfo]):
    """The files of a segment, whose listing is `arrays`. Plans need only a few of them as objects."""

    def __init__(self, arrays: Section, root: str) -> None:
        self.arrays, self._root = arrays, root
        self._texts = arrays["paths"].tobytes().decode("utf-8", "surrogatepass")  # ValueError if it is damaged
        numbers = [arrays[name] for name in NUMBERS]
        if {len(array) for array in numbers} != {np.count_nonzero(arrays["paths"] == 0) + 1}:
            raise ValueError("its listing is inconsistent")

    @lazy_property
    def _files(self) -> list[FileInfo]:
        texts = self._texts.split("\0")
        paths = [self._root + text for text in texts] if self._root else texts
        numbers = (self.arrays[name].tolist() for name in NUMBERS)
        return list(map(FileInfo._make, zip(paths, *numbers, strict=True)))

    def __len__(self) -> int:
        return len(self.arrays["sizes"])

    @overload
    def __getitem__(self, index: int) -> FileInfo: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[FileInfo]: ...
    def __getitem__(self, index: int | slice) -> FileInfo | Sequence[FileInfo]:
        return self._files[index]


def storage_digest(storage: Storage) -> NDArray[np.uint8]:
    """The identity of a storage. A cryptographic digest, because names of storages may hold secrets."""
    return as_bytes(hashlib.sha256(str(storage.key).encode("utf-8", "surrogatepass")).digest())
