"""Which filters and bounds are believed, by writer, release, kind of column and stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bloomparquet.orc.file_tail import Tail
from bloomparquet.orc.schema import Kind
from bloomparquet.orc.statistics import Statistics, StatisticsKind
from bloomparquet.orc.stripe_indexes import BLOOM_FILTER, BLOOM_FILTER_UTF8, Stream, StripeId, StripeIndexes
from bloomparquet.orc.writer_quirks import are_bounds_usable, usable_bounds, why_filters_unusable
from tests.support.orc import forge, tail_of


def with_writer(path: Path, kind: Kind, writer: int, release: str | None, version: int, formats: list[int]) -> Tail:
    def footer(message: Any) -> None:
        message.writer = writer
        message.ClearField("software_version")
        if release is not None:
            message.software_version = release.encode()

    def postscript(message: Any) -> None:
        message.writer_version = version
        message.version[:] = formats

    return tail_of(forge(path, {}, kinds=[kind], footer=footer, postscript=postscript))


@pytest.mark.parametrize(
    ("kind", "writer", "release", "version", "formats", "usable"),
    [
        (Kind.LONG, 0, None, 0, [0, 12], True),
        (Kind.STRING, 0, None, 0, [0, 12], True),
        (Kind.LONG, 1, None, 6, [0, 12], False),
        (Kind.LONG, 1, "1.6.11", 6, [0, 12], False),
        (Kind.LONG, 1, "1.6.11-SNAPSHOT", 6, [0, 12], False),
        (Kind.LONG, 1, "1.7.0", 6, [0, 12], False),
        (Kind.LONG, 1, "1.6.12", 6, [0, 12], True),
        (Kind.LONG, 1, "2.2.2", 6, [0, 12], True),
        (Kind.BYTE, 1, "2.2.2", 6, [0, 12], False),
        (Kind.CHAR, 1, "2.2.2", 6, [0, 12], False),
        (Kind.FLOAT, 1, "2.2.2", 6, [0, 12], False),
        (Kind.CHAR, 0, "2.3.0", 9, [0, 12], True),
        (Kind.BOOLEAN, 0, "2.3.0", 9, [0, 12], False),
        (Kind.GEOMETRY, 0, "2.3.0", 9, [0, 12], False),
        (Kind.LONG, 2, "1", 6, [0, 12], False),
        (Kind.LONG, 0, "2.3.0", 8, [0, 12], False),  # merged from files of an older writer
        (Kind.TIMESTAMP, 0, None, 5, [0, 12], False),
        (Kind.TIMESTAMP, 0, None, 6, [0, 12], True),
        (Kind.DECIMAL, 0, None, 9, [0, 12], False),
        (Kind.DECIMAL, 0, "1.7.0", 9, [0, 12], True),
        (Kind.DECIMAL, 0, "1.7.0", 9, [1, 9999], False),
    ],
)
def test_filters_are_believed_by_writer_release_and_kind(
    tmp_path: Path, kind: Kind, writer: int, release: str | None, version: int, formats: list[int], usable: bool
) -> None:
    tail = with_writer(tmp_path / "f", kind, writer, release, version, formats)
    assert (why_filters_unusable(tail, 1) is None) == usable


@pytest.mark.parametrize(
    ("kind", "utf8", "encoding", "usable"),
    [
        (Kind.LONG, False, 0, True),
        (Kind.BINARY, False, 0, True),
        (Kind.STRING, False, 1, False),
        (Kind.DECIMAL, False, 1, False),
        (Kind.TIMESTAMP, False, 1, False),
        (Kind.TIMESTAMP, True, 0, False),
        (Kind.TIMESTAMP, True, 1, True),
        (Kind.STRING, True, 0, True),
        (Kind.LONG, True, 2, False),
    ],
)
def test_filters_are_believed_by_stream_and_encoding(
    tmp_path: Path, kind: Kind, utf8: bool, encoding: int, usable: bool
) -> None:
    tail = with_writer(tmp_path / "f", kind, 0, "2.3.0", 9, [0, 12])
    streams = {(BLOOM_FILTER_UTF8 if utf8 else BLOOM_FILTER, 1): Stream(3, 10)}
    stripe = StripeIndexes(tail.file, StripeId(0, 0), 1, tail.compression, streams, (0, encoding), None)
    assert (why_filters_unusable(tail, 1, stripe) is None) == usable


def test_bounds_are_believed_by_writer_and_kind(tmp_path: Path) -> None:
    for kind, version, usable in (
        (Kind.DECIMAL, 6, False),
        (Kind.DECIMAL, 7, True),
        (Kind.TIMESTAMP, 5, False),
        (Kind.TIMESTAMP, 6, True),
        (Kind.STRING, 0, False),
        (Kind.STRING, 1, True),
        (Kind.LONG, 0, True),
    ):
        tail = with_writer(tmp_path / "f", kind, 0, None, version, [0, 12])
        assert are_bounds_usable(tail, 1) == usable
        bounds = usable_bounds(tail, 1, Statistics(StatisticsKind.INTEGER, minimum=1, maximum=2))
        assert bounds == ((1, 2) if usable else (None, None))
    merged = with_writer(tmp_path / "f", Kind.LONG, 0, "2.3.0", 8, [0, 12])
    assert not are_bounds_usable(merged, 1)


def test_bounds_of_floats_are_rounded_as_the_values_are(tmp_path: Path) -> None:
    tail = with_writer(tmp_path / "f", Kind.FLOAT, 1, "2.2.2", 6, [0, 12])
    float_bounds = usable_bounds(tail, 1, Statistics(StatisticsKind.DOUBLE, minimum=0.7, maximum=0.1))
    assert float_bounds == (float(np.float32(0.7)), float(np.float32(0.1)))
