"""How kept row groups are read is chosen by cost."""

from __future__ import annotations

import numpy as np
import pytest

from bloomparquet.reading.cost import MatchedShare

ROWS, COLUMN_BYTES = 1_000_000, 8_000_000


@pytest.mark.parametrize(
    ("matches", "is_large"),
    [
        (range(0, ROWS, 100), True),
        (range(0, ROWS, 1_000), False),
        (range(100_000), False),
        (range(1_000_000), True),
        ((), False),
    ],
    ids=["spread", "few", "in one place", "all", "none"],
)
def test_many_matches_in_most_pages_are_read_as_by_a_scan(matches: range, is_large: bool) -> None:
    share = MatchedShare()
    share.note(np.array(matches, np.int64), ROWS, COLUMN_BYTES)
    assert share.is_large == is_large
