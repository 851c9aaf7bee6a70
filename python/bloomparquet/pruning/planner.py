"""Paths and a predicate → a plan. Cheap evidence first: partition values before footers, statistics before filters."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bloomparquet.dataset import Dataset, PathLike, Paths
from bloomparquet.encoding import Encoded
from bloomparquet.errors import BloomParquetError, EncryptionError, OptionError, PlanError
from bloomparquet.format.schema import LeafColumn
from bloomparquet.keys import Keys
from bloomparquet.predicate import Column, IsNull, Not, Predicate, columns, normalize
from bloomparquet.pruning import statistics
from bloomparquet.pruning.binding import NoLeaf, bind, gather, partition_of, resolve, unknown_column
from bloomparquet.pruning.cache import FooterCache
from bloomparquet.pruning.filters import Question
from bloomparquet.pruning.plan import KEPT, REASONS, ScanPlan
from bloomparquet.pruning.rowgroups import ColumnChunks, ColumnKey, RowGroups
from bloomparquet.pruning.verdict import Reason, Verdicts, might_match
from bloomparquet.residual import mask
from bloomparquet.storage import FileInfo, ReadCount
from bloomparquet.where import parse_where

Where = str | Sequence[Any] | Predicate | None
"""SQL text, a pyarrow-style list of tuples (or list of such lists), or a predicate."""

OnFilterError = Literal["keep", "fail"]

cache = FooterCache()
"""Shared by all plans of this process; ``cache.clear()`` forgets it, ``cache.use_disk()`` shares it with others."""


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
    strict: bool = True,
    exact_names: bool = False,
    integer_bits: Mapping[Column, int] | None = None,
    keys: Keys | None = None,
) -> ScanPlan:
    """Which row groups at `path` might hold rows for which `where` is TRUE. Reads footers and filters, never data.

    A skipped row group is proven to hold no such row. `path` is a file, a directory (hive partitions become columns),
    a glob, a list of those, or an open :class:`Dataset`; `where` is SQL text, a pyarrow-style list of tuples, or a
    predicate.

    `timezone` is the zone of timestamps that name none. `on_filter_error` says what a filter that cannot be used
    does: ``"keep"`` its row group and warn, or ``"fail"``. `skip_corrupt` passes over files whose footer is damaged.
    `strict` makes an unknown column or a literal of the wrong kind an error; without it such a condition excludes
    nothing. With `exact_names`, dots in a name are part of it, and never lead into a struct. `integer_bits` says of
    integer columns how wide (8 to 64) the type is that a reader shows them as: of a file with wider integers it may
    show the low bits alone, so nothing is excluded there.

    `keys` open encrypted files. What does not open excludes nothing: of a column without its key every row group is
    kept, and of a file whose footer is locked the whole; both are among the plan's errors, as for `on_filter_error`.

    Raises :class:`PlanError` for a predicate that does not fit the data, :class:`FormatError` for a damaged file,
    ``OSError`` as the storage gave it.
    """
    began = time.perf_counter()
    if on_filter_error not in ("keep", "fail"):
        raise OptionError(f"on_filter_error is {on_filter_error!r}; expected 'keep' or 'fail'")
    predicate = parse_where(where)
    dataset = (
        path.unlocked(keys)
        if isinstance(path, Dataset)
        else Dataset.open(path, filesystem=filesystem, recursive=recursive, base_path=base_path, keys=keys)
    )
    rules = _Rules(timezone, case_sensitive, strict, integer_bits or {})
    normal = None if predicate is None else normalize(predicate)
    partitions = _PartitionEvidence(dataset, rules)
    n_files = len(dataset.files)
    wanted = np.ones(n_files, np.bool_)
    if normal is not None and dataset.partition_names:
        wanted = might_match(normal, wanted, partitions.judge)
    places = np.flatnonzero(wanted)
    footer_reads, filter_reads = ReadCount(), ReadCount()
    files = dataset.files if wanted.all() else [dataset.files[i] for i in places.tolist()]
    locked: dict[FileInfo, EncryptionError] = {}
    table = cache.row_groups(dataset.storage, files, footer_reads, skip_corrupt=skip_corrupt, locked=locked)
    if len(table.files) != len(files):
        readable = {file: i for i, file in enumerate(table.files)}
        places = np.array([place for place in places.tolist() if dataset.files[place] in readable], np.int64)
    excluded = tuple(dataset.files[i] for i in np.flatnonzero(~wanted).tolist())
    codes = np.full(len(table), KEPT, np.uint8)
    unusable = _Unusable(on_filter_error, locked.values())
    if predicate is not None:
        schemas = [layout.schema for layout in table.layouts]
        names = {"case_sensitive": case_sensitive, "exact": exact_names}
        predicate, unknown = resolve(predicate, schemas, dataset.partition_names, **names)
        if unknown and strict and not locked:  # a file that does not open may have the column
            schemas += cache.schemas(dataset.storage, excluded, footer_reads)
            predicate, unknown = resolve(predicate, schemas, dataset.partition_names, **names)
            if unknown:
                raise unknown_column(unknown[0], schemas, dataset.partition_names)
        evidence = _FooterEvidence(table, partitions, places, rules, frozenset(unknown), footer_reads, unusable)
        normal = gather(normalize(predicate))
        alive = might_match(normal, table.rows > 0, evidence.judge)
        codes[~alive] = REASONS.index(Reason.STATISTICS)
        if evidence.equalities:
            filters = _FilterEvidence(evidence, dataset, filter_reads, unusable)
            kept = might_match(normal, alive, filters.judge)
            codes[alive & ~kept] = REASONS.index(Reason.BLOOM)
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
    )


@dataclass(frozen=True, slots=True)
class _Rules:
    timezone: str | None
    case_sensitive: bool
    strict: bool
    integer_bits: Mapping[Column, int]


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

    chunks: ColumnChunks
    encoded: Encoded


class _FooterEvidence:
    """What partition values, null counts and bounds say of each leaf. Remembers per leaf, for the filters' turn."""

    def __init__(
        self,
        table: RowGroups,
        partitions: _PartitionEvidence,
        places: NDArray[np.int64],
        rules: _Rules,
        unknown: frozenset[Column],
        reads: ReadCount,
        unusable: _Unusable,
    ) -> None:
        self.table = table
        self.verdicts: dict[int, Verdicts] = {}
        self.equalities: dict[int, list[_Equality]] = {}
        self._partitions, self._places, self._rules, self._unknown = partitions, places, rules, unknown
        self._reads, self._unusable = reads, unusable
        self._asked: dict[ColumnKey, ColumnChunks] = {}  # the table need not keep them

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
        for i, layout in enumerate(self.table.layouts):
            found = bind(layout.schema, _column(leaf), case_sensitive=self._rules.case_sensitive)
            if found is NoLeaf.ABSENT:
                verdicts[self.table.members(i)] = isinstance(
                    leaf, IsNull | Not
                )  # Not of a null-safe equality; all rows are null
            elif not isinstance(found, NoLeaf) and _fits(found, self._rules.integer_bits.get(_column(leaf))):
                self._judge_chunks(leaf, self._chunks(i, found), verdicts)
        return verdicts

    def _chunks(self, layout: int, leaf: LeafColumn) -> ColumnChunks:
        key = layout, leaf.index
        if key not in self._asked:
            self._asked[key] = self.table.chunks(layout, leaf, self._reads)
        return self._asked[key]

    def _judge_chunks(self, leaf: Predicate, chunks: ColumnChunks, verdicts: Verdicts) -> None:
        self._unusable.add(chunks.filters.locked)
        try:
            verdicts[chunks.members], encoded = statistics.judge(leaf, chunks, self._rules.timezone)
        except PlanError:
            if self._rules.strict:
                raise
            return
        if encoded is not None and encoded.hashes is not None and (chunks.filters.offset >= 0).any():
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
        which = np.flatnonzero(verdicts[chunks.members] & (chunks.filters.offset >= 0))
        if len(which) == 0:
            return
        first, last = statistics.candidates(encoded, chunks.bounds, len(chunks.members))
        storage, hashes = self._dataset.storage, encoded.hashes
        question = Question(storage, which, first[which], last[which], hashes, self._count)
        found, unusable = chunks.filters.check(question)
        verdicts[chunks.members[which]] = found
        if unusable:
            self._unusable.add(chunks.filters.errors[i] for i in which.tolist() if i in chunks.filters.errors)


def _fits(leaf: LeafColumn, bits: int | None) -> bool:
    """Whether signed integers of so many bits hold every value of an integer column."""
    if bits is None or leaf.node.physical_type not in ("INT32", "INT64"):
        return True
    annotation = leaf.node.annotation
    if annotation is None or annotation.bit_width is None or annotation.signed is None:
        return bits >= (64 if leaf.node.physical_type == "INT64" else 32)
    return bits > annotation.bit_width - annotation.signed


def _column(leaf: Predicate) -> Column:
    (column,) = columns(leaf)
    return column
