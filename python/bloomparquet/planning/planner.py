"""Paths and a predicate → a plan. Cheap evidence first: partition values before footers, statistics before filters."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError, OptionError, PlanError
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.planning.dataset import Dataset, Paths
from bloomparquet.planning.evidence import statistics
from bloomparquet.planning.evidence.interface import Chunks, Question, ReaderTypes, Table
from bloomparquet.planning.evidence.statistics import Candidates
from bloomparquet.planning.open import open_table
from bloomparquet.planning.parquet.cache import FooterCache, process_cache
from bloomparquet.planning.plan import KEPT, REASONS, RowGroupCounts, ScanPlan
from bloomparquet.query.columns import FileSchema, LeafColumn
from bloomparquet.query.evaluate import mask
from bloomparquet.query.predicate import Column, IsNull, Not, Predicate, columns, normalize
from bloomparquet.query.resolve import (
    NoLeaf,
    Resolved,
    find_leaf,
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

OnFilterError = Literal["keep", "fail"]


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """How one plan is made. :func:`plan` describes the first four; the others serve readers with rules of their own,
    such as Spark's.

    `strict` makes an unknown column, a comparison with a struct, a list or a map, and a literal of the wrong kind an
    error; otherwise such a condition skips nothing. With `exact_names`, a dot is part of a name and never leads into a
    struct. `reader_types` are the types that a reader gives columns; where such a column may show other values than
    the file's, nothing is skipped by it. `pushed` is a second predicate that rows must match; it is never strict, and
    is no part of :attr:`ScanPlan.where`. `cache` keeps Parquet footers and filters.
    """

    timezone: str | None = "UTC"
    case_sensitive: bool = True
    on_filter_error: OnFilterError = "keep"
    skip_corrupt: bool = False
    strict: bool = True
    exact_names: bool = False
    reader_types: ReaderTypes = field(default_factory=dict)
    pushed: Predicate | None = None
    cache: FooterCache = process_cache

    def __post_init__(self) -> None:
        if self.on_filter_error not in ("keep", "fail"):
            raise OptionError(f"on_filter_error is {self.on_filter_error!r}; expected 'keep' or 'fail'")


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
) -> ScanPlan:
    """Which row groups at `path` might hold rows for which `where` is TRUE. Reads footers and filters, never data.

    A skipped row group is proven to hold no such row. `path` is a file, a directory (hive partitions become columns),
    a glob, a list of those, or an open :class:`Dataset`; `where` is SQL text, a pyarrow-style list of tuples, or a
    predicate.

    `timezone` is the zone of timestamps that name none. `on_filter_error` says what a filter that cannot be used
    does: ``"keep"`` its row group and warn, or ``"fail"``. `skip_corrupt` passes over files whose footer is damaged.

    Of ORC files the units are stripes, and evidence is about the row groups within them: a stripe is skipped when all
    of them are. `timezone` is then also that of the reader's clock: a TIMESTAMP of ORC is what a clock showed.

    `keys` open encrypted files. What does not open excludes nothing: of a column without its key every row group is
    kept, and of a file whose footer is unreadable the whole; both are among the plan's errors, as for
    `on_filter_error`. A file whose footer holds more than is read (:class:`LimitError`) is kept whole, too.

    The files of a table with a log (Delta Lake, Iceberg, Hudi) may hold deleted rows: they are an
    :class:`UnsupportedError` that says how to read the table; ``table_log="ignore"`` takes the files as they lie.

    Raises :class:`PlanError` for a predicate that does not fit the data, :class:`FormatError` for a damaged file,
    ``OSError`` as the storage gave it.

    >>> bp.plan("events.parquet", "user_id = 4711")
    1 of 4 row groups kept; 3 skipped by Bloom filter
    """
    options = PlanOptions(
        timezone=timezone, case_sensitive=case_sensitive, on_filter_error=on_filter_error, skip_corrupt=skip_corrupt
    )
    predicate = parse_where(where)
    return plan_dataset(open_dataset(path, filesystem, keys, table_log), predicate, options)


def open_dataset(path: Paths | Dataset, filesystem: Any, keys: Keys | None, table_log: OnTableLog) -> Dataset:
    """The files at `path`, or the data set that it already is, with `keys` if any are given."""
    if isinstance(path, Dataset):
        return path.with_keys(keys)
    return Dataset.open(path, filesystem=filesystem, keys=keys, table_log=table_log)


def plan_dataset(dataset: Dataset, where: Where = None, options: PlanOptions = PlanOptions()) -> ScanPlan:
    """:func:`plan` for files that were listed."""
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
            wanted = might_match(condition.predicate, wanted, partitions.judge(condition.strict))
    places = np.flatnonzero(wanted)
    footer_reads, filter_reads = ReadCount(), ReadCount()
    files = dataset.files if wanted.all() else [dataset.files[i] for i in places.tolist()]
    unreadable: dict[FileInfo, BloomParquetError] = {}
    table = open_table(
        dataset, files, footer_reads, skip_corrupt=options.skip_corrupt, unreadable=unreadable, cache=options.cache
    )
    if len(table.files) != len(files):
        readable = {file: i for i, file in enumerate(table.files)}
        places = np.array([place for place in places.tolist() if dataset.files[place] in readable], np.int64)
    excluded = tuple(dataset.files[i] for i in np.flatnonzero(~wanted).tolist())
    codes = np.full(len(table), KEPT, np.uint8)
    counts: RowGroupCounts | None = None
    unusable = _Unusable(options.on_filter_error, unreadable.values())
    if conditions:
        asked = columns(predicate) if predicate is not None else set()
        named = asked | (columns(options.pushed) if options.pushed is not None else set())
        resolved = _resolve(named, table.schemas, dataset, options)
        schemas: Sequence[FileSchema] = table.schemas
        # A file that is not decrypted may have the column.
        if options.strict and not unreadable and any(column in asked for column in resolved.unknown):
            schemas = [*schemas, *_schemas(dataset, excluded, footer_reads, options.cache)]
            resolved = _resolve(named, schemas, dataset, options)
            unknown = [column for column in resolved.unknown if column in asked]
            if unknown:
                raise unknown_column(unknown[0], schemas, dataset.partition_names)
        if predicate is not None:
            predicate = rename(predicate, resolved.paths)
            if options.strict:
                require_comparable(predicate, schemas, dataset.partition_names, case_sensitive=options.case_sensitive)
        conditions = [
            _Condition(merge_equalities(rename(condition.predicate, resolved.paths)), condition.strict)
            for condition in conditions
        ]
        judge = _Judge(partitions, places, options, frozenset(resolved.unknown), footer_reads, filter_reads, unusable)
        codes, counts = judge.codes(conditions, table, dataset)
        if footer_reads.requests or filter_reads.requests:
            _keep_changed(dataset.storage, table, codes)
    return ScanPlan(
        dataset,
        predicate,
        time.perf_counter() - began,
        tuple(unusable.errors),
        table,
        codes,
        excluded,
        places,
        footer_reads,
        filter_reads,
        unreadable,
        counts,
    )


def _keep_changed(storage: Storage, table: Table, codes: NDArray[np.uint8]) -> None:
    """Keep all of the files that changed since they were listed: evidence that was read just now may be of another
    version. What was cached before is of the listed one."""
    skipped = np.unique(table.file[codes != KEPT])
    changed = skipped[changed_files(storage, [table.files[place] for place in skipped.tolist()])]
    codes[np.isin(table.file, changed)] = KEPT


def _schemas(dataset: Dataset, files: Sequence[FileInfo], reads: ReadCount, cache: FooterCache) -> Sequence[FileSchema]:
    """The distinct schemas of `files`; those that are damaged or do not open have none."""
    return open_table(dataset, files, reads, skip_corrupt=True, unreadable={}, cache=cache).schemas if files else ()


@dataclass(frozen=True, slots=True)
class _Condition:
    """A predicate in negation normal form that rows must match. `strict`: what does not fit the data is an error."""

    predicate: Predicate
    strict: bool


def _resolve(
    named: Iterable[Column], schemas: Sequence[FileSchema], dataset: Dataset, options: PlanOptions
) -> Resolved:
    return resolve_names(
        named, schemas, dataset.partition_names, case_sensitive=options.case_sensitive, exact=options.exact_names
    )


class _PartitionEvidence:
    """Leaves over partition columns, evaluated on each file's values."""

    def __init__(self, dataset: Dataset, options: PlanOptions) -> None:
        self._dataset, self._case_sensitive, self._timezone = dataset, options.case_sensitive, options.timezone
        self._values: pa.Table | None = None

    def judge(self, strict: bool) -> Callable[[Predicate, Verdicts], Verdicts]:
        def judge(leaf: Predicate, alive: Verdicts) -> Verdicts:
            verdicts = self.verdicts(leaf, strict)
            return alive if verdicts is None else verdicts

        return judge

    def verdicts(self, leaf: Predicate, strict: bool) -> Verdicts | None:
        """Per file; None when `leaf` is not about a partition column."""
        name = find_partition(self._dataset.partition_names, _column(leaf), case_sensitive=self._case_sensitive)
        if name is None:
            return None
        zone = self._timezone or "UTC"
        if self._values is None:
            self._values = self._dataset.partition_table(zone)
        every_file = np.ones(len(self._dataset.files), np.bool_)
        if self._timezone is None and pa.types.is_timestamp(self._values.schema.field(name).type):
            return every_file  # the zone of the clock that wrote the directory names is not known
        try:
            matching = mask(leaf, self._values, timezone=zone, case_sensitive=self._case_sensitive)
        except PlanError:
            if strict:
                raise
            return every_file
        return np.asarray(pc.fill_null(matching, False).to_numpy(zero_copy_only=False), np.bool_)


class _Unusable:
    """The evidence that cannot be used, each piece once, in the order of its discovery; or the first is raised."""

    def __init__(self, on_error: OnFilterError, found: Iterable[BloomParquetError]) -> None:
        self.errors: dict[BloomParquetError, None] = {}
        self._on_error = on_error
        self.add(found)

    def add(self, found: Iterable[BloomParquetError]) -> None:
        for error in found:
            if self._on_error == "fail":
                raise error
            self.errors[error] = None


@dataclass(slots=True)
class _Equality:
    """An equality over the chunks of one layout, and what their filters are asked for."""

    chunks: Chunks
    candidates: Candidates


class _Judge:
    """The order in which evidence is asked for: of whole units, of what they consist of, and then of filters."""

    def __init__(
        self,
        partitions: _PartitionEvidence,
        places: NDArray[np.int64],
        options: PlanOptions,
        unknown: frozenset[Column],
        footer_reads: ReadCount,
        filter_reads: ReadCount,
        unusable: _Unusable,
    ) -> None:
        self.partitions, self.places, self.options, self.unknown = partitions, places, options, unknown
        self.footer_reads, self.filter_reads, self.unusable = footer_reads, filter_reads, unusable

    def codes(
        self, conditions: Sequence[_Condition], table: Table, dataset: Dataset
    ) -> tuple[NDArray[np.uint8], RowGroupCounts | None]:
        """Per unit of `table` a place in REASONS; and, of ORC files, the counts of the row groups in them."""
        evidence = [_FooterEvidence(table, self, condition) for condition in conditions]
        alive = _alive(evidence, table)
        parts = table.within(np.flatnonzero(alive))
        if parts is None:
            return _codes(alive, self._kept(evidence, alive, dataset)), None
        evidence = [_FooterEvidence(parts, self, condition) for condition in conditions]
        alive_parts = _alive(evidence, parts)
        kept_parts = self._kept(evidence, alive_parts, dataset)
        alive, kept = np.zeros((2, len(table)), np.bool_)
        alive[parts.of[alive_parts]] = True
        kept[parts.of[kept_parts]] = True
        n_alive, n_kept = int(np.count_nonzero(alive_parts)), int(np.count_nonzero(kept_parts))
        return _codes(alive, kept), RowGroupCounts(parts.total, n_kept, parts.total - n_alive, n_alive - n_kept)

    def _kept(self, evidence: Sequence[_FooterEvidence], alive: Verdicts, dataset: Dataset) -> Verdicts:
        """The units of `alive` that no filter excludes."""
        for each in evidence:
            if each.equalities:
                filters = _FilterEvidence(each, dataset, self.filter_reads, self.unusable)
                alive = might_match(each.condition.predicate, alive, filters.judge)
        return alive


def _alive(evidence: Sequence[_FooterEvidence], table: Table) -> Verdicts:
    """The units that partition values, null counts and bounds do not exclude."""
    alive = np.asarray(table.rows > 0, np.bool_)
    for each in evidence:
        alive = might_match(each.condition.predicate, alive, each.judge)
    return alive


def _codes(alive: Verdicts, kept: Verdicts) -> NDArray[np.uint8]:
    codes = np.full(len(alive), KEPT, np.uint8)
    codes[~alive] = REASONS.index(Reason.STATISTICS)
    codes[alive & ~kept] = REASONS.index(Reason.BLOOM)
    return codes


class _FooterEvidence:
    """What partition values, null counts and bounds say of each leaf. Remembers per leaf, for the filters' turn."""

    def __init__(self, table: Table, judge: _Judge, condition: _Condition) -> None:
        self.table, self.condition = table, condition
        self.verdicts: dict[int, Verdicts] = {}
        self.equalities: dict[int, list[_Equality]] = {}
        self._partitions, self._places, self._options = judge.partitions, judge.places, judge.options
        self._unknown, self._reads, self._unusable = judge.unknown, judge.footer_reads, judge.unusable
        self._asked: dict[tuple[int, int], Chunks] = {}  # the table need not keep them

    def judge(self, leaf: Predicate, alive: Verdicts) -> Verdicts:
        verdicts = self.verdicts.get(id(leaf))
        if verdicts is None:
            verdicts = self.verdicts[id(leaf)] = self._judge(leaf)
        return verdicts

    def _judge(self, leaf: Predicate) -> Verdicts:
        by_file = self._partitions.verdicts(leaf, self.condition.strict)
        if by_file is not None:
            return by_file[self._places][self.table.file]
        verdicts = np.ones(len(self.table), np.bool_)
        if _column(leaf) in self._unknown:
            return verdicts
        reader_type = self._options.reader_types.get(_column(leaf))
        for i, schema in enumerate(self.table.schemas):
            found = find_leaf(schema, _column(leaf), case_sensitive=self._options.case_sensitive)
            here = None if isinstance(found, NoLeaf) else found
            if found is NoLeaf.UNKNOWN or not self.table.is_lossless(i, here, reader_type):
                continue
            if here is None:
                # Not is that of a null-safe equality; all rows are null.
                verdicts[self.table.members(i)] = isinstance(leaf, IsNull | Not)
            else:
                self._judge_chunks(leaf, self._chunks(i, here), verdicts)
        return verdicts

    def _chunks(self, layout: int, leaf: LeafColumn) -> Chunks:
        key = layout, leaf.index
        if key not in self._asked:
            self._asked[key] = self.table.chunks(layout, leaf, self._reads)
        return self._asked[key]

    def _judge_chunks(self, leaf: Predicate, chunks: Chunks, verdicts: Verdicts) -> None:
        self._unusable.add(chunks.unreadable)
        try:
            verdicts[chunks.members], candidates = statistics.judge(leaf, chunks, self._options.timezone)
        except PlanError:
            if self.condition.strict:
                raise
            return
        if candidates is not None and chunks.filters.present.any():
            self.equalities.setdefault(id(leaf), []).append(_Equality(chunks, candidates))


class _FilterEvidence:
    """What Bloom filters say of each equality, asked only for row groups that nothing cheaper excluded."""

    def __init__(
        self,
        footers: _FooterEvidence,
        dataset: Dataset,
        count: ReadCount,
        unusable: _Unusable,
    ) -> None:
        self._footers, self._dataset, self._count, self._unusable = footers, dataset, count, unusable

    def judge(self, leaf: Predicate, alive: Verdicts) -> Verdicts:
        verdicts = self._footers.judge(leaf, alive)
        equalities = self._footers.equalities.get(id(leaf), ())
        if equalities:
            verdicts = verdicts & alive
            for equality in equalities:
                self._ask(equality, verdicts)
        return verdicts

    def _ask(self, equality: _Equality, verdicts: Verdicts) -> None:
        chunks, (hashes, first, last) = equality.chunks, equality.candidates
        which = np.flatnonzero(verdicts[chunks.members] & chunks.filters.present)
        if len(which) == 0:
            return
        question = Question(self._dataset.storage, which, first[which], last[which], hashes, self._count)
        found, unusable = chunks.filters.check(question)
        verdicts[chunks.members[which]] = found
        if unusable:
            self._unusable.add(chunks.filters.errors[i] for i in which.tolist() if i in chunks.filters.errors)


def _column(leaf: Predicate) -> Column:
    (column,) = columns(leaf)
    return column
