"""Faults at numbered calls, chosen by a seed: the same seed makes the same calls fail in the same way."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Sequence
from random import Random

SEED = int(os.environ.get("BLOOMPARQUET_SEED", "0"))
NUMBER = int(os.environ.get("BLOOMPARQUET_FAULTS", "0"))
"""How many faults to inject in a long run, in all; 0 for the few of each test."""
IS_REPEATED = 0 < NUMBER < 100
"""Whether single seeds are tried again: then not all kinds of ends are seen."""

ERRORS = (errno.EIO, errno.ENOSPC, errno.EACCES, errno.ESTALE)


def seeds(share: float, few: int) -> range:
    """The seeds of one test: `few` of them, or its share of a long run."""
    return range(SEED, SEED + (max(1, round(NUMBER * share)) if NUMBER else few))


def repeat(seed: int, of: str) -> str:
    """The message for a failing seed of the test with the id `of`, with the command that repeats it."""
    return f"seed {seed} of {of}; to repeat it: make faults SEED={seed} NUMBER=1 ARGS='-k {keyword(of)}'"


def keyword(name: str) -> str:
    """A name as ``pytest -k`` takes it."""
    return name.replace(",", "").replace(" ", "-")


class Injector:
    """Chooses a fault for some of the calls that it is asked about: of a name, each call has a few kinds of faults.

    Without a random generator there are none, and calls are counted. A fault may last: then all later calls of that
    name have it.
    """

    def __init__(self, random: Random | None = None, calls: int = 0) -> None:
        self._random = random
        self._at: set[int] = set()
        self._lasts = False
        if random is not None and calls:
            self._at = set(random.sample(range(1, calls + 1), min(calls, random.choice((1, 1, 1, 2, 3)))))
            self._lasts = random.random() < 0.25
        self._lasting: dict[str, str] = {}
        self.calls = 0
        self.made: Counter[tuple[str, str]] = Counter()
        """How often each kind of fault was made, by the name of the call and the kind."""

    def choose(self, name: str, kinds: Sequence[str]) -> str | None:
        """The fault of this call; None: it is to be done right."""
        self.calls += 1
        kind = self._lasting.get(name)
        if kind is None and self.calls in self._at and self._random is not None:
            kind = self._random.choice(kinds)
            if self._lasts and kind != "late":
                self._lasting[name] = kind
        if kind is not None:
            self.made[name, kind] += 1
        return kind

    def error(self, path: str | None = None) -> OSError:
        assert self._random is not None
        code = self._random.choice(ERRORS)
        return OSError(code, os.strerror(code), path)

    def part(self, length: int) -> int:
        """Some of `length` bytes, at least one of several."""
        assert self._random is not None
        return self._random.randrange(1, length) if length > 1 else length

    def lie(self, size: int) -> int:
        """Another size than this one."""
        assert self._random is not None
        return max(0, size + self._random.choice((-size, -9, -8, -1, 1, 7, 4096)))
