"""Paths and a predicate → a plan. Cheap evidence first: partition values before footers, statistics before filters."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError, OptionError, PlanError
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.planning import open as tables
from bloomparquet.planning.dataset import Dataset, PathLike, Paths
from bloomparquet.planning.evidence import statistics
from bloomparquet.planning.evidence.interface import Chunks, Question, ShownAs, Table
from bloomparquet.planning.open import open_table
from bloomparquet.planning.plan import KEPT, REASONS, Inside, ScanPlan
from bloomparquet.query.columns import FileSchema, LeafColumn
from bloomparquet.query.evaluate import mask
from bloomparquet.query.ordering import Encoded
from bloomparquet.query.predicate import Column, IsNull, Not, Predicate, columns, normalize
from bloomparquet.query.resolve import (
    NoLeaf,
    bind,
    gather,
    partition_of,
    require_comparable,
    resolve,
    unknown_column,
)
from bloomparquet.query.sql import parse_where
from bloomparquet.query.verdict import Reason, Verdicts, might_match
from bloomparquet.storage.files import FileInfo, ReadCount, Storage
from bloomparquet.storage.staleness import changed_files
from bloomparquet.storage.table_formats import OnTableLog

Where = str | Sequence[Any] | Predicate | None
"""SQL text, a pyarrow-style list of tuples (or list of such lists), or a predicate."""

OnFilterError = Literal["keep", "fail"]


cache = tables.cache


def plan(
    path: Paths | Dataset,
    where: Where = None,
    *,
    filesystem: Any = None,
    recursive: bool = True,
    base_path: PathLike | None = None,
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
    kept, and of a file whose footer is locked the whole; both are among the plan's errors, as for `on_filter_error`. A
    file whose footer holds more than is read (:class:`LimitError`) is kept whole, too.

    The files of a table with a log (Delta Lake, Iceberg, Hudi) may hold deleted rows: they are an
    :class:`UnsupportedError` that says how to read the table; ``table_log="ignore"`` takes the files as they lie.

    Raises :class:`PlanError` for a predicate that does not fit the data, :class:`FormatError` for a damaged file,
    ``OSError`` as the storage gave it.
    """
    return plan_scan(
        path,
        where,
        filesystem=filesystem,
        recursive=recursive,
        base_path=base_path,
        timezone=timezone,
        case_sensitive=case_sensitive,
        on_filter_error=on_filter_error,
        skip_corrupt=skip_corrupt,
        keys=keys,
        table_log=table_log,
    )


def plan_scan(
    path: Paths | Dataset,
    where: Where = None,
    *,
    filesystem: Any = None,
    recursive: bool = True,
    base_path: PathLike | None = None,
    timezone: str | None = "UTC",
    case_sensitive: bool = True,
    on_filter_error: OnFilterError = "keep",
    skip_corrupt: bool = False,
    keys: Keys | None = None,
    table_log: OnTableLog = "error",
    strict: bool = True,
    exact_names: bool = False,
    shown_as: ShownAs | None = None,
) -> ScanPlan:
    """:func:`plan` for a reader with rules of its own, such as Spark's.

    `strict` makes an unknown column, a comparison with a struct, a list or a map, and a literal of the wrong kind an
    error; without it such a condition excludes nothing. With `exact_names`, dots in a name are part of it, and never
    lead into a struct. `shown_as` says which types a reader shows columns as (``bigint``, ``decimal(10,2)``), where it
    may be another than the file's: of wider integers it may show the low bits alone, and readers of ORC convert what
    they like, so nothing is excluded there.
    """
    began = time.perf_counter()
    if on_filter_error not in ("keep", "fail"):
        raise OptionError(f"on_filter_error is {on_filter_error!r}; expected 'keep' or 'fail'")
    predicate = parse_where(where)
    dataset = (
        path.with_keys(keys)
        if isinstance(path, Dataset)
        else Dataset.open(
            path, filesystem=filesystem, recursive=recursive, base_path=base_path, keys=keys, table_log=table_log
        )
    )
    rules = _Rules(timezone, case_sensitive, strict, shown_as or {})
    normal = None if predicate is None else normalize(predicate)
    partitions = _PartitionEvidence(dataset, rules)
    n_files = len(dataset.files)
    wanted = np.ones(n_files, np.bool_)
    if normal is not None and dataset.partition_names:
        wanted = might_match(normal, wanted, partitions.judge)
    places = np.flatnonzero(wanted)
    footer_reads, filter_reads = ReadCount(), ReadCount()
    files = dataset.files if wanted.all() else [dataset.files[i] for i in places.tolist()]
    locked: dict[FileInfo, BloomParquetError] = {}
    table = open_table(dataset, files, footer_reads, skip_corrupt=skip_corrupt, locked=locked)
    if len(table.files) != len(files):
        readable = {file: i for i, file in enumerate(table.files)}
        places = np.array([place for place in places.tolist() if dataset.files[place] in readable], np.int64)
    excluded = tuple(dataset.files[i] for i in np.flatnonzero(~wanted).tolist())
    codes = np.full(len(table), KEPT, np.uint8)
    inside: Inside | None = None
    unusable = _Unusable(on_filter_error, locked.values())
    if predicate is not None:
        schemas = list(table.schemas)
        names = {"case_sensitive": case_sensitive, "exact": exact_names}
        predicate, unknown = resolve(predicate, schemas, dataset.partition_names, **names)
        if unknown and strict and not locked:  # a file that does not open may have the column
            schemas += _schemas(dataset, excluded, footer_reads)
            predicate, unknown = resolve(predicate, schemas, dataset.partition_names, **names)
            if unknown:
                raise unknown_column(unknown[0], schemas, dataset.partition_names)
        if strict:
            require_comparable(predicate, schemas, dataset.partition_names, case_sensitive=case_sensitive)
        judge = _Judge(partitions, places, rules, frozenset(unknown), footer_reads, filter_reads, unusable)
        codes, inside = judge.codes(gather(normalize(predicate)), table, dataset)
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
        locked,
        inside,
    )


def _keep_changed(storage: Storage, table: Table, codes: NDArray[np.uint8]) -> None:
    """Keep all of the files that changed since they were listed: evidence that was read just now may be of another
    version. What was cached before is of the listed one."""
    skipped = np.unique(table.file[codes != KEPT])
    changed = skipped[changed_files(storage, [table.files[place] for place in skipped.tolist()])]
    codes[np.isin(table.file, changed)] = KEPT


def _schemas(dataset: Dataset, files: Sequence[FileInfo], reads: ReadCount) -> list[FileSchema]:
    """The distinct schemas of `files`; those that are damaged or do not open have none."""
    return list(open_table(dataset, files, reads, skip_corrupt=True, locked={}).schemas) if files else []


@dataclass(frozen=True, slots=True)
class _Rules:
    timezone: str | None
    case_sensitive: bool
    strict: bool
    shown_as: ShownAs


class _PartitionEvidence:
    """Leaves over partition columns, evaluated on each file's values."""

    def __init__(self, dataset: Dataset, rules: _Rules) -> None:
        self._dataset, self._rules = dataset, rules
        self._values: pa.Table | None = None

    def judge(self, leaf: Predicate, alive: Verdicts) -> Verdicts:
        verdicts = self.verdicts(leaf)
        return alive if verdicts is None else verdicts

    def verdicts(self, leaf: Predicate) -> Verdicts | None:
        """Per file; None when `leaf` is not about a partition column."""
        name = partition_of(self._dataset.partition_names, _column(leaf), case_sensitive=self._rules.case_sensitive)
        if name is None:
            return None
        if self._values is None:
            self._values = self._dataset.partition_table(self._rules.timezone or "UTC")
        if self._rules.timezone is None and pa.types.is_timestamp(self._values.schema.field(name).type):
            return np.ones(
                len(self._dataset.files), np.bool_
            )  # whose wall clock the directory names were written by is not known
        try:
            found = mask(
                leaf, self._values, timezone=self._rules.timezone or "UTC", case_sensitive=self._rules.case_sensitive
            )
        except PlanError:
            if self._rules.strict:
                raise
            return np.ones(len(self._dataset.files), np.bool_)
        return np.asarray(pc.fill_null(found, False).to_numpy(zero_copy_only=False), np.bool_)


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
    """An equality over the chunks of one layout, as filters can answer it."""

    chunks: Chunks
    encoded: Encoded


class _Judge:
    """The order in which evidence is asked for: of whole units, of what they consist of, and then of filters."""

    def __init__(
        self,
        partitions: _PartitionEvidence,
        places: NDArray[np.int64],
        rules: _Rules,
        unknown: frozenset[Column],
        footer_reads: ReadCount,
        filter_reads: ReadCount,
        unusable: _Unusable,
    ) -> None:
        self.partitions, self.places, self.rules, self.unknown = partitions, places, rules, unknown
        self.footer_reads, self.filter_reads, self.unusable = footer_reads, filter_reads, unusable

    def codes(self, normal: Predicate, table: Table, dataset: Dataset) -> tuple[NDArray[np.uint8], Inside | None]:
        """Per unit of `table` a place in REASONS, for a predicate in negation normal form."""
        evidence = _FooterEvidence(table, self)
        alive = might_match(normal, table.rows > 0, evidence.judge)
        parts = table.within(np.flatnonzero(alive))
        if parts is None:
            return _codes(alive, self._kept(normal, evidence, alive, dataset)), None
        evidence = _FooterEvidence(parts, self)
        alive_parts = might_match(normal, parts.rows > 0, evidence.judge)
        kept_parts = self._kept(normal, evidence, alive_parts, dataset)
        alive, kept = np.zeros((2, len(table)), np.bool_)
        alive[parts.of[alive_parts]] = True
        kept[parts.of[kept_parts]] = True
        n_alive, n_kept = int(np.count_nonzero(alive_parts)), int(np.count_nonzero(kept_parts))
        return _codes(alive, kept), Inside(parts.total, n_kept, parts.total - n_alive, n_alive - n_kept)

    def _kept(self, normal: Predicate, evidence: _FooterEvidence, alive: Verdicts, dataset: Dataset) -> Verdicts:
        """Those of the `alive` that their filters do not exclude."""
        if not evidence.equalities:
            return alive
        filters = _FilterEvidence(evidence, dataset, self.filter_reads, self.unusable)
        return might_match(normal, alive, filters.judge)


def _codes(alive: Verdicts, kept: Verdicts) -> NDArray[np.uint8]:
    codes = np.full(len(alive), KEPT, np.uint8)
    codes[~alive] = REASONS.index(Reason.STATISTICS)
    codes[alive & ~kept] = REASONS.index(Reason.BLOOM)
    return codes


class _FooterEvidence:
    """What partition values, null counts and bounds say of each leaf. Remembers per leaf, for the filters' turn."""

    def __init__(self, table: Table, judge: _Judge) -> None:
        self.table = table
        self.verdicts: dict[int, Verdicts] = {}
        self.equalities: dict[int, list[_Equality]] = {}
        self._partitions, self._places, self._rules = judge.partitions, judge.places, judge.rules
        self._unknown, self._reads, self._unusable = judge.unknown, judge.footer_reads, judge.unusable
        self._asked: dict[tuple[int, int], Chunks] = {}  # the table need not keep them

    def judge(self, leaf: Predicate, alive: Verdicts) -> Verdicts:
        verdicts = self.verdicts.get(id(leaf))
        if verdicts is None:
            verdicts = self.verdicts[id(leaf)] = self._judge(leaf)
        return verdicts

    def _judge(self, leaf: Predicate) -> Verdicts:
        by_file = self._partitions.verdicts(leaf)
        if by_file is not None:
            return by_file[self._places][self.table.file]
        verdicts = np.ones(len(self.table), np.bool_)
        if _column(leaf) in self._unknown:
            return verdicts
        for i, schema in enumerate(self.table.schemas):
            found = bind(schema, _column(leaf), case_sensitive=self._rules.case_sensitive)
            here = None if isinstance(found, NoLeaf) else found
            if found is NoLeaf.UNKNOWN or not self.table.shows(i, here, self._rules.shown_as.get(_column(leaf))):
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
            verdicts[chunks.members], encoded = statistics.judge(leaf, chunks, self._rules.timezone)
        except PlanError:
            if self._rules.strict:
                raise
            return
        if encoded is not None and encoded.hashes is not None and chunks.filters.present.any():
            self.equalities.setdefault(id(leaf), []).append(_Equality(chunks, encoded))


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
        chunks, encoded = equality.chunks, equality.encoded
        assert encoded.hashes is not None
        which = np.flatnonzero(verdicts[chunks.members] & chunks.filters.present)
        if len(which) == 0:
            return
        first, last = statistics.candidates(encoded, chunks.bounds, len(chunks.members))
        storage, hashes = self._dataset.storage, encoded.hashes
        question = Question(storage, which, first[which], last[which], hashes, self._count)
        found, unusable = chunks.filters.check(question)
        verdicts[chunks.members[which]] = found
        if unusable:
            self._unusable.add(chunks.filters.errors[i] for i in which.tolist() if i in chunks.filters.errors)


def _column(leaf: Predicate) -> Column:
    (column,) = columns(leaf)
    return column
