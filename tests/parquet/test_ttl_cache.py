"""Values expire, the least recently used go first, and one thread makes a value for all."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial

from bloomparquet.errors import EncryptionError
from bloomparquet.parquet.encryption.keys.ttl_cache import TtlCache
from tests.support.kms_files import Clock


def test_the_least_recently_used_value_is_dropped() -> None:
    cache: TtlCache[str] = TtlCache(2)
    made: list[str] = []

    def make(key: str) -> str:
        made.append(key)
        return key

    for key in "abacabcb":
        assert cache.get(key, timedelta(minutes=1), partial(make, key)) == key
    assert "".join(made) == "abcbc"


def test_expired_values_are_dropped(clock: Clock) -> None:
    class Value:
        """Supports weak references."""

    cache: TtlCache[Value] = TtlCache(100)
    values = [weakref.ref(cache.get(i, timedelta(seconds=10 + i), Value)) for i in range(3)]
    clock.now += 11
    cache.get("another", timedelta(seconds=1), Value)
    gc.collect()
    assert [value() is None for value in values] == [True, True, False]


def test_an_interrupted_request_is_made_again() -> None:
    cache: TtlCache[int] = TtlCache(2, error_lifetime=timedelta(minutes=1))
    began, may_end = threading.Event(), threading.Event()

    def interrupted() -> int:
        began.set()
        may_end.wait(10)
        raise KeyboardInterrupt

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(cache.get, "a", timedelta(minutes=1), interrupted)
        began.wait(10)
        second = pool.submit(cache.get, "a", timedelta(minutes=1), lambda: 2)
        may_end.set()
        assert isinstance(first.exception(), KeyboardInterrupt)
        assert second.exception() is None or isinstance(second.exception(), EncryptionError)
    assert cache.get("a", timedelta(minutes=1), lambda: 3) in (2, 3)
