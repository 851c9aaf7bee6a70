"""The positions of the row groups or stripes of some files, in a table that holds them file after file."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def positions_of(first: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The concatenation of ``range(first[i], first[i] + counts[i])`` for every i."""
    ends = np.cumsum(counts)
    return np.repeat(first - (ends - counts), counts) + np.arange(ends[-1] if len(ends) else 0)
