"""The header of a split-block Bloom filter: the bytes of ``BloomFilterHeader``.

A header has about 15 bytes, and the files of a data set have a handful of different headers. So :func:`parse_headers`
parses each distinct header once and recognises it elsewhere by its bytes.

Source: parquet-format ``BloomFilter.md`` and ``parquet.thrift`` (BloomFilterHeader).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError, FormatError, LimitError, UnsupportedError, join_names
from bloomparquet.parquet.thrift.definitions import (
    BloomFilterAlgorithm,
    BloomFilterCompression,
    BloomFilterHash,
    BloomFilterHeader,
    Empty,
)
from bloomparquet.parquet.thrift.reader import CompactReader
from bloomparquet.parquet.thrift.struct import Field, ThriftStruct
from bloomparquet.parquet.thrift.writer import write_struct

MAX_HEADER_BYTES = 64
"""Enough for every header that the format defines, and for future fields."""

MAX_ENCRYPTED_HEADER_BYTES = 1024
"""The limit for an encrypted header with nonce and tag. parquet-java pads its encrypted headers with eighty zeros."""

MAX_BITSET_BYTES = 128 * 1024 * 1024
"""The largest bitset that parquet-java and Arrow write or read."""


def parse_header(buffer: bytes | memoryview) -> tuple[int, int]:
    """The size of the header at the start of `buffer` and the size of its bitset, both in bytes.

    Unknown fields are skipped. Raises UnsupportedError for another algorithm, hash or compression, and for the
    deprecated Murmur3 layout; FormatError for bytes that are not a header; LimitError for a bitset that is too large.
    """
    reader = CompactReader(buffer)
    try:
        header = reader.read_struct(BloomFilterHeader)
        num_bytes = header.num_bytes
    except BloomParquetError:
        _refuse_murmur3(buffer)
        raise
    _require(header.algorithm, BloomFilterAlgorithm.BLOCK)
    _require(header.hash, BloomFilterHash.XXHASH)
    _require(header.compression, BloomFilterCompression.UNCOMPRESSED)
    if num_bytes <= 0 or num_bytes % 32:
        raise FormatError(
            f"the Bloom filter header claims a bitset of {num_bytes} bytes; expected a positive multiple of 32"
        )
    if num_bytes > MAX_BITSET_BYTES:
        raise LimitError(
            f"the Bloom filter header claims a bitset of {num_bytes} bytes; at most {MAX_BITSET_BYTES} are read"
        )
    return reader.position, num_bytes


@lru_cache(maxsize=32)
def header_bytes(num_bytes: int) -> bytes:
    """The header in front of a bitset of `num_bytes` bytes: BLOCK, XXHASH, UNCOMPRESSED."""
    header = BloomFilterHeader(
        num_bytes=num_bytes,
        algorithm=BloomFilterAlgorithm(BLOCK=Empty()),
        hash=BloomFilterHash(XXHASH=Empty()),
        compression=BloomFilterCompression(UNCOMPRESSED=Empty()),
    )
    return write_struct(header)


def parse_headers(
    heads: NDArray[np.uint8], sizes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], dict[int, BloomParquetError]]:
    """Parse n headers.

    `heads` has shape (n, at most :data:`MAX_HEADER_BYTES`): the first bytes of n filters, of which ``sizes[i]`` are
    valid. Returns header sizes (n,), bitset sizes (n,), and errors by row. Both sizes are 0 for a header with an error.
    """
    header_bytes = np.zeros(len(heads), np.int64)
    bitset_bytes = np.zeros(len(heads), np.int64)
    errors: dict[int, BloomParquetError] = {}
    pending = np.arange(len(heads))
    while len(pending):
        first = pending[0]
        try:
            size, bitset = parse_header(heads[first, : sizes[first]].tobytes())
        except BloomParquetError as error:
            errors[int(first)] = error
            pending = pending[1:]
            continue
        # The compact protocol is prefix-free: equal first bytes are an equal header.
        same = (heads[pending, :size] == heads[first, :size]).all(axis=1) & (sizes[pending] >= size)
        header_bytes[pending[same]] = size
        bitset_bytes[pending[same]] = bitset
        pending = pending[~same]
    return header_bytes, bitset_bytes, errors


def _require(union: ThriftStruct, member: Field[Empty]) -> None:
    """FormatError or UnsupportedError unless `union` holds `member` alone, the only one that the format defines."""
    if not union:
        raise FormatError(f"the Bloom filter header has an empty {member.owner}; expected {member.name}")
    if union.member() != member.name:
        raise UnsupportedError(
            f"the Bloom filter header has member {join_names(map(str, union))} of {member.owner}; "
            f"only the struct {member.id} ({member.name}) is supported"
        )


def _refuse_murmur3(buffer: bytes | memoryview) -> None:
    """UnsupportedError for the layout before the format's release: three little-endian integers, for the bitset's size,
    the hash strategy (0 is Murmur3) and the algorithm (0)."""
    if len(buffer) < 12:
        return
    num_bytes, strategy, algorithm = (int.from_bytes(buffer[i : i + 4], "little") for i in (0, 4, 8))
    if num_bytes and num_bytes % 32 == 0 and num_bytes <= MAX_BITSET_BYTES and strategy == 0 and algorithm == 0:
        raise UnsupportedError("the Bloom filter has the deprecated Murmur3 layout; only XXHASH filters are supported")
