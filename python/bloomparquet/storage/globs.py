"""Globs in paths: finding them, and matching the parts of a path."""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from collections.abc import Sequence
from contextlib import suppress

from bloomparquet.storage.links import require_no_loop_above

_WILDCARD = re.compile(r"[*?\[{]")
_BRACES = re.compile(r"\[[^]]+\]|\{((?:\[[^]]+\]|[^[{}])*)\}")  # innermost; in brackets, a brace is itself
_COMMA = re.compile(r",(?![^[]*\])")


def is_glob(path: str) -> bool:
    """Whether `path` has a wildcard: ``*``, ``?``, ``[`` or ``{``."""
    return _WILDCARD.search(path) is not None


def expand_braces(pattern: str) -> list[str]:
    """The globs of Python that `pattern` stands for: one for each choice of its ``{a,b}``, as in Hadoop's globs.

    In brackets, a brace or a comma is itself: ``[{]``.
    """
    for match in _BRACES.finditer(pattern):
        if match[1] is not None:
            choices = (pattern[: match.start()] + choice + pattern[match.end() :] for choice in _COMMA.split(match[1]))
            return list(dict.fromkeys(each for choice in choices for each in expand_braces(choice)))
    return [pattern]


def without_glob(path: str) -> str:
    """`path` up to the last slash before its first wildcard; the whole path if it has none."""
    wildcard = _WILDCARD.search(path)
    return path if wildcard is None else path[: path.rindex("/", 0, wildcard.start())]


def find_local(pattern: str) -> list[str]:
    """The local paths that match, sorted. Raises OSError for a directory that cannot be listed, which
    :func:`glob.glob` leaves out with its files."""
    matching = sorted(glob.glob(pattern, recursive=True))
    parts = pattern.split("/")
    for i, part in enumerate(parts):
        if is_glob(part):
            above = "/".join(parts[:i]) + "/" if i else "./"
            for directory in glob.glob(above + "**/" if part == "**" else above, recursive=True):
                with suppress(FileNotFoundError, NotADirectoryError):  # it was removed meanwhile
                    os.scandir(directory).close()
    if "**" in pattern:
        root = pattern.partition("**")[0]
        for directory in dict.fromkeys(os.path.dirname(path) for path in matching):
            require_no_loop_above(root, directory)
    return matching


def matches_glob(names: Sequence[str], patterns: Sequence[str]) -> bool:
    """Whether the parts of a path match those of a glob: as in :func:`glob.glob`, only ``**`` crosses directories."""
    if not patterns:
        return not names
    if patterns[0] == "**":
        return any(matches_glob(names[i:], patterns[1:]) for i in range(len(names) + 1))
    return bool(names) and fnmatch.fnmatchcase(names[0], patterns[0]) and matches_glob(names[1:], patterns[1:])
