"""The evidence about one column's chunks as arrays, without the table that they are in. A cache file holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bloomparquet.parquet.encryption.file_crypto import ChunkCipher
from bloomparquet.planning.evidence.interface import Counts
from bloomparquet.planning.evidence.tiles import TiledFilters
from bloomparquet.planning.parquet.filter_facts import FilterFacts
from bloomparquet.query.ordering import Bounds
from bloomparquet.storage.files import FileInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnArrays:
    """The evidence about n column chunks; arrays of shape (n,).

    `offset` and `length`: where the filters lie, as footers say, -1 if absent. `filled`: whether the chunk is known to
    hold a value that is not null. `filter_facts`: what was read of the filters. `ciphers` decrypt the filters of
    encrypted chunks; None if no file is encrypted. `expressions`: by function (lower, upper), the filters of
    function(column).
    """

    bounds: Bounds | None
    counts: Counts
    offset: NDArray[np.int64]
    length: NDArray[np.int64]
    filled: NDArray[np.bool_]
    filter_facts: FilterFacts
    ciphers: Sequence[ChunkCipher | None] | None = None
    expressions: Mapping[str, TiledFilters] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ChunkLocations:
    """The locations of n chunks of `column`: chunk i is in row group ``row_group[i]`` of ``files[file[i]]``. Its footer
    begins at ``limit[i]``."""

    column: str
    files: Sequence[FileInfo]
    file: NDArray[np.int64]
    row_group: NDArray[np.int64]
    limit: NDArray[np.int64]
