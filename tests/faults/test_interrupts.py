"""An interrupt at any moment hangs nothing, leaves nothing behind, and the next call is right.

A short form of the runs: `make faults` interrupts and forks as often as it is told.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from pathlib import Path
from random import Random

import pytest

import bloomparquet as bp
from tests.faults.injector import IS_REPEATED, NUMBER, SEED, keyword, repeat, seeds
from tests.faults.interrupts import INTERRUPTED, hangs_are_fatal, interrupt, seconds_of
from tests.faults.work import LocalPlace, forget, prepare, random_of

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
                ends[interrupt(work, place, random_of(name, seed), seconds)] += 1
            except BaseException:
                print(repeat(seed, keyword(name)))
                raise
    print(f"\n{name}: {dict(ends)}")
    assert IS_REPEATED or ends["interrupted"]


def test_a_child_plans_while_threads_of_its_parent_plan(tmp_path: Path) -> None:
    """2,000 forks in a run of 10,000 faults."""
    place, stop, random = LocalPlace(tmp_path), threading.Event(), Random(SEED)
    prepare(place)
    # Python's locks of modules that another thread imports are never released in a child.
    bp.read_table(place.root, "s = 'v007'")

    def plan() -> None:
        while not stop.is_set():
            forget()
            bp.read_table(place.root, "s = 'v007'")

    threads = [threading.Thread(target=plan) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(NUMBER // 5 or 10):
            stop.wait(random.uniform(0, 0.01))
            child = os.fork()
            if child == 0:
                signal.alarm(60)  # ends a child that hangs
                os._exit(bp.read_table(place.root, "s = 'v061'").num_rows != 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
