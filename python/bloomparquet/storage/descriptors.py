"""Opens local files so that an interrupt leaves none of them open.

A descriptor is a number. If an interrupt comes when ``os.open`` has returned it, nobody closes it. So within one call
of C, a file object gets it.
"""

from __future__ import annotations

import errno
import os
import stat
from functools import partial
from io import FileIO

_UNTRUSTED = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def open_data(path: str) -> FileIO:
    """Open a data file for reading."""
    return FileIO(path, "rb", opener=os.open)


def create_file(path: str, mode: int) -> FileIO:
    """Create a file for reading and writing. Raises FileExistsError."""
    return FileIO(path, "x+b", opener=partial(os.open, mode=mode))


def open_untrusted(path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> FileIO:
    """Open a file whose name may belong to something else: does not follow a link, nor wait for a pipe.

    Raises ``OSError``, for a directory too. It may still be a pipe or a device.
    """
    if stat.S_ISDIR(os.lstat(path).st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    mode = "rb" if flags == os.O_RDONLY else "r+b"
    return next(map(FileIO, map(os.open, (path,), (flags | _UNTRUSTED,)), (mode,)))


class _Descriptor(int):
    """The descriptor of a directory, for which there is no FileIO. It is closed when it is dropped."""

    __del__ = property(partial(partial, os.close))  # no function of Python: an interrupt would come at its start


def flush_directory(path: str) -> None:
    """Flush the names in a directory to the disk."""
    flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)
    os.fsync(next(map(_Descriptor, map(os.open, (path,), (flags,)))))
