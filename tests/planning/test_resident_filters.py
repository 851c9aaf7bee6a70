"""Filters that were read and stay in memory: which ones, within which bound, and what they serve."""

from __future__ import annotations

import pytest

from bloomparquet.planning.parquet import filters as parquet_filters
from tests.support.filters_in_memory import MIXED, Chunk, Column


@pytest.mark.parametrize("room", [0, 1, 2, 4])
def test_bitsets_are_kept_up_to_a_bound(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If not all of the larger ones fit, only those that come with the first read are kept."""
    monkeypatch.setattr(parquet_filters, "RESIDENT_BYTES", room * 32 * 128)
    column = Column([[Chunk(128, slice(i, i + 1)) for i in range(3)]])
    assert column.ask_all(20) == [False] * 3
    assert [size for _, size in column.storage.take_reads()][:3] == [len(chunk.data) for chunk in column.chunks]
    one_by_one = Column([[Chunk(128, slice(i, i + 1)) for i in range(3)]])
    for i in range(3):
        assert one_by_one.ask([i], [20], [21]) == [False]
    for each in (column, one_by_one):
        assert (each.filters.facts.resident_at >= 0).tolist() == [i < room for i in range(3)]
    assert column.ask_all(21) == [False] * 3
    assert len(column.storage.take_reads()) == max(0, 3 - room)
    assert [column.ask_all(i).index(True) for i in range(3)] == [0, 1, 2]
    for part in ((0, 1, 2), (1,), (2, 0)):
        assert [column.ask([i], [i], [i + 1]) for i in part] == [[True]] * len(part)


def test_what_was_read_serves_another_table() -> None:
    column = Column(MIXED)
    revisions = [column.filters.revision]
    for value in (20, 21):
        column.ask_all(value)
        revisions.append(column.filters.revision)
    assert revisions[0] < revisions[1] == revisions[2]
    assert column.filters.loaded_revision == revisions[0]
    known, answers = column.filters.facts, column.ask_all(20)
    column.storage.take_reads()
    column.filters = column.store(known)
    assert column.filters.loaded_revision == column.filters.revision == revisions[1]
    assert column.ask_all(20) == answers
    assert {size for _, size in column.storage.take_reads()} == {32}, "no header, and no filter that is in memory"
    assert set(column.filters.errors) == {5, 11}
