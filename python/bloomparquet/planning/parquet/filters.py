"""The Bloom filters of one column over many row groups: fetched as sparingly as the question allows, and asked.

A lookup needs one 32-byte block per value and row group, plus, once, the header that says where the blocks are. So
the first read of a filter takes a page: header, and the whole bitset when it is small. Later reads take the blocks
that are asked for; when a query asks for so many that their reads would touch, the bitset is read whole, once. What
was learnt (header sizes, small bitsets) is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError, EncryptionError, FormatError
from bloomparquet.parquet.bloom_filter.filter_bytes import FilterCiphers, any_set, as_blocks
from bloomparquet.parquet.bloom_filter.header import MAX_HEADER_BYTES
from bloomparquet.parquet.bloom_filter.split_block import (
    BYTES_PER_BLOCK,
    SplitBlockBloomFilter,
    block_index,
    block_mask,
    check_blocks,
)
from bloomparquet.parquet.encryption.file_crypto import ChunkCipher
from bloomparquet.planning.evidence.filter_store import RESIDENT_BYTES, FilterStore, check_in_rounds, pairs
from bloomparquet.planning.evidence.interface import Question
from bloomparquet.planning.parquet.filter_index import ABSENT, BROKEN, READY, UNREAD, Learnt
from bloomparquet.storage.files import ReadCount, Storage
from bloomparquet.storage.ranges import read_ranges

_HEAD_BYTES = 4096 + MAX_HEADER_BYTES  # bitsets are powers of two: one of 4 KiB still comes whole, with its header
_WORTH_KEEPING = 4 * 4096 + MAX_HEADER_BYTES  # read whole at once and kept, if those of all row groups can be
_BATCH_BYTES = 64 * 1024 * 1024
_ROUNDS = (32, 256)  # values that all filters are asked for together
_FIRST_MANY = 2048


class ParquetFilters(FilterStore):
    """The filters of `column` in n column chunks; chunk i lies in row group ``row_group[i]`` of ``paths[file[i]]``.

    `offset` and `length` (n,) are the footer's, -1 where absent; `limit` (n,) is where each file's footer begins: a
    filter lies before it. `filled` (n,) says which chunks are known to hold a value that is not null. `learnt` is what
    reading them has taught before. `ciphers` (n,) open those of encrypted columns: such a filter is two modules, header
    and bitset, and is read whole, as nothing less of it opens.
    """

    def __init__(
        self,
        paths: Sequence[str],
        file: NDArray[np.int64],
        row_group: NDArray[np.int64],
        column: str,
        offset: NDArray[np.int64],
        length: NDArray[np.int64],
        limit: NDArray[np.int64],
        filled: NDArray[np.bool_],
        learnt: Learnt | None = None,
        ciphers: Sequence[ChunkCipher | None] | None = None,
    ) -> None:
        self._seals = FilterCiphers(ciphers, len(offset))
        self._paths, self._file, self._row_group, self._column = paths, file, row_group, column
        self.offset, self.length, self._limit, self.filled = offset, length, limit, filled
        known = Learnt.nothing(offset) if learnt is None else learnt
        self._state, self.num_bytes = known.state.copy(), known.num_bytes.copy()
        self._bitset_at, self._not_empty = known.bitset_at.copy(), known.not_empty.copy()
        self._resident, self._resident_at = known.resident, known.resident_at.copy()
        super().__init__(dict(known.errors), known.told)
        self.lessons_before = self.lessons
        for chunk, error in self.errors.items():
            self._warn(self._paths[self._file[chunk]], error)

    @property
    def present(self) -> NDArray[np.bool_]:
        """Which chunks have a filter, by their footers."""
        return self.offset >= 0

    @property
    def unreadable(self) -> list[BloomParquetError]:
        """Why chunks cannot be looked into of which it is not even known whether they have filters."""
        return [error for chunk, error in self.errors.items() if self.offset[chunk] < 0]

    @property
    def ciphers(self) -> Sequence[ChunkCipher | None] | None:
        return self._seals.ciphers

    @property
    def cached_bytes(self) -> int:
        """What is held in memory, of the bitsets and of what is known of them."""
        of_each = (self.offset, self.length, self.num_bytes, self._bitset_at, self._resident_at)
        return int(self._resident.nbytes) + sum(array.nbytes for array in of_each)

    @property
    def lessons(self) -> int:
        """A number that grows whenever something worth storing is learnt."""
        opened, broken = self._state != UNREAD, self._state == BROKEN
        return sum(int(np.count_nonzero(array)) for array in (opened, broken, self._not_empty))

    def learnt(self) -> Learnt:
        """What is known by now."""
        with self._lock:
            return Learnt(
                self._state.copy(), self._bitset_at.copy(), self.num_bytes.copy(), self._not_empty.copy(),
                self._resident_at.copy(), self._resident, dict(self.errors), frozenset(self._warned),
            )  # fmt: skip

    def read(self, storage: Storage, chunk: int, count: ReadCount) -> NDArray[np.uint8] | None:
        """The whole bitset of one chunk, shape (bytes,); None when it has no filter. Raises what makes a filter
        unusable."""
        with self._lock:
            if self._state[chunk] == UNREAD:
                self._open(storage, np.array([chunk]), count)
            if self._state[chunk] == ABSENT:
                return None
            if self._state[chunk] == BROKEN:
                raise self.errors[chunk]
            ranges, starts = self._bitsets(storage, np.array([chunk]), count)
            if self._state[chunk] == BROKEN:
                raise self.errors[chunk]
            return ranges[starts[0] : starts[0] + self.num_bytes[chunk]]

    def _open(self, storage: Storage, which: NDArray[np.int64], count: ReadCount) -> None:
        """Read headers, and with them what else fits in the first page of each filter."""
        room = self._limit[which] - self.offset[which]
        inside = (self.offset[which] >= 4) & (room > BYTES_PER_BLOCK) & (self.length[which] <= room)
        for chunk in which[~inside].tolist():
            where = f"offset {self.offset[chunk]}" + (
                f", length {self.length[chunk]}" if self.length[chunk] >= 0 else ""
            )
            self._break(
                chunk, FormatError(f"the footer places it at {where}; expected within bytes 4 to {self._limit[chunk]}")
            )
        which = which[inside]
        if len(which) == 0:
            return
        length = self.length[which]
        whole = (length > 0) & ((length <= _WORTH_KEEPING) | self._seals.on[which])
        if self._resident.nbytes + int(length[whole].sum()) > RESIDENT_BYTES:
            whole = (length > 0) & (length <= _HEAD_BYTES)
        size = np.where(whole, np.maximum(length, MAX_HEADER_BYTES), _HEAD_BYTES)
        size = np.minimum(size, self._limit[which] - self.offset[which])
        for batch in np.split(np.arange(len(which)), np.flatnonzero(np.diff(np.cumsum(size) // _BATCH_BYTES)) + 1):
            self._open_batch(storage, which[batch], size[batch], count)

    def _open_batch(
        self, storage: Storage, which: NDArray[np.int64], size: NDArray[np.int64], count: ReadCount
    ) -> None:
        ranges = read_ranges(storage, self._paths, self._file[which], self.offset[which], size, count)
        header_bytes, stored, num_bytes, errors = self._seals.headers(which, ranges, size)
        for row, error in errors.items():
            self._break(int(which[row]), error)
        read = header_bytes > 0
        announced = self.length[which]
        end = self.offset[which] + header_bytes + stored
        for row in np.flatnonzero(read & (end > self._limit[which])).tolist():
            self._break(
                int(which[row]),
                FormatError(f"its header claims {num_bytes[row]} bytes, which would end in or behind the footer"),
            )
        for row in np.flatnonzero(read & (announced >= 0) & (announced != header_bytes + stored)).tolist():
            self._break(
                int(which[row]),
                FormatError(
                    f"its header claims {header_bytes[row]} + {stored[row]} bytes, the footer {announced[row]}"
                ),
            )
        good = np.flatnonzero(self._state[which] == UNREAD)
        chunks = which[good]
        self._state[chunks] = READY
        self._bitset_at[chunks] = self.offset[chunks] + header_bytes[good]
        self.num_bytes[chunks] = num_bytes[good]
        starts, seen = ranges.starts[good] + header_bytes[good], size[good] - header_bytes[good]
        self._not_empty[chunks] = ~self._seals.on[chunks] & any_set(
            ranges.buffer, starts, np.minimum(seen, num_bytes[good])
        )
        self._keep(ranges.buffer, chunks, starts, np.flatnonzero(seen >= stored[good]))

    def _bits(self, chunk: int, stored: NDArray[np.uint8]) -> NDArray[np.uint8] | None:
        """The bitset of which `stored` are the bytes in the file; None where it does not open."""
        try:
            bits = self._seals.bitset(chunk, stored)
        except EncryptionError as error:
            self._break(chunk, error)
            return None
        if self._seals.on[chunk]:  # of the others that was seen before
            self._not_empty[chunk] = bits.any()
        return bits

    def _stored_bytes(self, chunks: NDArray[np.int64]) -> NDArray[np.int64]:
        """What bitsets take in their files."""
        return self.num_bytes[chunks] + self._seals.overhead(chunks)

    def _keep(
        self, buffer: NDArray[np.uint8], chunks: NDArray[np.int64], starts: NDArray[np.int64], whole: NDArray[np.int64]
    ) -> None:
        """Keep the bitsets that came whole, up to a bound."""
        sizes = self.num_bytes[chunks[whole]]
        fits = np.cumsum(sizes) + self._resident.nbytes <= RESIDENT_BYTES
        whole = whole[fits]
        extents = zip(
            chunks[whole].tolist(), starts[whole].tolist(), self._stored_bytes(chunks[whole]).tolist(), strict=True
        )
        found = {chunk: self._bits(chunk, buffer[start : start + size]) for chunk, start, size in extents}
        opened = {chunk: bits for chunk, bits in found.items() if bits is not None}
        if not opened:
            return
        kept = np.concatenate(list(opened.values()))
        which = np.array(list(opened), np.int64)
        sizes = self.num_bytes[which]
        self._resident_at[which] = len(self._resident) + (np.cumsum(sizes) - sizes) // BYTES_PER_BLOCK
        self._resident = np.concatenate((self._resident, kept.view("<u4").reshape(-1, 8)))

    def _load(self, question: Question) -> Iterator[NDArray[np.int64]]:
        """Read the headers that are not known yet; blocks and bitsets are read when they are probed."""
        chunks = question.chunks
        self._open(question.storage, chunks[self._state[chunks] == UNREAD], question.reads)
        ready = np.flatnonzero(self._state[chunks] == READY)
        some = question.about(ready)
        whole = self.num_bytes[some.chunks]
        cost = np.where(self._seals.on[some.chunks], whole, np.minimum(whole, _cost_of_blocks(some)))
        cost[self._resident_at[some.chunks] >= 0] = 0
        piece = (np.cumsum(cost) - cost) // _BATCH_BYTES
        yield from np.split(ready, np.flatnonzero(np.diff(piece)) + 1) if len(ready) else ()

    def _probe(self, question: Question) -> NDArray[np.bool_]:
        result = np.zeros(len(question.chunks), np.bool_)
        resident = self._resident_at[question.chunks] >= 0
        is_dear = _cost_of_blocks(question) >= self.num_bytes[question.chunks]
        whole = ~resident & (is_dear | self._seals.on[question.chunks])
        for group in (np.flatnonzero(resident), np.flatnonzero(whole)):
            if len(group):
                result[group] = self._probe_whole(question.about(group))
        group = np.flatnonzero(~resident & ~whole)
        if len(group):
            result[group] = self._probe_blocks(question.about(group))
        result[self._state[question.chunks] != READY] = True
        return result

    def _probe_whole(self, question: Question) -> NDArray[np.bool_]:
        """Against bitsets in memory, a growing number of values at a time: a row group that is kept needs no further
        value. All of the chunks are resident, or none is."""
        chunks, last, hashes = question.chunks, question.last, question.hashes
        if self._resident_at[chunks[0]] >= 0:
            blocks = self._resident
            base = self._resident_at[chunks]
        else:
            buffer, starts = self._bitsets(question.storage, chunks, question.reads)
            self._not_empty[chunks] |= any_set(buffer, starts, self.num_bytes[chunks])
            blocks, base = as_blocks(buffer, starts, self.num_bytes[chunks])
        hit: NDArray[np.bool_] = self._state[chunks] == BROKEN  # some only turn out so when their bitsets are opened
        n_blocks = self.num_bytes[chunks] // BYTES_PER_BLOCK

        def find_hits(row: NDArray[np.int64], value: NDArray[np.int64]) -> NDArray[np.int64]:
            block = base[row] + block_index(hashes[value], n_blocks[row])
            return row[check_blocks(blocks[block], block_mask(hashes[value]))]

        undecided, at = check_in_rounds(hit, question.first, last, _ROUNDS, find_hits)
        for i in undecided.tolist():
            # So many values that one filter at a time is faster: its words are tested one after another.
            bloom = SplitBlockBloomFilter(blocks[base[i] : base[i] + n_blocks[i]])
            middle = min(at[i] + _FIRST_MANY, last[i])  # a false positive may save the rest
            hit[i] = bloom.check(hashes[at[i] : middle]).any() or bloom.check(hashes[middle : last[i]]).any()
        self._distrust_empty(chunks[~hit & ~self._not_empty[chunks]])
        return hit

    def _probe_blocks(self, question: Question) -> NDArray[np.bool_]:
        """By reading one block for each chunk and value; none of them is encrypted."""
        chunks, hashes, storage = question.chunks, question.hashes, question.storage
        row, value = pairs(question.first, question.last)
        pair = chunks[row]
        block = block_index(hashes[value], self.num_bytes[pair] // BYTES_PER_BLOCK)
        offset, length = self._bitset_at[pair] + BYTES_PER_BLOCK * block, np.full(len(pair), BYTES_PER_BLOCK)
        ranges = read_ranges(storage, self._paths, self._file[pair], offset, length, question.reads)
        hit = np.zeros(len(chunks), np.bool_)
        blocks = np.ascontiguousarray(ranges.rows(BYTES_PER_BLOCK)).view("<u4")
        hit[row[check_blocks(blocks, block_mask(hashes[value]))]] = True
        self._not_empty[pair[blocks.any(axis=1)]] = True
        self._look_for_bits(storage, chunks[~hit & ~self._not_empty[chunks]], question.reads)
        return hit

    def _look_for_bits(self, storage: Storage, chunks: NDArray[np.int64], count: ReadCount) -> None:
        """Read on from the first page, of all `chunks` together and in growing steps, until a bit is set or the bitset
        ends."""
        at, end = self.offset[chunks] + _HEAD_BYTES, self._bitset_at[chunks] + self.num_bytes[chunks]
        size = 4 * _HEAD_BYTES
        while True:
            over = at >= end
            self._distrust_empty(chunks[over])
            chunks, at, end = chunks[~over], at[~over], end[~over]
            if len(chunks) == 0:
                return
            found = np.zeros(len(chunks), np.bool_)
            length = np.minimum(size, end - at)
            for some in np.array_split(np.arange(len(chunks)), len(chunks) * size // _BATCH_BYTES + 1):
                ranges = read_ranges(storage, self._paths, self._file[chunks[some]], at[some], length[some], count)
                found[some] = any_set(ranges.buffer, ranges.starts, length[some])
            self._not_empty[chunks[found]] = True
            chunks, at, end, size = chunks[~found], (at + length)[~found], end[~found], 4 * size

    def _distrust_empty(self, chunks: NDArray[np.int64]) -> None:
        """A filter without a bit belongs to a chunk of nulls. Over values, its writer never filled it."""
        filled = self.filled[chunks]
        self._state[chunks[~filled]] = ABSENT
        for chunk in chunks[filled].tolist():
            self._break(chunk, FormatError("no bit of it is set although the column has values; it was never filled"))

    def _bitsets(
        self, storage: Storage, chunks: NDArray[np.int64], count: ReadCount
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        at = self._resident_at[chunks[0]]
        if at >= 0 and len(chunks) == 1:
            return self._resident[at : at + self.num_bytes[chunks[0]] // BYTES_PER_BLOCK].view(np.uint8).reshape(
                -1
            ), np.zeros(1, np.int64)
        stored = self._stored_bytes(chunks)
        ranges = read_ranges(storage, self._paths, self._file[chunks], self._bitset_at[chunks], stored, count)
        if not self._seals.on[chunks].any():
            return ranges.buffer, ranges.starts
        sizes = self.num_bytes[chunks]
        ends = np.cumsum(sizes)
        opened = np.zeros(int(ends[-1]), np.uint8)
        extents = zip(chunks.tolist(), ranges.starts.tolist(), stored.tolist(), ends.tolist(), strict=True)
        for chunk, start, size, end in extents:
            bits = self._bits(chunk, ranges.buffer[start : start + size])
            if bits is not None:
                opened[end - len(bits) : end] = bits
        return opened, ends - sizes

    def _break(self, chunk: int, error: BloomParquetError) -> None:
        """Never ask this filter again, and say so once per file."""
        path = self._paths[self._file[chunk]]
        told = f"{path}: row group {self._row_group[chunk]}, column {self._column}: "
        told += f"its Bloom filter cannot be used: {error}"
        self._state[chunk] = BROKEN
        self.errors[chunk] = type(error)(told)
        self._warn(path, self.errors[chunk])


def _cost_of_blocks(question: Question) -> NDArray[np.int64]:
    """In bytes of a bitset that could be read instead: the gaps between random blocks would on average be as large."""
    return (question.last - question.first) * (question.storage.merge_gap // 2 + BYTES_PER_BLOCK)
