"""The end of a local file, changed where it lies: fewer bytes to write than a new file takes, at the price of a moment
in which the file is neither the old nor the new one.

The old end and the new one are first saved beside the file, complete and on the disk, before anything changes; the
saved copy goes when the new end is on the disk. Whoever comes next, if that was interrupted, puts the old end back, if
what is there is a mixture of the two: a file that somebody else has put there meanwhile is not touched. Readers do not
know of the saved copy: none may read the file meanwhile.
"""

from __future__ import annotations

import os
import struct
from io import FileIO

import numpy as np
import xxhash

from bloomparquet.errors import BloomParquetError
from bloomparquet.storage import FileInfo
from bloomparquet.writing.replace import beside, flush_directory, forget_checksum, locked

_SUFFIX = ".bloomparquet-tail"
_HEADER = struct.Struct("<8sQQQQ")
"""Magic, where the ends begin in the file, bytes of the old one and of the new one, XXH64 of both together."""
_MAGIC = b"BLOOMTL2"


def saved_name(path: str) -> str:
    """Where the end of the file at `path` is saved while it changes."""
    return beside(path, _SUFFIX)


def replace_tail(file: FileInfo, cut: int, tail: tuple[bytes, ...]) -> None:
    """Let the local `file` end, from byte `cut` on, with `tail`.

    Raises BloomParquetError where the file is no longer the one that was listed, or somebody else is changing it.
    """
    path = os.path.realpath(file.path)
    new = b"".join(tail)
    failure: BaseException | None = None
    with locked(saved_name(path), keep=True) as saved, open(path, "r+b", buffering=0) as target:
        now = os.fstat(target.fileno())
        if os.fstat(saved).st_size or (now.st_size, now.st_mtime_ns) != (file.size, file.mtime_ns):
            raise BloomParquetError(f"{path}: the file changed while it was processed and is left as it is; run again")
        old = _read_all(target.fileno(), cut, file.size)
        try:
            _write(saved, _HEADER.pack(_MAGIC, cut, len(old), len(new), xxhash.xxh64_intdigest(old + new)))
            _write(saved, old)
            _write(saved, new)
            os.fsync(saved)
            flush_directory(path)
        except BaseException:
            os.ftruncate(saved, 0)  # nothing has changed that it would be needed for
            raise
        forget_checksum(file.path)
        try:
            _put(target, cut, new)
        except BaseException as error:  # noqa: BLE001 (raised again, when nothing is left to put back)
            _put(target, cut, old)
            failure = error
    if failure is not None:
        raise failure


def recover(path: str) -> bool:
    """Put the old end back where an interrupted :func:`replace_tail` has left the local file at `path`; whether there
    was one."""
    path = os.path.realpath(path)
    name = saved_name(path)
    if not os.path.lexists(name):
        return False
    with locked(name, keep=True) as saved:
        _require_own(saved, name, path)
        data = _read_all(saved, 0, os.fstat(saved).st_size)
        if len(data) < _HEADER.size:
            return False
        magic, cut, size, _, check = _HEADER.unpack_from(data)
        ends = data[_HEADER.size :]
        # What was not saved whole was not followed by a change.
        if magic != _MAGIC or xxhash.xxh64_intdigest(ends) != check:
            return False
        old, new = ends[:size], ends[size:]
        with open(path, "r+b", buffering=0) as target:
            found = _read_all(target.fileno(), cut, os.fstat(target.fileno()).st_size)
            if found in (old, new) or not _is_mixture(found, old, new):
                return False
            _put(target, cut, old)
        return True


def _require_own(saved: int, name: str, path: str) -> None:
    """BloomParquetError where somebody else may have written what is saved: who may make files in a directory may not
    change those of others in it."""
    found = os.fstat(saved)
    if found.st_uid not in (os.geteuid(), os.stat(path).st_uid) or found.st_mode & 0o022:
        raise BloomParquetError(f"{name}: user {found.st_uid} has put this file here, so it is not used; remove it")


def _is_mixture(found: bytes, old: bytes, new: bytes) -> bool:
    """Whether `found` can be what is left of replacing one of the ends by the other: each byte is that of either, and
    where only the longer has one, perhaps not yet written."""
    short, long = sorted((old, new), key=len)
    if not len(short) <= len(found) <= len(long):
        return False
    there, one, other = (np.frombuffer(each, np.uint8) for each in (found, short, long))
    both, rest = there[: len(one)], there[len(one) :]
    is_either = (both == one) | (both == other[: len(one)])
    return bool(is_either.all() and ((rest == other[len(one) : len(there)]) | (rest == 0)).all())


def _put(target: FileIO, cut: int, tail: bytes) -> None:
    target.seek(cut)
    _write(target.fileno(), tail)
    target.truncate()
    os.fsync(target.fileno())


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _read_all(descriptor: int, start: int, stop: int) -> bytes:
    """The bytes from `start` to `stop`, or to where the file ends."""
    parts = []
    while start < stop and (part := os.pread(descriptor, stop - start, start)):
        parts.append(part)
        start += len(part)
    return b"".join(parts)
