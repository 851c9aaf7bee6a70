"""Writes files so that they appear whole or not at all, whether or not they replace others.

The new file is written to a hidden temporary name in the same directory, and takes its place in one step when it is
complete. A local file is flushed to the disk and renamed over the old one, then the directory is flushed; mode, owner
and extended attributes of the old file are kept. On other storage, the file is uploaded to the temporary name, copied
to its path by the storage, which object stores do in one step, and the temporary object is deleted.

The temporary name follows from the file's, and a local one is locked while it is written. So two writers of one file
cannot disturb each other, and the next writer finds what a killed one has left.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from typing import Protocol

import pyarrow.fs
import xxhash

from bloomparquet.errors import BloomParquetError, FileBusyError, FormatError, UnsupportedError
from bloomparquet.storage.descriptors import flush_directory, open_data
from bloomparquet.storage.files import FileInfo, LocalStorage, Storage, refused_paths_named
from bloomparquet.storage.locks import close_and_remove, create_locked, remove_unlocked
from bloomparquet.storage.staleness import is_unchanged

_COPY_BYTES = 8 << 20
_SUFFIX = ".bloomparquet-tmp"
_OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "memory"})
"""Type names of pyarrow's and fsspec's object stores: their copies replace an object in one step."""
_WORDS = re.compile(r"\w+")
_END_BYTES = 64 * 1024
COPY_SECONDS = 120.0
"""How long to wait for a copy within an object store. Most take milliseconds, whatever their size."""
_SHORTEST_WAIT, _LONGEST_WAIT = 0.05, 5.0  # seconds between two looks at a copy
_CANNOT_FLUSH = {errno.EACCES, errno.EPERM, errno.EINVAL, errno.ENOTSUP, errno.EBADF}
_CANNOT_COPY = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM}
_MOST_NAME_BYTES = 255  # on nearly every file system


class Output(Protocol):
    """A file that is being written. It is invisible until `commit`."""

    def write(self, data: bytes | bytearray | memoryview) -> object:
        """Append bytes."""

    def copy(self, storage: Storage, path: str, start: int, stop: int) -> None:
        """Append the bytes from `start` to `stop` of another file."""

    def commit(self) -> None:
        """Put the file in its place. Nothing may be written afterwards."""


@contextmanager
def replacing(storage: Storage, path: str, old: FileInfo | None = None) -> Iterator[Output]:
    """Write a new file at `path`. Unless the block calls `commit`, nothing changes there.

    `old` is the version of the file to replace: if it has changed, `commit` raises BloomParquetError.

    Raises FileBusyError if the file is being written already, UnsupportedError if the storage cannot replace a file in
    one step, or if a device, a pipe or a socket is at `path`.
    """
    kind = _LocalOutput if isinstance(storage, LocalStorage) else _RemoteOutput
    output = kind(storage, path, old)
    try:
        output.open()
        yield output
    finally:
        try:
            output.close()
        except BaseException:  # an interrupt may have come before the temporary file was removed
            output.close()
            raise


def temporary_name(path: str) -> str:
    """The hidden name, in the same directory, of the file at `path` while it is written."""
    directory, slash, name = path.rpartition("/")
    raw = name.encode("utf-8", "surrogateescape")
    if len(raw) + len(_SUFFIX) + 1 > _MOST_NAME_BYTES:
        name = xxhash.xxh3_128_hexdigest(raw)
    return f"{directory}{slash}.{name}{_SUFFIX}"


def remove_leftover(storage: Storage, path: str) -> None:
    """Remove the temporary file that a killed writer of `path` has left, unless it is being written now."""
    if not isinstance(storage, LocalStorage):
        _delete_if_exists(storage.filesystem, temporary_name(path))
        return
    remove_unlocked(temporary_name(os.path.realpath(path)))


def delete_file(storage: Storage, path: str) -> None:
    """Delete a file. Raises ``OSError``; a missing remote file is no error."""
    if isinstance(storage, LocalStorage):
        os.unlink(path)
    else:
        _delete_if_exists(storage.filesystem, path)


class _LocalOutput:
    """A local file, which is written to the temporary name and then renamed."""

    def __init__(self, storage: Storage, path: str, old: FileInfo | None) -> None:
        self._storage, self._old, self._named = storage, old, path
        self._owner = os.getpid()
        self._path = os.path.realpath(path)  # replace the target of a symbolic link, not the link
        self._temporary = temporary_name(self._path)
        self._before: os.stat_result | None = None
        try:
            self._before = os.stat(self._path)
        except FileNotFoundError:
            if old is not None:
                raise
            os.stat(os.path.dirname(self._path))  # if the directory is missing, the error names it
        if self._before is not None and stat.S_ISDIR(self._before.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if self._before is not None and not stat.S_ISREG(self._before.st_mode):
            # A rename would put a file in place of /dev/null.
            raise UnsupportedError(
                f"{path}: this is a device, a pipe or a socket, which a new file would replace; write to another path"
            )
        self._file: FileIO | None = None
        self._source: tuple[str, FileIO] | None = None

    def open(self) -> None:
        self._file = create_locked(self._temporary, 0o666 if self._before is None else 0o600)

    @property
    def _descriptor(self) -> int:
        assert self._file is not None
        return self._file.fileno()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        _require_not_forked(self._owner, self._named)
        view = memoryview(data).cast("B")
        while view:
            view = view[os.write(self._descriptor, view) :]

    def copy(self, storage: Storage, path: str, start: int, stop: int) -> None:
        _require_not_forked(self._owner, self._named)
        if not isinstance(storage, LocalStorage):
            _copy_through_memory(self, storage, path, start, stop)
            return
        if self._source is None or self._source[0] != path:
            self._close_source()
            self._source = path, open_data(path)
        source = self._source[1].fileno()
        while start < stop:
            try:
                copied = os.copy_file_range(source, self._descriptor, stop - start, start)
            except (OSError, AttributeError) as error:  # only Linux has it
                if isinstance(error, OSError) and error.errno not in _CANNOT_COPY:
                    raise
                _copy_through_memory(self, storage, path, start, stop)
                return
            if copied == 0:
                raise FormatError(
                    f"{path}: the file ends at byte {start}; expected {stop}: it changed while it was read"
                )
            start += copied

    def commit(self) -> None:
        _require_not_forked(self._owner, self._named)
        if self._before is not None:
            self._copy_attributes(self._before)
        os.fsync(self._descriptor)
        _require_unchanged(self._storage, self._old)
        _remove_checksums({self._named, self._path})
        os.rename(self._temporary, self._path)
        try:
            _flush_directory(self._path)
        except OSError as error:
            message = (
                f"{error.strerror}; the new file is in place and complete, but its directory could not be flushed to "
                "the disk: if the machine crashes now, the old state may come back; check the disk"
            )
            raise OSError(error.errno, message, self._path) from error

    def _copy_attributes(self, before: os.stat_result) -> None:
        """Give the new file the owner, mode and extended attributes of the old one."""
        status = os.fstat(self._descriptor)
        if (status.st_uid, status.st_gid) != (before.st_uid, before.st_gid):
            try:
                os.fchown(self._descriptor, before.st_uid, before.st_gid)
            except PermissionError:
                owner = f"user {before.st_uid}, group {before.st_gid}"
                message = f"the owner ({owner}) cannot be kept; run as that user, or write to another path"
                raise PermissionError(errno.EPERM, message, self._path) from None
        os.fchmod(self._descriptor, before.st_mode & 0o7777)
        for name in _extended_attributes(self._path):
            try:
                os.setxattr(self._descriptor, name, os.getxattr(self._path, name))
            except OSError as error:  # noqa: PERF203 (only the system may set some)
                if error.errno not in (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.ENODATA):
                    raise

    def close(self) -> None:
        self._close_source()
        close_and_remove(self._file, self._temporary, self._owner)

    def _close_source(self) -> None:
        if self._source is not None:
            self._source[1].close()
            self._source = None


class _RemoteOutput:
    """A remote file, which is uploaded to the temporary name and then copied by the storage."""

    def __init__(self, storage: Storage, path: str, old: FileInfo | None) -> None:
        self._storage, self._filesystem, self._path, self._old = storage, storage.filesystem, path, old
        require_object_store(self._filesystem, path)
        if path.endswith("/"):  # such an object stands for a directory, and no listing shows it
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        self._temporary = temporary_name(path)
        self._size, self._end = 0, b""
        self._owner = os.getpid()
        self._keeps_temporary = self._is_closed = False

    def open(self) -> None:
        with refused_paths_named(self._path):
            self._stream = self._filesystem.open_output_stream(self._temporary)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        _require_not_forked(self._owner, self._path)
        view = memoryview(data).cast("B")
        self._size += len(view)
        self._end = (self._end + bytes(view[-_END_BYTES:]))[-_END_BYTES:]
        self._stream.write(view)

    def copy(self, storage: Storage, path: str, start: int, stop: int) -> None:
        _copy_through_memory(self, storage, path, start, stop)

    def commit(self) -> None:
        _require_not_forked(self._owner, self._path)
        self._stream.close()
        _require_unchanged(self._storage, self._old)
        if self._difference(self._temporary) is not None:  # object stores have no locks
            raise FileBusyError(
                f"{self._path}: another process is writing this file, and it is left as it is; run again"
            )
        if isinstance(self._filesystem, pyarrow.fs.PyFileSystem):
            self._copy_and_wait()
        else:
            self._filesystem.copy_file(self._temporary, self._path)

    def _copy_and_wait(self) -> None:
        """Copy the temporary object by a file system of fsspec. It is kept unless the object at the path is known to be
        complete.

        adlfs only starts a copy. On Azure, the object is empty until the copy is complete, and stays empty if the
        temporary object is deleted before.
        """
        self._keeps_temporary = True
        failure: OSError | None = None
        try:
            self._filesystem.copy_file(self._temporary, self._path)
        except OSError as error:
            failure = error  # perhaps the storage copies, and only its answer is lost
        difference = self._wait_for_copy(COPY_SECONDS if failure is None else 0.0)
        if difference is not None:
            ended = f"has not ended in {COPY_SECONDS:g} seconds" if failure is None else f"failed: {failure}"
            raise BloomParquetError(
                f"{self._path}: the copy of the new file to this path {ended}; {difference}; expected {self._size} "
                f"bytes, as in {self._temporary}, which is kept. Wait until the copy is complete, or copy that file to "
                "this path yourself; then run again"
            ) from failure
        self._keeps_temporary = False

    def _wait_for_copy(self, seconds: float) -> str | None:
        """Wait until the object at the path is complete. If it is not after `seconds`, return what was found."""
        deadline, wait = time.monotonic() + seconds, _SHORTEST_WAIT
        while True:
            try:
                difference = self._difference(self._path)
            except OSError as error:
                difference = f"it cannot be read: {error}"
            if difference is None or time.monotonic() >= deadline:
                return difference
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)

    def _difference(self, path: str) -> str | None:
        """How the object at `path` differs from what was written. None if size and end are the same."""
        info = self._filesystem.get_file_info(path)
        if info.type == pyarrow.fs.FileType.NotFound:
            return "it does not exist"
        if info.size != self._size:
            return f"it has {info.size} bytes"
        end = bytearray(len(self._end))
        try:
            self._storage.read_into(path, [self._size - len(end)], [memoryview(end)])
        except (FormatError, FileNotFoundError) as error:
            return str(error)
        return None if end == self._end else "it ends with other bytes"

    def close(self) -> None:
        if os.getpid() != self._owner or self._is_closed:  # in a forked child, it is the parent's
            return
        with contextlib.suppress(OSError, AttributeError):  # the upload, or opening it, has failed already
            self._stream.close()
        if self._keeps_temporary:
            return
        try:
            _delete_if_exists(self._filesystem, self._temporary)
        except OSError as error:
            warnings.warn(f"the temporary file {self._temporary} could not be deleted: {error}", stacklevel=2)
        self._is_closed = True


def require_object_store(filesystem: pyarrow.fs.FileSystem, path: str) -> None:
    """UnsupportedError unless a copy replaces an object in one step. Elsewhere, a failed copy destroys the old one."""
    if not _OBJECT_STORES.intersection(_WORDS.findall(filesystem.type_name)):
        raise UnsupportedError(
            f"{path}: {filesystem.type_name} is not known to replace a file in one step, so nothing is written there; "
            "write to a local path or to an object store, and copy the file"
        )


def _require_not_forked(owner: int, path: str) -> None:
    """FileBusyError in a process other than `owner`: parent and child would write into one file."""
    if os.getpid() != owner:
        raise FileBusyError(
            f"{path}: another process is writing this file, of which this one is a fork; open a writer in each process"
        )


def _require_unchanged(storage: Storage, old: FileInfo | None) -> None:
    if old is not None and not is_unchanged(storage, old):
        raise BloomParquetError(f"{old.path}: the file changed while it was processed and is left as it is; run again")


def _remove_checksums(paths: set[str]) -> None:
    """Remove Hadoop's checksum files of a local file before it changes. Without one, Hadoop reads a file unchecked;
    with a wrong one, not at all."""
    for path in paths:
        directory, name = os.path.split(path)
        try:
            os.unlink(os.path.join(directory, f".{name}.crc"))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENAMETOOLONG):
                raise


def _extended_attributes(path: str) -> list[str]:
    """The names of a file's extended attributes, if the system and the file system support them."""
    if not hasattr(os, "listxattr"):
        return []
    try:
        return os.listxattr(path)
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
        return []


def _flush_directory(path: str) -> None:
    """Make the name of the local file at `path` durable, if its directory can be flushed."""
    try:
        flush_directory(os.path.dirname(path) or ".")
    except OSError as error:
        if error.errno not in _CANNOT_FLUSH:
            raise


def _copy_through_memory(output: Output, storage: Storage, path: str, start: int, stop: int) -> None:
    while start < stop:
        buffer = bytearray(min(_COPY_BYTES, stop - start))
        storage.read_into(path, [start], [memoryview(buffer)])
        output.write(buffer)
        start += len(buffer)


def _delete_if_exists(filesystem: pyarrow.fs.FileSystem, path: str) -> None:
    with refused_paths_named(path):
        kind = filesystem.get_file_info(path).type
    if kind != pyarrow.fs.FileType.NotFound:
        filesystem.delete_file(path)
