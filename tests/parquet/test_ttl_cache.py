"""Values that are kept for a time, by many threads."""

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


def test_what_was_used_least_recently_goes_first() -> None:
    cache: TtlCache[str] = TtlCache(2)
    made: list[str] = []

    def make(key: str) -> str:
        made.append(key)
        return key

    for key in "abacabcb":
        assert cache.get(key, timedelta(minutes=1), partial(make, key)) == key
    assert "".join(made) == "abcbc"


def test_what_is_past_its_time_is_not_kept(clock: Clock) -> None:
    class Value:
        """What can be seen to be gone."""

    cache: TtlCache[Value] = TtlCache(100)
    values = [weakref.ref(cache.get(i, timedelta(seconds=10 + i), Value)) for i in range(3)]
    clock.now += 11
    cache.get("another", timedelta(seconds=1), Value)
    gc.collect()
    assert [value() is None for value in values] == [True, True, False]


def test_who_waits_for_one_that_was_interrupted_is_told_and_the_next_asks_again() -> None:
    cache: TtlCache[int] = TtlCache(2, error_lifetime=timedelta(minutes=1))
    began, told = threading.Event(), threading.Event()

    def interrupted() -> int:
        began.set()
        told.wait(10)
        raise KeyboardInterrupt

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(cache.get, "a", timedelta(minutes=1), interrupted)
        began.wait(10)
        second = pool.submit(cache.get, "a", timedelta(minutes=1), lambda: 2)
        told.set()
        assert isinstance(first.exception(), KeyboardInterrupt)
        assert second.exception() is None or isinstance(second.exception(), EncryptionError)
    assert cache.get("a", timedelta(minutes=1), lambda: 3) in (2, 3)
