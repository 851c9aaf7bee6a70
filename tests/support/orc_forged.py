"""Forged ORC files of one column, with given filters or statistics."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np

import bloomparquet as bp
from bloomparquet.orc import protobuf as messages
from bloomparquet.orc.bloom_filter import Hashes, hash_bytes, hash_doubles, hash_longs
from bloomparquet.orc.stripe_indexes import BLOOM_FILTER, BLOOM_FILTER_UTF8, ROW_INDEX
from tests.support.orc import bloom_message, filter_of, forge


def longs(*values: int) -> Hashes:
    return hash_longs(np.array(values, np.int64))


def doubles(*values: float) -> Hashes:
    return hash_doubles(np.array(values))


def texts(*values: str | bytes) -> Hashes:
    return hash_bytes([value.encode() if isinstance(value, str) else value for value in values])


def millis(clock: dt.datetime) -> int:
    return (clock - dt.datetime(1970, 1, 1)) // dt.timedelta(milliseconds=1)


def kept_row_groups(plan: bp.ScanPlan) -> int:
    """The number of row groups that might match; checks that the plan's counts agree."""
    assert plan.row_group_counts is not None
    assert plan.row_group_counts.total == sum(plan.row_group_counts[1:])
    assert (plan.row_group_counts.kept == 0) == (plan.kept == 0)
    return plan.row_group_counts.kept


def row_index_entry(**statistics: Any) -> bytes:
    return bytes(
        messages.RowIndexEntry(
            statistics=messages.ColumnStatistics(**statistics).SerializeToString()
        ).SerializeToString()
    )


def with_statistics(path: Path, kind: int, *groups: dict[str, Any], level: str = "row groups", **more: Any) -> Path:
    """A file of one column with these statistics of row groups (of 10 rows each), or of the stripe."""

    def footer(message: Any) -> None:
        for key, value in more.items():
            setattr(message if key in ("writer", "software_version", "calendar") else message.types[1], key, value)

    every_group = [{"number_of_values": 10, "has_null": False, **group} for group in groups]
    indexes = messages.RowIndex()
    for each in every_group:
        indexes.entry.add().MergeFromString(row_index_entry(**each) if level == "row groups" else b"")
    whole = messages.Metadata()
    stripe = whole.stripe_stats.add()
    stripe.col_stats.add(number_of_values=10 * len(groups))
    stripe.col_stats.add().CopyFrom(messages.ColumnStatistics(**every_group[0]))
    statistics = whole.SerializeToString() if level == "stripes" else b""
    streams = {(ROW_INDEX, 1): indexes.SerializeToString()}
    rows = 10 * len(groups)
    return forge(path, streams, kinds=[kind], rows=rows, footer=footer, statistics=statistics, zone="UTC")


def bounds(low: Any, high: Any, name: str = "int") -> dict[str, Any]:
    return {f"{name}_statistics": {"minimum": low, "maximum": high}}


def with_old_stream(path: Path, kind: int, hashes: Hashes) -> Path:
    """A file of one column and row group, with a BLOOM_FILTER stream that holds `hashes`."""
    old_index = messages.BloomFilterIndex(bloom_filter=[bloom_message(filter_of(hashes), utf8=False)])

    def footer(tail: Any) -> None:
        tail.types[1].maximum_length, tail.types[1].precision, tail.types[1].scale = 5, 9, 2

    streams = {(BLOOM_FILTER, 1): bytes(old_index.SerializeToString())}
    return forge(path, streams, kinds=[kind], footer=footer, zone="UTC")


def filter_stream(*groups: Hashes) -> bytes:
    """A stream with one filter for each of `groups`."""
    blooms = [bloom_message(filter_of(hashes)) for hashes in groups]
    return bytes(messages.BloomFilterIndex(bloom_filter=blooms).SerializeToString())


def with_filters(path: Path, kind: int, *groups: Hashes, zone: str = "UTC", **attributes: Any) -> Path:
    """A file of one column, as ORC Java writes it, with a row group of 10 rows and a filter for each of `groups`."""

    def footer(message: Any) -> None:
        for key, value in attributes.items():
            if key == "spark":
                message.types[1].attributes.add(key=b"spark.sql.catalyst.type", value=value.encode())
            else:
                setattr(message.types[1], key, value)

    streams = {(BLOOM_FILTER_UTF8, 1): filter_stream(*groups)}
    return forge(path, streams, kinds=[kind], rows=10 * len(groups), footer=footer, zone=zone)
