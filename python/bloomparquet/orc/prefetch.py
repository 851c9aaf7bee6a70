"""Fetches the data of a stripe before pyarrow reads it.

pyarrow reads a stripe in pieces of 128 KiB, one after the other, which takes hundreds of requests. If a request costs
far more than its bytes, the streams of the wanted columns are fetched first, nearby ones in one request.

Source: ORC specification, "Stripe Footer"; apache/arrow ``cpp/src/arrow/adapters/orc/adapter.cc`` (ArrowInputFile).
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Iterator
from operator import itemgetter

import pyarrow as pa

from bloomparquet.errors import located
from bloomparquet.orc.file_tail import Tail
from bloomparquet.orc.stripe_indexes import INDEX_STREAMS, MAX_STREAM, Stream, parse_stripe_footer
from bloomparquet.storage.files import ReadCount, Storage
from bloomparquet.storage.ranges import read_extents


class PrefetchedFile(io.RawIOBase):
    """`source`, which several threads may read, as a file, with some of its ranges in memory."""

    def __init__(self, source: pa.NativeFile) -> None:
        self._source, self._size, self._position = source, source.size(), 0
        self._starts: list[int] = []
        self._views: list[memoryview] = []

    def fetch_columns(self, storage: Storage, tail: Tail, stripe: int, fields: set[int], count: ReadCount) -> None:
        """Replace the ranges in memory with the data of some top-level columns in a stripe.

        `fields` are the positions of the columns in the root. Raises FormatError, LimitError or UnsupportedError if the
        footer of the stripe is damaged.
        """
        streams = sorted(stream for field, stream in _data_streams(storage, tail, stripe, count) if field in fields)
        self._starts = [stream.offset for stream in streams]
        extents = [(stream.offset, stream.offset + stream.length) for stream in streams]
        self._views = read_extents(storage, tail.file, extents, count)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        return self._position

    def read(self, size: int = -1) -> bytes:
        size = self._size - self._position if size < 0 else size
        data = self._read_prefetched(size)
        if data is None:
            # Not `seek`: other threads read the source too. Not `read_at`, which never frees its memory when it fails.
            data = self._source.get_stream(self._position, size).read_buffer(size).to_pybytes()
        self._position += len(data)
        return data

    def _read_prefetched(self, size: int) -> bytes | None:
        i = bisect_right(self._starts, self._position) - 1
        if i < 0:
            return None
        start = self._position - self._starts[i]
        return bytes(self._views[i][start : start + size]) if start + size <= len(self._views[i]) else None


def _data_streams(storage: Storage, tail: Tail, stripe: int, count: ReadCount) -> Iterator[tuple[int, Stream]]:
    """The streams of a stripe that are not indexes, each with the position of its top-level field."""
    location = tail.stripes[stripe]
    start = location.footer_offset
    size = location.footer_length if location.footer_length <= MAX_STREAM else 0
    (raw,) = read_extents(storage, tail.file, [(start, start + size)], count)
    with located(f"{tail.path}: the footer of stripe {stripe}"):
        footer = parse_stripe_footer(tail, raw)
    # Columns are numbered depth first: a column belongs to the last top-level column that is not after it.
    fields = sorted(((column, field) for field, column in enumerate(tail.types[0].children)), key=itemgetter(0))
    offset = location.offset
    for message in footer.streams:
        end = offset + message.length
        i = bisect_right(fields, message.column, key=itemgetter(0)) - 1
        if i >= 0 and message.kind not in INDEX_STREAMS and end <= location.footer_offset:
            yield fields[i][1], Stream(offset, message.length)
        offset = end
