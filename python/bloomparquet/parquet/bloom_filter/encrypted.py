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
from bloomparquet.parquet.bloom_filter.header import MAX_HEADER_BYTES, MAX_SEALED_HEADER_BYTES, parse_headers
from bloomparquet.parquet.bloom_filter.ranges import first_bytes
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


class Seals:
    """The seals on the filters of n column chunks: `ciphers` has one for each that is encrypted, and None for others;
    None is no encryption at all."""

    def __init__(self, ciphers: Sequence[ChunkCipher | None] | None, n: int) -> None:
        self.ciphers = ciphers
        self.on = np.array([cipher is not None for cipher in ciphers or [None] * n], np.bool_)  # (n,)

    def overhead(self, chunks: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many bytes each bitset takes more in its file than in memory."""
        return np.where(self.on[chunks], OVERHEAD, 0)

    @property
    def header_room(self) -> NDArray[np.int64]:
        """How many bytes are enough for each header, shape (n,)."""
        return np.where(self.on, MAX_SEALED_HEADER_BYTES, MAX_HEADER_BYTES)

    def headers(self, chunks: NDArray[np.int64], ranges: Ranges, sizes: NDArray[np.int64]) -> Headers:
        """The headers of the filters of `chunks`, of which ``sizes[i]`` bytes begin at ``ranges.starts[i]``."""
        heads, head_sizes = first_bytes(ranges, sizes), np.minimum(sizes, MAX_HEADER_BYTES)
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
        if size > min(len(data), MAX_SEALED_HEADER_BYTES):
            raise EncryptionError(
                f"its encrypted header claims {size} bytes; expected {MAX_SEALED_HEADER_BYTES} at most"
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
