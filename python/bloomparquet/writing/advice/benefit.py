"""Whether Bloom filters of a column pay: one decision, for advice and for ``bloom="*"``.

A lookup ``column = value`` reads the row groups that no evidence excludes. Null counts and min/max exclude some, and
filters may exclude more. The rest hold the value, or are false positives. Filters pay if they exclude many row groups
that min/max does not. They do not pay if nearly every row group has the value, or if the column is sorted.

Types, counts and bounds are facts from footers. Two things are estimated:

* where the values of a row group lie between its bounds. Assume that values other than min and max fall where other
  row groups overlap most: a uniform spread would overrate min/max when there are outliers;
* in how many row groups a value is, if that was not measured. Assume that rows are draws from one pool of values, and
  derive its size from the repetitions within row groups. This underrates filters if rows are clustered by the column.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.parquet.metadata.file_profile import WriterTraits
from bloomparquet.parquet.values.encoding import encode_values, parquet_family
from bloomparquet.query.columns import LeafColumn
from bloomparquet.query.literals import Family
from bloomparquet.query.ordering import Bounds
from bloomparquet.writing.filters.spec import why_unsuitable

_LEAST_GAIN = 0.2  # filters must exclude this share of the row groups that are read without them,
_FELT_GAIN = 0.6  # and this share to be recommended: queries feel less too little for what filters cost,
_LEAST_SHARE = 0.05  # and this share of all row groups,
_LEAST_ROW_GROUPS = 10  # or this number of row groups
_TINY_ROWS = 1_000
_MOSTLY = 0.5
_LEAST_OVERLAP = 0.5  # sum over all pairs below which a measurement says nothing
_POSITIONS = (np.arange(8) + 0.5) / 8  # between lower and upper bound
_MOST_RANGES = 2_048  # row groups that are sampled; they are compared with all
_BYTES_COMPARED = 24  # of strings, after their common prefix


@dataclass(frozen=True)
class ColumnFacts:
    """The facts of one leaf column in n row groups. Arrays have shape (n,).

    * `values`: the number of values with nulls; `nulls`: the number of nulls, -1 if unknown;
    * `bounds`: min and max;
    * `ndv`: the NDV, NaN if unknown;
    * `shared`: for a value of one row group, the measured probability that another row group has it too; None if not
      measured;
    * `whole`: these are all row groups. Otherwise they stand for many more like them: the file is still being written.
    """

    values: NDArray[np.int64]
    nulls: NDArray[np.int64]
    bounds: Bounds | None
    ndv: NDArray[np.float64]
    shared: float | None = None
    whole: bool = True

    @property
    def filled(self) -> NDArray[np.int64]:
        """The number of non-null values, as far as is known, (n,)."""
        return np.maximum(self.values, 0) - np.maximum(self.nulls, 0)


@dataclass(frozen=True, slots=True)
class Benefit:
    """The benefit of filters on a column, and the reason for it.

    * `recommended`: filters should be made without being asked for;
    * `useful`: filters would spare lookups by equality a good deal;
    * `needs_ndv`: only an NDV could decide;
    * `min_max_skip`, `skip_rate`: for a lookup of one distinct value of a row group, the share of all row groups that
      footers alone exclude, and the share that filters exclude on top;
    * `ndv_per_row_group` (the mean), `ndv` (in all row groups).

    The shares and the NDVs are estimates, None where nothing is known.
    """

    recommended: bool
    useful: bool
    reason: str
    min_max_skip: float | None = None
    skip_rate: float | None = None
    ndv_per_row_group: float | None = None
    ndv: float | None = None
    needs_ndv: bool = False


def assess(leaf: LeafColumn, traits: WriterTraits, facts: ColumnFacts, *, fpp: float = 0.01) -> Benefit:
    """The benefit of filters with false positive probability `fpp` on `leaf`. Reads nothing."""
    unused = why_unused(leaf, traits)
    if unused is not None:
        return Benefit(False, False, unused)
    if leaf.repeated:
        return Benefit(False, True, "is inside a list or map: give it filters if queries look up its elements")
    n = len(facts.values)
    holding = np.flatnonzero(facts.filled > 0)
    if len(holding) == 0:
        empty = "there is no row" if n else "there is no row group"
        return Benefit(False, False, "every value is null" if facts.values.any() else empty)
    return _compare(parquet_family(leaf.node), facts, holding, fpp)


@dataclass(frozen=True, slots=True)
class _Lookup:
    """The row groups that a lookup reads without filters. The value is one that some row group has.

    * `total`: all row groups. It is 1 if they stand for many more; other numbers are then shares;
    * `own`: the row group that the value is from; `others`: the other row groups that min/max does not exclude;
    * `ndv`: the mean NDV of a row group; `ndv_in_all`: the NDV in all row groups. None if unknown;
    * `shared`: the probability that one of `others` has the value, too. None if unknown.
    """

    total: int
    own: int
    others: float
    ndv: float | None
    ndv_in_all: float | None
    shared: float | None

    @classmethod
    def of(cls, facts: ColumnFacts, holding: NDArray[np.int64]) -> _Lookup:
        """A lookup of a value that a row group of `holding` has."""
        total, others, own = (len(facts.values), len(holding) - 1, 1) if facts.whole else (1, 1, 0)
        known = holding[np.isfinite(facts.ndv[holding])]
        ndv, shared = float(facts.ndv[known].mean()) if len(known) else None, facts.shared
        if ndv is not None and shared is None:
            shared = min(1.0, ndv / pool_size(float(facts.filled[known].mean()), ndv))
        covered = covered_share(facts.bounds, holding, ndv)
        # A value that is in m row groups is counted m times.
        ndv_in_all = None
        if ndv is not None and shared is not None:
            ndv_in_all = max(ndv, ndv * len(holding) / (1 + (len(holding) - 1) * covered * shared))
        return cls(total, own, others * covered, ndv, ndv_in_all, shared)

    @property
    def read(self) -> float:
        return self.others + self.own

    @property
    def min_max_skip(self) -> float:
        """The share of row groups that min/max excludes."""
        return (self.total - self.read) / self.total

    def benefit(
        self,
        reason: str,
        spared: float | None,
        *,
        useful: bool = False,
        recommended: bool = False,
        needs_ndv: bool = False,
    ) -> Benefit:
        """The benefit of filters that spare the lookup `spared` of the row groups."""
        skip_rate = None if spared is None else spared / self.total
        return Benefit(recommended, useful, reason, self.min_max_skip, skip_rate, self.ndv, self.ndv_in_all, needs_ndv)


def _compare(family: Family, facts: ColumnFacts, holding: NDArray[np.int64], fpp: float) -> Benefit:
    """Compare the row groups that a lookup reads with and without filters."""
    lookup = _Lookup.of(facts, holding)
    if facts.whole and len(facts.values) == 1:
        return _benefit_in_one(facts, lookup)
    ndv, shared, read, total = lookup.ndv, lookup.shared, lookup.read, lookup.total
    min_max = f"min/max alone skips {_percent(lookup.min_max_skip)} of the row groups"
    spared_at_most = (1 - fpp) * lookup.others
    spared = None if shared is None else spared_at_most * (1 - shared)
    if not _is_much(spared_at_most, read, total):
        return lookup.benefit(min_max, spared)
    if ndv is None or shared is None or spared is None:
        return lookup.benefit("the number of distinct values is not known", None, needs_ndv=True)
    if not _is_much(spared, read, total):
        if lookup.min_max_skip > _MOSTLY:
            return lookup.benefit(min_max, spared)
        share = _percent((lookup.others * shared + lookup.own) / total)
        reason = f"a value is in {share} of the row groups; distinct values in each: {_count(ndv)}"
        return lookup.benefit(reason, spared)
    if facts.whole:
        reason = f"a lookup reads {max(read - spared, 1):,.0f} of {total:,} row groups instead of {read:,.0f}"
    else:
        reason = f"a lookup reads {_percent(read - spared)} of the row groups instead of {_percent(read)}"
    if family == "float":
        return lookup.benefit(f"{reason}, but fractions are rarely looked up", spared, useful=True)
    if spared < _FELT_GAIN * read:
        return lookup.benefit(f"{reason}, only {_percent(spared / read)} fewer", spared, useful=True)
    return lookup.benefit(reason, spared, useful=True, recommended=True)


def _benefit_in_one(facts: ColumnFacts, lookup: _Lookup) -> Benefit:
    """The benefit of a filter in the only row group."""
    if facts.filled[0] <= _TINY_ROWS:
        return lookup.benefit(f"one row group of {facts.filled[0]:,} values is read as fast as its filter", 0.0)
    reason = "with one row group, a filter only helps lookups of absent values"
    return lookup.benefit(reason, 0.0, useful=True, needs_ndv=lookup.ndv is None)


def why_unused(leaf: LeafColumn, traits: WriterTraits) -> str | None:
    """The reason why no lookup uses a filter of this column, by its type and its writer; None if lookups do."""
    if leaf.repeated_levels > 1:
        return "is inside a list or map of lists or maps, where bloomparquet does not use filters"
    refused = why_unsuitable(leaf, named=True)
    if refused is not None:
        return refused
    encoded = encode_values(leaf, (), traits, "UTC")
    if encoded is not None and encoded.hashes is not None:
        return None
    if leaf.node.physical_type == "INT96":
        return "is INT96 by a writer other than Spark, so that the bytes of a value are not known"
    return "has a type whose equal values need not be equal bytes"


def measure_overlap(
    bounds: Bounds | None, chunks: Sequence[int], filters: Sequence[SplitBlockBloomFilter]
) -> float | None:
    """The probability that a value of one chunk is also in another chunk whose bounds do not exclude it.

    `chunks` are indexes into `bounds`, and ``filters[i]`` holds the values of ``chunks[i]``. Compares every pair. None
    if bounds keep all of them apart.
    """
    common = allowed = 0.0
    for (i, a), (j, b) in combinations(zip(chunks, filters, strict=True), 2):
        overlap = covered_share(bounds, np.array([i, j]), min(a.estimated_ndv, b.estimated_ndv))
        ndvs = _ndvs(a, b) if overlap else None
        if ndvs is None:
            continue
        ndv, other_ndv, ndv_of_both = ndvs
        if not ndv or not other_ndv or math.isinf(ndv_of_both):
            continue
        in_both = ndv + other_ndv - ndv_of_both  # an estimate: around 0, it may be negative
        common += (in_both / ndv + in_both / other_ndv) / 2
        allowed += overlap
    return min(max(common / allowed, 0.0), 1.0) if allowed >= _LEAST_OVERLAP else None


def _ndvs(a: SplitBlockBloomFilter, b: SplitBlockBloomFilter) -> tuple[float, float, float] | None:
    """The NDV of the smaller filter, of the larger, and of both together; None if their sizes cannot be compared."""
    small, large = sorted((a, b), key=lambda each: each.n_blocks)
    ratio, remainder = divmod(large.n_blocks, small.n_blocks)
    if remainder or ratio & (ratio - 1):
        return None
    folded = large.fold(ratio.bit_length() - 1)
    return small.estimated_ndv, folded.estimated_ndv, small.merge(folded).estimated_ndv


def pool_size(rows: float, ndv: float) -> float:
    """The size of the pool from which `rows` uniform draws give `ndv` distinct values.

    Solves ndv = pool * (1 - exp(-rows / pool)). Infinite if next to no value is drawn twice.
    """
    if ndv >= rows * (1 - 1e-4):
        return math.inf
    low, high = 1e-9, 1.0
    while -math.expm1(-rows / (ndv * (1 + high))) * (1 + high) < 1:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        drawn = -math.expm1(-rows / (ndv * (1 + middle))) * (1 + middle)
        low, high = (middle, high) if drawn < 1 else (low, middle)
    return ndv * (1 + high)


def _is_much(spared: float, read: float, total: float) -> bool:
    """Whether sparing `spared` of the `read` row groups is worth a filter."""
    return spared >= _LEAST_GAIN * read and (spared >= _LEAST_SHARE * total or spared >= _LEAST_ROW_GROUPS)


def covered_share(bounds: Bounds | None, holding: NDArray[np.int64], ndv: float | None) -> float:
    """The share of row groups whose bounds do not exclude a value of another row group; an estimate.

    Both row groups are of `holding`, which are indexes into `bounds`. `ndv` is the NDV of a row group; two of these
    values are min and max. Unknown bounds exclude nothing.
    """
    others = len(holding) - 1
    known = holding if bounds is None else holding[bounds.known[holding]]
    if others < 1 or bounds is None or len(known) == 0:
        return 1.0
    lower, upper = _as_numbers(bounds.lower[known], bounds.upper[known])
    drawn = np.arange(len(known))
    if len(drawn) > _MOST_RANGES:
        drawn = np.linspace(0, len(known) - 1, _MOST_RANGES).astype(np.int64)
    starts, ends = np.sort(lower), np.sort(upper)

    def covering(points: NDArray[Any]) -> float:
        """The mean number of other ranges that contain a point."""
        at_or_below = np.searchsorted(starts, points, "right") - np.searchsorted(ends, points, "left")
        return float(np.mean(at_or_below)) - 1  # less the range that the point is from

    covered = max(covering(_between(lower[drawn], upper[drawn], position)) for position in _POSITIONS)
    if ndv is not None:
        at_bounds = (covering(lower[drawn]) + covering(upper[drawn])) / 2
        share = min(1.0, 2 / ndv)
        covered = share * at_bounds + (1 - share) * covered
    share_known = len(known) / len(holding)
    covered = share_known * (covered + len(holding) - len(known)) / others + (1 - share_known)
    return min(max(covered, 0.0), 1.0)


def _as_numbers(lower: NDArray[Any], upper: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Convert keys so that they can be interpolated: byte strings become integers, by the bytes after their common
    prefix.

    Strings that differ only after these bytes count as equal.
    """
    if lower.dtype != object or not isinstance(lower[0], bytes):
        return lower, upper
    first, last = min(lower), max(upper)
    common = next((i for i, (a, b) in enumerate(zip(first, last)) if a != b), min(len(first), len(last)))
    end = common + _BYTES_COMPARED
    numbers = []
    for keys in (lower, upper):
        array = np.empty(len(keys), object)
        array[:] = [int.from_bytes(key[common:end].ljust(_BYTES_COMPARED, b"\0"), "big") for key in keys.tolist()]
        numbers.append(array)
    return numbers[0], numbers[1]


def _between(lower: NDArray[Any], upper: NDArray[Any], position: float) -> NDArray[Any]:
    """The value at `position` (0 to 1) between each lower and upper bound."""
    if lower.dtype == object:
        parts = 1 << 10
        whole: NDArray[Any] = lower + (upper - lower) * round(position * parts) // parts
        return whole
    if lower.dtype == np.float64:
        widest = np.finfo(np.float64).max / 4
        low, high = np.clip(lower, -widest, widest), np.clip(upper, -widest, widest)
        between: NDArray[Any] = np.clip(low + (high - low) * position, lower, upper)
        return between
    # As unsigned numbers, the difference of two signed numbers fits.
    width = upper.view(np.uint64) - lower.view(np.uint64)
    step = np.minimum((width.astype(np.float64) * position).astype(np.uint64), width)
    stepped: NDArray[Any] = (lower.view(np.uint64) + step).view(lower.dtype)
    return stepped


def _percent(share: float) -> str:
    """``98 %``. Never 100 % or 0 % for a share that only rounds to it."""
    if 0 < share < 0.005:
        return "under 1 %"
    return f"{100 * share:.1f} %" if 0.995 <= share < 1 else f"{100 * share:.0f} %"


def _count(number: float) -> str:
    return f"about {number:,.0f}" if number >= 100 else f"{number:.0f}"
