"""The memory that calls leave behind."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable


def memory_left_behind(call: Callable[[], object], calls: int = 20) -> int:
    """The bytes that Python has allocated in so many `calls`, and not freed. A call before them fills caches."""
    call()
    tracemalloc.start()
    try:
        for _ in range(calls):
            call()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
