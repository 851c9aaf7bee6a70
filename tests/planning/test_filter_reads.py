"""Filters of a column: every answer is that of the filter, and reads are small and few."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from bloomparquet.errors import FormatError
from bloomparquet.parquet.bloom_filter.split_block import block_index
from bloomparquet.planning.parquet import filters as parquet_filters
from tests.support.filters_in_memory import BLOCKS, FIRST_READ, HASHES, LARGE, SMALL, Chunk, Column, encrypted, expected


@pytest.mark.parametrize("which", [set(), {0, 2}, {1, 2, 3}])
@pytest.mark.parametrize(("gap", "batch_bytes"), [*product((0, 64, 8192), (64, 20_000, 1 << 24))])
def test_every_answer_is_that_of_the_filter(gap: int, batch_bytes: int, which: set[int]) -> None:
    rng = np.random.default_rng(gap + batch_bytes)
    column = Column(encrypted(which), merge_gap=gap, batch_bytes=batch_bytes)
    skipped = 0
    for most in (1, 1, 3, 40, 400, 3_000):
        chunks = rng.permutation(len(column.chunks))[: rng.integers(6, 13)].tolist()
        first = rng.integers(0, 3_000, len(chunks)).tolist()
        last = [begin + int(rng.integers(1, most + 1)) for begin in first]
        answers = column.ask(chunks, first, last)
        assert answers == [expected(column.chunks[chunk], *pair) for chunk, *pair in zip(chunks, first, last)]
        skipped += answers.count(False)
    assert skipped
    for i, chunk in enumerate(column.chunks):
        if chunk.values.stop:
            assert column.ask([i], [chunk.values.stop - 1], [chunk.values.stop]) == [True]
    assert set(column.filters.errors) == {5, 11}  # not those without a value


@pytest.mark.parametrize("n_blocks", [64, LARGE])
@pytest.mark.parametrize("at", [0, 31, 32, 287, 288, 2_335, 2_336, 2_999])
def test_no_value_of_a_long_list_is_left_out(n_blocks: int, at: int) -> None:
    """Filters are asked for 32, 256, 2,048 and all other values, and no further if one passes."""
    column = Column([[Chunk(n_blocks, slice(2_000 + at, 2_001 + at)), Chunk(n_blocks, slice(0, 1))]])
    assert column.ask([0, 1], [2_000, 2_000], [5_000, 5_000]) == [True, False]
    assert column.ask([0], [2_000], [2_000 + at]) == [False]
    assert column.ask([0], [2_001 + at], [5_000]) == [False]


@pytest.mark.parametrize("blocks", [1, 4, 127, 128, 129, 500, 512, 513])
@pytest.mark.parametrize("has_length", [True, False])
def test_the_first_read_takes_the_header_and_small_bitsets(blocks: int, has_length: bool) -> None:
    column = Column([[Chunk(blocks, slice(0, 9), has_length), Chunk(LARGE, slice(0, 9))]])
    whole = column.header[0] + 32 * blocks
    is_small = whole <= 4 * 4096 + 64
    first = max(whole, 64) if has_length and is_small else FIRST_READ
    block = int(block_index(HASHES[20:21], blocks)[0])
    at = int(column.offset[0])
    expected = [(at, first)]
    if not whole <= first:
        expected.append((at + column.header[0] + 32 * block, 32))
    assert not column.ask([0], [20], [21])[0]
    assert column.storage.take_reads() == expected
    assert (column.count.requests, column.count.bytes) == (len(expected), sum(size for _, size in expected))
    block = int(block_index(HASHES[21:22], blocks)[0])
    assert not column.ask([0], [21], [22])[0]
    assert column.storage.take_reads() == ([(at + column.header[0] + 32 * block, 32)] if expected[1:] else [])


def test_a_filter_as_small_as_a_gap_is_read_once() -> None:
    column = Column([[Chunk(LARGE, slice(0, 9))] * 3], merge_gap=32 * LARGE + 64)
    assert column.ask_all(20) == column.ask_all(21) == [False] * 3
    assert column.storage.take_reads() == spans(column, [[0, 1, 2]], 0, column.header[0] + 32 * LARGE)


def test_a_bitset_is_read_whole_if_its_blocks_cost_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block costs half a gap, within which reads are merged, and itself. None is read for a copy here."""
    monkeypatch.setattr(parquet_filters, "_COPIED_BYTES", 0)
    cost = 4096
    values = 32 * LARGE // cost
    for asked, is_whole in ((values - 1, False), (values, True)):
        column = Column([[Chunk(LARGE, slice(0, 400))] * 2], merge_gap=2 * (cost - 32))
        assert column.ask([0, 1], [5_000, 5_900], [5_000 + asked, 5_901]) == [False, False]
        bitsets = [(int(column.offset[i]) + column.header[i], 32 * LARGE) for i in (0, 1)]
        reads = column.storage.take_reads()
        assert [bitset in reads for bitset in bitsets] == [is_whole, False]


def spans(column: Column, groups: Sequence[Sequence[int]], begin: int, size: int) -> list[tuple[int, int]]:
    """One read for the chunks of each group, from `begin` bytes after the first filter's offset on."""
    starts = [(int(column.offset[group[0]]) + begin, int(column.offset[group[-1]]) + begin) for group in groups]
    return [(first, last - first + size) for first, last in starts]


def test_filters_are_read_in_batches() -> None:
    """Headers, blocks and bitsets: all that begin in the same `batch_bytes`. Those of a batch are merged here."""
    chunk = Chunk(LARGE, slice(0, 400), has_length=False)
    column = Column([[chunk] * 5], merge_gap=33 * LARGE, batch_bytes=9_000)
    assert column.ask_all(5_000) == [False] * 5
    block = 32 * int(block_index(HASHES[5_000:5_001], LARGE)[0])
    headers = spans(column, [[0, 1], [2, 3], [4]], 0, FIRST_READ)
    blocks = spans(column, [[i] for i in range(5)], column.header[0] + block, 32)
    assert column.storage.take_reads() == headers + blocks
    column = Column([[chunk] * 5], merge_gap=33 * LARGE, batch_bytes=2 * 32 * LARGE)
    assert column.ask_all(5_000) == [False] * 5
    cost = 33 * LARGE // 2 + 32
    first = [i * cost // column.storage.batch_bytes for i in range(5)]
    groups = [[i for i in range(5) if first[i] == batch] for batch in sorted(set(first))]
    assert column.storage.take_reads()[-len(groups) :] == spans(column, groups, column.header[0] + block, 32)
    column = Column([[chunk] * 5], merge_gap=33 * LARGE, batch_bytes=2 * 32 * LARGE)
    assert column.ask_all(5_000, 5_010) == [False] * 5
    assert column.storage.take_reads()[1:] == spans(column, [[0, 1], [2, 3], [4]], column.header[0], 32 * LARGE)


def test_a_filter_is_read_whole_once_its_blocks_cost_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """In all lookups together. A copy is kept then. Filters in memory need none, and take no part of the bound."""
    cost, n_lookups = 8_192, 32 * LARGE // 8_192
    monkeypatch.setattr(parquet_filters, "_COPIED_BYTES", 32 * LARGE)
    column = Column([[Chunk(SMALL, slice(0, 9)), Chunk(LARGE, slice(0, 400))]], merge_gap=2 * (cost - 32))
    whole = (int(column.offset[1]) + column.header[1], 32 * LARGE)
    lookups = []
    for value in range(5_000, 5_000 + 2 * n_lookups):
        assert column.ask_all(value) == [False, False]
        lookups.append(whole in column.storage.take_reads())
    assert [i for i, is_whole in enumerate(lookups, 1) if is_whole] == [n_lookups]


@pytest.mark.parametrize("block", BLOCKS)
def test_a_filter_is_read_on_until_a_bit_is_set(block: int) -> None:
    value, other = (len(HASHES) - len(BLOCKS) + BLOCKS.index(each) for each in (block, 100 if block == 0 else 0))
    column = Column([[Chunk(LARGE, slice(value, value + 1), has_length=False)] * 2])
    assert column.ask_all(other) == [False, False]
    bit_at = column.header[0] + 32 * block
    sizes = [FIRST_READ, 32]
    for begin, end in ((1, 5), (5, 21), (21, 85)):
        if bit_at >= begin * FIRST_READ:
            sizes.append(min(end * FIRST_READ, column.header[0] + 32 * LARGE) - begin * FIRST_READ)
    assert [size for _, size in column.storage.take_reads()] == [size for size in sizes for _ in range(2)]
    assert not column.filters.errors
    assert column.ask_all(other) == [False, False]
    assert [size for _, size in column.storage.take_reads()] == [32, 32]
    assert column.ask_all(value) == [True, True]


def test_filters_without_a_bit_are_read_in_batches() -> None:
    """Each of them to its end. Then they are never read again, and their row groups are kept."""
    empty = Chunk(LARGE, slice(0), has_length=False)
    column = Column(
        [[empty] * 3 + [Chunk(2 * LARGE, slice(0), False, filled=False)]], merge_gap=33 * LARGE, batch_bytes=280_000
    )
    assert column.ask_all(20) == [True] * 4
    reads = column.storage.take_reads()
    assert reads[0] == spans(column, [range(4)], 0, FIRST_READ)[0]
    assert len(reads) == 2 + 2 + 4, "headers and blocks; two steps of all filters; a step of each"
    assert reads[2:4] == [spans(column, [range(4)], at * FIRST_READ, n * FIRST_READ)[0] for at, n in ((1, 4), (5, 16))]
    ends = column.header[0] + 32 * np.array([LARGE] * 3 + [2 * LARGE])
    assert reads[4:] == [(int(column.offset[i]) + 21 * FIRST_READ, int(ends[i]) - 21 * FIRST_READ) for i in range(4)]
    assert {chunk: str(error) for chunk, error in column.filters.errors.items()} == {
        i: f"0.parquet: row group {i}, column x: its Bloom filter cannot be used: "
        "no bit of it is set although the column has values; it was never filled"
        for i in range(3)
    }
    assert column.ask_all(21, 5_000) == [True] * 4
    assert column.storage.take_reads() == []
    assert column.filters.read(column.storage, 3, column.count) is None
    with pytest.raises(FormatError, match="no bit of it is set"):
        column.filters.read(column.storage, 0, column.count)


def test_an_empty_filter_that_is_read_whole_is_not_copied() -> None:
    """A copy without a bit would exclude every value."""
    column = Column([[Chunk(LARGE, slice(0)), Chunk(LARGE, slice(0, 400))]], merge_gap=4096)
    sizes = []
    for value, until in ((5_000, 5_200), (5_000, 5_001), (5_200, 5_400), (5_001, 5_002)):
        assert column.ask_all(value, until) == [True, False]
        sizes.append(column.filters.facts.folded.cached_bytes)
    assert sizes[0] > 0
    assert sizes == [sizes[0]] * 4, "a filter is copied once"
