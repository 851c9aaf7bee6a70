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
_EQUAL_LENGTHS = "both have one element for each chunk"
_STATISTICS, _ORDERING = "planning/evidence/statistics.py", "query/ordering.py"
_ENCODING = "parquet/values/encoding.py"

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
        _ENCODING,
        "family_of",
        'node.physical_type or ""',
        'node.physical_type or "XXXX"',
        why="no table of physical types has either",
    ),
    _explained(
        _ENCODING,
        "_order_keys",
        'node.physical_type or ""',
        'node.physical_type or "XXXX"',
        why="a group has the family `other`, for which the function has returned",
    ),
    _explained(_ENCODING, "_order_keys", ", strict=True", ", ", ", strict=False", ", strict=None", why=_EQUAL_LENGTHS),
    _explained(_ENCODING, "bounds_of", ", strict=True", ", ", ", strict=False", ", strict=None", why=_EQUAL_LENGTHS),
    _explained(
        _ENCODING,
        "_order_keys",
        'int.from_bytes(value, "big", signed=True)',
        "int.from_bytes(value, signed=True)",
        why="big-endian is Python's default, from 3.11 on",
    ),
    _explained(
        _ENCODING,
        "_hash",
        "stored.itemsize == 4",
        "stored.itemsize == 5",
        why="xxh64_bytes gives the same hashes of the same bytes, but is slower",
    ),
    _explained(
        "parquet/bloom_filter/xxh64.py",
        "_xxh64_items",
        "reshape(-1)",
        "reshape(-2)",
        why="numpy takes every negative length for the one that it computes",
    ),
)
