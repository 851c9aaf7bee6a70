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

from bloomparquet.predicate import Predicate


@dataclass(frozen=True)
class FilePart:
    """Row groups of one file. `values` are the raw partition values of its directories."""

    path: str
    size: int
    row_groups: tuple[int, ...]
    values: tuple[str | None, ...]


@dataclass(frozen=True)
class Split(InputPartition):
    """What one task reads. `partition_types` are the partition columns of the paths with their inferred types; `where`
    is the load's predicate, each column of it as the path that it means in all files."""

    files: tuple[FilePart, ...]
    partition_types: dict[str, pa.DataType] = field(default_factory=dict)
    where: Predicate | None = None


@dataclass(frozen=True)
class Piece:
    """One row group to place: `length` is its bytes."""

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
    where: Predicate | None = None,
) -> list[Split]:
    """Every piece in exactly one split, in order; splits cost about the same.

    A split's row groups are at most `max_partition_bytes`, unless one alone is more; `open_cost` (bytes) is what each
    file adds to the cost, so that many tiny files make few splits.
    """
    everything = list(pieces)
    costs = [
        piece.length + (open_cost if i == 0 or everything[i - 1].path != piece.path else 0)
        for i, piece in enumerate(everything)
    ]
    total = sum(costs)
    target = min(max_partition_bytes, max(open_cost, -(-total // min_partitions)))
    share = total / max(1, -(-total // target))
    splits: list[list[Piece]] = []
    number, size, before = -1, 0, 0
    for piece, cost in zip(everything, costs, strict=True):
        belongs = int((before + cost / 2) / share)  # the middle of the piece decides whose share it is in
        if belongs > number or size + piece.length > max_partition_bytes:
            splits.append([])
            number, size = belongs, 0
        splits[-1].append(piece)
        size += piece.length
        before += cost
    return [Split(_by_file(split), partition_types, where) for split in splits]


def _by_file(pieces: list[Piece]) -> tuple[FilePart, ...]:
    parts: list[FilePart] = []
    groups: list[int] = []
    for i, piece in enumerate(pieces):
        groups.append(piece.row_group)
        if i + 1 == len(pieces) or pieces[i + 1].path != piece.path:
            parts.append(FilePart(piece.path, piece.size, tuple(groups), piece.values))
            groups = []
    return tuple(parts)
