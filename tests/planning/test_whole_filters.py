"""Filters that are read whole: all of a column, or one."""

from __future__ import annotations

import numpy as np
import pytest

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
        assert bits is not None
        assert (bits.tobytes(), bits.dtype, bits.ndim) == (chunk.bloom.to_bytes(), np.uint8, 1)
    assert column.count.requests - before == len(column.storage.reads) == 7 + 2 + 1 - 1
