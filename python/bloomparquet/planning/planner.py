"""From paths and a predicate to a plan.

Cheap evidence comes first: partition values before footers are read, statistics before filters are.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError, PlanError
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.planning.dataset import Dataset, PathLike, Paths, open_dataset
from bloomparquet.planning.evidence import statistics
from bloomparquet.planning.evidence.interface import Chunks, Question, Table, Units
from bloomparquet.planning.evidence.statistics import Candidates
from bloomparquet.planning.index.lookup import find_index
from bloomparquet.planning.open import open_table
from bloomparquet.planning.options import DEFAULT_OPTIONS, OnFilterError, PlanOptions
from bloomparquet.planning.plan import KEPT, REASONS, RowGroupCounts, ScanPlan
from bloomparquet.query.columns import FileSchema, LeafColumn
from bloomparquet.query.elements import ElementIn, to_element_conditions
from bloomparquet.query.evaluate import mask
from bloomparquet.query.normal_form import normalize
from bloomparquet.query.predicate import Column, IsNull, Not, Predicate, columns
from bloomparquet.query.resolve import (
    NoLeaf,
    Resolved,
    find_leaf_of,
    find_partition,
    merge_equalities,
    rename,
    require_comparable,
    resolve_names,
    unknown_column,
)
from bloomparquet.query.sql import parse_where
from bloomparquet.query.verdict import Reason, Verdicts, might_match
from bloomparquet.storage.files import FileInfo, ReadCount, Storage
from bloomparquet.storage.staleness import changed_files
from bloomparquet.storage.table_formats import OnTableLog

Condition = tuple[str | Column, str, Any]
Where: TypeAlias = str | Predicate | Sequence[Condition | Predicate] | Sequence[Sequence[Condition | Predicate]] | None
"""Which rows are wanted; None wants all of them.

* SQL text in Spark's dialect: ``"user_id = 7 AND country IN ('CH', 'DE')"``;
* conditions as pyarrow writes them, all of which must hold: ``[("user_id", "=", 7), ("country", "in", ["CH", "DE"])]``;
* or a list of such lists, one of which must hold;
* or a predicate: ``bp.Eq("user_id", 7)``.
"""


def plan(
    path: Paths | Dataset,
    where: Where = None,
    *,
    filesystem: Any = None,
    timezone: str | None = "UTC",
    case_sensitive: bool = True,
    on_filter_error: OnFilterError = "keep",
    skip_corrupt: bool = False,
    keys: Keys | None = None,
    table_log: OnTableLog = "error",
    index: PathLike = "auto",
) -> ScanPlan:
    """Plan a scan: which row groups at `path` might hold rows for which `where` is TRUE.

    Reads footers and Bloom filters, never data. A skipped row group is proven to hold no matching row. Over ORC files
    the plan is of stripes: a stripe is skipped if evidence excludes each of its row groups.

    * `path`: a file, a directory (``name=value`` directories become columns), a glob, a list of those, or an open
      :class:`Dataset`.
    * `where`: SQL text, a list of conditions as in pyarrow, or a predicate such as :class:`Eq`; see ``bp.Where``.
    * `filesystem`: a pyarrow or fsspec file system that the paths belong to.
    * `timezone`: the time zone of timestamp literals without one. For ORC also the reader's time zone, in which
      TIMESTAMP columns are shown.
    * `case_sensitive`: whether column names that differ only by case are different.
    * `on_filter_error`: for a Bloom filter that cannot be used, ``"keep"`` warns and keeps the row group, and
      ``"fail"`` raises the error.
    * `skip_corrupt`: leave out files whose footer is damaged.
    * `keys`: decrypt encrypted files. Without its key, a column skips nothing, and a file with an encrypted footer is
      kept whole. Both are among the errors of the plan, and are raised with ``on_filter_error="fail"``. A file whose
      footer exceeds a limit (:class:`LimitError`) is treated the same way.
    * `table_log`: ``"ignore"`` reads the bare files of a Delta Lake, Iceberg or Hudi table, which may hold deleted
      rows. Otherwise they raise :class:`UnsupportedError`, which says how to read the table.
    * `index`: the directory of the data set's index (:func:`build_index`). ``"auto"`` looks for it beside the data,
      ``"off"`` uses none.

    Raises :class:`PlanError` if the predicate does not fit the data, :class:`FormatError` for a damaged file, and
    ``OSError`` from the storage unchanged.

    >>> bp.plan("events.parquet", "user_id = 4711")
    1 of 4 row groups kept; 3 skipped by Bloom filter
    """
    options = PlanOptions(
        timezone=timezone, case_sensitive=case_sensitive, on_filter_error=on_filter_error, skip_corrupt=skip_corrupt,
        index=os.fspath(index),
    )  # fmt: skip
    predicate = parse_where(where)
    return plan_dataset(open_dataset(path, filesystem, keys, table_log), predicate, options)


def plan_dataset(dataset: Dataset, where: Where = None, options: PlanOptions = DEFAULT_OPTIONS) -> ScanPlan:
    """Plan a scan of files that are listed already; see :func:`plan`."""
    began = time.perf_counter()
    predicate = parse_where(where)
    conditions = [
        _Condition(normalize(each), strict)
        for each, strict in ((predicate, options.strict), (options.pushed, False))
        if each is not None
    ]
    partitions = _PartitionEvidence(dataset, options)
    wanted = np.ones(len(dataset.files), np.bool_)
    if dataset.partition_names:
        for condition in conditions:
            wanted = might_match(condition.predicate, wanted, partial(partitions.verdicts_or, strict=condition.strict))
    excluded = [dataset.files[i] for i in np.flatnonzero(~wanted).tolist()]
    file_positions = np.flatnonzero(wanted)
    files = [dataset.files[i] for i in file_positions.tolist()] if excluded else dataset.files
    unreadable: dict[FileInfo, BloomParquetError] = {}
    footer_reads, filter_reads = ReadCount(), ReadCount()
    index_reads = ReadCount()
    index = find_index(dataset.storage, dataset.root, options.index, index_reads) if files else None
    table = open_table(
        dataset, files, footer_reads, skip_corrupt=options.skip_corrupt, unreadable=unreadable, cache=options.cache,
        index=index,
    )  # fmt: skip
    if len(table.files) != len(files):
        readable = set(table.files)
        file_positions = np.array([i for i in file_positions.tolist() if dataset.files[i] in readable], np.int64)
    errors = _Errors(options.on_filter_error)
    errors.add(unreadable.values())
    codes = np.full(len(table), KEPT, np.uint8)
    row_group_counts: RowGroupCounts | None = None
    if conditions:
        unknown_allowed = not options.strict or bool(unreadable)  # an unreadable file may have the column
        resolved = _resolve(dataset, predicate, table, excluded, options, footer_reads, unknown_allowed)
        if predicate is not None:
            predicate = rename(predicate, resolved.paths)
        conditions = [
            _Condition(_to_evidence(rename(condition.predicate, resolved.paths)), condition.strict)
            for condition in conditions
        ]
        unknown = frozenset(resolved.unknown)
        request = _Request(dataset, options, partitions, file_positions, unknown, footer_reads, filter_reads, errors)
        codes, row_group_counts = _judge(table, conditions, request)
        if footer_reads.requests or filter_reads.requests:
            _keep_changed_files(dataset.storage, table, codes)
    footer_reads.requests += index_reads.requests
    footer_reads.bytes += index_reads.bytes
    seconds = time.perf_counter() - began
    return ScanPlan(
        dataset, predicate, seconds, tuple(errors.errors), table, codes, tuple(excluded), file_positions, footer_reads,
        filter_reads, unreadable, row_group_counts,
    )  # fmt: skip


def _keep_changed_files(storage: Storage, table: Table, codes: NDArray[np.uint8]) -> None:
    """Keep all row groups of files that changed since they were listed: the evidence just read may be of the new
    version. Cached evidence needs no check; it belongs to the listed version."""
    skipped = np.unique(table.file[codes != KEPT])
    changed = skipped[changed_files(storage, [table.files[file] for file in skipped.tolist()])]
    codes[np.isin(table.file, changed)] = KEPT


def _resolve(
    dataset: Dataset,
    predicate: Predicate | None,
    table: Table,
    excluded: Sequence[FileInfo],
    options: PlanOptions,
    reads: ReadCount,
    unknown_allowed: bool,
) -> Resolved:
    """What the columns of `predicate` and of ``options.pushed`` mean in the files.

    Raises PlanError for a column of `predicate` that no file has, and with ``options.strict`` for a comparison with a
    struct, a list or a map. To be sure of the former, reads the footers of `excluded` files.
    """
    partitions, case_sensitive = dataset.partition_names, options.case_sensitive
    names, pushed = (set() if each is None else columns(each) for each in (predicate, options.pushed))

    def resolve(schemas: Sequence[FileSchema]) -> Resolved:
        exact = options.exact_names
        return resolve_names(names | pushed, schemas, partitions, case_sensitive=case_sensitive, exact=exact)

    schemas = list(table.schemas)
    resolved = resolve(schemas)
    if not unknown_allowed and not names.isdisjoint(resolved.unknown):
        if excluded:
            others = open_table(dataset, excluded, reads, skip_corrupt=True, unreadable={}, cache=options.cache)
            schemas += others.schemas
            resolved = resolve(schemas)
        for name in names.intersection(resolved.unknown):
            raise unknown_column(name, schemas, partitions)
    if options.strict and predicate is not None:
        require_comparable(rename(predicate, resolved.paths), schemas, partitions, case_sensitive=case_sensitive)
    return resolved


def _to_evidence(predicate: Predicate) -> Predicate:
    """The leaf predicates that evidence is asked about. `predicate` is in negation normal form."""
    return merge_equalities(to_element_conditions(predicate))


@dataclass(frozen=True, slots=True)
class _Condition:
    """A predicate in negation normal form that rows must match. `strict`: what does not fit the data is an error."""

    predicate: Predicate
    strict: bool


class _PartitionEvidence:
    """Verdicts on leaf predicates over partition columns."""

    def __init__(self, dataset: Dataset, options: PlanOptions) -> None:
        self._dataset, self._case_sensitive, self._timezone = dataset, options.case_sensitive, options.timezone
        self._values: pa.Table | None = None

    def verdicts_or(self, leaf: Predicate, alive: Verdicts, strict: bool) -> Verdicts:
        """The :meth:`verdicts` on `leaf`, or `alive` if it is not about a partition column."""
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
        if isinstance(leaf, ElementIn):  # a directory name is no list
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


class _Errors:
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
class _Request:
    """One plan in progress. `file_positions`: per file of the table, its index in ``dataset.files``. `unknown`: the
    columns that no file has."""

    dataset: Dataset
    options: PlanOptions
    partitions: _PartitionEvidence
    file_positions: NDArray[np.int64]
    unknown: frozenset[Column]
    footer_reads: ReadCount
    filter_reads: ReadCount
    errors: _Errors


def _judge(
    table: Table, conditions: Sequence[_Condition], request: _Request
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

    def __init__(self, table: Units, condition: _Condition, request: _Request) -> None:
        self._table, self.condition, self._request = table, condition, request
        self.equalities: dict[int, list[tuple[Chunks, Candidates]]] = {}  # by id of leaf; what to ask the filters
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
            for chunks, candidates in equalities:
                self._ask(chunks, candidates, verdicts)
        return verdicts

    def _judge(self, leaf: Predicate) -> Verdicts:
        request, column = self._request, _column(leaf)
        by_file = request.partitions.verdicts(leaf, self.condition.strict)
        if by_file is not None:
            return by_file[request.file_positions][self._table.file]
        verdicts = np.ones(len(self._table), np.bool_)
        if column in request.unknown or (isinstance(leaf, ElementIn) and not self._table.format.has_element_evidence):
            return verdicts
        case_sensitive, reader_types = request.options.case_sensitive, request.options.reader_types
        reader_type = reader_types.get((*column, leaf.part) if isinstance(leaf, ElementIn) else column)
        for i, schema in enumerate(self._table.schemas):
            stored = find_leaf_of(schema, leaf, case_sensitive=case_sensitive)
            leaf_column = None if isinstance(stored, NoLeaf) else stored
            if stored is NoLeaf.UNKNOWN or not self._table.is_lossless(i, leaf_column, reader_type):
                continue
            if leaf_column is None:
                # The file lacks the column, so every value is NULL. Only IS NULL and NOT (c <=> v) are TRUE here. In
                # negation normal form, Not stands only around <=>, LIKE and CaseIn. The last two are NULL; keeping them
                # is harmless. Extend this for a new predicate that is TRUE for NULL.
                verdicts[self._table.members(i)] = isinstance(leaf, IsNull | Not)
            else:
                self._judge_chunks(leaf, self._chunks_of(i, leaf_column), verdicts)
        return verdicts

    def _chunks_of(self, schema: int, leaf_column: LeafColumn) -> Chunks:
        key = schema, leaf_column.index
        if key not in self._chunks:
            self._chunks[key] = self._table.chunks(schema, leaf_column, self._request.footer_reads)
        return self._chunks[key]

    def _judge_chunks(self, leaf: Predicate, chunks: Chunks, verdicts: Verdicts) -> None:
        self._request.errors.add(chunks.unreadable)
        try:
            verdicts[chunks.members], candidates = statistics.judge(leaf, chunks, self._request.options.timezone)
        except PlanError:
            if self.condition.strict:
                raise
            return
        if candidates is not None and candidates.filters.present.any():
            self.equalities.setdefault(id(leaf), []).append((chunks, candidates))

    def _ask(self, chunks: Chunks, candidates: Candidates, verdicts: Verdicts) -> None:
        """Write what filters answer into `verdicts`. Only the units that `verdicts` keeps are asked about."""
        filters, hashes, first, last = candidates
        asked = np.flatnonzero(verdicts[chunks.members] & filters.present)
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
