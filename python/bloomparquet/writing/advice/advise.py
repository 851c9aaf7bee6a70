"""Advises which columns should have Bloom filters, from footers and a small sample of values.

:mod:`bloomparquet.writing.advice.benefit` decides whether filters of a column pay. This module gathers the facts for
it, and compares the filters in the files with those that should be there.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from math import comb
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bloomparquet.errors import OptionError, UnsupportedError
from bloomparquet.parquet.bloom_filter.sizes import BYTES_PER_BLOCK, MAX_BLOCKS, smallest_num_bytes
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.parquet.metadata.codecs import codec_of
from bloomparquet.parquet.pages.places import has_page_index
from bloomparquet.planning.dataset import Dataset, Paths, open_dataset
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.open import open_part
from bloomparquet.planning.parquet.row_groups import RowGroups
from bloomparquet.query.names import dotted_name
from bloomparquet.query.predicate import Column
from bloomparquet.query.resolve import find_partition
from bloomparquet.storage.files import ReadCount
from bloomparquet.storage.table_formats import OnTableLog
from bloomparquet.writing.advice.benefit import Benefit, ColumnFacts, assess
from bloomparquet.writing.advice.columns import TableColumn, table_columns
from bloomparquet.writing.advice.sampling import Sample, estimate, evenly, footer_of, take_samples
from bloomparquet.writing.filters.spec import AUTO, WRITE_ORC, Fpp, auto_fpp, check_fpp

SAMPLE_BYTES = 64 * 1024 * 1024
"""The default for the bytes of filters and data that are read at most."""

OVERSIZED = 3.0
"""Filters this many times as large as needed should shrink. Sizes are powers of two: for most, a factor of four."""

_USELESS_FPP = 10.0  # times the requested FPP
_WORTHLESS_FPP = 0.9  # from which on shrinking drops a filter
_HEADER_BYTES = 20
_CODEC_CHUNKS = 8  # of each column

ADVICE_SCHEMA = pa.schema(
    [
        ("column", pa.string()), ("type", pa.string()), ("row_groups", pa.int64()), ("values", pa.int64()),
        ("ndv_per_row_group", pa.float64()), ("ndv", pa.float64()), ("filters", pa.int64()),
        ("filter_bytes_now", pa.int64()), ("rows", pa.int64()), ("codec", pa.string()), ("page_indexes", pa.int64()),
        ("min_max_skip", pa.float64()), ("skip_rate", pa.float64()),
        ("filter_bytes", pa.int64()), ("fpp", pa.float64()), ("false_row_groups_now", pa.float64()),
        ("false_row_groups", pa.float64()), ("advice", pa.string()), ("reason", pa.string()),
    ]
)  # fmt: skip


def advise(
    path: Paths | Dataset,
    *,
    fpp: Fpp = AUTO,
    sample: int = SAMPLE_BYTES,
    filesystem: Any = None,
    keys: Keys | None = None,
    table_log: OnTableLog = "error",
) -> pa.Table:
    """Advice on the Bloom filters of the Parquet files at `path`: one row for each leaf column, in schema order.

    Filters are advised where a lookup then reads at most 40 % of the row groups that it reads without them. Reads all
    footers; for columns that footers do not decide, at most `sample` bytes of filters and data; and the headers of a
    few filters if footers do not tell their sizes. The
    table has facts:

    * column, type (several if files differ), row_groups that have the column, values (without nulls);
    * filters: how many row groups have one; filter_bytes_now: their size with headers, which is an estimate from a few
      filters if the writer did not store it;
    * rows (of these row groups); codec (of a few column chunks; several if they differ; null if they are not
      decrypted); page_indexes: how many of the row groups are in files with a page index;

    and estimates, which are null if they need an unknown NDV (an NDV that cannot change the advice is not read):

    * ndv_per_row_group (the mean), ndv (in all; too low if some values are far more frequent than others);
    * min_max_skip: the share of row groups that footers alone exclude; skip_rate: the share that filters exclude on
      top. Both are for a lookup of one distinct value of a row group, each as likely as the next;
    * filter_bytes: the size of filters for `fpp` in all row groups; fpp: `fpp` as a number;
    * false_row_groups_now: the number of row groups that a lookup of one value reads although they do not hold the
      value, because the filters in the files cannot tell. It is the sum of the false positive probabilities of all
      filters, from the bits of some of them; false_row_groups: the same for filters for `fpp` in all row groups. Row
      groups that min/max excludes are counted, too;
    * advice: ``add``; ``maybe`` (filters skip less, or few queries look up such a column); ``shrink`` (fold filters
      that are too large), ``replace`` (filters that are too small), ``drop`` (filters that are empty or full, which
      shrinking drops), ``keep`` or ``none``; and the reason.

    With ``fpp="auto"`` the fpp is 1 / (row groups of all files), so that false_row_groups is about one, but at most
    0.01 and at least 0.000001. ``Bloom(fpp="auto")`` has the same fpp in :func:`bloomparquet.add_filters`.

    `keys` decrypt encrypted files. A column with row groups that they do not decrypt gets no advice, and no number of
    false row groups. `table_log` is as for :func:`bloomparquet.inspect`.

    Raises OptionError for an invalid `fpp` or `sample`, UnsupportedError for ORC files, whose filters cannot be added
    later, and the errors of :func:`bloomparquet.plan`.

    >>> advice = bp.advise("events.parquet").to_pylist()
    >>> [(column["column"], column["advice"]) for column in advice]
    [('user_id', 'keep'), ('country', 'none'), ('amount', 'none')]
    >>> advice[0]["reason"]
    'a lookup reads 1 of 4 row groups instead of 4'
    """
    check_fpp(fpp)
    if sample < 0:
        raise OptionError(f"sample is {sample}: expected a number of bytes, 0 or more")
    dataset = open_dataset(path, filesystem, keys, table_log, allow_named_files=True)
    count = ReadCount()
    table = open_part(dataset, count)
    if table.format is not FileFormat.PARQUET:
        raise UnsupportedError(
            f"{table.paths[0]} is an ORC file. Filters of ORC are made as a file is written, so there is nothing to "
            f"advise on existing files; {WRITE_ORC}"
        )
    assert isinstance(table, RowGroups)
    return advise_on(dataset, table, fpp, sample, count)


def advise_on(dataset: Dataset, table: RowGroups, fpp: Fpp, sample: int, count: ReadCount) -> pa.Table:
    """The table of :func:`advise` for row groups whose footers were read. `count` grows by the reads of the sample."""
    goal = auto_fpp(len(table.file)) if fpp == AUTO else fpp
    has_index = np.array([has_page_index(footer) for footer in table.footers], np.bool_)[table.file]
    rows = [_row(table, has_index, column, goal) for column in _assess(dataset, table, goal, sample, count)]
    return pa.Table.from_pylist([dict(zip(ADVICE_SCHEMA.names, row, strict=True)) for row in rows], ADVICE_SCHEMA)


def recommended_columns(dataset: Dataset, table: RowGroups, fpp: float, sample: int, count: ReadCount) -> list[Column]:
    """The columns where filters are worth their size, whether the files have these filters or not."""
    return [each.column.path for each in _assess(dataset, table, fpp, sample, count) if each.benefit.recommended]


class _Assessed(NamedTuple):
    column: TableColumn
    sample: Sample
    facts: ColumnFacts
    benefit: Benefit


def _assess(dataset: Dataset, table: RowGroups, fpp: float, most_bytes: int, count: ReadCount) -> list[_Assessed]:
    columns = table_columns(table)
    undecided = [_benefit(dataset, column, estimate(column, Sample()), fpp).needs_ndv for column in columns]
    samples = take_samples(table, columns, undecided, most_bytes, count)
    facts = [estimate(column, sample) for column, sample in zip(columns, samples, strict=True)]
    return [
        _Assessed(column, sample, known, _benefit(dataset, column, known, fpp))
        for column, sample, known in zip(columns, samples, facts, strict=True)
    ]


def _benefit(dataset: Dataset, column: TableColumn, facts: ColumnFacts, fpp: float) -> Benefit:
    if len(column.path) == 1 and find_partition(dataset.partition_names, column.path, case_sensitive=False):
        return Benefit(False, False, "is also a partition column: directory names tell its value")
    if column.undecryptable is not None:
        return Benefit(False, False, f"not known: the column is encrypted: {column.undecryptable}")
    return assess(column.usual.leaf, column.usual.profile.traits, facts, fpp=fpp)


def _row(table: RowGroups, has_index: NDArray[np.bool_], assessed: _Assessed, fpp: float) -> tuple[Any, ...]:
    column, sample, facts, benefit = assessed
    stored = column.offset >= 0
    now = _bytes_now(column, sample, stored)
    sizes = then = None
    if len(facts.ndv) and np.isfinite(facts.ndv).all():
        sizes = np.where(facts.filled > 0, right_sizes(facts.ndv, fpp), 0)
        if column.undecryptable is None:
            then = false_row_groups_of(facts.ndv[sizes > 0], sizes[sizes > 0])
    advice, reason = _advise(stored, facts.filled > 0, sample, benefit, sizes, now, fpp)
    leaves = (chunks.leaf for chunks in column.parts)
    return (
        dotted_name(column.path), ", ".join(dict.fromkeys(leaf.describe() for leaf in leaves)), len(stored),
        int(facts.filled.sum()), benefit.ndv_per_row_group, benefit.ndv, int(stored.sum()), now,
        int(table.rows[column.row_groups].sum()), _codec(table, column), int(has_index[column.row_groups].sum()),
        benefit.min_max_skip, benefit.skip_rate, None if sizes is None else int(sizes.sum()), fpp,
        false_row_groups_now(column, sample), then, advice, reason,
    )  # fmt: skip


def _codec(table: RowGroups, column: TableColumn) -> str | None:
    """The codecs of some of the column's chunks."""
    if column.undecryptable is not None:
        return None
    codecs = set()
    for chunk in evenly(np.arange(len(column.row_groups)), _CODEC_CHUNKS).tolist():
        footer, row_group = footer_of(table, column, chunk)
        codecs.add(codec_of(footer, row_group, column.chunks_of(chunk).leaf.index))
    return ", ".join(sorted(codec for codec in codecs if codec is not None)) or None


def _advise(
    stored: NDArray[np.bool_],
    holding: NDArray[np.bool_],
    sample: Sample,
    benefit: Benefit,
    sizes: NDArray[np.int64] | None,
    now: int,
    fpp: float,
) -> tuple[str, str]:
    """The advice for a column, and its reason.

    `stored` marks the row groups with a filter, `holding` those with values. `sizes` are the bytes that filters need in
    each row group, if known; `now` are the bytes of the filters in the files.
    """
    filters = int(stored.sum())
    if not filters:
        advice = "add" if benefit.recommended else "maybe" if benefit.useful and benefit.skip_rate != 0 else "none"
        return advice, _unknown(sample) if benefit.needs_ndv else benefit.reason
    if sample.fpp and sample.empty == len(sample.fpp):
        return "drop", "its filters are empty although there are values"
    missing = int((holding & ~stored).sum())
    if missing and benefit.recommended:
        return "add", f"{benefit.reason}; {missing:,} of {len(stored):,} row groups have no filter"
    reason = _unknown(sample) if benefit.needs_ndv else benefit.reason
    needed = 0 if sizes is None else int(sizes[stored].sum())
    if needed and now > OVERSIZED * needed:
        return "shrink", f"{reason}; filters are {now / needed:,.0f} times as large as needed"
    if sample.fpp and np.mean(sample.fpp) > _USELESS_FPP * fpp:
        share = 100 * np.mean(sample.fpp)
        weakness = f"its filters let {share:.{0 if share >= 1 else 2}f} % of absent values pass"
        if benefit.useful:
            return "replace", f"{reason}; {weakness}"
        if np.mean(sample.fpp) >= _WORTHLESS_FPP:
            return "drop", f"{reason}; {weakness}"
    return "keep", reason


def _unknown(sample: Sample) -> str:
    if sample.error is not None:
        return f"not known: the sample could not be read: {sample.error}"
    if sample.too_large:
        return "not known: a column chunk is larger than the sample; raise sample"
    return "not known: no value was sampled"


def _bytes_now(column: TableColumn, sample: Sample, stored: NDArray[np.bool_]) -> int:
    """The bytes of all filters, with headers. Sizes that footers do not state are estimated from the sample."""
    known = stored & (column.length > 0)
    n_unknown = int((stored & ~known).sum())
    mean = float(np.mean(sample.sizes)) if sample.sizes else 0.0
    return int(column.length[known].sum()) + round(mean * n_unknown)


def right_sizes(ndv: NDArray[np.float64], fpp: float) -> NDArray[np.int64]:
    """The bytes, with the header, of filters of the right size for each NDV."""
    most = _most_values(fpp)
    power = np.minimum(np.searchsorted(most, np.ceil(ndv), "left"), len(most) - 1)
    sizes: NDArray[np.int64] = (np.int64(BYTES_PER_BLOCK) << power.astype(np.int64)) + _HEADER_BYTES
    return sizes


@lru_cache(maxsize=8)
def _most_values(fpp: float) -> NDArray[np.float64]:
    """The largest NDV that each size of filter is right for, from 32 bytes to 128 MiB."""
    sizes = [BYTES_PER_BLOCK << power for power in range(MAX_BLOCKS.bit_length())]
    ndvs = range(1 << 32)
    most = [bisect_right(ndvs, size, key=lambda ndv: smallest_num_bytes(ndv, fpp)) - 1 for size in sizes]
    return np.array(most, np.float64)


def false_row_groups_now(column: TableColumn, sample: Sample) -> float | None:
    """The number of row groups that a lookup reads although they do not hold the value: the sum of the fpp of all
    filters, from the bits of those in the `sample`. Min/max may exclude some of them; this is left out.

    None if there is no filter, none could be read, or some may be in chunks that do not decrypt. An empty filter counts
    as 1, because readers ignore it.
    """
    if not sample.fpp or column.undecryptable is not None:
        return None
    return float(np.count_nonzero(column.offset >= 0) * (np.sum(sample.fpp) + sample.empty) / len(sample.fpp))


def false_row_groups_of(ndv: NDArray[np.float64], bitset_bytes: NDArray[np.int64]) -> float:
    """The expected number of false row groups with filters of `bitset_bytes` bytes for `ndv` distinct values each."""
    n_blocks = bitset_bytes // BYTES_PER_BLOCK
    # The formula of sizes.expected_fpp, for many filters at once.
    terms = [
        (-1) ** j * comb(8, j) * np.exp(np.ceil(ndv) * np.log1p(((31 / 32) ** j - 1.0) / n_blocks)) for j in range(9)
    ]
    return float(np.maximum(np.sum(terms, axis=0), 0.0).sum())
