"""Fills buffers from an open file of pyarrow, and makes sure that all of their bytes were read."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from bloomparquet.errors import FormatError
from bloomparquet.storage.threads import in_threads

_MARKS = (0xA5, 0x5A, 0x3C)


def fill_views(
    file: pa.NativeFile,
    path: str,
    offsets: Sequence[int],
    views: Sequence[memoryview],
    threads: int = 1,
    *,
    is_native: bool,
) -> None:
    """Fill each of `views` from its offset in an open file. Raises FormatError if the file ends before, and
    OSError if the storage sends too few bytes several times.

    `is_native`: the file system is pyarrow's own. Then up to `threads` threads read, and others may read `file`
    meanwhile. fsspec counts the bytes that it reads, and is used by one thread: its memory file system may give several
    threads one file.
    """
    if not is_native:
        for offset, view in zip(offsets, views, strict=True):
            # `read` and `read_at` of pyarrow never free their memory when they fail.
            data = file.get_stream(offset, len(view)).read_buffer(len(view)).to_pybytes()
            if len(data) < len(view):
                raise ends_early(path, offset + len(data), offset + len(view))
            view[:] = data
        return
    for _ in in_threads(threads, partial(_fill, file, path), list(zip(offsets, views, strict=True))):
        pass


def _fill(file: pa.NativeFile, path: str, part: tuple[int, memoryview]) -> None:
    """Fill a view from its offset.

    pyarrow does not notice if S3 sends fewer bytes of an object than were requested, and says that it has read all of
    them. Half a filter of zeros would skip rows. So the last byte is marked, to see whether it was written.
    """
    offset, view = part
    if len(view) == 0:
        return
    for mark in _MARKS:  # the byte may be equal to one of them
        view[-1] = mark
        count = file.get_stream(offset, len(view)).readinto(view)  # a stream has a position of its own
        if count < len(view):
            raise ends_early(path, offset + count, offset + len(view))
        if view[-1] != mark:
            return
    raise OSError(  # not a FormatError: the file may be sound, so it must not be left out as corrupt
        f"{path}: the storage sent fewer than the {len(view)} bytes that were requested at byte {offset}, "
        f"{len(_MARKS)} times; expected all of them: look for a faulty proxy, and read again"
    )


def size_and_time(file: pa.NativeFile) -> tuple[int, int]:
    """The size of an open file of pyarrow's own file systems, and its modification time in nanoseconds, 0 if the file
    system has not reported it. S3 reports both when it opens a file."""
    modified = file.metadata().get("Last-Modified", b"").decode(errors="replace")
    try:
        time = dt.datetime.strptime(modified, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=dt.timezone.utc)
    except ValueError:
        return file.size(), 0
    return file.size(), int(time.timestamp()) * 10**9


def ends_early(path: str, end: int, expected: int) -> FormatError:
    """The error for a file that ends at `end` although bytes up to `expected` were to be read."""
    return FormatError(
        f"{path}: the file ends at byte {end}, but bytes up to {expected} were expected; it is truncated, or changed "
        "while it was read"
    )
