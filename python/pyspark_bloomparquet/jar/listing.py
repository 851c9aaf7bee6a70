"""The files of a scan, as Spark listed them, and the present versions of local files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeAlias

import numpy as np

from bloomparquet.errors import PlanError
from bloomparquet.planning.dataset import Dataset
from bloomparquet.planning.index.lookup import IndexDirectory
from bloomparquet.storage.files import FileInfo, Files, LocalStorage, Storage
from bloomparquet.storage.host_files import HostRoot, HostStorage, ReadHostFiles, roots_of
from bloomparquet.storage.open import open_storage
from bloomparquet.storage.staleness import local_versions

UNKNOWN = 0
"""The revision of a listing whose files have no known versions, because they are not local."""

_revisions = count(1)

LocalVersions: TypeAlias = Sequence[tuple[int, int, int, int]]
"""Size, modification time, inode and change time of each file."""


class Storages:
    """The storages of a request: local files, which this process reads, and those below `roots`, which the jar reads.

    `roots` are the field `storages` of the request.
    """

    def __init__(self, roots: Mapping[str, Any], read: ReadHostFiles) -> None:
        self._roots = {root: HostRoot(each["number"], each["key"], each["isFirst"]) for root, each in roots.items()}
        self._read = read

    @property
    def numbers(self) -> tuple[int, ...]:
        """Other numbers stand for other credentials."""
        return tuple(sorted(each.number for each in self._roots.values()))

    def of(self, urls: Sequence[str]) -> tuple[Storage, Sequence[str]]:
        """The storage of `urls`, as Hadoop writes them, and their paths there."""
        roots = roots_of(urls)
        if len(roots) == 1 and (roots[0].startswith("file:") or not roots[0]):
            return open_storage("/")[0], [url[len(roots[0]) :] for url in urls]
        if unknown := [root for root in roots if root not in self._roots]:
            raise PlanError(f"the request names no storage for {', '.join(unknown)}")
        storage = HostStorage(roots, self._roots, self._read)
        return storage, list(map(storage.path, urls))

    def index(self, location: str) -> str | IndexDirectory:
        """The option `index`: a word, a local directory, or the URL of one that the jar reads."""
        if "/" not in location or location.startswith("/"):
            return location
        storage, (directory,) = self.of([location])
        return IndexDirectory(storage, directory)


@dataclass(frozen=True, eq=False)
class ScanListing:
    """The files of a scan: a data set, and the versions of its files that this process knows.

    `paths` and `known` are the paths and the versions of the files of `dataset`. `revision` is a number of this process
    that no other listing has, and that changes with the versions. `versions` are the versions as the bytes that the jar
    gets; see :mod:`pyspark_bloomparquet.jar.protocol`.
    """

    dataset: Dataset
    paths: Sequence[str]
    known: LocalVersions = ()
    revision: int = UNKNOWN
    versions: bytes = b""

    @classmethod
    def parse(cls, data: bytes, files: int, digest: str, storages: Storages) -> ScanListing:
        """The listing of a request. It has no partition values: Spark has already applied its partition filters.

        Raises PlanError unless `data` are `files` files and have the SHA-256 `digest`.
        """
        computed = hashlib.sha256(data).hexdigest()
        if computed != digest:
            raise PlanError(f"the listing of the request has the digest {computed}; expected {digest}")
        numbers = np.frombuffer(data, ">i8", 2 * files).astype(np.int64)
        paths = data[16 * files :].decode("utf-8", "surrogateescape").split("\0")[:-1]
        if len(paths) != files:
            raise PlanError(f"the request has {len(paths)} paths; expected {files}")
        storage, inner = storages.of(paths)
        sizes, times = numbers[:files].tolist(), (numbers[files:] * 1_000_000).tolist()
        dataset = Dataset(storage, Files(map(FileInfo, inner, sizes, times)), (), ((),) * files)
        return cls(dataset, inner)

    def present_versions(self) -> LocalVersions | None:
        """The present versions of the files; None if they are not local. Raises FileNotFoundError.

        Spark's listing is too old and says too little: Spark lists files when a DataFrame is loaded, without inodes and
        change times. The jar compares files that are not local after the plan.
        """
        return local_versions(self.paths) if isinstance(self.dataset.storage, LocalStorage) else None

    def of_versions(self, now: LocalVersions | None) -> ScanListing:
        """A copy with the versions `now`; this listing itself if no version has changed."""
        if now is None or now == self.known:
            return self
        files = [
            file if file[1:] == version else FileInfo(file.path, *version)
            for file, version in zip(self.dataset.files, now, strict=True)
        ]
        dataset = Dataset(self.dataset.storage, Files(files), (), self.dataset.partition_values)
        sizes, times, inodes, ctimes = zip(*now, strict=True)
        numbers = (
            np.array(sizes, np.int64),
            np.array(times, np.int64) // 1_000_000,
            np.array(inodes, np.uint64),
            np.array(ctimes, np.int64),
        )
        versions = b"".join(each.astype(each.dtype.newbyteorder(">")).tobytes() for each in numbers)
        return ScanListing(dataset, self.paths, now, next(_revisions), versions)
