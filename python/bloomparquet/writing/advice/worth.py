"""Whether a Bloom filter of a column pays: one decision, for advice and for ``bloom="*"``.

A lookup ``column = value`` reads the row groups that nothing excludes. Null counts and min/max exclude some, filters
may exclude others; what remains are those that hold the value, and false positives. A filter pays where it excludes
many that min/max does not. It cannot where the value is in nearly all of them, and need not where they are sorted.

Facts here are types, counts and bounds, as footers give them. Estimates are everything that depends on where values
lie *between* bounds, or in how many row groups a value is:

* but for the two that are the bounds, the values of a row group lie where most other row groups have values too. Where
  they crowd nobody knows; taken evenly, a few large values would make min/max look good where it is not;
* without a measure of what row groups have in common, their rows are draws from one pool of values, whose size the
  repetitions within row groups tell. Where rows are clustered by the column this is too pessimistic for filters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.parquet.metadata.file_profile import WriterTraits
from bloomparquet.parquet.values.encoding import encode_values, family_of
from bloomparquet.query.columns import LeafColumn
from bloomparquet.query.literals import Family
from bloomparquet.query.ordering import Bounds
from bloomparquet.writing.filters.spec import why_unsuitable

_LEAST_SHARE = 0.05  # of all row groups, that a filter excludes,
_LEAST_ROW_GROUPS = 10  # or so many of them,
_LEAST_GAIN = 0.2  # and of those that would be read without it
_SMALL_DICTIONARY = 1_000  # entries: read with its page and asked in no time
_TINY_ROWS = 1_000
_MOSTLY = 0.5
_LEAST_OVERLAP = 0.5  # of all pairs together: less of it tells nothing
_PLACES = (np.arange(8) + 0.5) / 8
_MOST_RANGES = 2_048  # from which values are drawn; those they are compared with are all
_BYTES_COMPARED = 24  # of strings, behind what all of them begin with


@dataclass(frozen=True)
class ColumnFacts:
    """One leaf column of n row groups; arrays have shape (n,).

    `values` counts values with nulls, `nulls` the nulls, -1 where unknown; `bounds` are the minima and maxima. `ndv` is
    the number of distinct values in each, NaN where unknown. `shared` is, for a value of one row group, the measured
    probability that another given one has it too; None when nothing was measured. `dictionary` says which chunks are
    dictionary encoded throughout. `whole` says that these are all row groups that there are; otherwise they stand for
    many more like them, as the ones of a file in the making do.
    """

    values: NDArray[np.int64]
    nulls: NDArray[np.int64]
    bounds: Bounds | None
    ndv: NDArray[np.float64]
    shared: float | None = None
    dictionary: NDArray[np.bool_] | None = None
    whole: bool = True

    @property
    def filled(self) -> NDArray[np.int64]:
        """The number of values that are not null, as far as is known, (n,)."""
        return np.maximum(self.values, 0) - np.maximum(self.nulls, 0)


@dataclass(frozen=True, slots=True)
class Worth:
    """What was decided, and why. `needs_ndv` says that only a number of distinct values could decide it.

    `skips` says that filters would spare lookups by equality a good deal, `pays` that they should also be made unasked.
    For one of the different values of a row group, `min_max_skip` is the share of all row groups that footers alone
    exclude, and `skip_rate` the share that filters exclude on top. `ndv_per_row_group` is a mean, `ndv` the distinct
    values in all. These are estimates, None where nothing is known.
    """

    pays: bool
    skips: bool
    reason: str
    min_max_skip: float | None = None
    skip_rate: float | None = None
    ndv_per_row_group: float | None = None
    ndv: float | None = None
    needs_ndv: bool = False


def weigh(leaf: LeafColumn, traits: WriterTraits, facts: ColumnFacts, *, fpp: float = 0.01) -> Worth:
    """Whether filters of the false positive probability `fpp` pay for `leaf` in the row groups of `facts`.

    Reads nothing, and takes one pass over the row groups.
    """
    cannot = cannot_serve(leaf, traits)
    if cannot is not None:
        return Worth(False, False, cannot)
    n = len(facts.values)
    holding = np.flatnonzero(facts.filled > 0)
    if len(holding) == 0:
        return Worth(False, False, "every value is null" if n else "there is no row group")
    return _compare(family_of(leaf.node), facts, holding, fpp)


def _compare(family: Family, facts: ColumnFacts, holding: NDArray[np.int64], fpp: float) -> Worth:
    """What a lookup of a value that one of `holding` has reads without filters, and with them.

    All shares are of `every` row groups: those that there are, or one that stands for many others.
    """
    n = len(facts.values)
    every, others, own = (n, len(holding) - 1, 1) if facts.whole else (1, 1, 0)
    ndv, shared = _distinct(facts, holding)
    covered = covered_share(facts.bounds, holding, ndv)
    left = others * covered
    # A value that is in m row groups is counted m times.
    overall = None
    if ndv is not None and shared is not None:
        overall = max(ndv, ndv * len(holding) / (1 + (len(holding) - 1) * covered * shared))
    min_max_skip = (every - own - left) / every
    min_max = f"min/max alone skips {_percent(min_max_skip)} of the row groups"

    def told(reason: str, *, skips: bool = False, pays: bool = False, spared: float | None = None) -> Worth:
        skip_rate = None if spared is None else spared / every
        return Worth(pays, skips, reason, min_max_skip, skip_rate, ndv, overall)

    if facts.whole and n == 1:
        if facts.filled[0] <= _TINY_ROWS:
            return told(f"one row group of {facts.filled[0]:,} values is as soon read", spared=0.0)
        found = told("with one row group, a filter tells only that a value is absent", spared=0.0, skips=True)
        return replace(found, needs_ndv=ndv is None)
    if not _is_much((1 - fpp) * left, left + own, every):
        return told(min_max, spared=None if shared is None else (1 - fpp) * left * (1 - shared))
    if ndv is None or shared is None:
        return replace(told("the number of distinct values is not known"), needs_ndv=True)
    spared = (1 - fpp) * left * (1 - shared)
    if not _is_much(spared, left + own, every):
        if min_max_skip > _MOSTLY:
            return told(min_max, spared=spared)
        where = _percent((left * shared + own) / every)
        return told(
            f"a value is in {where} of the row groups, with {_count(ndv)} different ones in each", spared=spared
        )
    dictionaries = facts.dictionary is not None and bool(facts.dictionary[holding].all())
    if dictionaries and ndv <= _SMALL_DICTIONARY and spared < _MOSTLY * (left + own):
        return told(f"dictionaries of {_count(ndv)} entries do what filters would", spared=spared, skips=True)
    read = left + own
    if facts.whole:
        reason = f"a lookup reads {max(read - spared, 1):,.0f} of {every:,} row groups instead of {read:,.0f}"
    else:
        reason = f"a lookup reads {_percent(read - spared)} of the row groups instead of {_percent(read)}"
    if family == "float":
        return told(f"{reason}, but fractions are rarely looked up", spared=spared, skips=True)
    return told(reason, spared=spared, skips=True, pays=True)


def _distinct(facts: ColumnFacts, holding: NDArray[np.int64]) -> tuple[float | None, float | None]:
    """The number of distinct values in a row group, and the probability that another that may have one of them does."""
    known = holding[np.isfinite(facts.ndv[holding])]
    if len(known) == 0:
        return None, facts.shared
    ndv = float(facts.ndv[known].mean())
    if facts.shared is not None:
        return ndv, facts.shared
    return ndv, min(1.0, ndv / pool_size(float(facts.filled[known].mean()), ndv))


def cannot_serve(leaf: LeafColumn, traits: WriterTraits) -> str | None:
    """Why no filter of this column is ever asked, by its type and its writer; None when it can serve."""
    if leaf.repeated:
        return "is inside a list or map, of which no element is looked up"
    refused = why_unsuitable(leaf, named=True)
    if refused is not None:
        return refused
    encoded = encode_values(leaf, (), traits, "UTC")
    if encoded is not None and encoded.hashes is not None:
        return None
    if leaf.node.physical_type == "INT96":
        return "is INT96 of a writer other than Spark, whose bytes are not known"
    return "has a type whose equal values need not be equal bytes"


def measure_shared(
    bounds: Bounds | None, chunks: Sequence[int], filters: Sequence[SplitBlockBloomFilter]
) -> float | None:
    """For a value of one of `chunks`, the probability that another, whose bounds do not exclude it, has it too.

    `chunks` are places in `bounds`, and ``filters[i]`` holds the values of ``chunks[i]``; every pair is compared.
    None where bounds keep all of them apart.
    """
    common = allowed = 0.0
    for (i, a), (j, b) in combinations(zip(chunks, filters, strict=True), 2):
        overlap = covered_share(bounds, np.array([i, j]), min(a.estimated_ndv, b.estimated_ndv))
        numbers = _ndvs(a, b) if overlap else None
        if numbers is None:
            continue
        ndv, other, either = numbers
        if not ndv or not other or math.isinf(either):
            continue
        in_both = ndv + other - either  # by chance below 0 as often as above, where nothing is
        common += (in_both / ndv + in_both / other) / 2
        allowed += overlap
    return min(max(common / allowed, 0.0), 1.0) if allowed >= _LEAST_OVERLAP else None


def _ndvs(a: SplitBlockBloomFilter, b: SplitBlockBloomFilter) -> tuple[float, float, float] | None:
    """The number of distinct values in each of two filters and in both together; None where they cannot be compared."""
    small, large = sorted((a, b), key=lambda each: each.n_blocks)
    times, rest = divmod(large.n_blocks, small.n_blocks)
    if rest or times & (times - 1):
        return None
    folded = large.fold(times.bit_length() - 1)
    return small.estimated_ndv, folded.estimated_ndv, small.merge(folded).estimated_ndv


def pool_size(rows: float, ndv: float) -> float:
    """The number of distinct values from which `rows` even draws give `ndv` different ones; infinity when next to none
    is drawn twice.

    Solves ndv = pool * (1 - exp(-rows / pool)).
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


def _is_much(spared: float, read: float, every: float) -> bool:
    """Whether it is worth a filter to spare so many of the row groups that are `read` without one."""
    return spared >= _LEAST_GAIN * read and (spared >= _LEAST_SHARE * every or spared >= _LEAST_ROW_GROUPS)


def covered_share(bounds: Bounds | None, holding: NDArray[np.int64], ndv: float | None) -> float:
    """For a value of one row group of `holding`, the share of the others whose bounds do not exclude it; an estimate.

    `holding` are places in `bounds`, `ndv` the number of distinct values in a row group. Two of these are the bounds
    themselves. Unknown bounds exclude nothing.
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
        # Those that begin at or below a value less those that end below it, and less the one that it is of.
        at_or_below = np.searchsorted(starts, points, "right") - np.searchsorted(ends, points, "left")
        return float(np.mean(at_or_below)) - 1

    found = max(covering(_between(lower[drawn], upper[drawn], place)) for place in _PLACES)
    if ndv is not None:
        at_bounds = (covering(lower[drawn]) + covering(upper[drawn])) / 2
        share = min(1.0, 2 / ndv)
        found = share * at_bounds + (1 - share) * found
    share_known = len(known) / len(holding)
    found = share_known * (found + len(holding) - len(known)) / others + (1 - share_known)
    return min(max(found, 0.0), 1.0)


def _as_numbers(lower: NDArray[Any], upper: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Keys that can be interpolated: byte strings become integers, by their bytes behind what all have in common.

    Strings that differ only further on are then equal, and so count as not told apart by min/max.
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


def _between(lower: NDArray[Any], upper: NDArray[Any], place: float) -> NDArray[Any]:
    """The value `place` of the way from each lower to each upper bound, never outside of them."""
    if lower.dtype == object:
        parts = 1 << 10
        whole: NDArray[Any] = lower + (upper - lower) * round(place * parts) // parts
        return whole
    if lower.dtype == np.float64:
        widest = np.finfo(np.float64).max / 4
        low, high = np.clip(lower, -widest, widest), np.clip(upper, -widest, widest)
        between: NDArray[Any] = np.clip(low + (high - low) * place, lower, upper)
        return between
    # As unsigned numbers, a difference of signed ones fits and is right.
    width = upper.view(np.uint64) - lower.view(np.uint64)
    step = np.minimum((width.astype(np.float64) * place).astype(np.uint64), width)
    stepped: NDArray[Any] = (lower.view(np.uint64) + step).view(lower.dtype)
    return stepped


def _percent(share: float) -> str:
    """``98 %``; never 100 or 0 for what is not quite that."""
    if 0 < share < 0.005:
        return "under 1 %"
    return f"{100 * share:.1f} %" if 0.995 <= share < 1 else f"{100 * share:.0f} %"


def _count(number: float) -> str:
    return f"about {number:,.0f}" if number >= 100 else f"{number:.0f}"
