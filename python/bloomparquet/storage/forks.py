"""Locks and caches in forked child processes, which have none of their parent's threads.

A thread may hold a lock at the fork, and nobody releases it in the child. What the lock protects may be half done. So a
child begins with new locks and with empty caches. If its parent has one thread only, it keeps the caches.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Generic, TypeVar, overload
from weakref import WeakSet

_Owner = TypeVar("_Owner")
_Value = TypeVar("_Value")


class lazy_property(Generic[_Owner, _Value]):  # noqa: N801 (used as a decorator)
    """A property that is computed at its first use and kept, perhaps by two threads at once.

    Unlike that of functools in Python 3.11, it has no lock, which a forked child would wait for.
    """

    def __init__(self, compute: Callable[[_Owner], _Value]) -> None:
        self._compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> lazy_property[_Owner, _Value]: ...
    @overload
    def __get__(self, instance: _Owner, owner: type) -> _Value: ...
    def __get__(self, instance: _Owner | None, owner: type) -> lazy_property[_Owner, _Value] | _Value:
        if instance is None:
            return self
        value = vars(instance)[self._name] = self._compute(instance)
        return value


_locks: WeakSet[Any] = WeakSet()
_caches: WeakSet[Any] = WeakSet()
_threads = 1
"""The number of threads at the last fork."""


def new_lock(*, reentrant: bool = False) -> AbstractContextManager[bool, None]:
    """A lock that is free in a forked child. For what is whole at every moment, or is dropped in the child.

    It must be an object of C, used by ``with``: there, no interrupt comes between locking it and entering the block.
    """
    lock = threading.RLock() if reentrant else threading.Lock()
    _locks.add(lock)
    return lock


def clear_in_children(cache: Any) -> None:
    """Call the method `clear` of `cache`, as long as it exists, in each child of a process with several threads."""
    _caches.add(cache)


def _before_fork() -> None:
    global _threads  # noqa: PLW0603 (hooks take no arguments)
    _threads = len(sys._current_frames())  # with those that Python did not start


def _begin_in_child() -> None:
    for lock in list(_locks):
        lock._at_fork_reinit()
    for cache in list(_caches) if _threads > 1 else ():
        cache.clear()


os.register_at_fork(before=_before_fork, after_in_child=_begin_in_child)
