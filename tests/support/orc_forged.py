"""Forged ORC files of one column: by what a writer hashes, and by what it notes of bounds."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np

import bloomparquet as bp
from bloomparquet.orc import protobuf as messages
from bloomparquet.orc.bloom_filter import Hashes, hash_bytes, hash_doubles, hash_longs
from bloomparquet.orc.stripe_indexes import BLOOM_FILTER, ROW_INDEX
from tests.reading.test_inspect_orc import index
from tests.support.orc import forge


def longs(*values: int) -> Hashes:
    return hash_longs(np.array(values, np.int64))


def doubles(*values: float) -> Hashes:
    return hash_doubles(np.array(values))


def texts(*values: str | bytes) -> Hashes:
    return hash_bytes([value.encode() if isinstance(value, str) else value for value in values])


def millis(clock: dt.datetime) -> int:
    return (clock - dt.datetime(1970, 1, 1)) // dt.timedelta(milliseconds=1)


def inside(plan: bp.ScanPlan) -> int:
    """How many row groups might match; the counts are those of the whole plan."""
    assert plan.row_group_counts is not None
    assert plan.row_group_counts.total == sum(plan.row_group_counts[1:])
    assert (plan.row_group_counts.kept == 0) == (plan.kept == 0)
    return plan.row_group_counts.kept


def entry(**given: Any) -> bytes:
    return bytes(
        messages.RowIndexEntry(statistics=messages.ColumnStatistics(**given).SerializeToString()).SerializeToString()
    )


def noted(path: Path, kind: int, *groups: dict[str, Any], level: str = "row groups", **more: Any) -> Path:
    """A file of one column of which the statistics of row groups (of 10 rows), or of the stripe, are these."""

    def footer(message: Any) -> None:
        for key, value in more.items():
            setattr(message if key in ("writer", "software_version", "calendar") else message.types[1], key, value)

    given = [{"number_of_values": 10, "has_null": False, **group} for group in groups]
    indexes = messages.RowIndex()
    for each in given:
        indexes.entry.add().MergeFromString(entry(**each) if level == "row groups" else b"")
    whole = messages.Metadata()
    stripe = whole.stripe_stats.add()
    stripe.col_stats.add(number_of_values=10 * len(groups))
    stripe.col_stats.add().CopyFrom(messages.ColumnStatistics(**given[0]))
    statistics = whole.SerializeToString() if level == "stripes" else b""
    streams = {(ROW_INDEX, 1): indexes.SerializeToString()}

    def stripe_footer(message: Any) -> None:
        message.writer_timezone = b"UTC"

    return forge(path, streams, kinds=[kind], rows=10 * len(groups), footer=footer, statistics=statistics,
                 stripe_footer=stripe_footer)  # fmt: skip


def bound(low: Any, high: Any, name: str = "int") -> dict[str, Any]:
    return {f"{name}_statistics": {"minimum": low, "maximum": high}}


def old_stream(path: Path, kind: int, hashes: Hashes) -> Path:
    found = messages.BloomFilterIndex.FromString(index(hashes))
    for each in found.bloom_filter:
        words = np.frombuffer(each.utf8bitset, "<u8")
        each.ClearField("utf8bitset")
        each.bitset.extend(words.tolist())

    def footer(tail: Any) -> None:
        tail.types[1].maximum_length, tail.types[1].precision, tail.types[1].scale = 5, 9, 2

    def stripe_footer(end: Any) -> None:
        end.writer_timezone = b"UTC"

    streams = {(BLOOM_FILTER, 1): bytes(found.SerializeToString())}
    return forge(path, streams, kinds=[kind], footer=footer, stripe_footer=stripe_footer)
