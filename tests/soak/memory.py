"""Whether a quantity that is sampled over a run stays flat.

The first fifth of the samples is the warm-up: classes are loaded, caches fill. The quantity is flat if the median of
the last fifth is at most 10 % above that of the second fifth, or above it by no more than a slack that is named, for
small counts. Less is always flat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

TOLERANCE = 0.10
LEAST_SAMPLES = 10


@dataclass(frozen=True)
class Trend:
    """The medians of the second and of the last fifth."""

    early: float
    late: float
    slack: float = 0.0

    @property
    def growth(self) -> float:
        return self.late / self.early - 1 if self.early else 0.0

    @property
    def is_flat(self) -> bool:
        return self.growth <= TOLERANCE or self.late - self.early <= self.slack


def trend(samples: Sequence[float], slack: float = 0.0) -> Trend | None:
    """The trend of samples in the order of time; None if there are too few."""
    if len(samples) < LEAST_SAMPLES:
        return None
    fifth = len(samples) // 5
    return Trend(median(samples[fifth : 2 * fifth]), median(samples[-fifth:]), slack)
