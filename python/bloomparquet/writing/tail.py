"""The end of a local file, changed where it lies: fewer bytes to write than a new file takes, at the price of a moment
in which the file is neither the old nor the new one.

What stands behind the kept bytes is first saved beside the file, complete and on the disk, before anything changes; the
saved copy goes when the new end is on the disk. Whoever comes next, if that was interrupted, puts the old end back.
Readers do not know of the saved copy: none may read the file meanwhile.
"""

from __future__ import annotations

import os
import struct
from io import FileIO

import xxhash

from bloomparquet.errors import BloomParquetError
from bloomparquet.storage import FileInfo
from bloomparquet.writing.replace import flush_directory, locked

_SUFFIX = ".bloomparquet-tail"
_HEADER = struct.Struct("<8sQQQ")  # magic, where the saved bytes begin in the file, how many, their XXH64
_MAGIC = b"BLOOMTL1"


def saved_name(path: str) -> str:
    """Where the end of the file at `path` is saved while it changes."""
    directory, slash, name = path.rpartition("/")
    return f"{directory}{slash}.{name}{_SUFFIX}"


def replace_tail(file: FileInfo, cut: int, tail: tuple[bytes, ...]) -> None:
    """Let the local `file` end, from byte `cut` on, with `tail`.

    Raises BloomParquetError where the file is no longer the one that was listed, or somebody else is changing it.
    """
    path = os.path.realpath(file.path)
    with locked(saved_name(path), keep=True) as saved, open(path, "r+b", buffering=0) as target:
        now = os.fstat(target.fileno())
        if os.fstat(saved).st_size or (now.st_size, now.st_mtime_ns) != (file.size, file.mtime_ns):
            raise BloomParquetError(f"{path}: the file changed while it was processed and is left as it is; run again")
        target.seek(cut)
        old = target.read(file.size - cut)
        _write(saved, _HEADER.pack(_MAGIC, cut, len(old), xxhash.xxh64_intdigest(old)))
        _write(saved, old)
        os.fsync(saved)
        flush_directory(path)
        try:
            _put(target, cut, tail)
        except BaseException:
            _put(target, cut, (old,))
            raise


def recover(path: str) -> bool:
    """Put the old end back where an interrupted :func:`replace_tail` has left the local file at `path`; whether there
    was one."""
    path = os.path.realpath(path)
    name = saved_name(path)
    if not os.path.lexists(name):
        return False
    with locked(name, keep=True) as saved:
        data = _read_all(saved)
        if len(data) < _HEADER.size:
            return False
        magic, cut, size, check = _HEADER.unpack_from(data)
        old = data[_HEADER.size :]
        # What was not saved whole was not followed by a change.
        if magic != _MAGIC or len(old) != size or xxhash.xxh64_intdigest(old) != check:
            return False
        with open(path, "r+b", buffering=0) as target:
            _put(target, cut, (old,))
        return True


def _put(target: FileIO, cut: int, tail: tuple[bytes, ...]) -> None:
    target.seek(cut)
    for part in tail:
        _write(target.fileno(), part)
    target.truncate()
    os.fsync(target.fileno())


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _read_all(descriptor: int) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)
    parts = []
    while part := os.read(descriptor, 1 << 20):
        parts.append(part)
    return b"".join(parts)
