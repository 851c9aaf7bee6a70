"""Transposed filters answer as the filters themselves, for every count of filters and of blocks."""

from __future__ import annotations

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
from bloomparquet.planning.evidence.bit_slices import SLICES_PER_ROW, BitSlices, SliceLayout, transpose
from bloomparquet.planning.evidence.section_source import Bits, DamagedFileError, RecordsInMemory
from bloomparquet.storage.files import ReadCount

COUNTS = [1, 2, 7, 8, 9, 17, 63, 64, 65, 511, 513, 2049, 4088, 4089, 4161, 8193]
BLOCKS = [1, 2, 3, 7, 8, 100]
SEED = 7
Words = NDArray[np.uint32]


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
    slices = BitSlices(layout, seed, RecordsInMemory(records))
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


@pytest.mark.parametrize(("count", "num_bytes"), [(1, 8), (9, 40), (17, 32), (513, 72), (4097, 32), (8192, 33)])
def test_a_tile_has_the_bytes_of_its_format(count: int, num_bytes: int) -> None:
    """The bytes that the module's docstring describes, computed bit by bit. Other versions read them."""
    matrix = np.random.default_rng(count).integers(0, 256, (count, num_bytes), np.uint8)
    bits = np.unpackbits(matrix, axis=1, bitorder="little")
    size = -(-count // 8)
    size = size if size < 512 else -(-size // 8) * 8
    per_unit = 1
    while per_unit * size % 8 or (per_unit * size < 512 and per_unit < SLICES_PER_ROW):
        per_unit *= 2
    expected = b""
    for row in range(-(-8 * num_bytes // SLICES_PER_ROW)):
        slices = np.zeros((SLICES_PER_ROW, 8 * size), np.uint8)
        part = bits[:, row * SLICES_PER_ROW : (row + 1) * SLICES_PER_ROW].T
        slices[: len(part), :count] = part
        body = np.packbits(slices, axis=1, bitorder="little").tobytes()
        units = [body[at : at + per_unit * size] for at in range(0, len(body), per_unit * size)]
        expected += body + b"".join(checksum(unit, row * len(units) + i) for i, unit in enumerate(units))
    assert b"".join(piece.tobytes() for piece in transpose(matrix, SEED)) == expected


def checksum(unit: bytes, number: int) -> bytes:
    """The checksum of a unit, in Python's integers."""
    most, golden = 2**64, 0x9E3779B97F4A7C15
    total = 0
    for i in range(len(unit) // 8):
        weight = (i + 1) * golden % most
        weight = (weight ^ weight >> 30) * 0xBF58476D1CE4E5B9 % most
        weight = (weight ^ weight >> 27) * 0x94D049BB133111EB % most
        total += int.from_bytes(unit[8 * i : 8 * i + 8], "little") * (weight ^ weight >> 31 | 1)
    start = (number * golden + SEED) % most
    return ((total + (start ^ start >> 29) * golden) % most).to_bytes(8, "little")


@pytest.mark.parametrize(("count", "blocks"), [(3, 2), (9, 1), (513, 1), (4161, 1)])
def test_every_changed_word_of_a_tile_is_noticed(count: int, blocks: int) -> None:
    """In the slices that are asked, and in their checksums; and a tile of another file."""
    layout, rows = tile(filters(count, blocks))
    every_slice = np.arange(layout.n_slices).reshape(-1, 8)
    random = np.random.default_rng(count)
    flat = rows.reshape(-1)

    def ask_all(seed: int) -> None:
        list(BitSlices(layout, seed, RecordsInMemory(rows)).ask(every_slice, ReadCount()))

    for at in random.permutation(len(flat))[:200].tolist():
        changed = np.uint8(1 << random.integers(0, 8))
        flat[at] ^= changed
        with pytest.raises(DamagedFileError):
            ask_all(SEED)
        flat[at] ^= changed
    ask_all(SEED)
    with pytest.raises(DamagedFileError):
        ask_all(SEED + 1)


@pytest.mark.parametrize(("filters", "slices"), [*product([0, -1, (1 << 20) + 1, "3", 2.5, None], [256]), (8, 0)])
def test_impossible_tiles_are_refused(filters: object, slices: object) -> None:
    with pytest.raises(ValueError, match="a tile of"):
        SliceLayout(filters, slices)  # type: ignore[arg-type]
