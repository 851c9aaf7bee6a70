"""Surviving mutants of Python files that no test can kill, and why."""

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
        if change.function != self.function or change.old.count(self.old) != 1:
            return False
        return any(change.old.replace(self.old, new) == change.new for new in self.new)


def _explained(path: str, function: str, old: str, *new: str, why: str) -> Explained:
    return Explained(CORE + path, function, old, new, why)


_INT64 = "numpy makes int64 of Python's integers on the 64-bit systems that Spark runs on"
_STATISTICS, _ORDERING = "planning/evidence/statistics.py", "query/ordering.py"

EXPLAINED = (
    _explained(
        _STATISTICS,
        "_case_candidates",
        "len(encoded.hashes), np.int64",
        "len(encoded.hashes), None",
        "len(encoded.hashes), ",
        why=_INT64,
    ),
    _explained(
        "parquet/bloom_filter/xxh64.py",
        "_xxh64_items",
        "reshape(-1)",
        "reshape(-2)",
        why="numpy takes every negative length for the one that it computes",
    ),
)
