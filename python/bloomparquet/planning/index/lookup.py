"""Finds the index of a data set, and remembers it: the same index is not opened twice, nor looked for at every plan.

An index is never needed. One that cannot be read is logged once, and plans go on without it.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from bloomparquet.planning.evidence.section_file import (
    UNUSABLE,
    DamagedFileError,
    MappedSource,
    SectionFile,
    Source,
    StoredSource,
)
from bloomparquet.planning.index.manifest import DIRECTORY, WRITER, Manifest, SegmentEntry, read_manifest, stat_manifest
from bloomparquet.storage.files import FileInfo, LocalStorage, ReadCount, Storage, open_storage
from bloomparquet.storage.ranges import in_threads

_REMEMBERED = 64
_REMOTE_SECONDS = 60.0  # how long a look at a remote storage is believed

log = logging.getLogger("bloomparquet")


@dataclass(frozen=True, eq=False)
class OpenIndex:
    """An index whose manifest was read. Compared by identity: another state of the index is another object."""

    storage: Storage
    directory: str
    root: str
    manifest: Manifest

    def open_segments(self, reads: ReadCount) -> list[SectionFile]:
        """The segments that can be used; the others are logged."""

        def open_segment(entry: SegmentEntry) -> SectionFile | None:
            path, count = f"{self.directory}/{entry.name}", ReadCount()
            try:
                return SectionFile(_source(self.storage, path, entry.bytes), WRITER, count)
            except UNUSABLE as error:
                log.warning("%s; the files of this part of the index are read without it", _text(path, error))
                return None
            finally:
                counts.append(count)

        counts: list[ReadCount] = []
        opened = list(in_threads(self.storage.threads, open_segment, self.manifest.segments))
        reads.requests += sum(count.requests for count in counts)
        reads.bytes += sum(count.bytes for count in counts)
        return [segment for segment in opened if segment is not None]


@dataclass(frozen=True, slots=True)
class _Seen:
    """The result of a look: the manifest's file, None if there was none; what it opened; why it cannot be used; and the
    files of its segments, if they are local."""

    file: FileInfo | None
    opened: OpenIndex | None
    problem: str | None
    segments: tuple[FileInfo | None, ...] = ()


_seen: OrderedDict[tuple[Hashable, str, str], tuple[_Seen, float]] = OrderedDict()  # the last look, and its time
_lock = threading.Lock()


def index_root(files: Sequence[FileInfo]) -> str:
    """The directory of `files`, in which their index is: with a slash, or ``""`` for the current directory."""
    root = data_root(files)
    return root + "/" if root or files[0].path.startswith("/") else ""


def data_root(files: Sequence[FileInfo]) -> str:
    """The deepest directory that holds all of `files` and lies above partition directories, without a slash."""
    paths = [file.path for file in files]
    pairs = zip(min(paths).split("/")[:-1], max(paths).split("/")[:-1], strict=False)
    return "/".join(name for name, _ in takewhile(lambda pair: pair[0] == pair[1] and "=" not in pair[0], pairs))


def find_index(storage: Storage, files: Sequence[FileInfo], location: str, reads: ReadCount) -> OpenIndex | None:
    """The index of `files`, which are on `storage`: with ``"auto"`` as `location` the one beside them, with ``"off"``
    none, or the one in that directory. None if there is none, or if it cannot be used."""
    if not files or location == "off":
        return None
    root = index_root(files)
    directory = root + DIRECTORY
    if location != "auto":
        storage, directory = open_storage(location)
    directory = directory.rstrip("/")
    key = storage.key, directory, root
    with _lock:
        last, at = _seen.get(key, (None, 0.0))
    if last is not None and not isinstance(storage, LocalStorage) and time.monotonic() - at < _REMOTE_SECONDS:
        return last.opened
    seen = _look(storage, directory, root, reads, last)
    if seen.problem is not None and (last is None or seen.problem != last.problem):
        log.warning("%s; plans do not use the index", seen.problem)
    with _lock:
        _seen[key] = seen, time.monotonic()
        _seen.move_to_end(key)
        while len(_seen) > _REMEMBERED:
            _seen.popitem(last=False)
    return seen.opened


def _look(storage: Storage, directory: str, root: str, reads: ReadCount, last: _Seen | None) -> _Seen:
    """The index in `directory` as it is now: the `last` one, if its files did not change."""
    file = None
    try:
        file = stat_manifest(storage, directory, reads)
        is_same = last is not None and file == last.file and (file is not None or last.problem is None)
        # Also compare the segments: to read a map of a file that became shorter would kill the process.
        if last is not None and is_same and (last.opened is None or _segment_files(last.opened) == last.segments):
            return last
        opened = None if file is None else _open(storage, directory, root, reads)
        return _Seen(file, opened, None, () if opened is None else _segment_files(opened))
    except UNUSABLE as error:
        # Another error may be gone at the next look.
        return _Seen(file if isinstance(error, DamagedFileError) else None, None, _text(directory, error))


def _segment_files(index: OpenIndex) -> tuple[FileInfo | None, ...]:
    """The files of the segments as they are now, None for a missing one; nothing on a remote storage."""
    if not isinstance(index.storage, LocalStorage):
        return ()
    files: list[FileInfo | None] = []
    for entry in index.manifest.segments:
        path = f"{index.directory}/{entry.name}"
        try:
            files.append(FileInfo.of(path, os.stat(path)))
        except OSError:
            files.append(None)
    return tuple(files)


def forget_indexes() -> None:
    """Look for every index again."""
    with _lock:
        _seen.clear()


def _open(storage: Storage, directory: str, root: str, reads: ReadCount) -> OpenIndex | None:
    read = read_manifest(storage, directory, reads)
    if read is None:
        return None
    _, manifest = read
    covered = manifest.root if manifest.root is not None else directory[: directory.rfind("/") + 1]
    below, above = root, covered
    if isinstance(storage, LocalStorage):  # the same directory may be named in several ways
        below, above = (os.path.join(os.path.abspath(path), "") for path in (root, covered))
    if not below.startswith(above):
        raise DamagedFileError(f"{directory}: an index of the files below {covered}; expected files below {root}")
    inner = below[len(above) :]
    return OpenIndex(storage, directory, root.removesuffix(inner) if root.endswith(inner) else above, manifest)


def _source(storage: Storage, path: str, size: int) -> Source:
    if isinstance(storage, LocalStorage):
        source = MappedSource(path, private=False)
        if source.size != size:
            raise DamagedFileError(f"{path}: it has {source.size} bytes; expected {size}")
        return source
    return StoredSource(storage, path, size)


def _text(path: str, error: Exception) -> str:
    text = str(error)
    return text if path in text else f"{path}: {text}"
