"""The filters of a column in files in memory: every answer is that of the filter, and reads are small and few."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from bloomparquet.errors import BloomParquetError, EncryptionError, FormatError
from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter, block_index
from bloomparquet.parquet.encryption.file_crypto import ChunkCipher
from bloomparquet.parquet.encryption.modules import Cipher, Module
from bloomparquet.planning.evidence.interface import Question
from bloomparquet.planning.evidence.tiles import TiledFilters
from bloomparquet.planning.parquet import filters as parquet_filters
from bloomparquet.planning.parquet.column_arrays import ChunkPlaces, ColumnArrays
from bloomparquet.planning.parquet.filters import ExpressionFilters, ParquetFilters
from bloomparquet.planning.parquet.known_filters import KnownFilters
from bloomparquet.storage.files import ReadCount
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

    def read_into(self, path: str, offsets: Sequence[int], views: Sequence[memoryview]) -> None:
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
        self.paths = list(contents)
        self.filters = self.store()

    def store(self, known: KnownFilters | None = None) -> ParquetFilters:
        n = len(self.chunks)
        arrays = ColumnArrays(
            bounds=None, nulls=np.zeros(n, np.int64), values=np.zeros(n, np.int64), offset=self.offset,
            length=self.length, filled=np.array([chunk.filled for chunk in self.chunks]),
            known_filters=KnownFilters.unread(self.offset) if known is None else known,
            ciphers=[CIPHER if chunk.encrypted else None for chunk in self.chunks],
        )  # fmt: skip
        return ParquetFilters(ChunkPlaces("x", self.paths, self.file, self.row_group, self.limit), arrays)

    def ask(self, chunks: Sequence[int], first: Sequence[int], last: Sequence[int]) -> list[bool]:
        which, begin, end = (np.array(each, np.int64) for each in (chunks, first, last))
        low, high = begin.min(), end.max()
        asked = Question(self.storage, which, begin - low, end - low, HASHES[low:high], self.count)
        answers, unusable = self.filters.check(asked)
        assert unusable == sum(chunk in self.filters.errors for chunk in chunks)
        return answers.tolist()

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


@pytest.mark.parametrize("which", [set(), {0, 2}, {1, 2, 3}])
@pytest.mark.parametrize(("gap", "batch_bytes"), [*product((0, 64, 8192), (64, 20_000, 1 << 24))])
def test_every_answer_is_that_of_the_filter(gap: int, batch_bytes: int, which: set[int]) -> None:
    rng = np.random.default_rng(gap + batch_bytes)
    column = Column(encrypted(which), merge_gap=gap, batch_bytes=batch_bytes)
    skipped = 0
    for most in (1, 1, 3, 40, 400, 3_000):
        chunks = rng.permutation(len(column.chunks))[: rng.integers(6, 13)].tolist()
        first = rng.integers(0, 3_000, len(chunks)).tolist()
        last = [begin + int(rng.integers(1, most + 1)) for begin in first]
        answers = column.ask(chunks, first, last)
        assert answers == [expected(column.chunks[chunk], *pair) for chunk, *pair in zip(chunks, first, last)]
        skipped += answers.count(False)
    assert skipped
    for i, chunk in enumerate(column.chunks):
        if chunk.values.stop:
            assert column.ask([i], [chunk.values.stop - 1], [chunk.values.stop]) == [True]
    assert set(column.filters.errors) == {5, 11}  # not those without a value


@pytest.mark.parametrize("n_blocks", [64, LARGE])
@pytest.mark.parametrize("at", [0, 31, 32, 287, 288, 2_335, 2_336, 2_999])
def test_no_value_of_a_long_list_is_left_out(n_blocks: int, at: int) -> None:
    """Filters are asked for 32, 256, 2,048 and all other values, and no further if one passes."""
    column = Column([[Chunk(n_blocks, slice(2_000 + at, 2_001 + at)), Chunk(n_blocks, slice(0, 1))]])
    assert column.ask([0, 1], [2_000, 2_000], [5_000, 5_000]) == [True, False]
    assert column.ask([0], [2_000], [2_000 + at]) == [False]
    assert column.ask([0], [2_001 + at], [5_000]) == [False]


# --- what is read


@pytest.mark.parametrize("blocks", [1, 4, 127, 128, 129, 500, 512, 513])
@pytest.mark.parametrize("has_length", [True, False])
def test_the_first_read_takes_the_header_and_small_bitsets(blocks: int, has_length: bool) -> None:
    column = Column([[Chunk(blocks, slice(0, 9), has_length), Chunk(LARGE, slice(0, 9))]])
    whole = column.header[0] + 32 * blocks
    is_small = whole <= 4 * 4096 + 64
    first = max(whole, 64) if has_length and is_small else FIRST_READ
    block = int(block_index(HASHES[20:21], blocks)[0])
    at = int(column.offset[0])
    expected = [(at, first)]
    if not whole <= first:
        expected.append((at + column.header[0] + 32 * block, 32))
    assert not column.ask([0], [20], [21])[0]
    assert column.storage.take_reads() == expected
    assert (column.count.requests, column.count.bytes) == (len(expected), sum(size for _, size in expected))
    block = int(block_index(HASHES[21:22], blocks)[0])
    assert not column.ask([0], [21], [22])[0]
    assert column.storage.take_reads() == ([(at + column.header[0] + 32 * block, 32)] if expected[1:] else [])


def test_the_first_read_ends_before_the_footer() -> None:
    column = Column([[Chunk(2, slice(0, 1), has_length=False)]])
    assert column.ask_all(20) == [False]
    assert column.storage.take_reads() == [(9, column.header[0] + 64)]


def test_a_bitset_is_read_whole_if_its_blocks_cost_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block costs half a gap, within which reads are merged, and itself. None is read for a copy here."""
    monkeypatch.setattr(parquet_filters, "_COPIED_BYTES", 0)
    cost = 4096
    values = 32 * LARGE // cost
    for asked, is_whole in ((values - 1, False), (values, True)):
        column = Column([[Chunk(LARGE, slice(0, 400))] * 2], merge_gap=2 * (cost - 32))
        assert column.ask([0, 1], [5_000, 5_900], [5_000 + asked, 5_901]) == [False, False]
        bitsets = [(int(column.offset[i]) + column.header[i], 32 * LARGE) for i in (0, 1)]
        reads = column.storage.take_reads()
        assert [bitset in reads for bitset in bitsets] == [is_whole, False]


def spans(column: Column, groups: Sequence[Sequence[int]], begin: int, size: int) -> list[tuple[int, int]]:
    """One read for the chunks of each group, from `begin` bytes after the first filter's offset on."""
    starts = [(int(column.offset[group[0]]) + begin, int(column.offset[group[-1]]) + begin) for group in groups]
    return [(first, last - first + size) for first, last in starts]


def test_filters_are_read_in_batches() -> None:
    """Headers, blocks and bitsets: all that begin in the same `batch_bytes`. Those of a batch are merged here."""
    chunk = Chunk(LARGE, slice(0, 400), has_length=False)
    column = Column([[chunk] * 5], merge_gap=33 * LARGE, batch_bytes=9_000)
    assert column.ask_all(5_000) == [False] * 5
    block = 32 * int(block_index(HASHES[5_000:5_001], LARGE)[0])
    headers = spans(column, [[0, 1], [2, 3], [4]], 0, FIRST_READ)
    blocks = spans(column, [[i] for i in range(5)], column.header[0] + block, 32)
    assert column.storage.take_reads() == headers + blocks
    column = Column([[chunk] * 5], merge_gap=33 * LARGE, batch_bytes=2 * 32 * LARGE)
    assert column.ask_all(5_000) == [False] * 5
    cost = 33 * LARGE // 2 + 32
    first = [i * cost // column.storage.batch_bytes for i in range(5)]
    groups = [[i for i in range(5) if first[i] == batch] for batch in sorted(set(first))]
    assert column.storage.take_reads()[-len(groups) :] == spans(column, groups, column.header[0] + block, 32)
    column = Column([[chunk] * 5], merge_gap=33 * LARGE, batch_bytes=2 * 32 * LARGE)
    assert column.ask_all(5_000, 5_010) == [False] * 5
    assert column.storage.take_reads()[1:] == spans(column, [[0, 1], [2, 3], [4]], column.header[0], 32 * LARGE)


def test_only_filters_that_are_read_fill_a_batch() -> None:
    """Neither those in memory nor those that cannot be used."""
    large = Chunk(LARGE, slice(0, 400))
    column = Column([[Chunk(128, slice(0, 9)), large, large]], merge_gap=33 * LARGE, batch_bytes=32 * LARGE + 1)
    assert column.ask_all(5_000, 5_010) == [False] * 3
    assert column.storage.take_reads()[-1:] == spans(column, [[1, 2]], column.header[1], 32 * LARGE)
    chunks = [Chunk(LARGE, slice(0)), Chunk(MEDIUM + 3, slice(0, 9)), large, large]
    column = Column([chunks], merge_gap=33 * LARGE, batch_bytes=100_000)
    assert column.ask([0], [20], [30]) == [True]
    assert column.ask_all(5_000, 5_010) == [True] + [False] * 3
    assert column.storage.take_reads()[-2:] == spans(column, [[1, 2], [3]], column.header[1], 32 * LARGE)


def test_a_filter_is_read_whole_when_its_blocks_have_cost_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """In all lookups together. A copy is kept then. Filters in memory need none, and take no part of the bound."""
    cost, n_lookups = 8_192, 32 * LARGE // 8_192
    monkeypatch.setattr(parquet_filters, "_COPIED_BYTES", 32 * LARGE)
    column = Column([[Chunk(SMALL, slice(0, 9)), Chunk(LARGE, slice(0, 400))]], merge_gap=2 * (cost - 32))
    whole = (int(column.offset[1]) + column.header[1], 32 * LARGE)
    lookups = []
    for value in range(5_000, 5_000 + 2 * n_lookups):
        assert column.ask_all(value) == [False, False]
        lookups.append(whole in column.storage.take_reads())
    assert [i for i, is_whole in enumerate(lookups, 1) if is_whole] == [n_lookups]


# --- filters in which few bits or none are set


@pytest.mark.parametrize("block", BLOCKS)
def test_a_filter_is_read_on_until_a_bit_is_set(block: int) -> None:
    value, other = (len(HASHES) - len(BLOCKS) + BLOCKS.index(each) for each in (block, 100 if block == 0 else 0))
    column = Column([[Chunk(LARGE, slice(value, value + 1), has_length=False)] * 2])
    assert column.ask_all(other) == [False, False]
    bit_at = column.header[0] + 32 * block
    sizes = [FIRST_READ, 32]
    for begin, end in ((1, 5), (5, 21), (21, 85)):
        if bit_at >= begin * FIRST_READ:
            sizes.append(min(end * FIRST_READ, column.header[0] + 32 * LARGE) - begin * FIRST_READ)
    assert [size for _, size in column.storage.take_reads()] == [size for size in sizes for _ in range(2)]
    assert not column.filters.errors
    assert column.ask_all(other) == [False, False]
    assert column.storage.take_reads() == []
    assert column.ask_all(value) == [True, True]


def test_filters_without_a_bit_are_read_in_batches() -> None:
    """Each of them to its end. Then they are never read again, and their row groups are kept."""
    empty = Chunk(LARGE, slice(0), has_length=False)
    column = Column(
        [[empty] * 3 + [Chunk(2 * LARGE, slice(0), False, filled=False)]], merge_gap=33 * LARGE, batch_bytes=280_000
    )
    assert column.ask_all(20) == [True] * 4
    reads = column.storage.take_reads()
    assert reads[0] == spans(column, [range(4)], 0, FIRST_READ)[0]
    assert len(reads) == 2 + 2 + 4, "headers and blocks; two steps of all filters; a step of each"
    assert reads[2:4] == [spans(column, [range(4)], at * FIRST_READ, n * FIRST_READ)[0] for at, n in ((1, 4), (5, 16))]
    ends = column.header[0] + 32 * np.array([LARGE] * 3 + [2 * LARGE])
    assert reads[4:] == [(int(column.offset[i]) + 21 * FIRST_READ, int(ends[i]) - 21 * FIRST_READ) for i in range(4)]
    assert {chunk: str(error) for chunk, error in column.filters.errors.items()} == {
        i: f"0.parquet: row group {i}, column x: its Bloom filter cannot be used: "
        "no bit of it is set although the column has values; it was never filled"
        for i in range(3)
    }
    assert column.ask_all(21, 5_000) == [True] * 4
    assert column.storage.take_reads() == []
    assert column.filters.read(column.storage, 3, column.count) is None
    with pytest.raises(FormatError, match="no bit of it is set"):
        column.filters.read(column.storage, 0, column.count)


def test_an_empty_filter_that_is_read_whole_is_not_copied() -> None:
    """A copy without a bit would exclude every value."""
    column = Column([[Chunk(LARGE, slice(0)), Chunk(LARGE, slice(0, 400))]], merge_gap=4096)
    sizes = []
    for value, until in ((5_000, 5_200), (5_000, 5_001), (5_200, 5_400), (5_001, 5_002)):
        assert column.ask_all(value, until) == [True, False]
        sizes.append(column.filters.known_filters().folded.cached_bytes)
    assert sizes[0] > 0
    assert sizes == [sizes[0]] * 4, "a filter is copied once"


# --- what is kept


@pytest.mark.parametrize("room", [0, 1, 2, 4])
def test_bitsets_are_kept_up_to_a_bound(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If not all of the larger ones fit, only those that come with the first read are kept."""
    monkeypatch.setattr(parquet_filters, "RESIDENT_BYTES", room * 32 * 128)
    column = Column([[Chunk(128, slice(i, i + 1)) for i in range(3)]])
    assert column.ask_all(20) == [False] * 3
    assert [size for _, size in column.storage.take_reads()][:3] == [len(chunk.data) for chunk in column.chunks]
    one_by_one = Column([[Chunk(128, slice(i, i + 1)) for i in range(3)]])
    for i in range(3):
        assert one_by_one.ask([i], [20], [21]) == [False]
    for each in (column, one_by_one):
        assert (each.filters.known_filters().resident_at >= 0).tolist() == [i < room for i in range(3)]
    assert column.ask_all(21) == [False] * 3
    assert len(column.storage.take_reads()) == max(0, 3 - room)
    assert [column.ask_all(i).index(True) for i in range(3)] == [0, 1, 2]
    for part in ((0, 1, 2), (1,), (2, 0)):
        assert [column.ask([i], [i], [i + 1]) for i in part] == [[True]] * len(part)


def test_medium_bitsets_are_read_whole_only_if_all_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [len(Chunk(MEDIUM, slice(0, 1)).data)] * 2
    for bound, are_kept in ((sum(sizes), True), (sum(sizes) - 1, False)):
        monkeypatch.setattr(parquet_filters, "RESIDENT_BYTES", bound)
        column = Column([[Chunk(MEDIUM, slice(0, 1))] * 2])
        assert column.ask_all(20) == [False] * 2
        first = [size for _, size in column.storage.take_reads()][:2]
        assert first == (sizes if are_kept else [FIRST_READ] * 2)
        assert (column.filters.known_filters().resident_at >= 0).tolist() == [are_kept] * 2


def test_what_was_read_serves_another_table() -> None:
    column = Column(MIXED)
    revisions = [column.filters.revision]
    for value in (20, 21):
        column.ask_all(value)
        revisions.append(column.filters.revision)
    assert revisions[0] < revisions[1] == revisions[2]
    assert column.filters.loaded_revision == revisions[0]
    known, answers = column.filters.known_filters(), column.ask_all(20)
    column.storage.take_reads()
    column.filters = column.store(known)
    assert column.filters.loaded_revision == column.filters.revision == revisions[1]
    assert column.ask_all(20) == answers
    assert column.storage.take_reads() == []
    assert set(column.filters.errors) == {5, 11}
    known.state[:], known.num_bytes[:], known.not_empty[:], known.bitset_at[:], known.resident_at[:] = 0, 0, 0, 0, -1
    assert column.ask_all(20, 23) == [expected(chunk, 20, 23) for chunk in column.chunks]


def test_memory_is_counted() -> None:
    column = Column(MIXED)
    before = column.filters.cached_bytes
    assert before == 5 * 8 * len(column.chunks)
    column.ask_all(5_000)
    known = column.filters.known_filters()
    kept = sum(32 * chunk.n_blocks for chunk, at in zip(column.chunks, known.resident_at) if at >= 0)
    assert kept == 32 * (SMALL + SMALL + MEDIUM + 127 + 128 + 1)
    assert column.filters.cached_bytes == before + kept + known.absent.cached_bytes
    column.ask_all(5_000, 6_000)
    assert column.filters.cached_bytes > before + kept + column.filters.known_filters().absent.cached_bytes


# --- whole filters


@pytest.mark.parametrize("which", [set(), {0, 2}, {1, 2, 3}])
@pytest.mark.parametrize("batch_bytes", [64, 20_000, 300_000, 1 << 24])
def test_all_filters_are_read_whole(batch_bytes: int, which: set[int]) -> None:
    column = Column(encrypted(which), batch_bytes=batch_bytes)
    bits = {i: chunk.bloom.to_bytes() for i, chunk in enumerate(column.chunks) if chunk.values.stop}
    for _ in range(2):
        read: dict[int, bytes] = {}
        sizes = []
        for chunks, bitsets in column.filters.read_all(column.storage, column.count):
            assert read.keys().isdisjoint(chunks)
            read |= {chunk: bits.tobytes() for chunk, bits in zip(chunks, bitsets, strict=True)}
            sizes.append(sum(size for _, size in column.storage.take_reads()))
        assert read == bits
        assert max(sizes[1:]) <= batch_bytes + 32 * (LARGE + 4), "one filter may be larger than a batch"
        assert len(sizes) == 2 or batch_bytes < 1 << 24, "those in memory, and the others"
        column.ask_all(20)  # finds those without a bit
        column.storage.take_reads()


def test_the_size_of_usable_filters_is_known() -> None:
    column = Column(MIXED)
    sizes = [32 * chunk.n_blocks for chunk in column.chunks]
    assert column.filters.measure(column.storage, column.count) == sum(sizes)
    column.ask_all(20)
    assert column.filters.measure(column.storage, column.count) == sum(sizes) - sizes[5] - sizes[7] - sizes[11]


def test_filters_in_memory_are_not_read_again() -> None:
    column = Column([[Chunk(LARGE, slice(0, 400))] + [Chunk(SMALL, slice(i, i + 1)) for i in range(3)]])
    assert column.filters.measure(column.storage, column.count) == 32 * (LARGE + 3 * SMALL)
    assert len(column.storage.take_reads()) == 4
    found = [*column.filters.read_all(column.storage, column.count)]
    assert [chunks for chunks, _ in found] == [[1, 2, 3], [0]]
    for chunks, bitsets in found:
        assert [bits.tobytes() for bits in bitsets] == [column.chunks[i].bloom.to_bytes() for i in chunks]
    assert column.storage.take_reads() == [(int(column.offset[0]) + column.header[0], 32 * LARGE)]
    column = Column([[Chunk(SMALL, slice(0, 1))]])
    ((chunks, _),) = column.filters.read_all(column.storage, column.count)
    assert chunks == [0]


def test_single_filters_are_read_whole() -> None:
    column = Column(MIXED)
    before = column.count.requests
    for i in (4, 0, 1, 6, 2, 8, 6, 9):
        bits = column.filters.read(column.storage, i, column.count)
        chunk = column.chunks[i]
        if not chunk.n_blocks:
            assert bits is None
            continue
        assert bits is not None
        assert (bits.tobytes(), bits.dtype, bits.ndim) == (chunk.bloom.to_bytes(), np.uint8, 1)
    assert column.count.requests - before == len(column.storage.reads) == 7 + 2 + 1 - 1


# --- filters that cannot be used


def test_one_warning_for_each_file(caplog: pytest.LogCaptureFixture) -> None:
    column = Column([[Chunk(SMALL, slice(0, 1))] * 2] * 3)
    column.length[[0, 1, 4]] = 20
    assert column.ask_all(20) == [True, True, False, False, True, False]
    where = "column x: its Bloom filter cannot be used: its header and bitset are"
    size = column.header[0] + 32 * SMALL
    assert [str(error) for error in column.filters.errors.values()] == [
        f"{file}.parquet: row group {group}, {where} {size} bytes, but the footer says 20"
        for file, group in ((0, 0), (0, 1), (2, 0))
    ]
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["0.parquet", "2.parquet"]
    known = column.filters.known_filters()
    column.filters = column.store(known)
    assert len(caplog.records) == 2
    column.store(replace(known, warned=frozenset()))  # another process
    assert [record.getMessage() for record in caplog.records[2:]] == [
        f"{known.errors[chunk]}; row groups without a usable filter are read" for chunk in (0, 4)
    ]
    assert column.filters.unreadable == []


@pytest.mark.parametrize("n_blocks", [SMALL, LARGE])
def test_a_bitset_that_cannot_be_decrypted_keeps_its_row_group(n_blocks: int) -> None:
    """The others of the column are still used."""
    column = Column([[Chunk(n_blocks, slice(0, 9), encrypted=True)] * 3])
    data = bytearray(column.storage.files["0.parquet"])
    data[column.offset[1] + column.length[1] - 1] ^= 1
    column.storage.files["0.parquet"] = bytes(data)
    for value in (20, 21):
        assert column.ask_all(value) == [False, True, False]
    assert column.ask_all(0) == [True] * 3
    (error,) = column.filters.errors.values()
    assert isinstance(error, EncryptionError)
    assert str(error).startswith("0.parquet: row group 1, column x: its Bloom filter cannot be used: ")
    with pytest.raises(EncryptionError, match="row group 1"):
        column.filters.read(column.storage, 1, column.count)


def test_a_bitset_ends_before_the_footer() -> None:
    column = Column([[Chunk(SMALL, slice(0, 9), has_length=False)]])
    assert column.ask_all(20) == [False]
    column.limit[0] -= 1
    column.filters = column.store()
    assert column.ask_all(20) == [True]
    (error,) = column.filters.errors.values()
    assert "its header claims 128 bytes, which would end in or after the footer" in str(error)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda column: column.offset.__setitem__(0, 3), "gives it the offset 3 and the length 144, outside"),
        (
            lambda column: (column.offset.__setitem__(0, 3), column.length.__setitem__(0, 0)),
            "3 and the length 0, outside",
        ),
        (lambda column: (column.offset.__setitem__(0, 3), column.length.__setitem__(0, -1)), "the offset 3, outside"),
        (lambda column: column.offset.__setitem__(0, 4), None),
        (lambda column: column.limit.__setitem__(0, 9 + 143), "offset 9 and the length 144, outside the file's data"),
        (lambda column: column.limit.__setitem__(0, 9 + 144), None),
    ],
)
def test_filters_lie_within_the_data(change: Any, why: str | None) -> None:
    column = Column([[Chunk(SMALL, slice(0, 9)), Chunk(SMALL, slice(0, 9))]])
    assert len(column.chunks[0].data) == 144, "as the cases say"
    change(column)
    if column.offset[0] == 4:
        data = column.storage.files["0.parquet"]
        column.storage.files["0.parquet"] = data[:4] + data[9:153] + b"\xff" * 5 + data[153:]
    column.filters = column.store()
    assert column.ask_all(20) == [why is not None, False]
    assert column.ask_all(0) == [True, True]
    errors: list[BloomParquetError] = [*column.filters.errors.values()]
    assert [why in str(error) for error in errors] == [True] * (why is not None)


def test_filters_of_expressions_are_only_in_an_index() -> None:
    filters = ExpressionFilters(TiledFilters.none(3))
    column = Column(MIXED)
    asked = Question(column.storage, np.arange(3), np.zeros(3, int), np.ones(3, int), HASHES, column.count)  # type: ignore[arg-type]
    assert filters.check(asked)[0].tolist() == [True] * 3
    for nothing in (filters.present, filters.filled):
        assert (nothing.tolist(), nothing.dtype) == ([False] * 3, np.bool_)
    assert filters.errors == {}
    assert column.storage.reads == []
