"""The Bloom filters of one Parquet column over many row groups: read as little as a question needs, and asked.

The first read of a filter takes the header and, if it is small, the whole bitset; both are kept. Later reads take
single blocks. A bitset is read whole if a query asks for so many blocks that their reads would touch, or if all lookups
together have done so: then a folded copy of it is kept, which answers most of the later lookups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError, FormatError
from bloomparquet.parquet.bloom_filter.filter_bytes import FilterCiphers, any_set
from bloomparquet.parquet.bloom_filter.header import MAX_HEADER_BYTES
from bloomparquet.parquet.bloom_filter.sizes import BYTES_PER_BLOCK
from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter, block_index, block_mask, check_blocks
from bloomparquet.parquet.encryption.file_crypto import ChunkCipher
from bloomparquet.planning.evidence.filter_store import RESIDENT_BYTES, FilterStore, check_in_rounds, pairs
from bloomparquet.planning.evidence.interface import Question
from bloomparquet.planning.parquet.column_arrays import ChunkLocations, ColumnArrays
from bloomparquet.planning.parquet.filter_facts import NO_FILTER, READY, UNREAD, UNUSABLE, FilterFacts
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
        self._facts = arrays.filter_facts
        super().__init__(self._facts.tiled)
        self._cost_of_blocks = np.zeros(len(arrays.offset), np.int64)  # that were read so far
        self._is_chosen = np.zeros(len(arrays.offset), np.bool_)  # to be read whole and copied
        self.loaded_revision = self.revision
        for chunk, error in self.errors.items():
            self._warn(self._files[self._file[chunk]].path, error)

    @property
    def errors(self) -> Mapping[int, BloomParquetError]:
        return self._facts.errors

    @property
    def present(self) -> NDArray[np.bool_]:
        """Whether each chunk has a filter, as footers and the index say."""
        return (self.offset >= 0) | self.in_index

    @property
    def ciphers(self) -> Sequence[ChunkCipher | None] | None:
        return self._ciphers.ciphers

    @property
    def cached_bytes(self) -> int:
        """The memory of the resident and folded bitsets, and the arrays."""
        facts = self._facts
        arrays = (facts.resident, self.offset, self.length, facts.num_bytes, facts.bitset_at, facts.resident_at)
        return sum(array.nbytes for array in arrays) + facts.folded.cached_bytes

    @property
    def revision(self) -> int:
        """A counter that grows whenever something worth storing was read."""
        facts = self._facts
        read, unusable = facts.state != UNREAD, facts.state == UNUSABLE
        return sum(int(np.count_nonzero(array)) for array in (read, unusable, facts.not_empty))

    @property
    def facts(self) -> FilterFacts:
        """All that was read."""
        return self._facts

    def read(self, storage: Storage, chunk: int, count: ReadCount) -> NDArray[np.uint8] | None:
        """The whole bitset of one chunk, shape (bytes,); None if it has no filter. Raises the error of an unusable
        filter."""
        with self._lock:
            if self._facts.state[chunk] == UNREAD:
                self._read_headers(storage, np.array([chunk]), count)
            if self._facts.state[chunk] == NO_FILTER:
                return None
            if self._facts.state[chunk] == UNUSABLE:
                raise self.errors[chunk]
            buffer, starts = self._bitsets(storage, np.array([chunk]), count)
            if self._facts.state[chunk] == UNUSABLE:
                raise self.errors[chunk]
            return buffer[starts[0] : starts[0] + self._facts.num_bytes[chunk]]

    def stored_sizes(self, storage: Storage, chunks: NDArray[np.int64], count: ReadCount) -> NDArray[np.int64]:
        """The bytes of the filters of `chunks` with their headers, which are read; 0 for a filter that cannot be
        used."""
        with self._lock:
            self._read_headers(storage, chunks[self._facts.state[chunks] == UNREAD], count)
            sizes = self._facts.bitset_at[chunks] - self.offset[chunks] + self._stored_bytes(chunks)
            return np.where(self._facts.state[chunks] == READY, sizes, 0)

    def measure(self, storage: Storage, count: ReadCount) -> int:
        """The bytes of all bitsets that can be used. Reads headers."""
        with self._lock:
            self._read_headers(storage, np.flatnonzero(self._facts.state == UNREAD), count)
            return int(self._facts.num_bytes[self._facts.state == READY].sum())

    def read_all(self, storage: Storage, count: ReadCount) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """Each chunk whose filter can be used, and its bitset. Filters without a set bit are left out: they need the
        whole column to be judged."""
        self.measure(storage, count)
        facts = self._facts  # no lock: an interrupted caller may keep this generator, for example in a traceback
        ready, is_resident = np.flatnonzero(facts.state == READY), facts.resident_at[facts.state == READY] >= 0
        others = ready[~is_resident]
        batch = np.cumsum(facts.num_bytes[others]) // storage.batch_bytes
        for some in (ready[is_resident], *np.split(others, np.flatnonzero(np.diff(batch)) + 1)):
            if not len(some):
                continue
            with self._lock:
                buffer, starts = self._bitsets(storage, some, count)
            for chunk, start, size in zip(some.tolist(), starts.tolist(), facts.num_bytes[some].tolist(), strict=True):
                bits = buffer[start : start + size]
                if self._facts.state[chunk] == READY and bits.any():
                    yield chunk, bits

    def _read_headers(self, storage: Storage, chunks: NDArray[np.int64], count: ReadCount) -> None:
        """Read headers, and as much of the bitsets as the first read of each filter takes."""
        room = self._locations.limit[chunks] - self.offset[chunks]
        in_file = (self.offset[chunks] >= 4) & (room > BYTES_PER_BLOCK) & (self.length[chunks] <= room)
        outside = {}
        for chunk in chunks[~in_file].tolist():
            extent = f"offset {self.offset[chunk]}"
            if self.length[chunk] >= 0:
                extent += f" and the length {self.length[chunk]}"
            data = f"the file's data (bytes 4 to {self._locations.limit[chunk]})"
            outside[chunk] = FormatError(f"the footer gives it the {extent}, outside {data}")
        self._invalidate(outside)
        chunks, room = chunks[in_file], room[in_file]
        if len(chunks) == 0:
            return
        length = self.length[chunks]
        is_small = length <= max(_SMALL_BYTES, storage.merge_gap)
        whole = (length > 0) & (is_small | self._ciphers.encrypted[chunks])
        if self._facts.resident.nbytes + int(length[whole].sum()) > RESIDENT_BYTES:
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
        read, length = header_bytes > 0, self.length[chunks]
        end = self.offset[chunks] + header_bytes + stored
        for i in np.flatnonzero(read & (end > self._locations.limit[chunks])).tolist():
            errors[i] = FormatError(f"its header claims {num_bytes[i]} bytes, which would end in or after the footer")
        for i in np.flatnonzero(read & (length >= 0) & (length != header_bytes + stored)).tolist():
            size_in_file = header_bytes[i] + stored[i]
            errors[i] = FormatError(f"its header and bitset are {size_in_file} bytes, but the footer says {length[i]}")
        self._invalidate({int(chunks[i]): error for i, error in errors.items()})
        ready = np.delete(np.arange(len(chunks)), list(errors))
        chunks, num_bytes = chunks[ready], num_bytes[ready]
        starts, bytes_read = ranges.starts[ready] + header_bytes[ready], size[ready] - header_bytes[ready]
        any_bit = any_set(ranges.buffer, starts, np.minimum(bytes_read, num_bytes))
        self._facts = self._facts.changed(
            chunks, state=READY, bitset_at=self.offset[chunks] + header_bytes[ready], num_bytes=num_bytes,
            not_empty=~self._ciphers.encrypted[chunks] & any_bit,
        )  # fmt: skip
        self._cache(ranges.buffer, chunks, starts, np.flatnonzero(bytes_read >= stored[ready]))

    def _decrypt(
        self, buffer: NDArray[np.uint8], chunks: NDArray[np.int64], starts: NDArray[np.int64]
    ) -> dict[int, NDArray[np.uint8]]:
        """The bitsets of `chunks`, by chunk, without those that cannot be decrypted. ``starts[i]``: where the bytes of
        bitset i begin in `buffer`."""
        bitsets, errors = self._ciphers.decrypt_bitsets(chunks, Ranges(buffer, starts), self._stored_bytes(chunks))
        self._invalidate(errors)
        # Of plain bitsets this is known since the first read.
        encrypted = [chunk for chunk, bits in bitsets.items() if self._ciphers.encrypted[chunk] and bits.any()]
        self._record_bits(np.array(encrypted, np.int64))
        return bitsets

    def _record_bits(self, chunks: NDArray[np.int64]) -> FilterFacts:
        """Record that the filters of `chunks` have a set bit."""
        if not self._facts.not_empty[chunks].all():
            self._facts = self._facts.changed(chunks, not_empty=True)
        return self._facts

    def _stored_bytes(self, chunks: NDArray[np.int64]) -> NDArray[np.int64]:
        """The size of bitsets in the file, with encryption."""
        return self._facts.num_bytes[chunks] + self._ciphers.overhead(chunks)

    def _cache(
        self, buffer: NDArray[np.uint8], chunks: NDArray[np.int64], starts: NDArray[np.int64], whole: NDArray[np.int64]
    ) -> None:
        """Keep the bitsets that were read whole, ``chunks[whole]``, up to RESIDENT_BYTES."""
        sizes = self._facts.num_bytes[chunks[whole]]
        whole = whole[np.cumsum(sizes) + self._facts.resident.nbytes <= RESIDENT_BYTES]
        bitsets = self._decrypt(buffer, chunks[whole], starts[whole])
        if not bitsets:
            return
        cached, facts = np.array(list(bitsets), np.int64), self._facts
        sizes = facts.num_bytes[cached]
        at = len(facts.resident) + (np.cumsum(sizes) - sizes) // BYTES_PER_BLOCK
        blocks = np.concatenate(list(bitsets.values())).view("<u4").reshape(-1, 8)
        resident = np.concatenate((facts.resident, blocks))
        self._facts = replace(facts.changed(cached, resident_at=at), resident=resident)

    def _prepare(self, question: Question) -> Iterator[NDArray[np.int64]]:
        """Read the missing headers. Blocks and bitsets are read when they are probed. Resident bitsets come apart from
        the others."""
        chunks = question.chunks
        if len(unread := chunks[self._facts.state[chunks] == UNREAD]):
            self._read_headers(question.storage, unread, question.reads)
        facts = self._facts
        ready = np.flatnonzero(facts.state[chunks] == READY)
        is_resident = facts.resident_at[chunks[ready]] >= 0
        if is_resident.any():
            yield ready[is_resident]
        if is_resident.all():
            return
        ready = ready[~is_resident]
        some = question.about(ready)
        self._choose_copies(some)
        cost = np.where(self._are_read_whole(some), facts.num_bytes[some.chunks], _cost_of_blocks(some))
        piece = (np.cumsum(cost) - cost) // question.storage.batch_bytes
        yield from np.split(ready, np.flatnonzero(np.diff(piece)) + 1)

    def _answer(self, question: Question) -> NDArray[np.bool_]:
        chunks, result = question.chunks, np.zeros(len(question.chunks), np.bool_)
        is_resident = self._facts.resident_at[chunks[0]] >= 0
        whole = np.ones_like(result) if is_resident else self._are_read_whole(question)
        for chosen, probe in ((whole, self._probe_whole), (~whole, self._probe_blocks)):
            if chosen.any():
                result[chosen] = probe(question.about(np.flatnonzero(chosen)))
        result[self._facts.state[chunks] != READY] = True
        return result

    def _known_absent(self, question: Question) -> NDArray[np.bool_]:
        return self._facts.folded.excluded(question)

    def _choose_copies(self, question: Question) -> None:
        """Choose filters to read whole because their blocks cost as much in all questions so far. A few for each
        question: none may take much longer than the others."""
        chunks, facts = question.chunks, self._facts
        in_all = self._cost_of_blocks[chunks] + _cost_of_blocks(question) >= facts.num_bytes[chunks]
        needs_none = facts.folded.present[chunks] | facts.folded.is_full
        chosen = chunks[in_all & ~needs_none]
        self._is_chosen = np.zeros(len(self.offset), np.bool_)
        self._is_chosen[chosen[np.cumsum(facts.num_bytes[chosen]) <= _COPIED_BYTES]] = True

    def _are_read_whole(self, question: Question) -> NDArray[np.bool_]:
        """Whether each bitset is read whole. None of them is resident."""
        chunks = question.chunks
        blocks_cost_more = _cost_of_blocks(question) >= self._facts.num_bytes[chunks]
        return blocks_cost_more | self._is_chosen[chunks] | self._ciphers.encrypted[chunks]

    def _probe_whole(self, question: Question) -> NDArray[np.bool_]:
        """Probe whole bitsets. Either all of the chunks are resident, or none is."""
        chunks, last, hashes = question.chunks, question.last, question.hashes
        facts = self._facts
        num_bytes = facts.num_bytes[chunks]
        if facts.resident_at[chunks[0]] >= 0:
            buffer, starts = facts.resident.view(np.uint8).reshape(-1), BYTES_PER_BLOCK * facts.resident_at[chunks]
        else:
            buffer, starts = self._bitsets(question.storage, chunks, question.reads)
            facts = self._record_bits(chunks[any_set(buffer, starts, num_bytes)])
            is_usable = facts.not_empty[chunks] & (facts.state[chunks] == READY)
            (new,) = np.nonzero(is_usable & ~facts.folded.present[chunks])
            folded = facts.folded.added(chunks[new], Ranges(buffer, starts[new]), num_bytes[new])
            facts = self._facts = replace(facts, folded=folded)
        hit: NDArray[np.bool_] = facts.state[chunks] == UNUSABLE  # those whose bitset could not be decrypted
        n_blocks = num_bytes // BYTES_PER_BLOCK

        def find_hits(row: NDArray[np.int64], value: NDArray[np.int64]) -> NDArray[np.int64]:
            block = Ranges(buffer, starts[row] + BYTES_PER_BLOCK * block_index(hashes[value], n_blocks[row]))
            return row[check_blocks(block.rows(BYTES_PER_BLOCK).view("<u4"), block_mask(hashes[value]))]

        undecided, at = check_in_rounds(hit, question.first, last, _ROUNDS, find_hits)
        for i in undecided.tolist():
            # With so many values, asking one filter at a time is faster.
            bloom = SplitBlockBloomFilter.from_bytes(buffer[starts[i] : starts[i] + num_bytes[i]].data)
            middle = min(at[i] + _FIRST_VALUES, last[i])  # a hit saves the rest
            hit[i] = bloom.check(hashes[at[i] : middle]).any() or bloom.check(hashes[middle : last[i]]).any()
        if not (hit | facts.not_empty[chunks]).all():
            self._handle_empty(chunks[~hit & ~facts.not_empty[chunks]])
        return hit

    def _probe_blocks(self, question: Question) -> NDArray[np.bool_]:
        """Probe by reading one block for each chunk and value. None of the chunks is encrypted."""
        chunks, hashes, storage = question.chunks, question.hashes, question.storage
        self._cost_of_blocks[chunks] += _cost_of_blocks(question)
        row, value = pairs(question.first, question.last)
        pair, facts = chunks[row], self._facts
        block = block_index(hashes[value], facts.num_bytes[pair] // BYTES_PER_BLOCK)
        offset, length = facts.bitset_at[pair] + BYTES_PER_BLOCK * block, np.full(len(pair), BYTES_PER_BLOCK)
        ranges = read_ranges(storage, self._files, self._file[pair], offset, length, question.reads)
        hit = np.zeros(len(chunks), np.bool_)
        blocks = ranges.rows(BYTES_PER_BLOCK).view("<u4")
        hit[row[check_blocks(blocks, block_mask(hashes[value]))]] = True
        self._record_bits(pair[blocks.any(axis=1)])
        self._look_for_bits(storage, chunks[~hit & ~self._facts.not_empty[chunks]], question.reads)
        return hit

    def _look_for_bits(self, storage: Storage, chunks: NDArray[np.int64], count: ReadCount) -> None:
        """Read on after the first read, for all `chunks` at once and in growing steps, until a bit is set or the bitset
        ends."""
        at, end = self.offset[chunks] + _FIRST_READ_BYTES, self._facts.bitset_at[chunks] + self._facts.num_bytes[chunks]
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
            self._record_bits(chunks[any_bit])
            chunks, at, end, size = chunks[~any_bit], (at + length)[~any_bit], end[~any_bit], 4 * size

    def _handle_empty(self, chunks: NDArray[np.int64]) -> None:
        """Set the state of filters without a set bit. Over nulls alone, such a filter counts as none. Over values, it
        is unusable, because the writer never filled it."""
        filled = self.filled[chunks]
        if not filled.all():
            self._facts = self._facts.changed(chunks[~filled], state=NO_FILTER)
        error = FormatError("no bit of it is set although the column has values; it was never filled")
        self._invalidate(dict.fromkeys(chunks[filled].tolist(), error))

    def _bitsets(
        self, storage: Storage, chunks: NDArray[np.int64], count: ReadCount
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """The bitsets of `chunks`, decrypted: a buffer, and where each begins in it. Either all of the chunks are
        resident, or none is and they are read."""
        resident_at, sizes = self._facts.resident_at[chunks], self._facts.num_bytes[chunks]
        if resident_at[0] >= 0:
            return self._facts.resident.view(np.uint8).reshape(-1), BYTES_PER_BLOCK * resident_at
        stored = self._stored_bytes(chunks)
        ranges = read_ranges(storage, self._files, self._file[chunks], self._facts.bitset_at[chunks], stored, count)
        if not self._ciphers.encrypted[chunks].any():
            return ranges.buffer, ranges.starts
        bitsets = self._decrypt(ranges.buffer, chunks, ranges.starts)
        buffer = [bitsets.get(chunk, np.zeros(size, np.uint8)) for chunk, size in zip(chunks.tolist(), sizes.tolist())]
        return np.concatenate(buffer), np.cumsum(sizes) - sizes

    def _invalidate(self, errors: Mapping[int, BloomParquetError]) -> None:
        """Never ask the filters of these chunks again, and warn once per file."""
        locations, worded = self._locations, dict[int, BloomParquetError]()
        for chunk, error in errors.items():
            path = self._files[self._file[chunk]].path
            where = f"{path}: row group {locations.row_group[chunk]}, column {locations.column}: its Bloom filter"
            worded[chunk] = type(error)(f"{where} cannot be used: {error}")
        if worded:
            facts = self._facts.changed(np.array(list(errors)), state=UNUSABLE)
            self._facts = replace(facts, errors={**facts.errors, **worded})
        for chunk, error in worded.items():
            self._warn(self._files[self._file[chunk]].path, error)


def _cost_of_blocks(question: Question) -> NDArray[np.int64]:
    """The cost of reading blocks, in bytes of bitsets: a gap of up to this size between blocks is read, not skipped."""
    return (question.last - question.first) * (question.storage.merge_gap // 2 + BYTES_PER_BLOCK)
