"""Where files lie: list them, and read byte ranges of them, counted.

Two kinds of storage behind one small interface: local files by ``os`` (a positioned read costs about a microsecond,
so no layer may cost more), and everything else by :mod:`pyarrow.fs`, which also wraps any fsspec file system. Both
share :func:`read_ranges`: sort, merge what is near, read each run once, and say where each requested range begins.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
import stat
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote

import numpy as np
import pyarrow.fs
from numpy.typing import NDArray

from bloomparquet.errors import FormatError, UnsupportedError, brief

_GLOB = re.compile(r"[*?\[]")
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+://")
_NATIVE_SCHEMES = frozenset({"s3", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss"})


class FileInfo(NamedTuple):
    """A file as a listing shows it: the identity of its content. 0 where the storage tells no inode or change time."""

    path: str
    size: int
    mtime_ns: int
    inode: int = 0
    ctime_ns: int = 0

    @classmethod
    def of(cls, path: str, status: os.stat_result) -> FileInfo:
        return cls(path, status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns)


@dataclass(slots=True)
class ListingNotes:
    """What a listing of files passed over or followed: `hidden` directories and symbolic `links` below its root."""

    hidden: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)


@dataclass(slots=True)
class ReadCount:
    """What was read: `requests` made of the storage, `bytes` that they returned (gaps between merged ranges
    included)."""

    requests: int = 0
    bytes: int = 0


class Storage(Protocol):
    """What the rest of the package needs of a file system. Paths are the storage's own, without a scheme."""

    key: Hashable  # identifies the storage in caches: storages of equal keys show the same files
    near: int  # bytes: two ranges closer than this are cheaper to read as one
    threads: int  # reads worth having under way at once
    arrow: pyarrow.fs.FileSystem

    def list_files(
        self, path: str, *, recursive: bool, keep_hidden: bool = False, notes: ListingNotes | None = None
    ) -> list[FileInfo]:
        """The files at or below `path`, sorted. Hidden names (``_…`` without ``=``, ``.…``) below it are left out.
        `notes` gets what was passed over or followed. FileNotFoundError."""

    def glob(self, pattern: str) -> list[str]:
        """The files and directories that match `pattern`, sorted."""

    def is_directory(self, path: str) -> bool:
        """Whether there is a directory at `path`."""

    def make_parents(self, path: str) -> None:
        """Make the directories that the file at `path` is to lie in, where the storage has any."""

    def read_runs(self, path: str, starts: Sequence[int], views: Sequence[memoryview]) -> None:
        """Fill each of `views` from its start in the file. Raises FormatError when the file ends before a view is
        full."""


def is_hidden(name: str) -> bool:
    """Spark's rule for names that are no data: ``_temporary``, ``_SUCCESS``, ``.crc``; but ``_day=1`` is a
    partition."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


class LocalStorage:
    """Local files by file descriptor."""

    key: Hashable = "file"
    near = 8 * 1024
    threads = 1
    arrow: pyarrow.fs.FileSystem

    def __init__(self) -> None:
        self.arrow = pyarrow.fs.LocalFileSystem()

    def list_files(
        self, path: str, *, recursive: bool, keep_hidden: bool = False, notes: ListingNotes | None = None
    ) -> list[FileInfo]:
        own = os.stat(path)
        if not stat.S_ISDIR(own.st_mode):
            return [FileInfo.of(path, own)]
        files: list[FileInfo] = []
        pending = [path]
        while pending:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if entry.name[0] in "._" and not keep_hidden and is_hidden(entry.name):
                        if notes is not None and entry.is_dir():
                            notes.hidden.add(entry.path)
                        continue
                    if notes is not None and entry.is_symlink():
                        notes.links.append(entry.path)
                    if not entry.is_dir():
                        files.append(FileInfo.of(entry.path, entry.stat()))
                    elif recursive:
                        if entry.is_symlink():
                            _require_no_loop(path, entry.path)
                        pending.append(entry.path)
        files.sort()
        return files

    def glob(self, pattern: str) -> list[str]:
        matching = sorted(glob.glob(pattern, recursive=True))
        if "**" in pattern:
            root = pattern.partition("**")[0]
            for directory in dict.fromkeys(os.path.dirname(path) for path in matching):
                _require_no_loop_above(root, directory)
        return matching

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def make_parents(self, path: str) -> None:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)

    def read_runs(self, path: str, starts: Sequence[int], views: Sequence[memoryview]) -> None:
        # A lookup makes tens of thousands of these reads: what is done for each of them counts.
        read = getattr(os, "preadv", _preadv)
        descriptor = os.open(path, _READ_ONLY)
        try:
            for start, view in zip(starts, views, strict=True):
                count = read(descriptor, (view,), start)
                while count < len(view):  # a positioned read may return less than it was asked for
                    more = read(descriptor, (view[count:],), start + count)
                    if more == 0:
                        raise _ends_early(path, start + count, start + len(view))
                    count += more
        finally:
            os.close(descriptor)


def _require_no_loop(root: str, link: str) -> None:
    """UnsupportedError where `link`, a link to a directory below `root`, leads back to one that it lies in.

    What it holds would be found again and again, forty times over: Spark's own listing reads each row as often.
    """
    there = os.stat(link)
    above = os.path.dirname(link)
    while True:
        if os.path.samestat(there, os.stat(above or ".")):
            raise UnsupportedError(
                f"{brief(link)}: the symbolic link leads back to {brief(above)}, which it lies in, so that files there "
                "would be read again and again; remove the link, or name the directories without it"
            )
        if len(above) <= len(root.rstrip("/")):
            return
        above = os.path.dirname(above)


def _require_no_loop_above(root: str, directory: str) -> None:
    """UnsupportedError where a symbolic link between `root` and `directory` leads back to one that it lies in."""
    while len(directory) > len(root.rstrip("/")):
        if os.path.islink(directory):
            _require_no_loop(root, directory)
        directory = os.path.dirname(directory)


_READ_ONLY = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)


def _preadv(descriptor: int, views: Sequence[memoryview], start: int) -> int:
    """Where the system has none: one copy more."""
    (view,) = views
    data = os.pread(descriptor, len(view), start)
    view[: len(data)] = data
    return len(data)


class ArrowStorage:
    """Any file system that :mod:`pyarrow.fs` has or can wrap; a request is assumed to cost far more than its bytes."""

    near = 256 * 1024
    threads = 16

    def __init__(self, arrow: pyarrow.fs.FileSystem, key: Hashable) -> None:
        self.arrow = arrow
        self.key = key

    def list_files(
        self, path: str, *, recursive: bool, keep_hidden: bool = False, notes: ListingNotes | None = None
    ) -> list[FileInfo]:
        info = self.arrow.get_file_info(path)
        if info.type == pyarrow.fs.FileType.File:
            return [_file_info(info)]
        if info.type == pyarrow.fs.FileType.NotFound:
            raise FileNotFoundError(f"{self.key}: no such file or directory: {path}")
        root = path.rstrip("/")
        found = self.arrow.get_file_info(pyarrow.fs.FileSelector(path, recursive=recursive))
        files = [
            _file_info(info)
            for info in found
            if info.type == pyarrow.fs.FileType.File
            and (keep_hidden or not any(map(is_hidden, _below(root, info.path))))
        ]
        files.sort(key=lambda file: file.path)
        if notes is not None:
            notes.hidden.update(_hidden_directories(root, found))
        return files

    def glob(self, pattern: str) -> list[str]:
        parts = pattern.split("/")
        fixed = next(i for i, part in enumerate(parts) if _GLOB.search(part))
        root = "/".join(parts[:fixed])
        found = self.arrow.get_file_info(pyarrow.fs.FileSelector(root, recursive=True, allow_not_found=True))
        inner = [(info.path, _below(root.lstrip("/"), info.path.lstrip("/"))) for info in found]
        return sorted(path for path, names in inner if _matches(names, parts[fixed:]))

    def is_directory(self, path: str) -> bool:
        kind = self.arrow.get_file_info(path).type
        return bool(kind == pyarrow.fs.FileType.Directory)

    def make_parents(self, path: str) -> None:
        """Nothing: a name with slashes is all that an object store needs."""

    def read_runs(self, path: str, starts: Sequence[int], views: Sequence[memoryview]) -> None:
        with self.arrow.open_input_file(path) as file:
            for start, view in zip(starts, views, strict=True):
                data = file.read_at(len(view), start)
                if len(data) < len(view):
                    raise _ends_early(path, start + len(data), start + len(view))
                view[:] = data


def _ends_early(path: str, at: int, wanted: int) -> FormatError:
    return FormatError(
        f"{path}: the file ends at byte {at}, "
        f"but bytes up to {wanted} were expected; it is truncated or changed while it was read"
    )


def _file_info(info: pyarrow.fs.FileInfo) -> FileInfo:
    return FileInfo(info.path, info.size, info.mtime_ns or 0)


def _hidden_directories(root: str, found: Sequence[pyarrow.fs.FileInfo]) -> Iterator[str]:
    """The outermost hidden directories below `root`. Some object stores list only the files in them."""
    for info in found:
        names = _below(root, info.path)
        at = next((i for i, name in enumerate(names) if is_hidden(name)), len(names))
        if at < len(names) - 1 or (at < len(names) and info.type == pyarrow.fs.FileType.Directory):
            yield info.path.rstrip("/").removesuffix("/".join(names[at + 1 :])).rstrip("/")


def _below(root: str, path: str) -> list[str]:
    """The names between `root` and what lies at `path`, its own last."""
    return path[len(root) :].strip("/").split("/")


def _matches(names: Sequence[str], patterns: Sequence[str]) -> bool:
    """``**`` crosses directories, ``*`` and ``?`` do not, as :func:`glob.glob` has it."""
    if not patterns:
        return not names
    if patterns[0] == "**":
        return any(_matches(names[i:], patterns[1:]) for i in range(len(names) + 1))
    return bool(names) and fnmatch.fnmatchcase(names[0], patterns[0]) and _matches(names[1:], patterns[1:])


_LOCAL = LocalStorage()


def open_storage(path: str, filesystem: Any = None) -> tuple[Storage, str]:
    """The storage that `path` lies on, and the path as that storage names it.

    `filesystem` is a :class:`pyarrow.fs.FileSystem` or an fsspec file system; without one the path's scheme decides:
    none or ``file`` is local, what pyarrow has natively (s3, gs, hdfs, abfs) is pyarrow's, and every other scheme is
    fsspec's.
    """
    path = os.fspath(path)
    if filesystem is not None:
        return _wrap(filesystem), _SCHEME.sub("", path)
    if path.startswith("file:"):
        inner = re.sub("^file:(//[^/]*)?", "", path)
        return _LOCAL, inner if os.path.exists(inner) else unquote(inner)
    match = _SCHEME.match(path)
    if match is None:
        return _LOCAL, path
    scheme = match.group()[:-3].lower()
    if scheme == "s3a":  # Hadoop's name for it
        scheme = "s3"
    if scheme in _NATIVE_SCHEMES:
        return _open_native(scheme, path[match.end() :])
    import fsspec

    fs, inner = fsspec.core.url_to_fs(path)
    return _wrap(fs), inner


def _open_native(scheme: str, location: str) -> tuple[Storage, str]:
    """`location` is what follows the scheme; a query at its end (``?region=…``) configures the file system."""
    inner, mark, query = location.rpartition("?")
    if not mark or "=" not in query or "/" in query.partition("=")[0]:
        inner, query = location, ""
    suffix = f"?{query}" if query else ""
    # A URI may not have all the characters that a glob has; its file system is that of the directory it begins in.
    at = _GLOB.search(inner)
    fixed = inner if at is None else inner[: inner.rindex("/", 0, at.start())]
    arrow, stripped = pyarrow.fs.FileSystem.from_uri(f"{scheme}://{fixed}{suffix}")
    authority = fixed.split("/", 1)[0].rpartition("@")[2]
    key = f"{scheme}://{authority}{suffix}"
    return ArrowStorage(arrow, key), stripped if at is None else stripped + inner[len(fixed) :]


class _FileSystemKey:
    """The key of a file system that was passed as an object: equal for equal file systems, in this process alone."""

    def __init__(self, filesystem: pyarrow.fs.FileSystem) -> None:
        self._filesystem = filesystem

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _FileSystemKey) and bool(self._filesystem == other._filesystem)

    def __hash__(self) -> int:
        return hash(self._filesystem.type_name)  # file systems have no hash of their own

    def __str__(self) -> str:
        return f"file system {self._filesystem.type_name}"


def _wrap(filesystem: Any) -> Storage:
    if isinstance(filesystem, pyarrow.fs.LocalFileSystem) or "file" in _protocols(filesystem):
        return _LOCAL
    if not isinstance(filesystem, pyarrow.fs.FileSystem):
        handler = pyarrow.fs.FSSpecHandler(filesystem)
        filesystem = pyarrow.fs.PyFileSystem(handler)
    return ArrowStorage(filesystem, _FileSystemKey(filesystem))


def _protocols(filesystem: Any) -> tuple[str, ...]:
    """The names that an fsspec file system goes by."""
    protocol = getattr(filesystem, "protocol", ())
    return (protocol,) if isinstance(protocol, str) else tuple(protocol)


def is_glob(path: str) -> bool:
    return _GLOB.search(path) is not None


@dataclass(frozen=True)
class Ranges:
    """The result of :func:`read_ranges`: all bytes in one buffer, and where each requested range begins in it."""

    buffer: NDArray[np.uint8]
    starts: NDArray[np.int64] = field(repr=False)

    def rows(self, width: int) -> NDArray[np.uint8]:
        """The first `width` bytes of every range as a matrix; the caller knows that each range has so many."""
        if len(self.starts) == 0:
            return np.empty((0, width), np.uint8)
        windows = np.lib.stride_tricks.sliding_window_view(self.buffer, width)
        return windows[self.starts]


def read_ranges(
    storage: Storage,
    paths: Sequence[str],
    file: NDArray[np.int64],
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    reads: ReadCount,
) -> Ranges:
    """Read ``length[i]`` bytes at ``offset[i]`` of ``paths[file[i]]`` for all i, each byte once, merging ranges
    nearer than ``storage.near``.

    All three arrays have one shape (n,), in any order; every length is positive. `reads` grows by what was requested.
    """
    if len(file) == 0:
        return Ranges(np.empty(0, np.uint8), np.empty(0, np.int64))
    order = np.lexsort((offset, file))
    files, starts = file[order], offset[order]
    ends = starts + length[order]
    # Within a file, a run ends where the next range begins further than `near` behind everything so far.
    stride = int(ends.max()) + storage.near + 1
    reach = np.maximum.accumulate(ends + files * stride)
    begins = np.empty(len(order), bool)
    begins[0] = True
    begins[1:] = (starts[1:] + files[1:] * stride) > reach[:-1] + storage.near
    begins[1:] |= files[1:] != files[:-1]
    run = np.cumsum(begins) - 1
    first = np.flatnonzero(begins)
    run_file, run_start = files[first], starts[first]
    run_end = np.append(reach[first[1:] - 1], reach[-1]) - run_file * stride
    run_at = np.concatenate(([0], np.cumsum(run_end - run_start)))
    buffer = np.empty(run_at[-1], np.uint8)
    _read_runs(storage, paths, run_file, run_start, run_at, buffer.data)
    reads.requests += len(first)
    reads.bytes += len(buffer)
    result = np.empty(len(order), np.int64)
    result[order] = run_at[run] + (starts - run_start[run])
    return Ranges(buffer, result)


def _read_runs(
    storage: Storage,
    paths: Sequence[str],
    file: NDArray[np.int64],
    start: NDArray[np.int64],
    at: NDArray[np.int64],
    view: memoryview,
) -> None:
    bounds = np.append(np.flatnonzero(np.diff(file, prepend=-1)), len(file)).tolist()
    starts, views = start.tolist(), [view[i:j] for i, j in pairwise(at.tolist())]

    def read_file(run: tuple[int, int]) -> None:
        first, last = run
        storage.read_runs(paths[file[first]], starts[first:last], views[first:last])

    for _ in in_threads(storage.threads, read_file, list(pairwise(bounds))):
        pass


def in_threads(threads: int, work: Any, jobs: Sequence[Any]) -> Iterator[Any]:
    """``map(work, jobs)`` in order, by up to `threads` threads; the first error is raised."""
    if threads == 1 or len(jobs) < 2:
        yield from map(work, jobs)
        return
    with ThreadPoolExecutor(min(threads, len(jobs)), thread_name_prefix="bloomparquet") as pool:
        yield from pool.map(work, jobs)
