"""A file that appears whole or not at all, in the place of another or where there was none.

What is written goes beside the file that it will be, under a name that no reader takes for data, and takes its place in
one step when it is complete. Local files: written, flushed to the disk, renamed over the old one, and the directory
flushed; mode, owner and extended attributes are those of the file replaced. Elsewhere: uploaded whole under the hidden
name, copied to its place by the storage itself, which object stores do in one step, and the hidden one deleted.

The hidden name follows from the file's, and a local one is locked while it is written: two writers of one file cannot
get in each other's way, and what a killed one has left is found by the next.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import pyarrow.fs
import xxhash

from bloomparquet.errors import BloomParquetError, FileBusyError, FormatError, UnsupportedError
from bloomparquet.storage.files import FileInfo, LocalStorage, Storage
from bloomparquet.storage.staleness import is_unchanged

_COPY_BYTES = 8 << 20
_SUFFIX = ".bloomparquet-tmp"
_COPY_WHOLE = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "memory"})
"""The type names of file systems, pyarrow's and fsspec's, that are object stores."""
_NAMES = re.compile(r"\w+")
_END_BYTES = 64 * 1024
_CANNOT_FLUSH = {errno.EACCES, errno.EPERM, errno.EINVAL, errno.ENOTSUP, errno.EBADF}
_LONGEST_NAME = 255  # bytes, on about every file system
_CANNOT_COPY = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM}


class Output(Protocol):
    """A file that is being written. Nobody sees it before `commit`."""

    def write(self, data: bytes | bytearray | memoryview) -> object:
        """Append bytes."""

    def copy(self, storage: Storage, path: str, start: int, stop: int) -> None:
        """Append bytes of another file."""

    def commit(self) -> None:
        """Put it in its place. Nothing may be written after."""


@contextmanager
def replacing(storage: Storage, path: str, old: FileInfo | None = None) -> Iterator[Output]:
    """A new file at `path`; if the block ends without `commit`, there is none, and what was there is there still.

    With `old`, it replaces exactly this file: if that has changed meanwhile, `commit` raises BloomParquetError.
    Raises BloomParquetError where somebody else is writing the same file, UnsupportedError for a storage on which no
    file can be replaced in one step.
    """
    kind = _LocalOutput if isinstance(storage, LocalStorage) else _RemoteOutput
    output = kind(storage, path, old)
    try:
        yield output
    finally:
        output.close()


def temporary_name(path: str) -> str:
    """The name of the new file of `path` while it is written: hidden, and in the same directory."""
    directory, slash, name = path.rpartition("/")
    raw = name.encode("utf-8", "surrogateescape")
    if len(raw) + len(_SUFFIX) + 1 > _LONGEST_NAME:
        name = xxhash.xxh3_128_hexdigest(raw)
    return f"{directory}{slash}.{name}{_SUFFIX}"


def remove_leftover(storage: Storage, path: str) -> None:
    """Remove what a killed writer of the file at `path` has left, if nobody is writing it now."""
    if not isinstance(storage, LocalStorage):
        _delete_if_there(storage.filesystem, temporary_name(path))
        return
    hidden = temporary_name(os.path.realpath(path))
    if os.path.lexists(hidden):
        with contextlib.suppress(BloomParquetError):
            _remove(_open_locked(hidden, 0o600), hidden)


def _open_locked(path: str, mode: int) -> int:
    """A descriptor of the new, empty file at `path`. What a killed process has left there is removed.

    Raises FileBusyError where another process, or another thread, has locked the file.
    """
    while True:
        try:
            descriptor, fresh = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), True
        except FileExistsError:
            try:
                descriptor, fresh = _open_there(path), False
            except FileNotFoundError:
                continue
        if not _lock(descriptor):
            os.close(descriptor)
            raise FileBusyError(f"{path}: another process is writing this file; wait until it is done")
        if _is_at(descriptor, path):
            if fresh:
                return descriptor
            os.unlink(path)
        os.close(descriptor)


def _open_there(path: str) -> int:
    flags = os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        try:
            descriptor = os.open(path, os.O_RDWR | flags)  # a network file system locks only what may be written
        except PermissionError:  # it has the mode of the file that it was to replace already
            descriptor = os.open(path, os.O_RDONLY | flags)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise
        raise _in_the_way(path) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _in_the_way(path)
    return descriptor


def _in_the_way(path: str) -> BloomParquetError:
    return BloomParquetError(f"{path}: this is no plain file, but its name is needed for a while; remove it")


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(descriptor: int, path: str) -> bool:
    """Whether the open file is the one that `path` names: it may have been renamed or removed before it was locked."""
    try:
        there = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))


def _remove(descriptor: int, path: str) -> None:
    """Close the file, and remove it unless `path` is another file by now."""
    if _is_at(descriptor, path):
        os.unlink(path)
    os.close(descriptor)


class _LocalOutput:
    """Written beside its place, renamed into it."""

    def __init__(self, storage: Storage, path: str, old: FileInfo | None) -> None:
        self._storage, self._old, self._given = storage, old, path
        self._path = os.path.realpath(path)  # of a link, the file is replaced and not the link
        self._hidden = temporary_name(self._path)
        if os.path.isdir(self._path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        self._before = os.stat(self._path) if old is not None or os.path.exists(self._path) else None
        self._descriptor = _open_locked(self._hidden, 0o666 if self._before is None else 0o600)
        self._source: tuple[str, int] | None = None
        self._committed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data).cast("B")
        while view:
            view = view[os.write(self._descriptor, view) :]

    def copy(self, storage: Storage, path: str, start: int, stop: int) -> None:
        if not isinstance(storage, LocalStorage):
            _copy_through_memory(self, storage, path, start, stop)
            return
        if self._source is None or self._source[0] != path:
            self._close_source()
            self._source = path, os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        source = self._source[1]
        while start < stop:
            try:
                copied = os.copy_file_range(source, self._descriptor, stop - start, start)
            except (OSError, AttributeError) as error:  # only Linux has it
                if isinstance(error, OSError) and error.errno not in _CANNOT_COPY:
                    raise
                _copy_through_memory(self, storage, path, start, stop)
                return
            if copied == 0:
                raise FormatError(f"{path}: the file ends at byte {start}; expected {stop}: it has changed meanwhile")
            start += copied

    def commit(self) -> None:
        if self._before is not None:
            self._take_after(self._before)
        os.fsync(self._descriptor)
        _require_unchanged(self._storage, self._old)
        _forget_checksum(self._given)
        os.rename(self._hidden, self._path)
        self._committed = True
        _flush_directory(self._path)

    def _take_after(self, before: os.stat_result) -> None:
        found = os.fstat(self._descriptor)
        if (found.st_uid, found.st_gid) != (before.st_uid, before.st_gid):
            try:
                os.fchown(self._descriptor, before.st_uid, before.st_gid)
            except PermissionError:
                owner = f"user {before.st_uid}, group {before.st_gid}"
                message = f"the owner ({owner}) cannot be kept; run as that user, or write to another place"
                raise PermissionError(errno.EPERM, message, self._path) from None
        os.fchmod(self._descriptor, before.st_mode & 0o7777)
        for name in _attributes(self._path):
            try:
                os.setxattr(self._descriptor, name, os.getxattr(self._path, name))
            except OSError as error:  # noqa: PERF203 (some are the system's own)
                if error.errno not in (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.ENODATA):
                    raise

    def close(self) -> None:
        self._close_source()
        if self._committed:
            os.close(self._descriptor)
        else:
            _remove(self._descriptor, self._hidden)
        self._descriptor = -1  # its number may soon be another file's

    def _close_source(self) -> None:
        if self._source is not None:
            os.close(self._source[1])
            self._source = None


def require_whole_copies(arrow: pyarrow.fs.FileSystem, path: str) -> None:
    """UnsupportedError unless a copy within `arrow` takes the place of an object in one step: elsewhere, a copy that
    fails has destroyed what was there."""
    if not _COPY_WHOLE.intersection(_NAMES.findall(arrow.type_name)):
        raise UnsupportedError(
            f"{path}: it is not known that {arrow.type_name} replaces a file in one step, so nothing is written there; "
            "write to a local path or to an object store, and copy it"
        )


class _RemoteOutput:
    """Uploaded beside its place, copied into it by the storage."""

    def __init__(self, storage: Storage, path: str, old: FileInfo | None) -> None:
        self._storage, self._filesystem, self._path, self._old = storage, storage.filesystem, path, old
        require_whole_copies(self._filesystem, path)
        self._hidden = temporary_name(path)
        self._size, self._end = 0, b""
        self._stream = self._filesystem.open_output_stream(self._hidden)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data).cast("B")
        self._size += len(view)
        self._end = (self._end + bytes(view[-_END_BYTES:]))[-_END_BYTES:]
        self._stream.write(view)

    def copy(self, storage: Storage, path: str, start: int, stop: int) -> None:
        _copy_through_memory(self, storage, path, start, stop)

    def commit(self) -> None:
        self._stream.close()
        _require_unchanged(self._storage, self._old)
        self._require_own()
        _copy_object(self._filesystem, self._hidden, self._path)

    def _require_own(self) -> None:
        """Object stores lock nothing: what is at the hidden name may be what somebody else is writing."""
        end = bytearray(len(self._end))
        with contextlib.suppress(FormatError, FileNotFoundError):
            self._storage.read_into(self._hidden, [self._size - len(end)], [memoryview(end)])
            if self._filesystem.get_file_info(self._hidden).size == self._size and end == self._end:
                return
        raise BloomParquetError(
            f"{self._path}: somebody else is writing this file; what there is of it is left as it is; run again"
        )

    def close(self) -> None:
        with contextlib.suppress(OSError):  # an upload that failed already
            self._stream.close()
        try:
            _delete_if_there(self._filesystem, self._hidden)
        except OSError as error:
            warnings.warn(f"{self._hidden} is of no use any more, and could not be deleted: {error}", stacklevel=2)


def _forget_checksum(path: str) -> None:
    """Remove what Hadoop keeps beside a local file to check its bytes by, before they change: a file without it is
    read unchecked, one with that of other bytes not at all."""
    for place in {path, os.path.realpath(path)}:
        directory, name = os.path.split(place)
        try:
            os.unlink(os.path.join(directory, f".{name}.crc"))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENAMETOOLONG):
                raise


def _attributes(path: str) -> list[str]:
    """The extended attributes of a file, where the system and the file system have any."""
    if not hasattr(os, "listxattr"):
        return []
    try:
        return os.listxattr(path)
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
        return []


def _flush_directory(path: str) -> None:
    """Make the name of the local file at `path` as durable as its bytes, where its directory can be flushed."""
    try:
        descriptor = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_FLUSH:
            raise


def _copy_through_memory(output: Output, storage: Storage, path: str, start: int, stop: int) -> None:
    while start < stop:
        buffer = bytearray(min(_COPY_BYTES, stop - start))
        storage.read_into(path, [start], [memoryview(buffer)])
        output.write(buffer)
        start += len(buffer)


def _delete_if_there(arrow: Any, path: str) -> None:
    if arrow.get_file_info(path).type == pyarrow.fs.FileType.NotFound:
        return
    fs = _fsspec_of(arrow)
    if fs is None:
        arrow.delete_file(path)
    else:
        fs.rm_file(path)


def _copy_object(arrow: Any, source: str, target: str) -> None:
    fs = _fsspec_of(arrow)
    if fs is None:
        arrow.copy_file(source, target)
    else:
        fs.cp_file(source, target)


def _fsspec_of(arrow: Any) -> Any:
    """The fsspec file system behind pyarrow's, None where there is none. What pyarrow calls of it to copy and to delete
    takes names with brackets and question marks for patterns."""
    handler = getattr(arrow, "handler", None)
    return handler.fs if isinstance(handler, pyarrow.fs.FSSpecHandler) else None


def _require_unchanged(storage: Storage, old: FileInfo | None) -> None:
    if old is not None and not is_unchanged(storage, old):
        raise BloomParquetError(f"{old.path}: the file changed while it was processed and is left as it is; run again")
