"""The files of a storage: list them, match globs, and read byte ranges of one file.

Implementations of :class:`Storage`: :class:`LocalStorage` uses ``os``, where a positioned read takes about a
microsecond; :class:`ArrowStorage` uses :mod:`pyarrow.fs`, which also wraps every fsspec file system;
:class:`bloomparquet.storage.host_files.HostStorage` asks another process.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.fs

from bloomparquet.errors import LimitError, OptionError, UnsupportedError, quoted
from bloomparquet.storage.descriptors import open_data
from bloomparquet.storage.exact_reads import ends_early, fill_views, size_and_time
from bloomparquet.storage.globs import find_local, is_glob, matches_glob
from bloomparquet.storage.links import require_no_loop

_MOST_ENDS_BYTES = 128 * 1024 * 1024

NEVER_CHANGES_NS = -1_000_000
"""Instead of the modification time of a file whose name has one content, as in a table with a log, or in an index."""


class FileInfo(NamedTuple):
    """A file as it was listed. Equal values stand for equal content.

    `inode` and `ctime_ns` are 0 if the storage does not report them.
    """

    path: str
    size: int
    mtime_ns: int
    inode: int = 0
    ctime_ns: int = 0

    @classmethod
    def of(cls, path: str, status: os.stat_result) -> FileInfo:
        return cls(path, status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns)


class Files(tuple[FileInfo, ...]):
    """The files of a data set. Their hash is computed once: caches look data sets of many files up for every plan."""

    _hash: int | None = None

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = super().__hash__()
        return self._hash

    def __reduce__(self) -> tuple[type[Files], tuple[tuple[FileInfo, ...]]]:
        return Files, (tuple(self),)  # without the hash: another process hashes text differently


@dataclass(slots=True)
class ListingNotes:
    """The `hidden` directories that a listing skipped below its root, and the symbolic `links` that it followed."""

    hidden: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)


class FileEnds:
    """The ends of files that a plan has read. Bloom filters usually lie just before the footer, so they are there."""

    def __init__(self) -> None:
        self._ends: dict[FileInfo, tuple[int, memoryview]] = {}
        self._bytes = 0

    def keep(self, file: FileInfo, start: int, data: memoryview) -> None:
        """Keep `data`, which was read from `start` on, if `file` ends with it."""
        if start + len(data) == file.size and self._bytes + len(data) <= _MOST_ENDS_BYTES:
            self._ends[file] = start, data
            self._bytes += len(data)

    def fill(self, file: FileInfo, start: int, view: memoryview) -> bool:
        """Fill `view` from `start` on, if these bytes are kept."""
        first, data = self._ends.get(file, (file.size, memoryview(b"")))
        is_kept = first <= start and start + len(view) <= first + len(data)
        if is_kept:
            view[:] = data[start - first : start - first + len(view)]
        return is_kept


@dataclass(slots=True)
class ReadCount:
    """Requests to a storage, and the bytes that they returned, gaps between merged ranges included.

    `ends`: what is kept between the reads of one plan, if the storage is remote.
    """

    requests: int = 0
    bytes: int = 0
    ends: FileEnds | None = field(default=None, repr=False, compare=False)

    def add(self, other: ReadCount) -> None:
        """Count the reads of another thread, or of another part of the work."""
        self.requests += other.requests
        self.bytes += other.bytes


class Storage(Protocol):
    """A file system as the package uses it. Paths have no scheme."""

    key: Hashable  # identifies the storage in caches: storages with equal keys have the same files
    access: Hashable  # differs for other credentials: only storages with equal ones share objects that read files
    merge_gap: int  # bytes: ranges at most this far apart are read as one
    threads: int  # how many reads at a time are worthwhile
    batch_bytes: int  # how much of many files to read before it is used
    shares_open_files: bool  # whether several threads can read one open file at the same time
    filesystem: pyarrow.fs.FileSystem

    def list_files(self, path: str, *, recursive: bool, notes: ListingNotes | None = None) -> list[FileInfo]:
        """The files at or below `path`, sorted by path. Hidden names below it are left out; see :func:`is_hidden`.

        Raises FileNotFoundError if there is nothing at `path`.
        """

    def glob(self, pattern: str) -> list[str]:
        """The files and directories that match `pattern`, sorted."""

    def is_directory(self, path: str) -> bool:
        """Whether there is a directory at `path`."""

    def make_parents(self, path: str) -> None:
        """Create the parent directories of the file at `path`. Object stores need none."""

    def open_file(self, path: str) -> pyarrow.NativeFile:
        """The file at `path`, for pyarrow's readers."""

    def read_whole(self, path: str, most: int) -> bytes:
        """The bytes of a file. Raises FileNotFoundError, IsADirectoryError, and LimitError if there are more than
        `most`. Takes two requests of a remote storage, or one if there is no file."""

    def read_into(
        self, path: str, offsets: Sequence[int], views: Sequence[memoryview], threads: int = 1
    ) -> FileInfo | None:
        """Fill each of `views` from its offset in the file, by up to `threads` threads, and return the version that was
        read, if the storage reports it; its time is 0 if only the size is reported. Raises FormatError if the file ends
        before."""


def data_root(files: Sequence[FileInfo]) -> str:
    """The deepest directory that holds all of `files` and lies above partition directories, without a slash."""
    paths = [file.path for file in files]
    names = []
    for name, other in zip(min(paths).split("/")[:-1], max(paths).split("/")[:-1], strict=False):
        if name != other or "=" in name:
            break
        names.append(name)
    return "/".join(names)


def with_scheme(storage: Storage, path: str) -> str:
    """`path` on `storage` as a command takes it. Without the options of a URL, which may be secret."""
    scheme, mark, _ = str(storage.key).partition("://")
    return f"{scheme}{mark}{path}" if mark else path


def is_hidden(name: str) -> bool:
    """Spark's rule for names that are not data: ``_temporary``, ``_SUCCESS``, ``.crc``, but not the partition
    ``_day=1``."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


class LocalStorage:
    """Local files, by ``os``."""

    key: Hashable = "file"
    access: Hashable = "file"
    merge_gap = 8 * 1024
    threads = 1
    batch_bytes = 16 * 1024 * 1024  # buffers that the allocator uses again are filled in half the time
    shares_open_files = True
    filesystem: pyarrow.fs.FileSystem

    def __init__(self) -> None:
        self.filesystem = pyarrow.fs.LocalFileSystem()

    def list_files(self, path: str, *, recursive: bool, notes: ListingNotes | None = None) -> list[FileInfo]:
        status = os.stat(path)
        if not stat.S_ISDIR(status.st_mode):
            return [FileInfo.of(path, status)]
        files: list[FileInfo] = []
        pending = [path]
        while pending:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if entry.name[0] in "._" and is_hidden(entry.name):
                        if notes is not None and entry.is_dir():
                            notes.hidden.add(entry.path)
                        continue
                    if notes is not None and entry.is_symlink():
                        notes.links.append(entry.path)
                    if not entry.is_dir():
                        files.append(FileInfo.of(entry.path, entry.stat()))
                    elif recursive:
                        if entry.is_symlink():
                            require_no_loop(path, entry.path)
                        pending.append(entry.path)
        files.sort(key=attrgetter("path"))
        return files

    def glob(self, pattern: str) -> list[str]:
        return find_local(pattern)

    def is_directory(self, path: str) -> bool:
        try:
            return stat.S_ISDIR(os.stat(path).st_mode)
        except (FileNotFoundError, NotADirectoryError, ValueError):  # other errors do not tell, and are raised
            return False

    def make_parents(self, path: str) -> None:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)

    def open_file(self, path: str) -> pyarrow.NativeFile:
        return self.filesystem.open_input_file(os.fsencode(path))  # a name need not be UTF-8

    def read_whole(self, path: str, most: int) -> bytes:
        status = os.stat(path)  # first: to open a pipe would wait
        if not stat.S_ISREG(status.st_mode):
            raise IsADirectoryError(path)
        require_size(path, status.st_size, most)
        with open_data(path) as file:
            return file.read(most) or b""

    def read_into(self, path: str, offsets: Sequence[int], views: Sequence[memoryview], threads: int = 1) -> FileInfo:
        # One lookup makes tens of thousands of these reads: keep the loop small.
        read = os.preadv
        with open_data(path) as file:
            descriptor = file.fileno()
            for offset, view in zip(offsets, views, strict=True):
                count = read(descriptor, (view,), offset)
                while count < len(view):  # a positioned read may return fewer bytes than requested
                    more = read(descriptor, (view[count:],), offset + count)
                    if more == 0:
                        raise ends_early(path, offset + count, offset + len(view))
                    count += more
            return FileInfo.of(path, os.fstat(descriptor))  # after the reads: a change before them or meanwhile shows


class ArrowStorage:
    """A file system of :mod:`pyarrow.fs`. One request is assumed to cost far more than its bytes."""

    merge_gap = 256 * 1024
    threads = 16
    batch_bytes = 64 * 1024 * 1024  # enough reads for all threads

    def __init__(self, filesystem: pyarrow.fs.FileSystem, key: Hashable, access: Hashable = None) -> None:
        self.filesystem, self.key = filesystem, key
        self.access = key if access is None else access
        while isinstance(filesystem, pyarrow.fs.SubTreeFileSystem):
            filesystem = filesystem.base_fs
        self.is_native = not isinstance(filesystem, pyarrow.fs.PyFileSystem)
        self.shares_open_files = self.is_native  # pyarrow locks a file of Python for each read

    def list_files(self, path: str, *, recursive: bool, notes: ListingNotes | None = None) -> list[FileInfo]:
        with refused_paths_named(path):
            info = self.filesystem.get_file_info(path)
        if info.type == pyarrow.fs.FileType.File:
            return [_file_info(info)]
        root, is_missing = path.rstrip("/"), info.type == pyarrow.fs.FileType.NotFound
        # pyarrow does not find the directory "t" on Azure if there is a name such as "t-old", which comes before "t/".
        selector = pyarrow.fs.FileSelector(path, recursive=recursive, allow_not_found=is_missing)
        entries = self.filesystem.get_file_info(selector)
        if is_missing and not entries:
            raise FileNotFoundError(f"{self.key}: no such file or directory: {path}")
        files = [
            _file_info(info)
            for info in entries
            if info.type == pyarrow.fs.FileType.File and not any(map(is_hidden, _names_below(root, info.path)))
        ]
        files.sort(key=lambda file: file.path)
        if notes is not None:
            notes.hidden.update(_hidden_directories(root, entries))
        return files

    def glob(self, pattern: str) -> list[str]:
        parts = pattern.split("/")
        fixed = next(i for i, part in enumerate(parts) if is_glob(part))
        root = "/".join(parts[:fixed])
        selector = pyarrow.fs.FileSelector(root, recursive=True, allow_not_found=True)
        with refused_paths_named(pattern):
            paths = [info.path for info in self.filesystem.get_file_info(selector)]
        return sorted(
            path for path in paths if matches_glob(_names_below(root.lstrip("/"), path.lstrip("/")), parts[fixed:])
        )

    def is_directory(self, path: str) -> bool:
        with refused_paths_named(path):
            kind = self.filesystem.get_file_info(path).type
        if kind == pyarrow.fs.FileType.NotFound and self.filesystem.type_name == "abfs":  # see list_files
            return bool(self.filesystem.get_file_info(pyarrow.fs.FileSelector(path, allow_not_found=True)))
        return bool(kind == pyarrow.fs.FileType.Directory)

    def make_parents(self, path: str) -> None:
        """Do nothing: an object's name may contain slashes."""

    def open_file(self, path: str) -> pyarrow.NativeFile:
        try:
            return self.filesystem.open_input_file(path)
        except pa.ArrowInvalid as error:
            raise UnsupportedError(f"{path}: pyarrow opens no file of this name ({error}); rename it") from error

    def read_whole(self, path: str, most: int) -> bytes:
        # Looking for a missing object before it is opened would be two requests.
        with self.filesystem.open_input_file(path) as stream:
            require_size(path, stream.size(), most)
            data: bytes = stream.read_buffer().to_pybytes()  # not `read`, which never frees its memory when it fails
            return data

    def read_into(
        self, path: str, offsets: Sequence[int], views: Sequence[memoryview], threads: int = 1
    ) -> FileInfo | None:
        with self.open_file(path) as file:
            fill_views(file, path, offsets, views, threads, is_native=self.is_native)
            return FileInfo(path, *size_and_time(file)) if self.is_native else None


def require_size(path: str, size: int, most: int) -> None:
    """Raise LimitError if a file has more than `most` bytes."""
    if size > most:
        raise LimitError(f"{path} has {size} bytes; expected at most {most}")


@contextmanager
def refused_paths_named(path: str) -> Iterator[None]:
    """Raise OptionError for a `path` that the file system refuses, such as ``bucket//a``."""
    try:
        yield
    except pa.ArrowInvalid as error:
        raise OptionError(f"path is {quoted(path)}; expected a path of the storage: {error}") from error


def _file_info(info: pyarrow.fs.FileInfo) -> FileInfo:
    return FileInfo(info.path, info.size, info.mtime_ns or 0)


def _hidden_directories(root: str, entries: Sequence[pyarrow.fs.FileInfo]) -> Iterator[str]:
    """The outermost hidden directories below `root`. Some object stores list only the files in them."""
    for info in entries:
        names = _names_below(root, info.path)
        at = next((i for i, name in enumerate(names) if is_hidden(name)), len(names))
        if at < len(names) - 1 or (at < len(names) and info.type == pyarrow.fs.FileType.Directory):
            yield info.path.rstrip("/").removesuffix("/".join(names[at + 1 :])).rstrip("/")


def _names_below(root: str, path: str) -> list[str]:
    """The parts of `path` below `root`."""
    return path[len(root) :].strip("/").split("/")
