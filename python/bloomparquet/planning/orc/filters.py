"""The Bloom filters of one column over many row groups of ORC: fetched by stripes, and asked.

A stripe has the filters of a column in one stream, mostly compressed: they are read together, once, for the stripes
that have a row group which nothing cheaper excluded. What was read is kept, up to a bound.

Source: ORC specification, "Bloom Filter Index".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError, FormatError
from bloomparquet.orc.bloom_filter import OrcBloomFilter, bit_positions
from bloomparquet.orc.stripe_indexes import MAX_STREAM, RowGroupFilters, StripeIndexes, read_filters
from bloomparquet.planning.evidence.filter_store import PAIRS_AT_ONCE, RESIDENT_BYTES, FilterStore, check_in_rounds
from bloomparquet.planning.evidence.interface import Question
from bloomparquet.storage.files import ReadCount, Storage

_UNREAD, _NONE = -1, -2
_BATCH_BYTES = 1024 * 1024 * 1024  # that the streams of a batch could become in memory
_MOST_RATIO = 1024  # of what is decompressed to what is stored
_STRIPES_AT_ONCE = 256
_ROUNDS = (32, 256, 2048)  # values that all filters are asked for together


@dataclass(frozen=True)
class _Block:
    """Filters of one size, one per row of `words`, shape (filters, m / 64); which of them are `empty`."""

    k: int
    words: NDArray[np.uint64]
    empty: NDArray[np.bool_]

    def check(
        self,
        rows: NDArray[np.int64],
        hashes: NDArray[np.uint64],
        first: NDArray[np.int64],
        last: NDArray[np.int64],
    ) -> NDArray[np.bool_]:
        """Whether the filter in each of `rows` may hold one of ``hashes[first[i]:last[i]]``: a growing number of values
        at a time, as a row group that is kept needs no further value."""
        hit = np.zeros(len(rows), np.bool_)
        flat, base, low = self.words.reshape(-1), rows * self.words.shape[1], int(first.min())
        # By function, because half of the values are excluded by each, and need not be asked of the next.
        at = np.ascontiguousarray(bit_positions(hashes[low : int(last.max())], self.k, self.words.shape[1] * 64).T)
        word, bit = at >> 6, np.uint64(1) << (at & 63).astype(np.uint64)

        def find_hits(row: NDArray[np.int64], value: NDArray[np.int64]) -> NDArray[np.int64]:
            for words, bits in zip(word, bit, strict=True):
                matching = np.flatnonzero(flat[base[row] + words[value]] & bits[value])
                row, value = row[matching], value[matching]
            return row

        check_in_rounds(hit, first - low, last - low, chain(_ROUNDS, repeat(PAIRS_AT_ONCE)), find_hits)
        return hit


class NoFilters:
    """Those of n chunks that have none."""

    def __init__(self, n: int) -> None:
        self.present = np.zeros(n, np.bool_)
        self.errors: dict[int, BloomParquetError] = {}

    def check(self, question: Question) -> tuple[NDArray[np.bool_], int]:
        return np.ones(len(question.chunks), np.bool_), 0


class OrcFilters(FilterStore):
    """The filters of `column` (named `name`) in all n row groups of a table: those of stripe s are the row groups
    ``first[s]`` to ``first[s + 1]``, and its footer is ``stripes[s]``. Safe to use from several threads.

    `why_unusable` says of what a stripe's stream turns out to be why it proves nothing, None where it does.
    """

    def __init__(
        self,
        storage: Storage,
        column: int,
        name: str,
        first: NDArray[np.int64],
        stripes: Mapping[int, StripeIndexes],
        why_unusable: Callable[[int, RowGroupFilters], str | None],
    ) -> None:
        self._storage, self._column, self._name, self._first = storage, column, name, first
        self._stripes, self._why_unusable = stripes, why_unusable
        n = int(first[-1])
        self._block, self._row = np.full(n, _UNREAD, np.int64), np.zeros(n, np.int64)
        self._has = np.full(len(first) - 1, -1, np.int8)  # by stripe; -1: nobody has looked
        self._blocks: dict[int, _Block] = {}
        self._loaded = 0
        self.filled = np.zeros(n, np.bool_)
        self.cached_bytes = 0
        super().__init__({})

    def has(self, stripes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of `stripes`, whose footers were read, have filters of this column."""
        for stripe in stripes[self._has[stripes] < 0].tolist():
            self._has[stripe] = self._look(stripe)
        return self._has[stripes] > 0

    def _look(self, stripe: int) -> bool:
        indexes = self._stripes.get(stripe)
        return indexes is not None and indexes.row_groups > 0 and indexes.filter_kind(self._column) is not None

    def _load(self, question: Question) -> Iterator[NDArray[np.int64]]:
        groups = question.chunks
        is_unread = self._block[groups] == _UNREAD
        yield np.flatnonzero(~is_unread)
        unread = np.flatnonzero(is_unread)
        stripe = np.searchsorted(self._first, groups[unread], "right") - 1
        kept: list[int] = []
        for stripes in self._batches(np.unique(stripe)):
            loaded = self._read(stripes.tolist(), question.reads)
            yield unread[np.isin(stripe, stripes)]
            kept += self._keep(loaded)
        self._join(kept)

    def take_over(self, groups: NDArray[np.int64], other: OrcFilters, theirs: NDArray[np.int64]) -> None:
        """What another store knows of row groups: ``theirs[i]`` there is ``groups[i]`` here. Filters are shared."""
        with other._lock, self._lock:
            block = other._block[theirs]
            self._block[groups[block == _NONE]] = _NONE
            self.errors |= {i: other.errors[j] for i, j in zip(groups.tolist(), theirs.tolist()) if j in other.errors}
            self._warned |= other._warned
            self._row[groups] = other._row[theirs]
            for number in np.unique(block[block >= 0]).tolist():
                size = other._blocks[number].words.nbytes
                if self.cached_bytes + size <= RESIDENT_BYTES:
                    self._blocks[self._loaded] = other._blocks[number]
                    self._block[groups[block == number]] = self._loaded
                    self._loaded += 1
                    self.cached_bytes += size

    def _probe(self, question: Question) -> NDArray[np.bool_]:
        groups = question.chunks
        answers, block = np.ones(len(groups), np.bool_), self._block[groups]
        for number in np.unique(block[block >= 0]).tolist():
            which, filters = np.flatnonzero(block == number), self._blocks[number]
            rows = self._row[groups[which]]
            empty = filters.empty[rows]
            for group in groups[which[empty]].tolist():
                if self.filled[group]:
                    self._distrust(group)
            # One that is empty is of nulls alone, or was never filled.
            which, rows = which[~empty], rows[~empty]
            if len(which):
                answers[which] = filters.check(rows, question.hashes, question.first[which], question.last[which])
        return answers

    def _batches(self, stripes: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """`stripes` in pieces whose filters stay within a bound of memory."""
        cost = np.array([self._stored_bytes(stripe) for stripe in stripes.tolist()], np.int64) * _MOST_RATIO
        piece = np.maximum((np.cumsum(cost) - cost) // _BATCH_BYTES, np.arange(len(stripes)) // _STRIPES_AT_ONCE)
        yield from np.split(stripes, np.flatnonzero(np.diff(piece)) + 1) if len(stripes) else ()

    def _stored_bytes(self, stripe: int) -> int:
        indexes = self._stripes[stripe]
        kind = indexes.filter_kind(self._column)
        return 0 if kind is None else min(indexes.streams[kind, self._column].length, MAX_STREAM)

    def _read(self, stripes: Sequence[int], reads: ReadCount) -> list[int]:
        """Read the filters of `stripes`; gives the numbers of the new blocks."""
        shapes: dict[tuple[int, int], list[tuple[int, OrcBloomFilter]]] = {}
        found = read_filters(self._storage, [(self._stripes[stripe], self._column) for stripe in stripes], reads)
        for stripe, filters in zip(stripes, found, strict=True):
            groups = range(int(self._first[stripe]), int(self._first[stripe + 1]))
            self._block[groups.start : groups.stop] = _NONE
            if isinstance(filters, BloomParquetError):
                for group in groups:
                    self.errors[group] = filters
                self._warn(self._stripes[stripe].path, filters)
            elif filters is not None and self._why_unusable(stripe, filters) is None:
                for group, each in zip(groups, filters.filters, strict=True):
                    shapes.setdefault((each.k, each.bits), []).append((group, each))
        loaded = []
        for (k, _), members in shapes.items():
            places = np.array([group for group, _ in members], np.int64)
            words = np.stack([each.words for _, each in members])
            self._blocks[self._loaded] = _Block(k, words, (words == 0).all(axis=1))
            self._block[places], self._row[places] = self._loaded, np.arange(len(members))
            loaded.append(self._loaded)
            self._loaded += 1
        return loaded

    def _keep(self, loaded: Sequence[int]) -> list[int]:
        """Keep what was loaded, up to a bound, and give the numbers of its blocks; the rest is read again when it is
        asked for again."""
        kept = []
        for number in loaded:
            size = self._blocks[number].words.nbytes
            if self.cached_bytes + size <= RESIDENT_BYTES:
                self.cached_bytes += size
                kept.append(number)
            else:
                self._block[self._block == number] = _UNREAD
                del self._blocks[number]
        return kept

    def _join(self, numbers: Sequence[int]) -> None:
        """Make one block of those that have one shape: to ask one more block costs more than to ask one more filter."""
        shapes: dict[tuple[int, int], list[int]] = {}
        for number in numbers:
            block = self._blocks[number]
            shapes.setdefault((block.k, block.words.shape[1]), []).append(number)
        for (k, _), some in shapes.items():
            if len(some) > 1:
                blocks = [self._blocks.pop(number) for number in some]
                begins = np.cumsum([0, *(len(block.words) for block in blocks)])
                for number, begin in zip(some, begins.tolist()):
                    groups = self._block == number
                    self._row[groups] += begin
                    self._block[groups] = some[0]
                words, empty = (
                    np.concatenate([getattr(block, name) for block in blocks]) for name in ("words", "empty")
                )
                self._blocks[some[0]] = _Block(k, words, empty)

    def _distrust(self, group: int) -> None:
        if group not in self.errors:
            stripe = int(np.searchsorted(self._first, group, "right")) - 1
            self.errors[group] = FormatError(
                f"{self._stripes[stripe].path}: stripe {self._stripes[stripe].place.stripe}, row group "
                f"{group - self._first[stripe]}, column {self._name}: its Bloom filter cannot be used: no bit of it is "
                "set although the column has values; it was never filled"
            )
            self._warn(self._stripes[stripe].path, self.errors[group])
