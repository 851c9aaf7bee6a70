"""Groups the kept row groups into the partitions of a Spark scan: few, and of about equal size.

A task takes tens of milliseconds before its first row, so a split holds several small row groups. Row groups stay in
file order, so that few tasks open the same file.

Source: Spark's rule for its own files (``FilePartition.maxSplitBytes``), with row groups in place of file blocks.
"""

from __future__ import annotations

import pickle
import socket
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from pyspark.sql.datasource import InputPartition

from bloomparquet.planning.dataset import Dataset
from bloomparquet.planning.decisions import KEPT
from bloomparquet.planning.plan import ScanPlan, skipped_local_files
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


def make_splits(plan: ScanPlan, *, max_partition_bytes: int, open_cost: int, min_partitions: int) -> list[Split]:
    """Splits that hold every kept row group of `plan` once, in order; see :func:`first_of_splits`."""
    kept = np.flatnonzero(plan.codes == KEPT)
    files, row_groups = plan.file_positions[plan.table.file[kept]], plan.table.index[kept].tolist()
    firsts = first_of_splits(
        files,
        plan.table.extents_of(kept)[1],
        max_partition_bytes=max_partition_bytes,
        open_cost=open_cost,
        min_partitions=min_partitions,
    )
    dataset, skipped = replace(plan.dataset, keys=None), skipped_local_files(plan)
    splits = []
    for first, end in pairwise([*firsts, len(kept)]):
        of_files: dict[int, list[int]] = {}
        for file, row_group in zip(files[first:end].tolist(), row_groups[first:end], strict=True):
            of_files.setdefault(file, []).append(row_group)
        splits.append(Split(dataset.select(list(of_files)), tuple(map(tuple, of_files.values())), plan.where))
    if not skipped:
        return splits
    head, *rest = splits or [Split(dataset.select([]), (), plan.where)]
    return [replace(head, skipped=_pack(skipped)), *rest]


def first_of_splits(
    files: NDArray[np.int64],
    lengths: NDArray[np.int64],
    *,
    max_partition_bytes: int,
    open_cost: int,
    min_partitions: int,
) -> list[int]:
    """The first row group of each split, so that splits have about equal cost.

    `files` has the file of each row group; those of a file are neighbours. `lengths` are in bytes.

    A split has at most `max_partition_bytes`, unless it is a single row group. Each file adds `open_cost` (bytes) to
    the cost, so that many tiny files make few splits.
    """
    costs = lengths + open_cost * (np.diff(files, prepend=-1) != 0)
    total = int(costs.sum())
    target = min(max_partition_bytes, max(open_cost, -(-total // min_partitions)))
    share = total / max(1, -(-total // target))
    firsts: list[int] = []
    current, size, before = -1, 0, 0
    for i, (length, cost) in enumerate(zip(lengths.tolist(), costs.tolist(), strict=True)):
        number = int((before + cost / 2) / share)  # of the split that the middle of the row group falls into
        if number > current or size + length > max_partition_bytes:
            firsts.append(i)
            current, size = number, 0
        size += length
        before += cost
    return firsts
