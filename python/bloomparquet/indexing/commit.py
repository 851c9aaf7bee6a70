"""Puts a new index in place of an old one, and removes the segments that no index needs.

On a local file system, one build of an index runs at a time. A lock says so, which the kernel releases if the process
is killed. So every segment that the manifest does not name is a leftover.

Object stores have no locks. There, a build is committed only if the manifest is still the one that it began with, and
all its segments are there: the first of two builds wins. Segments that no manifest names are removed when they are a
day old, because another build may still be writing them. The segments of the index before stay until the next build,
for builds and plans that have read its manifest.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple

import pyarrow.fs

from bloomparquet.errors import BloomParquetError, FileBusyError
from bloomparquet.indexing.columns import IndexColumns
from bloomparquet.indexing.segment import Target
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.evidence.section_source import DamagedFileError
from bloomparquet.planning.index.lookup import forget_indexes
from bloomparquet.planning.index.manifest import (
    DIRECTORY,
    MANIFEST,
    SEGMENT_SUFFIX,
    Manifest,
    SegmentEntry,
    is_segment_name,
    read_manifest,
)
from bloomparquet.storage.atomic import (
    delete_file,
    remove_leftover,
    replacing,
    require_object_store,
    temporary_name,
)
from bloomparquet.storage.files import LocalStorage, ReadCount
from bloomparquet.storage.locks import locked

_LOCK = ".building"
_ABANDONED_SECONDS = 24 * 3600.0  # no build takes that long to write a segment and to commit it
_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS}


class _SegmentFile(NamedTuple):
    """A segment as it was listed. `mtime_ns` is None for local files."""

    name: str
    path: str
    mtime_ns: int | None


class Build:
    """A build, a refresh or a drop that has begun. `former` is the index before it, None if there was none."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._is_local = isinstance(target.storage, LocalStorage)
        self._manifest = f"{target.directory}/{MANIFEST}"
        self.former, self._state = self._read()

    def commit(
        self, file_format: FileFormat, root: str | None, columns: IndexColumns, segments: Sequence[SegmentEntry]
    ) -> Manifest:
        """Make `segments` the index.

        Raises FileBusyError if another build was faster, and BloomParquetError if segments are gone.
        """
        self._require_current(segments)
        manifest = Manifest(file_format, root, columns.to_json(), tuple(segments))
        with replacing(self._target.storage, self._manifest) as output:
            output.write(manifest.to_bytes())
            output.commit()
        with suppress(OSError):  # the next build tries again
            self._remove_leftovers(segments if self._is_local else (*segments, *self._former_segments))
        forget_indexes()
        return manifest

    def drop(self) -> bool:
        """Delete the index, and the segments of builds that are running: these builds notice. Returns whether there was
        an index."""
        storage, existed = self._target.storage, False
        with suppress(FileNotFoundError):
            delete_file(storage, self._manifest)  # first: a manifest must not name segments that are gone
            existed = True
        remove_leftover(storage, self._manifest)
        for info in self._segment_files():
            self._remove(info)
        forget_indexes()
        return existed

    def abandon(self) -> None:
        """Remove the segments that this build has written, unless they were committed."""
        with suppress(OSError):
            committed, _ = self._read()
            self._remove_leftovers((*self._former_segments, *([] if committed is None else committed.segments)))

    def _remove_leftovers(self, keep: Iterable[SegmentEntry]) -> None:
        """Delete the segments that are not to `keep`, and that no other build may need."""
        names = {segment.name for segment in keep}
        oldest = (time.time() - _ABANDONED_SECONDS) * 1e9
        for info in self._segment_files():
            is_own = info.name.lstrip("._").startswith(self._target.build)
            is_abandoned = info.mtime_ns is not None and info.mtime_ns < oldest
            if info.name not in names and (self._is_local or is_own or is_abandoned):
                self._remove(info)

    @property
    def _former_segments(self) -> tuple[SegmentEntry, ...]:
        return () if self.former is None else self.former.segments

    def _read(self) -> tuple[Manifest | None, str]:
        """The manifest as it is now, and a text that differs when another build has changed it."""
        try:
            manifest = read_manifest(self._target.storage, self._target.directory, ReadCount())
        except DamagedFileError as error:
            return None, str(error)
        return manifest, "" if manifest is None else manifest.digest

    def _require_current(self, segments: Sequence[SegmentEntry]) -> None:
        directory = self._target.directory
        if self._read()[1] != self._state:
            raise FileBusyError(
                f"{directory}: another build, refresh or drop of this index has ended while this one ran; the index is "
                "left as that one made it. Run again if it is not the index that you want"
            )
        present = {info.name for info in self._segment_files()}
        gone = [segment.name for segment in segments if segment.name not in present]
        if gone:
            raise BloomParquetError(
                f"{directory}: {len(gone)} of {len(segments)} segments of the new index are not there, such as "
                f"{gone[0]}. Another process has removed them, or an executor wrote to a directory of its own machine. "
                "The index is left as it was. Run again, with a directory that all machines share"
            )

    def _segment_files(self) -> list[_SegmentFile]:
        """All segments in the directory, with those that are being written."""
        directory, files = self._target.directory, list[_SegmentFile]()
        if self._is_local:  # by os, because pyarrow takes no names that are not UTF-8
            with suppress(FileNotFoundError), os.scandir(directory) as entries:
                files = [_SegmentFile(entry.name, entry.path, None) for entry in entries if entry.is_file()]
        else:
            selector = pyarrow.fs.FileSelector(directory, allow_not_found=True)
            listed = self._target.storage.filesystem.get_file_info(selector)
            files = [_SegmentFile(info.base_name, info.path, info.mtime_ns) for info in listed if info.is_file]
        return [file for file in files if _is_segment(file.name)]

    def _remove(self, info: _SegmentFile) -> None:
        with suppress(OSError):  # another build may have removed it; and nobody reads it
            delete_file(self._target.storage, info.path)


@contextmanager
def begin_build(target: Target) -> Iterator[Build]:
    """Begin a build. If the block raises an error, what the build has written is removed.

    Raises FileBusyError if another build runs, as far as the storage can tell, UnsupportedError if the storage cannot
    replace a file in one step, and ``OSError`` if nothing can be written in the directory.
    """
    if not isinstance(target.storage, LocalStorage):
        require_object_store(target.storage.filesystem, target.directory)
    with _refusals_explained(target.directory), _locked_directory(target):
        build = Build(target)
        try:
            yield build
        except BaseException:
            build.abandon()
            raise


@contextmanager
def _locked_directory(target: Target) -> Iterator[None]:
    """Hold the lock of a local index. Its directory is created if it is missing.

    Afterwards an empty directory is removed if it was created here, or has the name that this package gives. Any other
    directory is the user's: removing it would lose its mode, owner and access rights.
    """
    if not isinstance(target.storage, LocalStorage):
        yield
        return
    directory = target.directory
    is_ours = os.path.basename(directory) == DIRECTORY or not os.path.isdir(directory)
    os.makedirs(directory, exist_ok=True)
    try:
        with ExitStack() as stack:
            try:
                stack.enter_context(locked(target.storage, f"{directory}/{_LOCK}"))
            except (FileBusyError, FileNotFoundError) as error:  # or it has removed the empty directory
                raise FileBusyError(
                    f"{directory}: another process is building, refreshing or dropping this index; wait until it is "
                    "done"
                ) from error
            yield
    finally:
        if is_ours:
            with suppress(OSError):  # it is not empty
                os.rmdir(directory)


def _is_segment(name: str) -> bool:
    """Whether a build gives this name to a segment, or to a segment that it is writing."""
    if is_segment_name(name):
        return True
    final = name.removeprefix(".").partition(SEGMENT_SUFFIX)[0] + SEGMENT_SUFFIX
    return is_segment_name(final) and name == temporary_name(final)


@contextmanager
def _refusals_explained(directory: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        text, key = str(error), directory.partition("/")[2]  # S3 names the bucket and the key one by one
        if not (error.errno in _REFUSED and directory in text) and not ("ACCESS_DENIED" in text and key in text):
            raise
        reason = error.strerror or text
        message = (
            f"{reason}; nothing can be written here; build the index elsewhere: to=DIRECTORY in Python, --to DIRECTORY "
            "on the command line"
        )
        raise PermissionError(error.errno or errno.EACCES, message, directory) from error
