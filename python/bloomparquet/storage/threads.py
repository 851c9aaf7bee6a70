"""Runs jobs in threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")


def in_threads(threads: int, work: Callable[[Job], Result], jobs: Sequence[Job]) -> Iterator[Result]:
    """``map(work, jobs)``, in order, by up to `threads` threads. Raises the first error."""
    if threads == 1 or len(jobs) < 2:
        yield from map(work, jobs)
        return
    with ThreadPoolExecutor(min(threads, len(jobs)), thread_name_prefix="bloomparquet") as pool:
        yield from pool.map(work, jobs)
