"""Finds the index of a data set, and remembers it: no index is opened twice, or looked for at every plan.

No plan needs an index. An index that cannot be read is logged once, and plans go on without it.
"""

from __future__ import annotations

import logging
import os
import shlex
import time
from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

from bloomparquet.errors import PlanError, quoted
from bloomparquet.planning.evidence.section_file import UNUSABLE, SectionFile
from bloomparquet.planning.evidence.section_source import (
    DamagedFileError,
    MappedSource,
    OpenSource,
    Source,
    StoredSource,
)
from bloomparquet.planning.index.manifest import DIRECTORY, WRITER, Manifest, SegmentEntry, read_manifest, stat_manifest
from bloomparquet.storage.files import FileInfo, LocalStorage, ReadCount, Storage, with_scheme
from bloomparquet.storage.forks import new_lock
from bloomparquet.storage.open import open_storage
from bloomparquet.storage.options import OPTIONS, path_of
from bloomparquet.storage.threads import in_threads

_REMEMBERED = 64
_READ_BYTES = 1 << 20  # smaller local segments are read, not mapped
_REMOTE_SECONDS = 60.0  # until a remote storage is looked at again

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
                return SectionFile(_source(self.storage, path, entry), WRITER, count)
            except UNUSABLE as error:
                log.warning("%s; the files of this part of the index are read without it", _message(path, error))
                return None
            finally:
                counts.append(count)

        counts: list[ReadCount] = []
        opened = list(in_threads(self.storage.threads, open_segment, self.manifest.segments))
        for count in counts:
            reads.add(count)
        return [segment for segment in opened if segment is not None]


@dataclass(frozen=True, slots=True)
class _Lookup:
    """The result of looking for an index.

    `version` differs from that of any other manifest, and is None if there was none. `opened`: the index; `problem`:
    why it cannot be used; `segments`: their files, if they are local.
    """

    version: FileInfo | str | None
    opened: OpenIndex | None
    problem: str | None
    segments: tuple[FileInfo | None, ...] = ()


_lookups: dict[tuple[Hashable, Hashable, str, str], tuple[_Lookup, float]] = {}
"""The last lookups, and their times."""
_lock = new_lock()


class IndexDirectory(NamedTuple):
    """The `directory` of an index on a storage."""

    storage: Storage
    directory: str


def find_index(storage: Storage, root: str, location: str | IndexDirectory, reads: ReadCount) -> OpenIndex | None:
    """The index of the files below `root` of `storage`; None if there is none, or if it cannot be used.

    `root`: a directory, with a slash at its end. `location`: the directory of the index; ``"auto"`` for the one beside
    the files, or ``"off"`` for none.
    """
    if location == "off":
        return None
    data, directory, has_local_data = storage, root + DIRECTORY, isinstance(storage, LocalStorage)
    if location != "auto":
        storage, directory = open_directory(location, storage) if isinstance(location, str) else location
    directory = directory.rstrip("/")
    # The tables of an opened index read the data files by the storage of its first user.
    key = data.access, storage.access, directory, root
    with _lock:
        last, at = _lookups.get(key, (None, 0.0))
    if last is not None and not isinstance(storage, LocalStorage) and time.monotonic() - at < _REMOTE_SECONDS:
        return last.opened
    current = _look(storage, directory, root, has_local_data, reads, last)
    if current.version is None and current.problem is None and location != "auto" and (last is None or current != last):
        there = with_scheme(storage, directory)
        log.warning(
            "%s: there is no index here, so plans use none; correct index= (--index on the command line), or build it "
            "there: %s",
            directory,
            shlex.join(["bloomparquet", "index", "build", with_scheme(data, root) or ".", "--to", there]),
        )
    if current.problem is not None and (last is None or current.problem != last.problem):
        log.warning("%s; plans do not use the index", current.problem)
    with _lock:
        _lookups.pop(key, None)
        _lookups[key] = current, time.monotonic()
        while len(_lookups) > _REMEMBERED:
            del _lookups[next(iter(_lookups))]
    return current.opened


def open_directory(location: str, data: Storage, is_url: bool = True) -> IndexDirectory:
    """The storage of the index at `location`, and its directory there. It is the storage of the data if both are in one
    bucket, so that the options of the data serve the index too.

    `is_url`: whether `location` may name any storage, and options of it. Otherwise it comes from a query, so a question
    mark is part of the path. PlanError then, unless it is local or on a storage that pyarrow serves.
    """
    scheme, mark, inner = location.partition("://")
    scheme, authority = scheme.lower(), inner.partition("/")[0]
    scheme = "s3" if scheme == "s3a" else scheme
    is_native = mark and scheme in OPTIONS and "?" not in (inner if is_url else authority)
    if is_native and str(data.key).partition("?")[0] == f"{scheme}://{authority.rpartition('@')[2]}":
        return IndexDirectory(data, path_of(scheme, inner))
    if is_native and not is_url:
        return IndexDirectory(open_storage(f"{scheme}://{authority}")[0], path_of(scheme, inner))
    if not is_url and mark and scheme != "file":
        raise PlanError(
            f"option index is {quoted(location)}; expected auto, off, a local directory, or one on s3a, "
            f"{', '.join(OPTIONS)}"
        )
    return IndexDirectory(*open_storage(location))


def _look(
    storage: Storage, directory: str, root: str, has_local_data: bool, reads: ReadCount, last: _Lookup | None
) -> _Lookup:
    """Look for the index in `directory`. Returns `last` if its files did not change since."""
    version: FileInfo | str | None = None
    try:
        if isinstance(storage, LocalStorage):
            version = stat_manifest(storage, directory)
            is_same = last is not None and version == last.version and (version is not None or last.problem is None)
            # Also compare the segments: to read a map of a file that became shorter would kill the process.
            if last is not None and is_same and (last.opened is None or _segment_files(last.opened) == last.segments):
                return last
            manifest = None if version is None else read_manifest(storage, directory, reads)
        else:
            manifest = read_manifest(storage, directory, reads)
            version = None if manifest is None else manifest.digest
            if last is not None and version == last.version and last.problem is None:
                return last
        opened = None if manifest is None else _open(storage, directory, root, has_local_data, manifest)
        return _Lookup(version, opened, None, () if opened is None else _segment_files(opened))
    except UNUSABLE as error:
        # Another error may be gone at the next look.
        return _Lookup(version if isinstance(error, DamagedFileError) else None, None, _message(directory, error))


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
        _lookups.clear()


def _open(storage: Storage, directory: str, root: str, has_local_data: bool, manifest: Manifest) -> OpenIndex:
    covered, wanted = covered_root(manifest, directory), root
    if has_local_data:  # the same directory may be named in several ways
        covered, wanted = absolute_directory(covered), absolute_directory(root)
    if not wanted.startswith(covered):
        raise DamagedFileError(f"{directory}: an index of the files below {covered}; expected files below {wanted}")
    below = wanted[len(covered) :]
    return OpenIndex(storage, directory, root.removesuffix(below) if root.endswith(below) else covered, manifest)


def covered_root(manifest: Manifest, directory: str) -> str:
    """The root of the data that the index in `directory` covers, as `manifest` names it; with a slash at its end."""
    return manifest.root if manifest.root is not None else directory[: directory.rfind("/") + 1]


def absolute_directory(root: str) -> str:
    """The absolute path of the local directory `root`, with a slash at its end."""
    return os.path.join(os.path.abspath(root), "")


def _source(storage: Storage, path: str, entry: SegmentEntry) -> Source:
    if isinstance(storage, LocalStorage):
        source = MappedSource(path) if entry.bytes > _READ_BYTES else OpenSource(path)
        if source.size != entry.bytes:
            raise DamagedFileError(f"{path}: it has {source.size} bytes; expected {entry.bytes}")
        return source
    return StoredSource(storage, path, entry.bytes, entry.start_bytes)


def _message(path: str, error: Exception) -> str:
    text = str(error)
    return text if path in text else f"{path}: {text}"
