"""Transposed filters answer as the filters themselves, for every count of filters and of blocks."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import bloomparquet as bp
from bloomparquet.parquet.bloom_filter.split_block import BITS_PER_BLOCK, bit_positions
from bloomparquet.planning.evidence.bit_slices import (
    BitSlices,
    DamagedSliceError,
    SliceLayout,
    _Whole,
    restore,
    transpose,
)
from bloomparquet.storage.files import ReadCount

COUNTS = [*range(1, 18), 63, 64, 65, 511, 513, 2049, 4088, 4089, 4097, 4161, 8192, 8193]
BLOCKS = [1, 2, 3, 7, 8, 100]
SEED = 7


def filters(count: int, blocks: int) -> list[bp.SplitBlockBloomFilter]:
    random = np.random.default_rng(count * 1000 + blocks)
    made = []
    for _ in range(count):
        bloom = bp.SplitBlockBloomFilter.empty(blocks)
        bloom.insert(random.integers(0, 2**64, random.integers(0, 5 * blocks), np.uint64))
        made.append(bloom)
    return made


def tile(made: list[bp.SplitBlockBloomFilter]) -> tuple[SliceLayout, np.ndarray]:
    matrix = np.stack([bloom.blocks.view(np.uint8).reshape(-1) for bloom in made])
    layout = SliceLayout(len(made), made[0].n_blocks * BITS_PER_BLOCK)
    rows = np.concatenate(list(transpose(matrix, SEED)))
    assert rows.nbytes == layout.num_bytes
    return layout, rows


def ask(layout: SliceLayout, rows: np.ndarray, hashes: np.ndarray, seed: int = SEED) -> np.ndarray:
    records = rows.reshape(layout.rows, layout.row_bytes)
    positions = bit_positions(hashes, layout.n_slices // BITS_PER_BLOCK)
    return np.concatenate(
        [answers for _, answers in BitSlices(layout, seed, _Whole(records)).ask(positions, ReadCount())]
    )


@pytest.mark.parametrize("count", COUNTS)
def test_slices_answer_as_the_filters(count: int) -> None:
    for blocks in BLOCKS if count < 600 else BLOCKS[:2]:
        made = filters(count, blocks)
        layout, rows = tile(made)
        hashes = np.random.default_rng(blocks).integers(0, 2**64, 40, np.uint64)
        expected = np.stack([bloom.check(hashes) for bloom in made], axis=1)
        assert np.array_equal(ask(layout, rows, hashes), expected)
        restored = restore(layout, SEED, rows)
        assert [each.tobytes() for each in restored] == [bloom.to_bytes() for bloom in made]


@pytest.mark.parametrize(("count", "blocks"), [(3, 2), (9, 1), (513, 1), (4161, 1)])
def test_every_changed_word_of_a_tile_is_noticed(count: int, blocks: int) -> None:
    """In the slices that are asked, and in their checksums; and a tile of another file."""
    layout, rows = tile(filters(count, blocks))
    every_slice = np.arange(layout.n_slices).reshape(-1, 8)
    random = np.random.default_rng(count)
    flat = rows.reshape(-1)

    def ask_all(seed: int) -> None:
        list(BitSlices(layout, seed, _Whole(rows)).ask(every_slice, ReadCount()))

    for at in random.permutation(len(flat))[:200].tolist():
        changed = np.uint8(1 << random.integers(0, 8))
        flat[at] ^= changed
        with pytest.raises(DamagedSliceError):
            ask_all(SEED)
        flat[at] ^= changed
    ask_all(SEED)
    with pytest.raises(DamagedSliceError):
        ask_all(SEED + 1)


@pytest.mark.parametrize(("filters", "slices"), list(product([0, -1, 1 << 30, "3", 2.5, None], [256])) + [(8, 0)])
def test_impossible_tiles_are_refused(filters: object, slices: object) -> None:
    with pytest.raises(ValueError, match="a tile of"):
        SliceLayout(filters, slices)  # type: ignore[arg-type]
