"""Finds the files of a listing in the segments of an index or of the cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bloomparquet.planning.cache.listing import NUMBERS
from bloomparquet.query.arrow_values import make_array, make_scalar
from bloomparquet.storage.files import NEVER_CHANGES_NS, FileInfo
from bloomparquet.storage.forks import lazy_property
from bloomparquet.storage.staleness import are_same_times


class FilePositions:
    """The files of several segments, from the oldest to the newest.

    `listings`: the arrays of the segments' listings, with paths below `root`. `times_are_rounded`: one listing of a
    remote storage may report a time in milliseconds, and another one in seconds.
    """

    def __init__(self, listings: Sequence[Mapping[str, NDArray[Any]]], root: str, *, times_are_rounded: bool) -> None:
        self._times_are_rounded = times_are_rounded
        above = root.encode("utf-8", "surrogatepass")
        joined = b"\0".join(listing["paths"].tobytes() for listing in listings)
        self._joined = above + joined.replace(b"\0", b"\0" + above) if above else joined
        numbers = {name: [each[name] for each in listings] for name in NUMBERS} if listings else {}
        self._identity = {name: np.concatenate(arrays) for name, arrays in numbers.items()}
        counts = [len(listing["sizes"]) for listing in listings]
        self._segment = np.repeat(np.arange(len(counts)), counts)
        self._position = np.concatenate([np.zeros(0, np.int64), *(np.arange(count) for count in counts)])

    def find(self, files: Sequence[FileInfo]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The segment of each file, -1 if it is in none as it is now, and its position there. A file without a
        modification time is in none: it could be replaced by one of the same size without notice."""
        if not files or not len(self._segment):
            return np.full(len(files), -1), np.zeros(len(files), np.int64)
        # zip(*files) would make as many objects as there are files, which start the garbage collector.
        paths, *numbers = (list(map(itemgetter(i), files)) for i in range(len(FileInfo._fields)))
        where = self._lines("\0".join(paths).encode("utf-8", "surrogatepass"))
        if len(where) != len(files):  # there is a \0 in a path
            return np.full(len(files), -1), np.zeros(len(files), np.int64)
        same = where >= 0
        for (name, stored), listed in zip(self._identity.items(), numbers, strict=True):
            given = _array(listed, stored.dtype)
            are_same = stored[where] == given
            if name == "mtimes":
                if self._times_are_rounded:
                    are_same = are_same_times(stored[where], given)
                are_same = (are_same & (given > 0)) | (given == NEVER_CHANGES_NS)
            same &= are_same
        return np.where(same, self._segment[where], -1), self._position[where]

    def _lines(self, asked: bytes) -> NDArray[np.int64]:
        """The line of each path in the listings, -1 if there is none."""
        if asked == self._joined:  # the usual case, which needs no table of hashes
            return np.arange(len(self._segment))
        positions = pc.index_in(make_array(asked.split(b"\0"), pa.large_binary()), value_set=self._backwards)
        backwards = np.from_dlpack(pc.fill_null(positions, make_scalar(-1, positions.type))).astype(np.int64)
        return np.where(backwards < 0, -1, len(self._segment) - 1 - backwards)

    @lazy_property
    def _backwards(self) -> pa.LargeBinaryArray:
        """The paths from the last to the first: of several versions of a file, the newest is found."""
        return make_array(self._joined.split(b"\0")[::-1], pa.large_binary())


def _array(numbers: Sequence[int], dtype: np.dtype[Any]) -> NDArray[Any]:
    """`numbers` as an array, with 0 for those that do not fit: no file in an index has such a time or size."""
    try:
        return np.array(numbers, dtype)
    except OverflowError:
        limits = np.iinfo(dtype)
        return np.array([number if limits.min <= number <= limits.max else 0 for number in numbers], dtype)
