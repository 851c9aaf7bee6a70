"""One leaf column of many row groups: its bounds, counts and filters, as a plan asks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError
from bloomparquet.parquet.metadata.file_profile import FileProfile
from bloomparquet.parquet.values.encoding import (
    encode_point,
    encode_values,
    has_order,
    narrow_range,
    parquet_family,
)
from bloomparquet.planning.evidence.filter_store import FilterStore
from bloomparquet.planning.evidence.interface import ChunkFilters, Counts
from bloomparquet.planning.evidence.joined import JoinedFilters, join_bounds, join_counts
from bloomparquet.planning.evidence.tiles import TiledFilters
from bloomparquet.planning.parquet.filters import ParquetFilters
from bloomparquet.query.case_mapping import Case
from bloomparquet.query.columns import LeafColumn
from bloomparquet.query.literals import Family
from bloomparquet.query.ordering import Bounds, Encoded, Point
from bloomparquet.storage.forks import lazy_property


@dataclass(frozen=True)
class ColumnChunks:
    """One leaf column of n row groups whose files share a profile.

    `members` (n,): the row group of each chunk. `expressions`: by function (lower, upper), the filters of
    function(column).
    """

    leaf: LeafColumn
    profile: FileProfile
    members: NDArray[np.int64]
    bounds: Bounds | None
    counts: Counts
    filters: ChunkFilters
    expressions: Mapping[str, ChunkFilters]

    why_filters_unusable = ""  # each filter of a Parquet file names its hash function

    @property
    def family(self) -> Family:
        return parquet_family(self.leaf.node)

    @property
    def has_order(self) -> bool:
        return has_order(self.leaf)

    @lazy_property
    def shown_as_stored(self) -> NDArray[np.bool_]:
        limits = narrow_range(self.leaf)
        if limits is None:
            return np.ones(len(self.members), np.bool_)
        low, high = limits
        bounds, counts = self.bounds, self.counts
        known = np.zeros(len(self.members), np.bool_) if bounds is None else bounds.known
        within = known if bounds is None else known & (bounds.lower >= low) & (bounds.upper <= high)
        # No known writer stores other integers than the type has. Of decimals, it must be known.
        is_trusted = ~known if self.family == "integer" else (counts.values >= 0) & (counts.nulls == counts.values)
        return np.asarray(within | is_trusted, np.bool_)

    @property
    def unreadable(self) -> list[BloomParquetError]:
        """Why column metadata could not be decrypted. Whether such a chunk has a filter is unknown."""
        errors = self.filters.errors
        present = self.filters.present if errors else ()
        return [error for chunk, error in errors.items() if not present[chunk]]

    def expression_filters(self, case: Case) -> ChunkFilters | None:
        return self.expressions.get(case)

    def encode(self, values: Sequence[Any], timezone: str | None) -> Encoded | None:
        return encode_values(self.leaf, values, self.profile.traits, timezone)

    def point(self, value: Any, timezone: str | None, *, upwards: bool) -> Point | None:
        return encode_point(self.leaf, value, self.profile.traits, timezone)

    def joined(
        self,
        pieces: Sequence[Any],
        at: Sequence[NDArray[np.int64]],
        members: NDArray[np.int64],
    ) -> ColumnChunks:
        """See :class:`bloomparquet.planning.evidence.interface.Chunks`."""
        none = [FilterStore(TiledFilters.none(len(piece.members))) for piece in pieces]
        expressions = {
            name: JoinedFilters([each.expressions.get(name, no) for each, no in zip(pieces, none, strict=True)], at)
            for name in sorted({name for piece in pieces for name in piece.expressions})
        }
        return ColumnChunks(
            leaf=self.leaf,
            profile=self.profile,
            members=members,
            bounds=join_bounds([piece.bounds for piece in pieces], at),
            counts=join_counts([piece.counts for piece in pieces], at),
            filters=JoinedFilters([piece.filters for piece in pieces], at),
            expressions=expressions,
        )


@dataclass(frozen=True)
class PartChunks(ColumnChunks):
    """A column of a part, whose filters are read from the files."""

    filters: ParquetFilters
