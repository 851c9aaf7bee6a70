"""A cache of values that are costly to make and expire after a time.

Unlike :func:`functools.lru_cache`, one thread makes a value while the others wait for it, and old values are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import Generic, TypeVar

from bloomparquet.errors import EncryptionError
from bloomparquet.storage.forks import new_lock

_Value = TypeVar("_Value")


@dataclass(eq=False, repr=False)
class _Entry(Generic[_Value]):
    """`outcome`: the value, or the text of an error; None until it is made, by the thread that has the lock."""

    made: float
    lifetime: float
    lock: AbstractContextManager[bool, None] = field(default_factory=new_lock)
    outcome: tuple[_Value] | str | None = None


class TtlCache(Generic[_Value]):
    """At most `size` values by key. Drops the least recently used values, and those that have expired.

    An EncryptionError is cached too, for `error_lifetime`: a plan may ask again for each of thousands of files. After
    another exception, or an interrupt, the next thread makes the value. Several threads may share one cache.
    """

    def __init__(self, size: int, *, error_lifetime: timedelta = timedelta()) -> None:
        self._size, self._error_lifetime = size, error_lifetime.total_seconds()
        self._lock = new_lock()
        self.clear()

    def clear(self) -> None:
        """Drop all values: a forked process has none of its parent's threads."""
        self._entries: dict[Hashable, _Entry[_Value]] = {}  # the last used at the end

    def get(self, key: Hashable, lifetime: timedelta, make: Callable[[], _Value]) -> _Value:
        """The value of `key`, made by `make` unless one is cached that is younger than `lifetime`.

        Raises what `make` raises, or an EncryptionError with the text of a cached one.
        """
        now = monotonic()
        with self._lock:
            entry = self._entries.pop(key, None)
            if entry is None or self._is_expired(entry, now, lifetime.total_seconds()):
                entry = _Entry(now, lifetime.total_seconds())
            self._entries[key] = entry
            self._drop(now)
        with entry.lock:
            if entry.outcome is None:
                try:
                    entry.outcome = (make(),)
                except EncryptionError as error:
                    entry.made = monotonic()  # count from now: the request may have taken long
                    entry.outcome = str(error)  # only the text: an exception holds the variables of its frames
                    raise
        if isinstance(entry.outcome, str):
            raise EncryptionError(entry.outcome)
        return entry.outcome[0]

    def _drop(self, now: float) -> None:
        while len(self._entries) > 1:
            key, oldest = next(iter(self._entries.items()))
            if len(self._entries) <= self._size and not self._is_expired(oldest, now, oldest.lifetime):
                return
            del self._entries[key]

    def _is_expired(self, entry: _Entry[_Value], now: float, lifetime: float) -> bool:
        if entry.outcome is None:
            return False
        return now - entry.made >= (min(lifetime, self._error_lifetime) if isinstance(entry.outcome, str) else lifetime)
