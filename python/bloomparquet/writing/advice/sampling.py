"""The columns of many files, each with a small sample of what is in it: how many distinct values row groups have, and
how many of them they have in common.

A sample of a column chunk is a Bloom filter: the one in the file, if it is there, so that no data is read; else one
made of the chunk's values. Its bits tell the number of distinct values, and those of two together how many are in
both. Samples are few, taken at random (with a fixed seed: the same table gives the same answer), and bounded in bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError, EncryptionError
from bloomparquet.parquet.metadata.file_profile import WriterTraits
from bloomparquet.planning.dataset import Dataset
from bloomparquet.planning.evidence.interface import Chunks, Table
from bloomparquet.planning.parquet.row_groups import RowGroups
from bloomparquet.query.columns import LeafColumn
from bloomparquet.query.ordering import Bounds
from bloomparquet.query.predicate import Column
from bloomparquet.storage.files import ReadCount, in_threads
from bloomparquet.writing.advice.worth import ColumnFacts, Together, Worth, measure_shared, pool_size

_SAMPLES = 5  # per column
_TRIED = 64  # chunks among which a small one is looked for, when those drawn are too large
_FULL = 0.9  # of its bits: so full a filter does not tell how many values are in it


class Found(NamedTuple):
    """What a filter tells, one that lies in a file or one made of data: `filter` is one for comparisons, `filled` the
    share of bits that are set, `fpp` how often it says maybe for nothing."""

    filter: Any
    ndv: float
    filled: float
    fpp: float


class Source(Protocol):
    """What the formats differ in: where the filters and the values of chunks are, and what they cost to read."""

    @property
    def together(self) -> Together:
        """What compares two of its filters."""

    def column_numbers(self) -> dict[str, int] | None:
        """Where filters can only be had by writing the files anew, the numbers of columns by their names; else None."""

    def weigh(self, column: TableColumn, facts: ColumnFacts, fpp: float) -> Worth:
        """Whether filters of a column pay."""

    def right_sizes(self, column: TableColumn, facts: ColumnFacts, fpp: float) -> NDArray[np.int64] | None:
        """The bytes that filters take which are as large as they should be, (n,); None where that is not known."""

    def gather(self, path: Column, leaves: Sequence[tuple[int, LeafColumn]]) -> TableColumn:
        """A column, by its leaf in each layout that has it."""

    def filter_sizes(
        self, columns: Sequence[TableColumn], drawn: Sequence[NDArray[np.int64]], count: ReadCount
    ) -> dict[tuple[int, int], int]:
        """The bytes that the filters of the drawn chunks take, by column and chunk; a damaged one is as good as
        none."""

    def cost(self, column: TableColumn, chunk: int, filter_size: int | None) -> int:
        """The bytes that it takes to read a chunk's filter, or without one the data."""

    def read(self, column: TableColumn, chunk: int, stored: bool, count: ReadCount) -> Found | None:
        """Of the filter that is `stored`, or else of the data; None of a chunk without values."""

    def is_dictionary_encoded(self, column: TableColumn, chunk: int) -> bool:
        """Whether a chunk says so of all its data."""


@dataclass(frozen=True)
class TableColumn:
    """One leaf column, by its path, over all files that have it; its n chunks are in one order throughout.

    `leaves` are its leaf in each layout, of which the types may differ. `places` (n,) are the chunks' places among all
    row groups. `parts` and `part`, `at` (n,) lead back to where they come from. `offset` (n,) is that of the filter,
    negative where there is none, and `length` its bytes where they are told. `locked` is why an encrypted chunk cannot
    be looked into, `unusable` why the filters prove nothing.
    """

    path: Column
    leaves: tuple[LeafColumn, ...]
    traits: tuple[WriterTraits, ...]
    parts: tuple[Chunks, ...]
    part: NDArray[np.int64]
    at: NDArray[np.int64]
    places: NDArray[np.int64]
    values: NDArray[np.int64]
    nulls: NDArray[np.int64]
    offset: NDArray[np.int64]
    length: NDArray[np.int64]
    bounds: Bounds | None
    comparable: NDArray[np.bool_]  # of the type that most chunks have: values of other types have other bytes
    locked: EncryptionError | None = None
    unusable: str | None = None

    @property
    def leaf(self) -> LeafColumn:
        """The leaf with the type that most chunks have."""
        return self.leaves[self._usual]

    @property
    def leaf_traits(self) -> WriterTraits:
        """Those of the files that `leaf` is of."""
        return self.traits[self._usual]

    @property
    def usual_part(self) -> Chunks:
        """The chunks with the type that most chunks have."""
        return self.parts[self._usual]

    @property
    def _usual(self) -> int:
        return int(self.part[np.argmax(self.comparable)]) if len(self.part) else 0


class Wanted(Enum):
    """What of a column is worth reading."""

    NOTHING = "nothing"
    FILTERS = "filters"
    VALUES = "values"  # filters as well, as they tell them


@dataclass
class Sample:
    """What was read of a column: for each of `chunks` its number of distinct values, a filter of them, and whether it
    is dictionary encoded throughout.

    `sizes` are the bytes of some filters that lie in the files, with headers, `fpp` how often some of these say maybe
    for nothing, and `empty` how many never had a value inserted. `error` says why something could not be read, and
    `too_large` that some chunks were not, for their size.
    """

    chunks: list[int] = field(default_factory=list)
    ndv: list[float] = field(default_factory=list)
    filters: list[Any] = field(default_factory=list)
    dictionary: list[bool] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    fpp: list[float] = field(default_factory=list)
    empty: int = 0
    error: BloomParquetError | None = None
    too_large: bool = False


def source_of(table: Table) -> Source:
    """Where the samples of a table of row groups, or of stripes, come from."""
    if isinstance(table, RowGroups):
        from bloomparquet.writing.advice.sampling_parquet import ParquetSource

        return ParquetSource(table)
    # Imported here, because who has no ORC files shall not wait for it.
    from bloomparquet.writing.advice.sampling_orc import OrcSource

    stripes: Any = table
    return OrcSource(stripes)


def table_columns(table: Table) -> list[TableColumn]:
    """The leaf columns of all files, in the order of the first file's schema; then what only other files have."""
    return columns_of(table, source_of(table))


def columns_of(table: Table, source: Source) -> list[TableColumn]:
    """As :func:`table_columns`."""
    found: dict[Column, list[tuple[int, LeafColumn]]] = {}
    for i, schema in enumerate(table.schemas):
        for leaf in schema.leaves:
            found.setdefault(leaf.path, []).append((i, leaf))
    return [source.gather(path, leaves) for path, leaves in found.items()]


def gather(
    path: Column,
    leaves: Sequence[LeafColumn],
    traits: Sequence[WriterTraits],
    parts: Sequence[Chunks],
    kinds: Sequence[Any],
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    **more: Any,
) -> TableColumn:
    """One column of `parts`. Their `kinds` are equal where equal values are equal bytes, in one order."""
    counts = [len(chunks.members) for chunks in parts]
    part = np.repeat(np.arange(len(parts)), counts)
    usual = max(kinds, key=lambda kind: sum(n for n, other in zip(counts, kinds, strict=True) if other == kind))
    return TableColumn(
        path,
        tuple(leaves),
        tuple(traits),
        tuple(parts),
        part,
        np.concatenate([np.arange(n) for n in counts]),
        np.concatenate([chunks.members for chunks in parts]),
        np.concatenate([chunks.values for chunks in parts]),
        np.concatenate([chunks.nulls for chunks in parts]),
        offset,
        length,
        _common_bounds(parts, [kind == usual for kind in kinds]),
        np.array([kind == usual for kind in kinds], np.bool_)[part],
        **more,
    )


def _common_bounds(parts: Sequence[Chunks], usable: Sequence[bool]) -> Bounds | None:
    """The bounds of all parts, unknown for those of another type."""
    first = next((chunks.bounds for chunks, ok in zip(parts, usable, strict=True) if ok and chunks.bounds), None)
    if first is None:
        return None
    lower, upper, known = [], [], []
    for chunks, ok in zip(parts, usable, strict=True):
        bounds = chunks.bounds if ok else None
        if bounds is None or bounds.lower.dtype != first.lower.dtype:
            n = len(chunks.members)
            nothing = np.zeros(n, first.lower.dtype)
            bounds = Bounds(nothing, nothing, np.zeros(n, np.bool_))
        lower.append(bounds.lower)
        upper.append(bounds.upper)
        known.append(bounds.known)
    return Bounds(np.concatenate(lower), np.concatenate(upper), np.concatenate(known))


def take_samples(
    dataset: Dataset,
    table: Table,
    columns: Sequence[TableColumn],
    wanted: Sequence[Wanted],
    most_bytes: int,
    count: ReadCount,
    source: Source | None = None,
) -> list[Sample]:
    """A sample of each of `columns`, of what is `wanted` of it, and what the headers of some filters say.

    Reads at most `most_bytes` of filters and data, all columns together; only where footers do not tell how large
    filters are, the headers of a few come on top. Cheap chunks go first, and every column gets one before any gets two.
    `count` grows by what was read.

    A chunk that cannot be read is passed over, and the sample tells why. OSError passes.
    """
    source = source or source_of(table)
    drawn = [_draw(column) for column in columns]
    before = count.bytes
    sizes = source.filter_sizes(columns, drawn, count)
    samples = [Sample(sizes=[size for (j, _), size in sizes.items() if j == i]) for i in range(len(columns))]
    drawn = [chunks if what is not Wanted.NOTHING else chunks[:0] for chunks, what in zip(drawn, wanted, strict=True)]
    budget = _Budget(most_bytes - (count.bytes - before))
    jobs: list[_Job] = []
    for turn in range(_SAMPLES):
        asked = []
        for i, column in enumerate(columns):
            if turn < len(drawn[i]):
                chunk = int(drawn[i][turn])
                size = sizes.get((i, chunk))
                if size is None and wanted[i] is Wanted.FILTERS:
                    continue
                asked.append(_Job(i, chunk, size is not None, source.cost(column, chunk, size)))
        for job in sorted(asked, key=lambda job: job.cost):
            if budget.take(job.cost):
                jobs.append(job)
            else:
                samples[job.column].too_large = True
    _run(dataset.storage.threads, source, columns, jobs, samples, count)
    again = []
    for i, column in enumerate(columns):
        if samples[i].chunks or not len(drawn[i]) or wanted[i] is Wanted.FILTERS:
            continue
        # Its filters tell nothing, or its chunks are large: one small chunk is better than none.
        tried = _spread(_holding(column), _TRIED)
        costs = [source.cost(column, chunk, None) for chunk in tried.tolist()]
        least = int(np.argmin(costs))
        if budget.take(costs[least]):
            again.append(_Job(i, int(tried[least]), False, costs[least]))
        else:
            samples[i].too_large = True
    _run(dataset.storage.threads, source, columns, again, samples, count)
    return samples


def estimate(column: TableColumn, sample: Sample, source: Source) -> ColumnFacts:
    """What is known of a column, with its sample carried over to the other row groups."""
    facts = ColumnFacts(column.values, column.nulls, column.bounds, np.full(len(column.values), np.nan))
    if not sample.chunks:
        return facts
    filled = facts.filled
    ndv = np.clip(sample.ndv, 1.0, np.maximum(filled[sample.chunks], 1))
    # Row groups of other sizes draw from the same pool, which is as large as the sampled ones tell.
    rows, distinct = float(filled[sample.chunks].mean()), float(ndv.mean())
    pool = pool_size(rows, distinct)
    every = filled.astype(np.float64) if np.isinf(pool) else -pool * np.expm1(-filled / pool)
    every[sample.chunks] = ndv
    throughout = np.full(len(filled), all(sample.dictionary))
    shared = measure_shared(column.bounds, sample.chunks, sample.filters, source.together)
    return ColumnFacts(column.values, column.nulls, column.bounds, every, shared, throughout)


@dataclass(frozen=True, slots=True)
class _Job:
    column: int
    chunk: int
    stored: bool
    cost: int


@dataclass
class _Budget:
    left: int

    def take(self, cost: int) -> bool:
        if cost > self.left:
            return False
        self.left -= cost
        return True


def _holding(column: TableColumn) -> NDArray[np.int64]:
    filled = np.maximum(column.values, 0) - np.maximum(column.nulls, 0)
    return np.flatnonzero((filled > 0) & column.comparable)


def _draw(column: TableColumn) -> NDArray[np.int64]:
    holding = _holding(column)
    # At even distances, the samples of files that are sorted each for itself would all be of one part of the values.
    return np.random.default_rng(len(holding)).permutation(holding)[:_SAMPLES]


def _spread(chunks: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    return chunks if len(chunks) <= most else chunks[np.linspace(0, len(chunks) - 1, most).astype(np.int64)]


def _run(
    threads: int,
    source: Source,
    columns: Sequence[TableColumn],
    jobs: Iterable[_Job],
    samples: Sequence[Sample],
    count: ReadCount,
) -> None:
    def work(job: _Job) -> tuple[_Job, Found | BloomParquetError | None, ReadCount]:
        reads = ReadCount()
        try:
            return job, source.read(columns[job.column], job.chunk, job.stored, reads), reads
        except BloomParquetError as error:
            return job, error, reads

    for job, found, reads in in_threads(threads, work, list(jobs)):
        sample = samples[job.column]
        count.requests += reads.requests
        count.bytes += reads.bytes
        if isinstance(found, BloomParquetError):
            sample.error = sample.error or found
            continue
        if found is None:
            continue
        if job.stored:
            sample.fpp.append(found.fpp)
            sample.empty += not found.filled
            if not 0 < found.filled <= _FULL:  # it was never filled, or far too much
                continue
        sample.chunks.append(job.chunk)
        sample.ndv.append(found.ndv)
        sample.filters.append(found.filter)
        sample.dictionary.append(source.is_dictionary_encoded(columns[job.column], job.chunk))
