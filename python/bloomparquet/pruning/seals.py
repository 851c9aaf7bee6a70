"""What is different about the filters of encrypted columns: each is two modules, header and bitset, which open whole
or not at all.

Source: parquet-format ``BloomFilter.md`` ("Encryption"), ``Encryption.md`` (section 5.1).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError, FormatError
from bloomparquet.format.bloom import MAX_HEADER_BYTES, MAX_SEALED_HEADER_BYTES
from bloomparquet.format.crypto import OVERHEAD, Module, module_size
from bloomparquet.format.sealed import ChunkCipher
from bloomparquet.storage import Ranges


class Seals:
    """The seals on the filters of n column chunks: `ciphers` has one for each that is encrypted, and None for others;
    None is no encryption at all."""

    def __init__(self, ciphers: Sequence[ChunkCipher | None] | None, n: int) -> None:
        self.ciphers = ciphers
        self.on = np.array([cipher is not None for cipher in ciphers or [None] * n], np.bool_)  # (n,)

    def overhead(self, chunks: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many bytes each bitset takes more in its file than in memory."""
        return np.where(self.on[chunks], OVERHEAD, 0)

    def open_headers(
        self,
        chunks: NDArray[np.int64],
        ranges: Ranges,
        sizes: NDArray[np.int64],
        heads: NDArray[np.uint8],
        head_sizes: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], dict[int, BloomParquetError]]:
        """The headers of the filters of `chunks`, of which ``sizes[i]`` bytes begin at ``ranges.starts[i]``: of those
        that are encrypted, ``heads[i]`` and ``head_sizes[i]`` become what is in them, nothing where they do not open.
        Gives the bytes that each takes in its file, 0 for one in plain text, and the errors by row."""
        modules = np.zeros(len(chunks), np.int64)
        errors: dict[int, BloomParquetError] = {}
        for row in np.flatnonzero(self.on[chunks]).tolist():
            heads[row] = head_sizes[row] = 0
            start = ranges.starts[row]
            try:
                header, modules[row] = self._header(int(chunks[row]), ranges.buffer[start : start + sizes[row]])
            except BloomParquetError as error:
                errors[row] = error
            else:
                heads[row, : len(header)] = header
                head_sizes[row] = len(header)
        return modules, errors

    def _header(self, chunk: int, data: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], int]:
        size = module_size(data.data)
        if size > min(len(data), MAX_SEALED_HEADER_BYTES):
            raise FormatError(f"its encrypted header claims {size} bytes; expected {MAX_SEALED_HEADER_BYTES} at most")
        header = self._cipher(chunk).open(data.data[:size], Module.BLOOM_FILTER_HEADER)
        return np.frombuffer(header, np.uint8)[:MAX_HEADER_BYTES], size

    def bitset(self, chunk: int, data: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The bitset of which `data` are all the bytes in its file. EncryptionError where it does not open."""
        if not self.on[chunk]:
            return data
        return np.frombuffer(self._cipher(chunk).open(data.data, Module.BLOOM_FILTER_BITSET), np.uint8)

    def _cipher(self, chunk: int) -> ChunkCipher:
        cipher = self.ciphers[chunk] if self.ciphers is not None else None
        assert cipher is not None
        return cipher
