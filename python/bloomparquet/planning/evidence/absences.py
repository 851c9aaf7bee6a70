"""Remembers which filters proved that a value is absent, so that they need not be read again for that value.

Filters never change: a file that is replaced is another file, whose filters have no entry here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bloomparquet.planning.evidence.interface import Question

_MOST_BYTES = 16 * 1024 * 1024


class Absences:
    """The proofs that chunks, of n, do not hold the values that were asked for last. Bounded in memory."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._absent: OrderedDict[int, NDArray[np.uint8]] = OrderedDict()  # by hash, one bit for each chunk

    def known(self, question: Question) -> NDArray[np.bool_]:
        """Whether each chunk of `question` is known not to hold its value; False if it asks for several values."""
        bits = self._absent.get(int(question.hashes[0])) if len(question.hashes) == 1 else None
        if bits is None:
            return np.zeros(len(question.chunks), np.bool_)
        self._absent.move_to_end(int(question.hashes[0]))
        return self._unpacked(bits)[question.chunks]

    def add(self, question: Question, answers: NDArray[np.bool_]) -> None:
        """Remember the answers to `question`: False is a proof."""
        if len(question.hashes) != 1 or bool(answers.all()):
            return
        value = int(question.hashes[0])
        absent = self._unpacked(self._absent.get(value, np.zeros(-(-self._n // 8), np.uint8)))
        absent[question.chunks[~answers & (question.first < question.last)]] = True
        self._keep(value, absent)

    @property
    def cached_bytes(self) -> int:
        return len(self._absent) * -(-self._n // 8)

    def copy(self) -> Absences:
        """A copy of these answers."""
        copied = Absences(self._n)
        copied._absent.update(self._absent)
        return copied

    def take(self, chunks: NDArray[np.int64]) -> Absences:
        """The absences in `chunks`, in that order."""
        taken = Absences(len(chunks))
        for value, bits in self._absent.items():
            taken._keep(value, self._unpacked(bits)[chunks])
        return taken

    @classmethod
    def concatenate(cls, parts: Sequence[Absences]) -> Absences:
        """The absences in the chunks of all `parts`, one after another."""
        joined = cls(sum(part._n for part in parts))
        nothing = [np.zeros(-(-part._n // 8), np.uint8) for part in parts]
        for value in dict.fromkeys(value for part in parts for value in part._absent):
            bits = [part._unpacked(part._absent.get(value, none)) for part, none in zip(parts, nothing, strict=True)]
            joined._keep(value, np.concatenate(bits))
        return joined

    def _unpacked(self, bits: NDArray[np.uint8]) -> NDArray[np.bool_]:
        return np.unpackbits(bits, count=self._n).view(np.bool_)

    def _keep(self, value: int, absent: NDArray[np.bool_]) -> None:
        self._absent[value] = np.packbits(absent)
        self._absent.move_to_end(value)
        while len(self._absent) > 1 and len(self._absent) * self._n > 8 * _MOST_BYTES:
            self._absent.popitem(last=False)
