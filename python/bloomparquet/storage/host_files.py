"""Files that the process which started this one reads for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow.fs
from numpy.typing import NDArray

from bloomparquet.errors import FormatError, UnsupportedError
from bloomparquet.storage.files import FileInfo, require_size
from bloomparquet.storage.options import OPTIONS, path_of

_PIECE_BYTES = 8 * 1024 * 1024
_WHOLE_FILE = -1  # instead of a size
_ROOT = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")  # scheme and authority

HostFile: TypeAlias = tuple[int, str, int, int]
"""The number of a file's storage, its URL, its size in bytes, its modification time in milliseconds, which is -1 for
:data:`bloomparquet.storage.files.NEVER_CHANGES_NS`. With the size -1 the file is read whole."""

ReadHostFiles: TypeAlias = Callable[[Sequence[HostFile], NDArray[np.int64]], bytes]
"""Reads at most 16 MiB: the bytes of ranges of files, one after the other. The ranges have the shape (3, n): positions
of files, starts, lengths. Raises FileNotFoundError, PermissionError, OSError, and FormatError if a file ends early."""


@dataclass(frozen=True)
class HostRoot:
    """A scheme and authority, as the other process has opened it.

    `number`: differs for other credentials. `key`: names the files in caches. `is_first`: whether no other credentials
    were used for `key`; only then may other processes share what is read.
    """

    number: int
    key: str
    is_first: bool


@dataclass(frozen=True)
class _OwnKey:
    """The key of a storage whose evidence stays in this process."""

    key: str
    numbers: tuple[int, ...]

    def __str__(self) -> str:
        return self.key


class HostStorage:
    """The storage of files below some of `roots`, which are keyed by scheme and authority, as in ``s3a://bucket``.

    Nothing can be listed or written. Paths are those that pyarrow has for the URLs, if all lie below one root; so an
    index that was built by pyarrow is found. Else they are the URLs.
    """

    merge_gap = 256 * 1024
    threads = 16
    batch_bytes = 64 * 1024 * 1024
    shares_open_files = True
    filesystem: pyarrow.fs.FileSystem

    def __init__(self, of: Sequence[str], roots: Mapping[str, HostRoot], read: ReadHostFiles) -> None:
        self._roots, self._read = roots, read
        self._root, self._prefix = (of[0], _path_of_root(of[0])) if len(of) == 1 else ("", "")
        used = [roots[each] for each in of]
        keys = " ".join(each.key for each in used)
        self.numbers = tuple(each.number for each in used)
        self.access: Hashable = self.numbers
        self.key: Hashable = keys if all(each.is_first for each in used) else _OwnKey(keys, self.numbers)

    def path(self, url: str) -> str:
        """The path of `url`, which lies below the roots of this storage."""
        return self._prefix + url[len(self._root) :]

    def url(self, path: str) -> str:
        return self._root + path[len(self._prefix) :]

    def read_many(
        self, files: Sequence[FileInfo], file: NDArray[np.int64], start: NDArray[np.int64], views: Sequence[memoryview]
    ) -> None:
        """Fill ``views[i]`` from ``start[i]`` of ``files[file[i]]``. The ranges are sorted by file."""
        length = np.array(list(map(len, views)), np.int64)
        count = -(-length // _PIECE_BYTES)
        range_of = np.repeat(np.arange(len(views)), count)
        inside = (np.arange(len(range_of)) - np.repeat(np.cumsum(count) - count, count)) * _PIECE_BYTES
        size = np.minimum(length[range_of] - inside, _PIECE_BYTES)
        batch = (np.cumsum(size) - size) // _PIECE_BYTES  # so a batch has less than two pieces
        for pieces in np.split(np.arange(len(size)), np.flatnonzero(np.diff(batch)) + 1):
            ranges, asked = range_of[pieces], list[HostFile]()
            numbers, position = np.unique(file[ranges], return_inverse=True)
            for number in numbers.tolist():
                info, url = files[number], self.url(files[number].path)
                asked.append((self._number(url), url, info.size, info.mtime_ns // 1_000_000))
            data = self._read(asked, np.stack((position, start[ranges] + inside[pieces], size[pieces])))
            if len(data) != size[pieces].sum():
                raise FormatError(f"{asked[0][1]}: {len(data)} bytes were read; expected {size[pieces].sum()}")
            at, end = memoryview(data), 0
            for i, offset, bytes_read in zip(ranges.tolist(), inside[pieces].tolist(), size[pieces].tolist()):
                views[i][offset : offset + bytes_read] = at[end : end + bytes_read]
                end += bytes_read

    def read_whole(self, path: str, most: int) -> bytes:
        url = self.url(path)
        data = self._read([(self._number(url), url, _WHOLE_FILE, 0)], np.zeros((3, 0), np.int64))
        require_size(path, len(data), most)
        return data

    def _number(self, url: str) -> int:
        root = self._roots.get(root_of(url))
        if root is None:
            raise FileNotFoundError(f"{url}: not on a storage of the query")
        return root.number

    def _refuse(self, *given: Any, **_: Any) -> Any:
        raise UnsupportedError(f"{given[0]}: the planner of Spark only reads files")

    list_files = glob = is_directory = make_parents = open_file = read_into = _refuse


def root_of(url: str) -> str:
    """The scheme and authority of `url`. Only they are parsed: Hadoop does not escape blanks and percent signs."""
    match = _ROOT.match(url)
    return match.group() if match else ""


def roots_of(urls: Sequence[str]) -> list[str]:
    """The roots of `urls`, each once."""
    roots: dict[str, None] = {}
    slashed: tuple[str, ...] = ()
    for url in urls:
        if not url.startswith(slashed):  # faster than to parse each of many
            roots[root_of(url)] = None
            slashed = tuple(f"{root}/" for root in roots)
    return list(roots)


def _path_of_root(root: str) -> str:
    scheme, mark, authority = root.partition("://")
    scheme = "s3" if scheme == "s3a" else scheme
    return (path_of(scheme, authority) if scheme in OPTIONS else authority).rstrip("/") if mark else ""
