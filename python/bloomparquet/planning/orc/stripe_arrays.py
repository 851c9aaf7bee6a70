"""What a table of stripes consists of: profiles of files, arrays and footers of stripes, columns, and the columns of a
segment.

Source of the footers: ORC specification, "Stripe Footer".
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError
from bloomparquet.orc.bloom_filter import bit_positions
from bloomparquet.orc.file_tail import Tail
from bloomparquet.orc.schema import build_schema
from bloomparquet.orc.stripe_indexes import StripeId, StripeIndexes, read_stripe_footers
from bloomparquet.planning.cache.listing import TABLE
from bloomparquet.planning.evidence.section_file import SectionFile
from bloomparquet.planning.evidence.stored_arrays import MALFORMED, ColumnKey, column_keys, column_name, tiled_of
from bloomparquet.planning.evidence.tiles import BitPositions, TiledFilters
from bloomparquet.planning.orc.columns import ColumnStatistics
from bloomparquet.planning.orc.filters import OrcFilters, ReadFilters
from bloomparquet.query.columns import FileSchema
from bloomparquet.storage.files import ReadCount, Storage
from bloomparquet.storage.forks import new_lock

TAILS = "tails"
STRIPES, ROW_GROUPS = "stripe", "group"
"""Names of sections, and of the parts of a column's section."""

StripeColumn = tuple[ColumnStatistics, dict[int, BloomParquetError]]
"""The statistics of a column in stripes, and by file, why those of its stripes cannot be read."""

_HIVE_PLACEHOLDER = "_col"
_HIVE_TRANSACTIONAL = {"operation", "originaltransaction", "bucket", "rowid", "currenttransaction", "row"}


@dataclass(frozen=True)
class OrcProfile:
    """The facts that files of one writer and schema share: `tail` is the tail of one of them, and ``columns[i]`` the
    column number of leaf i. Compared by `key`: the types, and the writer."""

    key: Hashable
    tail: Tail = field(compare=False)
    schema: FileSchema = field(compare=False)
    columns: tuple[int, ...] = field(compare=False)

    @property
    def is_by_name(self) -> bool:
        """Whether every reader finds the columns by their names.

        Hive's placeholder names (``_col0``, ``_col1``, …) are ignored: such columns are found by position. In files of
        Hive's transactional tables, ORC's reader finds the columns within the struct ``row``.
        """
        names = [child.name for child in self.schema.root.children]
        are_placeholders = bool(names) and all(name.startswith(_HIVE_PLACEHOLDER) for name in names)
        return not are_placeholders and {name.lower() for name in names} != _HIVE_TRANSACTIONAL


def find_profiles(tails: Sequence[Tail]) -> tuple[list[OrcProfile], list[int]]:
    """The distinct profiles of `tails`, and the index of each tail's profile."""
    indexes: dict[Hashable, int] = {}
    profiles: list[OrcProfile] = []
    index_of = []
    for tail in tails:
        writer = tail.writer, tail.writer_version, tail.software_version, tail.file_version, tail.calendar
        key = tuple(orc_type.key for orc_type in tail.types), writer
        if key not in indexes:
            indexes[key] = len(profiles)
            profiles.append(OrcProfile(key, tail, *build_schema(tail.types)))
        index_of.append(indexes[key])
    return profiles, index_of


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


class StripeFooters:
    """The footers of n stripes. Stripe i is stripe ``index[i]`` of the file whose tail is ``tails[file[i]]``.

    Safe to use from several threads. Its lock is taken last: nothing here waits for another lock.
    """

    def __init__(
        self, storage: Storage, tails: Sequence[Tail], file: NDArray[np.int64], index: NDArray[np.int64]
    ) -> None:
        self._storage, self._tails, self._file, self._index = storage, tails, file, index
        self._known: dict[int, StripeIndexes | BloomParquetError] = {}
        self._lock = new_lock()

    def read(self, stripes: NDArray[np.int64], reads: ReadCount) -> list[StripeIndexes | BloomParquetError]:
        """The footers of `stripes`, or the error of each that cannot be read."""
        with self._lock:
            missing = [i for i in stripes.tolist() if i not in self._known]
            files, file_at = np.unique(self._file[missing], return_inverse=True)
            tails = [self._tails[i] for i in files.tolist()]
            ids = [StripeId(at, int(self._index[i])) for at, i in zip(file_at.tolist(), missing, strict=True)]
            self._known.update(zip(missing, read_stripe_footers(self._storage, tails, ids, reads), strict=True))
            return [self._known[i] for i in stripes.tolist()]

    def known_zones(self, stripes: NDArray[np.int64]) -> dict[int, str | None]:
        """The time zones of the writers, by stripe, for those of `stripes` whose footers were read."""
        footers = ((i, self._known.get(i)) for i in stripes.tolist())
        return {i: footer.writer_timezone for i, footer in footers if isinstance(footer, StripeIndexes)}


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
