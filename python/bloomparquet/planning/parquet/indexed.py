"""Tables of row groups whose files are in an index; the other files come from the footer cache."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.planning.index.lookup import OpenIndex
from bloomparquet.planning.index.segments import IndexedTables, Rest
from bloomparquet.planning.parquet.merge import merge
from bloomparquet.planning.parquet.row_groups import RowGroups
from bloomparquet.planning.parquet.serialized import read_segment
from bloomparquet.storage.files import FileInfo, ReadCount, Storage

_tables = IndexedTables[RowGroups](read_segment, partial(merge, lazily=True))


def indexed_row_groups(
    index: OpenIndex,
    storage: Storage,
    files: Sequence[FileInfo],
    reads: ReadCount,
    keys: Keys | None,
    rest: Rest[RowGroups],
) -> RowGroups:
    """The row groups of `files`: those in `index` from there, the others from `rest`, in the order of `files`."""
    table = _tables.open(index, storage, files, reads, keys, rest)
    if table is None:
        return rest(files)
    table.keys = keys
    return table
