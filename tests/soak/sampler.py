"""Samples the memory and the open files of a run's processes, by role."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.soak.memory import trend
from tests.soak.processes import CLIENT, DRIVER, EXECUTOR, PLANNER, PYTHON_WORKER, running

ROLES = (DRIVER, CLIENT, PLANNER, EXECUTOR, PYTHON_WORKER)
JVMS = (DRIVER, EXECUTOR)
_FREE_TO_VARY = {
    "open files of Python worker", "memory of Python worker", *(f"memory of {role}" for role in JVMS)
}  # fmt: skip
"""Shown, not judged. Spark starts and ends Python workers as tasks need them. JVMs extend their heap as they like: the
objects that are alive in it are judged."""

_HEAPS_EVERY = 5
"""A JVM stops to count its objects, so it does so less often."""
_SLACK_OF_OPEN_FILES = 8
_CLASSES = 8


@dataclass
class Sampler:
    """The series of each quantity: the largest value among the processes of a role, at each sample."""

    mark: str
    series: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    _heaps: dict[str, list[dict[str, int]]] = field(default_factory=lambda: defaultdict(list))
    _samples: int = 0

    def sample(self) -> None:
        processes = running(self.mark)
        for role in ROLES:
            of_role = [process for process in processes if process.role == role]
            if of_role:
                self.series[f"memory of {role}"].append(max(process.resident_bytes() for process in of_role))
                self.series[f"open files of {role}"].append(max(process.open_files() for process in of_role))
            if of_role and role in JVMS and self._samples % _HEAPS_EVERY == 0:
                heap = max((process.live_objects() for process in of_role), key=lambda objects: sum(objects.values()))
                if heap:
                    self.series[f"live heap of {role}"].append(sum(heap.values()))
                    self._heaps[f"live heap of {role}"].append(heap)
        self._samples += 1

    def report(self) -> Iterator[tuple[str, bool]]:
        """A line for each quantity, and whether it grew."""
        for name, samples in self.series.items():
            found = trend(samples, _SLACK_OF_OPEN_FILES if name.startswith("open files") else 0.0)
            if found is None:
                yield f"{name}: {len(samples)} samples are too few", False
                continue
            unit, size = ("", 1) if name.startswith("open") else (" MiB", 1 << 20)
            text = f"{found.early / size:.0f}{unit} -> {found.late / size:.0f}{unit} ({found.growth:+.1%})"
            grew = not found.is_flat and name not in _FREE_TO_VARY
            classes = f"; {_grown(self._heaps[name])}" if grew and name in self._heaps else ""
            yield f"{name}: {text}, {len(samples)} samples{classes}", grew


def _grown(heaps: list[dict[str, int]]) -> str:
    """The classes that grew most from the end of the warm-up to the end."""
    early, late = heaps[len(heaps) // 5], heaps[-1]
    grown = {name: size - early.get(name, 0) for name, size in late.items()}
    largest = sorted(grown, key=grown.__getitem__, reverse=True)[:_CLASSES]
    return ", ".join(f"{name} +{grown[name]:,}" for name in largest)
