"""Whether a file still is the one that was listed: the check that every reader makes after it has read a file.

A file is the same while its path, size and modification time, and on local file systems its inode and change time, are
those of its listing. Looking after the read suffices: a file that is unchanged then was so before.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterable, Iterator
from typing import TypeVar

from bloomparquet.errors import FileChangedError
from bloomparquet.storage.files import FileInfo, LocalStorage, Storage

T = TypeVar("T")

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_MILLISECOND, _SECOND = 10**6, 10**9  # in nanoseconds


def are_unchanged(storage: Storage, files: Iterable[FileInfo]) -> list[bool]:
    """Which of `files` are still the listed ones, as far as that is known without requests to a remote storage.

    What was read of them in the meantime may then be cached. A file without a modification time may not.
    """
    local = isinstance(storage, LocalStorage)
    return [file.mtime_ns > 0 and (not local or is_unchanged(storage, file)) for file in files]


def changed_files(storage: Storage, files: Iterable[FileInfo]) -> list[bool]:
    """Which of `files` are known to have changed since they were listed, without requests to a remote storage."""
    if isinstance(storage, LocalStorage):
        return [not is_unchanged(storage, file) for file in files]
    return [False for _ in files]


def is_unchanged(storage: Storage, file: FileInfo) -> bool:
    """Whether `file` is still the listed one. One request where the storage is remote."""
    return _same(storage, file, _now(storage, file.path))


def require_unchanged(storage: Storage, file: FileInfo) -> None:
    """Raise :class:`FileChangedError` unless `file` is still the listed one. One request where the storage is
    remote."""
    now = _now(storage, file.path)
    if not _same(storage, file, now):
        raise FileChangedError(
            f"{file.path}: the file changed since it was listed: expected {_shown(file)}, found "
            f"{'no file' if now is None else _shown(now)}; rows may be missing from what was read of it: list it and "
            "read it again"
        )


def checked(storage: Storage, file: FileInfo, items: Iterator[T]) -> Iterator[T]:
    """`items`, which are read from `file`; then raise :class:`FileChangedError` unless it is still the listed one.

    An error of the read is replaced by that error too: it is about another file than the one that was planned. That the
    file is not there passes as it is.
    """
    try:
        yield from items
    except FileNotFoundError:
        raise
    except Exception:
        require_unchanged(storage, file)
        raise
    require_unchanged(storage, file)


def _now(storage: Storage, path: str) -> FileInfo | None:
    try:
        if isinstance(storage, LocalStorage):
            return FileInfo.of(path, os.stat(path))
        (now,) = storage.list_files(path, recursive=False)
    except (OSError, ValueError):  # gone, or a directory by now
        return None
    return now


def _same(storage: Storage, file: FileInfo, now: FileInfo | None) -> bool:
    if now is None or now == file:
        return now is not None
    if now.size != file.size or file.inode:
        return False
    # Hadoop lists milliseconds. Object stores may list milliseconds, and tell seconds of a single object.
    unit = _MILLISECOND if isinstance(storage, LocalStorage) else _SECOND
    times = now.mtime_ns, file.mtime_ns
    is_coarse = any(time % unit == 0 for time in times)
    return times[0] == times[1] or (is_coarse and times[0] // unit == times[1] // unit)


def _shown(file: FileInfo) -> str:
    parts = [f"{file.size} bytes", f"modified {_time(file.mtime_ns)}"]
    if file.inode:
        parts += [f"inode {file.inode}", f"changed {_time(file.ctime_ns)}"]
    return ", ".join(parts)


def _time(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, _SECOND)
    try:
        shown = _EPOCH + dt.timedelta(seconds=seconds)
    except OverflowError:
        return f"{nanoseconds} ns after 1970"
    return f"{shown:%Y-%m-%dT%H:%M:%S}.{rest:09}Z"
