"""Verdicts on row groups, and how And and Or combine them.

The verdicts of many row groups are a boolean array, True for :attr:`Verdict.MIGHT_MATCH`. Predicates are in negation
normal form: no Not stands above And or Or. So evidence answers one question only, "might this be TRUE for some row?",
and each kind of evidence (partition value, statistics, Bloom filter) can exclude a leaf predicate by itself. For
``a = 1 OR b = 2``, statistics may exclude `a` and a filter `b`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from bloomparquet.query.predicate import Always, And, Or, Predicate

Verdicts = NDArray[np.bool_]
"""One verdict per row group, shape (row groups,); True is MIGHT_MATCH."""


class Verdict(Enum):
    """A verdict on a row group. `CANNOT_MATCH` is a proof that no row matches; `MIGHT_MATCH` is everything else."""

    CANNOT_MATCH = "cannot match"
    MIGHT_MATCH = "might match"


class Reason(str, Enum):
    """The cheapest kind of evidence that sufficed to skip a row group."""

    PARTITION = "partition"
    STATISTICS = "statistics"
    BLOOM = "bloom"


def might_match(predicate: Predicate, alive: Verdicts, judge: Callable[[Predicate, Verdicts], Verdicts]) -> Verdicts:
    """The mask of the `alive` row groups that might hold a row for which `predicate`, in negation normal form, is TRUE.

    ``judge(leaf, alive)`` answers for a leaf predicate. It is asked only about row groups that its answer can change:
    And narrows them from child to child, and Or passes on those that no child has kept yet.
    """
    if isinstance(predicate, And):
        for child in predicate.children:
            if not alive.any():
                break
            alive = might_match(child, alive, judge)
        return alive
    if isinstance(predicate, Or):
        kept = np.zeros_like(alive)
        for child in predicate.children:
            undecided = alive & ~kept
            if not undecided.any():
                break
            kept |= might_match(child, undecided, judge)
        return kept
    if isinstance(predicate, Always):
        return alive if predicate.value else np.zeros_like(alive)
    return alive & judge(predicate, alive)
