"""Verdicts on the row groups or stripes of one plan: by partition values, then statistics, then Bloom filters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError, PlanError
from bloomparquet.planning.dataset import Dataset
from bloomparquet.planning.evidence import statistics
from bloomparquet.planning.evidence.interface import Chunks, Question, Table, Units
from bloomparquet.planning.evidence.statistics import Candidates
from bloomparquet.planning.options import OnFilterError, PlanOptions
from bloomparquet.planning.plan import KEPT, REASONS, RowGroupCounts
from bloomparquet.query.columns import FileSchema, LeafColumn
from bloomparquet.query.elements import ElementIn
from bloomparquet.query.evaluate import mask
from bloomparquet.query.predicate import Column, IsNull, Not, Predicate, columns
from bloomparquet.query.resolve import (
    NoLeaf,
    find_leaf_of,
    find_partition,
)
from bloomparquet.query.shredded import find_shredded, implied_test
from bloomparquet.query.variants import VariantField
from bloomparquet.query.verdict import Reason, Verdicts, might_match
from bloomparquet.storage.files import ReadCount


@dataclass(frozen=True, slots=True)
class RowCondition:
    """A normalized predicate that rows must match. `strict`: a literal of the wrong type is an error."""

    predicate: Predicate
    strict: bool


class PartitionEvidence:
    """Verdicts on leaf predicates over partition columns."""

    def __init__(self, dataset: Dataset, options: PlanOptions) -> None:
        self._dataset, self._case_sensitive, self._timezone = dataset, options.case_sensitive, options.timezone
        self._values: pa.Table | None = None

    def verdicts_or(self, leaf: Predicate, alive: Verdicts, strict: bool) -> Verdicts:
        """The :meth:`verdicts` on `leaf`; if it is not about a partition column, the files `alive`, which stay."""
        verdicts = self.verdicts(leaf, strict)
        return alive if verdicts is None else verdicts

    def verdicts(self, leaf: Predicate, strict: bool) -> Verdicts | None:
        """One verdict per file of the data set; None if `leaf` is not about a partition column."""
        name = find_partition(self._dataset.partition_names, _column(leaf), case_sensitive=self._case_sensitive)
        if name is None:
            return None
        zone = self._timezone or "UTC"
        if self._values is None:
            self._values = self._dataset.partition_table(zone)
        every_file = np.ones(len(self._dataset.files), np.bool_)
        if isinstance(leaf, ElementIn | VariantField):  # a directory name is no list and no VARIANT
            return every_file
        if self._timezone is None and pa.types.is_timestamp(self._values.schema.field(name).type):
            return every_file  # the time zone of the directory names is unknown
        try:
            matching = mask(leaf, self._values, timezone=zone, case_sensitive=self._case_sensitive)
        except PlanError:
            if strict:
                raise
            return every_file
        return np.asarray(pc.fill_null(matching, False).to_numpy(zero_copy_only=False), np.bool_)


class Errors:
    """Why evidence could not be used: each error once, in order. With ``on_error="fail"`` the first is raised."""

    def __init__(self, on_error: OnFilterError) -> None:
        self.errors: dict[BloomParquetError, None] = {}
        self._on_error = on_error

    def add(self, errors: Iterable[BloomParquetError]) -> None:
        for error in errors:
            if self._on_error == "fail":
                raise error
            self.errors[error] = None


@dataclass(frozen=True, slots=True)
class Request:
    """One plan in progress. `file_positions`: per file of the table, its index in ``dataset.files``. `unknown`: the
    columns that no file has."""

    dataset: Dataset
    options: PlanOptions
    partitions: PartitionEvidence
    file_positions: NDArray[np.int64]
    unknown: frozenset[Column]
    footer_reads: ReadCount
    filter_reads: ReadCount
    errors: Errors


def judge(
    table: Table, conditions: Sequence[RowCondition], request: Request
) -> tuple[NDArray[np.uint8], RowGroupCounts | None]:
    """Per unit of `table` an index into REASONS; for ORC files also the counts of the row groups in the stripes."""
    evidence = [_Evidence(table, condition, request) for condition in conditions]
    alive = _by_statistics(evidence, table)
    parts = table.row_groups_within(np.flatnonzero(alive))
    if parts is None:
        return _codes(alive, _by_filters(evidence, alive)), None
    evidence = [_Evidence(parts, condition, request) for condition in conditions]
    alive_parts = _by_statistics(evidence, parts)
    kept_parts = _by_filters(evidence, alive_parts)
    alive, kept = np.zeros((2, len(table)), np.bool_)
    alive[parts.stripe_index[alive_parts]] = True
    kept[parts.stripe_index[kept_parts]] = True
    n_alive, n_kept = int(np.count_nonzero(alive_parts)), int(np.count_nonzero(kept_parts))
    return _codes(alive, kept), RowGroupCounts(parts.total, n_kept, parts.total - n_alive, n_alive - n_kept)


def _by_statistics(evidence: Sequence[_Evidence], table: Units) -> Verdicts:
    """Verdicts by partition values, null counts and bounds."""
    alive = np.asarray(table.rows > 0, np.bool_)
    for each in evidence:
        alive = might_match(each.condition.predicate, alive, each.judge_by_statistics)
    return alive


def _by_filters(evidence: Sequence[_Evidence], alive: Verdicts) -> Verdicts:
    """Verdicts by Bloom filters on the units that are `alive`."""
    for each in evidence:
        if each.equalities:
            alive = might_match(each.condition.predicate, alive, each.judge_by_filters)
    return alive


def _codes(alive: Verdicts, kept: Verdicts) -> NDArray[np.uint8]:
    codes = np.full(len(alive), KEPT, np.uint8)
    codes[~alive] = REASONS.index(Reason.STATISTICS)
    codes[alive & ~kept] = REASONS.index(Reason.BLOOM)
    return codes


class _Evidence:
    """Verdicts on the leaf predicates of one condition. Those by statistics are computed once for each leaf."""

    def __init__(self, table: Units, condition: RowCondition, request: Request) -> None:
        self._table, self.condition, self._request = table, condition, request
        self.equalities: dict[int, list[tuple[Chunks, Candidates, Verdicts]]] = {}  # by id of leaf; see `_judge_chunks`
        self._verdicts: dict[int, Verdicts] = {}  # by id of leaf
        self._chunks: dict[tuple[int, int], Chunks] = {}  # the table may not cache them

    def judge_by_statistics(self, leaf: Predicate, alive: Verdicts) -> Verdicts:
        verdicts = self._verdicts.get(id(leaf))
        if verdicts is None:
            verdicts = self._verdicts[id(leaf)] = self._judge(leaf)
        return verdicts

    def judge_by_filters(self, leaf: Predicate, alive: Verdicts) -> Verdicts:
        verdicts = self.judge_by_statistics(leaf, alive)
        equalities = self.equalities.get(id(leaf), ())
        if equalities:
            verdicts = verdicts & alive
            for chunks, candidates, conclusive in equalities:
                self._ask(chunks, candidates, conclusive, verdicts)
        return verdicts

    def _judge(self, leaf: Predicate) -> Verdicts:
        request, column = self._request, _column(leaf)
        by_file = request.partitions.verdicts(leaf, self.condition.strict)
        if by_file is not None:
            return by_file[request.file_positions][self._table.file]
        verdicts = np.ones(len(self._table), np.bool_)
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
                # The file lacks the column, so every value is NULL. Only IS NULL and NOT (c <=> v) are TRUE here. In a
                # normalized predicate, Not stands only around <=>, LIKE and CaseIn. The last two are NULL; keeping them
                # is harmless. Extend this for a new predicate that is TRUE for NULL.
                verdicts[self._table.members(i)] = isinstance(leaf, IsNull | Not)
            else:
                chunks = self._chunks_of(i, leaf_column)
                self._judge_chunks(leaf, leaf, chunks, np.ones(len(chunks.members), np.bool_), verdicts)
        return verdicts

    def _judge_variant(self, field: VariantField, schema: int, root: FileSchema, verdicts: Verdicts) -> None:
        """Judge `field` by its typed leaf, where no row can have the value elsewhere.

        That is where each row has a value in this leaf, which readers then take; or where no row has one in the leaves
        of values of other types.
        """
        shredded = find_shredded(root, field, case_sensitive=self._request.options.case_sensitive)
        if shredded is NoLeaf.ABSENT:
            verdicts[self._table.members(schema)] = False
        if isinstance(shredded, NoLeaf):
            return
        test = implied_test(field, shredded.leaf.node)
        if test is None:
            return
        chunks = self._chunks_of(schema, shredded.leaf)
        rows = self._table.rows[chunks.members]
        conclusive = (chunks.nulls == 0) & (chunks.values == rows)
        if not conclusive.all():
            residuals = [self._chunks_of(schema, residual) for residual in shredded.residuals]
            conclusive |= np.all([(each.nulls == rows) & (each.values == rows) for each in residuals], axis=0)
        if conclusive.any():
            self._judge_chunks(field, test, chunks, conclusive, verdicts)

    def _chunks_of(self, schema: int, leaf_column: LeafColumn) -> Chunks:
        key = schema, leaf_column.index
        if key not in self._chunks:
            self._chunks[key] = self._table.chunks(schema, leaf_column, self._request.footer_reads)
        return self._chunks[key]

    def _judge_chunks(
        self, leaf: Predicate, test: Predicate, chunks: Chunks, conclusive: Verdicts, verdicts: Verdicts
    ) -> None:
        """Write verdicts on `leaf` into `verdicts`, by evidence that excludes `test`. `conclusive`, one for each chunk:
        whether `leaf` is TRUE for no row if `test` is TRUE for no value of the chunk."""
        self._request.errors.add(chunks.unreadable)
        try:
            answers, candidates = statistics.judge(test, chunks, self._request.options.timezone)
        except PlanError:
            if self.condition.strict:
                raise
            return
        verdicts[chunks.members] = answers | ~conclusive
        if candidates is not None and candidates.filters.present.any():
            self.equalities.setdefault(id(leaf), []).append((chunks, candidates, conclusive))

    def _ask(self, chunks: Chunks, candidates: Candidates, conclusive: Verdicts, verdicts: Verdicts) -> None:
        """Write what filters answer into `verdicts`. Only the units that `verdicts` keeps are asked about."""
        filters, hashes, first, last = candidates
        asked = np.flatnonzero(verdicts[chunks.members] & conclusive & filters.present)
        if len(asked) == 0:
            return
        storage, reads = self._request.dataset.storage, self._request.filter_reads
        answers, n_unusable = filters.check(Question(storage, asked, first[asked], last[asked], hashes, reads))
        verdicts[chunks.members[asked]] = answers
        if n_unusable:
            self._request.errors.add(filters.errors[i] for i in asked.tolist() if i in filters.errors)


def _column(leaf: Predicate) -> Column:
    (column,) = columns(leaf)
    return column
