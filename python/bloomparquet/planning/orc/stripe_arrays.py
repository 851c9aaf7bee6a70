"""What a table of stripes consists of: arrays of stripes, tails, columns, and the columns of a segment."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError
from bloomparquet.orc.file_tail import Tail
from bloomparquet.planning.evidence.stored_arrays import ColumnKey
from bloomparquet.planning.evidence.tiles import TiledFilters
from bloomparquet.planning.orc.columns import ColumnStatistics
from bloomparquet.planning.orc.filters import OrcFilters, ReadFilters
from bloomparquet.storage.files import ReadCount

StripeColumn = tuple[ColumnStatistics, dict[int, BloomParquetError]]
"""The statistics of a column in stripes, and by file, why those of its stripes cannot be read."""


class LazyTails(Sequence[Tail]):
    """n tails that are read or parsed on demand: tail i is ``read(i)``."""

    def __init__(self, n: int, read: Callable[[int], Tail]) -> None:
        self._n, self._read = n, read

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, i: int) -> Tail: ...
    @overload
    def __getitem__(self, i: slice) -> list[Tail]: ...
    def __getitem__(self, i: int | slice) -> Tail | list[Tail]:
        return list(map(self._read, range(self._n)[i])) if isinstance(i, slice) else self._read(range(self._n)[i])


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


class StoredColumns(Protocol):
    """The columns of a segment or a cache file. `zones`: the time zones of the writers, by stripe; None if the stripe
    does not name it. `keys`: which columns there are."""

    zones: Mapping[int, str | None]

    @property
    def keys(self) -> Collection[ColumnKey]: ...

    def load(
        self, key: ColumnKey, stripes: int, row_groups: int, reads: ReadCount | None = None
    ) -> StoredColumn | None:
        """A column of so many stripes and row groups; None if it is not there, or damaged."""
