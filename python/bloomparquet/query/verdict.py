"""What can be said of a row group, and how And and Or combine it.

Verdicts of many row groups are boolean arrays whose True is :attr:`Verdict.MIGHT_MATCH`. Predicates arrive in
negation normal form, where no Not stands above And or Or; so evidence only ever has to answer one question, "might
this be TRUE for some row?", and each kind of evidence about a leaf (partition value, statistics, filter) can exclude
it on its own before And and Or are applied. That is what lets ``a = 1 OR b = 2`` be skipped when statistics exclude
`a` and a filter excludes `b`.
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
    """`CANNOT_MATCH` is a proof that no row matches; `MIGHT_MATCH` is everything else."""

    CANNOT_MATCH = "cannot match"
    MIGHT_MATCH = "might match"


class Reason(str, Enum):
    """The cheapest kind of evidence that sufficed to skip a row group."""

    PARTITION = "partition"
    STATISTICS = "statistics"
    BLOOM = "bloom"


def might_match(predicate: Predicate, alive: Verdicts, judge: Callable[[Predicate, Verdicts], Verdicts]) -> Verdicts:
    """Which of the `alive` row groups might hold a row for which `predicate` (in negation normal form) is TRUE.

    ``judge(leaf, alive)`` answers for a leaf, and is asked only about row groups that the answer still matters for:
    And narrows from child to child, Or asks its next child only about what no child has kept yet.
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
