"""A stripe as a file of its own whose timestamps were written in GMT.

pyarrow gives what the clock of the writer's zone showed, which in an hour of each year is one thing for two moments.
Without the zone it gives what the file stores: seconds, counted from the beginning of 2015 in that zone.

Source: ORC specification, "File Tail", "Stripe Footer".
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa

from bloomparquet.errors import FormatError
from bloomparquet.orc import messages
from bloomparquet.orc.compression import Codec
from bloomparquet.orc.tail import MAGIC, MAX_SECTION, Stripe, Tail
from bloomparquet.storage import Storage

_PLAIN_CHUNK = 1
_MOST_CHUNK = (1 << 23) - 1


class _Image:
    """Files of a storage, of which there is one, in memory."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def open_input_file(self, path: str) -> Any:
        return pa.BufferReader(self._data)


class ImageStorage:
    """As much of a storage as reading one file takes."""

    threads = 1

    def __init__(self, data: bytes) -> None:
        self.arrow = _Image(data)


def without_zone(storage: Storage, tail: Tail, number: int) -> tuple[Any, Tail]:
    """The storage and the tail of a file in memory that is stripe `number` of the file of `tail`. FormatError where the
    stripe is cut short or damaged."""
    stripe = tail.stripes[number]
    with storage.arrow.open_input_file(tail.path) as source:
        source.seek(stripe.offset)
        raw = source.read(stripe.length)
    if len(raw) < stripe.length:
        raise FormatError(f"{tail.path}: stripe {number} is cut short; the file has changed since it was listed")
    body = stripe.index_length + stripe.data_length
    plain = tail.compression.decompress(raw[body:], MAX_SECTION)
    stripe_footer = messages.parse(messages.StripeFooter, plain, f"{tail.path}: the footer of stripe {number}")
    stripe_footer.writer_timezone = b"GMT"
    closing = _stored(tail, stripe_footer.SerializeToString())
    moved = Stripe(len(MAGIC), stripe.index_length, stripe.data_length, len(closing), stripe.rows)
    footer = messages.parse(messages.Footer, tail.footer, f"{tail.path}: the footer")
    footer.ClearField("stripes")
    footer.stripes.add(
        offset=moved.offset,
        index_length=moved.index_length,
        data_length=moved.data_length,
        footer_length=moved.footer_length,
        number_of_rows=moved.rows,
    )
    footer.number_of_rows = moved.rows
    end = _stored(tail, footer.SerializeToString())
    postscript = messages.PostScript(
        footer_length=len(end),
        compression=tail.compression.codec.value,
        compression_block_size=tail.compression.block_size,
        version=tail.file_version,
        metadata_length=0,
        writer_version=tail.writer_version,
        magic=MAGIC,
    ).SerializeToString()
    data = b"".join([MAGIC, raw[:body], closing, end, postscript, bytes([len(postscript)])])
    alone = dataclasses.replace(
        tail, stripes=(moved,), rows=moved.rows, size=len(end) + len(postscript) + 1, stored_metadata=b""
    )
    return ImageStorage(data), alone


def _stored(tail: Tail, plain: bytes) -> bytes:
    """`plain` as the file has its streams: in chunks, of which none need be compressed."""
    if tail.compression.codec == Codec.NONE:
        return plain
    most = min(tail.compression.block_size, _MOST_CHUNK)
    chunks = (plain[at : at + most] for at in range(0, len(plain), most))
    return b"".join((len(chunk) << 1 | _PLAIN_CHUNK).to_bytes(3, "little") + chunk for chunk in chunks)
