"""What writing a table needs of the storage it lies on: small files, moves, removals; local and remote.

Paths are the storage's own, and absolute. A *move* puts a whole file in its place in one step, or not at all: by
``rename`` locally, elsewhere by a copy that the storage makes, after which the source is deleted. Moves can be repeated
after they were interrupted anywhere.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import pyarrow.fs

from bloomparquet.errors import UnsupportedError
from bloomparquet.storage import LocalStorage, open_storage
from bloomparquet.writing.replace import flush_directory

_CANNOT_LOCK = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}


class Places(Protocol):
    """The operations. What is not there is no error when it is to be removed."""

    keeps_old: bool  # whether moving a file away costs no more than to delete it

    def make_directories(self, path: str) -> int:
        """Make the directory at `path`, and those above it; how many there were to make."""

    def remove_empty(self, path: str, levels: int) -> None:
        """Remove the directory at `path` and those above it, `levels` in all, as far as they are empty."""

    def names(self, path: str) -> list[str]:
        """What is in the directory at `path`; nothing if there is none."""

    def is_file(self, path: str) -> bool:
        """Whether there is a file at `path`."""

    def files(self, path: str, skip: Iterable[str] = ()) -> list[str]:
        """All files below `path`, hidden ones too, relative to it, but not those below names in it that begin with one
        of `skip`."""

    def identity(self, path: str) -> str | None:
        """What changes with a file's content: its size and time; None where there is no file."""

    def read(self, path: str) -> bytes | None:
        """A small file; None where there is none."""

    def write(self, path: str, data: bytes) -> None:
        """A small file, whole and durable or not at all."""

    def move(self, source: str, target: str) -> None:
        """Put a file at `target`, making directories; nothing happens if `source` is not there (any more)."""

    def remove(self, path: str) -> None:
        """Remove a file."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory with all that is in it."""

    def prune(self, root: str, directories: Iterable[str]) -> None:
        """Remove those of `directories`, which lie below `root`, that are empty, and those above them up to it."""

    def flush(self, directories: Iterable[str]) -> None:
        """Make names in these directories as durable as the files that they name."""

    def newest(self, path: str) -> float:
        """When something at or below `path` was changed last, in seconds since 1970."""

    def locked(self, path: str) -> Any:
        """A context in which no other process of this machine is in the context of the same directory."""


def open_places(url: str) -> tuple[Places, str]:
    """The operations for where `url` lies, and its absolute path there. UnsupportedError for a storage on which no file
    can be replaced in one step."""
    storage, inner = open_storage(url)
    if isinstance(storage, LocalStorage):
        return LocalPlaces(), os.path.realpath(inner)
    if storage.arrow.type_name == "hdfs":
        raise UnsupportedError(
            f"{url}: HDFS replaces no file in one step, so nothing is written there without the jar; attach it, or "
            "write to another storage"
        )
    return RemotePlaces(storage.arrow), inner.rstrip("/")


class LocalPlaces:
    """Local files."""

    keeps_old = True

    def make_directories(self, path: str) -> int:
        missing = []
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for each in reversed(missing):
            with contextlib.suppress(FileExistsError):
                os.mkdir(each)
        return len(missing)

    def remove_empty(self, path: str, levels: int) -> None:
        for _ in range(levels):
            try:
                os.rmdir(path)
            except OSError:
                return
            path = os.path.dirname(path)

    def names(self, path: str) -> list[str]:
        try:
            return os.listdir(path)
        except FileNotFoundError:
            return []

    def is_file(self, path: str) -> bool:
        return os.path.lexists(path) and not os.path.isdir(path)

    def files(self, path: str, skip: Iterable[str] = ()) -> list[str]:
        found = []
        for directory, below, names in os.walk(path):
            at_top = directory == path
            links = [name for name in below if os.path.islink(os.path.join(directory, name))]
            below[:] = [name for name in below if name not in links and not (at_top and name.startswith(tuple(skip)))]
            found += [os.path.relpath(os.path.join(directory, name), path) for name in [*names, *links]]
        return sorted(found)

    def identity(self, path: str) -> str | None:
        try:
            found = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return f"{found.st_size} {found.st_mtime_ns}"

    def read(self, path: str) -> bytes | None:
        try:
            with open(path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def write(self, path: str, data: bytes) -> None:
        temporary = f"{path}.new"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(temporary, path)
        flush_directory(path)

    def move(self, source: str, target: str) -> None:
        if os.path.lexists(source):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.rename(source, target)

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_tree(self, path: str) -> None:
        # Others may be at it as well, and what is left is found by the next write.
        shutil.rmtree(path, ignore_errors=True)

    def prune(self, root: str, directories: Iterable[str]) -> None:
        for directory in sorted(set(directories), key=len, reverse=True):
            while directory != root and len(directory) > len(root):
                try:
                    os.rmdir(directory)
                except OSError:
                    break
                directory = os.path.dirname(directory)

    def flush(self, directories: Iterable[str]) -> None:
        for directory in set(directories):
            flush_directory(os.path.join(directory, ""))

    def newest(self, path: str) -> float:
        times = [os.lstat(path).st_mtime]
        for directory, below, names in os.walk(path):
            for name in [*below, *names]:
                with contextlib.suppress(FileNotFoundError):
                    times.append(os.lstat(os.path.join(directory, name)).st_mtime)
        return max(times)

    @contextmanager
    def locked(self, path: str) -> Iterator[None]:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            except OSError as error:
                if error.errno not in _CANNOT_LOCK:
                    raise
            yield
        finally:
            os.close(descriptor)


class RemotePlaces:
    """What :mod:`pyarrow.fs` has or wraps. Directories are but the beginnings of names, and there are no locks."""

    keeps_old = False

    def __init__(self, arrow: pyarrow.fs.FileSystem) -> None:
        self._arrow = arrow

    def make_directories(self, path: str) -> int:
        return 0

    def remove_empty(self, path: str, levels: int) -> None:
        pass

    def names(self, path: str) -> list[str]:
        selector = pyarrow.fs.FileSelector(path, recursive=False, allow_not_found=True)
        return [info.base_name for info in self._arrow.get_file_info(selector)]

    def is_file(self, path: str) -> bool:
        return bool(self._arrow.get_file_info(path).type == pyarrow.fs.FileType.File)

    def files(self, path: str, skip: Iterable[str] = ()) -> list[str]:
        beginnings = tuple(skip)
        found = (info.path[self._below(info.path, path) :] for info in self._infos(path))
        return sorted(name for name in found if not name.startswith(beginnings) or not beginnings)

    def identity(self, path: str) -> str | None:
        found = self._arrow.get_file_info(path)
        return f"{found.size} {found.mtime_ns}" if found.type == pyarrow.fs.FileType.File else None

    def read(self, path: str) -> bytes | None:
        if not self.is_file(path):
            return None
        with self._arrow.open_input_stream(path) as stream:
            return bytes(stream.read())

    def write(self, path: str, data: bytes) -> None:
        with self._arrow.open_output_stream(path) as stream:
            stream.write(data)

    def move(self, source: str, target: str) -> None:
        if self.is_file(source):
            self._arrow.copy_file(source, target)
            self.remove(source)

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._arrow.delete_file(path)

    def remove_tree(self, path: str) -> None:
        with contextlib.suppress(OSError):
            self._arrow.delete_dir(path)

    def prune(self, root: str, directories: Iterable[str]) -> None:
        pass

    def flush(self, directories: Iterable[str]) -> None:
        pass

    def newest(self, path: str) -> float:
        return max(((info.mtime_ns or 0) / 1e9 for info in self._infos(path)), default=0.0)

    @contextmanager
    def locked(self, path: str) -> Iterator[None]:
        yield

    def _infos(self, path: str) -> list[pyarrow.fs.FileInfo]:
        selector = pyarrow.fs.FileSelector(path, recursive=True, allow_not_found=True)
        return [info for info in self._arrow.get_file_info(selector) if info.type == pyarrow.fs.FileType.File]

    @staticmethod
    def _below(inner: str, path: str) -> int:
        # Some file systems put a slash in front of all names, and some do not.
        return inner.index(path.lstrip("/")) + len(path.lstrip("/")) + 1
