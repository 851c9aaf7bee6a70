"""Finds the index of a data set, and remembers it: the same index is not opened twice, nor looked for at every plan.

An index is never needed. One that cannot be read is logged once, and plans go on without it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

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
                return SectionFile(_source(self.storage, path, entry), WRITER, count)
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
    """The result of the last look. `version` differs from that of any other manifest, and is None if there was none."""

    version: FileInfo | str | None
    opened: OpenIndex | None
    at: float


_seen: OrderedDict[tuple[Hashable, str, str], _Seen] = OrderedDict()
_lock = threading.Lock()


def find_index(storage: Storage, root: str, location: str, reads: ReadCount) -> OpenIndex | None:
    """The index of the files below the directory `root` of `storage`. `location` is ``"auto"`` for the one beside them,
    ``"off"`` for none, or its directory. None if there is none, or if it cannot be used."""
    if location == "off":
        return None
    directory = f"{root}/{DIRECTORY}"
    if location != "auto":
        storage, directory = open_storage(location)
    directory = directory.rstrip("/")
    key = storage.key, directory, root
    with _lock:
        seen = _seen.get(key)
    is_remote = not isinstance(storage, LocalStorage)
    if seen is not None and is_remote and time.monotonic() - seen.at < _REMOTE_SECONDS:
        return seen.opened
    try:
        seen = _look(storage, directory, root, seen, reads)
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


def _look(storage: Storage, directory: str, root: str, seen: _Seen | None, reads: ReadCount) -> _Seen:
    """Look for the manifest. Returns `seen` if it is the same. May raise the errors of :data:`UNUSABLE`."""
    if isinstance(storage, LocalStorage):
        version: FileInfo | str | None = stat_manifest(storage, directory)
        if seen is not None and seen.version == version:
            return seen
        manifest = None if version is None else read_manifest(storage, directory, reads)
    else:
        manifest = read_manifest(storage, directory, reads)
        version = None if manifest is None else manifest.digest
        if seen is not None and seen.version == version:
            return seen
    return _Seen(version, None if manifest is None else _open(storage, directory, root, manifest), 0.0)


def _open(storage: Storage, directory: str, root: str, manifest: Manifest) -> OpenIndex:
    covered = manifest.root if manifest.root is not None else directory.rpartition("/")[0] + "/"
    if not (root + "/").startswith(covered):
        raise DamagedFileError(f"{directory}: an index of the files below {covered}; expected files below {root}/")
    return OpenIndex(storage, directory, covered, manifest)


def _source(storage: Storage, path: str, entry: SegmentEntry) -> Source:
    if isinstance(storage, LocalStorage):
        source = MappedSource(path, private=False)
        if source.size != entry.bytes:
            raise DamagedFileError(f"{path}: it has {source.size} bytes; expected {entry.bytes}")
        return source
    return StoredSource(storage, path, entry.bytes, entry.start_bytes)


def _text(path: str, error: Exception) -> str:
    text = str(error)
    return text if path in text else f"{path}: {text}"
