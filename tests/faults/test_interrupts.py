"""An interrupt at any moment hangs nothing, leaves nothing behind, and the next call is right.

A short form of the runs: `make faults` interrupts as often as it is told.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.faults.injector import IS_REPEATED, keyword, repeat, seeds
from tests.faults.interrupts import INTERRUPTED, hangs_are_fatal, interrupt, seconds_of
from tests.faults.work import LocalPlace, random_of

pytestmark = [
    # An interrupt within a finalizer, and a file that only the interrupt has left to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.mark.parametrize("name", INTERRUPTED, ids=keyword)
def test_the_call_after_an_interrupt_is_right(name: str, tmp_path: Path) -> None:
    work, place, ends = INTERRUPTED[name], LocalPlace(tmp_path), Counter[str]()
    with hangs_are_fatal():
        seconds = min(seconds_of(work, place) for _ in range(3))
    for seed in seeds(1 / len(INTERRUPTED), few=6):
        with hangs_are_fatal():
            try:
                # Sooner and sooner, until a call is interrupted before it is done.
                sooner = 1.0 if ends["interrupted"] else 0.5 ** ends["done"]
                ends[interrupt(work, place, random_of(name, seed), seconds * sooner)] += 1
            except BaseException:
                print(repeat(seed, keyword(name)))
                raise
    print(f"\n{name}: {dict(ends)}")
    assert IS_REPEATED or ends["interrupted"]
