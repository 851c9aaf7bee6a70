"""The evidence that decided about each row group or stripe of a plan."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bloomparquet.query.verdict import DECISIONS, Codes, Decision

WHOLE_FILE = -1
"""The row group of a file that is one entry, because its footer was not read."""


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
