"""Filters and hashes in memory: operations per second on one core."""

from __future__ import annotations

import statistics
import struct
from collections.abc import Iterator

import numpy as np
import xxhash

from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.parquet.bloom_filter.xxh64 import xxh64_bytes, xxh64_int32, xxh64_int64
from tests.bench.measure import Aim, Contender, Row, millions_per_second, take_turns

_FPP = 0.01
MISSES_PER_SECOND = 25e6


def checks(rounds: int, size: int) -> Iterator[Row]:
    """Check present and absent hashes, in a filter that fits in the processor cache and in a larger one."""
    random = np.random.default_rng(1)
    for ndv in (100_000, 1_000_000):
        inserted = random.integers(0, 2**64, ndv, dtype=np.uint64)
        filled = SplitBlockBloomFilter.for_ndv(ndv, _FPP)
        filled.insert(inserted)
        hits = random.choice(inserted, size)
        misses = random.integers(0, 2**64, size, dtype=np.uint64)
        assert filled.check(hits).all()
        assert filled.check(misses).mean() < 2 * _FPP
        timings = take_turns(
            [
                Contender("hit", lambda _, filled=filled, hits=hits: filled.check(hits)),
                Contender("miss", lambda _, filled=filled, misses=misses: filled.check(misses)),
            ],
            rounds,
        )
        case = f"{filled.num_bytes >> 10:,} KiB filter"
        yield millions_per_second("checks", case, timings["hit"], size)
        fast = size / statistics.median(timings["miss"].cpu_seconds) >= MISSES_PER_SECOND
        yield millions_per_second("checks", case, timings["miss"], size, aims=(Aim(">= 25 M/s", fast),))


def inserts(rounds: int, size: int) -> Iterator[Row]:
    """Insert hashes into a filter that is sized for them."""
    random = np.random.default_rng(2)
    for ndv in (100_000, size):
        hashes = random.integers(0, 2**64, ndv, dtype=np.uint64)

        def insert(_: int, hashes: np.ndarray = hashes) -> SplitBlockBloomFilter:
            filled = SplitBlockBloomFilter.for_ndv(len(hashes), _FPP)
            filled.insert(hashes)
            return filled

        timing = take_turns([Contender("insert", insert)], rounds)["insert"]
        case = f"{ndv:,} values, {timing.result.num_bytes >> 10:,} KiB filter"
        yield millions_per_second("inserts", case, timing, ndv)


def hashes(rounds: int, size: int) -> Iterator[Row]:
    """Hash whole arrays, compared with one call of xxhash for each value."""
    random = np.random.default_rng(3)
    longs = random.integers(-(2**63), 2**63, size)
    integers = longs.astype(np.int32)
    texts = [b"%016x" % value for value in random.integers(0, 2**63, size).tolist()]
    digest = xxhash.xxh64_intdigest

    def each(code: str, values: list[int]) -> np.ndarray:
        pack = struct.Struct(code).pack
        return np.array([digest(pack(value)) for value in values], np.uint64)

    long_values, integer_values = longs.tolist(), integers.tolist()
    for case, ours, naive in (
        ("int64", lambda _: xxh64_int64(longs), lambda _: each("<q", long_values)),
        ("int32", lambda _: xxh64_int32(integers), lambda _: each("<i", integer_values)),
        (
            "16-byte strings",
            lambda _: xxh64_bytes(texts),
            lambda _: np.array([digest(text) for text in texts], np.uint64),
        ),
    ):
        timings = take_turns([Contender("bloomparquet", ours), Contender("xxhash per value", naive)], rounds)
        fast, slow = timings.values()
        assert np.array_equal(fast.result, slow.result)
        ratios = {slow.name: fast.times_faster_than(slow)}
        yield millions_per_second("hashes", case, fast, size, ratios=ratios)
        yield millions_per_second("hashes", case, slow, size)
