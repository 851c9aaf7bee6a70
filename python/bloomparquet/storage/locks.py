"""Locks local files that exist only while they are locked.

A process that is killed leaves the file, but not its lock. So the next process that creates the file first removes the
old one. A forked child has the open file of its parent. When it ends, the parent's file stays, and stays locked.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO

from bloomparquet.errors import BloomParquetError, FileBusyError
from bloomparquet.storage.descriptors import create_file, open_untrusted
from bloomparquet.storage.files import LocalStorage, Storage


@contextmanager
def locked(storage: Storage, path: str) -> Iterator[None]:
    """Hold the lock of the local file `path`, which exists until the lock is released. Does nothing on other storage.

    Raises FileBusyError if it is held already.
    """
    if not isinstance(storage, LocalStorage):
        yield
        return
    file, owner = None, os.getpid()
    try:
        file = create_locked(path, 0o600)
        yield
    finally:
        try:
            close_and_remove(file, path, owner)
        except BaseException:  # an interrupt may have come before the file was removed
            close_and_remove(file, path, owner)
            raise


def create_locked(path: str, mode: int) -> FileIO:
    """Create and lock the file at `path`, after removing what a killed process has left there.

    Raises FileBusyError if another process or thread has locked it.
    """
    while True:
        try:
            file, is_new = create_file(path, mode), True
        except FileExistsError:
            try:
                file, is_new = _open_existing(path), False
            except FileNotFoundError:
                continue
        try:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise _not_a_file(path)
            if not _lock(file.fileno()):
                raise FileBusyError(f"{path}: another process is writing this file; wait until it is done")
            if _is_at(file.fileno(), path):
                if is_new:
                    return file  # with no call in between, at which an interrupt would leave the file locked
                os.unlink(path)
        except BaseException:
            file.close()
            raise
        file.close()


def _open_existing(path: str) -> FileIO:
    try:
        try:
            return open_untrusted(path, os.O_RDWR)  # network file systems lock only files opened for writing
        except PermissionError:  # a killed writer has given it the mode of the read-only file that it was to replace
            return open_untrusted(path)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise
        raise _not_a_file(path) from error


def _not_a_file(path: str) -> BloomParquetError:
    return BloomParquetError(
        f"{path}: this is not a regular file, but its name is needed for a temporary one; remove it"
    )


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(descriptor: int, path: str) -> bool:
    """Whether `path` still names the open file: it may have been renamed or removed before it was locked."""
    try:
        current = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(current, os.fstat(descriptor))


def close_and_remove(file: FileIO | None, path: str, owner: int) -> None:
    """Close the file. The process `owner`, which has created it, also removes it, unless `path` names another file by
    now. If creating the file (None) or removing it was interrupted, a file that nobody locks is removed."""
    if file is None or file.closed:
        remove_unlocked(path)
    else:
        try:
            if os.getpid() == owner and _is_at(file.fileno(), path):
                os.unlink(path)
        finally:
            file.close()


def remove_unlocked(path: str) -> None:
    """Remove the file that a killed or interrupted process has left at `path`, unless it is locked."""
    if os.path.lexists(path):
        with suppress(BloomParquetError, OSError):
            close_and_remove(create_locked(path, 0o600), path, os.getpid())
