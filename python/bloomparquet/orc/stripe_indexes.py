"""Reads the indexes of stripes: statistics and Bloom filters of row groups, for chosen columns.

A stripe begins with its index streams. Its footer, at its end, lists their lengths. So reading takes two steps: the
footers of many stripes (:func:`read_stripe_footers`), then the streams of many columns (:func:`read_statistics`,
:func:`read_filters`), nearby ones in one request. An error of one stripe or column is its result; the others are not
affected.

Source: ORC specification, "Stripe Footer", "Row Group Index", "Bloom Filter Index".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from bloomparquet.errors import BloomParquetError, FormatError, LimitError, located
from bloomparquet.orc import protobuf as messages
from bloomparquet.orc.bloom_filter import OrcBloomFilter
from bloomparquet.orc.compression import Compression
from bloomparquet.orc.file_tail import Tail
from bloomparquet.orc.statistics import Statistics, parse_statistics
from bloomparquet.storage.files import FileInfo, ReadCount, Storage
from bloomparquet.storage.ranges import read_ranges

MAX_STREAM = 64 * 1024 * 1024
"""The most bytes of an index stream and of a stripe's footer, stored or decompressed."""

ROW_INDEX = 6
BLOOM_FILTER = 7
BLOOM_FILTER_UTF8 = 8
INDEX_STREAMS = frozenset({ROW_INDEX, BLOOM_FILTER, BLOOM_FILTER_UTF8})

_Parsed = TypeVar("_Parsed")


class StripeId(NamedTuple):
    """The position of a file among the files that are read, and the position of a stripe in the file."""

    file: int
    stripe: int


class Stream(NamedTuple):
    """The byte offset of a stream in its file, and its length."""

    offset: int
    length: int


@dataclass(frozen=True)
class StripeIndexes:
    """The locations of a stripe's indexes: `streams` by kind (one of :data:`INDEX_STREAMS`) and column.

    `writer_timezone` is the zone of the timestamps, None if the footer does not name it.
    """

    file: FileInfo
    id: StripeId
    row_groups: int
    compression: Compression
    streams: Mapping[tuple[int, int], Stream] = field(repr=False)
    bloom_encodings: tuple[int, ...] = field(repr=False)
    writer_timezone: str | None

    @property
    def path(self) -> str:
        return self.file.path

    def filter_kind(self, column: int) -> int | None:
        """The kind of the stream with a column's filters: BLOOM_FILTER_UTF8 if there are two, None without filters."""
        return next((kind for kind in (BLOOM_FILTER_UTF8, BLOOM_FILTER) if (kind, column) in self.streams), None)

    def bloom_encoding(self, column: int) -> int:
        """The encoding of a column's filters, as the footer has it: 1 if they hold timestamps in UTC, else 0."""
        return self.bloom_encodings[column] if column < len(self.bloom_encodings) else 0


def read_stripe_footers(
    storage: Storage, tails: Sequence[Tail], stripes: Sequence[StripeId], count: ReadCount
) -> list[StripeIndexes | BloomParquetError]:
    """The locations of the indexes of each of `stripes`, or the error of its footer.

    ``tails[stripe.file]`` is the tail of a stripe's file. A footer that was read with the tail is not read again.
    """
    stored: dict[int, bytes | BloomParquetError] = {}
    unread: dict[int, tuple[int, Stream]] = {}
    for i, (file, number) in enumerate(stripes):
        tail = tails[file]
        if number == len(tail.stripes) - 1 and tail.last_stripe_footer is not None:
            stored[i] = tail.last_stripe_footer
        else:
            stripe = tail.stripes[number]
            unread[i] = file, Stream(stripe.footer_offset, stripe.footer_length)
    raws = _read_streams(storage, [tail.file for tail in tails], list(unread.values()), count)
    stored.update(zip(unread, raws, strict=True))
    return [
        _parse_or_error(
            tails[stripe.file].file,
            f"the footer of stripe {stripe.stripe}",
            stored[i],
            partial(_locate_indexes, tails[stripe.file], stripe),
        )
        for i, stripe in enumerate(stripes)
    ]


def read_statistics(
    storage: Storage, wanted: Sequence[tuple[StripeIndexes, int]], count: ReadCount
) -> list[tuple[Statistics | None, ...] | BloomParquetError | None]:
    """The statistics of every row group for each pair of a stripe and a column.

    A column without a row index has None, and so has a row group without statistics.
    """
    return _read_indexes(storage, [(stripe, column, ROW_INDEX) for stripe, column in wanted], _parse_row_index, count)


def read_filters(
    storage: Storage, wanted: Sequence[tuple[StripeIndexes, int]], count: ReadCount
) -> list[tuple[OrcBloomFilter, ...] | BloomParquetError | None]:
    """The Bloom filters of every row group for each pair of a stripe and a column; None for a column without filters.

    All filters of the answer are in memory at once, about 8 KiB each: ask for some hundreds of stripes at a time.
    """
    kinds = [(stripe, column, stripe.filter_kind(column)) for stripe, column in wanted]
    return _read_indexes(storage, kinds, _parse_filters, count)


def parse_stripe_footer(tail: Tail, raw: bytes | memoryview) -> Any:
    """The StripeFooter message in the stored bytes `raw`. Raises FormatError, LimitError or UnsupportedError."""
    return messages.parse(messages.StripeFooter, tail.compression.decompress(raw, MAX_STREAM), "the message")


def _read_indexes(
    storage: Storage,
    wanted: Sequence[tuple[StripeIndexes, int, int | None]],
    parse: Callable[[StripeIndexes, int, bytes], _Parsed],
    count: ReadCount,
) -> list[_Parsed | BloomParquetError | None]:
    results: list[_Parsed | BloomParquetError | None] = [None] * len(wanted)
    present = [
        (i, stripe, column, kind)
        for i, (stripe, column, kind) in enumerate(wanted)
        if kind is not None and (kind, column) in stripe.streams
    ]
    files = list(dict.fromkeys(stripe.file for _, stripe, _, _ in present))
    file_index = {file: i for i, file in enumerate(files)}
    streams = [(file_index[stripe.file], stripe.streams[kind, column]) for _, stripe, column, kind in present]
    for (i, stripe, column, kind), raw in zip(present, _read_streams(storage, files, streams, count), strict=True):
        index = "statistics" if kind == ROW_INDEX else "Bloom filters"
        results[i] = _parse_or_error(
            stripe.file,
            f"the {index} of column {column} in stripe {stripe.id.stripe}",
            raw,
            partial(parse, stripe, column),
        )
    return results


def _read_streams(
    storage: Storage, files: Sequence[FileInfo], streams: Sequence[tuple[int, Stream]], count: ReadCount
) -> list[bytes | BloomParquetError]:
    """The bytes of each stream, given by the position of its file; LimitError for a stream that is too long to read."""
    raws: list[bytes | BloomParquetError] = [
        b"" if stream.length <= MAX_STREAM else LimitError(f"{stream.length} bytes; at most {MAX_STREAM} are read")
        for _, stream in streams
    ]
    readable = [i for i, (_, stream) in enumerate(streams) if 0 < stream.length <= MAX_STREAM]
    numbers = np.array([(streams[i][0], *streams[i][1]) for i in readable], np.int64).reshape(-1, 3)
    ranges = read_ranges(storage, files, numbers[:, 0], numbers[:, 1], numbers[:, 2], count)
    for i, start, length in zip(readable, ranges.starts.tolist(), numbers[:, 2].tolist(), strict=True):
        raws[i] = ranges.buffer[start : start + length].tobytes()
    return raws


def _parse_or_error(
    file: FileInfo, what: str, raw: bytes | BloomParquetError, parse: Callable[[bytes], _Parsed]
) -> _Parsed | BloomParquetError:
    """``parse(raw)``; or its error, or `raw` if that is an error, with `file` and `what` before the message."""
    try:
        if isinstance(raw, BloomParquetError):
            raise raw
        return parse(raw)
    except BloomParquetError as error:
        return type(error)(f"{file.path}: {what}: {error}")


def _locate_indexes(tail: Tail, stripe_id: StripeId, raw: bytes) -> StripeIndexes:
    stripe, footer = tail.stripes[stripe_id.stripe], parse_stripe_footer(tail, raw)
    if len(footer.columns) > len(tail.types):
        raise FormatError(f"it has the encodings of {len(footer.columns)} columns; expected {len(tail.types)}")
    streams: dict[tuple[int, int], Stream] = {}
    start = 0
    for message in footer.streams:
        kind, column, length = message.kind, message.column, message.length
        end = start + length
        if kind in INDEX_STREAMS:
            if end > stripe.index_length:
                raise FormatError(
                    f"the stream of kind {kind} of column {column} ends at byte {end} of the stripe, "
                    f"whose indexes have {stripe.index_length} bytes"
                )
            if (kind, column) in streams:
                raise FormatError(f"column {column} has two streams of kind {kind}")
            streams[kind, column] = Stream(stripe.offset + start, length)
        start = end
    if start > stripe.index_length + stripe.data_length:
        raise FormatError(f"its streams have {start} bytes, the stripe {stripe.index_length + stripe.data_length}")
    return StripeIndexes(
        file=tail.file,
        id=stripe_id,
        row_groups=tail.row_groups(stripe_id.stripe),
        compression=tail.compression,
        streams=streams,
        bloom_encodings=tuple(message.bloom_encoding for message in footer.columns),
        writer_timezone=footer.writer_timezone.decode(errors="replace") if footer.HasField("writer_timezone") else None,
    )


def _elements(raw: bytes, stripe: StripeIndexes, what: str) -> Sequence[bytes | memoryview]:
    """The messages in an index stream, one for each row group."""
    elements = messages.elements(stripe.compression.decompress(raw, MAX_STREAM), what)
    if len(elements) != stripe.row_groups:
        raise FormatError(f"there are {len(elements)} of them; expected {stripe.row_groups}, one for each row group")
    return elements


def _parse_row_index(stripe: StripeIndexes, column: int, raw: bytes) -> tuple[Statistics | None, ...]:
    statistics: list[Statistics | None] = []
    for i, element in enumerate(_elements(raw, stripe, "the row index")):
        what = f"row group {i}"
        entry = messages.parse_uncounted(messages.RowIndexEntry, element, what)
        statistics.append(parse_statistics(entry.statistics, what) if entry.HasField("statistics") else None)
    return tuple(statistics)


def _parse_filters(stripe: StripeIndexes, column: int, raw: bytes) -> tuple[OrcBloomFilter, ...]:
    utf8 = stripe.filter_kind(column) == BLOOM_FILTER_UTF8
    filters: list[OrcBloomFilter] = []
    for i, element in enumerate(_elements(raw, stripe, "the Bloom filter index")):
        message = messages.parse_uncounted(messages.BloomFilter, element, f"row group {i}")
        with located(f"row group {i}"):
            filters.append(OrcBloomFilter.from_message(message, utf8=utf8))
    return tuple(filters)
