"""Locks and caches in forked child processes, which have none of their parent's threads.

A thread may hold a lock at the fork, and nobody releases it in the child. What the lock protects may be half done. So a
child begins with new locks and with empty caches. If its parent has one thread only, it keeps the caches.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Protocol
from weakref import WeakSet


class ForkLock:
    """A lock that is free in a forked child. For what is whole at every moment, or is dropped in the child."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _locks.add(self)

    def renew(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class Clearable(Protocol):
    """A cache."""

    def clear(self) -> None:
        """Drop everything."""


_locks: WeakSet[ForkLock] = WeakSet()
_caches: WeakSet[Clearable] = WeakSet()
_threads = 1
"""The number of threads at the last fork."""


def clear_in_children(cache: Clearable) -> None:
    """Clear `cache`, as long as it exists, in each child of a process with several threads."""
    _caches.add(cache)


def _before_fork() -> None:
    global _threads  # noqa: PLW0603 (hooks take no arguments)
    _threads = len(sys._current_frames())  # with those that Python did not start


def _begin_in_child() -> None:
    for lock in list(_locks):
        lock.renew()
    for cache in list(_caches) if _threads > 1 else ():
        cache.clear()


os.register_at_fork(before=_before_fork, after_in_child=_begin_in_child)
