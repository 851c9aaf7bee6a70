"""Decompresses streams, within bounds.

A compressed stream is a sequence of chunks. Each begins with a header of three bytes, little-endian: twice the length
of the chunk's data, plus one if the data is not compressed. A chunk holds at most the block size that the postscript
names. A file without compression has no headers.

zlib and pyarrow decode, both as streams: pyarrow's one-call decompression needs the exact size, which ORC does not
store. LZ4 blocks are put into a frame, because pyarrow streams only frames.

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
"""Bytes of a chunk's header."""

MAX_BLOCK_SIZE = (1 << 23) - 1
"""The most that a chunk header can count, and the largest block that ORC's readers take."""

MAX_CHUNKS = 1 << 17
"""The most chunks of a stream."""

DEFAULT_BLOCK_SIZE = 256 * 1024
"""The block size of a file whose postscript names none."""

_LZ4_DESCRIPTOR = b"\x60\x70"  # version 1, independent blocks, no checksums; blocks of up to 4 MiB
_LZ4_FRAME = b"\x04\x22\x4d\x18" + _LZ4_DESCRIPTOR + bytes([xxhash.xxh32_intdigest(_LZ4_DESCRIPTOR) >> 8 & 0xFF])


class Codec(IntEnum):
    """The specification's CompressionKind."""

    NONE = 0
    ZLIB = 1
    SNAPPY = 2
    LZO = 3
    LZ4 = 4
    ZSTD = 5
    BROTLI = 6


@dataclass(frozen=True)
class Compression:
    """The codec of a file's streams, and the largest block in bytes."""

    codec: Codec
    block_size: int

    def decompress(self, data: bytes | memoryview, limit: int) -> bytes:
        """Decompress a whole stream.

        Raises FormatError for damaged data, UnsupportedError for LZO, and LimitError for more than `limit` decompressed
        bytes (which are never made), for a chunk larger than a block, and for too many chunks.
        """
        return b"".join(self._chunks(memoryview(data), limit))

    def _chunks(self, data: memoryview, limit: int) -> Iterator[bytes]:
        if self.codec == Codec.NONE:
            if len(data) > limit:
                raise LimitError(f"a stream of {len(data)} bytes; at most {limit} are read")
            yield data.tobytes()
            return
        decompress = _DECOMPRESSORS.get(self.codec)
        if decompress is None:
            raise UnsupportedError(
                f"the streams are compressed with {self.codec.name}, which is not supported; "
                "expected NONE, ZLIB, SNAPPY, LZ4, ZSTD or BROTLI"
            )
        end = total = count = 0
        while end < len(data):
            count += 1
            if count > MAX_CHUNKS:
                raise LimitError(f"the stream has more than {MAX_CHUNKS} chunks; it is damaged, or made to do harm")
            start = end + HEADER
            if start > len(data):
                raise FormatError(f"the stream ends in the header of a chunk, at byte {len(data)}; it is truncated")
            header = int.from_bytes(data[end:start], "little")
            size = header >> 1
            end = start + size
            if size > self.block_size:
                raise FormatError(f"a chunk of {size} bytes at byte {start}; expected at most {self.block_size}")
            if end > len(data):
                raise FormatError(f"a chunk claims the bytes {start} to {end} of a stream of {len(data)}")
            most = min(self.block_size, limit - total)
            plain = data[start:end].tobytes() if header & 1 else decompress(data[start:end], most)
            total += len(plain)
            if len(plain) > most:
                raise LimitError(
                    f"the chunk at byte {start} has more than {most} decompressed bytes; "
                    f"a block has at most {self.block_size}, and at most {limit} bytes of the stream are read"
                )
            yield plain


def _zlib(data: memoryview, most: int) -> bytes:
    """Raw deflate data."""
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        plain = stream.decompress(data, most + 1)
    except zlib.error as error:
        raise FormatError(f"a chunk of {len(data)} bytes is not deflated data: {error}") from error
    if not stream.eof and len(plain) <= most:
        raise FormatError(f"a chunk of {len(data)} bytes is truncated deflated data")
    return plain


def _snappy(data: memoryview, most: int) -> bytes:
    """A varint with the decompressed size, then Snappy data."""
    try:
        size, _ = read_varint(data, 0)
    except (IndexError, OverflowError):
        raise FormatError(f"a chunk of {len(data)} bytes has no Snappy length") from None
    if size > most:
        raise LimitError(f"a chunk claims {size} decompressed bytes; at most {most} are read")
    try:
        return bytes(pa.decompress(pa.py_buffer(data), size, codec="snappy", asbytes=True))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise FormatError(f"a chunk of {len(data)} bytes is no Snappy data: {error}") from error


def _pyarrow_stream(codec: str, data: bytes | memoryview, most: int) -> bytes:
    try:
        with pa.CompressedInputStream(pa.py_buffer(data), codec) as stream:
            # Not `read`, which never frees its memory when it fails.
            return bytes(stream.read_buffer(most + 1).to_pybytes())
    except (OSError, ValueError, pa.ArrowException) as error:
        raise FormatError(f"a chunk of {len(data)} bytes is no {codec} data: {error}") from error


def _lz4(data: memoryview, most: int) -> bytes:
    return _pyarrow_stream("lz4", b"".join((_LZ4_FRAME, len(data).to_bytes(4, "little"), data, bytes(4))), most)


_DECOMPRESSORS: dict[Codec, Callable[[memoryview, int], bytes]] = {
    Codec.ZLIB: _zlib,
    Codec.SNAPPY: _snappy,
    Codec.LZ4: _lz4,
    Codec.ZSTD: lambda data, most: _pyarrow_stream("zstd", data, most),
    Codec.BROTLI: lambda data, most: _pyarrow_stream("brotli", data, most),
}
