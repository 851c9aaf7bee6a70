"""The end of a local file, changed where it lies: fewer bytes to write than a new file takes, at the price of a moment
in which the file is neither the old nor the new one.

The new end is shorter. What it overwrites, and it itself, are first saved beside the file, complete and on the disk,
before anything changes; then it is written, and, when it is on the disk, the file is cut off behind it. Whoever comes
next, if that was interrupted, puts back what was overwritten, if what is there is a mixture of the two: a file that
somebody else has put there meanwhile is not touched. Readers do not know of the saved copy: none may read the file
meanwhile.
"""

from __future__ import annotations

import os
import struct
import warnings
from io import FileIO

import numpy as np
import xxhash

from bloomparquet.errors import BloomParquetError
from bloomparquet.storage.atomic import beside, flush_directory, forget_checksum, locked
from bloomparquet.storage.files import FileInfo

_SUFFIX = ".bloomparquet-tail"
_HEADER = struct.Struct("<8sQQQQ")
"""Magic, size of the old file, where the new end begins in it and its bytes, XXH64 of what is saved."""
_MAGIC = b"BLOOMTL3"


def saved_name(path: str) -> str:
    """Where the end of the file at `path` is saved while it changes."""
    return beside(path, _SUFFIX)


def replace_tail(file: FileInfo, cut: int, tail: tuple[bytes, ...]) -> None:
    """Let the local `file` end, from byte `cut` on, with `tail`, which makes it shorter.

    Raises BloomParquetError where the file is no longer the one that was listed, or somebody else is changing it.
    """
    path = os.path.realpath(file.path)
    new = b"".join(tail)
    end = cut + len(new)
    assert end < file.size
    failure: BaseException | None = None
    with locked(saved_name(path), keep=True) as saved, open(path, "r+b", buffering=0) as target:
        now = FileInfo.of(file.path, os.fstat(target.fileno()))
        if os.fstat(saved).st_size or now != file:
            raise BloomParquetError(f"{path}: the file changed while it was processed and is left as it is; run again")
        old = _read_all(target.fileno(), cut, end)
        try:
            _write(saved, _HEADER.pack(_MAGIC, file.size, cut, len(new), xxhash.xxh64_intdigest(old + new)))
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
            target.truncate(end)
        except BaseException as error:  # noqa: BLE001 (raised again, when nothing is left to put back)
            _put(target, cut, old)
            failure = error
        else:
            _flush_size(target, path)
    if failure is not None:
        raise failure


def _flush_size(target: FileIO, path: str) -> None:
    """The file is the new one, whole, by now; only its size may not be on the disk."""
    try:
        os.fsync(target.fileno())
    except OSError as error:
        warnings.warn(f"{path}: the file is done, but may not outlive a power failure: {error}", stacklevel=2)


def recover(path: str) -> bool:
    """Put back what was overwritten where an interrupted :func:`replace_tail` has left the local file at `path`;
    whether there was one."""
    path = os.path.realpath(path)
    name = saved_name(path)
    if not os.path.lexists(name):
        return False
    with locked(name, keep=True) as saved:
        _require_own(saved, name, path)
        data = _read_all(saved, 0, os.fstat(saved).st_size)
        if len(data) < _HEADER.size:
            return False
        magic, file_size, cut, size, check = _HEADER.unpack_from(data)
        both = data[_HEADER.size :]
        # What was not saved whole was not followed by a change.
        if magic != _MAGIC or xxhash.xxh64_intdigest(both) != check:
            return False
        old, new = both[:size], both[size:]
        with open(path, "r+b", buffering=0) as target:
            if os.fstat(target.fileno()).st_size != file_size:  # shorter when all was done
                return False
            found = _read_all(target.fileno(), cut, cut + size)
            if found == old or not _is_mixture(found, old, new):
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
    """Whether each byte is that of either, as where one was written over the other."""
    there, one, other = (np.frombuffer(each, np.uint8) for each in (found, old, new))
    return len(there) == len(one) == len(other) and bool(((there == one) | (there == other)).all())


def _put(target: FileIO, start: int, data: bytes) -> None:
    target.seek(start)
    _write(target.fileno(), data)
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
