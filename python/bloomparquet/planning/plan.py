"""What planning found out: every row group, kept or skipped, and what it cost to know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError, EncryptionError
from bloomparquet.planning.dataset import Dataset
from bloomparquet.planning.evidence.interface import Table
from bloomparquet.planning.formats import Unit
from bloomparquet.query.predicate import Predicate
from bloomparquet.query.verdict import Reason
from bloomparquet.storage.files import FileInfo, ReadCount

KEPT = 0
REASONS: tuple[Reason | None, ...] = (None, Reason.PARTITION, Reason.STATISTICS, Reason.BLOOM)


class RowGroupCounts(NamedTuple):
    """The row groups within stripes: how many there are, how many of them might match, and how many are excluded by
    statistics (of theirs, or of the stripe that they are in) and by Bloom filters."""

    total: int
    kept: int
    by_statistics: int
    by_bloom: int


def describe_units(kept: int, total: int, skipped: Counter[str], unit: Unit = "row group") -> str:
    """``3 of 256 row groups kept; 90 skipped by statistics, 163 by Bloom filter``."""
    names = {Reason.STATISTICS.value: "by statistics", Reason.BLOOM.value: "by Bloom filter"}
    reasons = ", ".join(f"{skipped[reason]} {name}" for reason, name in names.items() if skipped[reason])
    return f"{kept} of {total} {unit}s kept; {reasons.replace(' ', ' skipped ', 1) or 'none skipped'}"


@dataclass(frozen=True, slots=True)
class RowGroup:
    """One row group of a plan; or of ORC files one stripe, which is what can be read of them.

    `start` and `length` are bytes in the file. A file that its partition values exclude is never opened: it stands in
    a plan as one entry whose `index` and `rows` are None and whose extent is the whole file; so does one that is
    encrypted and does not open, which is kept.
    """

    path: str
    index: int | None
    rows: int | None
    start: int
    length: int
    kept: bool
    reason: str | None  # "partition", "statistics" or "bloom" when skipped


@dataclass(frozen=True, repr=False, eq=False)
class ScanPlan:
    """Which row groups of a data set might hold rows that match, and why the others cannot.

    Two plans are equal when they are about the same files and the same predicate, keep the same row groups, and skip
    each of the others for the same reason. What planning cost does not count.

    ``total = kept + skipped.total()``. `errors` are the filters that could not be used, and of encrypted files the
    columns and the footers that did not open (all that they are about is kept).
    The units of a plan over ORC files are stripes: `total`, `kept`, `skipped` and :attr:`row_groups` are of them, and
    `row_group_counts` (None for Parquet) counts the row groups within them.
    `requests` counts all reads that planning made, of footers and of filters; `bloom_bytes_read` the bytes of
    filters. Everything is computed; the objects of :attr:`row_groups` are made when they are looked at.

    >>> plan = bp.plan("events.parquet", "user_id = 4711")
    >>> (plan.kept, plan.total, dict(plan.skipped))
    (1, 4, {'bloom': 3})
    >>> [(group.index, group.rows) for group in plan.kept_row_groups()]
    [(0, 1000)]
    """

    dataset: Dataset
    where: Predicate | None
    seconds: float
    errors: tuple[BloomParquetError, ...]
    table: Table = field(repr=False)
    codes: NDArray[np.uint8] = field(repr=False)  # per row group of `table`, a place in REASONS
    excluded: tuple[FileInfo, ...] = field(repr=False)  # by partition values; not in `table`
    file_positions: NDArray[np.int64] = field(repr=False)  # per file of `table`, its place in `dataset.files`
    footer_reads: ReadCount
    filter_reads: ReadCount
    unreadable: Mapping[FileInfo, BloomParquetError]  # why files did not open, or were not read; not in `table`
    row_group_counts: RowGroupCounts | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ScanPlan):
            return NotImplemented
        return self is other or (self.where == other.where and self._outcome() == other._outcome())

    def __hash__(self) -> int:
        # Without the predicate, whose literals need not be hashable.
        return hash(self._outcome())

    def _outcome(self) -> tuple[Hashable, ...]:
        """The files, the row groups, and the verdicts on them."""
        dataset = self.dataset
        return (
            (dataset.storage.key, dataset.files, dataset.partition_names, dataset.partition_values),
            (self.unit, self.row_group_counts, self.file_positions.tobytes()),
            (self.table.file.tobytes(), self.table.index.tobytes(), self.codes.tobytes()),
            (self.excluded, tuple(self.unreadable)),
        )

    @property
    def unit(self) -> Unit:
        """What is read or skipped as a whole: ``"row group"``, or of ORC files ``"stripe"``."""
        return self.table.format.unit

    @property
    def total(self) -> int:
        return len(self.table) + len(self.excluded) + len(self.unreadable)

    @property
    def kept(self) -> int:
        return int(np.count_nonzero(self.codes == KEPT)) + len(self.unreadable)

    @property
    def skipped(self) -> Counter[str]:
        """How many were skipped, by ``"partition"`` (files), ``"statistics"`` and ``"bloom"``."""
        counts = np.bincount(self.codes, minlength=len(REASONS))
        counts[REASONS.index(Reason.PARTITION)] += len(self.excluded)
        return Counter(
            {reason.value: int(count) for reason, count in zip(REASONS, counts, strict=True) if reason and count}
        )

    @property
    def requests(self) -> int:
        return self.footer_reads.requests + self.filter_reads.requests

    @property
    def bloom_bytes_read(self) -> int:
        return self.filter_reads.bytes

    @property
    def row_groups(self) -> Sequence[RowGroup]:
        """Every row group in file order, then the files that partition values excluded, then unreadable files."""
        return _RowGroupList(self)

    def kept_row_groups(self) -> list[RowGroup]:
        """The row groups to read, in file order, and then the files that are unreadable."""
        unreadable = range(self.total - len(self.unreadable), self.total)
        return [self._row_group(i) for i in [*np.flatnonzero(self.codes == KEPT).tolist(), *unreadable]]

    def kept_by_file(self) -> Iterator[tuple[int, list[int]]]:
        """For each file with something to read: its place in ``table.files``, and the indexes of its kept row
        groups."""
        kept = np.flatnonzero(self.codes == KEPT)
        if len(kept) == 0:
            return
        files, first = np.unique(self.table.file[kept], return_index=True)
        for file, members in zip(files.tolist(), np.split(kept, first[1:]), strict=True):
            yield file, self.table.index[members].tolist()

    def to_arrow(self) -> pa.Table:
        """One row per row group: path, index, rows, start, length, kept, reason."""
        schema = pa.schema(
            [
                ("path", pa.string()), ("index", pa.int32()), ("rows", pa.int64()),
                ("start", pa.int64()), ("length", pa.int64()), ("kept", pa.bool_()), ("reason", pa.string()),
            ]
        )  # fmt: skip
        groups = list(self.row_groups)
        return pa.table({name: [getattr(group, name) for group in groups] for name in schema.names}, schema)

    def _row_group(self, i: int) -> RowGroup:
        if i >= len(self.table):
            file = (*self.excluded, *self.unreadable)[i - len(self.table)]
            kept = i >= self.total - len(self.unreadable)
            return RowGroup(file.path, None, None, 0, file.size, kept, None if kept else Reason.PARTITION.value)
        start, length = self.table.extent(i)
        reason = REASONS[self.codes[i]]
        place = int(self.table.file[i])
        rows, index = int(self.table.rows[i]), int(self.table.index[i])
        return RowGroup(
            self.table.paths[place], index, rows, start, length, reason is None, reason.value if reason else None
        )

    def __repr__(self) -> str:
        told = [describe_units(self.kept - len(self.unreadable), len(self.table), self.skipped, self.unit)]
        if self.row_group_counts is not None:
            told.append(f"{self.row_group_counts.kept} of {self.row_group_counts.total} row groups inside might match")
        if self.unreadable:
            told.append(f"{len(self.unreadable)} files did not open, and are kept whole")
        if self.excluded:
            told.append(f"{len(self.excluded)} files skipped unopened by partition")
        files = set(map(id, self.unreadable.values()))
        chunks = sum(isinstance(error, EncryptionError) and id(error) not in files for error in self.errors)
        if chunks:
            told.append(f"{chunks} encrypted column chunks did not open")
        if unusable := len(self.errors) - len(self.unreadable) - chunks:
            told.append(f"{unusable} filters unusable")
        return "; ".join(told)


class _RowGroupList(Sequence[RowGroup]):
    """A plan's row groups, made one at a time."""

    def __init__(self, plan: ScanPlan) -> None:
        self._plan = plan

    def __len__(self) -> int:
        return self._plan.total

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    @overload
    def __getitem__(self, at: int) -> RowGroup: ...
    @overload
    def __getitem__(self, at: slice) -> list[RowGroup]: ...
    def __getitem__(self, at: int | slice) -> RowGroup | list[RowGroup]:
        if isinstance(at, slice):
            return [self._plan._row_group(i) for i in range(*at.indices(len(self)))]
        if not -len(self) <= at < len(self):
            raise IndexError(f"row group {at} of a plan of {len(self)}")
        return self._plan._row_group(at % len(self))
