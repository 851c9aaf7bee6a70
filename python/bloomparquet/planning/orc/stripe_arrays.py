"""What a table of stripes consists of: arrays of stripes, tails, columns, and the columns of a segment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError
from bloomparquet.orc.bloom_filter import bit_positions
from bloomparquet.orc.file_tail import Tail
from bloomparquet.planning.evidence.section_file import SectionFile
from bloomparquet.planning.evidence.stored_arrays import MALFORMED, ColumnKey, column_keys, column_name, tiled_of
from bloomparquet.planning.evidence.tiles import BitPositions, TiledFilters
from bloomparquet.planning.index.listing import TABLE
from bloomparquet.planning.orc.columns import ColumnStatistics
from bloomparquet.planning.orc.filters import OrcFilters, ReadFilters
from bloomparquet.storage.files import ReadCount

TAILS = "tails"
STRIPES, ROW_GROUPS = "stripe", "group"
"""Names of sections, and of the parts of a column's section."""

StripeColumn = tuple[ColumnStatistics, dict[int, BloomParquetError]]
"""The statistics of a column in stripes, and by file, why those of its stripes cannot be read."""


@dataclass(frozen=True)
class StripeArrays:
    """The stripes of some files, as the tails of the files describe them.

    By file: `counts`, the number of stripes; `profile`, an index into the profiles; `stride`, the rows of a row group,
    0 without row indexes. By stripe: `rows`, `offset` and `length`.
    """

    counts: NDArray[np.int64]
    profile: NDArray[np.int64]
    stride: NDArray[np.int64]
    rows: NDArray[np.int64]
    offset: NDArray[np.int64]
    length: NDArray[np.int64]

    @classmethod
    def of_tails(cls, tails: Sequence[Tail], profile: Sequence[int]) -> StripeArrays:
        by_file = [(len(tail.stripes), number, tail.row_index_stride) for tail, number in zip(tails, profile)]
        by_stripe = [(stripe.rows, stripe.offset, stripe.length) for tail in tails for stripe in tail.stripes]
        return cls(*np.array(by_file, np.int64).reshape(-1, 3).T, *np.array(by_stripe, np.int64).reshape(-1, 3).T)


@dataclass
class RowGroupColumn:
    """A column in all row groups of a table. ``loaded[s]``: whether the row index of stripe s was read.

    A row group without statistics of its own has those of its stripe. `errors`: by stripe, why it cannot be read.
    """

    statistics: ColumnStatistics
    filters: OrcFilters
    loaded: NDArray[np.bool_]
    errors: dict[int, BloomParquetError] = field(default_factory=dict)


class StoredColumn(NamedTuple):
    """A column of stripes of one profile: statistics of the stripes, and of the row groups in `loaded` stripes.

    `filters`: those in the tiles of an index; or, in a cache file, those that were read.
    """

    stripes: ColumnStatistics
    row_groups: ColumnStatistics
    loaded: NDArray[np.bool_]
    filters: TiledFilters | ReadFilters


class StoredColumns:
    """The columns in a segment of an index or of the cache. `zones`: the time zones of the writers, by stripe; None if
    the stripe does not name it. `keys`: which columns there are. ``leaves[i]``: the leaf columns of profile i."""

    def __init__(self, file: SectionFile, zones: Mapping[int, str | None], leaves: Sequence[int]) -> None:
        self.zones, self._file = zones, file
        self.keys = column_keys([name for name in file.sections if name not in (TABLE, TAILS)], leaves)

    def load(
        self, key: ColumnKey, stripes: int, row_groups: int, reads: ReadCount | None = None
    ) -> StoredColumn | None:
        """A column of so many stripes and row groups; None if it is not there, or damaged."""
        if key not in self.keys:
            return None
        try:
            section = self._file.section(column_name(key), reads)
            filters: TiledFilters | ReadFilters
            if "loaded" in section:
                loaded, filters = section["loaded"], ReadFilters.of_section(section, row_groups)
            else:
                loaded = np.ones(stripes, np.bool_)
                filters = tiled_of(section, "", self._file, row_groups, _positions_of)
            if len(loaded) != stripes:
                raise ValueError(f"a column of {len(loaded)} stripes; expected {stripes}")
            of_stripes = ColumnStatistics.of_section(section, STRIPES, stripes)
            of_groups = ColumnStatistics.of_section(section, ROW_GROUPS, row_groups)
            return StoredColumn(of_stripes, of_groups, loaded, filters)
        except MALFORMED as error:
            self._file.warn(f"a column cannot be used ({error}); it is read from the data files")
            self.keys -= {key}
            return None


def _positions_of(tile: str) -> BitPositions:
    """The function that returns the bits of hashes in a tile, whose name ends with the number of hash functions."""
    k = int(tile.rpartition("/")[2])
    return lambda hashes, bits: bit_positions(hashes, k, bits)
