"""The Bloom filters of one ORC column: fetched stripe by stripe, and probed.

A stripe stores the filters of a column in one stream, usually compressed. So the filters of a stripe are read together,
once, if a row group in it is not excluded by cheaper evidence.

Source: ORC specification, "Bloom Filter Index".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError, FormatError
from bloomparquet.orc.bloom_filter import OrcBloomFilter, bit_positions
from bloomparquet.orc.stripe_indexes import MAX_STREAM, StripeIndexes, read_filters
from bloomparquet.planning.evidence.filter_store import PAIRS_AT_ONCE, RESIDENT_BYTES, FilterStore, check_in_rounds
from bloomparquet.planning.evidence.interface import Question
from bloomparquet.planning.evidence.section_file import Section
from bloomparquet.planning.evidence.tiles import TiledFilters
from bloomparquet.storage.files import ReadCount, Storage

_UNREAD, _NO_FILTER = -1, -2  # instead of the key of a matrix
_BATCH_BYTES = 1024 * 1024 * 1024  # the most that the streams of a batch could become in memory
_MAX_RATIO = 1024  # of decompressed to stored bytes
_STRIPES_AT_ONCE = 256
ReadFooters = Callable[[NDArray[np.int64], ReadCount], Sequence[StripeIndexes | BloomParquetError]]
"""Gives the footer of each stripe, or why it cannot be read."""

_ROUNDS = (32, 256, 2048)  # values that each undecided filter is asked for


@dataclass(frozen=True)
class _FilterMatrix:
    """Filters of one size: `words` has shape (filters, m / 64). `empty` are those without a set bit."""

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
        """Whether filter ``rows[i]`` may hold one of ``hashes[first[i]:last[i]]``."""
        hit = np.zeros(len(rows), np.bool_)
        flat, base, low = self.words.reshape(-1), rows * self.words.shape[1], int(first.min())
        # One hash function after the other: each excludes half of the pairs, which need no further function.
        positions = np.ascontiguousarray(
            bit_positions(hashes[low : int(last.max())], self.k, self.words.shape[1] * 64).T
        )
        word, bit = positions >> 6, np.uint64(1) << (positions & 63).astype(np.uint64)

        def find_hits(row: NDArray[np.int64], value: NDArray[np.int64]) -> NDArray[np.int64]:
            for words, bits in zip(word, bit, strict=True):
                matching = np.flatnonzero(flat[base[row] + words[value]] & bits[value])
                row, value = row[matching], value[matching]
            return row

        check_in_rounds(hit, first - low, last - low, chain(_ROUNDS, repeat(PAIRS_AT_ONCE)), find_hits)
        return hit


def never_filled(stripe: StripeIndexes, row_group: int, column: str) -> FormatError:
    """Why an empty filter over values cannot be used."""
    return FormatError(
        f"{stripe.path}: stripe {stripe.id.stripe}, row group {row_group} of the stripe, column {column}: its "
        "Bloom filter cannot be used: no bit of it is set although the column has values; it was never filled"
    )


class ReadFilters(NamedTuple):
    """The filters of n row groups that were read, to be stored.

    `present` (n,): whether the row group has a filter, -1 if unknown. The filter of row group i is row ``row[i]`` of
    ``words[key[i]]``; it has ``functions[key[i]]`` hash functions.
    """

    present: NDArray[np.int8]
    key: NDArray[np.int64]
    row: NDArray[np.int64]
    functions: tuple[int, ...] = ()
    words: tuple[NDArray[np.uint64], ...] = ()

    def to_section(self) -> Section:
        """The arrays that :meth:`of_section` restores."""
        return {
            "present": self.present, "key": self.key, "row": self.row, "functions": np.array(self.functions, np.int64),
            **{f"words_{i}": words for i, words in enumerate(self.words)},
        }  # fmt: skip

    @classmethod
    def of_section(cls, section: Section, n: int) -> ReadFilters:
        """The filters of n row groups in `section`. Raises the errors :data:`MALFORMED`."""
        present, key, row = (section[name] for name in ("present", "key", "row"))
        functions = tuple(section["functions"].tolist())
        words = tuple(section[f"words_{i}"] for i in range(len(functions)))
        rows = np.array([len(each) for each in words] or [0])
        if (
            {len(present), len(key), len(row)} != {n}
            or int(key.max(initial=-1)) >= len(words)
            or bool((row >= rows[np.maximum(key, 0)])[key >= 0].any())
        ):
            raise ValueError("its filters do not fit its row groups")
        return cls(present, key, row, functions, words)


@dataclass
class _Facts:
    """What was read of the filters of n row groups. Replaced as a whole: an interrupt leaves the former facts.

    The filter of row group i is row ``row[i]`` of the matrix ``matrices[key[i]]``. `errors`: by row group, why its
    filter cannot be used.
    """

    key: NDArray[np.int64]
    row: NDArray[np.int64]
    matrices: dict[int, _FilterMatrix]
    errors: dict[int, BloomParquetError]

    def copy(self) -> _Facts:
        return _Facts(self.key.copy(), self.row.copy(), dict(self.matrices), dict(self.errors))


class OrcFilters(FilterStore):
    """The filters of the column with the number `column` and the name `name`, in all n row groups of a table.

    The row groups of stripe s are ``first[s]`` to ``first[s + 1]``. ``read_footers(stripes, reads)`` gives the footers
    of stripes. ``why_unusable(stripe)`` says why the filters of a stripe prove nothing; None if they prove something.
    `why_some_unusable` is the last such reason of a stripe that was looked up; empty if there is none.
    """

    def __init__(
        self,
        storage: Storage,
        column: int,
        name: str,
        first: NDArray[np.int64],
        read_footers: ReadFooters,
        why_unusable: Callable[[StripeIndexes], str | None],
    ) -> None:
        self._storage, self._column, self._name, self._first = storage, column, name, first
        self._read_footers, self._why_unusable = read_footers, why_unusable
        self._stripes: dict[int, StripeIndexes] = {}
        self.why_some_unusable = ""
        n = int(first[-1])
        self._facts = _Facts(np.full(n, _UNREAD, np.int64), np.zeros(n, np.int64), {}, {})
        self._present = np.full(n, -1, np.int8)  # by row group; -1: not looked up
        self._keys = count()
        self.filled = np.zeros(n, np.bool_)
        self.read_bytes = 0
        super().__init__(TiledFilters.none(n))

    @property
    def errors(self) -> Mapping[int, BloomParquetError]:
        return self._facts.errors

    @property
    def cached_bytes(self) -> int:
        return sum(matrix.words.nbytes for matrix in self._facts.matrices.values())

    def look_up(self, groups: NDArray[np.int64], stripe: NDArray[np.int64], reads: ReadCount) -> NDArray[np.bool_]:
        """Whether each of `groups` has a usable filter; ``stripe[i]`` is the stripe of ``groups[i]``. Reads footers of
        stripes."""
        unknown = np.unique(stripe[self._present[groups] < 0])
        for number, footer in zip(unknown.tolist(), self._read_footers(unknown, reads), strict=True):
            self._present[self._first[number] : self._first[number + 1]] = (
                isinstance(footer, StripeIndexes)
                and footer.row_groups > 0
                and footer.filter_kind(self._column) is not None
                and not self._is_unusable(footer)
            )
        return self._present[groups] > 0

    def _is_unusable(self, footer: StripeIndexes) -> bool:
        reason = self._why_unusable(footer)
        self.why_some_unusable = reason or self.why_some_unusable
        return reason is not None

    def read_so_far(self, groups: NDArray[np.int64]) -> ReadFilters:
        """The filters of `groups` that were read. Errors are left out: they are met again."""
        facts = self._facts
        key, row = facts.key[groups], facts.row[groups]
        key[(key == _NO_FILTER) & np.isin(groups, list(facts.errors))] = _UNREAD
        numbers = np.unique(key[key >= 0])
        matrices = [facts.matrices[number] for number in numbers.tolist()]
        key[key >= 0] = np.searchsorted(numbers, key[key >= 0])
        functions, words = tuple(each.k for each in matrices), tuple(each.words for each in matrices)
        return ReadFilters(self._present[groups], key, row, functions, words)

    def put_read(self, groups: NDArray[np.int64], read: ReadFilters) -> None:
        """Take over the filters of `groups` that another process read."""
        with self._lock:
            facts, keys = self._facts.copy(), []
            for k, words in zip(read.functions, read.words, strict=True):
                keys.append(next(self._keys))
                facts.matrices[keys[-1]] = _FilterMatrix(k, words, (words == 0).all(axis=1))
            facts.key[groups] = np.where(read.key < 0, read.key, np.array([*keys, _UNREAD])[np.maximum(read.key, 0)])
            facts.row[groups] = read.row
            self._facts = facts
            self._present[groups] = read.present

    def put_tiled(self, groups: NDArray[np.int64], tiled: TiledFilters) -> None:
        """`groups` have the filters `tiled`, and no others that can be used."""
        with self._lock:
            self.tiled = self.tiled.replaced(groups, tiled)
            self._present[groups] = tiled.tile >= 0

    def _prepare(self, question: Question) -> Iterator[NDArray[np.int64]]:
        groups = question.chunks
        stripe = np.searchsorted(self._first, groups, "right") - 1
        self._locate(np.unique(stripe[self._facts.key[groups] == _UNREAD]), question.reads)
        is_unread = self._facts.key[groups] == _UNREAD
        yield np.flatnonzero(~is_unread)
        unread = np.flatnonzero(is_unread)
        stripe = stripe[unread]
        kept: list[int] = []
        for stripes in self._batches(np.unique(stripe)):
            keys = self._read(stripes.tolist(), question.reads)
            yield unread[np.isin(stripe, stripes)]
            kept += self._keep(keys)
        self._join(kept)

    def _answer(self, question: Question) -> NDArray[np.bool_]:
        groups, facts = question.chunks, self._facts
        answers, keys = np.ones(len(groups), np.bool_), facts.key[groups]
        for key in np.unique(keys[keys >= 0]).tolist():
            positions, matrix = np.flatnonzero(keys == key), facts.matrices[key]
            rows = facts.row[groups[positions]]
            empty = matrix.empty[rows]
            for group in groups[positions[empty]].tolist():
                if self.filled[group]:
                    self._report_never_filled(group)
            # An empty filter belongs to a row group of nulls, or was never filled.
            positions, rows = positions[~empty], rows[~empty]
            if len(positions):
                first, last = question.first[positions], question.last[positions]
                answers[positions] = matrix.check(rows, question.hashes, first, last)
        return answers

    def _locate(self, stripes: NDArray[np.int64], reads: ReadCount) -> None:
        """Read the footers of `stripes`, which say where their filters are."""
        if not len(stripes):
            return
        facts = self._facts.copy()
        for stripe, footer in zip(stripes.tolist(), self._read_footers(stripes, reads), strict=True):
            if not isinstance(footer, StripeIndexes):
                self._invalidate_stripe(facts, stripe, footer)
            elif self._is_unusable(footer):
                facts.key[self._first[stripe] : self._first[stripe + 1]] = _NO_FILTER
            else:
                self._stripes[stripe] = footer
        self._facts = facts

    def _invalidate_stripe(self, facts: _Facts, stripe: int, error: BloomParquetError) -> None:
        """Record in `facts` that the filters of a stripe cannot be used."""
        groups = range(int(self._first[stripe]), int(self._first[stripe + 1]))
        facts.key[groups.start : groups.stop] = _NO_FILTER
        facts.errors.update(dict.fromkeys(groups, error))

    def _batches(self, stripes: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """`stripes` in batches whose filters take a bounded amount of memory."""
        cost = np.array([self._stored_bytes(stripe) for stripe in stripes.tolist()], np.int64) * _MAX_RATIO
        batch = np.maximum((np.cumsum(cost) - cost) // _BATCH_BYTES, np.arange(len(stripes)) // _STRIPES_AT_ONCE)
        yield from np.split(stripes, np.flatnonzero(np.diff(batch)) + 1) if len(stripes) else ()

    def _stored_bytes(self, stripe: int) -> int:
        indexes = self._stripes[stripe]
        kind = indexes.filter_kind(self._column)
        return 0 if kind is None else min(indexes.streams[kind, self._column].length, MAX_STREAM)

    def _read(self, stripes: Sequence[int], reads: ReadCount) -> list[int]:
        """Read the filters of `stripes`. Returns the keys of the new matrices."""
        facts, by_size = self._facts.copy(), dict[tuple[int, int], list[tuple[int, OrcBloomFilter]]]()
        results = read_filters(self._storage, [(self._stripes[stripe], self._column) for stripe in stripes], reads)
        for stripe, filters in zip(stripes, results, strict=True):
            groups = range(int(self._first[stripe]), int(self._first[stripe + 1]))
            facts.key[groups.start : groups.stop] = _NO_FILTER
            if isinstance(filters, BloomParquetError):
                self._invalidate_stripe(facts, stripe, filters)
                self._warn(self._stripes[stripe].path, filters)
            elif filters is not None:
                for group, each in zip(groups, filters, strict=True):
                    by_size.setdefault((each.k, each.bits), []).append((group, each))
        keys = []
        for (k, _), members in by_size.items():
            groups_of_size = np.array([group for group, _ in members], np.int64)
            words = np.stack([each.words for _, each in members])
            self.read_bytes += words.nbytes
            keys.append(next(self._keys))
            facts.matrices[keys[-1]] = _FilterMatrix(k, words, (words == 0).all(axis=1))
            facts.key[groups_of_size], facts.row[groups_of_size] = keys[-1], np.arange(len(members))
        self._facts = facts
        return keys

    def _keep(self, keys: Sequence[int]) -> list[int]:
        """Keep matrices up to the bound, and return their keys. The others are read again when they are needed."""
        facts, kept = self._facts.copy(), []
        sizes = {key: facts.matrices[key].words.nbytes for key in keys}
        room = RESIDENT_BYTES - self.cached_bytes + sum(sizes.values())
        for key, size in sizes.items():
            if size <= room:
                room -= size
                kept.append(key)
            else:
                facts.key[facts.key == key] = _UNREAD
                del facts.matrices[key]
        self._facts = facts
        return kept

    def _join(self, keys: Sequence[int]) -> None:
        """Join matrices of one size: one more matrix costs more than one more filter."""
        if len(keys) < 2:
            return
        facts, by_size = self._facts.copy(), dict[tuple[int, int], list[int]]()
        for key in keys:
            matrix = facts.matrices[key]
            by_size.setdefault((matrix.k, matrix.words.shape[1]), []).append(key)
        for (k, _), members in by_size.items():
            if len(members) == 1:
                continue
            matrices = [facts.matrices.pop(key) for key in members]
            starts = np.cumsum([0, *(len(matrix.words) for matrix in matrices)])
            for key, start in zip(members, starts.tolist()):
                groups = facts.key == key
                facts.row[groups] += start
                facts.key[groups] = members[0]
            words = np.concatenate([matrix.words for matrix in matrices])
            empty = np.concatenate([matrix.empty for matrix in matrices])
            facts.matrices[members[0]] = _FilterMatrix(k, words, empty)
        self._facts = facts

    def _report_never_filled(self, group: int) -> None:
        facts = self._facts
        if group not in facts.errors:
            stripe = int(np.searchsorted(self._first, group, "right")) - 1
            (footer,) = self._read_footers(np.array([stripe]), ReadCount())
            if not isinstance(footer, StripeIndexes):
                return
            error = never_filled(footer, group - int(self._first[stripe]), self._name)
            self._facts = replace(facts, errors={**facts.errors, group: error})
            self._warn(footer.path, error)


class FiltersOfGroups:
    """The filters of n row groups, given by their numbers in the table."""

    def __init__(self, filters: OrcFilters, at: NDArray[np.int64], present: NDArray[np.bool_]) -> None:
        self._filters, self._at, self.present = filters, at, present
        self.errors: dict[int, BloomParquetError] = {}

    @property
    def in_index(self) -> NDArray[np.bool_]:
        return self._filters.in_index[self._at]

    def check(self, question: Question) -> NDArray[np.bool_]:
        chunks, at = question.chunks, self._at[question.chunks]
        answers = self._filters.check(replace(question, chunks=at))
        if errors := self._filters.errors:
            self.errors |= {i: errors[j] for i, j in zip(chunks.tolist(), at.tolist(), strict=True) if j in errors}
        return answers
