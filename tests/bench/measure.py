"""Fair timing on a shared machine: contenders take turns, and are compared within each round.

The order rotates between rounds, a ratio is the median of the ratios of all rounds, and garbage is collected between
runs. pytest-benchmark is not used because it finishes one contender before it begins the next.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Contender:
    """`run` is timed, `before` is not. Both take the number of the round."""

    name: str
    run: Callable[[int], Any]
    before: Callable[[int], Any] | None = None


@dataclass(frozen=True)
class Timing:
    """The seconds of each round, elapsed and of all cores together, and the result of the last run."""

    name: str
    seconds: tuple[float, ...]
    cpu_seconds: tuple[float, ...]
    result: Any = field(repr=False)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def times_faster_than(self, other: Timing) -> float:
        return statistics.median(theirs / ours for ours, theirs in zip(self.seconds, other.seconds, strict=True))


def take_turns(
    contenders: Sequence[Contender], rounds: int, agree: Callable[[int, Any], Any] | None = None, *, warm_up: int = 1
) -> dict[str, Timing]:
    """Run each contender in `warm_up` rounds that are not timed, then in `rounds` rounds. Returns timings by name.

    A single round, which only shows that all of it runs, has no warm-up.

    ``agree(round, result)`` raises if a result is wrong. It checks every result, and is not timed.
    """
    seconds: dict[str, list[tuple[float, float]]] = {contender.name: [] for contender in contenders}
    results: dict[str, Any] = {}
    for number in range(-warm_up if rounds > 1 else 0, rounds):
        shift = number % len(contenders)
        for contender in [*contenders[shift:], *contenders[:shift]]:
            if contender.before is not None:
                contender.before(number)
            results.pop(contender.name, None)
            gc.collect()
            began, began_cpu = time.perf_counter(), time.process_time()
            result = contender.run(number)
            took = time.perf_counter() - began, time.process_time() - began_cpu
            if agree is not None:
                agree(number, result)
            results[contender.name] = result
            if number >= 0:
                seconds[contender.name].append(took)
    timings = {}
    for name, taken in seconds.items():
        elapsed, of_cores = zip(*taken, strict=True)
        timings[name] = Timing(name, elapsed, of_cores, results[name])
    return timings


@dataclass(frozen=True)
class Aim:
    """The target of a measurement, and whether it is reached."""

    text: str
    met: bool


@dataclass(frozen=True)
class Row:
    """One line of the report, in milliseconds. `ratios` compare with contenders of the same rounds."""

    group: str
    case: str
    contender: str
    figure: float
    low: float
    high: float
    rounds: int
    cpu_ms: float  # of one run, median
    ratios: dict[str, float] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)
    aims: tuple[Aim, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def milliseconds(group: str, case: str, timing: Timing, **more: Any) -> Row:
    taken = [1e3 * second for second in timing.seconds]
    cpu = 1e3 * statistics.median(timing.cpu_seconds)
    return Row(group, case, timing.name, 1e3 * timing.median, min(taken), max(taken), len(taken), cpu, **more)


def compared(group: str, case: str, timings: Mapping[str, Timing], least: Mapping[str, float]) -> Iterator[Row]:
    """A row for each timing. The first is compared with those in `least`, and aims to be so many times as fast, if the
    number is not 0."""
    first, *others = timings.values()
    ratios = {name: first.times_faster_than(timings[name]) for name in least}
    aims = tuple(
        Aim(f">= {times:.2g}x as fast as {name}", ratios[name] >= times) for name, times in least.items() if times
    )
    yield milliseconds(group, case, first, ratios=ratios, aims=aims)
    for timing in others:
        yield milliseconds(group, case, timing)
