"""Compressed streams: what lies behind three-byte chunk headers, bounded.

A stream is a row of chunks. Each has a header of three bytes, little-endian: twice the length of what follows, plus one
where it is stored as it was. A chunk holds at most the block size that the postscript names; a file without compression
has no headers at all.

The codecs are those of zlib and pyarrow, read as streams: pyarrow's one-call decompression needs the exact size, which
ORC does not keep. LZ4 blocks are put into a frame for that, as pyarrow streams only frames.

Source: ORC specification, "Compression".
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum

import pyarrow as pa
import xxhash

from bloomparquet.errors import FormatError, LimitError, UnsupportedError
from bloomparquet.storage.varint import read_varint

HEADER = 3
MAX_BLOCK_SIZE = (1 << 23) - 1
"""What a chunk header can count, and the largest block that ORC's readers take."""

MAX_CHUNKS = 1 << 17
"""Of one stream; chunks but the last hold a block each."""

DEFAULT_BLOCK_SIZE = 256 * 1024
"""Of a file whose postscript names none."""

_LZ4_DESCRIPTOR = b"\x60\x70"  # version 1, independent blocks, no checksums; blocks of up to 4 MiB
_LZ4_FRAME = b"\x04\x22\x4d\x18" + _LZ4_DESCRIPTOR + bytes([xxhash.xxh32_intdigest(_LZ4_DESCRIPTOR) >> 8 & 0xFF])


class Codec(IntEnum):
    """CompressionKind."""

    NONE = 0
    ZLIB = 1
    SNAPPY = 2
    LZO = 3
    LZ4 = 4
    ZSTD = 5
    BROTLI = 6


@dataclass(frozen=True)
class Compression:
    """How a file's streams are compressed, and the largest block in bytes."""

    codec: Codec
    block_size: int

    def decompress(self, data: bytes | memoryview, limit: int) -> bytes:
        """A whole stream in plain text.

        Raises FormatError for what is garbled or cut short, UnsupportedError for LZO, and LimitError for more than
        `limit` bytes of plain text (no more is ever made), a chunk larger than a block, or too many chunks.
        """
        return b"".join(self.chunks(data, limit))

    def chunks(self, data: bytes | memoryview, limit: int) -> Iterator[bytes]:
        """The same, chunk by chunk, each decompressed when it is asked for."""
        view = memoryview(data)
        if self.codec == Codec.NONE:
            if len(view) > limit:
                raise LimitError(f"a stream of {len(view)} bytes; at most {limit} are read")
            yield view.tobytes()
            return
        inflate = _DECOMPRESSORS.get(self.codec)
        if inflate is None:
            raise UnsupportedError(
                f"streams compressed with {self.codec.name} cannot be read; "
                "known are NONE, ZLIB, SNAPPY, LZ4, ZSTD and BROTLI"
            )
        at = total = count = 0
        while at < len(view):
            count += 1
            if count > MAX_CHUNKS:
                raise LimitError(f"the stream has more than {MAX_CHUNKS} chunks; it is damaged, or made to do harm")
            if at + HEADER > len(view):
                raise FormatError(f"the stream ends in the header of a chunk, at byte {len(view)}; it is cut short")
            header = int.from_bytes(view[at : at + HEADER], "little")
            start, size = at + HEADER, header >> 1
            at = start + size
            if size > self.block_size:
                raise FormatError(f"a chunk of {size} bytes at byte {start}; expected at most {self.block_size}")
            if at > len(view):
                raise FormatError(f"a chunk claims the bytes {start} to {at} of a stream of {len(view)}")
            most = min(self.block_size, limit - total)
            plain = view[start:at].tobytes() if header & 1 else inflate(view[start:at], most)
            total += len(plain)
            if len(plain) > most:
                raise LimitError(
                    f"the chunk at byte {start} has more than {most} bytes of plain text; "
                    f"a block has at most {self.block_size}, and of the stream at most {limit} are read"
                )
            yield plain


def _zlib(data: memoryview, most: int) -> bytes:
    """Raw deflate."""
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        plain = stream.decompress(data, most + 1)
    except zlib.error as error:
        raise FormatError(f"a chunk of {len(data)} bytes is no deflated data: {error}") from error
    if not stream.eof and len(plain) <= most:
        raise FormatError(f"a chunk of {len(data)} bytes is deflated data that is cut short")
    return plain


def _snappy(data: memoryview, most: int) -> bytes:
    """The plain size comes first, as a varint."""
    try:
        size, _ = read_varint(data, 0)
    except (IndexError, OverflowError):
        raise FormatError(f"a chunk of {len(data)} bytes has no Snappy length") from None
    if size > most:
        raise LimitError(f"a chunk claims {size} bytes of plain text; at most {most} are read")
    try:
        return bytes(pa.decompress(pa.py_buffer(data), size, codec="snappy", asbytes=True))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise FormatError(f"a chunk of {len(data)} bytes is no Snappy data: {error}") from error


def _streamed(name: str, data: bytes | memoryview, most: int) -> bytes:
    try:
        with pa.CompressedInputStream(pa.py_buffer(data), name) as stream:
            return bytes(stream.read(most + 1))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise FormatError(f"a chunk of {len(data)} bytes is no {name} data: {error}") from error


def _lz4(data: memoryview, most: int) -> bytes:
    return _streamed("lz4", b"".join((_LZ4_FRAME, len(data).to_bytes(4, "little"), data, bytes(4))), most)


_DECOMPRESSORS: dict[Codec, Callable[[memoryview, int], bytes]] = {
    Codec.ZLIB: _zlib,
    Codec.SNAPPY: _snappy,
    Codec.LZ4: _lz4,
    Codec.ZSTD: lambda data, most: _streamed("zstd", data, most),
    Codec.BROTLI: lambda data, most: _streamed("brotli", data, most),
}
