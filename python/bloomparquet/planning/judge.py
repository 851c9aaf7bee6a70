"""Verdicts on the row groups or stripes of one plan: by partition values, then statistics, then Bloom filters."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError, PlanError
from bloomparquet.planning.dataset import Dataset
from bloomparquet.planning.decisions import DECISIONS, Decision
from bloomparquet.planning.evidence import statistics
from bloomparquet.planning.evidence.interface import Chunks, Question, RowRanges, Units
from bloomparquet.planning.evidence.statistics import Candidates
from bloomparquet.planning.evidence.variants import find_typed_chunks
from bloomparquet.planning.options import OnFilterError, PlanOptions
from bloomparquet.planning.partition_evidence import PartitionEvidence, column_of
from bloomparquet.planning.plan import KEPT, REASONS, RowGroupCounts
from bloomparquet.query.columns import FileSchema, LeafColumn
from bloomparquet.query.elements import ElementIn
from bloomparquet.query.nulls import value_for_null
from bloomparquet.query.predicate import Column, Predicate
from bloomparquet.query.resolve import NoLeaf, find_leaf_of
from bloomparquet.query.variants import VariantField
from bloomparquet.query.verdict import Reason, Verdicts, might_match
from bloomparquet.storage.files import ReadCount

NO_FILTER, HAS_FILTER = 1, 2

_MANY_PAIRS = 1_000_000  # of a filter and a value: to check them takes about 40 ms
_SAMPLE = 64


@dataclass(frozen=True, slots=True)
class RowCondition:
    """A normalized predicate that rows must match. `strict`: a literal of the wrong type is an error."""

    predicate: Predicate
    strict: bool


class Errors:
    """The errors of evidence that could not be used, each once, in order. With ``on_error="fail"`` the first is
    raised."""

    def __init__(self, on_error: OnFilterError) -> None:
        self.errors: dict[BloomParquetError, None] = {}
        self._on_error = on_error

    def add(self, errors: Iterable[BloomParquetError]) -> None:
        for error in errors:
            if self._on_error == "fail":
                raise error
            self.errors[error] = None


class Stopwatch:
    """Seconds by part of the work."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, part: str) -> None:
        """Count the time since the last call for `part`."""
        now = time.perf_counter()
        self.seconds[part] = self.seconds.get(part, 0.0) + now - self._last
        self._last = now


@dataclass(frozen=True, slots=True)
class Request:
    """The inputs of a plan, and the counts and findings of planning while it runs.

    `file_positions`: per file of the table, its index in ``dataset.files``. `unknown`: the columns that no file has.
    `filters`: by column of an equality, per unit: NO_FILTER, HAS_FILTER, or 0 if it was not looked up.
    """

    dataset: Dataset
    options: PlanOptions
    partitions: PartitionEvidence
    file_positions: NDArray[np.int64]
    unknown: frozenset[Column]
    footer_reads: ReadCount
    filter_reads: ReadCount
    errors: Errors
    filters: dict[Column, NDArray[np.uint8]] = field(default_factory=dict)
    watch: Stopwatch = field(default_factory=Stopwatch)

    def uncounted_copy(self) -> Request:
        """A copy of this request, whose reads, errors and time do not count for the plan."""
        uncounted = replace(self, footer_reads=ReadCount(), filter_reads=ReadCount(), errors=Errors("keep"))
        return replace(uncounted, watch=Stopwatch(), filters={})


def judge(
    table: Units, conditions: Sequence[RowCondition], request: Request
) -> tuple[NDArray[np.uint8], RowGroupCounts | None]:
    """The verdict on each unit of `table`, an index into REASONS; for ORC also the counts of row groups in stripes."""
    evidence = [LeafVerdicts(table, condition, request) for condition in conditions]
    alive = _by_statistics(evidence, table)
    parts = table.row_groups_within(np.flatnonzero(alive))
    if parts is None:
        return _codes(alive, _by_filters(evidence, alive)), None
    evidence = [LeafVerdicts(parts, condition, request) for condition in conditions]
    alive_parts = _by_statistics(evidence, parts)
    kept_parts = _by_filters(evidence, alive_parts)
    alive, kept = np.zeros((2, len(table)), np.bool_)
    alive[parts.stripe_index[alive_parts]] = True
    kept[parts.stripe_index[kept_parts]] = True
    n_alive, n_kept = int(np.count_nonzero(alive_parts)), int(np.count_nonzero(kept_parts))
    return _codes(alive, kept), RowGroupCounts(parts.total, n_kept, parts.total - n_alive, n_alive - n_kept)


def _by_statistics(evidence: Sequence[LeafVerdicts], table: RowRanges) -> Verdicts:
    """Verdicts by partition values, null counts and bounds."""
    alive = np.asarray(table.rows > 0, np.bool_)
    for each in evidence:
        alive = might_match(each.condition.predicate, alive, each.judge_by_statistics)
        each.watch.lap("min/max and null counts")
    return alive


def _by_filters(evidence: Sequence[LeafVerdicts], alive: Verdicts) -> Verdicts:
    """Verdicts by Bloom filters on the units that are `alive`."""
    for each in evidence:
        if each.equalities:
            alive = might_match(each.condition.predicate, alive, each.judge_by_filters)
            each.watch.lap("Bloom filters")
    return alive


def decide(
    table: Units, conditions: Sequence[RowCondition], request: Request, codes: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    """The evidence that decided about each unit of `table`: an index into DECISIONS. Asks no filter again.

    `codes`: the result of :func:`judge`.
    """
    decisions = np.full(len(table), DECISIONS.index(Decision.READ), np.uint8)
    undecided = codes == REASONS.index(Reason.STATISTICS)
    alive = np.asarray(table.rows > 0, np.bool_)
    decisions[undecided & ~alive] = DECISIONS.index(Decision.NULLS)
    undecided &= alive
    request = request.uncounted_copy()
    # Only leaves that the plan judged: for another leaf, a column might have to be read.
    judged = [LeafVerdicts(table, each, request) for each in conditions]
    _by_statistics(judged, table)
    only = frozenset(leaf for each in judged for leaf in each.verdicts)
    for by in (Decision.CONSTANT, Decision.PARTITION, Decision.NULLS):
        if undecided.any():
            left = undecided & _by_statistics(
                [LeafVerdicts(table, each, request, by, only) for each in conditions], table
            )
            decisions[undecided & ~left] = DECISIONS.index(by)
            undecided = left
    decisions[undecided] = DECISIONS.index(Decision.BOUNDS)
    by_filter = codes == REASONS.index(Reason.BLOOM)
    if by_filter.any():
        decisions[by_filter] = DECISIONS.index(Decision.BLOOM)
        decisions[by_filter & _asked_in_index(table, conditions, request, by_filter)] = DECISIONS.index(Decision.INDEX)
    return decisions


def _asked_in_index(
    table: Units, conditions: Sequence[RowCondition], request: Request, some: Verdicts
) -> NDArray[np.bool_]:
    """Whether each unit has a filter in an index, on a column that a plan asked about.

    The answer is right for the units `some`; it may be False for others.
    """
    parts = table.row_groups_within(np.flatnonzero(some))
    in_index = np.zeros(len(table), np.bool_)
    for condition in conditions:
        verdicts = LeafVerdicts(table if parts is None else parts, condition, request)
        _by_statistics([verdicts], table if parts is None else parts)
        for members in verdicts.asked_in_index():
            in_index[members if parts is None else parts.stripe_index[members]] = True
    return in_index


def _codes(alive: Verdicts, kept: Verdicts) -> NDArray[np.uint8]:
    codes = np.full(len(alive), KEPT, np.uint8)
    codes[~alive] = REASONS.index(Reason.STATISTICS)
    codes[alive & ~kept] = REASONS.index(Reason.BLOOM)
    return codes


class Equality(NamedTuple):
    """An equality on the `chunks` of one profile, with the `candidates` that their Bloom filters decide about.

    ``conclusive[i]`` is whether a proof that chunk i holds none of the values excludes its row range.
    """

    chunks: Chunks
    candidates: Candidates
    conclusive: Verdicts


class LeafVerdicts:
    """Verdicts on the leaf predicates of one condition. The verdict by statistics is computed once for each leaf.

    `up_to`: the last kind of evidence that :meth:`judge_by_statistics` uses, in the order of :class:`Decision`. `only`:
    the ids of the leaves that are judged; None judges all.
    """

    def __init__(
        self,
        table: RowRanges,
        condition: RowCondition,
        request: Request,
        up_to: Decision = Decision.BOUNDS,
        only: frozenset[int] | None = None,
    ) -> None:
        self._table, self.condition, self._request, self._up_to, self._only = table, condition, request, up_to, only
        self.watch = request.watch
        self.equalities: dict[int, list[Equality]] = {}  # by id of leaf
        self.verdicts: dict[int, Verdicts] = {}  # by id of leaf
        self.asked = np.zeros(len(table), np.bool_)
        """The row ranges of which a usable filter was asked."""
        self._chunks: dict[tuple[int, int], Chunks] = {}  # the table may not cache them

    def judge_by_statistics(self, leaf: Predicate, alive: Verdicts) -> Verdicts:
        """Verdicts by everything but filters, on all row ranges, also on those that are not `alive`: a column's arrays
        hold all of them, and :meth:`judge_by_filters` asks again for other ones."""
        verdicts = self.verdicts.get(id(leaf))
        if verdicts is None:
            verdicts = self.verdicts[id(leaf)] = self._judge(leaf)
        return verdicts

    def judge_by_filters(self, leaf: Predicate, alive: Verdicts) -> Verdicts:
        """Verdicts by all evidence. Reads the filters of the row ranges that are `alive` only."""
        verdicts = self.judge_by_statistics(leaf, alive)
        equalities = self.equalities.get(id(leaf), ())
        if equalities:
            verdicts = verdicts & alive
            for equality in equalities:
                self._ask(equality, verdicts)
        return verdicts

    def asked_in_index(self) -> Iterator[NDArray[np.int64]]:
        """The row ranges with a filter in an index that answers an equality: for each equality, their positions."""
        for equality in (each for of_leaf in self.equalities.values() for each in of_leaf):
            yield equality.chunks.members[equality.candidates.filters.in_index]

    def _judge(self, leaf: Predicate) -> Verdicts:
        request, column = self._request, column_of(leaf)
        if self._up_to is Decision.CONSTANT or (self._only is not None and id(leaf) not in self._only):
            return np.ones(len(self._table), np.bool_)
        by_file = request.partitions.verdicts(leaf, self.condition.strict)
        if by_file is not None:
            return by_file[request.file_positions][self._table.file]
        verdicts = np.ones(len(self._table), np.bool_)
        if self._up_to is Decision.PARTITION:
            return verdicts
        is_nested = isinstance(leaf, ElementIn | VariantField)
        if column in request.unknown or (is_nested and not self._table.format.has_element_evidence):
            return verdicts
        case_sensitive, reader_types = request.options.case_sensitive, request.options.reader_types
        reader_type = reader_types.get((*column, leaf.part) if isinstance(leaf, ElementIn) else column)
        for i, schema in enumerate(self._table.schemas):
            if isinstance(leaf, VariantField):
                self._judge_variant(leaf, i, schema, verdicts)
                continue
            stored = find_leaf_of(schema, leaf, case_sensitive=case_sensitive)
            leaf_column = None if isinstance(stored, NoLeaf) else stored
            if stored is NoLeaf.UNKNOWN or not self._table.is_lossless(i, leaf_column, reader_type):
                continue
            if leaf_column is None:
                # The file lacks the column, so every value is NULL.
                verdicts[self._table.members(i)] = value_for_null(leaf) is True
            else:
                chunks = self._chunks_of(i, leaf_column)
                self._judge_chunks(leaf, leaf, chunks, np.ones(len(chunks.members), np.bool_), verdicts)
        return verdicts

    def _judge_variant(self, field: VariantField, profile: int, schema: FileSchema, verdicts: Verdicts) -> None:
        typed = find_typed_chunks(
            field, schema, lambda leaf: self._chunks_of(profile, leaf), self._table.rows,
            case_sensitive=self._request.options.case_sensitive,
        )  # fmt: skip
        if typed is NoLeaf.ABSENT:
            verdicts[self._table.members(profile)] = False
        if not isinstance(typed, NoLeaf) and typed.conclusive.any():
            self._judge_chunks(field, typed.test, typed.chunks, typed.conclusive, verdicts)

    def _chunks_of(self, profile: int, leaf_column: LeafColumn) -> Chunks:
        key = profile, leaf_column.index
        if key not in self._chunks:
            self._chunks[key] = self._table.chunks(profile, leaf_column, self._request.footer_reads)
        return self._chunks[key]

    def _judge_chunks(
        self, leaf: Predicate, test: Predicate, chunks: Chunks, conclusive: Verdicts, verdicts: Verdicts
    ) -> None:
        """Judge `leaf` by evidence about `test`, a predicate on the values of `chunks`. Writes into `verdicts`.

        ``conclusive[i]``: whether `leaf` is TRUE for no row of chunk i if `test` is TRUE for none of its values.
        """
        conclusive = conclusive & chunks.shown_as_stored
        if self._up_to is Decision.NULLS:
            verdicts[chunks.members] = statistics.judge_nulls(test, chunks) | ~conclusive
            return
        self._request.errors.add(chunks.unreadable)
        try:
            answers, candidates = statistics.judge_leaf(test, chunks, self._request.options.timezone)
        except PlanError as error:
            if not self.condition.strict:
                return
            if not len(chunks.members):
                raise
            raise PlanError(f"{self._path_of(chunks.members[0])}: {error}") from None  # files may differ in the type
        verdicts[chunks.members] = answers | ~conclusive
        if candidates is not None:
            self._record_filters(column_of(leaf), chunks.members, candidates.filters.present)
            if candidates.filters.present.any():
                self.equalities.setdefault(id(leaf), []).append(Equality(chunks, candidates, conclusive))

    def _record_filters(self, column: Column, members: NDArray[np.int64], present: NDArray[np.bool_]) -> None:
        filters, stripe = self._request.filters, getattr(self._table, "stripe_index", None)
        if stripe is None:
            filters.setdefault(column, np.zeros(len(self._table), np.uint8))
        if column in filters:
            units = members if stripe is None else stripe[members]
            np.maximum.at(filters[column], units, np.where(present, HAS_FILTER, NO_FILTER).astype(np.uint8))

    def _path_of(self, row_range: int) -> str:
        position = int(self._request.file_positions[self._table.file[row_range]])
        return self._request.dataset.files[position].path

    def _ask(self, equality: Equality, verdicts: Verdicts) -> None:
        """Ask the filters of the chunks that `verdicts` keeps. Writes the answers into `verdicts`.

        Of many values, a sample of the filters is asked first. If all of these say maybe, no other filter is asked.
        """
        chunks, candidates, conclusive = equality
        filters, _, first, last = candidates
        asked = np.flatnonzero(verdicts[chunks.members] & conclusive & filters.present)
        if len(asked) > _SAMPLE and int((last - first)[asked].sum()) > _MANY_PAIRS:
            sample = np.sort(np.random.default_rng(0).choice(asked, _SAMPLE, replace=False))
            if self._check(chunks, candidates, sample, verdicts).all():
                return  # the others would most probably say maybe too, in a time that the query notices
            asked = np.setdiff1d(asked, sample)
        if len(asked):
            self._check(chunks, candidates, asked, verdicts)

    def _check(
        self, chunks: Chunks, candidates: Candidates, asked: NDArray[np.int64], verdicts: Verdicts
    ) -> NDArray[np.bool_]:
        filters, hashes, first, last = candidates
        storage, reads = self._request.dataset.storage, self._request.filter_reads
        answers, n_unusable = filters.check(Question(storage, asked, first[asked], last[asked], hashes, reads))
        verdicts[chunks.members[asked]] = answers
        self.asked[chunks.members[asked]] = True
        if n_unusable:
            self.asked[chunks.members[[i for i in asked.tolist() if i in filters.errors]]] = False
            self._request.errors.add(filters.errors[i] for i in asked.tolist() if i in filters.errors)
        return answers
