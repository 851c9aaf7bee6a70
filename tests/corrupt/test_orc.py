"""Damaged and malicious ORC files: a plan keeps and counts what it cannot prove, and `inspect` raises.

ORC has no checksums, so damage that decodes to other values cannot be noticed. The tests assert that damage raises only
a BloomParquetError, and that data which does not decode excludes nothing.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import bloomparquet as bp
from bloomparquet.errors import BloomParquetError
from bloomparquet.orc import protobuf as messages
from bloomparquet.orc.bloom_filter import hash_longs
from bloomparquet.orc.stripe_indexes import BLOOM_FILTER_UTF8, ROW_INDEX
from tests.support.core import kept_indexes, plan_with
from tests.support.orc import forge
from tests.support.orc_forged import filter_stream
from tests.support.orc_rewriting import drop_statistics, rewrite, write

EVEN = [i * 2 for i in range(600)]
Damage = Callable[[bytes], bytes]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Two stripes of three row groups, which only their filters distinguish. 301 is in none of them."""
    table = pa.table({"x": EVEN, "y": [str(i) for i in EVEN]})
    return drop_statistics(write(tmp_path / "x.orc", table, bloom_filter_fpp=1e-6))


def damage(path: str, kind: int, how: Damage) -> str:
    """Change a stream of column 1 in the first stripe."""
    left = [how]

    def stream(each: int, column: int, data: bytes) -> bytes:
        return left.pop()(data) if (each, column) == (kind, 1) and left else data

    return rewrite(path, stream=stream)


def edit(message_type: Any, change: Callable[[Any], None]) -> Damage:
    def damaged(data: bytes) -> bytes:
        message = message_type.FromString(data)
        change(message)
        return bytes(message.SerializeToString())

    return damaged


def of_filters(change: Callable[[Any], None]) -> Damage:
    return edit(messages.BloomFilterIndex, change)


def of_entries(change: Callable[[Any], None]) -> Damage:
    return edit(messages.RowIndex, change)


def of_filter(number: int, **fields: Any) -> Damage:
    """Set fields of a filter."""

    def change(message: Any) -> None:
        for name, value in fields.items():
            setattr(message.bloom_filter[number], name, value)

    return of_filters(change)


FILTERS: dict[str, Damage] = {
    "a filter too few": of_filters(lambda message: message.bloom_filter.pop()),
    "a filter too many": of_filters(lambda message: message.bloom_filter.add().CopyFrom(message.bloom_filter[0])),
    "no filter": lambda data: b"",
    "k = 0": of_filter(1, num_hash_functions=0),
    "m = 0": of_filter(1, utf8bitset=b""),
    "no k": of_filters(lambda message: message.bloom_filter[0].ClearField("num_hash_functions")),
    "k = 2**31": of_filter(0, num_hash_functions=2**31),
    "bits that are no words": of_filter(2, utf8bitset=b"abc"),
    "bits in both fields": of_filters(lambda message: message.bloom_filter[0].bitset.append(1)),
    "truncated": lambda data: data[: len(data) // 2],
    "truncated by a byte": lambda data: data[:-1],
    "bytes behind": lambda data: data + b"\x0a",
    "garbage": lambda data: bytes(len(data)),
    "a length beyond the end": lambda data: b"\x0a\xff\xff\xff\xff\x0f" + data,
    "a length of ten bytes": lambda data: b"\x0a" + b"\xff" * 9 + b"\x01" + data,
}


@pytest.mark.parametrize("name", list(FILTERS))
def test_unusable_filters_keep_their_stripe_and_are_counted(path: str, name: str) -> None:
    damage(path, BLOOM_FILTER_UTF8, FILTERS[name])
    for _ in range(2):  # the second plan uses what the first has cached
        plan = bp.plan(path, "x = 301")
        assert kept_indexes(plan) == {0}
        assert plan.row_group_counts == (6, 3, 0, 3)
        (error,) = plan.errors
        assert path in str(error)
        assert "stripe 0" in str(error)
    assert kept_indexes(bp.plan(path, "x = 898")) == {0, 1}
    assert bp.plan(path, "y = '301'").kept == 0  # the other column is not damaged
    with pytest.raises(BloomParquetError, match="stripe 0"):
        bp.plan(path, "x = 301", on_filter_error="fail")
    with pytest.raises(BloomParquetError):
        bp.inspect(path)
    with pytest.raises(BloomParquetError):
        bp.probe(path, column="x", value=301)


def two_kinds(row_index: Any) -> None:
    statistics = messages.ColumnStatistics()
    statistics.int_statistics.minimum = 1
    statistics.string_statistics.minimum = b"a"
    row_index.entry[0].statistics = statistics.SerializeToString()


ENTRIES: dict[str, Damage] = {
    "an entry too few": of_entries(lambda row_index: row_index.entry.pop()),
    "an entry too many": of_entries(lambda row_index: row_index.entry.add()),
    "impossible statistics": of_entries(lambda row_index: setattr(row_index.entry[0], "statistics", b"\xff" * 9)),
    "statistics of two types": of_entries(two_kinds),
    "truncated": lambda data: data[:-1],
    "garbage": lambda data: b"\xff" * len(data),
    "nothing": lambda data: b"",
}


@pytest.mark.parametrize("name", list(ENTRIES))
def test_filters_work_without_a_readable_row_index(path: str, name: str) -> None:
    damage(path, ROW_INDEX, ENTRIES[name])
    plan = bp.plan(path, "x = 301")
    assert (plan.kept, plan.skipped, len(plan.errors)) == (0, {"bloom": 2}, 1)
    assert kept_indexes(bp.plan(path, "x = 4")) == {0}
    assert bp.plan(path, "x > 5000").kept == bp.plan(path, "x IS NULL").kept == 2
    with pytest.raises(BloomParquetError, match="stripe 0"):
        bp.plan(path, "x = 301", on_filter_error="fail")


@pytest.mark.parametrize(
    "how",
    [
        lambda footer: footer.streams.add(kind=BLOOM_FILTER_UTF8, column=1, length=10),
        lambda footer: footer.streams.add(kind=20, column=1, length=2**40),
        lambda footer: setattr(footer.streams[0], "length", 2**63),
        lambda footer: footer.columns.extend([messages.ColumnEncoding(bloom_encoding=1)] * 9),
    ],
    ids=["two streams of one kind", "a stream beyond the stripe", "a stream beyond everything", "too many columns"],
)
def test_contradictory_stripe_footers_keep_their_stripe(path: str, how: Callable[[Any], None]) -> None:
    done = []

    def once(footer: Any) -> None:
        if not done:
            how(footer)
        done.append(footer)

    rewrite(path, stripe_footer=once)
    plan = bp.plan(path, "x = 301")
    assert (kept_indexes(plan), len(plan.errors)) == ({0}, 1)
    with pytest.raises(BloomParquetError, match="stripe 0"):
        bp.plan(path, "x = 301", on_filter_error="fail")
    with pytest.raises(BloomParquetError):
        bp.inspect(path)


@pytest.mark.parametrize(
    "statistics",
    [
        b"\xff" * 40,
        b"\x0a\x02\x0a",
        messages.Metadata(stripe_stats=[messages.StripeStatistics()] * 3).SerializeToString(),
        messages.Metadata(
            stripe_stats=[messages.StripeStatistics(col_stats=[messages.ColumnStatistics()] * 9)] * 2
        ).SerializeToString(),
    ],
    ids=["garbage", "truncated", "of three stripes", "of nine columns"],
)
def test_row_groups_work_without_readable_stripe_statistics(path: str, statistics: bytes) -> None:
    rewrite(path, statistics=lambda _: statistics)
    plan = bp.plan(path, "x = 301")
    assert (plan.kept, plan.skipped, len(plan.errors)) == (0, {"bloom": 2}, 1)
    assert kept_indexes(bp.plan(path, "x = 4")) == {0}
    with pytest.raises(BloomParquetError, match="statistics"):
        bp.plan(path, "x = 4", on_filter_error="fail")


def absurd_rows(tail: Any) -> None:
    tail.stripes[0].number_of_rows = 2**63


def many_groups(tail: Any) -> None:
    tail.stripes[0].number_of_rows, tail.row_index_stride = 2**40, 1


def test_streams_of_a_file_without_row_groups_exclude_nothing(path: str) -> None:
    rewrite(path, footer=lambda tail: setattr(tail, "row_index_stride", 0))
    plan = bp.plan(path, "x = 301")
    assert (plan.kept, len(plan.errors)) == (2, 2)  # their row indexes
    damage(path, BLOOM_FILTER_UTF8, lambda data: b"")
    assert bp.plan(path, "x = 301").kept == 2


@pytest.mark.parametrize(("how", "kept"), [(absurd_rows, 0), (many_groups, 1)])
def test_absurd_row_counts_are_errors_and_take_no_memory(path: str, how: Callable[[Any], None], kept: int) -> None:
    """A damaged file may be skipped; a file beyond a limit is kept whole."""
    rewrite(path, footer=how)
    tracemalloc.start()
    try:
        with pytest.raises(BloomParquetError, match=r"x\.orc"):
            bp.read_table(path, "x = 301")
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    plan = plan_with(path, "x = 301", skip_corrupt=True, strict=False)
    assert (plan.total, plan.kept, len(plan.errors)) == (kept, kept, kept)


def test_a_bound_of_a_million_digits_takes_no_time(tmp_path: Path) -> None:
    for digits in (b"1." + b"1" * 1_000_000, b"1" * 1_000_000, b"1e999999999", b"1e-999999999", b"0e999999999"):
        statistics = messages.ColumnStatistics(number_of_values=10, has_null=False)
        statistics.decimal_statistics.minimum = statistics.decimal_statistics.maximum = digits
        indexes = messages.RowIndex()
        indexes.entry.add(statistics=statistics.SerializeToString())

        def footer(tail: Any) -> None:
            tail.types[1].precision, tail.types[1].scale = 38, 10

        path = forge(tmp_path / "x.orc", {(ROW_INDEX, 1): indexes.SerializeToString()}, kinds=[14], footer=footer)
        plan = bp.plan(path, "c0 = 1.5")
        assert (plan.kept == 0) == (digits.startswith(b"1.")) or plan.kept == 1


def test_filters_of_different_row_groups_are_not_mixed_up(tmp_path: Path) -> None:
    """Filters of several sizes in one stripe, which no writer makes."""
    first = messages.BloomFilterIndex.FromString(filter_stream(hash_longs(np.array([5]))))
    second = messages.BloomFilterIndex(
        bloom_filter=[messages.BloomFilter(num_hash_functions=2, utf8bitset=b"\xff" * 8)]
    )
    streams = {(BLOOM_FILTER_UTF8, 1): first.SerializeToString() + second.SerializeToString()}
    path = forge(tmp_path / "x.orc", streams, rows=20)
    for value, groups in ((5, 2), (6, 1)):
        plan = bp.plan(path, bp.Eq("c0", value))
        assert plan.row_group_counts is not None
        assert plan.row_group_counts.kept == groups
