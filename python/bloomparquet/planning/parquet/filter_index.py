"""What reading filters has taught, apart from the files that they lie in: it can be stored, and handed on.

A table of row groups whose files are partly those of another takes over what is known of their filters; so does one
that another process has stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError
from bloomparquet.parquet.bloom_filter.split_block import BYTES_PER_BLOCK
from bloomparquet.planning.evidence.filter_store import RESIDENT_BYTES, pairs

ABSENT, UNREAD, READY, BROKEN = range(4)
_MOSTLY_USED = 3 / 4


@dataclass(frozen=True, slots=True)
class Learnt:
    """What reading has taught about n filters; it can be stored, and handed from one set of files to another.

    All but `resident` have shape (n,): `state`, where each bitset begins in its file, its bytes, whether a bit of it
    was seen, and the block of `resident` (blocks, 8) at which it begins there, -1 where it is not in memory. `errors`
    says why each broken one cannot be used, `told` which files a warning has named.
    """

    state: NDArray[np.int8]
    bitset_at: NDArray[np.int64]
    num_bytes: NDArray[np.int64]
    not_empty: NDArray[np.bool_]
    resident_at: NDArray[np.int64]
    resident: NDArray[np.uint32]
    errors: Mapping[int, BloomParquetError]
    told: frozenset[str] = frozenset()

    @classmethod
    def nothing(cls, offset: NDArray[np.int64], unreadable: Mapping[int, BloomParquetError] | None = None) -> Learnt:
        """Of filters that the footers place at `offset`, -1 where there is none; `unreadable` says of which chunks it
        cannot be told, and why."""
        zeros, none = np.zeros(len(offset), np.int64), np.zeros(len(offset), np.bool_)
        state = np.where(offset < 0, ABSENT, UNREAD).astype(np.int8)
        state[list(unreadable or ())] = BROKEN
        return cls(state, zeros, zeros, none, zeros - 1, np.zeros((0, 8), np.uint32), unreadable or {})

    def take(self, chunks: NDArray[np.int64]) -> Learnt:
        """What is known of some of them, or of all in another order."""
        errors = {i: self.errors[int(chunks[i])] for i in np.flatnonzero(self.state[chunks] == BROKEN).tolist()}
        return Learnt(
            self.state[chunks], self.bitset_at[chunks], self.num_bytes[chunks], self.not_empty[chunks],
            self.resident_at[chunks], self.resident, errors, self.told,
        )  # fmt: skip

    def compact(self) -> Learnt:
        """The same without the bitsets in memory that are those of other filters, unless these are few: then they cost
        less than copying the others."""
        sizes = np.where(self.resident_at < 0, 0, self.num_bytes // BYTES_PER_BLOCK)
        if int(sizes.sum()) >= _MOSTLY_USED * len(self.resident):
            return self
        _, blocks = pairs(self.resident_at, self.resident_at + sizes)
        at = np.where(self.resident_at < 0, -1, np.cumsum(sizes) - sizes)
        return replace(self, resident_at=at, resident=self.resident[blocks])

    @classmethod
    def concatenate(cls, parts: Sequence[Learnt]) -> Learnt:
        """The filters of all `parts`, one after another; as many bitsets stay in memory as may."""
        resident_at, resident, errors = [], [], {}
        blocks = chunks = 0
        for part in parts:
            fits = (blocks + len(part.resident)) * BYTES_PER_BLOCK <= RESIDENT_BYTES
            resident_at.append(np.where((part.resident_at < 0) | (not fits), -1, part.resident_at + blocks))
            if fits:
                resident.append(part.resident)
                blocks += len(part.resident)
            errors.update({chunks + chunk: error for chunk, error in part.errors.items()})
            chunks += len(part.state)
        names = ("state", "bitset_at", "num_bytes", "not_empty")
        state, bitset_at, num_bytes, not_empty = (
            np.concatenate([getattr(part, name) for part in parts]) for name in names
        )
        return cls(
            state, bitset_at, num_bytes, not_empty, np.concatenate(resident_at),
            resident[0] if len(resident) == 1 else np.concatenate([np.zeros((0, 8), np.uint32), *resident]), errors,
            frozenset().union(*(part.told for part in parts)),
        )  # fmt: skip
