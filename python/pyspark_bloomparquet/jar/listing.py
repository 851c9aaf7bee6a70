"""The files of a scan, as Spark listed them, and the present versions of local files."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from bloomparquet.errors import PlanError
from bloomparquet.planning.dataset import Dataset
from bloomparquet.storage.files import FileInfo, Files, LocalStorage, Storage
from bloomparquet.storage.open import open_storage
from bloomparquet.storage.staleness import local_versions
from pyspark_bloomparquet.jar.storage_access import StorageAccess

UNKNOWN = 0
"""The revision of a listing whose files have no known versions, because they are not local."""

_STORAGE_RETRY_SECONDS = 60
MAX_ERROR_LENGTH = 500  # characters
_ROOT = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")  # scheme and authority

# The message and the time of the next attempt, by root and digest of the access.
_storage_errors: dict[tuple[str, str], tuple[str, float]] = {}
_revisions = count(1)

LocalVersions: TypeAlias = Sequence[tuple[int, int, int, int]]
"""Size, modification time, inode and change time of each file."""


@dataclass(frozen=True, eq=False)
class ScanListing:
    """The files of a scan: a data set, and the versions of its files that this process knows.

    `paths` and `known` are the paths and the versions of the files of `dataset`. `revision` is a number of this process
    that no other listing has, and that changes with the versions. `versions` are the versions as the bytes that the jar
    gets; see :mod:`pyspark_bloomparquet.jar.protocol`. `unused` are Hadoop's settings that the storage was opened
    without.
    """

    dataset: Dataset
    paths: Sequence[str]
    known: LocalVersions = ()
    revision: int = UNKNOWN
    versions: bytes = b""
    unused: tuple[str, ...] = ()

    @classmethod
    def parse(cls, data: bytes, files: int, digest: str, access: StorageAccess) -> ScanListing:
        """The listing of a request. It has no partition values: Spark has already applied its partition filters.

        Raises PlanError unless `data` are `files` files on one storage, and have the SHA-256 `digest`.
        """
        computed = hashlib.sha256(data).hexdigest()
        if computed != digest:
            raise PlanError(f"the listing of the request has the digest {computed}; expected {digest}")
        numbers = np.frombuffer(data, ">i8", 2 * files).astype(np.int64)
        paths = data[16 * files :].decode("utf-8", "surrogateescape").split("\0")[:-1]
        if len(paths) != files:
            raise PlanError(f"the request has {len(paths)} paths; expected {files}")
        storage, inner, unused = _on_one_storage(paths, access)
        sizes, times = numbers[:files].tolist(), (numbers[files:] * 1_000_000).tolist()
        dataset = Dataset(storage, Files(map(FileInfo, inner, sizes, times)), (), ((),) * files)
        return cls(dataset, inner, unused=unused)

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


def _on_one_storage(paths: list[str], access: StorageAccess) -> tuple[Storage, list[str], tuple[str, ...]]:
    """The storage of all `paths`, their paths in it, and the unused settings of `access`. PlanError for several
    storages."""
    match = _ROOT.match(paths[0])
    root = match.group() if match else ""
    stray = next((path for path in paths if not path.startswith(f"{root}/")), None)
    if stray is not None:
        raise PlanError(f"the files of one scan must be on one storage; found {paths[0]} and {stray}")
    # Only the root is parsed as a URI: Hadoop does not escape blanks and percent signs in paths.
    storage, inner, unused = _open(root, access)
    return storage, [inner + path[len(root) :] for path in paths], unused


def _open(root: str, access: StorageAccess) -> tuple[Storage, str, tuple[str, ...]]:
    """The storage at a scheme and authority, the path of its root in it, and the unused settings of `access`.

    Raises PlanError if the storage cannot be opened; that error is cached for a minute.
    """
    if root.startswith("file:") or not root:
        return open_storage("/")[0], "", ()
    key = root, access.digest
    message, until = _storage_errors.get(key, ("", 0.0))
    if time.monotonic() >= until:
        try:
            translation = access.translate(root)
            storage, inner = open_storage(root, translation.options)
            return storage, inner.rstrip("/"), translation.unused
        except (OSError, ImportError, ValueError, pa.ArrowException) as error:
            message = f"the planner's Python cannot open {root}: {first_line(error, access)}"
            _storage_errors[key] = message, time.monotonic() + _STORAGE_RETRY_SECONDS
    raise PlanError(message)


def first_line(error: BaseException, access: StorageAccess) -> str:
    """The first line of an error's message, without secrets, shortened; the name of its class if it has none."""
    message: str = access.without_secrets(str(error))  # first: half of a secret would not be found
    return (message.splitlines() or [type(error).__name__])[0][:MAX_ERROR_LENGTH]
