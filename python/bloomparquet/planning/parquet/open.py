"""Opens Parquet files as a table of row groups: from the index, from the cache, or by reading their footers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from bloomparquet.errors import BloomParquetError
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.parquet.metadata.footer import read_footers
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.index.cache import PlanCache, TableKind
from bloomparquet.planning.index.lookup import OpenIndex
from bloomparquet.planning.index.segments import IndexedTables
from bloomparquet.planning.parquet.merge import merge
from bloomparquet.planning.parquet.row_groups import RowGroups
from bloomparquet.planning.parquet.serialized import read_segment, to_sections
from bloomparquet.storage.files import FileInfo, ReadCount, Storage

_KIND = TableKind(FileFormat.PARQUET, merge, read_segment, to_sections)
_indexed = IndexedTables[RowGroups](read_segment, partial(merge, lazily=True))


def open_row_groups(
    storage: Storage,
    files: Sequence[FileInfo],
    reads: ReadCount,
    *,
    cache: PlanCache,
    keys: Keys | None,
    left_out: dict[FileInfo, BloomParquetError] | None = None,
    unreadable: dict[FileInfo, BloomParquetError] | None = None,
    index: OpenIndex | None = None,
) -> RowGroups:
    """The row groups of `files`, in the order of `files`. Reads the footers that neither `index` nor `cache` has; see
    :func:`read_footers` for the other arguments and errors."""

    def read(some: Sequence[FileInfo]) -> RowGroups:
        footers = read_footers(storage, some, reads, keys=keys, left_out=left_out, undecryptable=unreadable)
        readable = [(file, footer) for file, footer in zip(some, footers, strict=True) if footer is not None]
        return RowGroups.of_footers(storage, [file for file, _ in readable], [footer for _, footer in readable], keys)

    def open_cached(some: Sequence[FileInfo]) -> RowGroups:
        return cache.open(_KIND, storage, some, keys, read)

    indexed = None if index is None else _indexed.open(index, storage, files, reads, keys, open_cached)
    if indexed is None:
        return open_cached(files)
    indexed.keys = keys
    return indexed
