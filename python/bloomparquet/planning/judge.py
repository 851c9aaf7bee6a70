"""Decides about the row groups or stripes of one plan: by partition values, then statistics, then Bloom filters."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError, PlanError
from bloomparquet.planning.dataset import Dataset
from bloomparquet.planning.decisions import HAS_FILTER, KEPT, NO_FILTER, RowGroupCounts
from bloomparquet.planning.evidence import statistics
from bloomparquet.planning.evidence.interface import Chunks, Question, RowRanges, Units
from bloomparquet.planning.evidence.statistics import Candidates
from bloomparquet.planning.evidence.variants import find_typed_chunks
from bloomparquet.planning.options import OnFilterError, PlanOptions
from bloomparquet.planning.partition_evidence import PartitionEvidence
from bloomparquet.query.columns import FileSchema, LeafColumn
from bloomparquet.query.elements import ElementIn
from bloomparquet.query.nulls import value_for_null
from bloomparquet.query.predicate import Column, Predicate, column_of
from bloomparquet.query.resolve import NoLeaf, find_leaf_of
from bloomparquet.query.variants import VariantField
from bloomparquet.query.verdict import Codes, Decision, Verdicts, cheapest, decide
from bloomparquet.storage.files import ReadCount

_MANY_PAIRS = 1_000_000  # of a filter and a value: to check them takes about 40 ms
_SAMPLE = 64


@dataclass(frozen=True, slots=True)
class RowCondition:
    """A normalized predicate that rows must match. `strict`: a literal of the wrong type is an error."""

    predicate: Predicate
    strict: bool


@dataclass(eq=False)
class Errors:
    """The errors of evidence that could not be used, each once, in order. With ``on_error="fail"`` the first is
    raised."""

    on_error: OnFilterError
    errors: dict[BloomParquetError, None] = field(default_factory=dict)

    def add(self, errors: Iterable[BloomParquetError]) -> None:
        for error in errors:
            if self.on_error == "fail":
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
    `predicates`: what rows must match, in negation normal form; evidence is asked about weaker forms. `paths`: the
    paths that their columns mean. `filters`: by column of an equality, per unit: NO_FILTER, HAS_FILTER, or 0 if it was
    not looked up.
    """

    dataset: Dataset
    options: PlanOptions
    partitions: PartitionEvidence
    file_positions: NDArray[np.int64]
    unknown: frozenset[Column]
    footer_reads: ReadCount
    filter_reads: ReadCount
    errors: Errors
    predicates: tuple[Predicate, ...] = ()
    paths: dict[Column, Column] = field(default_factory=dict)
    filters: dict[Column, NDArray[np.uint8]] = field(default_factory=dict)
    watch: Stopwatch = field(default_factory=Stopwatch)

    def uncounted_copy(self) -> Request:
        """A copy of this request, whose reads, errors and time do not count for the plan."""
        uncounted = replace(self, footer_reads=ReadCount(), filter_reads=ReadCount(), errors=Errors("keep"))
        return replace(uncounted, watch=Stopwatch(), filters={})


class Judgement(NamedTuple):
    """The decisions about the n units of a plan.

    `codes` (n,): the evidence that decided. `counts`: of the row groups within ORC stripes; None over Parquet files.
    `ranges`: the row ranges that were judged: the units, or the row groups within the stripes that evidence about whole
    stripes keeps. ``codes_of_ranges[i]``: what decided about range i. ``owner[i]``: its unit. `evidence`: of each
    condition.
    """

    codes: Codes
    counts: RowGroupCounts | None
    ranges: RowRanges
    codes_of_ranges: Codes
    owner: NDArray[np.int64]
    evidence: Sequence[LeafDecisions]


def judge(table: Units, conditions: Sequence[RowCondition], request: Request) -> Judgement:
    """What decides about each unit of `table`: evidence excludes it, or it is read."""
    evidence = [LeafDecisions(table, condition, request) for condition in conditions]
    codes = _by_statistics(evidence, table)
    parts = table.row_groups_within(np.flatnonzero(codes == KEPT))
    if parts is None:
        codes = _by_filters(evidence, codes)
        return Judgement(codes, None, table, codes, np.arange(len(table)), evidence)
    evidence = [LeafDecisions(parts, condition, request) for condition in conditions]
    of_parts = _by_filters(evidence, _by_statistics(evidence, parts))
    # A stripe is excluded by the most expensive evidence that one of its row groups needs.
    np.maximum.at(codes, parts.stripe_index, of_parts)
    codes[parts.stripe_index[of_parts == KEPT]] = KEPT
    kept = int(np.count_nonzero(of_parts == KEPT))
    by_bloom = int(np.count_nonzero(of_parts >= Decision.INDEX.code))
    counts = RowGroupCounts(parts.total, kept, parts.total - kept - by_bloom, by_bloom)
    return Judgement(codes, counts, parts, of_parts, parts.stripe_index, evidence)


def _by_statistics(evidence: Sequence[LeafDecisions], table: RowRanges) -> Codes:
    """What partition values, null counts and bounds exclude."""
    codes = np.where(table.rows == 0, np.uint8(Decision.NULLS.code), np.uint8(KEPT))
    for each in evidence:
        codes = cheapest(codes, decide(each.condition.predicate, codes == KEPT, each.judge_by_statistics))
        each.watch.lap("min/max and null counts")
    return codes


def _by_filters(evidence: Sequence[LeafDecisions], codes: Codes) -> Codes:
    """`codes`, and what Bloom filters exclude of the rest."""
    for each in evidence:
        if each.equalities:
            alive = codes == KEPT
            codes = np.where(alive, decide(each.condition.predicate, alive, each.judge_by_filters), codes)
            each.watch.lap("Bloom filters")
    return codes


class Equality(NamedTuple):
    """An equality on the `chunks` of one profile, with the `candidates` that their Bloom filters decide about.

    ``conclusive[i]`` is whether a proof that chunk i holds none of the values excludes its row range.
    """

    chunks: Chunks
    candidates: Candidates
    conclusive: Verdicts


class LeafDecisions:
    """What evidence says of the leaf predicates of one condition. Statistics are judged once for each leaf."""

    def __init__(self, table: RowRanges, condition: RowCondition, request: Request) -> None:
        self._table, self.condition, self._request = table, condition, request
        self.watch = request.watch
        self.equalities: dict[int, list[Equality]] = {}  # by id of leaf
        self._codes: dict[int, Codes] = {}  # by id of leaf
        self.asked = np.zeros(len(table), np.bool_)
        """The row ranges of which a usable filter was asked."""
        self._chunks: dict[tuple[int, int], Chunks] = {}  # the table may not cache them

    def judge_by_statistics(self, leaf: Predicate, alive: Verdicts) -> Codes:
        """What everything but filters excludes, of all row ranges, also of those that are not `alive`: a column's
        arrays hold all of them, and :meth:`judge_by_filters` asks again for other ones."""
        codes = self._codes.get(id(leaf))
        if codes is None:
            codes = self._codes[id(leaf)] = self._judge(leaf)
        return codes

    def judge_by_filters(self, leaf: Predicate, alive: Verdicts) -> Codes:
        """What all evidence excludes. Reads the filters of the row ranges that are `alive` only."""
        codes = self.judge_by_statistics(leaf, alive)
        if equalities := self.equalities.get(id(leaf)):
            codes = codes.copy()
            for equality in equalities:
                self._ask(equality, alive, codes)
        return codes

    def _judge(self, leaf: Predicate) -> Codes:
        request, column = self._request, column_of(leaf)
        codes = np.zeros(len(self._table), np.uint8)
        partitioned = bool(request.dataset.partition_names)
        by_file = request.partitions.verdicts(leaf, self.condition.strict) if partitioned else None
        if by_file is not None:
            codes[~by_file[request.file_positions][self._table.file]] = Decision.PARTITION.code
            return codes
        is_nested = isinstance(leaf, ElementIn | VariantField)
        if column in request.unknown or (is_nested and not self._table.format.has_element_evidence):
            return codes
        case_sensitive, reader_types = request.options.case_sensitive, request.options.reader_types
        reader_type = reader_types.get((*column, leaf.part) if isinstance(leaf, ElementIn) else column)
        for i, schema in enumerate(self._table.schemas):
            if isinstance(leaf, VariantField):
                self._judge_variant(leaf, i, schema, codes)
                continue
            stored = find_leaf_of(schema, leaf, case_sensitive=case_sensitive)
            leaf_column = None if isinstance(stored, NoLeaf) else stored
            if stored is NoLeaf.UNKNOWN or not self._table.is_lossless(i, leaf_column, reader_type):
                continue
            if leaf_column is None:
                # The file lacks the column, so every value is NULL.
                codes[self._table.members(i)] = KEPT if value_for_null(leaf) is True else Decision.NULLS.code
            else:
                chunks = self._chunks_of(i, leaf_column)
                self._judge_chunks(leaf, leaf, chunks, np.ones(len(chunks.members), np.bool_), codes)
        return codes

    def _judge_variant(self, field: VariantField, profile: int, schema: FileSchema, codes: Codes) -> None:
        typed = find_typed_chunks(
            field, schema, lambda leaf: self._chunks_of(profile, leaf), self._table.rows,
            case_sensitive=self._request.options.case_sensitive,
        )  # fmt: skip
        if typed is NoLeaf.ABSENT:
            codes[self._table.members(profile)] = Decision.NULLS.code
        if not isinstance(typed, NoLeaf) and typed.conclusive.any():
            self._judge_chunks(field, typed.test, typed.chunks, typed.conclusive, codes)

    def _chunks_of(self, profile: int, leaf_column: LeafColumn) -> Chunks:
        key = profile, leaf_column.index
        if key not in self._chunks:
            self._chunks[key] = self._table.chunks(profile, leaf_column, self._request.footer_reads)
        return self._chunks[key]

    def _judge_chunks(
        self, leaf: Predicate, test: Predicate, chunks: Chunks, conclusive: Verdicts, codes: Codes
    ) -> None:
        """Judge `leaf` by evidence about `test`, a predicate on the values of `chunks`. Writes into `codes`.

        ``conclusive[i]``: whether `leaf` is TRUE for no row of chunk i if `test` is TRUE for none of its values.
        """
        conclusive = conclusive & chunks.shown_as_stored
        if unreadable := chunks.unreadable:
            self._request.errors.add(unreadable)
        try:
            excluded_by, candidates = statistics.judge_leaf(test, chunks, self._request.options.timezone)
        except PlanError as error:
            if not self.condition.strict:
                return
            if not len(chunks.members):
                raise
            raise PlanError(f"{self._path_of(chunks.members[0])}: {error}") from None  # files may differ in the type
        codes[chunks.members] = np.where(conclusive, excluded_by, np.uint8(KEPT))
        if candidates is not None:
            present = candidates.filters.present
            self._record_filters(column_of(leaf), chunks.members, present)
            if present.any():
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

    def _ask(self, equality: Equality, alive: Verdicts, codes: Codes) -> None:
        """Ask the filters of the `alive` chunks that `codes` keeps. Writes what they exclude into `codes`.

        Of many values, a sample of the filters is asked first. If all of these say maybe, no other filter is asked.
        """
        chunks, candidates, conclusive = equality
        filters, _, first, last = candidates
        is_open = (alive & (codes == KEPT))[chunks.members]
        asked = np.flatnonzero(is_open & conclusive & filters.present)
        if len(asked) > _SAMPLE and int((last - first)[asked].sum()) > _MANY_PAIRS:
            sample = np.sort(np.random.default_rng(0).choice(asked, _SAMPLE, replace=False))
            if self._check(chunks, candidates, sample, codes).all():
                return  # the others would most probably say maybe too, in a time that the query notices
            asked = np.setdiff1d(asked, sample)
        if len(asked):
            self._check(chunks, candidates, asked, codes)

    def _check(
        self, chunks: Chunks, candidates: Candidates, asked: NDArray[np.int64], codes: Codes
    ) -> NDArray[np.bool_]:
        filters, hashes, first, last = candidates
        storage, reads = self._request.dataset.storage, self._request.filter_reads
        answers = filters.check(Question(storage, asked, first[asked], last[asked], hashes, reads))
        excluded = asked[~answers]
        codes[chunks.members[excluded]] = np.where(filters.in_index[excluded], Decision.INDEX.code, Decision.BLOOM.code)
        self.asked[chunks.members[asked]] = True
        if errors := filters.errors:
            unusable = [i for i in asked.tolist() if i in errors]
            self.asked[chunks.members[unusable]] = False
            self._request.errors.add(errors[i] for i in unusable)
        return answers
