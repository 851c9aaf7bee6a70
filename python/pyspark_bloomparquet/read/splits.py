"""Groups the kept row groups into the partitions of a Spark scan: few, and of about equal size.

A task takes tens of milliseconds before its first row, so a split holds several small row groups. Row groups stay in
file order, so that few tasks open the same file.

Source: Spark's rule for its own files (``FilePartition.maxSplitBytes``), with row groups in place of file blocks.
"""

from __future__ import annotations

import pickle
import socket
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from bloomparquet.query.predicate import Predicate
from bloomparquet.storage.files import FileInfo


@dataclass(frozen=True)
class FilePart:
    """Row groups of one file. `file` is the version that was planned; `values` are its raw partition values."""

    file: FileInfo
    row_groups: tuple[int, ...]
    values: tuple[str | None, ...]

    @property
    def path(self) -> str:
        return self.file.path


@dataclass(frozen=True)
class SkippedFiles:
    """The local files that a plan skips, in the versions that were planned; compressed, because there may be many.

    Tasks check that these files are unchanged: Spark keeps the splits of a DataFrame and runs them again, and a skipped
    file that has changed meanwhile may hold matching rows.
    """

    packed: bytes

    @classmethod
    def of(cls, files: Sequence[FileInfo]) -> SkippedFiles:
        return cls(zlib.compress(pickle.dumps(list(map(tuple, files))), level=1))

    def files(self) -> list[FileInfo]:
        return list(map(FileInfo._make, pickle.loads(zlib.decompress(self.packed))))


@dataclass(frozen=True)
class Split(InputPartition):
    """The part of a scan that one task reads.

    `partition_types` are the partition columns with their inferred types. `where` is the load's predicate with its
    columns resolved. `host` is the machine of the planner: inodes mean nothing on another. The first split of a plan
    also has the `skipped` files, and checks that they are unchanged.
    """

    files: tuple[FilePart, ...]
    partition_types: dict[str, pa.DataType] = field(default_factory=dict)
    where: Predicate | None = None
    host: str = field(default_factory=socket.gethostname)
    skipped: SkippedFiles | None = None

    def comparable(self, file: FileInfo) -> FileInfo:
        """`file`; on another machine than the planner's, without inode and change time, which mean nothing there."""
        return file if self.host == socket.gethostname() else file._replace(inode=0, ctime_ns=0)


@dataclass(frozen=True)
class Piece:
    """One row group to assign to a split. `length` is in bytes."""

    file: FileInfo
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
    skipped: Sequence[FileInfo] = (),
) -> list[Split]:
    """Splits of about equal cost that hold every piece once, in order. The first has the `skipped` files.

    The row groups of a split have at most `max_partition_bytes`, unless there is only one. Each file adds `open_cost`
    (bytes) to the cost, so that many tiny files make few splits.
    """
    pieces = list(pieces)
    costs = [
        piece.length + (open_cost if i == 0 or pieces[i - 1].file != piece.file else 0)
        for i, piece in enumerate(pieces)
    ]
    total = sum(costs)
    target = min(max_partition_bytes, max(open_cost, -(-total // min_partitions)))
    share = total / max(1, -(-total // target))
    groups: list[list[Piece]] = []
    current, size, before = -1, 0, 0
    for piece, cost in zip(pieces, costs, strict=True):
        number = int((before + cost / 2) / share)  # of the split that the middle of the piece falls into
        if number > current or size + piece.length > max_partition_bytes:
            groups.append([])
            current, size = number, 0
        groups[-1].append(piece)
        size += piece.length
        before += cost
    if skipped and not groups:
        groups.append([])
    splits = [Split(_by_file(group), partition_types, where) for group in groups]
    return [replace(splits[0], skipped=SkippedFiles.of(skipped)), *splits[1:]] if skipped else splits


def _by_file(pieces: list[Piece]) -> tuple[FilePart, ...]:
    files = ((file, list(group)) for file, group in groupby(pieces, key=lambda piece: piece.file))
    return tuple(FilePart(file, tuple(each.row_group for each in group), group[0].values) for file, group in files)
