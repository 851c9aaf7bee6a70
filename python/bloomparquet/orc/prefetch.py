"""Where the data of a stripe lies, and a stripe fetched before it is read.

pyarrow reads a stripe in pieces of 128 KiB, one after the other, which takes hundreds of requests. Where a request
costs far more than its bytes, the streams of the columns that are wanted are fetched first, nearby ones by one request.

Source: ORC specification, "Stripe Footer"; apache/arrow ``cpp/src/arrow/adapters/orc/adapter.cc`` (ArrowInputFile).
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from bloomparquet.errors import BloomParquetError
from bloomparquet.orc import protobuf as messages
from bloomparquet.orc.file_tail import Tail
from bloomparquet.orc.stripe_indexes import BLOOM_FILTER, BLOOM_FILTER_UTF8, MAX_STREAM, ROW_INDEX
from bloomparquet.storage.files import ReadCount, Storage
from bloomparquet.storage.ranges import read_ranges

_INDEXES = (ROW_INDEX, BLOOM_FILTER, BLOOM_FILTER_UTF8)


class DataStream(NamedTuple):
    """A stream of values, lengths or the like: the place of the top-level column that it belongs to, or is within, and
    its bytes in the file."""

    place: int
    offset: int
    length: int


def read_data_streams(storage: Storage, tail: Tail, stripe: int, count: ReadCount) -> list[DataStream]:
    """The streams of a stripe that are no indexes, in their order. Reads its footer; raises FormatError, LimitError or
    UnsupportedError for one that is damaged."""
    found = tail.stripes[stripe]
    data = b""
    if found.footer_length <= MAX_STREAM:
        at, size = np.array([found.footer_offset]), np.array([found.footer_length])
        data = read_ranges(storage, [tail.path], np.array([0]), at, size, count).buffer.tobytes()
    try:
        footer = messages.parse(messages.StripeFooter, tail.compression.decompress(data, MAX_STREAM), "it")
    except BloomParquetError as error:
        raise type(error)(f"{tail.path}: the footer of stripe {stripe}: {error}") from error
    return list(_located(tail, found.offset, found.footer_offset, footer.streams))


def _located(tail: Tail, at: int, end: int, streams: Any) -> Iterator[DataStream]:
    tops = sorted((column, place) for place, column in enumerate(tail.types[0].children))
    for stream in streams:
        top = bisect_right(tops, (stream.column, len(tops))) - 1
        if top >= 0 and stream.kind not in _INDEXES and at + stream.length <= end:
            yield DataStream(tops[top][1], at, stream.length)
        at += stream.length


class FetchedFile(io.RawIOBase):
    """`source`, of which some ranges are in memory."""

    def __init__(self, source: pa.NativeFile) -> None:
        self._source, self._size, self._at = source, source.size(), 0
        self._starts: list[int] = []
        self._held: list[memoryview] = []

    def hold(self, starts: list[int], held: list[memoryview]) -> None:
        """Have these ranges in memory, and no others."""
        order = sorted(range(len(starts)), key=starts.__getitem__)
        self._starts, self._held = [starts[i] for i in order], [held[i] for i in order]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        size = self._size - self._at if size < 0 else size
        found = self._find(size)
        if found is None:
            self._source.seek(self._at)
            found = self._source.read(size)
        self._at += len(found)
        return found

    def _find(self, size: int) -> bytes | None:
        i = bisect_right(self._starts, self._at) - 1
        if i < 0:
            return None
        begin = self._at - self._starts[i]
        return bytes(self._held[i][begin : begin + size]) if begin + size <= len(self._held[i]) else None


def fetch_columns(
    storage: Storage, tail: Tail, stripe: int, places: set[int], file: FetchedFile, count: ReadCount
) -> None:
    """Have the data of the top-level columns at `places` in `file`. Errors are those of :func:`read_data_streams`."""
    streams = [each for each in read_data_streams(storage, tail, stripe, count) if each.place in places]
    starts = np.array([each.offset for each in streams], np.int64)
    sizes = np.array([each.length for each in streams], np.int64)
    ranges = read_ranges(storage, [tail.path], np.zeros_like(starts), starts, sizes, count)
    parts = zip(ranges.starts.tolist(), sizes.tolist(), strict=True)
    file.hold(starts.tolist(), [ranges.buffer.data[at : at + size] for at, size in parts])
