"""Footers of files that did not change are neither read nor arranged again.

What is kept are whole :class:`RowGroups` (with the column arrays and filter headers that queries have made in them),
one for each set of files asked for lately. A file's identity is its path, size and modification time, so a file that
was replaced is read anew.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Sequence

from bloomparquet.format.footer import Footer, read_footers
from bloomparquet.format.schema import FileSchema
from bloomparquet.pruning.rowgroups import RowGroups
from bloomparquet.storage import FileInfo, ReadCount, Storage

_KEPT_BYTES = 512 * 1024 * 1024
_KEPT_TABLES = 16


class FooterCache:
    """Row groups by the files they lie in; safe to use from several threads; bounded by what it holds."""

    def __init__(self, kept_bytes: int = _KEPT_BYTES) -> None:
        self._kept_bytes = kept_bytes
        self._tables: OrderedDict[tuple[str, tuple[FileInfo, ...]], RowGroups] = OrderedDict()
        self._footers: weakref.WeakValueDictionary[tuple[str, FileInfo], Footer] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()

    def row_groups(
        self, storage: Storage, files: Sequence[FileInfo], count: ReadCount, *, skip_corrupt: bool
    ) -> RowGroups:
        """The row groups of `files`; reads the footers that are not known. Errors as for :func:`read_footers`."""
        key = (storage.key, tuple(files))
        with self._lock:
            found = self._tables.get(key)
            if found is not None:
                self._tables.move_to_end(key)
                return found
            footers = [self._footers.get((storage.key, file)) if file.mtime_ns else None for file in files]
        unknown = [i for i, footer in enumerate(footers) if footer is None]
        for i, footer in zip(
            unknown, read_footers(storage, [files[i] for i in unknown], count, skip_corrupt=skip_corrupt), strict=True
        ):
            footers[i] = footer
        readable = [(file, footer) for file, footer in zip(files, footers, strict=True) if footer is not None]
        table = RowGroups([file for file, _ in readable], [footer for _, footer in readable])
        with self._lock:
            # Without a modification time, a file that was replaced by one of the same size would not be noticed.
            dated = [(file, footer) for file, footer in readable if file.mtime_ns]
            for file, footer in dated:
                self._footers[storage.key, file] = footer
            if len(dated) == len(files):
                self._tables[key] = table
            while len(self._tables) > 1 and (len(self._tables) > _KEPT_TABLES or self._size() > self._kept_bytes):
                self._tables.popitem(last=False)
        return table

    def schemas(self, storage: Storage, files: Sequence[FileInfo], count: ReadCount) -> list[FileSchema]:
        """The distinct schemas of `files`; damaged files have none."""
        found = read_footers(storage, files, count, skip_corrupt=True)
        return list({id(footer.layout.schema): footer.layout.schema for footer in found if footer is not None}.values())

    def _size(self) -> int:
        return sum(table.kept_bytes for table in self._tables.values())

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._tables.clear()
            self._footers.clear()
