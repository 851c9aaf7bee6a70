"""The filters in tiles answer as sets do, whichever chunks are asked for whichever values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bloomparquet.errors import FormatError
from bloomparquet.planning.evidence.interface import Question
from bloomparquet.planning.evidence.section_source import DamagedFileError
from bloomparquet.planning.evidence.tiles import Tile, TiledFilters
from bloomparquet.storage.files import ReadCount

N_SLICES = 5
Tiled = dict[int, set[int]]  # by chunk


@dataclass
class ExactSlices:
    """Sets in place of transposed filters: filter i holds ``sets[i]``. Answers come for two values at a time."""

    sets: list[set[int]]
    threads: int = 1
    error: Exception | None = None
    asked: list[list[int]] = field(default_factory=list)
    fetched: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.records = SimpleNamespace(threads=self.threads)
        self.layout = SimpleNamespace(n_slices=N_SLICES, slice_bytes=-(-len(self.sets) // 8))

    def ask(self, positions: NDArray[np.int64], reads: ReadCount) -> Iterator[tuple[slice, NDArray[np.uint8]]]:
        self.asked.append(positions[:, 0].tolist())
        for start in range(0, len(positions), 2):
            if self.error is not None:
                raise self.error
            reads.requests += 1
            values = positions[start : start + 2, 0].tolist()
            bits = np.array([[value in held for held in self.sets] for value in values])
            yield slice(start, start + len(values)), np.packbits(bits, axis=-1, bitorder="little")

    def unpack(self, answers: NDArray[np.uint8]) -> NDArray[np.bool_]:
        return np.unpackbits(answers, axis=-1, bitorder="little").astype(np.bool_)[..., : len(self.sets)]

    def fetch(self, positions: NDArray[np.int64], count: ReadCount) -> None:
        self.fetched.append(positions[:, 0].tolist())
        count.requests += 1
        count.bytes += 100
        if self.error is not None:
            raise self.error


def positions(hashes: NDArray[np.uint64], n_slices: int) -> NDArray[np.int64]:
    assert n_slices == N_SLICES
    return hashes.astype(np.int64)[:, np.newaxis]


def tile(sets: list[set[int]], warnings: list[str] | None = None, **options: Any) -> Tile:
    file: Any = SimpleNamespace(warn=[].append if warnings is None else warnings.append)
    slices: Any = ExactSlices(sets, **options)
    return Tile(file, slices, positions)


def some_filters(random: np.random.Generator, n: int) -> tuple[TiledFilters, Tiled]:
    """Filters of n chunks in up to three tiles, some in none; and what they hold."""
    tiles = [[set(random.integers(0, 12, 3).tolist()) for _ in range(random.integers(1, 12))] for _ in range(3)]
    number = random.integers(-1, 3, n).astype(np.int32)
    if random.integers(2):
        number = np.sort(number)
    at = np.array([random.integers(len(tiles[each])) if each >= 0 else 0 for each in number], np.int32)
    held = {i: tiles[each][at[i]] for i, each in enumerate(number.tolist()) if each >= 0}
    return TiledFilters(number, at, tuple(map(tile, tiles))), held


def question(random: np.random.Generator, n: int, *, whole: bool) -> Question:
    hashes = random.integers(0, 12, 7).astype(np.uint64)
    chunks = random.permutation(n)[: random.integers(1, n + 1)]
    if random.integers(2):
        chunks.sort()
    first, last = random.integers(0, 4, len(chunks)), random.integers(4, 8, len(chunks))
    if whole:
        first[:], last[:] = 1, 6
    storage: Any = None
    return Question(storage, chunks, first, last, hashes, ReadCount())


def expected(asked: Question, held: Tiled, unknown: NDArray[np.bool_]) -> list[bool]:
    return [
        bool(held[chunk] & set(asked.hashes[first:last].tolist())) if chunk in held else bool(unknown[i])
        for i, (chunk, first, last) in enumerate(zip(asked.chunks.tolist(), asked.first, asked.last, strict=True))
    ]


@pytest.mark.parametrize("seed", range(30))
def test_each_chunk_is_asked_for_its_own_values(seed: int) -> None:
    random = np.random.default_rng(seed)
    filters, held = some_filters(random, 10)
    assert np.flatnonzero(filters.tile >= 0).tolist() == sorted(held)
    asked = question(random, 10, whole=bool(seed % 3 == 0))
    answers = random.integers(0, 2, len(asked.chunks)).astype(np.bool_)
    wanted = expected(asked, held, answers)
    assert filters.ask(asked, answers) is filters
    assert answers.tolist() == wanted
    low, high = asked.first.min(), asked.last.max()
    among = [each.slices.asked for each in filters.tiles]  # type: ignore[attr-defined]
    assert all(set(values) <= set(asked.hashes[low:high].tolist()) for calls in among for values in calls)
    assert (asked.reads.requests > 0) == bool((filters.tile[asked.chunks] >= 0).any())


@pytest.mark.parametrize("seed", range(15))
def test_filters_are_put_together_by_chunk(seed: int) -> None:
    random = np.random.default_rng(seed)
    (left, in_left), (right, in_right) = some_filters(random, 6), some_filters(random, 4)
    chunks = random.permutation(6)[:4]
    replaced = {i: held for i, held in in_left.items() if i not in chunks.tolist()}
    replaced |= {int(chunks[i]): held for i, held in in_right.items()}
    for filters, held, n in ((left.replaced(chunks, right), replaced, 6), (TiledFilters.none(3), {}, 3)):
        assert filters.tile.dtype == filters.at.dtype == np.int32
        asked = question(random, n, whole=False)
        answers = np.ones(len(asked.chunks), np.bool_)
        filters.ask(asked, answers)
        assert answers.tolist() == expected(asked, held, np.ones(n, np.bool_))


@pytest.mark.parametrize(
    ("error", "is_damaged", "text"),
    [
        (DamagedFileError("slice 3"), True, "a part of the index cannot be used (slice 3); "),
        (OSError("no disk"), False, "a part of the index cannot be used (no disk); "),
    ],
)
def test_an_unusable_tile_keeps_its_chunks(error: Exception, is_damaged: bool, text: str) -> None:
    warnings: list[str] = []
    bad, good = tile([{1}, {2}], warnings, error=error), tile([{1}, {2}])
    filters = TiledFilters(np.array([0, 1, 0, 1, -1], np.int32), np.array([0, 0, 1, 1, 0], np.int32), (bad, good))
    storage: Any = None
    zeros = np.zeros(5, np.int64)
    asked = Question(storage, np.arange(5), zeros, zeros + 1, np.array([2], np.uint64), ReadCount())
    for _ in range(2):
        answers = np.ones(5, np.bool_)
        usable = filters.ask(asked, answers)
        assert answers.tolist() == [True, False, True, True, True]
        assert usable.tile.tolist() == [-1, 1, -1, 1, -1]
        again = np.ones(5, np.bool_)
        assert usable.ask(asked, again) is usable
        assert again.tolist() == answers.tolist()
    assert bad.damaged is is_damaged
    assert len(bad.slices.asked) == len(warnings) == (1 if is_damaged else 2)  # type: ignore[attr-defined]
    assert all(each == f"{text}the filters in the data files are read" for each in warnings)


@pytest.mark.parametrize(("threads", "error"), [(1, OSError("gone")), (2, OSError("gone")), (2, FormatError("bad"))])
def test_remote_tiles_are_fetched_at_once(threads: int, error: Exception) -> None:
    tiles = (tile([{1}], threads=threads), tile([{3}], threads=threads, error=error), tile([{1}]))
    filters = TiledFilters(np.array([0, 1, -1], np.int32), np.zeros(3, np.int32), tiles)
    storage: Any = None
    first, last = np.array([1, 2, 1]), np.array([3, 3, 2])
    hashes = np.array([9, 3, 4, 9], np.uint64)
    asked = Question(storage, np.arange(3), first, last, hashes, ReadCount())
    answers = np.ones(3, np.bool_)
    filters.ask(asked, answers)
    assert answers.tolist() == [False, True, True]
    fetched = [each.slices.fetched for each in tiles]  # type: ignore[attr-defined]
    assert fetched == ([[[3, 4]], [[3, 4]], []] if threads == 2 else [[], [], []])
    assert asked.reads.bytes == (200 if threads == 2 else 0)
    assert asked.reads.requests == (3 if threads == 2 else 1)
