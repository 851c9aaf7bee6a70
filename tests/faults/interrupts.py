"""Interrupts public calls at random moments, as Ctrl-C and ``signal.alarm`` do."""

from __future__ import annotations

import faulthandler
import gc
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import bloomparquet as bp
from bloomparquet.planning.index.manifest import DIRECTORY
from tests.faults.work import GROUP, ROWS, WHERE, WORKS, LocalPlace, Work, data_names, forget, prepare, read, unlogged

HANGING_SECONDS = 120


def plan(place: Any) -> None:
    for value in (7, 61, 500):
        assert bp.plan(place.root, f"s = 'v{value:03}'").kept == (value < 120)


def scan(place: Any) -> None:
    with bp.scan_batches(place.root, WHERE, ["id"]) as batches:
        assert sorted(batches.read_all()["id"].to_pylist()) == ROWS


def inspect(place: Any) -> None:
    assert bp.inspect(f"{place.root}/a.parquet").num_rows == 60 // GROUP


def probe(place: Any) -> None:
    found = bp.probe(place.root, column="s", value="v061")
    assert sum(str(each.verdict).endswith("MIGHT_MATCH") for each in found) == 1


def advise(place: Any) -> None:
    assert bp.advise(place.root).columns


INTERRUPTED = {
    **{name: work for name, work in WORKS.items() if "leaving" not in name},
    **{each.__name__: Work(prepare, each) for each in (plan, scan, inspect, probe, advise)},
}


@contextmanager
def hangs_are_fatal() -> Iterator[None]:
    """End this process, with the stack of each thread, if the block takes minutes."""
    faulthandler.dump_traceback_later(HANGING_SECONDS, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def seconds_of(work: Work, place: LocalPlace) -> float:
    work.prepare(place)
    forget()
    began = time.perf_counter()
    work.run(place)
    return time.perf_counter() - began


def interrupt(work: Work, place: LocalPlace, random: Random, seconds: float) -> str:
    """Interrupt `work`, which takes about so many seconds, once. Check what it leaves, and do it again."""
    work.prepare(place)
    if random.random() < 0.5:
        forget()
    before = {name: place.read(name) for name in place.names()}
    end = _interrupted(work, place, random.uniform(0, seconds))
    names, after = place.names(), work.after()
    for name in names - {each for each in names if each.startswith((DIRECTORY, "_cache"))}:
        assert name in before or name in after, f"{name} is left; {end}"
        assert place.read(name) in (before.get(name), after.get(name)), f"{name}; {end}"
    left = {name for name in names if name.endswith(("-tmp", ".building", ".lock")) or "unfinished" in name}
    assert not left, f"{left}; {end}"
    with unlogged():
        read(place)
        work.run(place)
        read(place)
    forget()  # an index stays open
    if place.open_files():
        gc.collect()
    assert not place.open_files(), f"{place.open_files()} are open; {end}"
    assert {name for name in place.names() if not name.startswith((DIRECTORY, "_cache"))} == data_names(before, after)
    return end


def _interrupted(work: Work, place: LocalPlace, seconds: float) -> str:
    armed = [True]

    def handle(*_: object) -> None:
        if armed:
            armed.clear()
            raise KeyboardInterrupt

    former = signal.signal(signal.SIGALRM, handle)
    try:
        with unlogged():
            signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))
            work.run(place)
            armed.clear()
            return "done"
    except KeyboardInterrupt:
        return "interrupted"
    finally:
        armed.clear()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
