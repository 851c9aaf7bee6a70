"""Chooses how the matching rows of kept row groups (stripes of ORC) are read. All choices by cost are made here."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bloomparquet.storage.files import Storage

Job = TypeVar("Job")
Result = TypeVar("Result")

_GAPS = 4
_FEW_ROWS = 128  # one row of so many: while fewer match, the columns of the condition are read first
_PAGE = 1 << 20
_MOST_PAGES = 0.9
_LEAST_COLUMN = 64 << 10
_LEAST_SEARCHED = 512 << 10
_MOST_SEARCHED = 4
_MOST_PROCESSORS = 8
_THREADS_PAY = 1 << 20
_PAGE_THREADS_PAY = 12 << 20
_SPAN_BYTES = 32 << 20
_ROWS_AT_ONCE = 64 << 10
_BYTES_AT_ONCE = 16 << 20
_AHEAD_BYTES = 256 << 20


def reads_condition_first(other_bytes: int, storage: Storage) -> bool:
    """Whether to read the columns of the condition alone, and the others, of `other_bytes` compressed bytes, only where
    rows match. A second read costs as much as some gaps between ranges that are merged."""
    return other_bytes > _GAPS * storage.merge_gap


class MatchedShare:
    """Whether many rows of the row group that was filtered last matched, and most pages held one of them: then all its
    columns would have been read sooner together. Threads may share it: a lost update costs only time."""

    is_large = False

    def note(self, matches: NDArray[np.int64], rows: int, column_bytes: int) -> None:
        """Note the positions of the `matches`, ascending, among `rows` rows, whose other columns have about
        `column_bytes` each."""
        pages = column_bytes // _PAGE
        self.is_large = len(matches) * _FEW_ROWS > rows
        if self.is_large and pages > 1:
            starts = np.searchsorted(matches, np.arange(pages + 1) * rows // pages)
            self.is_large = int(np.count_nonzero(np.diff(starts))) > pages * _MOST_PAGES


def reads_pages(size: int, columns: int) -> bool:
    """Whether to find the pages of `columns` with `size` compressed bytes in all: small columns are decoded sooner."""
    return size >= columns * _LEAST_COLUMN


def searches(size: int, values: int, storage: Storage) -> bool:
    """Whether to search the pages of a column with `size` compressed bytes for some `values` before it is decoded."""
    return size >= _LEAST_SEARCHED and 0 < values <= _MOST_SEARCHED and storage.threads == 1


def searches_dictionary(dictionary: int, pages: int) -> bool:
    """Whether to search a dictionary page of `dictionary` bytes that all data pages, of `pages` bytes, use. The search
    can only show that a value is absent, which a filter has made unlikely. So it pays only for a small dictionary."""
    return dictionary <= pages


def threads_for(size: int, storage: Storage) -> int:
    """How many threads read `size` compressed bytes. Few local bytes are decoded before a second thread starts."""
    if storage.threads > 1:
        return storage.threads
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(processors, _MOST_PROCESSORS) if size > _THREADS_PAY else 1


def threads_for_pages(size: int, storage: Storage) -> int:
    """How many threads read pages with `size` bytes of one row group. Python code between pages holds the GIL, so
    threads pay only for many bytes."""
    return threads_for(size, storage) if storage.threads > 1 or size > _PAGE_THREADS_PAY else 1


def spans(sizes: Sequence[int]) -> Iterator[slice]:
    """Consecutive row groups of a file that are read together, given their `sizes`: more than one if they are small."""
    start = total = 0
    for i, size in enumerate(sizes):
        if i > start and total + size > _SPAN_BYTES:
            yield slice(start, i)
            start, total = i, 0
        total += size
    yield slice(start, len(sizes))


def row_groups_at_once(rows: NDArray[np.int64], bytes_per_row: float | None) -> int:
    """How many of the next row groups are decoded at once. Starting to decode a small one costs more than decoding it.

    `rows`: those of each. `bytes_per_row`: the decoded bytes of a row, measured in an earlier row group. None: nothing
    was measured, and the next one is decoded alone."""
    if bytes_per_row is None:
        return 1
    most = min(_ROWS_AT_ONCE, _BYTES_AT_ONCE / max(bytes_per_row, 1))
    return max(int(np.searchsorted(np.cumsum(rows), most, side="right")), 1)


def read_ahead(
    threads: int, work: Callable[[Job], Result], spans: Iterable[tuple[Sequence[Job], int]]
) -> Iterator[list[Result]]:
    """The results of `work` for the jobs of each span, in order, by several threads. Each span has its size in
    compressed bytes: results of at most 256 MiB, or of one span, wait to be used."""
    with ThreadPoolExecutor(threads, thread_name_prefix="bloomparquet") as pool:
        waiting: deque[tuple[list[Future[Result]], int]] = deque()
        try:
            for jobs, size in spans:
                while waiting and (len(waiting) > threads or sum(each for _, each in waiting) + size > _AHEAD_BYTES):
                    yield [future.result() for future in waiting.popleft()[0]]
                waiting.append(([pool.submit(work, job) for job in jobs], size))
            while waiting:
                yield [future.result() for future in waiting.popleft()[0]]
        finally:
            pool.shutdown(cancel_futures=True)
