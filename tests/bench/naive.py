"""A naive planner to compare with: a Python loop over row groups.

It handles only these data sets: one INT64 column, filters with a length in the footer, and no damage.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, field

import pyarrow.parquet as pq
import xxhash

from bloomparquet.parquet.bloom_filter.header import parse_header
from bloomparquet.parquet.bloom_filter.split_block import SALTS

_SALTS = [int(salt) for salt in SALTS]
_HEADER_BYTES = 64


@dataclass
class NaivePlanner:
    """Caches what it reads, as the planner does. A new one is cold."""

    metadata: dict[tuple[str, int, int], pq.FileMetaData] = field(default_factory=dict)
    bitsets: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    requests: int = 0
    bytes_read: int = 0

    def plan(self, directory: str, column: int, value: int) -> list[tuple[str, int]]:
        """The pairs of path and row group that might hold the INT64 `value` in leaf column number `column`."""
        self.requests = self.bytes_read = 0
        kept = []
        digest = xxhash.xxh64_intdigest(struct.pack("<q", value))
        key = digest & 0xFFFFFFFF
        bits = [1 << ((key * salt & 0xFFFFFFFF) >> 27) for salt in _SALTS]
        with os.scandir(directory) as entries:
            files = sorted((entry.path, entry.stat()) for entry in entries)
        for path, status in files:
            metadata = self._metadata(path, status)
            descriptor = None
            try:
                for number in range(metadata.num_row_groups):
                    chunk = metadata.row_group(number).column(column)
                    statistics = chunk.statistics
                    bounded = statistics is not None and statistics.has_min_max
                    if bounded and not statistics.min_raw <= value <= statistics.max_raw:
                        continue
                    if chunk.bloom_filter_offset is None:
                        kept.append((path, number))
                        continue
                    if descriptor is None:
                        descriptor = os.open(path, os.O_RDONLY)
                    if (path, number) not in self.bitsets:
                        head = self._pread(descriptor, _HEADER_BYTES, chunk.bloom_filter_offset)
                        size, bitset_bytes = parse_header(head)
                        self.bitsets[path, number] = chunk.bloom_filter_offset + size, bitset_bytes // 32
                    start, n_blocks = self.bitsets[path, number]
                    block = self._pread(descriptor, 32, start + 32 * ((digest >> 32) * n_blocks >> 32))
                    if all(word & bit for word, bit in zip(struct.unpack("<8I", block), bits)):
                        kept.append((path, number))
            finally:
                if descriptor is not None:
                    os.close(descriptor)
        return kept

    def _metadata(self, path: str, status: os.stat_result) -> pq.FileMetaData:
        identity = (path, status.st_size, status.st_mtime_ns)
        if identity not in self.metadata:
            self.metadata[identity] = pq.read_metadata(path)
            self.requests += 1
            self.bytes_read += self.metadata[identity].serialized_size + 8
        return self.metadata[identity]

    def _pread(self, descriptor: int, size: int, offset: int) -> bytes:
        self.requests += 1
        self.bytes_read += size
        return os.pread(descriptor, size, offset)
