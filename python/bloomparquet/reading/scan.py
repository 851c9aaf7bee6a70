"""Reads exactly the rows that match: the row groups or stripes that a plan kept, read by pyarrow, then filtered.

:mod:`bloomparquet.reading.formats` hides the differences of the file formats.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby, islice
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from bloomparquet.errors import BloomParquetError, FormatError, OptionError, quoted
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.planning.arrow_schema import unify, with_partitions
from bloomparquet.planning.dataset import Dataset, PathLike, Paths, open_dataset
from bloomparquet.planning.decisions import KEPT
from bloomparquet.planning.open import open_table
from bloomparquet.planning.options import OnFilterError, PlanOptions, index_path
from bloomparquet.planning.plan import ScanPlan, require_skipped_unchanged
from bloomparquet.planning.planner import Where, plan_dataset
from bloomparquet.query.evaluate.mask import bind_mask
from bloomparquet.query.names import Positions, check_names, fold
from bloomparquet.query.predicate import Predicate
from bloomparquet.query.predicate import columns as columns_of
from bloomparquet.query.sql.parse import parse_where
from bloomparquet.reading.amounts import ReadAmounts
from bloomparquet.reading.collations import compared_names
from bloomparquet.reading.cost import MatchedShare, read_ahead, spans, threads_for
from bloomparquet.reading.file_columns import ColumnsByName, ColumnsOfTable, FileColumns, result_field
from bloomparquet.reading.file_scan import Condition, FileScan, OpenFile, wanted_values
from bloomparquet.reading.formats import FormatReader, reader_of
from bloomparquet.storage.files import FileInfo, ReadCount
from bloomparquet.storage.options import StorageOptions, filesystem_or_options
from bloomparquet.storage.staleness import checked
from bloomparquet.storage.table_formats import OnTableLog

log = logging.getLogger("bloomparquet")


def read_table(
    path: Paths | Dataset,
    where: Where = None,
    columns: Sequence[str] | None = None,
    *,
    merge_schema: bool = False,
    filesystem: Any = None,
    storage_options: StorageOptions | None = None,
    timezone: str | None = "UTC",
    case_sensitive: bool = True,
    on_filter_error: OnFilterError = "keep",
    skip_corrupt: bool = False,
    keys: Keys | None = None,
    table_log: OnTableLog = "error",
    index: PathLike = "auto",
    limit: int | None = None,
) -> pa.Table:
    """Exactly the rows at `path` for which `where` is TRUE, in file order. Row groups (stripes of ORC) that cannot hold
    such a row are not read.

    `columns` names top-level columns and partition columns, in the order of the result; None: all columns, partition
    columns last. As for ``spark.read.parquet``, the first file defines the columns. With `merge_schema`, every footer
    is read, and the result has the columns of all files. `limit`: read no further than the first so many rows. The
    other parameters are those of :func:`bloomparquet.plan`.

    Raises the errors of :func:`bloomparquet.plan`, :class:`PlanError` for a condition of SQL text that is not supported
    and for a column whose type in one file cannot be converted to its type in the result, and :class:`EncryptionError`
    for a column that `keys` do not decrypt.

    >>> bp.read_table("events.parquet", "user_id = 4711", ["user_id", "country"]).to_pylist()
    [{'user_id': 4711, 'country': 'CH'}]
    """
    batches = scan_batches(
        path, where, columns, merge_schema=merge_schema, filesystem=filesystem, storage_options=storage_options,
        timezone=timezone, case_sensitive=case_sensitive, on_filter_error=on_filter_error, skip_corrupt=skip_corrupt,
        keys=keys, table_log=table_log, index=index,
    )  # fmt: skip
    return batches.read_all() if limit is None else first_rows(batches, limit)


def first_rows(batches: pa.RecordBatchReader, limit: int) -> pa.Table:
    """The first `limit` rows. No batch is read after that."""
    if not isinstance(limit, int) or limit < 0:
        raise OptionError(f"limit is {quoted(limit)}; expected a number of rows, 0 or more, or None for all rows")
    some: list[pa.RecordBatch] = []
    while limit > 0 and (batch := next(batches, None)) is not None:
        some.append(batch.slice(0, limit))
        limit -= some[-1].num_rows
    batches.close()
    return pa.Table.from_batches(some, batches.schema)


def count(
    path: Paths | Dataset,
    where: Where = None,
    *,
    filesystem: Any = None,
    storage_options: StorageOptions | None = None,
    timezone: str | None = "UTC",
    case_sensitive: bool = True,
    on_filter_error: OnFilterError = "keep",
    skip_corrupt: bool = False,
    keys: Keys | None = None,
    table_log: OnTableLog = "error",
    index: PathLike = "auto",
) -> int:
    """The number of rows that :func:`read_table` returns. Only the columns of `where` are read.

    >>> bp.count("events.parquet", "country = 'CH'")
    1000
    """
    batches = scan_batches(
        path, where, [], filesystem=filesystem, storage_options=storage_options, timezone=timezone,
        case_sensitive=case_sensitive, on_filter_error=on_filter_error, skip_corrupt=skip_corrupt, keys=keys,
        table_log=table_log, index=index,
    )  # fmt: skip
    return sum(batch.num_rows for batch in batches)


def scan_batches(
    path: Paths | Dataset,
    where: Where = None,
    columns: Sequence[str] | None = None,
    *,
    merge_schema: bool = False,
    filesystem: Any = None,
    storage_options: StorageOptions | None = None,
    timezone: str | None = "UTC",
    case_sensitive: bool = True,
    on_filter_error: OnFilterError = "keep",
    skip_corrupt: bool = False,
    keys: Keys | None = None,
    table_log: OnTableLog = "error",
    index: PathLike = "auto",
) -> pa.RecordBatchReader:
    """The rows of :func:`read_table` as record batches of one schema, one batch in memory at a time.

    The call plans. A batch is read, and an error of reading it is raised, when the reader is asked for it. The file
    being read is closed when the reader is dropped.

    >>> with bp.scan_batches("events.parquet", "country = 'CH'", ["user_id"]) as batches:
    ...     sum(batch.num_rows for batch in batches)
    1000
    """
    options = PlanOptions(
        timezone=timezone, case_sensitive=case_sensitive, on_filter_error=on_filter_error, skip_corrupt=skip_corrupt,
        index=index_path(index),
    )  # fmt: skip
    predicate = parse_where(where)
    dataset = open_dataset(path, filesystem_or_options(filesystem, storage_options), keys, table_log)
    plan = plan_scan(dataset, predicate, options, is_fresh=not isinstance(path, Dataset))
    return read_plan(plan, columns, merge_schema=merge_schema)


def plan_scan(dataset: Dataset, where: Predicate | None, options: PlanOptions, *, is_fresh: bool = False) -> ScanPlan:
    """The plan of a scan that follows at once. `is_fresh`: the files were listed just now.

    Raises FileChangedError if a local file that is skipped is not the one that was listed.
    """
    plan = plan_dataset(dataset, where, options)
    for error in islice(plan.left_out.values(), 1):
        log.warning("damaged files left out: %d; the first: %s", len(plan.left_out), error)
    if not is_fresh and dataset.columns is None:
        # The data set may have been listed long ago, and the evidence may be from a cache or an index.
        require_skipped_unchanged(plan)
    return plan


def read_plan(
    plan: ScanPlan,
    columns: Sequence[str] | None,
    *,
    merge_schema: bool = False,
    schema: pa.Schema | None = None,
    for_spark: bool = False,
    amounts: ReadAmounts | None = None,
) -> pa.RecordBatchReader:
    """The matching rows of the row groups that `plan` keeps; see :func:`scan_batches`.

    `schema`: all columns that the result may have; None: as `merge_schema` says. `for_spark`: values that Spark's own
    reader shows as other days are errors, also without a condition; and one row group of local files is read at a time,
    as Spark runs tasks side by side. `amounts`: counts what is read.
    """
    if columns is not None:
        check_names(columns)
    if amounts is None and log.isEnabledFor(logging.INFO):
        amounts = ReadAmounts()
    scan = _Scan(plan, columns, merge_schema, schema, for_spark, amounts)
    return pa.RecordBatchReader.from_batches(scan.schema, scan.batches() if amounts is None else scan.counted(amounts))


class _Span(NamedTuple):
    """Row groups of a file that are read together: by one thread for each of `jobs`. `size`: their compressed bytes."""

    file_index: int
    jobs: list[list[int]]
    size: int


class _Scan:
    """The scan of one plan. `schema` is the schema of the result."""

    def __init__(
        self,
        plan: ScanPlan,
        columns: Sequence[str] | None,
        merge_schema: bool,
        schema: pa.Schema | None,
        for_spark: bool,
        amounts: ReadAmounts | None,
    ) -> None:
        for error in plan.unreadable.values():  # the rows of this file might match
            raise error
        options = self._options = plan.options
        self._plan, self._case_sensitive = plan, options.case_sensitive
        self._for_spark, self._amounts = for_spark, amounts
        zone = options.timezone or "UTC"
        self._partitions = plan.dataset.partition_table(zone)
        # A plan that opened no file does not know their format.
        self._reader = reader_of(plan.table) if plan.table.files else self._open(plan.dataset.files[:1])
        self._columns = plan.dataset.columns
        self._kept = list(plan.kept_by_file())
        is_first_planned = self._columns is None and not options.skip_corrupt and len(plan.table.files) > 0
        is_first_planned = is_first_planned and plan.table.files[0] == plan.dataset.files[0]
        try:  # a plan by an index has read none of them: read all at once
            schemas = self._reader.schemas([*range(is_first_planned), *(file for file, _ in self._kept)])
        except FormatError:
            plan.require_unchanged()
            raise
        if schema is None:
            schema = self._whole_schema(merge_schema, schemas if is_first_planned else self._schemas_in_turn())
        whole = schema
        self.schema = whole
        if columns is not None:
            absent, positions = self._describe_absence(merge_schema), Positions(whole.names, self._case_sensitive)
            self.schema = pa.schema([result_field(whole, name, absent, positions) for name in columns])
        self._condition = None if plan.where is None else self._bind(plan.where, whole, merge_schema)

    def _whole_schema(self, merge_schema: bool, schemas: Iterator[pa.Schema]) -> pa.Schema:
        """All columns that the result may have. `schemas` begins with the one of the first readable file."""
        if self._columns is not None:
            return self._columns.schema
        if merge_schema:
            stored = unify(self._open(self._plan.dataset.files).schemas(), case_sensitive=self._case_sensitive)
        else:
            stored = next(schemas, pa.schema([]))
        if not self._partitions.column_names:
            return stored
        return with_partitions(stored, self._partitions.schema, self._case_sensitive)

    def _describe_absence(self, merge_schema: bool) -> str:
        """Where a column is missing that :meth:`_whole_schema` lacks, for an error."""
        if self._columns is not None:
            return "not in the table"
        if merge_schema or len(self._plan.dataset.files) == 1:
            return "in none of the files"
        return (
            "not in the first file (merge_schema=True, or --merge-schema on the command line, takes the columns of all "
            "files)"
        )

    def _bind(self, where: Predicate, whole: pa.Schema, merge_schema: bool) -> Condition:
        """`where` on the columns of the scan."""
        named = {column[0] for column in columns_of(where)}
        names, known = (Positions(each, self._case_sensitive) for each in (named, whole.names))
        fields = list(whole)
        if not merge_schema and not all(name in known for name in named):  # only later files have one of the columns
            others = unify(self._reader.schemas(), names, case_sensitive=self._case_sensitive)
            fields += [field for field in others if field.name not in known]
            known = Positions((field.name for field in fields), self._case_sensitive)
        # A missing name with a dot must not find a field of a struct.
        dotted = {fold(name, self._case_sensitive): name for name in named if "." in name}
        fields += [pa.field(name, pa.null()) for name in dotted.values() if name not in known]
        columns = pa.schema([field for field in fields if field.name in names])
        stored = [name for name in columns.names if name not in self._partitions.column_names]
        return Condition(
            bind_mask(
                where,
                columns,
                timezone=self._options.timezone or "UTC",
                case_sensitive=self._case_sensitive,
                convert=self._reader.convert,
            ),
            columns,
            partial(compared_names, where, stored, self._case_sensitive),
            # A table's types may differ from those of its files.
            wanted_values(where, columns.names) if self._columns is None else None,
            self._options.timezone,
            MatchedShare(),
        )

    def _open(self, files: Sequence[FileInfo]) -> FormatReader:
        """The reader of some files, which the plan need not have opened."""
        options = self._options
        left_out: dict[FileInfo, BloomParquetError] | None = {} if options.skip_corrupt else None
        table = open_table(self._plan.dataset, files, ReadCount(), left_out=left_out, cache=options.cache)
        return reader_of(table)

    def _schemas_in_turn(self) -> Iterator[pa.Schema]:
        """The schemas of the readable files. Each file is opened when it is its turn."""
        for file in self._plan.dataset.files:
            readers = map(self._open, [[file]])  # lazy, so that errors of opening the file are checked, too
            opened = (schema for reader in readers for schema in reader.schemas())
            yield from checked(self._plan.dataset.storage, file, opened)

    def counted(self, amounts: ReadAmounts) -> Iterator[pa.RecordBatch]:
        """:meth:`batches`, whose rows are counted in `amounts`, which is logged."""
        try:
            for batch in self.batches():
                amounts.rows += batch.num_rows
                yield batch
        finally:
            log.info("read %s", "; ".join(amounts.describe(self._plan.unit, len(self._plan.table))))

    def batches(self) -> Iterator[pa.RecordBatch]:
        spans, storage = list(self._spans()), self._plan.dataset.storage
        is_serial = self._condition is None or sum(len(span.jobs) for span in spans) < 2
        is_serial = is_serial or (self._for_spark and storage.threads == 1)
        threads = 1 if is_serial else threads_for(sum(span.size for span in spans), storage)
        if threads == 1:  # without a condition, pyarrow decodes columns side by side
            for jobs, _ in self._reads(spans):
                for read in jobs:
                    yield from read
            return
        for results in read_ahead(threads, list, self._reads(spans)):
            for batches in results:
                yield from batches

    def _spans(self) -> Iterator[_Span]:
        """Spans of the kept files, in order."""
        is_remote, end = self._plan.dataset.storage.threads > 1, 0
        _, lengths = self._plan.table.extents_of(np.flatnonzero(self._plan.codes == KEPT))
        for file_index, units in self._kept:
            end += len(units)
            sizes = lengths[end - len(units) : end].tolist()
            for span in spans(sizes):
                jobs = [[unit] for unit in units[span]] if is_remote else [units[span]]
                yield _Span(file_index, jobs, sum(sizes[span]))

    def _reads(self, spans: Sequence[_Span]) -> Iterator[tuple[list[Iterator[pa.RecordBatch]], int]]:
        """The batches of each job of each span, and its size. The file is checked by the last read of a span."""
        storage, listed = self._plan.dataset.storage, self._plan.table.files
        for file_index, of_file in groupby(spans, attrgetter("file_index")):
            open_scan = partial(self._scan_of, file_index)
            shared = OpenFile(open_scan)
            for span in of_file:
                is_last = [True, *[False] * (len(span.jobs) - 1)].pop
                files = [shared if storage.shares_open_files else OpenFile(open_scan) for _ in span.jobs]
                reads = [file.read(units) for file, units in zip(files, span.jobs, strict=True)]
                yield [checked(storage, listed[file_index], read, is_last) for read in reads], span.size

    def _scan_of(self, file_index: int) -> FileScan:
        dataset, table = self._plan.dataset, self._plan.table
        reader, position = self._reader.file(file_index), int(self._plan.file_positions[file_index])
        reader.amounts = self._amounts
        if self._columns is None:
            columns: FileColumns = ColumnsByName(reader.schema, reader.path, self._case_sensitive)
        else:
            fallbacks = dataset.fallbacks[position] if dataset.fallbacks else ()
            columns = ColumnsOfTable(reader.schema, reader.path, self._columns, fallbacks)
        deletes = dataset.deletes[position] if dataset.deletes else None
        first, last = np.searchsorted(table.file, (file_index, file_index + 1)).tolist()
        return FileScan(
            reader,
            columns,
            self.schema,
            self._condition,
            constants=self._partitions.slice(position, 1),
            rows=table.rows[first:last],
            deleted=None if deletes is None else deletes.read(dataset.storage),
            for_spark=self._for_spark,
        )
