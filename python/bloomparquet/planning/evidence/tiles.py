"""The Bloom filters in the tiles of an index. Many of them are asked at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import FormatError
from bloomparquet.planning.evidence.bit_slices import BitSlices
from bloomparquet.planning.evidence.interface import Question
from bloomparquet.planning.evidence.section_file import UNUSABLE, SectionFile
from bloomparquet.planning.evidence.section_source import DamagedFileError
from bloomparquet.storage.files import ReadCount
from bloomparquet.storage.threads import in_threads

BitPositions = Callable[[NDArray[np.uint64], int], NDArray[np.int64]]
"""Maps hashes and the number of bits of a filter to the bits that each hash sets, shape (values, k)."""


@dataclass(slots=True, eq=False)
class Tile:
    """The filters of some chunks, in a `file` of the index. `positions` says how it is asked; `damaged`, whether a
    checksum did not match."""

    file: SectionFile
    slices: BitSlices
    positions: BitPositions
    damaged: bool = False


@dataclass(frozen=True, slots=True)
class TiledFilters:
    """The tiles that hold the filters of n chunks. Arrays of shape (n,): `tile`, an index into `tiles`, -1 for none;
    `at`, the position in the tile."""

    tile: NDArray[np.int32]
    at: NDArray[np.int32]
    tiles: tuple[Tile, ...] = ()

    @classmethod
    def none(cls, n: int) -> TiledFilters:
        return cls(np.full(n, -1, np.int32), np.zeros(n, np.int32))

    def replaced(self, chunks: NDArray[np.int64], other: TiledFilters) -> TiledFilters:
        """A copy in which chunk ``chunks[i]`` has filter i of `other`."""
        tile, at = self.tile.copy(), self.at.copy()
        tile[chunks], at[chunks] = np.where(other.tile < 0, -1, other.tile + len(self.tiles)), other.at
        return TiledFilters(tile, at, (*self.tiles, *other.tiles))

    def without(self, number: int) -> TiledFilters:
        """A copy without the filters of one tile: plans read those in the files."""
        return TiledFilters(np.where(self.tile == number, np.int32(-1), self.tile), self.at, self.tiles)

    def ask(self, question: Question, answers: NDArray[np.bool_]) -> TiledFilters:
        """Set ``answers[i]`` for each chunk i of `question` whose filter is in a tile. Returns the filters to use
        from now on: without those of a damaged tile, which is logged."""
        if any(tile.slices.records.threads > 1 for tile in self.tiles[:1]):
            self._fetch(question)
        usable = self
        for number, some in _by_tile(self.tile[question.chunks]):
            tile = self.tiles[number]
            if tile.damaged:
                usable = usable.without(number)
                continue
            try:
                answers[some] = self._ask_tile(tile, question.about(some))
            except UNUSABLE as error:
                tile.file.warn(f"a part of the index cannot be used ({error}); the filters in the data files are read")
                tile.damaged = isinstance(error, DamagedFileError)
                usable = usable.without(number)
        return usable

    def _fetch(self, question: Question) -> None:
        """Read what `question` needs of all remote tiles, several at a time. Errors are those of :meth:`_ask_tile`."""

        def fetch(number: int) -> ReadCount:
            slices, count = self.tiles[number].slices, ReadCount()
            with suppress(FormatError, OSError):
                slices.fetch(self.tiles[number].positions(hashes, slices.layout.n_slices), count)
            return count

        hashes = question.hashes[int(question.first.min()) : int(question.last.max())]
        numbers = [number for number, _ in _by_tile(self.tile[question.chunks])]
        for count in in_threads(self.tiles[0].slices.records.threads, fetch, numbers):
            question.reads.add(count)

    def _ask_tile(self, tile: Tile, question: Question) -> NDArray[np.bool_]:
        first, last, at = question.first, question.last, self.at[question.chunks]
        low, high = int(first.min()), int(last.max())
        positions = tile.positions(question.hashes[low:high], tile.slices.layout.n_slices)
        if bool((first == low).all() and (last == high).all()):
            hits = np.zeros(tile.slices.layout.slice_bytes, np.uint8)
            for _, answers in tile.slices.ask(positions, question.reads):
                hits |= np.bitwise_or.reduce(answers, axis=0)
            return tile.slices.unpack(hits)[at]
        hit = np.zeros(len(at), np.bool_)
        for values, answers in tile.slices.ask(positions, question.reads):
            value = np.arange(low + values.start, low + values.stop)[:, np.newaxis]
            hit |= (tile.slices.unpack(answers)[:, at] & (first <= value) & (value < last)).any(axis=0)
        return hit


def _by_tile(tile: NDArray[np.int32]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Each number in `tile` except -1, and its positions there."""
    order = np.arange(len(tile)) if bool((tile[1:] >= tile[:-1]).all()) else np.argsort(tile, kind="stable")
    in_order = tile[order]
    starts = np.flatnonzero(np.diff(in_order, prepend=np.int32(-1)))  # none for -1, which comes first
    yield from zip(in_order[starts].tolist(), np.split(order, starts)[1:], strict=True)
