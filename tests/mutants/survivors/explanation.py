"""One explanation of mutants that survive, and reasons that mutants of several packages have."""

from __future__ import annotations

from typing import NamedTuple

from tests.mutants.python_mutants import Change
from tests.mutants.targets import CORE


class Explained(NamedTuple):
    """Mutants of `function` that change no answer: those that put one of `new` in place of `old`, a part of a line."""

    path: str
    function: str
    old: str
    new: tuple[str, ...]
    why: str

    def explains(self, change: Change) -> bool:
        old = change.old.replace("\n)", ")") if "\n)" not in change.new else change.old  # mutmut may join these lines
        if change.function != self.function or old.count(self.old) != 1:
            return False
        return any(old.replace(self.old, new) == change.new for new in self.new)


def explained(path: str, function: str, old: str, *new: str, why: str) -> Explained:
    return Explained(CORE + path, function, old, new, why)


INT64 = "numpy makes int64 of Python's integers on the 64-bit systems that Spark runs on"
EQUAL_LENGTHS = "both have the same length by construction"
ANY_NEGATIVE = "numpy takes every negative length for the one that it computes"
FLOAT64 = "numpy makes float64 of None"
