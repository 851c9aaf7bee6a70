"""The result of planning: which row groups to read, why the others are skipped, and what planning cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError, EncryptionError
from bloomparquet.planning.dataset import Dataset
from bloomparquet.planning.decisions import (
    HAS_FILTER,
    KEPT,
    NO_FILTER,
    PARTITION,
    REASONS,
    STATISTICS,
    WHOLE_FILE,
    Decisions,
    RowGroupCounts,
    describe_index,
    describe_units,
)
from bloomparquet.planning.evidence.formats import Unit
from bloomparquet.planning.evidence.interface import Table
from bloomparquet.planning.explanation import Explanation
from bloomparquet.planning.judge import Request
from bloomparquet.planning.options import DEFAULT_OPTIONS, PlanOptions
from bloomparquet.query.names import valid_text
from bloomparquet.query.normal_form import opaque_parts
from bloomparquet.query.predicate import Predicate
from bloomparquet.query.verdict import Codes, Decision
from bloomparquet.report.texts import plural
from bloomparquet.storage.files import FileInfo, LocalStorage, ReadCount, with_scheme
from bloomparquet.storage.forks import lazy_property
from bloomparquet.storage.staleness import changed_files, require_unchanged
from bloomparquet.storage.threads import in_threads

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_REASON_NUMBERS = np.array([REASONS.index(reason) for reason in REASONS], np.uint8)


@dataclass(frozen=True, slots=True)
class RowGroup:
    """One row group of a plan; for ORC files, one stripe.

    `start` and `length` are bytes in the file. A file whose footer is not read is one entry, with the extent of the
    whole file and None as `index` and `rows`. Such files are skipped by partition values, or kept because their footer
    is unreadable.
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
    """The row groups of a data set that might hold matching rows, and the reasons why the others cannot.

    ``total = kept + skipped.total()``. Over ORC files, these and :attr:`row_groups` count stripes, and
    `row_group_counts` counts the row groups within the stripes; over Parquet files it is None.

    `errors`: the filters that could not be used, and the encrypted columns and footers that could not be decrypted.
    Their row groups are kept. `unreadable`: the files whose footer could not be decrypted or exceeds a limit. They are
    kept whole, and are not in `table`. `left_out`: the damaged files, if ``skip_corrupt=True``. They count neither as
    kept nor as skipped. `requests` counts reads of data files and of remote indexes while planning, `bloom_bytes_read`
    the bytes of filters. `seconds_by_part`: the larger parts of `seconds`.

    Plans are equal if they have the same files and predicate, keep the same row groups, and skip each other row group
    for the same reason. Costs are not compared. A plan cannot be pickled, because it may hold keys.

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
    codes: Codes = field(repr=False)  # per row group of `table`
    excluded: tuple[FileInfo, ...] = field(repr=False)  # by partition values; not in `table`
    file_positions: NDArray[np.int64] = field(repr=False)  # per file of `table`, its index in `dataset.files`
    footer_reads: ReadCount
    filter_reads: ReadCount
    unreadable: Mapping[FileInfo, BloomParquetError]
    left_out: Mapping[FileInfo, BloomParquetError]
    request: Request = field(repr=False)
    explainer: Callable[[ScanPlan], Explanation] = field(repr=False)  # its module imports this one
    painter: Callable[[ScanPlan], str] = field(repr=False)  # likewise: the plan as HTML
    row_group_counts: RowGroupCounts | None = None
    options: PlanOptions = field(default=DEFAULT_OPTIONS, repr=False)
    seconds_by_part: Mapping[str, float] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ScanPlan):
            return NotImplemented
        return self is other or (self.where == other.where and self._outcome() == other._outcome())

    def __hash__(self) -> int:
        # The predicate is left out: its literals need not be hashable.
        return hash(self._outcome())

    def __copy__(self) -> ScanPlan:
        return self

    def __deepcopy__(self, _: Any) -> ScanPlan:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a plan is not pickled, because it may hold keys; give other processes the path and the predicate, or "
            "plan.to_dataset()"
        )

    def _outcome(self) -> tuple[Hashable, ...]:
        """Everything but the predicate that two equal plans share."""
        dataset = self.dataset
        return (
            (dataset.storage.key, dataset.files, dataset.partition_names, dataset.partition_values),
            (self.unit, self.row_group_counts, self.file_positions.tobytes()),
            (self.table.file.tobytes(), self.table.index.tobytes(), _REASON_NUMBERS[self.codes].tobytes()),
            (self.excluded, tuple(self.unreadable)),
            (dataset.columns, dataset.deletes),
        )

    @property
    def unit(self) -> Unit:
        """The unit that is read or skipped as a whole: ``"row group"``, or ``"stripe"`` over ORC files."""
        return self.table.format.unit

    @property
    def total(self) -> int:
        return len(self.table) + len(self.excluded) + len(self.unreadable)

    @property
    def kept(self) -> int:
        return int(np.count_nonzero(self.codes == KEPT)) + len(self.unreadable)

    @property
    def skipped(self) -> Counter[str]:
        """Skipped row groups, counted by ``"statistics"`` and ``"bloom"``; and files, by ``"partition"``."""
        counts = Counter[str]()
        for reason, count in zip(REASONS, np.bincount(self.codes, minlength=len(REASONS)).tolist(), strict=True):
            if reason and count:
                counts[reason] += count
        if self.excluded:
            counts[PARTITION] += len(self.excluded)
        return counts

    @property
    def indexed(self) -> int:
        """The number of files that were planned from an index, without reading them."""
        return self.table.indexed

    @property
    def requests(self) -> int:
        return self.footer_reads.requests + self.filter_reads.requests

    @property
    def bloom_bytes_read(self) -> int:
        return self.filter_reads.bytes

    @lazy_property
    def row_groups(self) -> tuple[RowGroup, ...]:
        """All row groups in file order, then the files skipped by partition values, then the unreadable files."""
        return tuple(self._row_groups(np.arange(self.total)))

    def kept_row_groups(self) -> list[RowGroup]:
        """The row groups to read, in file order, then the unreadable files."""
        unreadable = np.arange(self.total - len(self.unreadable), self.total)
        return list(self._row_groups(np.concatenate([np.flatnonzero(self.codes == KEPT), unreadable])))

    def kept_by_file(self) -> Iterator[tuple[int, list[int]]]:
        """The index in ``table.files`` of each file with kept row groups, and the indexes of these in the file."""
        kept = np.flatnonzero(self.codes == KEPT)
        if len(kept) == 0:
            return
        files, first = np.unique(self.table.file[kept], return_index=True)
        for file, members in zip(files.tolist(), np.split(kept, first[1:]), strict=True):
            yield file, self.table.index[members].tolist()

    def files(self) -> list[str]:
        """The paths of the files to read, in order, for an engine with a Parquet reader of its own. Its rules compare
        values then, and it does not notice a file that changes before it reads: see :meth:`require_unchanged`."""
        paths = [self.table.paths[file] for file, _ in self.kept_by_file()]
        return [with_scheme(self.dataset.storage, path) for path in [*paths, *(file.path for file in self.unreadable)]]

    def of_file(self, file: int) -> ScanPlan:
        """This plan with the row groups of one file only, an index of ``table.files``. The others count as skipped."""
        codes = np.where(self.table.file == file, self.codes, np.uint8(Decision.CONSTANT.code))
        return replace(self, codes=codes)

    def decisions(self) -> Decisions:
        """The evidence that decided about each row group, the skipped ones too: arrays in the order of
        :attr:`row_groups`."""
        table, files = self.table, self.dataset.files
        entries = (*self.excluded, *self.unreadable)
        positions = {file: i for i, file in enumerate(files)} if entries else {}
        unopened = np.array([positions[file] for file in entries], np.int64)
        by = [Decision.PARTITION.code] * len(self.excluded) + [KEPT] * len(self.unreadable)
        return Decisions(
            np.concatenate([self.file_positions[table.file], unopened]),
            np.concatenate([table.index, np.full_like(unopened, WHOLE_FILE)]),
            np.concatenate([self.codes, np.array(by, np.uint8)]),
        )

    def explain(self) -> Explanation:
        """Per part of the predicate: which evidence skips how many row groups, and why the others are not skipped.

        Each part is judged as if it were the whole predicate, from what planning has read. This may read filters that
        the plan did not need.

        >>> plan = bp.plan("events.parquet", "country = 'CH'")
        >>> plan.explain().reasons()[0].remedy
        'bloomparquet add events.parquet --columns country  # bloomparquet advise events.parquet says whether it pays'
        """
        return self.explainer(self)

    def columns_without_filters(self) -> dict[str, int]:
        """The columns that the predicate compares with values for equality, and how many row groups that statistics
        keep have no Bloom filter on them. Columns with filters in all of them are left out."""
        kept = np.array([reason != STATISTICS for reason in REASONS])[self.codes]
        counts = {
            ".".join(column): int(np.count_nonzero(kept & (filters == NO_FILTER)))
            for column, filters in self.request.filters.items()
        }
        return {column: count for column, count in counts.items() if count}

    def filters_decided(self) -> bool:
        """Whether a Bloom filter was asked about each kept row group: a dictionary would hardly exclude more."""
        asked = [filters == HAS_FILTER for filters in self.request.filters.values()]
        if not asked or self.unreadable or self.left_out:
            return False
        return bool(np.logical_or.reduce(asked)[self.codes == KEPT].all())

    def to_arrow(self) -> pa.Table:
        """One row per row group: path, index, rows, start, length, kept, reason."""
        schema = pa.schema(
            [
                ("path", pa.string()), ("index", pa.int32()), ("rows", pa.int64()),
                ("start", pa.int64()), ("length", pa.int64()), ("kept", pa.bool_()), ("reason", pa.string()),
            ]
        )  # fmt: skip
        rows = [{**asdict(row_group), "path": valid_text(row_group.path)} for row_group in self.row_groups]
        return pa.Table.from_pylist(rows, schema)

    def to_dataset(self, *, merge_schema: bool = False) -> ds.Dataset:
        """The kept row groups as a pyarrow data set, which polars, DuckDB, DataFusion and pandas read.

        It has the columns of :func:`bloomparquet.read_table`: those of the first file, or with `merge_schema` those of
        all files, then the partition columns. **Its rows are all rows of the kept row groups, so the engine must filter
        them again.**

        This call reads the footers of the kept files, and raises :class:`FileChangedError` for a file that changed
        since it was planned. Data is read when the engine asks for it; call :meth:`require_unchanged` after that.
        pyarrow's ``count_rows()`` without a filter counts whole files; engines count right.

        Raises :class:`UnsupportedError` for ORC files and encrypted files, and :class:`PlanError` if pyarrow would find
        other values in a file than :func:`bloomparquet.read_table`: for a column whose name differs by case, or whose
        type cannot be converted without loss.
        """
        from bloomparquet.planning.fragments import make_dataset  # lazy import: a plan needs no pyarrow.dataset

        for error in self.unreadable.values():  # the rows of this file might match
            raise error
        kept = list(self.kept_by_file())
        return make_dataset(
            self.dataset, self.table, kept, self.file_positions, self.options, merge_schema=merge_schema
        )

    def not_understood(self) -> list[str]:
        """The conditions of `where`, as SQL, that are not understood and so skip nothing."""
        return [] if self.where is None else list(map(str, opaque_parts(self.where)))

    def require_unchanged(self) -> None:
        """Raise :class:`FileChangedError` if a file with kept row groups, or a local file that is skipped, is not the
        one that was planned.

        Call it after another engine has read :meth:`to_dataset`: the engine cannot know which version of a file was
        planned, so rows may be missing from what it read. If the storage is remote, makes one request for each file
        with kept row groups, and does not look at the others.
        """
        storage, files = self.dataset.storage, [self.table.files[file] for file, _ in self.kept_by_file()]
        for _ in in_threads(storage.threads, partial(require_unchanged, storage), files):
            pass
        require_skipped_unchanged(self)

    def _row_groups(self, positions: NDArray[np.int64]) -> Iterator[RowGroup]:
        """The row groups, and the files that were not opened, at ascending positions in :attr:`row_groups`."""
        table, units = self.table, positions[positions < len(self.table)]
        starts, lengths = table.extents_of(units)
        for i, start, length in zip(units.tolist(), starts.tolist(), lengths.tolist(), strict=True):
            path, index, rows = table.paths[table.file[i]], int(table.index[i]), int(table.rows[i])
            reason = REASONS[self.codes[i]]
            yield RowGroup(path, index, rows, start, length, reason is None, reason)
        files = (*self.excluded, *self.unreadable)
        for i in positions[len(units) :].tolist():
            file, kept = files[i - len(table)], i >= self.total - len(self.unreadable)
            yield RowGroup(file.path, None, None, 0, file.size, kept, None if kept else PARTITION)

    def _repr_html_(self) -> str:
        """The picture of the plan that notebooks show."""
        return self.painter(self)

    def __repr__(self) -> str:
        parts = [describe_units(self.kept - len(self.unreadable), len(self.table), self.skipped, self.unit)]
        if (counts := self.row_group_counts) is not None:
            parts.append(f"{counts.kept} of {counts.total} row groups in the stripes might match")
        if self.unreadable:
            parts.append(f"{len(self.unreadable)} files with an unreadable footer kept whole")
        if self.left_out:
            parts.append(f"{plural(len(self.left_out), 'damaged file')} left out")
        if self.indexed:
            parts.append(describe_index(self.indexed, len(self.table.files)))
        if self.excluded:
            parts.append(f"{len(self.excluded)} files skipped by partition values")
        files = set(map(id, self.unreadable.values()))
        chunks = sum(isinstance(error, EncryptionError) and id(error) not in files for error in self.errors)
        if chunks:
            parts.append(f"{chunks} encrypted column chunks could not be decrypted")
        if unusable := len(self.errors) - len(self.unreadable) - chunks:
            parts.append(f"{unusable} Bloom filters could not be used")
        if opaque := self.not_understood():
            parts.append(f"not used: {', '.join(opaque)}")
        return "; ".join(parts)


def skipped_local_files(plan: ScanPlan) -> list[FileInfo]:
    """The local files that the plan skips by statistics or Bloom filters; not those skipped by partition values."""
    files = plan.dataset.files
    if not isinstance(plan.dataset.storage, LocalStorage):
        return []
    kept = plan.file_positions[np.unique(plan.table.file[plan.codes == KEPT])]
    excluded = set(plan.excluded)
    return [files[i] for i in np.setdiff1d(np.arange(len(files)), kept).tolist() if files[i] not in excluded]


def require_skipped_unchanged(plan: ScanPlan) -> None:
    """Raise FileChangedError if a local file that `plan` skips is not the one that was planned."""
    storage, files = plan.dataset.storage, skipped_local_files(plan)
    for file, is_changed in zip(files, changed_files(storage, files), strict=True):
        if is_changed:
            require_unchanged(storage, file)
