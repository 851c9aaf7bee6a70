"""The Bloom filters of one column over many row groups: what the stores of Parquet and of ORC have in common.

A store loads filters as sparingly as a question allows, keeps what it read up to a bound, and warns once for each file
that has an unusable filter.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError
from bloomparquet.planning.evidence.interface import Question

RESIDENT_BYTES = 64 * 1024 * 1024
"""The most bytes of filters that are kept for each column."""

PAIRS_AT_ONCE = 64 * 1024
"""Pairs of a row group and a value that are checked together: their blocks and masks stay in the processor's cache."""

log = logging.getLogger("bloomparquet")

Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


class FilterStore(ABC):
    """Filters by the number of their chunk. Safe to use from several threads.

    `filled` (n,) says which chunks are known to hold a value that is not null. `errors` says by chunk why its filter
    cannot be used.
    """

    filled: Booleans

    def __init__(self, errors: dict[int, BloomParquetError], warned: Iterable[str] = ()) -> None:
        self.errors = errors
        self._warned = set(warned)  # paths of files
        self._lock = threading.Lock()

    def check(self, question: Question) -> tuple[Booleans, int]:
        """The answer for each chunk of `question`; and how many of their filters were unusable.

        A chunk without a usable filter answers True. False is a proof, True is a maybe.
        """
        with self._lock:
            answers = np.ones(len(question.chunks), np.bool_)
            for loaded in self._load(question):
                answers[loaded] = self._probe(question.about(loaded))
            unusable = np.isin(question.chunks, list(self.errors)).sum() if self.errors else 0
            return answers, int(unusable)

    @abstractmethod
    def _load(self, question: Question) -> Iterator[Integers]:
        """Load the filters that `question` needs, in batches of bounded size. Yields the positions in it whose
        filters can be probed now; a batch may be dropped when the next one is asked for."""

    @abstractmethod
    def _probe(self, question: Question) -> Booleans:
        """The answers of filters that were loaded."""

    def _warn(self, path: str, error: BloomParquetError) -> None:
        """Log `error`, the first of each file."""
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

    Each of `rounds` is how many more values every undecided filter is asked for: a row group that is kept needs no
    further value. ``find_hits(filters, values)`` gives those `filters` that may hold the value beside them. Returns the
    filters that are undecided after the last round, and the next value of every filter.
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
