"""The parts that a plan takes its files from: those that are kept in memory, and the search for files in them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.planning.cache.file_positions import FilePositions
from bloomparquet.planning.cache.listing import Listing, StoredFiles
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.evidence.interface import ReadAmount
from bloomparquet.planning.evidence.section_file import UNUSABLE, Section, SectionFile
from bloomparquet.planning.evidence.selection import Part, Selection
from bloomparquet.planning.index.lookup import OpenIndex
from bloomparquet.storage.files import FileInfo, LocalStorage, ReadCount, Storage
from bloomparquet.storage.forks import lazy_property, new_lock

# A plan takes its files from at most so many parts; of more, it reads the files of the smaller ones again, as one part.
MOST_PARTS, _LARGEST_PARTS = 16, 8
# A segment is written again after filters were read if its part is smaller than this, or if the filters are at least
# this share of it.
_ALWAYS_REWRITTEN_BYTES = 1024 * 1024
_REWRITE_GROWTH = 1 / 8

log = logging.getLogger("bloomparquet.index")

Integers = NDArray[np.int64]


PartT = TypeVar("PartT", bound=Part)
ReadFiles = Callable[[Sequence[FileInfo]], PartT]
"""Reads files as a part. It may have fewer files: damaged ones may be left out."""


@dataclass(frozen=True)
class PartKind(Generic[PartT]):
    """The parts of one format, and how they are stored as sections of a segment.

    ``read_segment(file, storage, root, reads)`` gives the part in a segment about files below `root`. Raises the errors
    of UNUSABLE.
    """

    format: FileFormat
    read_segment: Callable[[SectionFile, Storage, str, ReadCount], PartT]
    to_sections: Callable[[PartT, Listing], dict[str, Section]]


class IndexParts(Generic[PartT]):
    """The segments of an index as `parts`. The number of a file's segment in `positions` is that of its part."""

    def __init__(
        self, kind: PartKind[PartT], index: OpenIndex, storage: Storage, keys: Keys | None, reads: ReadCount
    ) -> None:
        self.parts: list[PartT] = []
        listings = []
        for file in index.open_segments(reads):
            try:
                part = kind.read_segment(file, storage, index.root, reads)
            except UNUSABLE as error:
                log.warning("%s; the files of this part of the index are read without it", error)
                continue
            assert isinstance(part.files, StoredFiles)
            part.keys, part.indexed = keys, len(part.files)
            self.parts.append(part)
            listings.append(part.files.arrays)
        self.positions = FilePositions(listings, index.root, times_are_rounded=not isinstance(storage, LocalStorage))


_opened: WeakKeyDictionary[OpenIndex, dict[Keys | None, IndexParts[Any]]] = WeakKeyDictionary()
"""Each index is opened once, for all caches of the process."""
_lock = new_lock()


def open_index(
    kind: PartKind[PartT], index: OpenIndex, storage: Storage, keys: Keys | None, reads: ReadCount
) -> IndexParts[PartT]:
    """The parts of an index, apart for each set of keys."""
    with _lock:
        known = _opened.setdefault(index, {}).get(keys)
    if known is None:
        opened = IndexParts(kind, index, storage, keys, reads)
        with _lock:
            known = _opened.setdefault(index, {}).setdefault(keys, opened)
    return known


def forget_opened() -> None:
    """Open every index again."""
    with _lock:
        _opened.clear()


@dataclass(eq=False)
class Kept(Generic[PartT]):
    """A part in memory. `stored`: for the directory of each cache that uses it, how much of it a segment there holds,
    None for nothing. `segments`: these segments. `uses`: how often it was used; `bytes`: its size when it was last
    measured."""

    kind: PartKind[PartT]
    scope: Hashable
    part: PartT
    stored: dict[Path, ReadAmount | None] = field(default_factory=dict)
    segments: set[Path] = field(default_factory=set)
    uses: int = 0
    bytes: int = 0

    def find(self, files: Sequence[FileInfo]) -> Integers:
        """The number of each file in the part, -1 if it is not there."""
        own = self.part.files  # another thread may replace them by equal ones
        if isinstance(own, StoredFiles):
            segment, position = FilePositions([own.arrays], "", times_are_rounded=False).find(files)
            return np.where(segment < 0, -1, position)
        return np.array([self._numbers.get(file, -1) for file in files], np.int64)

    @lazy_property
    def _numbers(self) -> dict[FileInfo, int]:
        return {file: i for i, file in enumerate(self.part.files)}

    def is_worth_storing(self, directory: Path) -> bool:
        """Whether to write the segment of this part in `directory`. A large one is not written again for a few filters,
        which are cheaper to read again."""
        stored, now = self.stored[directory], self.part.read_amount
        if stored is None:
            return True
        gained = now.evidence - stored.evidence
        is_much: bool = self.part.cached_bytes < _ALWAYS_REWRITTEN_BYTES or gained >= _REWRITE_GROWTH * now.known
        return now.columns > stored.columns or (gained > 0 and is_much)


class Search(Generic[PartT]):
    """A search for `files` in parts: file i is file ``source[i]`` of ``parts[part[i]]``; if ``part[i]`` is -1, no part
    has it yet."""

    def __init__(self, files: Sequence[FileInfo]) -> None:
        self.files = files
        self.parts: list[PartT] = []
        self.part, self.source = np.full(len(files), -1, np.int64), np.zeros(len(files), np.int64)

    @property
    def missing(self) -> Integers:
        return np.flatnonzero(self.part < 0)

    def missing_files(self) -> Sequence[FileInfo]:
        missing = self.missing
        return self.files if len(missing) == len(self.files) else [self.files[i] for i in missing.tolist()]

    def take(self, parts: Sequence[PartT], part: Integers, source: Integers) -> bool:
        """Missing file i is file ``source[i]`` of ``parts[part[i]]``, unless that is -1. Returns whether any is
        there."""
        (there,) = np.nonzero(part >= 0)
        files = self.missing[there]
        self.part[files], self.source[files] = part[there] + len(self.parts), source[there]
        self.parts += parts
        return len(files) > 0

    def search(self, sources: Iterable[Kept[PartT]]) -> list[Kept[PartT]]:
        """Look into `sources` until all files are found. Returns those that have some."""
        used = []
        for each in sources if len(self.missing) else ():
            position = each.find(self.missing_files())
            if self.take([each.part], np.where(position < 0, -1, 0), position):
                used.append(each)
                if not len(self.missing):
                    break
        return used

    def table(self) -> PartT | Selection:
        """The files that were found as one table: of several parts, a selection."""
        (present,) = np.nonzero(self.part >= 0)
        used, part = np.unique(self.part[present], return_inverse=True)
        parts, source = [self.parts[i] for i in used.tolist()] or self.parts[-1:], self.source[present]
        files = self.files if len(present) == len(self.files) else [self.files[i] for i in present.tolist()]
        if len(parts) == 1 and not parts[0].indexed and np.array_equal(source, np.arange(len(parts[0].files))):
            if isinstance(parts[0].files, StoredFiles):
                parts[0].files = files  # equal ones, which need not be made again from the segment's arrays
            return parts[0]
        return Selection(files, parts, part, source)

    def drop_small(self, kept: Sequence[Kept[PartT]]) -> list[Kept[PartT]]:
        """The kept parts to use. If they are too many, the files of the smaller ones are missing again: they will be
        read as one part."""
        if len(kept) <= MOST_PARTS:
            return list(kept)
        by_size = sorted(kept, key=lambda each: -np.count_nonzero(self.part == self.parts.index(each.part)))
        small = [self.parts.index(each.part) for each in by_size[_LARGEST_PARTS:]]
        self.part[np.isin(self.part, small)] = -1
        return by_size[:_LARGEST_PARTS]
