"""Filters that are read whole: all of a column, or one; and which of them stay in memory."""

from __future__ import annotations

import numpy as np
import pytest

from bloomparquet.planning.parquet import filters as parquet_filters
from tests.support.filters_in_memory import LARGE, MIXED, SMALL, Chunk, Column, encrypted


@pytest.mark.parametrize("which", [set(), {0, 2}, {1, 2, 3}])
@pytest.mark.parametrize("batch_bytes", [64, 20_000, 300_000, 1 << 24])
def test_all_filters_are_read_whole(batch_bytes: int, which: set[int]) -> None:
    column = Column(encrypted(which), batch_bytes=batch_bytes)
    bits = {i: chunk.bloom.to_bytes() for i, chunk in enumerate(column.chunks) if chunk.values.stop}
    for _ in range(2):
        read: dict[int, bytes] = {}
        sizes = list[int]()
        for chunk, bitset in column.filters.read_all(column.storage, column.count):
            assert chunk not in read
            read[chunk] = bitset.tobytes()
            sizes += [size for _, size in column.storage.take_reads()]
        assert read == bits
        assert max(sizes, default=0) <= batch_bytes + 32 * (LARGE + 4), "one filter may be larger than a batch"
        column.ask_all(20)  # finds those without a bit
        column.storage.take_reads()


def test_the_size_of_usable_filters_is_known() -> None:
    column = Column(MIXED)
    sizes = [32 * chunk.n_blocks for chunk in column.chunks]
    assert column.filters.measure(column.storage, column.count) == sum(sizes)
    column.ask_all(20)
    assert column.filters.measure(column.storage, column.count) == sum(sizes) - sizes[5] - sizes[7] - sizes[11]


def test_filters_in_memory_are_not_read_again() -> None:
    column = Column([[Chunk(LARGE, slice(0, 400))] + [Chunk(SMALL, slice(i, i + 1)) for i in range(3)]])
    assert column.filters.measure(column.storage, column.count) == 32 * (LARGE + 3 * SMALL)
    assert len(column.storage.take_reads()) == 4
    bitsets = dict(column.filters.read_all(column.storage, column.count))
    assert list(bitsets) == [1, 2, 3, 0]
    assert all(bits.tobytes() == column.chunks[i].bloom.to_bytes() for i, bits in bitsets.items())
    assert column.storage.take_reads() == [(int(column.offset[0]) + column.header[0], 32 * LARGE)]


def test_single_filters_are_read_whole() -> None:
    column = Column(MIXED)
    before = column.count.requests
    for i in (4, 0, 1, 6, 2, 8, 6, 9):
        bits = column.filters.read(column.storage, i, column.count)
        chunk = column.chunks[i]
        if not chunk.n_blocks:
            assert bits is None
            continue
        assert (bits.tobytes(), bits.dtype, bits.ndim) == (chunk.bloom.to_bytes(), np.uint8, 1)
    assert column.count.requests - before == len(column.storage.reads) == 7 + 2 + 1 - 1


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
