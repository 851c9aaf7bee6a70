"""The leaf columns of many Parquet files, each with the facts in the footers about all its column chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import EncryptionError
from bloomparquet.parquet.values.encoding import parquet_family
from bloomparquet.planning.evidence.joined import join_bounds
from bloomparquet.planning.parquet.columns import PartChunks
from bloomparquet.planning.parquet.row_groups import RowGroups
from bloomparquet.query.columns import LeafColumn
from bloomparquet.query.ordering import Bounds
from bloomparquet.query.predicate import Column


@dataclass(frozen=True)
class TableColumn:
    """One leaf column, by its path, over all files that have it. Arrays are of its n column chunks, in one order.

    * `parts`: the chunks for each schema that has the column;
    * `part` (n,): the index in these of each chunk; `index_in_part` (n,): its index in ``parts[part].members``;
    * `row_groups` (n,): the chunk's row group among all row groups;
    * `offset`, `length` (n,): of the chunk's filter; the offset is negative where there is no filter, and the length
      is not positive if the footer does not state it;
    * `comparable` (n,): whether the chunk has the type that most chunks have. Values of another type have other bytes;
    * `undecryptable`: the error of a chunk that cannot be decrypted.
    """

    path: Column
    parts: tuple[PartChunks, ...]
    part: NDArray[np.int64]
    index_in_part: NDArray[np.int64]
    row_groups: NDArray[np.int64]
    values: NDArray[np.int64]
    nulls: NDArray[np.int64]
    offset: NDArray[np.int64]
    length: NDArray[np.int64]
    bounds: Bounds | None
    comparable: NDArray[np.bool_]
    undecryptable: EncryptionError | None = None

    @property
    def usual(self) -> PartChunks:
        """A part that has the type that most chunks have."""
        return self.parts[int(self.part[np.argmax(self.comparable)]) if len(self.part) else 0]

    def chunks_of(self, chunk: int) -> PartChunks:
        """The part that a chunk is in."""
        return self.parts[int(self.part[chunk])]


def table_columns(table: RowGroups) -> list[TableColumn]:
    """The leaf columns of all files: those of the first file in its order, then those that only other files have."""
    by_path: dict[Column, list[PartChunks]] = {}
    for schema_index, schema in enumerate(table.schemas):
        for leaf in schema.leaves:
            by_path.setdefault(leaf.path, []).append(table.chunks(schema_index, leaf))
    return [_column(path, parts) for path, parts in by_path.items()]


def _column(path: Column, parts: Sequence[PartChunks]) -> TableColumn:
    kinds = [_kind(chunks.leaf) for chunks in parts]
    counts = [len(chunks.members) for chunks in parts]
    part, at = np.repeat(np.arange(len(parts)), counts), [np.arange(n) for n in counts]
    usual = max(kinds, key=lambda kind: sum(n for n, other in zip(counts, kinds, strict=True) if other == kind))
    is_usual = [kind == usual for kind in kinds]
    # Bounds of another type are not in one order with these.
    bounds = [chunks.bounds if ok and n else None for chunks, ok, n in zip(parts, is_usual, counts, strict=True)]
    errors = (error for chunks in parts for error in chunks.unreadable if isinstance(error, EncryptionError))
    return TableColumn(
        path,
        tuple(parts),
        part,
        np.concatenate(at),
        np.concatenate([chunks.members for chunks in parts]),
        np.concatenate([chunks.counts.values for chunks in parts]),
        np.concatenate([chunks.counts.nulls for chunks in parts]),
        np.concatenate([chunks.filters.offset for chunks in parts]),
        np.concatenate([chunks.filters.length for chunks in parts]),
        join_bounds(bounds, at),
        np.array(is_usual, np.bool_)[part],
        next(errors, None),
    )


def _kind(leaf: LeafColumn) -> tuple[Any, ...]:
    """A key that is the same for leaves whose equal values are equal bytes, in one order."""
    node = leaf.node
    unit = (node.annotation.unit, node.annotation.scale) if node.annotation else None
    return node.physical_type, node.type_length, parquet_family(node), unit, leaf.repeated
