"""Reads the structs at many positions of a buffer at once, by their template: each step is a few array operations.

The structs of thousands of files are read in a fraction of the time that reading one after the other takes. A struct
that has the form of a template may be missed, for example if an integer in it takes more than six bytes: no match means
that the struct must be read alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bloomparquet.parquet.thrift.template import Kind, Template

Words = NDArray[np.uint64]

_WORD = 8  # bytes
_ENDS = 0x8080808080808080  # this bit of a byte is set unless it is the last one of an integer
_GROUPS = np.uint64(0x7F7F7F7F7F7F7F7F)
_ONE_PER_BYTE = np.uint64(0x0101010101010101)
_1, _3, _4, _7, _15, _63, _255 = (np.uint64(number) for number in (1, 3, 4, 7, 15, 63, 255))
_SPREAD = tuple(
    (np.uint64(shift), np.uint64(low), np.uint64(high))
    for shift, low, high in (
        (1, 0x007F007F007F007F, 0x7F007F007F007F00),
        (2, 0x00003FFF00003FFF, 0x3FFF00003FFF0000),
        (4, 0x000000000FFFFFFF, 0x0FFFFFFF00000000),
    )
)
_MAX_PREFIX = 2  # bytes of a literal that are read in one word with the integer after them
_MAX_INTEGERS = 4  # integers that are read in one word


class Buffer:
    """Byte strings, joined to `data`: ``starts[i]`` and ``ends[i]`` are the positions of the i-th in it."""

    def __init__(self, parts: Sequence[bytes]) -> None:
        sizes = np.fromiter(map(len, parts), np.int64, len(parts))
        self.ends = np.cumsum(sizes)
        self.starts = self.ends - sizes
        padding = bytes(2 * _WORD - sum(map(len, parts)) % _WORD)
        self.data = b"".join([*parts, padding])
        self._words = np.frombuffer(self.data, "<u8")

    def words(self, positions: Words) -> Words:
        """The eight bytes at each of `positions`, the first one lowest. Any bytes where the buffer has ended."""
        index, shift = (positions >> _3).view(np.int64), (positions & _7) << _3
        low, high = self._words.take(index, mode="clip"), self._words.take(index + 1, mode="clip")
        low >>= shift
        high <<= _1
        high <<= _63 - shift
        low |= high
        return low


class Matches(NamedTuple):
    """The values that a template has read at n positions; arrays of shape (n,).

    `ends`: the ends of the structs, -1 where there is no match. By slot, the wanted values: `integers`, and the
    positions and the sizes of `strings`. They mean nothing where there is no match.
    """

    ends: NDArray[np.int64]
    integers: dict[int, NDArray[np.int64]]
    strings: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]]


def match(
    template: Template, names: bytes, buffer: Buffer, positions: NDArray[np.int64], limits: NDArray[np.int64]
) -> Matches:
    """Read the structs at `positions` that have the form of `template` and the list `names`, ending by `limits`."""
    cursor = Cursor(buffer, positions)
    integers: dict[int, NDArray[np.int64]] = {}
    strings: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
    for step in template.steps:
        if step.kind is Kind.NUMBERS:
            bits = cursor.integers(step.literal, step.size, is_wanted=step.slot is not None)
            if step.slot is not None:
                integers[step.slot] = ((bits >> _1) ^ -(bits & _1)).view(np.int64)
        elif step.kind in (Kind.STRING, Kind.BYTES):
            if step.kind is Kind.STRING:
                size = cursor.integers(step.literal, is_wanted=True)
            else:
                cursor.literal(step.literal)
                size = np.full(len(positions), step.size, np.uint64)
            if step.slot is not None:
                strings[step.slot] = cursor.at.astype(np.int64), size.view(np.int64)
            cursor.at += size
        else:
            cursor.literal(step.literal + names if step.kind is Kind.NAMES else step.literal)
    ends = cursor.at.view(np.int64)
    ends[(cursor.differs != 0) | (ends > limits)] = -1
    return Matches(ends, integers, strings)


class Cursor:
    """Positions in a buffer that move on together. `differs` is 0 where all bytes up to there were as expected."""

    def __init__(self, buffer: Buffer, positions: NDArray[np.int64] | Words) -> None:
        self._buffer = buffer
        self.at = positions.astype(np.uint64)
        self.differs = np.zeros(len(positions), np.uint64)

    def literal(self, expected: bytes) -> None:
        for word, mask, size in _words_of(expected):
            self.differs |= (self._buffer.words(self.at) ^ word) & mask
            self.at += size

    def integers(self, prefix: bytes, count: int = 1, *, is_wanted: bool = False) -> Words:
        """Move behind `prefix` and `count` integers. The bits of a single one if it `is_wanted`."""
        if len(prefix) > _MAX_PREFIX:
            self.literal(prefix)
            prefix = b""
        while count > _MAX_INTEGERS:
            self.integers(prefix, _MAX_INTEGERS)
            prefix, count = b"", count - _MAX_INTEGERS
        words = self._buffer.words(self.at)
        for word, mask, size in _words_of(prefix):
            self.differs |= (words ^ word) & mask
            self.at += size
            words >>= size << _3
        last = ~words & np.uint64(_ENDS >> 8 * len(prefix))  # the last bytes of integers
        for _ in range(count - 1):
            last &= last - _1
        self.differs |= last == 0
        read = last ^ (last - _1)
        self.at += np.bitwise_count(read & _ONE_PER_BYTE)
        if not is_wanted:
            return words
        words &= read & _GROUPS
        for shift, low, high in _SPREAD:
            words = (words & low) | ((words & high) >> shift)
        return words

    def list_size(self, kind: int) -> NDArray[np.int64]:
        """Move behind the header of a list of elements of type `kind`, and give their number."""
        header = self._buffer.words(self.at)
        self.differs |= (header & _15) ^ np.uint64(kind)
        self.at += _1
        size = (header & _255) >> _4
        (long,) = np.nonzero(size == _15)
        if len(long):
            rest = Cursor(self._buffer, self.at[long])
            size[long] = rest.integers(b"", is_wanted=True)
            self.at[long], self.differs[long] = rest.at, self.differs[long] | rest.differs
        return size.view(np.int64)


@lru_cache(maxsize=4096)
def _words_of(literal: bytes) -> tuple[tuple[np.uint64, np.uint64, np.uint64], ...]:
    """The words of a literal, with the mask of the bytes that count in each, and their number."""
    parts = [literal[i : i + _WORD] for i in range(0, len(literal), _WORD)]
    return tuple(
        (
            np.uint64(int.from_bytes(part, "little")),
            np.uint64((1 << 8 * len(part)) - 1),
            np.uint64(len(part)),
        )
        for part in parts
    )
