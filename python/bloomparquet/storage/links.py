"""Refuses symbolic links in loops: a listing that follows one would list the same files many times."""

from __future__ import annotations

import os

from bloomparquet.errors import UnsupportedError, shorten


def require_no_loop(root: str, link: str) -> None:
    """UnsupportedError if `link`, a symbolic link below `root`, points to a directory that contains it.

    Spark's listing follows such a link forty times, and reads each row as often.
    """
    target = os.stat(link)
    parent = os.path.dirname(link)
    while True:
        if os.path.samestat(target, os.stat(parent or ".")):
            raise UnsupportedError(
                f"{shorten(link)}: this symbolic link points to {shorten(parent)}, a directory that contains it, so "
                "the files there would be read many times; remove the link, or name the directories without it"
            )
        if len(parent) <= len(root.rstrip("/")):
            return
        parent = os.path.dirname(parent)


def require_no_loop_above(root: str, directory: str) -> None:
    """Apply :func:`require_no_loop` to each symbolic link between `root` and `directory`."""
    while len(directory) > len(root.rstrip("/")):
        if os.path.islink(directory):
            require_no_loop(root, directory)
        directory = os.path.dirname(directory)
