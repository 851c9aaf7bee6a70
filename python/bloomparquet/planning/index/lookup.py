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

log = logging.getLogger("bloomparquet.index")


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


@dataclass(slots=True)
class _Seen:
    """The result of the last look: the manifest's file, None if there was none, and what it opened."""

    file: FileInfo | None
    opened: OpenIndex | None
    at: float


_seen: OrderedDict[tuple[Hashable, str, str], _Seen] = OrderedDict()
_lock = threading.Lock()


def data_root(files: Sequence[FileInfo]) -> str:
    """The deepest directory that holds all of `files` and lies above partition directories, with a slash at its end;
    ``""`` for the working directory."""
    paths = [file.path for file in files]
    pairs = zip(min(paths).split("/")[:-1], max(paths).split("/")[:-1], strict=False)
    return "".join(f"{name}/" for name, _ in takewhile(lambda pair: pair[0] == pair[1] and "=" not in pair[0], pairs))


def find_index(storage: Storage, files: Sequence[FileInfo], location: str, reads: ReadCount) -> OpenIndex | None:
    """The index of `files`, which are on `storage`: with ``"auto"`` as `location` the one beside them, with ``"off"``
    none, or the one in that directory. None if there is none, or if it cannot be used."""
    if not files or location == "off":
        return None
    root = data_root(files)
    directory, has_local_data = f"{root}{DIRECTORY}", isinstance(storage, LocalStorage)
    if location != "auto":
        storage, directory = open_storage(location)
    directory = directory.rstrip("/")
    key = storage.key, directory, root
    is_local = isinstance(storage, LocalStorage)
    with _lock:
        seen = _seen.get(key)
    if seen is not None and not is_local and time.monotonic() - seen.at < _REMOTE_SECONDS:
        return seen.opened
    try:
        file = stat_manifest(storage, directory, reads)
        if file is None and location != "auto" and (seen is None or seen.file is not None):
            log.warning("%s: there is no index here; plans do not use one", directory)
        if seen is None or file != seen.file:
            seen = _Seen(file, None if file is None else _open(storage, directory, root, has_local_data, reads), 0.0)
    except UNUSABLE as error:
        if seen is None or seen.opened is not None:
            log.warning("%s; plans do not use the index", _text(directory, error))
        seen = _Seen(None, None, 0.0)
    seen.at = time.monotonic()
    with _lock:
        _seen[key] = seen
        _seen.move_to_end(key)
        while len(_seen) > _REMEMBERED:
            _seen.popitem(last=False)
    return seen.opened


def forget_indexes() -> None:
    """Look for every index again."""
    with _lock:
        _seen.clear()


def _open(storage: Storage, directory: str, root: str, has_local_data: bool, reads: ReadCount) -> OpenIndex | None:
    read = read_manifest(storage, directory, reads)
    if read is None:
        return None
    _, manifest = read
    covered, wanted = manifest.root if manifest.root is not None else directory[: directory.rfind("/") + 1], root
    if has_local_data:
        covered, wanted = absolute(covered), absolute(root)
    below = wanted[len(covered) :]
    if not wanted.startswith(covered) or not root.endswith(below):
        raise DamagedFileError(f"{directory}: an index of the files below {covered}; expected files below {wanted}")
    return OpenIndex(storage, directory, root[: len(root) - len(below)], manifest)


def absolute(root: str) -> str:
    """A local directory with a slash at its end, whatever the working directory."""
    return os.path.join(os.path.abspath(root), "")


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
