"""A cache of values that are costly to make and expire after a time.

Unlike :func:`functools.lru_cache`, one thread makes a value while the others wait for it, and old values are dropped.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import Generic, TypeVar

from bloomparquet.errors import EncryptionError

_Value = TypeVar("_Value")


@dataclass(eq=False, repr=False)
class _Entry(Generic[_Value]):
    made: float
    lifetime: float
    outcome: Future[_Value | None] = field(default_factory=Future)
    error: str | None = None


class TtlCache(Generic[_Value]):
    """At most `size` values by key. Drops the least recently used values, and those that have expired.

    An EncryptionError is cached too, for `error_lifetime`: a plan may ask again for each of thousands of files.
    Several threads may share one cache.
    """

    def __init__(self, size: int, *, error_lifetime: timedelta = timedelta()) -> None:
        self._size, self._error_lifetime = size, error_lifetime.total_seconds()
        self.clear()

    def clear(self) -> None:
        """Drop all values, and all locks: a forked process has none of its parent's threads."""
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, _Entry[_Value]] = OrderedDict()

    def get(self, key: Hashable, lifetime: timedelta, make: Callable[[], _Value]) -> _Value:
        """The value of `key`, made by `make` unless one is cached that is younger than `lifetime`.

        Raises what `make` raises, or an EncryptionError with the text of a cached one.
        """
        now = monotonic()
        with self._lock:
            entry = self._entries.get(key)
            if is_new := entry is None or self._is_expired(entry, now, lifetime.total_seconds()):
                entry = self._entries[key] = _Entry(now, lifetime.total_seconds())
            self._entries.move_to_end(key)
            self._drop(now)
        if is_new:
            return self._make(key, entry, make)
        value = entry.outcome.result()
        if value is None:
            raise EncryptionError(entry.error)
        return value

    def _drop(self, now: float) -> None:
        while len(self._entries) > 1:
            key, oldest = next(iter(self._entries.items()))
            if len(self._entries) <= self._size and not self._is_expired(oldest, now, oldest.lifetime):
                return
            del self._entries[key]

    def _is_expired(self, entry: _Entry[_Value], now: float, lifetime: float) -> bool:
        if not entry.outcome.done():
            return False
        return now - entry.made >= (lifetime if entry.error is None else min(lifetime, self._error_lifetime))

    def _make(self, key: Hashable, entry: _Entry[_Value], make: Callable[[], _Value]) -> _Value:
        try:
            value = make()
        except BaseException as error:
            # Keep only the text: an exception holds the local variables of its frames.
            entry.error = str(error) if isinstance(error, EncryptionError) else f"it raised {type(error).__name__}"
            if not isinstance(error, EncryptionError):
                with self._lock:
                    if self._entries.get(key) is entry:
                        del self._entries[key]
            entry.made = monotonic()  # count from now: the request may have taken long
            entry.outcome.set_result(None)
            raise
        entry.outcome.set_result(value)
        return value
