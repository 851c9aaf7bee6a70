"""A directory of cache files: named arrays, written atomically, and used only if their checksums match.

A file holds *sections*, groups of arrays that are used together. Each section has its own checksum, so that a reader
checks and pages in only what it needs. Readers map a file into memory, and keep the map when it is replaced or removed.
Writers write another file and rename it. So any number of readers and writers may work at once. A file that this
version of the code did not write counts as absent; it is not an error.

    magic (8 bytes) | format (u32) | size of the index (u32) | XXH3 of the index and the 16 bytes before (u64)
    index: JSON {"code": fingerprint, "bytes": of the file, "sections": {name: [offset, bytes, XXH3, arrays]}}
           where arrays is [[name, dtype, shape, offset in the section], …]; padded with spaces
    sections, one after another; each array begins at a multiple of 64 bytes; padding is included in the checksum

Alternatives: .npz and Arrow IPC have no sufficient checksums, and .npz and SQLite cannot be mapped.
"""

from __future__ import annotations

import functools
import json
import math
import mmap
import os
import re
import secrets
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

Section = Mapping[str, NDArray[Any]]

_MAGIC = b"BLOOMPQ\n"
_FORMAT = 1
_HEAD = 24
_ALIGN = 64
_SUFFIX = ".columns"
_OWN = "bloomparquet-cache"
_UNFINISHED = ".unfinished-"
_UNFINISHED_NAME = re.compile(r"\.unfinished-\d+-[0-9a-f]{16}")
_ABANDONED_SECONDS = 600.0  # no writer takes that long


class DamagedEntryError(Exception):
    """A cache file is damaged, or another version of the code wrote it. The cache ignores it."""


def default_directory() -> Path:
    """``$XDG_CACHE_HOME/bloomparquet``, or ``~/.cache/bloomparquet``."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification says to ignore relative paths.
    return (Path(base) if os.path.isabs(base) else Path(os.path.expanduser("~")) / ".cache") / "bloomparquet"


@functools.cache
def code_fingerprint() -> str | None:
    """A digest of this package's source. Every cache file carries it, because only the code that wrote arrays knows
    what they mean. None if the source cannot be read; then there is no cache on disk."""
    digest = xxhash.xxh3_128()
    root = Path(__file__).parents[2]
    sources = sorted(root.rglob("*.py"))
    try:
        for path in sources:
            source = path.read_bytes()
            digest.update(f"{path.relative_to(root)}\0{len(source)}\0".encode())
            digest.update(source)
    except OSError:
        return None
    return digest.hexdigest() if sources else None


class Entry:
    """An open cache file. Raises :class:`DamagedEntryError` or ``OSError`` if it cannot be used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._map = _map(path)
        head = self._map[:_HEAD]
        size = int.from_bytes(head[12:16], "little")
        if head[:8] != _MAGIC or int.from_bytes(head[8:12], "little") != _FORMAT or _HEAD + size > len(self._map):
            raise DamagedEntryError(f"{path}: not a cache file of this version")
        raw = self._map[_HEAD : _HEAD + size]
        if xxhash.xxh3_64_intdigest(head[:16] + raw) != int.from_bytes(head[16:], "little"):
            raise DamagedEntryError(f"{path}: its index is damaged")
        try:
            index = json.loads(raw)
            same_code, size = index["code"] == code_fingerprint(), index["bytes"]
            self._sections: dict[str, Any] = index["sections"]
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedEntryError(f"{path}: {error}") from error
        if not same_code or size != len(self._map):
            raise DamagedEntryError(f"{path}: written by another version of the code, or truncated")

    @property
    def sections(self) -> list[str]:
        return list(self._sections)

    def section(self, name: str) -> dict[str, NDArray[Any]]:
        """The arrays of a section, mapped and read-only. Raises :class:`DamagedEntryError`."""
        offset, size, checksum, arrays = self._sections[name]
        with memoryview(self._map) as view, view[offset : offset + size] as data:
            if xxhash.xxh3_64_intdigest(data) != checksum:
                raise DamagedEntryError(f"{self.path}: its section {name} is damaged")
        try:
            return {
                key: np.frombuffer(self._map, dtype, math.prod(shape), offset + at).reshape(shape)
                for key, dtype, shape, at in arrays
            }
        except (TypeError, ValueError) as error:
            raise DamagedEntryError(f"{self.path}: its section {name} is damaged: {error}") from error


def _map(path: Path) -> mmap.mmap:
    # Something else may have this name: opening a pipe must not block, and a link must not be followed.
    flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size < _HEAD:
            raise DamagedEntryError(f"{path}: not a cache file")
        if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
            raise DamagedEntryError(f"{path}: it belongs to another user")
        return mmap.mmap(descriptor, status.st_size, access=mmap.ACCESS_READ)
    finally:
        os.close(descriptor)


class CacheDirectory:
    """Cache files in the directory ``bloomparquet-cache`` of `parent`, together at most `max_bytes`.

    Removes only files with both the name and the magic of a cache file. All methods may raise ``OSError``.
    """

    def __init__(self, parent: Path, max_bytes: int) -> None:
        self.directory, self.max_bytes = parent / _OWN, max_bytes

    def path(self, name: str) -> Path:
        return self.directory / (name + _SUFFIX)

    def latest(self, prefix: str, most: int) -> list[Path]:
        """The files whose names begin with `prefix`, most recently used first."""
        files = [(used, path) for used, _, path in self._scan(_SUFFIX) if path.name.startswith(prefix)]
        return [path for _, path in sorted(files, reverse=True)[:most]]

    def write(self, path: Path, sections: Mapping[str, Section]) -> bool:
        """Write or replace a file. Returns False, and writes nothing, if it alone is larger than `max_bytes`."""
        pieces, size = _serialise(sections)
        if size > self.max_bytes:
            return False
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.evict(room=size, except_for=path)
        unfinished = self.directory / f"{_UNFINISHED}{os.getpid()}-{secrets.token_hex(8)}"
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            with open(descriptor, "wb") as file:
                file.writelines(pieces)
            os.replace(unfinished, path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        return True

    def remove(self, path: Path) -> bool:
        """Remove `path` if it is a cache file. Returns whether it is one."""
        is_ours = path.name.endswith(_SUFFIX) and _has_magic(path, len(_MAGIC))
        if is_ours:
            path.unlink(missing_ok=True)
        return is_ours

    def evict(self, room: int = 0, except_for: Path | None = None) -> None:
        """Remove the least recently used files until `room` more bytes fit, and unfinished files of killed writers.

        The file `except_for` does not count, because it will be replaced.
        """
        for written, size, path in self._scan(""):
            abandoned = abs(time.time() - written / 1e9) > _ABANDONED_SECONDS
            if abandoned and _UNFINISHED_NAME.fullmatch(path.name) and _has_magic(path, min(size, len(_MAGIC))):
                path.unlink(missing_ok=True)
        files = [file for file in self._scan(_SUFFIX) if file[2] != except_for]
        total = sum(size for _, size, _ in files) + room
        for _, size, path in sorted(files):
            if total <= self.max_bytes:
                return
            if self.remove(path) or not os.path.lexists(path):  # another process may have been faster
                total -= size

    def _scan(self, suffix: str) -> list[tuple[int, int, Path]]:
        """When each file whose name ends in `suffix` was last used, its size, and its path."""
        files = []
        with suppress(FileNotFoundError), os.scandir(self.directory) as entries:  # it may not be there yet
            for entry in entries:
                if entry.name.endswith(suffix):
                    with suppress(FileNotFoundError):  # another process was faster
                        status = entry.stat(follow_symlinks=False)
                        if not stat.S_ISDIR(status.st_mode):
                            files.append((status.st_mtime_ns, status.st_size, Path(entry.path)))
        return files


def _has_magic(path: Path, size: int) -> bool:
    """Whether the first `size` bytes of a regular file are those of a cache file."""
    flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags)
    except OSError:  # gone, a symbolic link, or not readable: none of ours
        return False
    with open(descriptor, "rb") as file:
        return stat.S_ISREG(os.fstat(descriptor).st_mode) and file.read(size) == _MAGIC[:size]


def _serialise(sections: Mapping[str, Section]) -> tuple[list[bytes | memoryview], int]:
    """The contents of a file in pieces, and its size."""
    plans = {
        name: [(key, np.ascontiguousarray(array)) for key, array in section.items()]
        for name, section in sections.items()
    }
    sizes = {name: sum(_padded(array.nbytes) for _, array in arrays) for name, arrays in plans.items()}
    body: list[bytes | memoryview] = []
    described: dict[str, Any] = {}
    for name, arrays in plans.items():
        digest, at, layout = xxhash.xxh3_64(), 0, []
        for key, array in arrays:
            layout.append([key, array.dtype.newbyteorder("<").str, list(array.shape), at])
            for piece in (array.reshape(-1).view(np.uint8).data, bytes(_padded(array.nbytes) - array.nbytes)):
                digest.update(piece)
                body.append(piece)
            at += _padded(array.nbytes)
        described[name] = [0, sizes[name], digest.intdigest(), layout]
    total = sum(sizes.values())
    # The offsets of sections depend on the size of the index, which depends on the digits of the offsets: leave room.
    room = _padded(_HEAD + len(_index(described, 0, 0)) + 24 * (len(described) + 1))
    index = _index(described, room, total).ljust(room - _HEAD)
    head = _MAGIC + _FORMAT.to_bytes(4, "little") + len(index).to_bytes(4, "little")
    checksum = xxhash.xxh3_64_intdigest(head + index).to_bytes(8, "little")
    return [head, checksum, index, *body], room + total


def _index(described: Mapping[str, list[Any]], first: int, total: int) -> bytes:
    at, sections = first, {}
    for name, (_, size, checksum, arrays) in described.items():
        sections[name] = [at, size, checksum, arrays]
        at += size
    return json.dumps({"code": code_fingerprint(), "bytes": first + total, "sections": sections}).encode()


def _padded(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN
