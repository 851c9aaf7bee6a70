"""The parts of a table of stripes: arrays of stripes, tails, columns, and the tables that share stripes with it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError
from bloomparquet.orc.file_tail import Tail
from bloomparquet.planning.evidence.positions import positions_of
from bloomparquet.planning.evidence.stored_arrays import ColumnKey
from bloomparquet.planning.evidence.tiles import TiledFilters
from bloomparquet.planning.orc.columns import ColumnStatistics
from bloomparquet.planning.orc.filters import OrcFilters, ReadFilters
from bloomparquet.storage.files import ReadCount

T = TypeVar("T")

StripeColumn = tuple[ColumnStatistics, list[BloomParquetError]]
"""The statistics of a column in stripes, and the errors of stripes whose statistics cannot be read."""


class LazyTails(Sequence[Tail]):
    """Tails that are read or parsed on demand. ``origins[i]`` is ``(read, at, size)``: tail i is ``read(at)``. It
    takes `size` bytes of memory, 0 if it is not kept in memory."""

    def __init__(self, origins: Sequence[tuple[Callable[[int], Tail], int, int]]) -> None:
        self._origins = origins
        self.bytes = sum(size for _, _, size in origins)

    @classmethod
    def merged(cls, parts: Sequence[Sequence[Tail]], part: NDArray[np.int64], source: NDArray[np.int64]) -> LazyTails:
        """Tail i is tail ``source[i]`` of ``parts[part[i]]``. A part that is lazy itself need not stay in memory."""
        return cls([_origin(parts[number], at) for number, at in zip(part.tolist(), source.tolist(), strict=True)])

    def __len__(self) -> int:
        return len(self._origins)

    @overload
    def __getitem__(self, i: int) -> Tail: ...
    @overload
    def __getitem__(self, i: slice) -> list[Tail]: ...
    def __getitem__(self, i: int | slice) -> Tail | list[Tail]:
        if isinstance(i, slice):
            return [read(at) for read, at, _ in self._origins[i]]
        read, at, _ = self._origins[i]
        return read(at)


def _origin(tails: Sequence[Tail], at: int) -> tuple[Callable[[int], Tail], int, int]:
    return tails._origins[at] if isinstance(tails, LazyTails) else ((tails[at],).__getitem__, 0, tails[at].size)


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

    @classmethod
    def merged(
        cls,
        parts: Sequence[StripeArrays],
        part: NDArray[np.int64],
        source: NDArray[np.int64],
        profiles: Sequence[NDArray[np.int64]],
    ) -> StripeArrays:
        """The arrays of files from several `parts`: file i is file ``source[i]`` of ``parts[part[i]]``, and profile k
        of part p gets the number ``profiles[p][k]``."""
        file = np.cumsum([0, *(len(each.counts) for each in parts)])[part] + source
        counts = np.concatenate([each.counts for each in parts])
        stripe = positions_of((np.cumsum(counts) - counts)[file], counts[file])
        profile = np.concatenate([numbers[each.profile] for each, numbers in zip(parts, profiles, strict=True)])
        stride, rows, offset, length = (
            np.concatenate([getattr(each, name) for each in parts]) for name in ("stride", "rows", "offset", "length")
        )
        return cls(counts[file], profile[file], stride[file], rows[stripe], offset[stripe], length[stripe])


@dataclass
class RowGroupColumn:
    """A column in all row groups of a table. ``loaded[s]``: whether the row index of stripe s was read.

    A row group without statistics of its own has those of its stripe. `errors`: by stripe, why it cannot be read.
    """

    statistics: ColumnStatistics
    filters: OrcFilters
    loaded: NDArray[np.bool_]
    errors: dict[int, BloomParquetError] = field(default_factory=dict)


class OtherTables(Generic[T]):
    """Other tables that have some of the stripes of a table. Does not keep them in memory."""

    def __init__(self) -> None:
        self._tables: list[tuple[weakref.ref[T], NDArray[np.int64], NDArray[np.int64]]] = []

    def add(self, table: T, here: NDArray[np.int64], there: NDArray[np.int64]) -> None:
        """`table` has the stripes `here`, which ascend; `there` are their numbers in it."""
        self._tables.append((weakref.ref(table), here, there))

    def having(self, stripes: NDArray[np.int64]) -> Iterator[tuple[T, NDArray[np.int64], NDArray[np.int64]]]:
        """Every table that has some of `stripes`, with their numbers here and there."""
        for reference, here, there in self._tables:
            table = reference()
            at = np.minimum(np.searchsorted(here, stripes), len(here) - 1)
            is_shared = here[at] == stripes if len(here) else np.zeros(len(stripes), np.bool_)
            if table is not None and is_shared.any():
                yield table, stripes[is_shared], there[at[is_shared]]


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
