"""Finds the files of a table that changed while evidence was read: the evidence may be of another version."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from bloomparquet.planning.evidence.interface import Table
from bloomparquet.storage.staleness import changed_files


def find_changed_files(table: Table) -> NDArray[np.int64]:
    """The files of `table`, by index, that changed since they were listed.

    If there are any, no later plan uses what was read for `table`, not even if the listed version is there again: a
    link, for example, may lead to another file and back.
    """
    changed = np.flatnonzero(changed_files(table.storage, table.files))
    table.outdated |= len(changed) > 0
    return changed


@contextmanager
def reading(table: Table) -> Iterator[None]:
    """Read evidence of `table` outside of a plan. Looks for changed files afterwards."""
    try:
        yield
    finally:
        find_changed_files(table)
