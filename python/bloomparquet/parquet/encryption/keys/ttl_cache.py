"""Values that are costly to make and must not be kept for ever: each is made once, by one thread, and kept for a time.

Not :func:`functools.lru_cache`, which makes a value as often as threads ask for it at once, and never forgets one.
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
    refusal: str | None = None


class Expiring(Generic[_Value]):
    """At most `size` values by key; the ones that were used least recently go first, and when their time is over.

    That one could not be made (an EncryptionError) is kept too, for `refused_for`: who asks for it for each of
    thousands of files is answered at once. Threads may share one.
    """

    def __init__(self, size: int, *, refused_for: timedelta = timedelta()) -> None:
        self._size, self._refused_for = size, refused_for.total_seconds()
        self.clear()

    def clear(self) -> None:
        """Forget all values, and who is making one: a process that was forked has none of its parent's threads."""
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, _Entry[_Value]] = OrderedDict()

    def get(self, key: Hashable, lifetime: timedelta, make: Callable[[], _Value]) -> _Value:
        """The value of `key`, by `make` where there is none that is younger than `lifetime`. Raises what `make` does,
        and EncryptionError with the text of an earlier one."""
        now = monotonic()
        with self._lock:
            entry = self._entries.get(key)
            if mine := entry is None or self._is_old(entry, now, lifetime.total_seconds()):
                entry = self._entries[key] = _Entry(now, lifetime.total_seconds())
            self._entries.move_to_end(key)
            self._drop(now)
        if mine:
            return self._make(key, entry, make)
        value = entry.outcome.result()
        if value is None:
            raise EncryptionError(entry.refusal)
        return value

    def _drop(self, now: float) -> None:
        while len(self._entries) > 1:
            key, first = next(iter(self._entries.items()))
            if len(self._entries) <= self._size and not self._is_old(first, now, first.lifetime):
                return
            del self._entries[key]

    def _is_old(self, entry: _Entry[_Value], now: float, lifetime: float) -> bool:
        if not entry.outcome.done():
            return False
        return now - entry.made >= (lifetime if entry.refusal is None else min(lifetime, self._refused_for))

    def _make(self, key: Hashable, entry: _Entry[_Value], make: Callable[[], _Value]) -> _Value:
        try:
            value = make()
        except BaseException as error:
            # Its text alone: an exception holds the variables of whoever raised it.
            entry.refusal = str(error) if isinstance(error, EncryptionError) else f"it raised {type(error).__name__}"
            if not isinstance(error, EncryptionError):
                with self._lock:
                    if self._entries.get(key) is entry:
                        del self._entries[key]
            entry.made = monotonic()  # who is slow to refuse is not to be asked by the next at once
            entry.outcome.set_result(None)
            raise
        entry.outcome.set_result(value)
        return value
