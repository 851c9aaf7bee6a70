"""A clock for the memory of looks for an index."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bloomparquet.planning.index import lookup
from bloomparquet.planning.index.lookup import forget_indexes
from tests.support.index_lookups import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    """The clock of looks for an index. No index is remembered before the test and after it."""
    forget_indexes()
    clock = Clock()
    monkeypatch.setattr(lookup, "time", clock)
    yield clock
    forget_indexes()
