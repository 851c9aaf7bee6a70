"""Joins evidence of several tables about one column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError
from bloomparquet.planning.evidence.interface import ChunkFilters, Counts, Question
from bloomparquet.query.ordering import Bounds
from bloomparquet.storage.files import ReadCount
from bloomparquet.storage.threads import in_threads

Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

_ARRAYS = ("lower", "upper", "known")


class JoinedFilters:
    """The filters of the chunks ``at[i]`` of ``filters[i]``, one piece after another."""

    def __init__(self, filters: Sequence[ChunkFilters], at: Sequence[Integers]) -> None:
        self._filters, self._at = filters, at
        self._ends = np.cumsum([len(some) for some in at])

    @property
    def present(self) -> Booleans:
        return self._join(lambda filters: filters.present)

    @property
    def in_index(self) -> Booleans:
        return self._join(lambda filters: filters.in_index)

    @property
    def errors(self) -> Mapping[int, BloomParquetError]:
        return join_errors([filters.errors for filters in self._filters], self._at)

    def check(self, question: Question) -> Booleans:
        """The pieces are asked side by side: each may wait for a remote storage."""
        piece = np.searchsorted(self._ends, question.chunks, side="right")
        answers = np.ones(len(piece), np.bool_)

        def ask(number: int) -> tuple[Integers, Booleans, ReadCount]:
            (some,) = np.nonzero(piece == number)
            at, count = self._at[number], ReadCount()
            chunks = at[question.chunks[some] - (self._ends[number] - len(at))]
            own = replace(question.about(some), chunks=chunks, reads=count)
            return some, self._filters[number].check(own), count

        asked = np.unique(piece).tolist()
        for some, of_piece, count in in_threads(question.storage.threads, ask, asked):
            answers[some] = of_piece
            question.reads.add(count)
        return answers

    def _join(self, flags: Callable[[ChunkFilters], Booleans]) -> Booleans:
        return join(zip(map(flags, self._filters), self._at, strict=True))


def join(pieces: Iterable[tuple[NDArray[Any], Integers]]) -> NDArray[Any]:
    """The entries ``at`` of each ``(array, at)``, one piece after another."""
    return np.concatenate([array[at] for array, at in pieces])


def join_counts(counts: Sequence[Counts], at: Sequence[Integers]) -> Counts:
    """The counts of the chunks ``at[i]`` of ``counts[i]``, one piece after another."""

    def join_field(name: str) -> Any:
        pieces = [getattr(each, name) for each in counts]
        return None if any(piece is None for piece in pieces) else join(zip(pieces, at, strict=True))

    return Counts(*(join_field(field.name) for field in fields(Counts)))


def join_errors(
    errors: Sequence[Mapping[int, BloomParquetError]], at: Sequence[Integers]
) -> dict[int, BloomParquetError]:
    """The errors, by chunk, of the chunks ``at[i]`` of ``errors[i]``, one piece after another."""
    joined: dict[int, BloomParquetError] = {}
    first = 0
    for each, some in zip(errors, at, strict=True):
        if each:
            joined |= {first + i: each[j] for i, j in enumerate(some.tolist()) if j in each}
        first += len(some)
    return joined


def join_bounds(bounds: Sequence[Bounds | None], at: Sequence[Integers]) -> Bounds | None:
    """The bounds of the chunks ``at[i]`` of ``bounds[i]``, one piece after another. None if no piece has any."""
    some = next((each for each in bounds if each is not None and len(each.known)), None)
    if some is None:
        return None
    filled = [
        _unknown(some, int(where.max(initial=-1)) + 1) if each is None else each for each, where in zip(bounds, at)
    ]
    lower, upper, known = (join((getattr(each, name), where) for each, where in zip(filled, at)) for name in _ARRAYS)
    without_nan = None
    if any(each.without_nan is not None for each in filled):
        without_nan = join((~each.may_hold_nan, where) for each, where in zip(filled, at))
    return Bounds(lower, upper, known, without_nan)


def _unknown(like: Bounds, n: int) -> Bounds:
    """Bounds of n chunks, none of which is known, with keys of the same type."""
    chunks = np.zeros(n, np.int64)
    return Bounds(like.lower[chunks], like.upper[chunks], np.zeros(n, np.bool_))
