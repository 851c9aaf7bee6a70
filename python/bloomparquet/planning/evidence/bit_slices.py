"""Bloom filters of many row groups, transposed: one slice of bits for each bit of the filters.

Bit i of slice s is bit s of filter i. A value that sets k bits asks k slices: their AND is the answer of all filters.

All filters of a tile have the same number of bits. Its layout in a file:

    rows of 256 slices each, one row for each block of a split-block filter:
        256 slices of `slice_bytes`, then a checksum of 8 bytes for each unit of `slices_per_unit` slices

A unit is one slice, or several small ones together. Its checksum is a sum of 64-bit words, each times an odd number of
its own, modulo 2^64: a change of any one word is noticed, and numpy checks many units at once. The seed of the file and
the unit's position are part of the sum: a unit of another file, or of another place, does not pass.

Sources: BIGSI (Bradley et al., 2019) and COBS (Bingmann et al., 2019), which index documents by bit-sliced filters of
a few sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from bloomparquet.planning.evidence.section_source import Bits, DamagedFileError, Records
from bloomparquet.storage.files import ReadCount

SLICES_PER_ROW = 256
_CHECKSUM_BYTES = 8
_LEAST_UNIT_BYTES = 512  # so that checksums take less than two percent
_WORD = 8
_BATCH_BYTES = 2 * 1024 * 1024  # stays in the processor's cache
_MOST_WORDS = 1 << 14  # in a unit: a slice of a million filters
_ROUND = np.uint64(0x9E3779B97F4A7C15)
_MASKS = tuple(
    (np.uint64(shift), np.uint64(mask))
    for shift, mask in ((7, 0x00AA00AA00AA00AA), (14, 0x0000CCCC0000CCCC), (28, 0x00000000F0F0F0F0))
)


@dataclass(frozen=True, slots=True)
class SliceLayout:
    """The shape of a tile with `filters` filters of `n_slices` bits each. Raises ValueError for an impossible one."""

    filters: int
    n_slices: int

    def __post_init__(self) -> None:
        most = 64 * _MOST_WORDS
        if not (isinstance(self.filters, int) and isinstance(self.n_slices, int)):
            raise ValueError(f"a tile of {self.filters!r} filters with {self.n_slices!r} bits; expected integers")
        if not (0 < self.filters <= most and self.n_slices > 0):
            raise ValueError(
                f"a tile of {self.filters} filters with {self.n_slices} bits; expected 1 to {most} filters"
            )

    @property
    def rows(self) -> int:
        return -(-self.n_slices // SLICES_PER_ROW)

    @property
    def slice_bytes(self) -> int:
        size = -(-self.filters // 8)
        return size if size < _LEAST_UNIT_BYTES else -(-size // _WORD) * _WORD

    @property
    def slices_per_unit(self) -> int:
        count = 1
        while count * self.slice_bytes < _LEAST_UNIT_BYTES and count < SLICES_PER_ROW:
            count *= 2
        while count * self.slice_bytes % _WORD:
            count *= 2
        return count

    @property
    def row_bytes(self) -> int:
        units = SLICES_PER_ROW // self.slices_per_unit
        return SLICES_PER_ROW * self.slice_bytes + units * _CHECKSUM_BYTES

    @property
    def num_bytes(self) -> int:
        return self.rows * self.row_bytes


@dataclass(frozen=True, slots=True)
class BitSlices:
    """A tile that can be asked. `seed`: the seed of its file. `records`: its rows."""

    layout: SliceLayout
    seed: int
    records: Records

    def ask(self, positions: NDArray[np.int64], reads: ReadCount) -> Iterator[tuple[slice, Bits]]:
        """Ask which filters have all bits of each value. ``positions`` (values, k) are the bits that each value sets.

        Yields some of the values as a slice, and their answers: shape (values, bytes), one bit for each filter, which
        :meth:`unpack` turns into booleans. Raises :class:`DamagedFileError`.
        """
        step = max(1, _BATCH_BYTES // (positions.shape[1] * self.layout.slices_per_unit * self.layout.slice_bytes))
        for first in range(0, len(positions), step):
            some = slice(first, min(first + step, len(positions)))
            yield some, np.bitwise_and.reduce(self._slices(positions[some], reads), axis=1)

    def unpack(self, answers: Bits) -> NDArray[np.bool_]:
        """The answers of :meth:`ask` as booleans: shape (…, bytes) becomes (…, filters)."""
        return np.unpackbits(answers, axis=-1, count=self.layout.filters, bitorder="little").view(np.bool_)

    def fetch(self, positions: NDArray[np.int64], reads: ReadCount) -> None:
        """Read what :meth:`ask` needs, so that it is in memory. May raise ``OSError`` and FormatError."""
        self.records.take(np.unique(positions // SLICES_PER_ROW), reads)

    def _slices(self, positions: NDArray[np.int64], reads: ReadCount) -> Bits:
        """The slices `positions`, of any shape; the result has one more axis, of bytes."""
        layout = self.layout
        per_unit, size = layout.slices_per_unit, layout.slice_bytes
        row, within = positions // SLICES_PER_ROW, positions % SLICES_PER_ROW
        unit = within // per_unit
        records, at = self.records.take(row.reshape(-1), reads)
        at = at.reshape(row.shape)
        bodies = records[:, : SLICES_PER_ROW * size].reshape(len(records), -1, per_unit * size)
        checksums = records[:, SLICES_PER_ROW * size :].reshape(len(records), -1, _CHECKSUM_BYTES)
        units = bodies[at, unit]
        stored = np.ascontiguousarray(checksums[at, unit]).view("<u8")[..., 0]
        numbers = row * (SLICES_PER_ROW // per_unit) + unit
        if not np.array_equal(_checksums(units, numbers, self.seed), stored):
            raise DamagedFileError("its checksum does not match")
        if per_unit == 1:
            return units
        slices = units.reshape(*units.shape[:-1], per_unit, size)
        return np.take_along_axis(slices, (within % per_unit)[..., np.newaxis, np.newaxis], axis=-2)[..., 0, :]


def transpose(filters: Bits, seed: int) -> Iterator[Bits]:
    """The bytes of a tile, in pieces. ``filters[i]`` are the bytes of filter i, whose first bit is the lowest one."""
    count, num_bytes = filters.shape
    layout = SliceLayout(count, num_bytes * 8)
    row_bytes = SLICES_PER_ROW // 8
    step = max(1, _BATCH_BYTES // (16 * row_bytes * max(layout.slice_bytes, 1)))
    for first in range(0, layout.rows, step):
        last = min(first + step, layout.rows)
        part = filters[:, first * row_bytes : last * row_bytes]
        width = (last - first) * row_bytes
        if part.shape[1] < width:  # the bits of the last row may be fewer than 256
            part = np.pad(part, ((0, 0), (0, width - part.shape[1])))
        slices = _transposed(part, layout.slice_bytes)
        per_unit = layout.slices_per_unit
        rows = np.empty((last - first, layout.row_bytes), np.uint8)
        units = slices.reshape(last - first, SLICES_PER_ROW // per_unit, per_unit * layout.slice_bytes)
        numbers = np.arange(first * units.shape[1], last * units.shape[1]).reshape(units.shape[:2])
        body = SLICES_PER_ROW * layout.slice_bytes
        rows[:, :body] = units.reshape(last - first, body)
        rows[:, body:] = _checksums(units, numbers, seed).astype("<u8").view(np.uint8).reshape(last - first, -1)
        yield rows


def _transposed(matrix: Bits, width: int) -> Bits:
    """The transposed matrix of bits: ``matrix`` (n, m bytes) becomes (8 m, `width` bytes), padded with zeros.

    Bit b of byte j of row i becomes bit i % 8 of byte i // 8 of row 8 j + b. Eight rows at a time are squares of 8 x 8
    bits in 64-bit words (Warren, "Hacker's Delight", section 7-3).
    """
    count, num_bytes = matrix.shape
    matrix = np.ascontiguousarray(matrix)  # rows that are a power of two apart would share few lines of the cache
    groups = -(-count // 8)
    squares = np.zeros((num_bytes, groups, 8), np.uint8)
    whole = count // 8
    squares[:, :whole] = matrix[: 8 * whole].reshape(whole, 8, num_bytes).transpose(2, 0, 1)
    if whole < groups:
        squares[:, whole, : count - 8 * whole] = matrix[8 * whole :].T
    words = squares.view("<u8")[..., 0]
    for shift, mask in _MASKS:
        swapped = (words ^ (words >> shift)) & mask
        words ^= swapped
        words ^= swapped << shift
    result = np.zeros((num_bytes, 8, width), np.uint8)
    result[..., :groups] = squares.transpose(0, 2, 1)
    return result.reshape(8 * num_bytes, width)


def _checksums(units: Bits, numbers: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    """The checksum of each unit: ``units`` (…, bytes) with ``numbers`` (…), their positions in the tile."""
    words = np.ascontiguousarray(units).view("<u8")
    start = numbers.astype(np.uint64) * _ROUND + np.uint64(seed)
    sums: NDArray[np.uint64] = words.reshape(-1, words.shape[-1]) @ _weights()[: words.shape[-1]]
    sums += ((start ^ (start >> np.uint64(29))) * _ROUND).reshape(-1)
    return sums.reshape(numbers.shape)


@cache
def _weights() -> NDArray[np.uint64]:
    """Splitmix64 (Steele, Lea, Flood, 2014) of 1, 2, …, made odd."""
    z = np.arange(1, _MOST_WORDS + 1, dtype=np.uint64) * _ROUND
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    weights: NDArray[np.uint64] = (z ^ (z >> np.uint64(31))) | np.uint64(1)
    return weights
