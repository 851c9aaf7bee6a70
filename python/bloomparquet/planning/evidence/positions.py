"""Positions of elements that lie in runs: the row groups of files, the stripes of files."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def positions_of(first: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers from ``first[i]`` to ``first[i] + counts[i]`` of every i, one run after another."""
    ends = np.cumsum(counts)
    return np.repeat(first - (ends - counts), counts) + np.arange(ends[-1] if len(ends) else 0)
