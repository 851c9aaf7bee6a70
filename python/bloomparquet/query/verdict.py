"""What evidence says of row groups, and how And and Or combine it.

Predicates are in negation normal form: no Not stands above And or Or. So evidence answers one question only, "might
this be TRUE for some row?", and each kind of evidence (partition value, statistics, Bloom filter) can exclude a leaf
predicate by itself. For ``a = 1 OR b = 2``, statistics may exclude `a` and a filter `b`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from bloomparquet.query.predicate import Always, And, Not, Opaque, Or, Predicate

Verdicts = NDArray[np.bool_]
"""One verdict per row group, shape (row groups,); True is MIGHT_MATCH."""


class Verdict(Enum):
    """A verdict on a row group. `CANNOT_MATCH` is a proof that no row matches; `MIGHT_MATCH` is everything else."""

    CANNOT_MATCH = "cannot match"
    MIGHT_MATCH = "might match"


class Decision(str, Enum):
    """Why a row group, a stripe or a file is read or skipped: the cheapest evidence that sufficed.

    `CONSTANT` stands for a predicate that is TRUE for no row of any file, `NULLS` for null counts and row counts,
    `INDEX` for a Bloom filter that is in an index, and `BLOOM` for one in the file itself.
    """

    READ = "read"
    CONSTANT = "constant"
    PARTITION = "partition"
    NULLS = "nulls"
    BOUNDS = "min/max"
    INDEX = "index"
    BLOOM = "bloom"

    def __init__(self, _: str) -> None:
        self.code = len(type(self).__members__)
        """The index in :data:`DECISIONS`: 0 for `READ`, more for more expensive evidence."""


DECISIONS: tuple[Decision, ...] = tuple(Decision)

Codes = NDArray[np.uint8]
"""One decision per row group, shape (row groups,): an index into :data:`DECISIONS`. 0 is MIGHT_MATCH; all else names
the evidence that proves CANNOT_MATCH."""

_CONSTANT = Decision.CONSTANT.code


def decide(predicate: Predicate, alive: Verdicts, judge: Callable[[Predicate, Verdicts], Codes]) -> Codes:
    """The cheapest evidence that excludes each row group: in none of its rows is `predicate`, in negation normal form,
    TRUE. 0 where there is no proof, or where nobody looked for one, because the row group is not `alive`.

    ``judge(leaf, alive)`` answers for a leaf predicate. It is asked only if its answer can change a decision: And asks
    its next child about those that no child has excluded, and Or about those that every child has excluded.
    """
    if isinstance(predicate, And):
        codes = np.zeros(len(alive), np.uint8)
        for child in predicate.children:
            undecided = alive & (codes == 0)
            if not undecided.any():
                break
            codes = cheapest(codes, decide(child, undecided, judge))
        return codes
    if isinstance(predicate, Or):
        codes = np.full(len(alive), _CONSTANT, np.uint8)
        for child in predicate.children:
            undecided = alive & (codes != 0)
            if not undecided.any():
                return np.zeros(len(alive), np.uint8)
            codes = greatest(codes, decide(child, undecided, judge))
        return codes
    if isinstance(predicate, Always):
        return np.full(len(alive), 0 if predicate.value else _CONSTANT, np.uint8)
    if isinstance(predicate.child if isinstance(predicate, Not) else predicate, Opaque):
        return np.zeros(len(alive), np.uint8)
    return judge(predicate, alive)


def cheapest(codes: Codes, others: Codes) -> Codes:
    """The cheaper evidence of two for each row group: the least code that is not 0."""
    one = np.uint8(1)
    least: Codes = np.minimum(codes - one, others - one) + one  # 0 wraps around to the greatest
    return least


def greatest(codes: Codes, others: Codes) -> Codes:
    """The more expensive evidence of two for each row group; 0 if one of them is 0."""
    combined: Codes = np.where((codes == 0) | (others == 0), np.uint8(0), np.maximum(codes, others))
    return combined
