"""The filters of a column, in a storage in memory that records its reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.parquet.encryption.file_crypto import ChunkCipher
from bloomparquet.parquet.encryption.modules import Cipher, Module
from bloomparquet.planning.evidence.interface import Counts, Question
from bloomparquet.planning.parquet.column_arrays import ChunkLocations, ColumnArrays
from bloomparquet.planning.parquet.filter_facts import FilterFacts
from bloomparquet.planning.parquet.filters import ParquetFilters
from bloomparquet.storage.files import FileInfo, ReadCount
from tests.support.core import bloom_header

BLOCKS = [0, 100, 140, 600, 700, 2_000, 3_000, 4_095]
"""Each of the last hashes sets bits in one of these blocks of a filter of LARGE blocks."""

HASHES = np.concatenate(
    [
        np.random.default_rng(3).integers(0, 2**64, 6_000, np.uint64),
        np.array([(block << 52) + 12_345 for block in BLOCKS], np.uint64),
    ]
)
FIRST_READ = 4096 + 64  # bytes
SMALL, MEDIUM, LARGE = 4, 512, 4096  # blocks: in the first read; read whole if the length is known; never
CIPHER = ChunkCipher(Cipher(bytes(16), b"aad"), 0, 0)
GAP = b"\xff" * 5  # before each filter


@dataclass
class Memory:
    """A storage of files in memory. `reads`: the name of the file, the offset and the size of each read."""

    files: dict[str, bytes]
    merge_gap: int = 0
    batch_bytes: int = 1 << 24
    threads: int = 1
    reads: list[tuple[str, int, int]] = field(default_factory=list)

    def read_into(self, path: str, offsets: Sequence[int], views: Sequence[memoryview], threads: int = 1) -> None:
        for offset, view in zip(offsets, views, strict=True):
            self.reads.append((path, offset, len(view)))
            view[:] = self.files[path][offset : offset + len(view)]

    def take_reads(self) -> list[tuple[int, int]]:
        """The reads since the last call, as offset and size."""
        reads = [(offset, size) for _, offset, size in self.reads]
        self.reads.clear()
        return reads


@dataclass(frozen=True)
class Chunk:
    """A filter of `n_blocks` blocks that holds the hashes at `values` of HASHES; no filter if `n_blocks` is 0.

    `has_length`: the footer has its length. `filled`: the column is known to have values. `encrypted`: with CIPHER.
    """

    n_blocks: int
    values: slice
    has_length: bool = True
    filled: bool = True
    encrypted: bool = False

    @property
    def bloom(self) -> SplitBlockBloomFilter:
        bloom = SplitBlockBloomFilter.empty(self.n_blocks)
        bloom.insert(HASHES[self.values])
        return bloom

    @property
    def data(self) -> bytes:
        header, bitset = bloom_header(32 * self.n_blocks), self.bloom.to_bytes()
        if self.encrypted:
            header = CIPHER.encrypt(header, Module.BLOOM_FILTER_HEADER)
            bitset = CIPHER.encrypt(bitset, Module.BLOOM_FILTER_BITSET)
        return header + bitset


class Column:
    """The filters of `files`, each of which is a list of chunks."""

    def __init__(self, files: Sequence[Sequence[Chunk]], **storage: int) -> None:
        self.chunks = [chunk for file in files for chunk in file]
        contents: dict[str, bytes] = {}
        offsets, limits = [], []
        for i, file in enumerate(files):
            data = b"PAR1"
            for chunk in file:
                data += GAP
                offsets.append(len(data) if chunk.n_blocks else -1)
                data += chunk.data if chunk.n_blocks else b""
            contents[f"{i}.parquet"] = data + b"\xff" * 40
            limits += [len(data)] * len(file)
        self.storage, self.count = Memory(contents, **storage), ReadCount()
        self.offset, self.limit = np.array(offsets), np.array(limits)
        self.header = [len(bloom_header(32 * chunk.n_blocks)) for chunk in self.chunks]
        self.length = np.array(
            [len(chunk.data) if chunk.n_blocks and chunk.has_length else -1 for chunk in self.chunks]
        )
        self.file = np.repeat(np.arange(len(files)), [len(file) for file in files])
        self.row_group = np.concatenate([np.arange(len(file)) for file in files])
        self.files = [FileInfo(name, len(content), 0) for name, content in contents.items()]
        self.filters = self.store()

    def store(self, known: FilterFacts | None = None) -> ParquetFilters:
        n = len(self.chunks)
        arrays = ColumnArrays(
            bounds=None, counts=Counts(np.zeros(n, np.int64), np.zeros(n, np.int64)), offset=self.offset,
            length=self.length, filled=np.array([chunk.filled for chunk in self.chunks]),
            filter_facts=FilterFacts.unread(self.offset) if known is None else known,
            ciphers=[CIPHER if chunk.encrypted else None for chunk in self.chunks],
        )  # fmt: skip
        locations = ChunkLocations("x", self.files, self.file, self.row_group, self.limit)
        return ParquetFilters(locations, arrays)

    def ask(self, chunks: Sequence[int], first: Sequence[int], last: Sequence[int]) -> list[bool]:
        which, begin, end = (np.array(each, np.int64) for each in (chunks, first, last))
        low, high = begin.min(), end.max()
        asked = Question(self.storage, which, begin - low, end - low, HASHES[low:high], self.count)
        answers: list[bool] = self.filters.check(asked).tolist()
        return answers

    def ask_all(self, value: int, until: int | None = None) -> list[bool]:
        n = len(self.chunks)
        return self.ask(range(n), [value] * n, [value + 1 if until is None else until] * n)


# Each holds the 200 hashes from 200 times its number on, but for those in which no bit is set.
MIXED = [
    [Chunk(SMALL, slice(0, 200)), Chunk(0, slice(0)), Chunk(SMALL, slice(400, 600), has_length=False)],
    [Chunk(MEDIUM, slice(600, 800)), Chunk(MEDIUM, slice(800, 1000), has_length=False), Chunk(LARGE, slice(0))],
    [Chunk(LARGE, slice(1200, 1400)), Chunk(LARGE, slice(0), filled=False), Chunk(127, slice(1600, 1800))],
    [Chunk(128, slice(1800, 2000)), Chunk(LARGE + 3, slice(2000, 2200), has_length=False), Chunk(1, slice(0))],
]


def expected(chunk: Chunk, first: int, last: int) -> bool:
    """Whether the filter passes one of the values. Without a set bit, it proves nothing."""
    return not chunk.n_blocks or not chunk.bloom.bits_set or bool(chunk.bloom.check(HASHES[first:last]).any())


def encrypted(which: set[int]) -> list[list[Chunk]]:
    """The filters of MIXED, of which those in the files `which` are encrypted."""
    return [[replace(chunk, encrypted=i in which) for chunk in file] for i, file in enumerate(MIXED)]
