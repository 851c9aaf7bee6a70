"""Globs in paths: finding them, and matching the parts of a path."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence

_WILDCARD = re.compile(r"[*?\[]")


def is_glob(path: str) -> bool:
    """Whether `path` has a wildcard: ``*``, ``?`` or ``[``."""
    return _WILDCARD.search(path) is not None


def without_glob(path: str) -> str:
    """`path` up to the last slash before its first wildcard; the whole path if it has none."""
    wildcard = _WILDCARD.search(path)
    return path if wildcard is None else path[: path.rindex("/", 0, wildcard.start())]


def matches_glob(names: Sequence[str], patterns: Sequence[str]) -> bool:
    """Whether the parts of a path match those of a glob: as in :func:`glob.glob`, only ``**`` crosses directories."""
    if not patterns:
        return not names
    if patterns[0] == "**":
        return any(matches_glob(names[i:], patterns[1:]) for i in range(len(names) + 1))
    return bool(names) and fnmatch.fnmatchcase(names[0], patterns[0]) and matches_glob(names[1:], patterns[1:])
