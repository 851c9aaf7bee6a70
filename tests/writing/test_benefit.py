"""Whether filters pay: types and bounds that rule them out, and estimates compared with drawn values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.parquet.bloom_filter.xxh64 import xxh64_int64
from bloomparquet.parquet.metadata.file_profile import WriterTraits
from bloomparquet.query.columns import Annotation, LeafColumn, SchemaNode
from bloomparquet.query.ordering import Bounds
from bloomparquet.writing.advice.benefit import (
    Benefit,
    ColumnFacts,
    assess,
    covered_share,
    measure_overlap,
    pool_size,
    why_unused,
)

PLAIN = WriterTraits(spark=False, legacy_int96=False, has_padded_or_collated_text=False, column_orders=(True,))
SPARK = WriterTraits(spark=True, legacy_int96=False, has_padded_or_collated_text=False, column_orders=(True,))
ALTERED = WriterTraits(spark=True, legacy_int96=False, has_padded_or_collated_text=True, column_orders=(True,))
STRING = Annotation("STRING")


def leaf(
    physical: str, annotation: Annotation | None = None, length: int | None = None, repeated_levels: int = 0
) -> Any:
    return LeafColumn(0, ("x",), SchemaNode("x", "OPTIONAL", physical, length, annotation), repeated_levels)


def objects(values: Sequence[Any]) -> NDArray[Any]:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def bounds(lower: Any, upper: Any, known: Any = True) -> Bounds:
    return Bounds(lower, upper, np.broadcast_to(np.asarray(known, np.bool_), (len(lower),)).copy())


def facts(n: int, rows: int, ndv: float, limits: Bounds | None = None, **more: Any) -> ColumnFacts:
    """`n` row groups with `rows` values and this NDV each."""
    return ColumnFacts(np.full(n, rows), np.zeros(n, np.int64), limits, np.full(n, float(ndv)), **more)


def everywhere(n: int) -> Bounds:
    """Bounds of `n` row groups whose values are spread over the whole range."""
    ends = np.random.default_rng(1).integers(0, 1000, (2, n))
    return bounds(ends[0], 10**9 - ends[1])


def sorted_bounds(n: int) -> Bounds:
    return bounds(np.arange(n) * 1000, np.arange(n) * 1000 + 999)


INT64 = leaf("INT64")


def test_scattered_distinct_values_recommend_filters() -> None:
    benefit = assess(INT64, PLAIN, facts(80, 10_000, 10_000, everywhere(80)))
    assert (benefit.recommended, benefit.useful, benefit.ndv_per_row_group) == (True, True, 10_000)
    assert benefit.min_max_skip == pytest.approx(0, abs=0.01)
    assert benefit.skip_rate == pytest.approx(0.99 * 79 / 80, abs=0.01)
    assert benefit.ndv == pytest.approx(800_000, rel=0.02)
    assert benefit.reason == "a lookup reads 2 of 80 row groups instead of 80"


def test_sorted_columns_need_no_filter() -> None:
    for ndv in (10_000, float("nan")):
        benefit = assess(INT64, PLAIN, facts(80, 10_000, ndv, sorted_bounds(80)))
        assert (benefit.recommended, benefit.useful, benefit.needs_ndv) == (False, False, False)
        assert benefit.min_max_skip == pytest.approx(79 / 80)
        assert "min/max" in benefit.reason


def test_little_overlap_of_bounds_means_little_gain() -> None:
    n = 1000
    benefit = assess(INT64, PLAIN, facts(n, 10_000, 10_000, bounds(np.arange(n) * 1000, np.arange(n) * 1000 + 4999)))
    assert benefit.min_max_skip == pytest.approx(1 - 5 / n, abs=0.001)
    assert not benefit.recommended  # five row groups of a thousand are read
    half = assess(INT64, PLAIN, facts(n, 10_000, 10_000, bounds(np.arange(n) * 1000, np.arange(n) * 1000 + 500_000)))
    assert half.recommended


def test_a_value_in_every_row_group_is_read_in_each() -> None:
    benefit = assess(INT64, PLAIN, facts(80, 10_000, 5, bounds(np.zeros(80, np.int64), np.full(80, 4))))
    assert not benefit.useful
    assert benefit.skip_rate == pytest.approx(0, abs=0.01)
    assert benefit.ndv == pytest.approx(5, abs=0.5)
    assert "distinct values in each: 5" in benefit.reason


def test_measured_overlap_replaces_the_assumption() -> None:
    few_and_apart = assess(INT64, PLAIN, facts(80, 10_000, 5, None, shared=0.02))
    assert few_and_apart.recommended
    assert few_and_apart.skip_rate == pytest.approx(0.99 * 0.98 * 79 / 80)
    many_and_shared = assess(INT64, PLAIN, facts(80, 10_000, 10_000, None, shared=0.97))
    assert not many_and_shared.recommended


def test_fractions_get_no_filter_unless_named() -> None:
    for physical, annotation, length in (("DOUBLE", None, None), ("FIXED_LEN_BYTE_ARRAY", Annotation("FLOAT16"), 2)):
        benefit = assess(leaf(physical, annotation, length), PLAIN, facts(80, 10_000, 10_000))
        assert (benefit.useful, benefit.recommended) == (True, False)


UNUSED = [
    (leaf("BOOLEAN"), PLAIN),
    (leaf("BYTE_ARRAY", Annotation("DECIMAL", precision=20, scale=2)), PLAIN),
    (leaf("INT64", repeated_levels=2), PLAIN),
    (leaf("INT96"), PLAIN),
    (leaf("INT96"), WriterTraits(True, True, False, (True,))),
    (leaf("FIXED_LEN_BYTE_ARRAY", Annotation("INTERVAL"), 12), PLAIN),
    (leaf("BYTE_ARRAY", Annotation("VARIANT")), PLAIN),
    (leaf("BYTE_ARRAY", Annotation("OTHER")), PLAIN),
    (leaf("INT32", STRING), PLAIN),
    (leaf("BYTE_ARRAY", STRING), ALTERED),
    (leaf("FIXED_LEN_BYTE_ARRAY", Annotation("DECIMAL", precision=180, scale=2), 77), PLAIN),
]
USED = [
    (INT64, PLAIN),
    (leaf("INT32", Annotation("INTEGER", bit_width=8, signed=True)), PLAIN),
    (leaf("INT96"), SPARK),
    (leaf("INT64", Annotation("TIMESTAMP", "us", True)), PLAIN),
    (leaf("BYTE_ARRAY", STRING), PLAIN),
    (leaf("BYTE_ARRAY"), ALTERED),
    (leaf("FIXED_LEN_BYTE_ARRAY", Annotation("UUID"), 16), PLAIN),
    (leaf("FIXED_LEN_BYTE_ARRAY", Annotation("DECIMAL", precision=20, scale=2), 9), PLAIN),
]


@pytest.mark.parametrize(
    ("column", "traits"), UNUSED + USED, ids=lambda each: each.describe() if isinstance(each, LeafColumn) else ""
)
def test_only_types_that_lookups_use_get_filters(column: LeafColumn, traits: WriterTraits) -> None:
    benefit, reason = assess(column, traits, facts(80, 10_000, 10_000)), why_unused(column, traits)
    if (column, traits) in USED:
        assert (benefit.recommended, reason) == (True, None)
    else:
        assert reason
        assert benefit == Benefit(False, False, reason)


def test_one_row_group_has_nothing_to_skip() -> None:
    tiny = assess(INT64, PLAIN, facts(1, 500, 500))
    assert (tiny.recommended, tiny.useful, tiny.skip_rate) == (False, False, 0)
    large = assess(INT64, PLAIN, facts(1, 500_000, 500_000))
    assert (large.recommended, large.useful, large.skip_rate) == (False, True, 0)


def test_row_groups_of_an_unfinished_file_stand_for_many() -> None:
    assert assess(INT64, PLAIN, facts(1, 500_000, 500_000, whole=False)).recommended
    assert not assess(INT64, PLAIN, facts(1, 500_000, 50, whole=False)).recommended
    assert not assess(INT64, PLAIN, facts(8, 500_000, 500_000, sorted_bounds(8), whole=False)).recommended
    benefit = assess(INT64, PLAIN, facts(4, 10_000, 10_000, everywhere(4), whole=False))
    assert benefit.skip_rate == pytest.approx(0.99, abs=0.02)


def test_unknown_bounds_exclude_nothing() -> None:
    limits = sorted_bounds(10)
    every = np.arange(10)
    assert covered_share(limits, every, None) == 0
    assert covered_share(None, every, None) == 1
    assert covered_share(bounds(limits.lower, limits.upper, False), every, None) == 1
    half = covered_share(bounds(limits.lower, limits.upper, every < 5), every, None)
    # A value of a row group with bounds reads the five without bounds; a value of one without reads all nine.
    assert half == pytest.approx((5 / 9 + 1) / 2)


DRAWS = {
    "even": lambda rng, shape: rng.random(shape),
    "normal": lambda rng, shape: rng.normal(size=shape),
    "skewed": lambda rng, shape: rng.lognormal(0, 2, shape),
    "heavy": lambda rng, shape: rng.pareto(1, shape),
}


@pytest.mark.parametrize("ndv", [1, 2, 4, 20, 1000])
@pytest.mark.parametrize("draw", DRAWS)
def test_the_covered_share_is_estimated_within_a_tenth(draw: str, ndv: int) -> None:
    values = DRAWS[draw](np.random.default_rng(5), (200, ndv))
    lower, upper = values.min(axis=1), values.max(axis=1)
    points = values[:, :16].ravel()
    truth = ((lower <= points[:, None]) & (points[:, None] <= upper)).sum(axis=1).mean() - 1
    estimated = covered_share(bounds(lower, upper), np.arange(200), ndv)
    assert estimated == pytest.approx(truth / 199, abs=0.1)


@pytest.mark.parametrize(
    "keys",
    [
        lambda values: values.astype(np.int64),
        lambda values: values.astype(np.int64) - 2**40,
        lambda values: values.astype(np.uint64) + np.uint64(2**63),
        lambda values: values.astype(np.float64),
        lambda values: objects([int(value) << 80 for value in values]),
        lambda values: objects([b"https://example.org/%012d" % value for value in values]),
        lambda values: objects([int(value).to_bytes(16, "big") for value in values]),
    ],
    ids=["int64", "negative", "uint64", "float64", "decimal", "text", "bytes"],
)
def test_disjoint_ranges_cover_nothing_for_every_key_type(keys: Any) -> None:
    starts = np.random.default_rng(2).permutation(500) * 1000
    apart = bounds(keys(starts), keys(starts + 999))
    assert covered_share(apart, np.arange(500), 100) == 0
    overlapping = bounds(keys(starts), keys(starts + 249_999))  # each a little less than half of the range
    assert covered_share(overlapping, np.arange(500), None) == pytest.approx(0.42, abs=0.1)
    same = bounds(keys(starts * 0), keys(starts * 0 + 999))
    assert covered_share(same, np.arange(500), 100) == 1


def test_the_widest_ranges_do_not_overflow() -> None:
    extremes = np.iinfo(np.int64)
    ends = np.full(10, extremes.min), np.full(10, extremes.max)
    assert covered_share(bounds(*ends), np.arange(10), 5) == 1
    assert covered_share(bounds(np.full(10, -np.inf), np.full(10, np.inf)), np.arange(10), 5) == 1
    unsigned = np.zeros(10, np.uint64), np.full(10, 2**64 - 1, np.uint64)
    assert covered_share(bounds(*unsigned), np.arange(10), 5) == 1
    apart = np.array([extremes.min, 0]), np.array([-1, extremes.max])
    assert covered_share(bounds(*apart), np.arange(2), 5) == 0


def test_all_ranges_count_even_if_few_are_sampled() -> None:
    n = 40_000
    assert covered_share(sorted_bounds(n), np.arange(n), 1000) == 0
    benefit = assess(INT64, PLAIN, facts(n, 10_000, 10_000, everywhere(n)))
    assert benefit.skip_rate == pytest.approx(0.99, abs=0.01)
    texts = objects([b"%08d" % i for i in range(n)])
    assert covered_share(bounds(texts, texts), np.arange(n), 1) == 0


def filter_of(values: NDArray[np.int64], n_blocks: int) -> SplitBlockBloomFilter:
    bloom = SplitBlockBloomFilter.empty(n_blocks)
    bloom.insert(xxh64_int64(values))
    return bloom


def test_overlap_is_measured_for_filters_of_any_sizes() -> None:
    a, b, c = np.arange(0, 4000), np.arange(3000, 7000), np.arange(50_000, 54_000)
    for sizes in ((256, 256, 256), (256, 1024, 256), (3 * 128, 3 * 256, 3 * 128)):
        filters = [filter_of(values, size) for values, size in zip((a, b, c), sizes, strict=True)]
        assert measure_overlap(None, [0, 1], filters[:2]) == pytest.approx(0.25, abs=0.02)
        assert measure_overlap(None, [0, 2], filters[::2]) == pytest.approx(0, abs=0.02)
        assert measure_overlap(None, [0, 1, 2], filters) == pytest.approx(0.25 / 3, abs=0.02)
    limits = bounds(*(np.array([edge(values) for values in (a, b, c)]) for edge in (np.min, np.max)))
    pair = [filters[0], filters[2]]
    assert measure_overlap(limits, [0, 2], pair) is None  # their bounds keep them apart
    assert measure_overlap(None, [0], filters[:1]) is None
    assert measure_overlap(None, [0, 1], [filter_of(a, 256), filter_of(b, 384)]) is None  # not comparable
    assert measure_overlap(None, [0, 1], [filter_of(a, 256), SplitBlockBloomFilter.empty(256)]) is None


@pytest.mark.parametrize("rows", [10, 1000, 1_000_000])
@pytest.mark.parametrize("pool", [3, 500, 20_000, 3_000_000])
def test_the_pool_size_is_found_from_the_ndv(rows: int, pool: int) -> None:
    drawn = -pool * np.expm1(-rows / pool)
    benefit = pool_size(rows, drawn)
    if drawn < rows * (1 - 1e-4):
        assert benefit == pytest.approx(pool, rel=1e-3)
    else:
        assert benefit == np.inf
