"""Reads many byte ranges: sorted, merged where they are near, and by several threads."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import FormatError
from bloomparquet.storage.files import FileEnds, FileInfo, ReadCount, Storage
from bloomparquet.storage.host_files import HostStorage
from bloomparquet.storage.staleness import require_same, require_unchanged_locally
from bloomparquet.storage.threads import in_threads

ReadBytes = Callable[[int, int], bytes | memoryview]
"""Reads the bytes of a file from a start offset to an end offset, all of them."""

_LOCAL_THREADS = 8
_LOCAL_READS = 64  # in one job
# A read from the page cache takes a few microseconds, a read from a disk 80 or more.
_SLOW_SECONDS = _LOCAL_READS * 80e-6  # of one job


@dataclass(frozen=True)
class Ranges:
    """The result of :func:`read_ranges`: all bytes in one `buffer`, and the start of each requested range in it."""

    buffer: NDArray[np.uint8]
    starts: NDArray[np.int64] = field(repr=False)

    def rows(self, width: int) -> NDArray[np.uint8]:
        """The first `width` bytes of every range as a matrix. Each range must have that many."""
        if len(self.starts) == 0:
            return np.empty((0, width), np.uint8)
        # One item of each range is copied at once, which is faster than `width` bytes of a sliding window.
        windows = np.ndarray(len(self.buffer) - width + 1, f"V{width}", self.buffer, strides=1)
        return windows[self.starts].view(np.uint8).reshape(-1, width)


class _Runs(NamedTuple):
    """One request each, sorted by file and start: fill ``views[i]`` from ``start[i]`` of ``files[file[i]]``."""

    files: Sequence[FileInfo]
    file: NDArray[np.int64]
    start: NDArray[np.int64]
    views: Sequence[memoryview]


def read_ranges(
    storage: Storage,
    files: Sequence[FileInfo],
    file: NDArray[np.int64],
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    reads: ReadCount,
) -> Ranges:
    """Read ``length[i]`` bytes at ``offset[i]`` of ``files[file[i]]`` for all i, each byte once.

    All three arrays have the shape (n,), in any order; every length is positive. Ranges of one file that are at most
    ``storage.merge_gap`` apart are read by one request. `reads` counts the requests and their bytes. Raises
    FileChangedError if a storage says that what was read is another version.
    """
    if len(file) == 0:
        return Ranges(np.empty(0, np.uint8), np.empty(0, np.int64))
    order = np.lexsort((offset, file))
    ordered, starts = file[order], offset[order]
    ends = starts + length[order]
    # Lay the files end to end, with more than a gap between them, so that one running maximum serves all.
    stride = int(ends.max()) + storage.merge_gap + 1
    reach = np.maximum.accumulate(ends + ordered * stride)
    begins = np.empty(len(order), bool)
    begins[0] = True
    begins[1:] = (starts[1:] + ordered[1:] * stride) > reach[:-1] + storage.merge_gap
    begins[1:] |= ordered[1:] != ordered[:-1]
    run = np.cumsum(begins) - 1
    first = np.flatnonzero(begins)
    run_file, run_start = ordered[first], starts[first]
    run_end = np.append(reach[first[1:] - 1], reach[-1]) - run_file * stride
    run_at = np.concatenate(([0], np.cumsum(run_end - run_start)))
    buffer = np.empty(run_at[-1], np.uint8)
    views = [buffer.data[i:j] for i, j in pairwise(run_at.tolist())]
    runs = _Runs(files, run_file, run_start, views)
    if reads.ends is None:
        _read_runs(storage, runs, reads)
    else:
        _read_runs_but_ends(storage, runs, reads, reads.ends)
    result = np.empty(len(order), np.int64)
    result[order] = run_at[run] + (starts - run_start[run])
    return Ranges(buffer, result)


def read_extents(
    storage: Storage, file: FileInfo, extents: Sequence[tuple[int, int]], reads: ReadCount
) -> list[memoryview]:
    """The bytes of one file from each start offset to its end offset. Empty extents are not read."""
    starts, ends = np.array(extents, np.int64).reshape(-1, 2).T
    (some,) = np.nonzero(ends > starts)
    sizes = (ends - starts)[some]
    ranges = read_ranges(storage, [file], np.zeros_like(some), starts[some], sizes, reads)
    parts = [memoryview(b"")] * len(extents)
    for i, start, size in zip(some.tolist(), ranges.starts.tolist(), sizes.tolist(), strict=True):
        parts[i] = ranges.buffer.data[start : start + size]
    return parts


def prefetch(storage: Storage, read: ReadBytes, extents: Sequence[tuple[int, int]]) -> ReadBytes:
    """`read`, with the bytes of `extents` in memory. Near ones are read as one, and the others at the same time."""
    runs: list[tuple[int, int]] = []
    for start, end in sorted(extents):
        if runs and start <= runs[-1][1] + storage.merge_gap:
            start, end = runs[-1][0], max(end, runs.pop()[1])
        runs.append((start, end))
    data = [memoryview(each) for each in in_threads(storage.threads, lambda run: read(*run), runs)]
    starts = [start for start, _ in runs]

    def read_prefetched(start: int, end: int) -> bytes | memoryview:
        i = bisect_right(starts, start) - 1
        if i < 0 or end > runs[i][1]:
            return read(start, end)
        return data[i][start - starts[i] : end - starts[i]]

    return read_prefetched


def _read_runs_but_ends(storage: Storage, runs: _Runs, reads: ReadCount, ends: FileEnds) -> None:
    """Fill the views from `ends` where possible. Keeps the ends of files in `ends`."""
    files, starts = [runs.files[i] for i in runs.file.tolist()], runs.start.tolist()
    left = [i for i, file in enumerate(files) if not ends.fill(file, starts[i], runs.views[i])]
    if left:
        views = [runs.views[i] for i in left]
        _read_runs(storage, _Runs(runs.files, runs.file[left], runs.start[left], views), reads)
    for i in left:
        ends.keep(files[i], starts[i], runs.views[i])


def _read_runs(storage: Storage, runs: _Runs, reads: ReadCount) -> None:
    files, file, start, views = runs
    reads.requests += len(views)
    reads.bytes += sum(map(len, views))
    if isinstance(storage, HostStorage):
        storage.read_many(files, file, start, views)
        return
    bounds = np.append(np.flatnonzero(np.diff(file, prepend=-1)), len(file)).tolist()
    starts = start.tolist()
    read = [files[i] for i in file[bounds[:-1]].tolist()]
    is_local = storage.threads == 1
    files_per_job = max(1, _LOCAL_READS * len(read) // len(file)) if is_local else 1
    jobs, threads = range(0, len(read), files_per_job), storage.threads
    threads_a_file = max(1, threads // len(read))

    def read_files(first_file: int) -> None:
        for i in range(first_file, min(first_file + files_per_job, len(read))):
            first, last = bounds[i : i + 2]
            try:
                opened = storage.read_into(read[i].path, starts[first:last], views[first:last], threads_a_file)
            except FormatError:  # it ends early
                require_unchanged_locally(storage, read[i])
                raise
            if opened is not None and opened != read[i]:
                require_same(storage, read[i], opened)

    if is_local:
        # The page cache answers within microseconds, less than a thread costs. A disk answers several threads at once.
        slow, threads = _read_while_fast(read_files, jobs), _LOCAL_THREADS
        jobs = jobs[slow:]
    for _ in in_threads(threads, read_files, jobs):
        pass


def _read_while_fast(read: Callable[[int], None], jobs: Sequence[int]) -> int:
    """Do `jobs` one after the other while they are fast. Returns how many were done."""
    began = time.perf_counter()
    for done, job in enumerate(jobs, 1):
        read(job)
        if time.perf_counter() - began > _SLOW_SECONDS * (done + 1):  # another process may have delayed one of them
            return done
    return len(jobs)
