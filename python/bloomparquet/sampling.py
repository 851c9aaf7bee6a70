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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bloomparquet.dataset import Dataset
from bloomparquet.encoding import family_of
from bloomparquet.errors import BloomParquetError, EncryptionError
from bloomparquet.format.footer import Footer
from bloomparquet.format.layout import WriterTraits
from bloomparquet.format.schema import LeafColumn
from bloomparquet.format.sealed import ChunkCipher
from bloomparquet.format.tails import MAGIC
from bloomparquet.predicate import Column
from bloomparquet.pruning.bounds import Bounds
from bloomparquet.pruning.rowgroups import ColumnChunks, RowGroups
from bloomparquet.pruning.seals import Seals
from bloomparquet.sbbf import BYTES_PER_BLOCK, SplitBlockBloomFilter
from bloomparquet.storage import ReadCount, in_threads, read_ranges
from bloomparquet.writing.bloom import Bloom
from bloomparquet.writing.stored import filter_chunk
from bloomparquet.writing.worth import ColumnFacts, measure_shared, pool_size

_SAMPLES = 5  # per column
_TRIED = 64  # chunks among which a small one is looked for, when those drawn are too large
_FIRST_READ = 20 * 1024  # more than a filter's first read takes; see bloomparquet.pruning.filters
_FULL = 0.9  # of its bits: so full a filter does not tell how many values are in it
_MOST_VALUES = 1 << 22
_KEPT_FPP = 0.003  # of samples while they are held: no larger than their values need, and still exact enough
_DATA_PAGES = (0, 3)
_DICTIONARY_ENCODINGS = {2, 8}


@dataclass(frozen=True)
class TableColumn:
    """One leaf column, by its path, over all files that have it; its n chunks are in one order throughout.

    `leaves` are its leaf in each layout, of which the types may differ. `places` (n,) are the chunks' places among all
    row groups. `parts` and `part`, `at` (n,) lead back to where they come from. `locked` is why an encrypted chunk
    cannot be looked into.
    """

    path: Column
    leaves: tuple[LeafColumn, ...]
    traits: tuple[WriterTraits, ...]
    parts: tuple[ColumnChunks, ...]
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

    @property
    def leaf(self) -> LeafColumn:
        """The leaf with the type that most chunks have."""
        return self.leaves[self._usual]

    @property
    def leaf_traits(self) -> WriterTraits:
        """Those of the files that `leaf` is of."""
        return self.traits[self._usual]

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
    filters: list[SplitBlockBloomFilter] = field(default_factory=list)
    dictionary: list[bool] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    fpp: list[float] = field(default_factory=list)
    empty: int = 0
    error: BloomParquetError | None = None
    too_large: bool = False


def table_columns(table: RowGroups) -> list[TableColumn]:
    """The leaf columns of all files, in the order of the first file's schema; then what only other files have."""
    found: dict[Column, list[tuple[int, LeafColumn]]] = {}
    for i, layout in enumerate(table.layouts):
        for leaf in layout.schema.leaves:
            found.setdefault(leaf.path, []).append((i, leaf))
    return [_gather(table, path, leaves) for path, leaves in found.items()]


def _gather(table: RowGroups, path: Column, leaves: Sequence[tuple[int, LeafColumn]]) -> TableColumn:
    parts = tuple(table.chunks(i, leaf) for i, leaf in leaves)
    counts = [len(chunks.members) for chunks in parts]
    part = np.repeat(np.arange(len(parts)), counts)
    kinds = [_kind(chunks.leaf) for chunks in parts]
    usual = max(kinds, key=lambda kind: sum(n for n, other in zip(counts, kinds, strict=True) if other == kind))
    return TableColumn(
        path,
        tuple(leaf for _, leaf in leaves),
        tuple(table.layouts[i].traits for i, _ in leaves),
        parts,
        part,
        np.concatenate([np.arange(n) for n in counts]),
        np.concatenate([chunks.members for chunks in parts]),
        np.concatenate([chunks.values for chunks in parts]),
        np.concatenate([chunks.nulls for chunks in parts]),
        np.concatenate([chunks.filters.offset for chunks in parts]),
        np.concatenate([chunks.filters.length for chunks in parts]),
        _common_bounds(parts, [kind == usual for kind in kinds]),
        np.array([kind == usual for kind in kinds], np.bool_)[part],
        next(
            (error for chunks in parts for error in chunks.filters.locked if isinstance(error, EncryptionError)), None
        ),
    )


def _kind(leaf: LeafColumn) -> tuple[Any, ...]:
    """Equal for leaves whose equal values are equal bytes, in one order."""
    node = leaf.node
    unit = (node.annotation.unit, node.annotation.scale) if node.annotation else None
    return node.physical_type, node.type_length, family_of(node), unit, leaf.repeated


def _common_bounds(parts: Sequence[ColumnChunks], usable: Sequence[bool]) -> Bounds | None:
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
    table: RowGroups,
    columns: Sequence[TableColumn],
    wanted: Sequence[Wanted],
    most_bytes: int,
    count: ReadCount,
) -> list[Sample]:
    """A sample of each of `columns`, of what is `wanted` of it, and what the headers of some filters say.

    Reads at most `most_bytes` of filters and data, all columns together; only where footers do not tell how large
    filters are, the headers of a few come on top. Cheap chunks go first, and every column gets one before any gets two.
    `count` grows by what was read.

    A chunk that cannot be read is passed over, and the sample tells why. OSError passes.
    """
    drawn = [_draw(column) for column in columns]
    before = count.bytes
    sizes = _filter_sizes(dataset, table, columns, drawn, count)
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
                cost = _data_bytes(table, column, chunk) if size is None else size + _FIRST_READ
                asked.append(_Job(i, chunk, size is not None, cost))
        for job in sorted(asked, key=lambda job: job.cost):
            if budget.take(job.cost):
                jobs.append(job)
            else:
                samples[job.column].too_large = True
    _run(dataset, table, columns, jobs, samples, count)
    again = []
    for i, column in enumerate(columns):
        if samples[i].chunks or not len(drawn[i]) or wanted[i] is Wanted.FILTERS:
            continue
        # Its filters tell nothing, or its chunks are large: one small chunk is better than none.
        tried = _spread(_holding(column), _TRIED)
        costs = [_data_bytes(table, column, chunk) for chunk in tried.tolist()]
        least = int(np.argmin(costs))
        if budget.take(costs[least]):
            again.append(_Job(i, int(tried[least]), False, costs[least]))
        else:
            samples[i].too_large = True
    _run(dataset, table, columns, again, samples, count)
    return samples


def estimate(column: TableColumn, sample: Sample) -> ColumnFacts:
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
    shared = measure_shared(column.bounds, sample.chunks, sample.filters)
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


def _filter_sizes(
    dataset: Dataset,
    table: RowGroups,
    columns: Sequence[TableColumn],
    drawn: Sequence[NDArray[np.int64]],
    count: ReadCount,
) -> dict[tuple[int, int], int]:
    """The bytes, with the header, of the filters that the drawn chunks have, by column and chunk. Older writers tell
    them only in the filters' headers; a damaged one is as good as none."""
    sizes: dict[tuple[int, int], int] = {}
    unknown: list[tuple[int, int]] = []
    for i, column in enumerate(columns):
        for chunk in drawn[i].tolist():
            if column.length[chunk] > 0 and column.offset[chunk] >= 0:
                sizes[i, chunk] = int(column.length[chunk])
            elif column.offset[chunk] >= 0:
                unknown.append((i, chunk))
    file = np.array([table.file[columns[i].places[chunk]] for i, chunk in unknown], np.int64)
    offset = np.array([columns[i].offset[chunk] for i, chunk in unknown], np.int64)
    seals = Seals([_cipher(columns[i], chunk) for i, chunk in unknown], len(unknown))
    room = np.minimum(table.arrays.limit[file] - offset, seals.header_room)
    inside = np.flatnonzero((offset >= 4) & (room > BYTES_PER_BLOCK))
    ranges = read_ranges(dataset.storage, table.paths, file[inside], offset[inside], room[inside], count)
    headers = seals.headers(inside, ranges, room[inside])
    for which, taken, stored in zip(inside.tolist(), headers.taken.tolist(), headers.stored.tolist(), strict=True):
        if taken:
            sizes[unknown[which]] = taken + stored
    return sizes


def _cipher(column: TableColumn, chunk: int) -> ChunkCipher | None:
    ciphers = column.parts[int(column.part[chunk])].filters.ciphers
    return None if ciphers is None else ciphers[int(column.at[chunk])]


def _data_bytes(table: RowGroups, column: TableColumn, chunk: int) -> int:
    footer, row_group = _where(table, column, chunk)
    leaf = column.leaves[int(column.part[chunk])]
    return (footer.read_chunk(row_group, leaf.index).compressed_size or 0) + len(MAGIC)


def _where(table: RowGroups, column: TableColumn, chunk: int) -> tuple[Footer, int]:
    place = int(column.places[chunk])
    return table.footer(int(table.file[place])), int(table.index[place])


def _run(
    dataset: Dataset,
    table: RowGroups,
    columns: Sequence[TableColumn],
    jobs: Iterable[_Job],
    samples: Sequence[Sample],
    count: ReadCount,
) -> None:
    def work(job: _Job) -> tuple[_Job, SplitBlockBloomFilter | BloomParquetError | None, ReadCount]:
        reads = ReadCount()
        try:
            return job, _read(dataset, table, columns[job.column], job, reads), reads
        except BloomParquetError as error:
            return job, error, reads

    for job, found, reads in in_threads(dataset.storage.threads, work, list(jobs)):
        sample = samples[job.column]
        count.requests += reads.requests
        count.bytes += reads.bytes
        if isinstance(found, BloomParquetError):
            sample.error = sample.error or found
            continue
        if found is None:
            continue
        if job.stored:
            sample.fpp.append(found.estimated_fpp)
            sample.empty += not found.bits_set
            if not 0 < found.bits_set <= _FULL * 8 * found.num_bytes:  # it was never filled, or far too much
                continue
        sample.chunks.append(job.chunk)
        sample.ndv.append(found.estimated_ndv)
        sample.filters.append(found.fitted(_KEPT_FPP))
        sample.dictionary.append(_is_dictionary_encoded(table, columns[job.column], job.chunk))


def _read(
    dataset: Dataset, table: RowGroups, column: TableColumn, job: _Job, count: ReadCount
) -> SplitBlockBloomFilter | None:
    part = column.parts[int(column.part[job.chunk])]
    if job.stored:
        bitset = part.filters.read(dataset.storage, int(column.at[job.chunk]), count)
        return None if bitset is None else SplitBlockBloomFilter.from_bytes(bitset.tobytes())
    footer, row_group = _where(table, column, job.chunk)
    file = table.files[int(table.file[column.places[job.chunk]])]
    # Made for as many values as there may be and not made smaller, it tells even few of them exactly.
    bloom = Bloom(fpp=0.01, ndv=min(int(column.values[job.chunk]), _MOST_VALUES))
    return filter_chunk(dataset.storage, file, footer, row_group, part.leaf, bloom, count)


def _is_dictionary_encoded(table: RowGroups, column: TableColumn, chunk: int) -> bool:
    """Whether the footer says that all data pages are dictionary encoded (field 13, encoding_stats)."""
    footer, row_group = _where(table, column, chunk)
    leaf = column.leaves[int(column.part[chunk])]
    try:
        stats = footer.chunk_metadata(row_group, leaf.index).get(13)
    except BloomParquetError:  # the sample itself is as good as any
        return False
    pages = [each for each in stats or () if isinstance(each, dict) and each.get(1) in _DATA_PAGES]
    return bool(pages) and all(page.get(2) in _DICTIONARY_ENCODINGS for page in pages)
