"""Compressed streams: every codec, uncompressed chunks, and the limits of decompression."""

from __future__ import annotations

import random
import tracemalloc
import zlib

import pyarrow as pa
import pytest

from bloomparquet.errors import BloomParquetError, FormatError, LimitError, UnsupportedError
from bloomparquet.orc.compression import MAX_CHUNKS, Codec, Compression
from tests.support.traced_memory import memory_left_behind

BLOCK = 1024
ARROW = {Codec.SNAPPY: "snappy", Codec.LZ4: "lz4_raw", Codec.ZSTD: "zstd", Codec.BROTLI: "brotli"}
CODECS = [Codec.ZLIB, *ARROW]
PLAIN = random.Random(5).randbytes(300) * 9


def deflated(data: bytes) -> bytes:
    stream = zlib.compressobj(9, zlib.DEFLATED, -15)
    return stream.compress(data) + stream.flush()


def packed(codec: Codec, data: bytes) -> bytes:
    return deflated(data) if codec == Codec.ZLIB else pa.compress(data, codec=ARROW[codec], asbytes=True)


def chunk(data: bytes, *, original: bool = False) -> bytes:
    return (len(data) << 1 | original).to_bytes(3, "little") + data


def stream(codec: Codec, data: bytes, block: int = BLOCK) -> bytes:
    return b"".join(chunk(packed(codec, data[at : at + block])) for at in range(0, len(data), block))


@pytest.mark.parametrize("codec", CODECS)
def test_a_stream_of_several_chunks_is_restored(codec: Codec) -> None:
    compression = Compression(codec, BLOCK)
    assert compression.decompress(stream(codec, PLAIN), len(PLAIN)) == PLAIN
    assert compression.decompress(b"", 10) == b""


@pytest.mark.parametrize("codec", [*CODECS, Codec.NONE])
def test_uncompressed_chunks_and_streams_are_read(codec: Codec) -> None:
    if codec == Codec.NONE:
        assert Compression(codec, BLOCK).decompress(PLAIN, len(PLAIN)) == PLAIN
        return
    mixed = chunk(b"one", original=True) + stream(codec, b"two" * 50) + chunk(b"three", original=True)
    assert Compression(codec, BLOCK).decompress(mixed, 1000) == b"one" + b"two" * 50 + b"three"


@pytest.mark.parametrize("codec", [*CODECS, Codec.NONE])
def test_more_than_the_limit_is_a_limit_error(codec: Codec) -> None:
    raw = PLAIN if codec == Codec.NONE else stream(codec, PLAIN)
    with pytest.raises(LimitError):
        Compression(codec, BLOCK).decompress(raw, len(PLAIN) - 1)


@pytest.mark.parametrize("codec", CODECS)
def test_a_chunk_never_decompresses_beyond_a_block(codec: Codec) -> None:
    bomb = chunk(packed(codec, bytes(2**22)))
    assert len(bomb) < 2**18
    tracemalloc.start()
    allocated = pa.total_allocated_bytes()
    with pytest.raises(LimitError):
        Compression(codec, 2**18).decompress(bomb, 2**30)
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()
    assert pa.total_allocated_bytes() == allocated


def test_too_many_chunks_are_a_limit_error() -> None:
    with pytest.raises(LimitError, match="chunks"):
        Compression(Codec.ZLIB, BLOCK).decompress(chunk(b"", original=True) * (MAX_CHUNKS + 1), 10**6)


def test_lzo_is_an_unsupported_error() -> None:
    with pytest.raises(UnsupportedError, match="LZO"):
        Compression(Codec.LZO, BLOCK).decompress(chunk(b"abc"), 100)


@pytest.mark.parametrize("codec", CODECS)
def test_a_truncated_stream_is_an_error_or_a_prefix(codec: Codec) -> None:
    raw = stream(codec, PLAIN)
    for cut in range(1, len(raw), 7):
        try:
            plain = Compression(codec, BLOCK).decompress(raw[:cut], 10**6)
        except FormatError:
            continue
        assert PLAIN.startswith(plain)
        assert len(plain) % BLOCK == 0  # a stream may end between two chunks


@pytest.mark.parametrize("codec", CODECS)
def test_damaged_streams_raise_only_our_errors(codec: Codec) -> None:
    raw = stream(codec, PLAIN)
    rng = random.Random(codec)
    for _ in range(300):
        bad = bytearray(raw)
        for _ in range(rng.randint(1, 4)):
            bad[rng.randrange(len(bad))] = rng.randrange(256)
        try:
            plain = Compression(codec, BLOCK).decompress(bytes(bad), 10**5)
        except BloomParquetError:
            continue
        assert len(plain) <= 10**5


@pytest.mark.parametrize("codec", ARROW)
def test_damaged_chunks_leave_no_memory_behind(codec: Codec) -> None:
    compression, damaged = Compression(codec, 1 << 16), chunk(b"\xff" * 50)

    def fail() -> None:
        with pytest.raises(BloomParquetError):
            compression.decompress(damaged, 1 << 20)

    assert memory_left_behind(fail) < 1 << 16


def test_a_stored_chunk_larger_than_a_block_is_an_error() -> None:
    with pytest.raises(FormatError, match="at most 1024"):
        Compression(Codec.ZLIB, BLOCK).decompress(chunk(bytes(1025), original=True), 10**6)
