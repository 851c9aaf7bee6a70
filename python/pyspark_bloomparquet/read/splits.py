"""Kept row groups → the partitions of a Spark scan: balanced by bytes, and few.

A task costs tens of milliseconds before its first row, so row groups are gathered until they are worth one.

The rule is Spark's for its own files (``FilePartition.maxSplitBytes``), with row groups in place of file blocks. Row
groups stay in file order, so that a file is opened by as few tasks as possible.
"""

from __future__ import annotations

import pickle
import socket
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from bloomparquet.query.predicate import Predicate
from bloomparquet.storage.files import FileInfo


@dataclass(frozen=True)
class FilePart:
    """Row groups of one file, as it was planned. `values` are the raw partition values of its directories."""

    file: FileInfo
    row_groups: tuple[int, ...]
    values: tuple[str | None, ...]

    @property
    def path(self) -> str:
        return self.file.path


@dataclass(frozen=True)
class SkippedFiles:
    """The local files that a plan skips, as they were when it was made; packed, for a data set has many.

    Spark keeps the splits of a DataFrame that is run again. A skipped file that changed in between may hold rows that
    match.
    """

    packed: bytes

    @classmethod
    def of(cls, files: Sequence[FileInfo]) -> SkippedFiles:
        return cls(zlib.compress(pickle.dumps(list(map(tuple, files))), level=1))

    def files(self) -> list[FileInfo]:
        return list(map(FileInfo._make, pickle.loads(zlib.decompress(self.packed))))


@dataclass(frozen=True)
class Split(InputPartition):
    """What one task reads. `partition_types` are the partition columns of the paths with their inferred types; `where`
    is the load's predicate, each column of it as the path that it means in all files. `host` is where it was planned:
    inodes mean nothing elsewhere. One split of a plan has its `skipped` files, to check them."""

    files: tuple[FilePart, ...]
    partition_types: dict[str, pa.DataType] = field(default_factory=dict)
    where: Predicate | None = None
    host: str = field(default_factory=socket.gethostname)
    skipped: SkippedFiles | None = None

    def planned(self, file: FileInfo) -> FileInfo:
        """`file` as far as it can be recognised on this machine."""
        return file if self.host == socket.gethostname() else file._replace(inode=0, ctime_ns=0)


@dataclass(frozen=True)
class Piece:
    """One row group to place: `length` is its bytes."""

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
    """Every piece in exactly one split, in order; splits cost about the same. The first has the `skipped` files.

    A split's row groups are at most `max_partition_bytes`, unless one alone is more; `open_cost` (bytes) is what each
    file adds to the cost, so that many tiny files make few splits.
    """
    everything = list(pieces)
    costs = [
        piece.length + (open_cost if i == 0 or everything[i - 1].file != piece.file else 0)
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
    if skipped and not splits:
        splits.append([])
    made = [Split(_by_file(split), partition_types, where) for split in splits]
    return [replace(made[0], skipped=SkippedFiles.of(skipped)), *made[1:]] if skipped else made


def _by_file(pieces: list[Piece]) -> tuple[FilePart, ...]:
    parts: list[FilePart] = []
    groups: list[int] = []
    for i, piece in enumerate(pieces):
        groups.append(piece.row_group)
        if i + 1 == len(pieces) or pieces[i + 1].file != piece.file:
            parts.append(FilePart(piece.file, tuple(groups), piece.values))
            groups = []
    return tuple(parts)
