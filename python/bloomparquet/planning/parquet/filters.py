"""The Bloom filters of one Parquet column over many row groups: read as little as a question needs, and asked.

A lookup needs one 32-byte block for each value and row group, and once the header, which says where the blocks are. The
first read of a filter takes the header and, if it is small, the whole bitset. Later reads take single blocks. If a
query asks for so many blocks that their reads would touch, the bitset is read whole. It is also read whole if all
lookups together have asked for so many blocks: then a folded copy of it is kept, which answers most of the later
lookups. Headers and small bitsets are kept too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError, EncryptionError, FormatError
from bloomparquet.parquet.bloom_filter.filter_bytes import FilterCiphers, any_set
from bloomparquet.parquet.bloom_filter.header import MAX_HEADER_BYTES
from bloomparquet.parquet.bloom_filter.sizes import BYTES_PER_BLOCK
from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter, block_index, block_mask, check_blocks
from bloomparquet.parquet.encryption.file_crypto import ChunkCipher
from bloomparquet.planning.evidence.filter_store import RESIDENT_BYTES, FilterStore, check_in_rounds, pairs
from bloomparquet.planning.evidence.interface import Question
from bloomparquet.planning.evidence.tiles import TiledFilters
from bloomparquet.planning.parquet.column_arrays import ChunkLocations, ColumnArrays
from bloomparquet.planning.parquet.known_filters import NO_FILTER, READY, UNREAD, UNUSABLE, KnownFilters
from bloomparquet.storage.files import ReadCount, Storage
from bloomparquet.storage.ranges import Ranges, read_ranges

_FIRST_READ_BYTES = 4096 + MAX_HEADER_BYTES  # a header and a bitset of 4 KiB; bitsets are powers of two
_SMALL_BYTES = 4 * 4096 + MAX_HEADER_BYTES  # smaller filters are read whole and kept, if all of them fit
_ROUNDS = (32, 256)  # how many values all filters are asked for at once
_FIRST_VALUES = 2048
_COPIED_BYTES = 128 * 1024 * 1024  # of filters that a question reads only to copy them


class ParquetFilters(FilterStore):
    """The filters of a column in the n column chunks at `locations`. `arrays`: the evidence in the footers, and what
    was read of the filters before.

    An encrypted filter is two modules, header and bitset, and is always read whole.
    """

    def __init__(self, locations: ChunkLocations, arrays: ColumnArrays) -> None:
        self._locations, self._files, self._file = locations, locations.files, locations.file
        self._ciphers = FilterCiphers(arrays.ciphers, len(arrays.offset))
        self.offset, self.length, self.filled = arrays.offset, arrays.length, arrays.filled
        known = arrays.known_filters
        self._state, self.num_bytes = known.state.copy(), known.num_bytes.copy()
        self._bitset_at, self._not_empty = known.bitset_at.copy(), known.not_empty.copy()
        self._resident, self._resident_at = known.resident, known.resident_at.copy()
        super().__init__(known.tiled, dict(known.errors), known.warned)
        self.absent, self._folded = known.absent, known.folded
        self._cost_of_blocks = np.zeros(len(arrays.offset), np.int64)  # that were read so far
        self._is_chosen = np.zeros(len(arrays.offset), np.bool_)  # to be read whole and copied
        self.loaded_revision = self.revision
        for chunk, error in self.errors.items():
            self._warn(self._files[self._file[chunk]].path, error)

    @property
    def present(self) -> NDArray[np.bool_]:
        """Whether each chunk has a filter, as footers and the index say."""
        return (self.offset >= 0) | self.tiled.present

    @property
    def unreadable(self) -> list[BloomParquetError]:
        """Why column metadata could not be decrypted. Whether such a chunk has a filter is unknown."""
        return [error for chunk, error in self.errors.items() if self.offset[chunk] < 0]

    @property
    def ciphers(self) -> Sequence[ChunkCipher | None] | None:
        return self._ciphers.ciphers

    @property
    def cached_bytes(self) -> int:
        """The memory of the resident and folded bitsets, the arrays, and what is known to be absent."""
        arrays = (self._resident, self.offset, self.length, self.num_bytes, self._bitset_at, self._resident_at)
        return sum(array.nbytes for array in arrays) + self.absent.cached_bytes + self._folded.cached_bytes

    @property
    def revision(self) -> int:
        """A counter that grows whenever something worth storing was read."""
        read, unusable = self._state != UNREAD, self._state == UNUSABLE
        return sum(int(np.count_nonzero(array)) for array in (read, unusable, self._not_empty))

    def known_filters(self) -> KnownFilters:
        """A copy of all that was read."""
        with self._lock:
            return KnownFilters(
                self._state.copy(), self._bitset_at.copy(), self.num_bytes.copy(), self._not_empty.copy(),
                self._resident_at.copy(), self._resident, dict(self.errors), self.tiled, self.absent.copy(),
                self._folded.copy(), frozenset(self._warned),
            )  # fmt: skip

    def read(self, storage: Storage, chunk: int, count: ReadCount) -> NDArray[np.uint8] | None:
        """The whole bitset of one chunk, shape (bytes,); None if it has no filter. Raises the error of an unusable
        filter."""
        with self._lock:
            if self._state[chunk] == UNREAD:
                self._read_headers(storage, np.array([chunk]), count)
            if self._state[chunk] == NO_FILTER:
                return None
            if self._state[chunk] == UNUSABLE:
                raise self.errors[chunk]
            buffer, starts = self._bitsets(storage, np.array([chunk]), count)
            if self._state[chunk] == UNUSABLE:
                raise self.errors[chunk]
            return buffer[starts[0] : starts[0] + self.num_bytes[chunk]]

    def measure(self, storage: Storage, count: ReadCount) -> int:
        """The bytes of all bitsets that can be used. Reads headers."""
        with self._lock:
            self._read_headers(storage, np.flatnonzero(self._state == UNREAD), count)
            return int(self.num_bytes[self._state == READY].sum())

    def read_all(self, storage: Storage, count: ReadCount) -> Iterator[tuple[list[int], list[NDArray[np.uint8]]]]:
        """The bitsets of all chunks whose filter can be used, some chunks at a time. Filters without a set bit are left
        out: they need the whole column to be judged."""
        with self._lock:
            self._read_headers(storage, np.flatnonzero(self._state == UNREAD), count)
            resident = np.flatnonzero((self._state == READY) & (self._resident_at >= 0))
            others = np.flatnonzero((self._state == READY) & (self._resident_at < 0))
            yield self._with_bits(
                resident, self._resident.view(np.uint8).reshape(-1), self._resident_at[resident] * BYTES_PER_BLOCK
            )
            batch = np.cumsum(self.num_bytes[others]) // storage.batch_bytes
            for some in np.split(others, np.flatnonzero(np.diff(batch)) + 1) if len(others) else ():
                buffer, starts = self._bitsets(storage, some, count)
                yield self._with_bits(some, buffer, starts)

    def _with_bits(
        self, chunks: NDArray[np.int64], buffer: NDArray[np.uint8], starts: NDArray[np.int64]
    ) -> tuple[list[int], list[NDArray[np.uint8]]]:
        """The `chunks` whose bitset has a set bit, and these bitsets. Bitset i begins at ``starts[i]`` of `buffer`."""
        extents = zip(chunks.tolist(), starts.tolist(), self.num_bytes[chunks].tolist(), strict=True)
        bitsets = {chunk: buffer[start : start + size] for chunk, start, size in extents}
        some = {chunk: bits for chunk, bits in bitsets.items() if self._state[chunk] == READY and bits.any()}
        return list(some), list(some.values())

    def _read_headers(self, storage: Storage, chunks: NDArray[np.int64], count: ReadCount) -> None:
        """Read headers, and as much of the bitsets as the first read of each filter takes."""
        room = self._locations.limit[chunks] - self.offset[chunks]
        in_file = (self.offset[chunks] >= 4) & (room > BYTES_PER_BLOCK) & (self.length[chunks] <= room)
        for chunk in chunks[~in_file].tolist():
            extent = f"offset {self.offset[chunk]}"
            if self.length[chunk] >= 0:
                extent += f" and the length {self.length[chunk]}"
            message = (
                f"the footer gives it the {extent}, outside the file's data (bytes 4 to {self._locations.limit[chunk]})"
            )
            self._invalidate(chunk, FormatError(message))
        chunks, room = chunks[in_file], room[in_file]
        if len(chunks) == 0:
            return
        length = self.length[chunks]
        whole = (length > 0) & ((length <= _SMALL_BYTES) | self._ciphers.encrypted[chunks])
        if self._resident.nbytes + int(length[whole].sum()) > RESIDENT_BYTES:
            whole = (length > 0) & (length <= _FIRST_READ_BYTES)
        size = np.minimum(np.where(whole, np.maximum(length, MAX_HEADER_BYTES), _FIRST_READ_BYTES), room)
        piece = np.cumsum(size) // storage.batch_bytes
        for batch in np.split(np.arange(len(chunks)), np.flatnonzero(np.diff(piece)) + 1):
            self._read_header_batch(storage, chunks[batch], size[batch], count)

    def _read_header_batch(
        self, storage: Storage, chunks: NDArray[np.int64], size: NDArray[np.int64], count: ReadCount
    ) -> None:
        ranges = read_ranges(storage, self._files, self._file[chunks], self.offset[chunks], size, count)
        header_bytes, stored, num_bytes, errors = self._ciphers.headers(chunks, ranges, size)
        for i, error in errors.items():
            self._invalidate(int(chunks[i]), error)
        read, length = header_bytes > 0, self.length[chunks]
        end = self.offset[chunks] + header_bytes + stored
        for i in np.flatnonzero(read & (end > self._locations.limit[chunks])).tolist():
            error = FormatError(f"its header claims {num_bytes[i]} bytes, which would end in or after the footer")
            self._invalidate(int(chunks[i]), error)
        for i in np.flatnonzero(read & (length >= 0) & (length != header_bytes + stored)).tolist():
            size_in_file = header_bytes[i] + stored[i]
            message = f"its header and bitset are {size_in_file} bytes, but the footer says {length[i]}"
            self._invalidate(int(chunks[i]), FormatError(message))
        ready = np.flatnonzero(self._state[chunks] == UNREAD)
        chunks, num_bytes = chunks[ready], num_bytes[ready]
        self._state[chunks] = READY
        self._bitset_at[chunks] = self.offset[chunks] + header_bytes[ready]
        self.num_bytes[chunks] = num_bytes
        starts, bytes_read = ranges.starts[ready] + header_bytes[ready], size[ready] - header_bytes[ready]
        any_bit = any_set(ranges.buffer, starts, np.minimum(bytes_read, num_bytes))
        self._not_empty[chunks] = ~self._ciphers.encrypted[chunks] & any_bit
        self._cache(ranges.buffer, chunks, starts, np.flatnonzero(bytes_read >= stored[ready]))

    def _decrypt(self, chunk: int, stored: NDArray[np.uint8]) -> NDArray[np.uint8] | None:
        """The bitset whose bytes in the file are `stored`; None if they cannot be decrypted."""
        try:
            bits = self._ciphers.decrypt_bitset(chunk, stored)
        except EncryptionError as error:
            self._invalidate(chunk, error)
            return None
        if self._ciphers.encrypted[chunk]:  # of plain bitsets this is known since the first read
            self._not_empty[chunk] = bits.any()
        return bits

    def _stored_bytes(self, chunks: NDArray[np.int64]) -> NDArray[np.int64]:
        """The size of bitsets in the file, with encryption."""
        return self.num_bytes[chunks] + self._ciphers.overhead(chunks)

    def _cache(
        self, buffer: NDArray[np.uint8], chunks: NDArray[np.int64], starts: NDArray[np.int64], whole: NDArray[np.int64]
    ) -> None:
        """Keep the bitsets that were read whole, ``chunks[whole]``, up to RESIDENT_BYTES."""
        sizes = self.num_bytes[chunks[whole]]
        fits = np.cumsum(sizes) + self._resident.nbytes <= RESIDENT_BYTES
        whole = whole[fits]
        extents = zip(
            chunks[whole].tolist(), starts[whole].tolist(), self._stored_bytes(chunks[whole]).tolist(), strict=True
        )
        decrypted = {chunk: self._decrypt(chunk, buffer[start : start + size]) for chunk, start, size in extents}
        bitsets = {chunk: bits for chunk, bits in decrypted.items() if bits is not None}
        if not bitsets:
            return
        cached = np.array(list(bitsets), np.int64)
        sizes = self.num_bytes[cached]
        self._resident_at[cached] = len(self._resident) + (np.cumsum(sizes) - sizes) // BYTES_PER_BLOCK
        blocks = np.concatenate(list(bitsets.values())).view("<u4").reshape(-1, 8)
        self._resident = np.concatenate((self._resident, blocks))

    def _load(self, question: Question) -> Iterator[NDArray[np.int64]]:
        """Read the missing headers. Blocks and bitsets are read when they are probed."""
        chunks = question.chunks
        self._read_headers(question.storage, chunks[self._state[chunks] == UNREAD], question.reads)
        ready = np.flatnonzero(self._state[chunks] == READY)
        some = question.about(ready)
        self._choose_copies(some)
        cost = np.where(self._are_read_whole(some), self.num_bytes[some.chunks], _cost_of_blocks(some))
        cost[self._resident_at[some.chunks] >= 0] = 0
        piece = (np.cumsum(cost) - cost) // question.storage.batch_bytes
        yield from np.split(ready, np.flatnonzero(np.diff(piece)) + 1) if len(ready) else ()

    def _probe(self, question: Question) -> NDArray[np.bool_]:
        result = np.zeros(len(question.chunks), np.bool_)
        resident = self._resident_at[question.chunks] >= 0
        whole = ~resident & self._are_read_whole(question)
        ways = ((resident, self._probe_whole), (whole, self._probe_whole), (~resident & ~whole, self._probe_blocks))
        for chosen, probe in ways:
            if chosen.any():
                result[chosen] = probe(question.about(np.flatnonzero(chosen)))
        result[self._state[question.chunks] != READY] = True
        return result

    def _known_absent(self, question: Question) -> NDArray[np.bool_]:
        result = super()._known_absent(question)
        (others,) = np.nonzero(~result)
        result[others] = self._folded.excluded(question.about(others))
        return result

    def _choose_copies(self, question: Question) -> None:
        """Choose filters to read whole because their blocks cost as much in all questions so far. A folded copy of each
        is kept, so that it happens once. A few for each question: none may take much longer than the others."""
        chunks = question.chunks
        in_all = self._cost_of_blocks[chunks] + _cost_of_blocks(question) >= self.num_bytes[chunks]
        chosen = chunks[in_all & (self._resident_at[chunks] < 0) & ~self._folded.present[chunks]]
        if self._folded.is_full:
            chosen = chosen[:0]
        self._is_chosen = np.zeros(len(self.offset), np.bool_)
        self._is_chosen[chosen[np.cumsum(self.num_bytes[chosen]) <= _COPIED_BYTES]] = True

    def _are_read_whole(self, question: Question) -> NDArray[np.bool_]:
        """Whether each bitset is read whole, if it is not resident."""
        chunks = question.chunks
        blocks_cost_more = _cost_of_blocks(question) >= self.num_bytes[chunks]
        return blocks_cost_more | self._is_chosen[chunks] | self._ciphers.encrypted[chunks]

    def _probe_whole(self, question: Question) -> NDArray[np.bool_]:
        """Probe whole bitsets. Either all of the chunks are resident, or none is.

        Values are asked in growing numbers: a row group that is kept needs no further value.
        """
        chunks, last, hashes = question.chunks, question.last, question.hashes
        if self._resident_at[chunks[0]] >= 0:
            buffer, starts = self._resident.view(np.uint8).reshape(-1), BYTES_PER_BLOCK * self._resident_at[chunks]
        else:
            buffer, starts = self._bitsets(question.storage, chunks, question.reads)
            self._not_empty[chunks] |= any_set(buffer, starts, self.num_bytes[chunks])
            (new,) = np.nonzero(
                self._not_empty[chunks] & (self._state[chunks] == READY) & ~self._folded.present[chunks]
            )
            self._folded.add(chunks[new], Ranges(buffer, starts[new]), self.num_bytes[chunks[new]])
        hit: NDArray[np.bool_] = self._state[chunks] == UNUSABLE  # those whose bitset could not be decrypted
        n_blocks = self.num_bytes[chunks] // BYTES_PER_BLOCK

        def find_hits(row: NDArray[np.int64], value: NDArray[np.int64]) -> NDArray[np.int64]:
            block = Ranges(buffer, starts[row] + BYTES_PER_BLOCK * block_index(hashes[value], n_blocks[row]))
            return row[check_blocks(block.rows(BYTES_PER_BLOCK).view("<u4"), block_mask(hashes[value]))]

        undecided, at = check_in_rounds(hit, question.first, last, _ROUNDS, find_hits)
        for i in undecided.tolist():
            # With so many values, asking one filter at a time is faster.
            bloom = SplitBlockBloomFilter.from_bytes(buffer[starts[i] : starts[i] + self.num_bytes[chunks[i]]].data)
            middle = min(at[i] + _FIRST_VALUES, last[i])  # a hit saves the rest
            hit[i] = bloom.check(hashes[at[i] : middle]).any() or bloom.check(hashes[middle : last[i]]).any()
        self._handle_empty(chunks[~hit & ~self._not_empty[chunks]])
        return hit

    def _probe_blocks(self, question: Question) -> NDArray[np.bool_]:
        """Probe by reading one block for each chunk and value. None of the chunks is encrypted."""
        chunks, hashes, storage = question.chunks, question.hashes, question.storage
        self._cost_of_blocks[chunks] += _cost_of_blocks(question)
        row, value = pairs(question.first, question.last)
        pair = chunks[row]
        block = block_index(hashes[value], self.num_bytes[pair] // BYTES_PER_BLOCK)
        offset, length = self._bitset_at[pair] + BYTES_PER_BLOCK * block, np.full(len(pair), BYTES_PER_BLOCK)
        ranges = read_ranges(storage, self._files, self._file[pair], offset, length, question.reads)
        hit = np.zeros(len(chunks), np.bool_)
        blocks = ranges.rows(BYTES_PER_BLOCK).view("<u4")
        hit[row[check_blocks(blocks, block_mask(hashes[value]))]] = True
        self._not_empty[pair[blocks.any(axis=1)]] = True
        self._look_for_bits(storage, chunks[~hit & ~self._not_empty[chunks]], question.reads)
        return hit

    def _look_for_bits(self, storage: Storage, chunks: NDArray[np.int64], count: ReadCount) -> None:
        """Read on after the first read, for all `chunks` at once and in growing steps, until a bit is set or the bitset
        ends."""
        at, end = self.offset[chunks] + _FIRST_READ_BYTES, self._bitset_at[chunks] + self.num_bytes[chunks]
        size = 4 * _FIRST_READ_BYTES
        while True:
            over = at >= end
            self._handle_empty(chunks[over])
            chunks, at, end = chunks[~over], at[~over], end[~over]
            if len(chunks) == 0:
                return
            any_bit = np.zeros(len(chunks), np.bool_)
            length = np.minimum(size, end - at)
            for some in np.array_split(np.arange(len(chunks)), len(chunks) * size // storage.batch_bytes + 1):
                ranges = read_ranges(storage, self._files, self._file[chunks[some]], at[some], length[some], count)
                any_bit[some] = any_set(ranges.buffer, ranges.starts, length[some])
            self._not_empty[chunks[any_bit]] = True
            chunks, at, end, size = chunks[~any_bit], (at + length)[~any_bit], end[~any_bit], 4 * size

    def _handle_empty(self, chunks: NDArray[np.int64]) -> None:
        """Set the state of filters without a set bit. Over nulls alone, such a filter counts as none. Over values, it
        is unusable, because the writer never filled it."""
        filled = self.filled[chunks]
        self._state[chunks[~filled]] = NO_FILTER
        for chunk in chunks[filled].tolist():
            self._invalidate(
                chunk, FormatError("no bit of it is set although the column has values; it was never filled")
            )

    def _bitsets(
        self, storage: Storage, chunks: NDArray[np.int64], count: ReadCount
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """The bitsets of `chunks`, decrypted: a buffer, and where each begins in it. Reads those that are not resident;
        of several chunks, none is."""
        at = self._resident_at[chunks[0]]
        if at >= 0 and len(chunks) == 1:
            blocks = self._resident[at : at + self.num_bytes[chunks[0]] // BYTES_PER_BLOCK]
            return blocks.view(np.uint8).reshape(-1), np.zeros(1, np.int64)
        stored = self._stored_bytes(chunks)
        ranges = read_ranges(storage, self._files, self._file[chunks], self._bitset_at[chunks], stored, count)
        if not self._ciphers.encrypted[chunks].any():
            return ranges.buffer, ranges.starts
        sizes = self.num_bytes[chunks]
        ends = np.cumsum(sizes)
        buffer = np.zeros(int(ends[-1]), np.uint8)
        extents = zip(chunks.tolist(), ranges.starts.tolist(), stored.tolist(), ends.tolist(), strict=True)
        for chunk, start, size, end in extents:
            bits = self._decrypt(chunk, ranges.buffer[start : start + size])
            if bits is not None:
                buffer[end - len(bits) : end] = bits
        return buffer, ends - sizes

    def _invalidate(self, chunk: int, error: BloomParquetError) -> None:
        """Never ask this filter again, and warn once per file."""
        locations, path = self._locations, self._files[self._file[chunk]].path
        where = f"{path}: row group {locations.row_group[chunk]}, column {locations.column}"
        self._state[chunk] = UNUSABLE
        self.errors[chunk] = type(error)(f"{where}: its Bloom filter cannot be used: {error}")
        self._warn(path, self.errors[chunk])


class ExpressionFilters(FilterStore):
    """The filters of an expression of a column. Only an index has them."""

    def __init__(self, tiled: TiledFilters) -> None:
        self.filled = np.zeros(len(tiled.tile), np.bool_)
        super().__init__(tiled, {})

    @property
    def present(self) -> NDArray[np.bool_]:
        return self.tiled.present

    def _load(self, question: Question) -> Iterator[NDArray[np.int64]]:
        return iter(())  # nothing can be read: what is not in a tile might match

    def _probe(self, question: Question) -> NDArray[np.bool_]:
        raise AssertionError("no filter was loaded")


def _cost_of_blocks(question: Question) -> NDArray[np.int64]:
    """The cost of reading blocks, in bytes of bitsets: a gap of up to this size between blocks is read, not skipped."""
    return (question.last - question.first) * (question.storage.merge_gap // 2 + BYTES_PER_BLOCK)
