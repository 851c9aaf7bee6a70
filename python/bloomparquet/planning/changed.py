"""Finds the files of a table that changed while evidence was read: the evidence may be of another version."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from bloomparquet.planning.evidence.interface import Table
from bloomparquet.storage.files import ReadCount
from bloomparquet.storage.forks import new_lock
from bloomparquet.storage.staleness import changed_files

_running = WeakSet["EvidenceReads"]()  # without those whose plan was interrupted
_lock = new_lock()


class EvidenceReads:
    """The reads of a plan that runs, or of another reader of evidence.

    Tables share what was read, also while it is not known yet whether its files had changed. So a plan that overlaps
    with a reader looks for changed files, even if it has read nothing itself.
    """

    def __init__(self, *reads: ReadCount, unknown: bool = False) -> None:
        self._reads = reads
        self._is_suspect = unknown  # it may have read, or used what was read of a file that had changed

    def __enter__(self) -> EvidenceReads:
        with _lock:
            _running.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        with _lock:
            _running.discard(self)

    def find_changed_files(self, table: Table) -> NDArray[np.int64]:
        """The files of `table`, by index, that changed since they were listed, if evidence of them may have been read.

        If there are any, no later plan uses what was read for `table`, not even if the listed version is there again: a
        link, for example, may lead to another file and back.
        """
        with _lock:
            has_reader = any(each._is_suspect or any(count.requests for count in each._reads) for each in _running)
        if not has_reader and not table.outdated:
            return np.zeros(0, np.int64)
        changed = np.flatnonzero(changed_files(table.storage, table.files))
        if len(changed):
            table.outdated = True
            with _lock:
                for each in _running:  # their tables may have copies of the evidence
                    each._is_suspect = True
        return changed


@contextmanager
def reading(table: Table) -> Iterator[None]:
    """Read evidence of `table` outside of a plan. Looks for changed files afterwards."""
    with EvidenceReads(unknown=True) as reads:
        try:
            yield
        finally:
            reads.find_changed_files(table)
