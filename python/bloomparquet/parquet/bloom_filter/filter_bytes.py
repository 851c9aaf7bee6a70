"""What is different about the filters of encrypted columns: each is two modules, header and bitset, which open whole
or not at all.

Source: parquet-format ``BloomFilter.md`` ("Encryption"), ``Encryption.md`` (section 5.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError, EncryptionError
from bloomparquet.parquet.bloom_filter.header import MAX_ENCRYPTED_HEADER_BYTES, MAX_HEADER_BYTES, parse_headers
from bloomparquet.parquet.bloom_filter.split_block import BYTES_PER_BLOCK
from bloomparquet.parquet.encryption.file_crypto import ChunkCipher
from bloomparquet.parquet.encryption.modules import OVERHEAD, Module, module_size
from bloomparquet.storage.ranges import Ranges


class Headers(NamedTuple):
    """What n headers say, all of shape (n,): the bytes that each takes in its file, 0 where it cannot be used; those
    that its bitset takes there; and those that the bitset has. `errors` says by place why headers cannot be used."""

    taken: NDArray[np.int64]
    stored: NDArray[np.int64]
    num_bytes: NDArray[np.int64]
    errors: dict[int, BloomParquetError]


class FilterCiphers:
    """The seals on the filters of n column chunks: `ciphers` has one for each that is encrypted, and None for others;
    None is no encryption at all."""

    def __init__(self, ciphers: Sequence[ChunkCipher | None] | None, n: int) -> None:
        self.ciphers = ciphers
        self.on = np.array([cipher is not None for cipher in ciphers or [None] * n], np.bool_)  # (n,)

    def overhead(self, chunks: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many bytes each bitset takes more in its file than in memory."""
        return np.where(self.on[chunks], OVERHEAD, 0)

    @property
    def max_header_bytes(self) -> NDArray[np.int64]:
        """How many bytes are enough for each header, shape (n,)."""
        return np.where(self.on, MAX_ENCRYPTED_HEADER_BYTES, MAX_HEADER_BYTES)

    def headers(self, chunks: NDArray[np.int64], ranges: Ranges, sizes: NDArray[np.int64]) -> Headers:
        """The headers of the filters of `chunks`, of which ``sizes[i]`` bytes begin at ``ranges.starts[i]``."""
        heads, head_sizes = _first_bytes(ranges, sizes), np.minimum(sizes, MAX_HEADER_BYTES)
        modules = np.zeros(len(chunks), np.int64)
        locked: dict[int, BloomParquetError] = {}
        for row in np.flatnonzero(self.on[chunks]).tolist():
            heads[row] = head_sizes[row] = 0
            start = ranges.starts[row]
            try:
                header, modules[row] = self._header(int(chunks[row]), ranges.buffer[start : start + sizes[row]])
            except BloomParquetError as error:
                locked[row] = error
            else:
                heads[row, : len(header)] = header
                head_sizes[row] = len(header)
        taken, num_bytes, errors = parse_headers(heads, head_sizes)
        taken = np.where((taken > 0) & (modules > 0), modules, taken)
        return Headers(taken, num_bytes + self.overhead(chunks), num_bytes, {**errors, **locked})

    def _header(self, chunk: int, data: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], int]:
        size = module_size(data.data)
        if size > min(len(data), MAX_ENCRYPTED_HEADER_BYTES):
            raise EncryptionError(
                f"its encrypted header claims {size} bytes; expected {MAX_ENCRYPTED_HEADER_BYTES} at most"
            )
        header = self._cipher(chunk).decrypt(data.data[:size], Module.BLOOM_FILTER_HEADER)
        return np.frombuffer(header, np.uint8)[:MAX_HEADER_BYTES], size

    def bitset(self, chunk: int, data: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The bitset of which `data` are all the bytes in its file. EncryptionError where it does not open."""
        if not self.on[chunk]:
            return data
        return np.frombuffer(self._cipher(chunk).decrypt(data.data, Module.BLOOM_FILTER_BITSET), np.uint8)

    def _cipher(self, chunk: int) -> ChunkCipher:
        cipher = self.ciphers[chunk] if self.ciphers is not None else None
        assert cipher is not None
        return cipher


def _first_bytes(ranges: Ranges, sizes: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The first bytes of every range, padded with zeros where it has fewer."""
    heads = np.zeros((len(sizes), MAX_HEADER_BYTES), np.uint8)
    for i in np.flatnonzero(sizes < MAX_HEADER_BYTES).tolist():
        heads[i, : sizes[i]] = ranges.buffer[ranges.starts[i] : ranges.starts[i] + sizes[i]]
    long = np.flatnonzero(sizes >= MAX_HEADER_BYTES)
    if len(long):
        heads[long] = Ranges(ranges.buffer, ranges.starts[long]).rows(MAX_HEADER_BYTES)
    return heads


def any_set(buffer: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each range of `buffer` holds a byte that is not zero; the first bytes nearly always tell."""
    result = np.zeros(len(starts), np.bool_)
    quick = np.flatnonzero(sizes >= BYTES_PER_BLOCK)
    if len(quick):
        result[quick] = np.lib.stride_tricks.sliding_window_view(buffer, BYTES_PER_BLOCK)[starts[quick]].any(axis=1)
    for i in np.flatnonzero(~result).tolist():
        result[i] = buffer[starts[i] : starts[i] + sizes[i]].any()
    return result


def as_blocks(
    buffer: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64]
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Ranges that begin anywhere in `buffer` as one (blocks, 8) matrix, and the block at which each begins."""
    ends = np.cumsum(sizes)
    packed = np.empty(int(ends[-1]), np.uint8)
    for start, size, end in zip(starts.tolist(), sizes.tolist(), ends.tolist(), strict=True):
        packed[end - size : end] = buffer[start : start + size]
    return packed.view("<u4").reshape(-1, 8), (ends - sizes) // BYTES_PER_BLOCK
