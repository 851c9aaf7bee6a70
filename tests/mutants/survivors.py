"""Surviving mutants that no test can kill, and why."""

from __future__ import annotations

from typing import NamedTuple

from tests.mutants.python_mutants import Change


class Explained(NamedTuple):
    why: str
    changes: tuple[Change, ...]


EXPLAINED: dict[str, tuple[Explained, ...]] = {}
