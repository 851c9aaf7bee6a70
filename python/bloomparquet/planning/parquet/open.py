"""Opens Parquet files as a table of row groups: from the index, from the cache, or by reading their footers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from bloomparquet.errors import BloomParquetError
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.parquet.metadata.footer import read_footers
from bloomparquet.planning.cache.parts import PartKind
from bloomparquet.planning.cache.plan_cache import PlanCache
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.evidence.selection import Selection
from bloomparquet.planning.index.lookup import OpenIndex
from bloomparquet.planning.parquet.row_groups import RowGroups
from bloomparquet.planning.parquet.serialized import read_segment, to_sections
from bloomparquet.storage.files import FileInfo, ReadCount, Storage

_KIND = PartKind(FileFormat.PARQUET, read_segment, to_sections)

RowGroupTable: TypeAlias = RowGroups | Selection


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
) -> RowGroupTable:
    """The row groups of `files`, in the order of `files`. Reads the footers that neither `index` nor `cache` has; see
    :func:`read_footers` for the other arguments and errors."""

    def read(some: Sequence[FileInfo]) -> RowGroups:
        footers = read_footers(storage, some, reads, keys=keys, left_out=left_out, undecryptable=unreadable)
        readable = [(file, footer) for file, footer in zip(some, footers, strict=True) if footer is not None]
        return RowGroups.of_footers(storage, [file for file, _ in readable], [footer for _, footer in readable], keys)

    return cache.select(_KIND, storage, files, keys, reads, read, index)
