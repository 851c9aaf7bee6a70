"""The Bloom filters of one column over many row groups: those in an index, and the base of those in files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError
from bloomparquet.planning.evidence.interface import Question
from bloomparquet.planning.evidence.tiles import TiledFilters
from bloomparquet.storage.forks import new_lock

RESIDENT_BYTES = 64 * 1024 * 1024
"""The most bytes of filters that are kept for each column of a part."""

PAIRS_AT_ONCE = 64 * 1024
"""Pairs of a row group and a value that are checked together: their blocks and masks stay in the processor's cache."""

log = logging.getLogger("bloomparquet")

Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


class FilterStore:
    """The filters of n chunks that are in an index, `tiled`. Subclasses read other filters from the files: as little as
    a question needs, kept up to a bound. Safe to use from several threads."""

    def __init__(self, tiled: TiledFilters) -> None:
        self.tiled = tiled
        self._warned = set[str]()  # paths of files
        self._lock = new_lock()

    @property
    def errors(self) -> Mapping[int, BloomParquetError]:
        """Why filters cannot be used, by chunk."""
        return {}

    @property
    def in_index(self) -> Booleans:
        """Whether each chunk has its filter in an index."""
        return self.tiled.tile >= 0

    @property
    def present(self) -> Booleans:
        """Whether each chunk has a filter, as far as is known without reading."""
        return self.in_index

    def check(self, question: Question) -> Booleans:
        """See :class:`bloomparquet.planning.evidence.interface.ChunkFilters`."""
        with self._lock:
            answers, others = np.ones(len(question.chunks), np.bool_), np.arange(len(question.chunks))
            if self.tiled.tiles:
                self.tiled = self.tiled.ask(question, answers)
                (others,) = np.nonzero(~self.in_index[question.chunks])
            if len(others):
                is_absent = self._known_absent(question.about(others))
                answers[others[is_absent]] = False
                others = others[~is_absent]
                rest = question.about(others)
                for ready in self._prepare(rest):
                    answers[others[ready]] = self._answer(rest.about(ready))
            return answers

    def _known_absent(self, question: Question) -> Booleans:
        """Whether each chunk of `question` is known to hold none of its values, without a read."""
        return np.zeros(len(question.chunks), np.bool_)

    def _prepare(self, question: Question) -> Iterator[Integers]:
        """Read what tells where the filters are that `question` needs, in batches of bounded size. Yields positions in
        `question` that can be answered now. A batch may be dropped when the next one is requested."""
        return iter(())

    def _answer(self, question: Question) -> Booleans:
        """One answer per chunk of `question`, all of which are prepared. Reads what is not in memory of the filters."""
        raise AssertionError("no filter was prepared")

    def _warn(self, path: str, error: BloomParquetError) -> None:
        """Log the first error of each file."""
        if path not in self._warned:
            self._warned.add(path)
            log.warning("%s; row groups without a usable filter are read", error)


def check_in_rounds(
    hit: Booleans,
    first: Integers,
    last: Integers,
    rounds: Iterable[int],
    find_hits: Callable[[Integers, Integers], Integers],
) -> tuple[Integers, Integers]:
    """Set ``hit[i]`` where filter i may hold one of the values ``first[i] <= value < last[i]``.

    In each of `rounds`, every undecided filter is asked for this number of further values: a row group that is kept
    needs no further value. ``find_hits(filters, values)`` returns those `filters` that may hold the value beside them.
    Returns the filters that are undecided after the last round, and the next value of every filter.
    """
    undecided, at = np.flatnonzero(~hit & (first < last)), first
    for size in rounds:
        if not len(undecided):
            break
        until = np.minimum(at + size, last)
        for some in np.array_split(undecided, len(undecided) * size // PAIRS_AT_ONCE + 1):
            row, value = pairs(at[some], until[some])
            hit[find_hits(some[row], value)] = True
        at, undecided = until, undecided[~hit[undecided] & (until < last)[undecided]]
    return undecided, at


def pairs(first: Integers, last: Integers) -> tuple[Integers, Integers]:
    """Every (row, value) with ``first[row] <= value < last[row]``, as two arrays."""
    sizes = np.maximum(last - first, 0)
    row = np.repeat(np.arange(len(first)), sizes)
    begin = np.cumsum(sizes) - sizes
    return row, np.arange(len(row)) - begin[row] + first[row]
