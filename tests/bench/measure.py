"""Fair timing on a shared machine: contenders take turns, and are compared within each round.

The order rotates between rounds, a ratio is the median of the ratios of all rounds, and garbage is collected between
runs. pytest-benchmark is not used because it finishes one contender before it begins the next.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
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
    contenders: Sequence[Contender],
    rounds: int,
    agree: Callable[[int, Any], Any] | None = None,
    *,
    warm_up: int = 1,
) -> dict[str, Timing]:
    """Run each contender in `warm_up` rounds that are not timed, then in `rounds` rounds. Returns timings by name.

    ``agree(round, result)`` raises if a result is wrong. It checks every result, and is not timed.
    """
    seconds: dict[str, list[tuple[float, float]]] = {contender.name: [] for contender in contenders}
    results: dict[str, Any] = {}
    for number in range(-warm_up, rounds):
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
    """One line of the report: `figure` is in `unit`, and `ratios` compare with contenders of the same rounds."""

    group: str
    case: str
    contender: str
    figure: float
    unit: str  # "ms" or "M/s"
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
    return Row(group, case, timing.name, 1e3 * timing.median, "ms", min(taken), max(taken), len(taken), cpu, **more)


def millions_per_second(group: str, case: str, timing: Timing, items: int, **more: Any) -> Row:
    """Items per second of processor time."""
    speeds = [items / second / 1e6 for second in timing.cpu_seconds]
    return Row(
        group,
        case,
        timing.name,
        statistics.median(speeds),
        "M/s",
        min(speeds),
        max(speeds),
        len(speeds),
        1e3 * statistics.median(timing.cpu_seconds),
        **more,
    )
