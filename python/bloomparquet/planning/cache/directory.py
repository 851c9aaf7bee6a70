"""The directory of the cache: files of sections (:mod:`bloomparquet.planning.evidence.section_file`), bounded in bytes.

Readers keep a file open when it is replaced or removed. Writers write another file and rename it. So any number of
readers and writers may work at once.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import xxhash

from bloomparquet.planning.evidence.section_file import MAGIC, Section, SectionFile, serialise
from bloomparquet.planning.evidence.section_source import DamagedFileError, OpenSource
from bloomparquet.storage.descriptors import open_untrusted

log = logging.getLogger("bloomparquet")

_SUFFIX = ".columns"
_OWN = "bloomparquet-cache"
_UNFINISHED = ".unfinished-"
_UNFINISHED_NAME = re.compile(r"\.unfinished-\d+-[0-9a-f]{16}")
_ABANDONED_SECONDS = 600.0  # no writer takes that long

_warned: set[Path] = set()


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


def open_cache_file(path: Path) -> SectionFile:
    """Open a cache file. Raises :class:`DamagedFileError` or ``OSError`` if it cannot be used."""
    source = OpenSource(os.fspath(path))
    if hasattr(os, "geteuid") and source.owner != os.geteuid():
        raise DamagedFileError(f"{path}: it belongs to another user")
    return SectionFile(source, str(code_fingerprint()), level=logging.INFO)


class CacheDirectory:
    """Cache files in the directory ``bloomparquet-cache`` of `parent`, together at most `max_bytes`.

    Removes only files with both the name and the magic of a cache file. All methods may raise ``OSError``.
    """

    def __init__(self, parent: Path, max_bytes: int) -> None:
        self.directory, self.max_bytes = parent / _OWN, max_bytes

    @contextmanager
    def errors_logged(self) -> Iterator[None]:
        """Log an ``OSError`` of the cache instead of raising it, once for each directory."""
        try:
            yield
        except OSError as error:
            if self.directory not in _warned:
                _warned.add(self.directory)
                log.warning("%s: the planner's cache cannot read or write its files here: %s", self.directory, error)

    def path(self, name: str) -> Path:
        return self.directory / (name + _SUFFIX)

    def latest(self, prefix: str, most: int) -> list[Path]:
        """The files whose names begin with `prefix`, most recently used first."""
        files = [(used, path) for used, _, path in self._scan(_SUFFIX) if path.name.startswith(prefix)]
        return [path for _, path in sorted(files, reverse=True)[:most]]

    def write(self, path: Path, sections: Mapping[str, Section]) -> bool:
        """Write or replace a file. Returns False, and writes nothing, if it alone is larger than `max_bytes`."""
        pieces, size, _ = serialise(sections, str(code_fingerprint()))
        if size > self.max_bytes:
            return False
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.evict(room=size, except_for=path)
        unfinished = self.directory / f"{_UNFINISHED}{os.getpid()}-{secrets.token_hex(8)}"
        try:
            with open(unfinished, "xb", opener=partial(os.open, mode=0o600)) as file:
                file.writelines(pieces)
            os.replace(unfinished, path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        return True

    def evict(self, room: int = 0, except_for: Path | None = None) -> None:
        """Remove the least recently used files until `room` more bytes fit, and unfinished files of killed writers.

        The file `except_for` does not count, because it will be replaced.
        """
        for written, size, path in self._scan(""):
            abandoned = abs(time.time() - written / 1e9) > _ABANDONED_SECONDS
            if abandoned and _UNFINISHED_NAME.fullmatch(path.name) and _has_magic(path, min(size, len(MAGIC))):
                path.unlink(missing_ok=True)
        files = [file for file in self._scan(_SUFFIX) if file[2] != except_for]
        total = sum(size for _, size, _ in files) + room
        for _, size, path in sorted(files):
            if total <= self.max_bytes:
                return
            if _has_magic(path, len(MAGIC)):
                path.unlink(missing_ok=True)
                total -= size

    def _scan(self, suffix: str) -> list[tuple[int, int, Path]]:
        """The files whose names end in `suffix`: when each was last used, its size, and its path."""
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
    try:
        with open_untrusted(path) as file:
            return stat.S_ISREG(os.fstat(file.fileno()).st_mode) and file.read(size) == MAGIC[:size]
    except OSError:  # gone, a symbolic link, or not readable: none of ours
        return False
