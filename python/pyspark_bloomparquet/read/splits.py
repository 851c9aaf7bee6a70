"""Groups the kept row groups into the partitions of a Spark scan: few, and of about equal size.

A task takes tens of milliseconds before its first row, so a split holds several small row groups. Row groups stay in
file order, so that few tasks open the same file.

Source: Spark's rule for its own files (``FilePartition.maxSplitBytes``), with row groups in place of file blocks.
"""

from __future__ import annotations

import pickle
import socket
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from pyspark.sql.datasource import InputPartition

from bloomparquet.planning.dataset import Dataset
from bloomparquet.planning.plan import KEPT, ScanPlan, skipped_local_files
from bloomparquet.query.predicate import Predicate
from bloomparquet.storage.files import FileInfo


def _pack(files: Sequence[FileInfo]) -> bytes:
    return zlib.compress(pickle.dumps(list(map(tuple, files))), level=1)


@dataclass(frozen=True)
class Split(InputPartition):
    """The part of a scan that one task reads: ``row_groups[i]`` of ``dataset.files[i]``.

    `dataset` has no keys: a task asks for its own. `where` is the load's predicate with its columns resolved. `host` is
    the machine of the planner.

    The first split of a plan also has the local files that the plan skips; `skipped`, compressed because there may be
    many. Its task checks that they are unchanged: Spark keeps the splits of a DataFrame and runs them again, and a
    skipped file that has changed meanwhile may hold matching rows.
    """

    dataset: Dataset
    row_groups: tuple[tuple[int, ...], ...]
    where: Predicate | None = None
    skipped: bytes = _pack(())
    host: str = field(default_factory=socket.gethostname)

    def skipped_files(self) -> list[FileInfo]:
        return list(map(FileInfo._make, pickle.loads(zlib.decompress(self.skipped))))

    def comparable(self, files: Sequence[FileInfo]) -> list[FileInfo]:
        """`files`; on another machine than the planner's, without inodes and change times, which mean nothing there."""
        is_here = self.host == socket.gethostname()
        return [file if is_here else file._replace(inode=0, ctime_ns=0) for file in files]


@dataclass(frozen=True)
class Piece:
    """One row group to assign to a split: number `row_group` of the file at `position` of the data set. `length` is in
    bytes."""

    position: int
    row_group: int
    length: int


def make_splits(plan: ScanPlan, *, max_partition_bytes: int, open_cost: int, min_partitions: int) -> list[Split]:
    """Splits of about equal cost that hold every kept row group of `plan` once, in order; see :func:`group_pieces`."""
    dataset, skipped = replace(plan.dataset, keys=None), skipped_local_files(plan)
    groups = group_pieces(
        list(_pieces(plan)),
        max_partition_bytes=max_partition_bytes,
        open_cost=open_cost,
        min_partitions=min_partitions,
    )
    splits = [_make_split(dataset, plan.where, pieces) for pieces in groups or [[]] * bool(skipped)]
    return [replace(splits[0], skipped=_pack(skipped)), *splits[1:]] if skipped else splits


def _pieces(plan: ScanPlan) -> Iterator[Piece]:
    kept = np.flatnonzero(plan.codes == KEPT)
    _, lengths = plan.table.extents_of(kept)
    positions = plan.file_positions[plan.table.file[kept]]
    return map(Piece, positions.tolist(), plan.table.index[kept].tolist(), lengths.tolist())


def _make_split(dataset: Dataset, where: Predicate | None, pieces: list[Piece]) -> Split:
    row_groups: dict[int, list[int]] = {}
    for piece in pieces:
        row_groups.setdefault(piece.position, []).append(piece.row_group)
    return Split(dataset.select(list(row_groups)), tuple(map(tuple, row_groups.values())), where)


def group_pieces(
    pieces: Sequence[Piece], *, max_partition_bytes: int, open_cost: int, min_partitions: int
) -> list[list[Piece]]:
    """Groups of about equal cost that hold every piece once, in order.

    A group has at most `max_partition_bytes`, unless it is a single row group. Each file adds `open_cost` (bytes) to
    the cost, so that many tiny files make few groups.
    """
    costs = [
        piece.length + (open_cost if i == 0 or pieces[i - 1].position != piece.position else 0)
        for i, piece in enumerate(pieces)
    ]
    total = sum(costs)
    target = min(max_partition_bytes, max(open_cost, -(-total // min_partitions)))
    share = total / max(1, -(-total // target))
    groups: list[list[Piece]] = []
    current, size, before = -1, 0, 0
    for piece, cost in zip(pieces, costs, strict=True):
        number = int((before + cost / 2) / share)  # of the group that the middle of the piece falls into
        if number > current or size + piece.length > max_partition_bytes:
            groups.append([])
            current, size = number, 0
        groups[-1].append(piece)
        size += piece.length
        before += cost
    return groups
