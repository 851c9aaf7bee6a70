"""Kept row groups → the partitions of a Spark scan: balanced by bytes, and few.

A task costs tens of milliseconds before its first row, so row groups are gathered until they are worth one.

The rule is Spark's for its own files (``FilePartition.maxSplitBytes``), with row groups in place of file blocks. Row
groups stay in file order, so that a file is opened by as few tasks as possible.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql.datasource import InputPartition


@dataclass(frozen=True)
class FilePart:
    """Row groups of one file. `values` are the raw partition values of its directories."""

    path: str
    size: int
    row_groups: tuple[int, ...]
    values: tuple[str | None, ...]


@dataclass(frozen=True)
class Split(InputPartition):
    """What one task reads. `partition_types` are the partition columns of the paths with their inferred types."""

    files: tuple[FilePart, ...]
    partition_types: dict[str, pa.DataType] = field(default_factory=dict)


@dataclass(frozen=True)
class Piece:
    """One row group to place: `length` is the bytes of its column chunks."""

    path: str
    size: int
    row_group: int
    length: int
    values: tuple[str | None, ...]


def make_splits(
    pieces: Iterable[Piece],
    partition_types: dict[str, pa.DataType],
    *,
    max_partition_bytes: int,
    open_cost: int,
    min_partitions: int,
) -> list[Split]:
    """Every piece in exactly one split, in order.

    A split is at most `max_partition_bytes` and one `open_cost` unless one row group alone is more.
    """
    everything = list(pieces)
    total = sum(piece.length for piece in everything) + open_cost * len({piece.path for piece in everything})
    target = min(max_partition_bytes, max(open_cost, -(-total // min_partitions)))
    splits: list[list[Piece]] = []
    filled = 0
    for piece in everything:
        opens = 0 if splits and splits[-1][-1].path == piece.path else open_cost
        if not splits or filled + piece.length > target:
            splits.append([])
            filled, opens = 0, open_cost
        splits[-1].append(piece)
        filled += piece.length + opens
    return [Split(_by_file(split), partition_types) for split in splits]


def _by_file(pieces: list[Piece]) -> tuple[FilePart, ...]:
    parts: list[FilePart] = []
    groups: list[int] = []
    for i, piece in enumerate(pieces):
        groups.append(piece.row_group)
        if i + 1 == len(pieces) or pieces[i + 1].path != piece.path:
            parts.append(FilePart(piece.path, piece.size, tuple(groups), piece.values))
            groups = []
    return tuple(parts)
