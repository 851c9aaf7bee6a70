"""Transposed filters answer as the filters themselves, for every count of filters and of blocks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from bloomparquet.parquet.bloom_filter.split_block import (
    BITS_PER_BLOCK,
    bit_positions,
    block_index,
    block_mask,
    check_blocks,
)
from bloomparquet.planning.evidence.bit_slices import (
    SLICES_PER_ROW,
    Bits,
    BitSlices,
    DamagedSliceError,
    SliceLayout,
    transpose,
)
from bloomparquet.storage.files import ReadCount

COUNTS = [*range(1, 18), 63, 64, 65, 511, 513, 2049, 4088, 4089, 4097, 4161, 8192, 8193]
BLOCKS = [1, 2, 3, 7, 8, 100]
SEED = 7
Words = NDArray[np.uint32]


@dataclass(frozen=True)
class Whole:
    """The records of a tile in memory."""

    rows: Bits
    threads: int = 1

    def take(self, numbers: NDArray[np.int64], reads: ReadCount) -> tuple[Bits, NDArray[np.int64]]:
        return self.rows, numbers


def filters(count: int, blocks: int) -> Words:
    """Random filters, shape (count, blocks, 8), in which about half of the values are found."""
    random = np.random.default_rng(count * 1000 + blocks)
    missing = random.integers(0, 2**32, (4, count, blocks, 8), np.uint32)
    return ~np.bitwise_and.reduce(missing)


def tile(made: Words) -> tuple[SliceLayout, Bits]:
    layout = SliceLayout(len(made), made.shape[1] * BITS_PER_BLOCK)
    rows = np.concatenate(list(transpose(made.reshape(len(made), -1).view(np.uint8), SEED)))
    assert rows.nbytes == layout.num_bytes
    return layout, rows


def ask(layout: SliceLayout, rows: Bits, hashes: Words, seed: int = SEED) -> NDArray[np.bool_]:
    records = rows.reshape(layout.rows, layout.row_bytes)
    positions = bit_positions(hashes, layout.n_slices // BITS_PER_BLOCK)
    slices = BitSlices(layout, seed, Whole(records))
    return np.concatenate([slices.unpack(answers) for _, answers in slices.ask(positions, ReadCount())])


@pytest.mark.parametrize("count", COUNTS)
def test_slices_answer_as_the_filters(count: int) -> None:
    for blocks in BLOCKS if count < 600 else BLOCKS[:3]:
        made = filters(count, blocks)
        layout, rows = tile(made)
        hashes = np.random.default_rng(blocks).integers(0, 2**64, 40, np.uint64)
        expected = check_blocks(made[:, block_index(hashes, blocks)], block_mask(hashes)).T
        assert 0 < expected.mean() < 1
        assert np.array_equal(ask(layout, rows, hashes), expected)
        body = rows.reshape(layout.rows, layout.row_bytes)[:, : SLICES_PER_ROW * layout.slice_bytes]
        slices = np.unpackbits(body.reshape(-1, layout.slice_bytes), axis=1, bitorder="little")
        bits = np.unpackbits(made.view(np.uint8).reshape(count, -1), axis=1, bitorder="little")
        assert np.array_equal(slices[: layout.n_slices, :count].T, bits)


@pytest.mark.parametrize(("count", "blocks"), [(3, 2), (9, 1), (513, 1), (4161, 1)])
def test_every_changed_word_of_a_tile_is_noticed(count: int, blocks: int) -> None:
    """In the slices that are asked, and in their checksums; and a tile of another file."""
    layout, rows = tile(filters(count, blocks))
    every_slice = np.arange(layout.n_slices).reshape(-1, 8)
    random = np.random.default_rng(count)
    flat = rows.reshape(-1)

    def ask_all(seed: int) -> None:
        list(BitSlices(layout, seed, Whole(rows)).ask(every_slice, ReadCount()))

    for at in random.permutation(len(flat))[:200].tolist():
        changed = np.uint8(1 << random.integers(0, 8))
        flat[at] ^= changed
        with pytest.raises(DamagedSliceError):
            ask_all(SEED)
        flat[at] ^= changed
    ask_all(SEED)
    with pytest.raises(DamagedSliceError):
        ask_all(SEED + 1)


@pytest.mark.parametrize(("filters", "slices"), [*product([0, -1, 1 << 30, "3", 2.5, None], [256]), (8, 0)])
def test_impossible_tiles_are_refused(filters: object, slices: object) -> None:
    with pytest.raises(ValueError, match="a tile of"):
        SliceLayout(filters, slices)  # type: ignore[arg-type]
