"""Takes a small sample of each column's values, to estimate how many distinct values row groups have and share.

A sample of a column chunk is a Bloom filter. Where the file has one, it is read, so that no data is read; otherwise a
filter is made of the chunk's values. The set bits of a filter tell the NDV, and the set bits of two merged filters tell
how many values both have. Samples are few, drawn at random with a fixed seed (the same table gives the same answer),
and bounded in bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError
from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.parquet.metadata.file_tail import MAGIC
from bloomparquet.parquet.metadata.footer import Footer
from bloomparquet.planning.parquet.row_groups import RowGroups
from bloomparquet.storage.files import ReadCount
from bloomparquet.storage.threads import in_threads
from bloomparquet.writing.advice.benefit import ColumnFacts, measure_overlap, pool_size
from bloomparquet.writing.advice.columns import TableColumn
from bloomparquet.writing.filters.from_chunk import filter_chunk
from bloomparquet.writing.filters.spec import Bloom

_SAMPLES = 5  # per column
_FILTERS = 16  # per column, to estimate the fpp from their bits
_TRIED = 64  # chunks among which a small one is looked for, when those drawn are too large
_FULL = 0.9  # share of set bits above which the NDV cannot be estimated from a filter
_FIRST_READ = 20 * 1024  # more than a filter's first read takes; see bloomparquet.planning.parquet.filters
_MOST_VALUES = 1 << 22
_KEPT_FPP = 0.003  # samples in memory are no larger than their values need, and still exact enough


@dataclass
class Sample:
    """The sample of a column.

    * `chunks`: the column chunks of the sample; `ndv`, `filters`: of each, its NDV and a filter of its values;
    * `sizes`: the bytes of some filters in the files, with headers;
    * `fpp`: the false positive probability of some of these filters, from their bits; `empty`: how many of them have no
      bit set;
    * `error`: the first error of a chunk that could not be read;
    * `too_large`: some chunks were not read because of their size.
    """

    chunks: list[int] = field(default_factory=list)
    ndv: list[float] = field(default_factory=list)
    filters: list[SplitBlockBloomFilter] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    fpp: list[float] = field(default_factory=list)
    empty: int = 0
    error: BloomParquetError | None = None
    too_large: bool = False


def take_samples(
    table: RowGroups, columns: Sequence[TableColumn], undecided: Sequence[bool], most_bytes: int, count: ReadCount
) -> list[Sample]:
    """Take a sample of each of `columns`: of its filters, and if it is `undecided` and has none, of its data.

    Reads at most `most_bytes` of filters and data, all columns together. Where footers do not state the sizes of
    filters, a few kilobytes of some are read on top. Cheap chunks go first, and every column gets one before any gets
    two. `count` grows by the reads.

    A chunk that cannot be read is passed over, and the sample keeps the error. OSError is not caught.
    """
    sampling = _Sampling(table, columns, undecided, most_bytes, count)
    sampling.read(sampling.choose_drawn())
    sampling.read(sampling.choose_small())
    return sampling.samples


class _Sampling:
    """The sampling of some columns: the chunks that were drawn, the samples so far, and the bytes that are left."""

    def __init__(
        self, table: RowGroups, columns: Sequence[TableColumn], undecided: Sequence[bool], most_bytes: int,
        count: ReadCount,
    ) -> None:  # fmt: skip
        self._table, self._columns, self._undecided, self._count = table, columns, undecided, count
        self._drawn = [_draw(column) for column in columns]
        before = count.bytes
        self._sizes = [_filter_sizes(table, *each, count) for each in zip(columns, self._drawn, strict=True)]
        self._left = most_bytes - (count.bytes - before)
        self.samples = [Sample(sizes=list(sizes.values())) for sizes in self._sizes]

    def choose_drawn(self) -> list[_Read]:
        """The reads of drawn chunks for which there are bytes left."""
        reads: list[_Read] = []
        for turn in range(_FILTERS):
            for read in sorted(self._candidates(turn), key=lambda read: read.cost):
                if read.cost <= self._left:
                    self._left -= read.cost
                    reads.append(read)
                elif turn < _SAMPLES:
                    self.samples[read.column].too_large = True
        return reads

    def _candidates(self, turn: int) -> Iterator[_Read]:
        """The reads of chunk number `turn` among the drawn chunks of each column."""
        for i, column in enumerate(self._columns):
            if turn < len(self._drawn[i]):
                chunk = int(self._drawn[i][turn])
                size = self._sizes[i].get(chunk)
                if size is None and (not self._undecided[i] or turn >= _SAMPLES):
                    continue
                cost = _data_cost(self._table, column, chunk) if size is None else size + _FIRST_READ
                yield _Read(i, chunk, size is not None, cost, turn < _SAMPLES)

    def choose_small(self) -> list[_Read]:
        """The read of one small chunk of each column that has no sample yet: its filters say nothing, or the drawn
        chunks are large."""
        reads = []
        for i, column in enumerate(self._columns):
            if self.samples[i].chunks or not len(self._drawn[i]) or not self._undecided[i]:
                continue
            tried = evenly(_holding(column), _TRIED)
            costs = [_data_cost(self._table, column, chunk) for chunk in tried.tolist()]
            least = int(np.argmin(costs))
            if costs[least] <= self._left:
                self._left -= costs[least]
                reads.append(_Read(i, int(tried[least]), False, costs[least]))
            else:
                self.samples[i].too_large = True
        return reads

    def read(self, reads: Sequence[_Read]) -> None:
        """Read in threads, and add each result to its column's sample."""
        for read, bloom, taken in in_threads(self._table.storage.threads, self._read, reads):
            self._count.requests += taken.requests
            self._count.bytes += taken.bytes
            if isinstance(bloom, BloomParquetError):
                self.samples[read.column].error = self.samples[read.column].error or bloom
            elif bloom is not None:
                self._add(read, bloom)

    def _read(self, read: _Read) -> tuple[_Read, SplitBlockBloomFilter | BloomParquetError | None, ReadCount]:
        """Read one chunk; None for a chunk without values. Runs in a thread."""
        taken = ReadCount()
        try:
            return read, _read_filter(self._table, self._columns[read.column], read.chunk, read.stored, taken), taken
        except BloomParquetError as error:
            return read, error, taken

    def _add(self, read: _Read, bloom: SplitBlockBloomFilter) -> None:
        sample = self.samples[read.column]
        if read.stored:
            filled = bloom.bits_set / (8 * bloom.num_bytes)
            sample.fpp.append(bloom.estimated_fpp)
            sample.empty += not filled
            if not 0 < filled <= _FULL:
                return
        if read.for_values:
            sample.chunks.append(read.chunk)
            sample.ndv.append(bloom.estimated_ndv)
            sample.filters.append(bloom.fitted(_KEPT_FPP))


def estimate(column: TableColumn, sample: Sample) -> ColumnFacts:
    """The facts of a column, with its sample carried over to the other row groups."""
    facts = ColumnFacts(column.values, column.nulls, column.bounds, np.full(len(column.values), np.nan))
    if not sample.chunks:
        return facts
    filled = facts.filled
    ndv = np.clip(sample.ndv, 1.0, np.maximum(filled[sample.chunks], 1))
    # Row groups of other sizes draw from one pool of values. Its size follows from the sampled row groups.
    rows, distinct = float(filled[sample.chunks].mean()), float(ndv.mean())
    pool = pool_size(rows, distinct)
    every = filled.astype(np.float64) if np.isinf(pool) else -pool * np.expm1(-filled / pool)
    every[sample.chunks] = ndv
    shared = measure_overlap(column.bounds, sample.chunks, sample.filters)
    return ColumnFacts(column.values, column.nulls, column.bounds, every, shared)


@dataclass(frozen=True, slots=True)
class _Read:
    """One chunk to read: its filter in the file if `stored`, otherwise its data.

    `for_values` is whether its values are wanted, or only the fpp of its filter.
    """

    column: int
    chunk: int
    stored: bool
    cost: int
    for_values: bool = True


def _holding(column: TableColumn) -> NDArray[np.int64]:
    """The chunks that have values, of the type that most chunks have."""
    filled = np.maximum(column.values, 0) - np.maximum(column.nulls, 0)
    return np.flatnonzero((filled > 0) & column.comparable)


def _draw(column: TableColumn) -> NDArray[np.int64]:
    holding = _holding(column)
    # Drawn at even distances, samples of files that are each sorted would all show one part of the values.
    return np.random.default_rng(len(holding)).permutation(holding)[:_FILTERS]


def evenly(chunks: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """At most so many of `chunks`, spread over all of them."""
    return chunks if len(chunks) <= most else chunks[np.linspace(0, len(chunks) - 1, most).astype(np.int64)]


def _filter_sizes(table: RowGroups, column: TableColumn, drawn: NDArray[np.int64], count: ReadCount) -> dict[int, int]:
    """The bytes that the filters of the drawn chunks take with their headers, by chunk.

    Where the footer does not state it (older writers), the filter's header is read. A damaged filter counts as none.
    """
    stored = drawn[column.offset[drawn] >= 0]
    sizes = column.length[stored]
    for part, chunks in enumerate(column.parts):
        unknown = np.flatnonzero((sizes <= 0) & (column.part[stored] == part))
        at = column.index_in_part[stored[unknown]]
        sizes[unknown] = chunks.filters.stored_sizes(table.storage, at, count)
    return {chunk: size for chunk, size in zip(stored.tolist(), sizes.tolist(), strict=True) if size > 0}


def _data_cost(table: RowGroups, column: TableColumn, chunk: int) -> int:
    """The bytes of a chunk's data."""
    footer, row_group = footer_of(table, column, chunk)
    return (footer.read_chunk(row_group, column.chunks_of(chunk).leaf.index).compressed_size or 0) + len(MAGIC)


def footer_of(table: RowGroups, column: TableColumn, chunk: int) -> tuple[Footer, int]:
    """The footer of a chunk's file, and the index of its row group in the file."""
    row_group = int(column.row_groups[chunk])
    return table.footer(int(table.file[row_group])), int(table.index[row_group])


def _read_filter(
    table: RowGroups, column: TableColumn, chunk: int, stored: bool, count: ReadCount
) -> SplitBlockBloomFilter | None:
    """A filter of a chunk's values: read from the file if `stored`, otherwise made of the data. None for a chunk
    without values."""
    part = column.chunks_of(chunk)
    if stored:
        bitset = part.filters.read(table.storage, int(column.index_in_part[chunk]), count)
        return None if bitset is None else SplitBlockBloomFilter.from_bytes(bitset.tobytes())
    footer, row_group = footer_of(table, column, chunk)
    file = table.files[int(table.file[column.row_groups[chunk]])]
    # Oversized on purpose, so that the NDV estimate from the set bits stays accurate for small counts.
    bloom = Bloom(fpp=0.01, ndv=min(int(column.values[chunk]), _MOST_VALUES))
    return filter_chunk(table.storage, file, footer, row_group, part.leaf, bloom, count)
