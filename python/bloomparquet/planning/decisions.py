"""The evidence that decided about each row group or stripe of a plan, and its counts in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bloomparquet.planning.evidence.formats import Unit
from bloomparquet.query.verdict import DECISIONS, Codes, Decision

KEPT = Decision.READ.code
NO_FILTER, HAS_FILTER = 1, 2
PARTITION, STATISTICS, BLOOM = "partition", "statistics", "bloom"
REASONS = (None, STATISTICS, PARTITION, STATISTICS, STATISTICS, BLOOM, BLOOM)
"""By decision: the name of the evidence in counts and in :class:`RowGroup`; None if the row group is read."""

WHOLE_FILE = -1
"""The row group of a file that is one entry, because its footer was not read."""


class RowGroupCounts(NamedTuple):
    """Counts of the row groups within ORC stripes: all, those that might match, and those that evidence excludes.

    `by_statistics` counts statistics of the row group and of its stripe.
    """

    total: int
    kept: int
    by_statistics: int
    by_bloom: int


def describe_units(kept: int, total: int, skipped: Counter[str], unit: Unit = "row group") -> str:
    """``3 of 256 row groups kept; 90 skipped by statistics, 163 by Bloom filter``."""
    names = {STATISTICS: "by statistics", BLOOM: "by Bloom filter"}
    reasons = ", ".join(f"{skipped[reason]} {name}" for reason, name in names.items() if skipped[reason])
    return f"{kept} of {total} {unit}s kept; {reasons.replace(' ', ' skipped ', 1) or 'none skipped'}"


def describe_index(indexed: int, files: int) -> str:
    """``index: 9,998 of 10,000 files``."""
    return f"index: {indexed:,} of {files:,} files"


def describe_without_filters(counts: Mapping[str, int], total: int, unit: Unit = "row group") -> list[str]:
    """``95 of 157 row groups have no Bloom filter on user_id``, for each column."""
    return [f"{count:,} of {total:,} {unit}s have no Bloom filter on {column}" for column, count in counts.items()]


def count_decisions(decision: Codes) -> dict[Decision, int]:
    """The number of row groups with each decision; decisions without one are left out.

    `decision` are indexes into :data:`~bloomparquet.query.verdict.DECISIONS`.
    """
    counts = np.bincount(decision, minlength=len(DECISIONS)).tolist()
    return {decision: count for decision, count in zip(DECISIONS, counts, strict=True) if count}


class Decisions(NamedTuple):
    """The evidence that decided about the n row groups (stripes of ORC) of a plan, in the order of
    ``ScanPlan.row_groups``.

    Arrays of shape (n,). `file`: an index into ``plan.dataset.files``. `row_group`: the index in the file; -1 for a
    file that is one entry, because partition values skip it or its footer is unreadable. `decision`: an index into
    :data:`~bloomparquet.query.verdict.DECISIONS`.
    """

    file: NDArray[np.int64]
    row_group: NDArray[np.int64]
    decision: Codes

    def counts(self) -> dict[Decision, int]:
        """The number of row groups with each decision; decisions without one are left out."""
        return count_decisions(self.decision)

    def to_arrow(self) -> pa.Table:
        """The columns file, row_group (null for a file that is one entry), and decision as a dictionary of its
        names."""
        names = pa.array([decision.value for decision in DECISIONS])
        return pa.table(
            {
                "file": self.file,
                "row_group": pa.array(self.row_group, mask=self.row_group == WHOLE_FILE),
                "decision": pa.DictionaryArray.from_arrays(pa.array(self.decision.view(np.int8)), names),
            }
        )
