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
from contextlib import contextmanager

from bloomparquet.errors import BloomParquetError, FileBusyError
from bloomparquet.storage.files import LocalStorage, Storage


@contextmanager
def locked(storage: Storage, path: str) -> Iterator[None]:
    """Hold the lock of the local file `path`, which exists until the lock is released. Does nothing on other storage.

    Raises FileBusyError if it is held already.
    """
    if not isinstance(storage, LocalStorage):
        yield
        return
    descriptor, owner = create_locked(path, 0o600), os.getpid()
    try:
        yield
    finally:
        close_and_remove(descriptor, path, owner)


def create_locked(path: str, mode: int) -> int:
    """Create and lock the file at `path`, after removing what a killed process has left there.

    Raises FileBusyError if another process or thread has locked it.
    """
    while True:
        try:
            descriptor, is_new = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), True
        except FileExistsError:
            try:
                descriptor, is_new = _open_existing(path), False
            except FileNotFoundError:
                continue
        with _closed_on_error(descriptor):
            if not _lock(descriptor):
                raise FileBusyError(f"{path}: another process is writing this file; wait until it is done")
            if _is_at(descriptor, path):
                if is_new:
                    return descriptor
                os.unlink(path)
        os.close(descriptor)


@contextmanager
def _closed_on_error(descriptor: int) -> Iterator[None]:
    """Close the file if the block raises an error: an open file stays locked until this process ends."""
    try:
        yield
    except BaseException:
        os.close(descriptor)
        raise


def _open_existing(path: str) -> int:
    flags = os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        try:
            descriptor = os.open(path, os.O_RDWR | flags)  # network file systems lock only files opened for writing
        except PermissionError:  # a killed writer has given it the mode of the read-only file that it was to replace
            descriptor = os.open(path, os.O_RDONLY | flags)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise
        raise _not_a_file(path) from error
    with _closed_on_error(descriptor):
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _not_a_file(path)
    return descriptor


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


def close_and_remove(descriptor: int, path: str, owner: int) -> None:
    """Close the file. The process `owner`, which has created it, also removes it, unless `path` names another file by
    now."""
    try:
        if os.getpid() == owner and _is_at(descriptor, path):
            os.unlink(path)
    finally:
        os.close(descriptor)
