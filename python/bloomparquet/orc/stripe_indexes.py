"""The indexes of stripes: statistics and Bloom filters of row groups, for the columns that are asked for.

A stripe begins with its index streams; its footer, at its end, says which there are and how long each is. So it takes
two steps: the footers of many stripes (:func:`read_stripes`), then the streams of many columns of them, nearby ones
by one request (:func:`read_statistics`, :func:`read_filters`). What is wrong with one stripe or column is its result:
an error in its place, the others are not touched by it.

Source: ORC specification, "Stripe Footer", "Row Group Index", "Bloom Filter Index".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np

from bloomparquet.errors import BloomParquetError, FormatError, LimitError
from bloomparquet.orc import protobuf as messages
from bloomparquet.orc.bloom_filter import OrcBloomFilter
from bloomparquet.orc.compression import Compression
from bloomparquet.orc.file_tail import Tail
from bloomparquet.orc.statistics import Statistics, parse_statistics
from bloomparquet.storage.files import ReadCount, Storage
from bloomparquet.storage.ranges import read_ranges

MAX_STREAM = 64 * 1024 * 1024
"""Of an index stream and of a stripe's footer, stored or in plain text."""

ROW_INDEX = 6
BLOOM_FILTER = 7
BLOOM_FILTER_UTF8 = 8

_INDEXES = (ROW_INDEX, BLOOM_FILTER, BLOOM_FILTER_UTF8)
_Parsed = TypeVar("_Parsed")
_Arguments = ParamSpec("_Arguments")


class Place(NamedTuple):
    """A stripe: `file` is the position of its file among those that were read, `stripe` its own in the file."""

    file: int
    stripe: int


class Stream(NamedTuple):
    """Where a stream lies in its file, in bytes."""

    offset: int
    length: int


@dataclass(frozen=True)
class StripeIndexes:
    """Where the indexes of a stripe are: `streams` by kind and column, ROW_INDEX, BLOOM_FILTER and BLOOM_FILTER_UTF8.

    `bloom_encodings` are ColumnEncoding's by column: 1 for filters whose timestamps are in UTC, 0 for others.
    `writer_timezone` is that of the timestamps, where it is told.
    """

    path: str
    place: Place
    row_groups: int
    compression: Compression
    streams: Mapping[tuple[int, int], Stream] = field(repr=False)
    bloom_encodings: tuple[int, ...] = field(repr=False)
    writer_timezone: str | None

    def filter_kind(self, column: int) -> int | None:
        """The stream that a column's filters are in: BLOOM_FILTER_UTF8 where it has both, None where it has none."""
        return next((kind for kind in (BLOOM_FILTER_UTF8, BLOOM_FILTER) if (kind, column) in self.streams), None)


class RowGroupFilters(NamedTuple):
    """A column's filters, one per row group of a stripe. `utf8`: those of a BLOOM_FILTER_UTF8 stream. `encoding`: that
    of :attr:`StripeIndexes.bloom_encodings`."""

    utf8: bool
    encoding: int
    filters: tuple[OrcBloomFilter, ...]


def read_stripes(
    storage: Storage, tails: Sequence[Tail], places: Sequence[Place], count: ReadCount
) -> list[StripeIndexes | BloomParquetError]:
    """Where the indexes of each stripe of `places` are, or what is wrong with its footer. ``tails[place.file]`` is its
    file's. The footers that came with tails are not read again."""
    stripes = [tails[place.file].stripes[place.stripe] for place in places]
    raws: list[bytes | BloomParquetError | None] = [
        tails[place.file].last_stripe_footer if place.stripe == len(tails[place.file].stripes) - 1 else None
        for place in places
    ]
    unread = [i for i, raw in enumerate(raws) if raw is None]
    wanted = [(places[i].file, Stream(stripes[i].footer_offset, stripes[i].footer_length)) for i in unread]
    for i, raw in zip(unread, _read(storage, [tail.path for tail in tails], wanted, count), strict=True):
        raws[i] = raw
    return [
        _result(
            f"{tails[place.file].path}: the footer of stripe {place.stripe}", raw, _parse_stripe_footer, tails, place
        )
        for place, raw in zip(places, raws, strict=True)
        if raw is not None
    ]


def read_statistics(
    storage: Storage, wanted: Sequence[tuple[StripeIndexes, int]], count: ReadCount
) -> list[tuple[Statistics | None, ...] | BloomParquetError | None]:
    """The statistics of every row group, for each stripe and column; None where the column has no row index. A row
    group without statistics has None."""
    return _read_indexes(storage, [(stripe, column, ROW_INDEX) for stripe, column in wanted], _parse_row_index, count)


def read_filters(
    storage: Storage, wanted: Sequence[tuple[StripeIndexes, int]], count: ReadCount
) -> list[RowGroupFilters | BloomParquetError | None]:
    """The Bloom filters of every row group, for each stripe and column; None where the column has none.

    All of them are in memory at once, some 8 KiB each: ask for some hundreds of stripes at a time.
    """
    kinds = [(stripe, column, stripe.filter_kind(column)) for stripe, column in wanted]
    return _read_indexes(storage, kinds, _parse_filters, count)


def _read_indexes(
    storage: Storage,
    wanted: Sequence[tuple[StripeIndexes, int, int | None]],
    parse: Callable[[bytes, StripeIndexes, int], _Parsed],
    count: ReadCount,
) -> list[_Parsed | BloomParquetError | None]:
    found: list[_Parsed | BloomParquetError | None] = [None] * len(wanted)
    present = [
        (i, stripe, column, kind)
        for i, (stripe, column, kind) in enumerate(wanted)
        if kind is not None and (kind, column) in stripe.streams
    ]
    paths = list(dict.fromkeys(stripe.path for _, stripe, _, _ in present))
    number = {path: i for i, path in enumerate(paths)}
    streams = [(number[stripe.path], stripe.streams[kind, column]) for _, stripe, column, kind in present]
    for (i, stripe, column, kind), raw in zip(present, _read(storage, paths, streams, count), strict=True):
        found[i] = _result(
            f"{stripe.path}: the {'statistics' if kind == ROW_INDEX else 'Bloom filters'} of column {column} in stripe "
            f"{stripe.place.stripe}",
            raw,
            parse,
            stripe,
            column,
        )
    return found


def _read(
    storage: Storage, paths: Sequence[str], streams: Sequence[tuple[int, Stream]], count: ReadCount
) -> list[bytes | BloomParquetError]:
    """The bytes of each stream of a file; an error for one that is too long, which is not read."""
    raws: list[bytes | BloomParquetError] = [
        b"" if stream.length <= MAX_STREAM else LimitError(f"{stream.length} bytes; at most {MAX_STREAM} are read")
        for _, stream in streams
    ]
    some = [i for i, (_, stream) in enumerate(streams) if 0 < stream.length <= MAX_STREAM]
    numbers = np.array([(streams[i][0], *streams[i][1]) for i in some], np.int64).reshape(-1, 3)
    ranges = read_ranges(storage, paths, numbers[:, 0], numbers[:, 1], numbers[:, 2], count)
    for i, start, length in zip(some, ranges.starts.tolist(), numbers[:, 2].tolist(), strict=True):
        raws[i] = ranges.buffer[start : start + length].tobytes()
    return raws


def _result(
    what: str,
    raw: bytes | BloomParquetError,
    parse: Callable[Concatenate[bytes, _Arguments], _Parsed],
    *arguments: _Arguments.args,
    **more: _Arguments.kwargs,
) -> _Parsed | BloomParquetError:
    """What `parse` makes of `raw`; an error says what it is of."""
    try:
        if isinstance(raw, BloomParquetError):
            raise raw
        return parse(raw, *arguments, **more)
    except BloomParquetError as error:
        return type(error)(f"{what}: {error}")


def _parse_stripe_footer(raw: bytes, tails: Sequence[Tail], place: Place) -> StripeIndexes:
    tail = tails[place.file]
    stripe = tail.stripes[place.stripe]
    footer = messages.parse(messages.StripeFooter, tail.compression.decompress(raw, MAX_STREAM), "it")
    if len(footer.columns) > len(tail.types):
        raise FormatError(f"it has the encodings of {len(footer.columns)} columns; expected {len(tail.types)}")
    streams: dict[tuple[int, int], Stream] = {}
    at = 0
    for each in footer.streams:
        kind, column, length = each.kind, each.column, each.length
        if kind in _INDEXES:
            if at + length > stripe.index_length:
                raise FormatError(
                    f"the stream of kind {kind} of column {column} ends at byte {at + length} of the stripe, "
                    f"whose indexes have {stripe.index_length}"
                )
            if (kind, column) in streams:
                raise FormatError(f"column {column} has two streams of kind {kind}")
            streams[kind, column] = Stream(stripe.offset + at, length)
        at += length
    if at > stripe.index_length + stripe.data_length:
        raise FormatError(f"its streams have {at} bytes, the stripe {stripe.index_length + stripe.data_length}")
    return StripeIndexes(
        path=tail.path,
        place=place,
        row_groups=tail.row_groups(place.stripe),
        compression=tail.compression,
        streams=streams,
        bloom_encodings=tuple(each.bloom_encoding for each in footer.columns),
        writer_timezone=footer.writer_timezone.decode(errors="replace") if footer.HasField("writer_timezone") else None,
    )


def _elements(raw: bytes, stripe: StripeIndexes, what: str) -> Sequence[bytes | memoryview]:
    """The messages that an index stream repeats, of which there is one for each row group."""
    found = messages.elements(stripe.compression.decompress(raw, MAX_STREAM), 1, what)
    if len(found) != stripe.row_groups:
        raise FormatError(f"there are {len(found)} of them; expected {stripe.row_groups}, one for each row group")
    return found


def _parse_row_index(raw: bytes, stripe: StripeIndexes, column: int) -> tuple[Statistics | None, ...]:
    parsed: list[Statistics | None] = []
    for i, each in enumerate(_elements(raw, stripe, "the row index")):
        what = f"row group {i}"
        entry = messages.decode(messages.RowIndexEntry, each, what)
        parsed.append(parse_statistics(entry.statistics, what) if entry.HasField("statistics") else None)
    return tuple(parsed)


def _parse_filters(raw: bytes, stripe: StripeIndexes, column: int) -> RowGroupFilters:
    utf8 = stripe.filter_kind(column) == BLOOM_FILTER_UTF8
    filters: list[OrcBloomFilter] = []
    for i, each in enumerate(_elements(raw, stripe, "the Bloom filter index")):
        message = messages.decode(messages.BloomFilter, each, f"row group {i}")
        try:
            filters.append(OrcBloomFilter.from_message(message, utf8=utf8))
        except BloomParquetError as error:
            raise type(error)(f"row group {i}: {error}") from error
    encodings = stripe.bloom_encodings
    return RowGroupFilters(utf8, encodings[column] if column < len(encodings) else 0, tuple(filters))
