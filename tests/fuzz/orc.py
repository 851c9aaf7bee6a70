"""Targets: plans of ORC files, the parsers of their tails and indexes, and their compressed streams.

An input of the first two is the parts of a file. Lengths and offsets, which a change of a part would make wrong, are
made right again if the first byte says so.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError

import bloomparquet as bp
from bloomparquet.errors import BloomParquetError
from bloomparquet.orc import protobuf as messages
from bloomparquet.orc.bloom_filter import hash_bytes, hash_doubles, hash_longs
from bloomparquet.orc.compression import Codec, Compression
from bloomparquet.orc.schema import Kind
from bloomparquet.orc.stripe_indexes import BLOOM_FILTER_UTF8, ROW_INDEX
from bloomparquet.planning.cache.plan_cache import process_cache
from bloomparquet.query.sql.parse import parse_where
from bloomparquet.storage.varint import read_varint
from tests.fuzz.folder import CACHED, folder, no_wait
from tests.fuzz.mutate import change_bytes, change_protobuf, join, split
from tests.fuzz.target import Target
from tests.support.core import plan_with
from tests.support.orc import bloom_message, filter_of
from tests.support.orc_forged import row_index_entry

_ROWS = 10  # of a row group
_PARTS = 7
_LIMIT = 1 << 20
_TEXTS = (
    "c0 = 7", "c0 > 3 AND c0 < 9", "c0 = 'v'", "c0 = DATE '1970-01-05'", "c0 = TIMESTAMP '1970-01-01 00:00:01'",
    "c0 IS NULL", "c0 = 2.5D", "c0 IN (1, 2) OR c0 = 1.25BD",
)  # fmt: skip
_WHERES = [parse_where(text) for text in _TEXTS]
_numbers = itertools.count()


def _parts(kind: int, where: int, hashes: Any, statistics: dict[str, Any]) -> bytes:
    """The parts of a sound file of one stripe and two row groups."""
    filters = messages.BloomFilterIndex(bloom_filter=[bloom_message(filter_of(hashes, k=3, words=2))] * 2)
    index = messages.RowIndex()
    for _ in range(2):
        index.entry.add().MergeFromString(row_index_entry(number_of_values=_ROWS, has_null=False, **statistics))
    streams = [index.SerializeToString(), filters.SerializeToString()]
    stripe = messages.StripeFooter(writer_timezone=b"UTC")
    for number, stream in zip((ROW_INDEX, BLOOM_FILTER_UTF8), streams, strict=True):
        stripe.streams.add(kind=number, column=1, length=len(stream))
    for _ in range(2):
        stripe.columns.add(bloom_encoding=1)
    whole = messages.Metadata()
    for each in (
        messages.ColumnStatistics(number_of_values=2 * _ROWS),
        messages.ColumnStatistics(number_of_values=2 * _ROWS, **statistics),
    ):
        (whole.stripe_stats[0] if whole.stripe_stats else whole.stripe_stats.add()).col_stats.add().CopyFrom(each)
    footer = messages.Footer(number_of_rows=2 * _ROWS, row_index_stride=_ROWS, writer=0, software_version=b"2.3.0")
    footer.stripes.add(offset=3, number_of_rows=2 * _ROWS)
    footer.types.add(kind=Kind.STRUCT, subtypes=[1], field_names=[b"c0"])
    footer.types.add(kind=kind, maximum_length=5, precision=9, scale=2)
    last = messages.PostScript(version=[0, 12], writer_version=9, magic=b"ORC")
    rest = [message.SerializeToString() for message in (stripe, whole, footer, last)]
    return join([bytes([1, where]), *streams, *rest])


def _seeds() -> list[bytes]:
    longs, texts = hash_longs(np.array([7, 4])), hash_bytes([b"v", b"1.25"])
    doubles, instants = hash_doubles(np.array([2.5])), hash_longs(np.array([1000]))
    instant = {"minimum_utc": 0, "maximum_utc": 2000, "minimum_nanos": 1}
    return [
        _parts(Kind.LONG, 0, longs, {"int_statistics": {"minimum": 1, "maximum": 9}}),
        _parts(Kind.STRING, 2, texts, {"string_statistics": {"minimum": b"a", "maximum": b"w"}}),
        _parts(Kind.DATE, 3, longs, {"date_statistics": {"minimum": 1, "maximum": 9}}),
        _parts(Kind.DOUBLE, 6, doubles, {"double_statistics": {"minimum": 1.5, "maximum": 9.5, "sum": 9.5}}),
        _parts(Kind.DECIMAL, 7, texts, {"decimal_statistics": {"minimum": b"1", "maximum": b"9.5"}}),
        _parts(Kind.TIMESTAMP, 4, instants, {"timestamp_statistics": instant}),
        _parts(Kind.BOOLEAN, 5, longs, {"bucket_statistics": {"count": [3]}}),
    ]


def _file(data: bytes) -> tuple[bytes, bp.Predicate]:
    """The file of an input, and the predicate."""
    head, index, filters, stripe, statistics, footer, last = split(data, _PARTS)
    flags, where = (head + b"\0\0")[:2]
    if flags & 1:
        with suppress(DecodeError):
            message = messages.StripeFooter.FromString(stripe)
            for stream, raw in zip(message.streams, (index, filters), strict=False):
                stream.length = len(raw)
            stripe = message.SerializeToString()
        with suppress(DecodeError):
            message = messages.Footer.FromString(footer)
            if message.stripes:
                message.stripes[0].offset, message.stripes[0].index_length = 3, len(index) + len(filters)
                message.stripes[0].data_length, message.stripes[0].footer_length = 0, len(stripe)
            footer = message.SerializeToString()
        with suppress(DecodeError):
            message = messages.PostScript.FromString(last)
            message.footer_length, message.metadata_length = len(footer), len(statistics)
            last = message.SerializeToString()
    content = b"".join((b"ORC", index, filters, stripe, statistics, footer, last, bytes([len(last) & 255])))
    return content, _WHERES[where % len(_WHERES)]


def _result(function: Callable[[], object]) -> object:
    try:
        return function()
    except BloomParquetError as error:
        return error


def _run_orc(data: bytes) -> None:
    content, where = _file(data)
    number = next(_numbers)
    if number % CACHED == 0:
        process_cache.clear()
    path = folder() / f"{number}.orc"
    path.write_bytes(content)
    try:
        for function in (
            lambda: plan_with(path, where, strict=False),
            lambda: plan_with(path, where, strict=False, on_filter_error="fail", skip_corrupt=True),
            lambda: bp.inspect(path),
        ):
            with no_wait():
                result = _result(function)
            if isinstance(result, bp.ScanPlan):
                assert result.total == result.kept + result.skipped.total()
            elif isinstance(result, BloomParquetError):
                assert path.name in str(result) or isinstance(result, bp.PlanError), result
    finally:
        path.unlink()


def _change_orc(data: bytes, random: Random) -> bytes:
    pieces = split(data, _PARTS)
    at = random.randrange(_PARTS)
    if at == 0:
        pieces[0] = bytes([random.random() < 0.9, random.randrange(len(_WHERES))])
    else:
        pieces[at] = change_protobuf(pieces[at], random)
    return join(pieces)


def _run_streams(data: bytes) -> None:
    """A codec, the logarithm of the block size, a flag for a chunk header of the right length, and a stream."""
    codec, bits, flags = (data + bytes(3))[:3]
    raw = data[3:]
    if flags & 1:
        raw = (len(raw) << 1 | flags >> 1 & 1).to_bytes(3, "little") + raw
    compression = Compression(Codec(codec % len(Codec)), 1 << bits % 20)
    with suppress(BloomParquetError):
        plain = compression.decompress(raw, _LIMIT)
        assert len(plain) <= _LIMIT
    with suppress(BloomParquetError):
        messages.parse(messages.Footer, raw, "the message")
    for message in (messages.StripeFooter, messages.RowIndex, messages.BloomFilterIndex):
        with suppress(BloomParquetError):
            messages.parse_uncounted(message, raw, "the message")
    with suppress(BloomParquetError):
        messages.elements(raw, "the message")
    for position in range(min(len(raw), 8)):
        with suppress(IndexError, OverflowError):
            value, end = read_varint(raw, position)
            assert 0 <= value < 1 << 64
            assert position < end <= len(raw)


def _stream_seeds() -> list[bytes]:
    plain = b"text text text " * 20
    deflate = zlib.compressobj(wbits=-15)
    packed = [
        plain,
        deflate.compress(plain) + deflate.flush(),
        *(pa.compress(plain, codec=name, asbytes=True) for name in ("snappy", "snappy", "lz4_raw", "zstd", "brotli")),
    ]
    return [bytes([codec, 12, 1]) + raw for codec, raw in enumerate(packed)]


TARGETS = [
    Target("orc", _seeds, _run_orc, _change_orc, seconds=4.0, max_bytes=2048),
    Target("streams", _stream_seeds, _run_streams, change_bytes, max_bytes=512),
]
