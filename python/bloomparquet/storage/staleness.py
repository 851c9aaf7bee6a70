"""Checks whether a file is still the one that was listed. Every reader checks what it has read.

A file is unchanged while its path, size and modification time are those of its listing, and on local file systems its
inode and change time too. One check after the read suffices: a file that is unchanged then was unchanged before.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np

from bloomparquet.errors import FileChangedError
from bloomparquet.storage.files import NEVER_CHANGES_NS, FileInfo, LocalStorage, Storage

T = TypeVar("T")

_version_of = attrgetter("st_size", "st_mtime_ns", "st_ino", "st_ctime_ns")
_MILLISECOND, _SECOND = 10**6, 10**9  # in nanoseconds
_LAST_TIME = (1 << 63) - 1  # in the year 2262: caches store times as 64 bits
_TICK = 10 * _MILLISECOND  # the longest of Linux's usual settings


def wait_for_clock(storage: Storage, files: Iterable[FileInfo]) -> None:
    """Wait until a change of any of `files` gives it another change time than the listed one. Evidence that is read
    after that is of the listed version for good, also if a file is rewritten in place in the same size.

    Linux before 6.13 stamps files with the time of the last timer tick, so two changes within a tick look like one. On
    file systems that store whole seconds, a tick is a second.
    """
    if isinstance(storage, LocalStorage):
        now = time.time_ns()
        ticks = ((file.ctime_ns, _TICK if file.ctime_ns % _SECOND else _SECOND) for file in files)
        # A time in the future is of another machine's clock: how old it is, is unknown.
        left = max((changed + tick - now for changed, tick in ticks if changed <= now), default=0)
        if left > 0:
            time.sleep(left / _SECOND)


def may_be_cached(file: FileInfo) -> bool:
    """Whether what was read of `file` may be cached: every later use compares size and time with its listing. A file
    without a modification time, or with one after 2262, may not be cached."""
    return file.mtime_ns == NEVER_CHANGES_NS or 0 < file.mtime_ns <= _LAST_TIME >= file.ctime_ns


def changed_files(storage: Storage, files: Sequence[FileInfo]) -> list[bool]:
    """For each of `files`, whether it is known to have changed. Makes no request to a remote storage."""
    if not isinstance(storage, LocalStorage):
        return [False] * len(files)
    try:
        now = local_versions(file.path for file in files)
    except (OSError, ValueError):  # a file is gone
        return [not is_unchanged(storage, file) for file in files]
    return [
        version != file[1:] and not are_same(storage, file, FileInfo(file.path, *version))
        for file, version in zip(files, now, strict=True)
    ]


def local_versions(paths: Iterable[str]) -> list[tuple[int, int, int, int]]:
    """The present sizes, modification times, inodes and change times of local files, as :class:`FileInfo` has them.

    Raises the ``OSError`` of the first file that cannot be found.
    """
    # This runs for every file of every plan, so no bytecode does.
    return list(map(_version_of, map(os.stat, paths)))


def is_unchanged(storage: Storage, file: FileInfo) -> bool:
    """Whether `file` still is the listed one. Makes one request if the storage is remote."""
    if isinstance(storage, LocalStorage):
        # A plan asks this for every file: decide the usual case without making a FileInfo.
        try:
            now = os.stat(file.path)
        except (OSError, ValueError):
            return False
        path, size, mtime, inode, ctime = file
        if now.st_ctime_ns == ctime and now.st_mtime_ns == mtime and now.st_ino == inode and now.st_size == size:
            return True
        return are_same(storage, file, FileInfo.of(path, now))
    return are_same(storage, file, _current(storage, file.path))


def require_unchanged(storage: Storage, file: FileInfo) -> None:
    """Raise FileChangedError unless `file` still is the listed one. Makes one request if the storage is remote."""
    if not is_unchanged(storage, file):
        raise _changed(file, _current(storage, file.path))


def require_unchanged_locally(storage: Storage, file: FileInfo) -> None:
    """:func:`require_unchanged` of a local file: why its bytes are not what was expected. Of a remote file, the storage
    says as it opens it that it changed."""
    if isinstance(storage, LocalStorage):
        require_unchanged(storage, file)


def require_same(storage: Storage, file: FileInfo, opened: FileInfo) -> None:
    """Raise FileChangedError unless `opened`, the version that `storage` has read, is `file`.

    An inode or a time of 0 is unknown.
    """
    has_versions = (file.inode and opened.inode) or (file.mtime_ns > 0 and opened.mtime_ns > 0)
    if opened.size != file.size or (has_versions and not are_same(storage, file, opened)):
        raise _changed(file, opened)


def _changed(file: FileInfo, current: FileInfo | None) -> FileChangedError:
    return FileChangedError(
        f"{file.path}: the file changed since it was listed: expected {_describe(file)}; found "
        f"{'no file' if current is None else _describe(current)}. Rows may be missing from what was read: list "
        "the file and read it again"
    )


def checked(
    storage: Storage, file: FileInfo, items: Iterator[T], is_last: Callable[[], bool] = lambda: True
) -> Iterator[T]:
    """Yield `items`, which are read from `file`, then raise FileChangedError if the file has changed.

    An error of the read becomes a FileChangedError too if the file has changed, except that the file is missing.
    `is_last`, which is asked after the read: whether to check now, and not after another read.
    """
    try:
        yield from items
    except FileNotFoundError:
        raise
    except Exception:
        require_unchanged(storage, file)
        raise
    if is_last():
        require_unchanged(storage, file)


def _current(storage: Storage, path: str) -> FileInfo | None:
    try:
        if isinstance(storage, LocalStorage):
            return FileInfo.of(path, os.stat(path))
        (current,) = storage.list_files(path, recursive=False)
    except (OSError, ValueError):  # deleted, or a directory by now
        return None
    return current


def are_same(storage: Storage, file: FileInfo, current: FileInfo | None) -> bool:
    """Whether `current` is the version `file`, as another listing of `storage` may report it."""
    if current is None or current == file:
        return current is not None
    if current.size != file.size or file.inode:
        return False
    # Hadoop lists milliseconds. Object stores may list milliseconds, and report seconds for a single object.
    unit = _MILLISECOND if isinstance(storage, LocalStorage) else _SECOND
    return bool(are_same_times(current.mtime_ns, file.mtime_ns, unit))


def are_same_times(one: Any, other: Any, unit: int = _SECOND) -> Any:
    """Whether two times, numbers or arrays, are the same although one may be rounded down to `unit` (nanoseconds). The
    default is for remote files."""
    is_coarse = (one % unit == 0) | (other % unit == 0)
    return (one == other) | (is_coarse & (one // unit == other // unit))


def _describe(file: FileInfo) -> str:
    parts = [f"{file.size} bytes", f"modified {_format_time(file.mtime_ns)}"]
    if file.inode:
        parts += [f"inode {file.inode}", f"changed {_format_time(file.ctime_ns)}"]
    return ", ".join(parts)


def _format_time(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, _SECOND)
    return f"{np.datetime64(seconds, 's')}.{rest:09}Z"
