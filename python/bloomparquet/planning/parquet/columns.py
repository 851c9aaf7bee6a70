"""One leaf column of many row groups: its bounds, counts and filters, as a plan asks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from sys import getsizeof
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
from bloomparquet.planning.parquet.column_arrays import ColumnArrays
from bloomparquet.planning.parquet.filters import ExpressionFilters, ParquetFilters
from bloomparquet.query.case_mapping import Case
from bloomparquet.query.columns import LeafColumn
from bloomparquet.query.literals import Family
from bloomparquet.query.ordering import Bounds, Encoded, Point
from bloomparquet.storage.forks import lazy_property


@dataclass(frozen=True)
class ColumnChunks:
    """One leaf column of the n row groups whose files share a profile.

    `members` (n,): the row group of each chunk. `nulls` and `values` (n,): counts, -1 if absent.
    """

    leaf: LeafColumn
    profile: FileProfile
    members: NDArray[np.int64]
    bounds: Bounds | None
    nulls: NDArray[np.int64]
    values: NDArray[np.int64]
    filters: ParquetFilters
    expressions: Mapping[str, ExpressionFilters]

    @property
    def family(self) -> Family:
        return parquet_family(self.leaf.node)

    @property
    def why_filters_unusable(self) -> str:
        return ""  # each filter of a Parquet file names its hash function

    @property
    def has_order(self) -> bool:
        return has_order(self.leaf)

    @lazy_property
    def shown_as_stored(self) -> NDArray[np.bool_]:
        limits = narrow_range(self.leaf)
        if limits is None:
            return np.ones(len(self.members), np.bool_)
        low, high = limits
        bounds = self.bounds
        known = np.zeros(len(self.members), np.bool_) if bounds is None else bounds.known
        within = known if bounds is None else known & (bounds.lower >= low) & (bounds.upper <= high)
        # No known writer stores other integers than the type has. Of decimals, it must be known.
        is_trusted = ~known if self.family == "integer" else (self.values >= 0) & (self.nulls == self.values)
        return np.asarray(within | is_trusted, np.bool_)

    @property
    def unreadable(self) -> list[BloomParquetError]:
        return self.filters.unreadable

    def arrays(self) -> ColumnArrays:
        """A copy of the evidence, with all that was read of the filters."""
        filters = self.filters
        return ColumnArrays(
            bounds=self.bounds,
            nulls=self.nulls,
            values=self.values,
            offset=filters.offset,
            length=filters.length,
            filled=filters.filled,
            filter_facts=filters.facts,
            ciphers=filters.ciphers,
            expressions={case: each.tiled for case, each in self.expressions.items()},
        )

    @property
    def cached_bytes(self) -> int:
        """About the size of the arrays and bitsets in memory or in a mapped segment."""
        bounds = 0 if self.bounds is None else _memory_of(self.bounds.lower) + _memory_of(self.bounds.upper)
        return self.filters.cached_bytes + bounds + self.nulls.nbytes + self.values.nbytes + self.members.nbytes

    def expression_filters(self, case: Case) -> ExpressionFilters | None:
        return self.expressions.get(case)

    def encode(self, values: Sequence[Any], timezone: str | None) -> Encoded | None:
        return encode_values(self.leaf, values, self.profile.traits, timezone)

    def point(self, value: Any, timezone: str | None, *, upwards: bool) -> Point | None:
        return encode_point(self.leaf, value, self.profile.traits, timezone)


def _memory_of(array: NDArray[Any]) -> int:
    """The bytes of an array. If it holds objects, whose sizes differ, a sample of them is measured."""
    if array.dtype != np.object_ or not len(array):
        return array.nbytes
    sample = array[:: max(1, len(array) // 64)]
    return array.nbytes + len(array) * sum(map(getsizeof, sample)) // len(sample)
