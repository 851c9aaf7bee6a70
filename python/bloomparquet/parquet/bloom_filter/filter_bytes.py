"""Parses and decrypts filters from byte ranges of their files.

The filter of an encrypted column is two encrypted modules, header and bitset. A module can only be decrypted whole.

Source: parquet-format ``BloomFilter.md`` ("Encryption"), ``Encryption.md`` (section 5.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError, EncryptionError
from bloomparquet.parquet.bloom_filter.header import MAX_ENCRYPTED_HEADER_BYTES, MAX_HEADER_BYTES, parse_headers
from bloomparquet.parquet.bloom_filter.sizes import BYTES_PER_BLOCK
from bloomparquet.parquet.encryption.file_crypto import ChunkCipher
from bloomparquet.parquet.encryption.modules import OVERHEAD, Module, module_size
from bloomparquet.storage.ranges import Ranges


class Headers(NamedTuple):
    """The headers of n filters, as arrays of shape (n,).

    `header_bytes` and `stored_bytes` are the sizes of header and bitset in the file, `num_bytes` the size of the
    decrypted bitset. All are 0 for a header that cannot be used; `errors` has the reason by position.
    """

    header_bytes: NDArray[np.int64]
    stored_bytes: NDArray[np.int64]
    num_bytes: NDArray[np.int64]
    errors: dict[int, BloomParquetError]


class FilterCiphers:
    """Decrypts the filters of n column chunks. ``ciphers[i]``: the cipher of chunk i, None if it is not encrypted;
    `ciphers` itself is None if no chunk is encrypted. `encrypted` (n,): which chunks are encrypted."""

    def __init__(self, ciphers: Sequence[ChunkCipher | None] | None, n: int) -> None:
        self.ciphers = ciphers
        self.encrypted = np.zeros(n, np.bool_)
        if ciphers is not None:
            self.encrypted[:] = [cipher is not None for cipher in ciphers]

    def overhead(self, chunks: NDArray[np.int64]) -> NDArray[np.int64]:
        """The bytes that encryption adds to each bitset."""
        return np.where(self.encrypted[chunks], OVERHEAD, 0)

    @property
    def max_header_bytes(self) -> NDArray[np.int64]:
        """The most bytes that each header can take, shape (n,)."""
        return np.where(self.encrypted, MAX_ENCRYPTED_HEADER_BYTES, MAX_HEADER_BYTES)

    def headers(self, chunks: NDArray[np.int64], ranges: Ranges, sizes: NDArray[np.int64]) -> Headers:
        """Parse the headers of the filters of `chunks`: ``sizes[i]`` bytes of each begin at ``ranges.starts[i]``."""
        heads, head_sizes = _first_bytes(ranges, sizes), np.minimum(sizes, MAX_HEADER_BYTES)
        modules = np.zeros(len(chunks), np.int64)
        decryption_errors: dict[int, BloomParquetError] = {}
        for row in np.flatnonzero(self.encrypted[chunks]).tolist():
            heads[row] = head_sizes[row] = 0
            start = ranges.starts[row]
            try:
                header, modules[row] = self._decrypt_header(int(chunks[row]), ranges.buffer[start : start + sizes[row]])
            except BloomParquetError as error:
                decryption_errors[row] = error
            else:
                heads[row, : len(header)] = header
                head_sizes[row] = len(header)
        header_bytes, num_bytes, errors = parse_headers(heads, head_sizes)
        header_bytes = np.where((header_bytes > 0) & (modules > 0), modules, header_bytes)
        return Headers(header_bytes, num_bytes + self.overhead(chunks), num_bytes, {**errors, **decryption_errors})

    def decrypt_bitsets(
        self, chunks: NDArray[np.int64], ranges: Ranges, sizes: NDArray[np.int64]
    ) -> tuple[dict[int, NDArray[np.uint8]], dict[int, BloomParquetError]]:
        """The bitsets of the filters of `chunks`, by chunk, and the errors of those that cannot be decrypted. In the
        file, each has ``sizes[i]`` bytes, which begin at ``ranges.starts[i]``."""
        bitsets, errors = {}, dict[int, BloomParquetError]()
        for chunk, start, size in zip(chunks.tolist(), ranges.starts.tolist(), sizes.tolist(), strict=True):
            data = ranges.buffer[start : start + size]
            try:
                if self.encrypted[chunk]:
                    plain = self._cipher(chunk).decrypt(data.data, Module.BLOOM_FILTER_BITSET)
                    data = np.frombuffer(plain, np.uint8)
                bitsets[chunk] = data
            except EncryptionError as error:
                errors[chunk] = error
        return bitsets, errors

    def _decrypt_header(self, chunk: int, data: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], int]:
        """The header at the start of `data`, and the size of its module."""
        size = module_size(data.data)
        if size > min(len(data), MAX_ENCRYPTED_HEADER_BYTES):
            raise EncryptionError(
                f"its encrypted header claims {size} bytes; expected at most {MAX_ENCRYPTED_HEADER_BYTES}"
            )
        header = self._cipher(chunk).decrypt(data.data[:size], Module.BLOOM_FILTER_HEADER)
        return np.frombuffer(header, np.uint8)[:MAX_HEADER_BYTES], size

    def _cipher(self, chunk: int) -> ChunkCipher:
        cipher = self.ciphers[chunk] if self.ciphers is not None else None
        assert cipher is not None
        return cipher


def _first_bytes(ranges: Ranges, sizes: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The first bytes of each range, shape (n, MAX_HEADER_BYTES). Shorter ranges are padded with zeros."""
    heads = np.zeros((len(sizes), MAX_HEADER_BYTES), np.uint8)
    for i in np.flatnonzero(sizes < MAX_HEADER_BYTES).tolist():
        heads[i, : sizes[i]] = ranges.buffer[ranges.starts[i] : ranges.starts[i] + sizes[i]]
    long = np.flatnonzero(sizes >= MAX_HEADER_BYTES)
    if len(long):
        heads[long] = Ranges(ranges.buffer, ranges.starts[long]).rows(MAX_HEADER_BYTES)
    return heads


def any_set(buffer: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each range of `buffer` has a bit set."""
    result = np.zeros(len(starts), np.bool_)
    with_block = np.flatnonzero(sizes >= BYTES_PER_BLOCK)  # the first block of a filter is hardly ever empty
    if len(with_block):
        result[with_block] = Ranges(buffer, starts[with_block]).rows(BYTES_PER_BLOCK).any(axis=1)
    for i in np.flatnonzero(~result).tolist():
        result[i] = buffer[starts[i] : starts[i] + sizes[i]].any()
    return result
