"""Surviving mutants of Python files that no test can kill, and why."""

from __future__ import annotations

from typing import NamedTuple

from tests.mutants.python_mutants import Change
from tests.mutants.targets import CORE


class Explained(NamedTuple):
    """Changes of one file that change no answer."""

    path: str
    why: str
    changes: tuple[Change, ...]


def _explained(path: str, why: str, *changes: tuple[str, str, str]) -> Explained:
    return Explained(CORE + path, why, tuple(Change(*each) for each in changes))


EXPLAINED = (
    _explained(
        "parquet/bloom_filter/xxh64.py",
        "numpy takes every negative length for the one that it computes",
        (
            "_xxh64_items",
            'words = little_endian.reshape(-1).view(f"<u{width}")',
            'words = little_endian.reshape(-2).view(f"<u{width}")',
        ),
    ),
)
