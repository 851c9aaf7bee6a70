"""Plans a scan: makes a :class:`ScanPlan` from paths and a predicate.

Cheap evidence comes first: partition values before footers are read, statistics before filters are.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from bloomparquet.errors import BloomParquetError
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.planning.dataset import Dataset, PathLike, Paths, directory_above, open_dataset
from bloomparquet.planning.decisions import KEPT
from bloomparquet.planning.evidence.interface import Table, Units
from bloomparquet.planning.explain import explain_plan
from bloomparquet.planning.index.lookup import find_index
from bloomparquet.planning.judge import Errors, Request, RowCondition, Stopwatch, judge
from bloomparquet.planning.open import open_table, scan_schema
from bloomparquet.planning.options import DEFAULT_OPTIONS, OnFilterError, PlanOptions, index_path
from bloomparquet.planning.partition_evidence import PartitionEvidence
from bloomparquet.planning.plan import ScanPlan
from bloomparquet.planning.table_columns import units_of
from bloomparquet.query.expressions import bind_expression, is_expression
from bloomparquet.query.normal_form import normalize, to_provable
from bloomparquet.query.predicate import Column, Predicate, RowTest, columns, leaves
from bloomparquet.query.resolve import (
    Resolved,
    rename,
    require_comparable,
    resolve_names,
    unknown_column_error,
)
from bloomparquet.query.shredded import require_variants
from bloomparquet.query.sql.parse import parse_where
from bloomparquet.query.variants import VariantField
from bloomparquet.query.verdict import Decision, decide
from bloomparquet.storage.files import FileEnds, FileInfo, LocalStorage, ReadCount
from bloomparquet.storage.options import StorageOptions, filesystem_or_options
from bloomparquet.storage.table_formats import OnTableLog

Condition = tuple[str | Column, str, Any]


Where: TypeAlias = (
    str | Predicate | Sequence[Condition | Predicate] | Sequence[Sequence[Condition | Predicate]] | pc.Expression | None
)
"""The condition on the wanted rows; None wants all rows.

* SQL text in Spark's dialect: ``"user_id = 7 AND country IN ('CH', 'DE')"``;
* conditions as pyarrow writes them, all of which must hold: ``[("user_id", "=", 7), ("country", "in", ["CH", "DE"])]``;
* or a list of such lists, one of which must hold;
* or a predicate: ``bp.Eq("user_id", 7)``;
* or an expression of pyarrow: ``pc.field("user_id") == 7``. Rows match by the rules of pyarrow. Row groups are skipped
  by what is understood of the expression.
"""


def plan(
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
) -> ScanPlan:
    """Plan a scan: which row groups at `path` might hold rows for which `where` is TRUE.

    Reads footers and Bloom filters, never data. A skipped row group is proven to hold no matching row. Over ORC files
    the plan is of stripes: a stripe is skipped if evidence excludes each of its row groups.

    * `path`: a file, a directory (``name=value`` directories become columns), a glob, a list of those, or an open
      :class:`Dataset`.
    * `where`: SQL text, a list of conditions as in pyarrow, or a predicate such as :class:`Eq`; see ``bp.Where``. A
      condition of SQL text that is not supported skips nothing, and the others do; :meth:`ScanPlan.explain` says so.
    * `filesystem`: a pyarrow or fsspec file system that the paths belong to, or a dictionary of storage options.
    * `storage_options`: instead of a file system, the endpoint, credentials and retries of the URL's storage, such as
      ``{"endpoint_override": "localhost:9000"}``.
    * `timezone`: the time zone of timestamp literals without one. For ORC also the reader's time zone, in which
      TIMESTAMP columns are shown.
    * `case_sensitive`: whether column names that differ only by case are different.
    * `on_filter_error`: for a Bloom filter that cannot be used, ``"keep"`` warns and keeps the row group, and
      ``"fail"`` raises the error.
    * `skip_corrupt`: leave out files whose footer is damaged; ``plan.left_out`` names them.
    * `keys`: decrypt encrypted files. Without its key, a column skips nothing, and a file with an encrypted footer is
      kept whole. Both are among the errors of the plan, and are raised with ``on_filter_error="fail"``. A file whose
      footer exceeds a limit (:class:`LimitError`) is treated the same way.
    * `table_log`: ``"ignore"`` reads the bare files of a Delta Lake, Iceberg or Hudi table, which may hold deleted
      rows. Otherwise they raise :class:`UnsupportedError`, which says how to read the table.
    * `index`: the directory of the data set's index (:func:`build_index`). ``"auto"`` looks for it beside the data,
      ``"off"`` uses none.

    Raises :class:`PlanError` if the predicate does not fit the data, :class:`FormatError` for a damaged file, and
    ``OSError`` from the storage unchanged.

    >>> bp.plan("events.parquet", "user_id = 4711")
    1 of 4 row groups kept; 3 skipped by Bloom filter
    """
    options = PlanOptions(
        timezone=timezone, case_sensitive=case_sensitive, on_filter_error=on_filter_error, skip_corrupt=skip_corrupt,
        index=index_path(index),
    )  # fmt: skip
    predicate = parse_where(where, partly=True)
    return plan_dataset(
        open_dataset(path, filesystem_or_options(filesystem, storage_options), keys, table_log), predicate, options
    )


def plan_dataset(dataset: Dataset, where: Where = None, options: PlanOptions = DEFAULT_OPTIONS) -> ScanPlan:
    """Plan a scan of files that are listed already; see :func:`plan`."""
    ends = None if isinstance(dataset.storage, LocalStorage) else FileEnds()
    footer_reads, filter_reads = ReadCount(ends=ends), ReadCount(ends=ends)  # an index counts as footers
    began = time.perf_counter()
    watch = Stopwatch()
    predicate = parse_where(where)
    if is_expression(predicate):
        schemas = (scan_schema(dataset, options, merge_schema=merge) for merge in (False, True))
        predicate = bind_expression(predicate, schemas)
    strict = options.strict and not isinstance(predicate, RowTest)  # its library has checked the types
    given = [(predicate, strict), (options.pushed, False)]
    conditions = [RowCondition(normalize(each), is_strict) for each, is_strict in given if each is not None]
    partitions = PartitionEvidence(dataset, options)
    wanted = np.ones(len(dataset.files), np.bool_)
    for condition in conditions if dataset.partition_names else ():
        codes = decide(condition.predicate, wanted, partial(partitions.codes, strict=condition.strict))
        wanted &= codes == KEPT
    excluded = tuple(dataset.files[i] for i in np.flatnonzero(~wanted).tolist())
    watch.lap("the predicate and partition values")
    table, file_positions, unreadable, left_out = _open(dataset, np.flatnonzero(wanted), options, footer_reads, watch)
    errors = Errors(options.on_filter_error)
    if unreadable:
        errors.add(unreadable.values())
    resolved = Resolved({}, [])
    if conditions:
        units = table if dataset.columns is None else units_of(table, dataset.columns)
        unknown_allowed = not options.strict or bool(unreadable)  # an unreadable file may have the column
        resolved = _resolve(dataset, predicate, units, excluded, options, footer_reads, unknown_allowed)
    provable = [RowCondition(to_provable(rename(each.predicate, resolved.paths)), each.strict) for each in conditions]
    request = Request(
        dataset=dataset,
        options=options,
        partitions=partitions,
        file_positions=file_positions,
        unknown=frozenset(resolved.unknown),
        footer_reads=footer_reads,
        filter_reads=filter_reads,
        errors=errors,
        predicates=tuple(each.predicate for each in conditions),
        paths=resolved.paths,
        watch=watch,
    )
    codes, row_group_counts = np.full(len(table), KEPT, np.uint8), None
    if conditions:
        codes, row_group_counts, *_ = judge(units, provable, request)
    footer_reads.ends = filter_reads.ends = None
    return ScanPlan(
        dataset=dataset,
        where=None if predicate is None else rename(predicate, resolved.paths),
        seconds=time.perf_counter() - began,
        errors=tuple(errors.errors),
        table=table,
        codes=codes,
        excluded=excluded,
        file_positions=file_positions,
        footer_reads=footer_reads,
        filter_reads=filter_reads,
        unreadable=unreadable,
        left_out=left_out,
        request=request,
        explainer=explain_plan,
        painter=_draw,
        row_group_counts=row_group_counts,
        options=options,
        seconds_by_part=watch.seconds,
    )


def _draw(plan: ScanPlan) -> str:
    from bloomparquet.planning.picture import draw_plan  # lazy import: most plans are not looked at

    return draw_plan(plan)


def _open(
    dataset: Dataset, file_positions: NDArray[np.int64], options: PlanOptions, reads: ReadCount, watch: Stopwatch
) -> tuple[Table, NDArray[np.int64], dict[FileInfo, BloomParquetError], dict[FileInfo, BloomParquetError]]:
    """The table of the files at `file_positions`, opened by the index if there is one, and their positions; and the
    errors of the other files: unreadable ones, which are kept whole, and damaged ones, which are left out."""
    is_whole = len(file_positions) == len(dataset.files)
    files = dataset.files if is_whole else [dataset.files[i] for i in file_positions.tolist()]
    unreadable: dict[FileInfo, BloomParquetError] = {}
    index = find_index(dataset.storage, dataset.root, options.index, reads) if files else None
    left_out: dict[FileInfo, BloomParquetError] = {}
    table = open_table(
        dataset, files, reads, left_out=left_out if options.skip_corrupt else None, unreadable=unreadable,
        cache=options.cache, index=index,
    )  # fmt: skip
    watch.lap("footers" if index is None else "footers and the index")
    if len(table.files) != len(files):
        readable = set(table.files)
        file_positions = np.array([i for i in file_positions.tolist() if dataset.files[i] in readable], np.int64)
    return table, file_positions, unreadable, left_out


def plan_row_groups(
    dataset: Dataset, where: Predicate | None, row_groups: Sequence[Sequence[int]], options: PlanOptions
) -> ScanPlan:
    """The plan that keeps ``row_groups[i]`` of ``dataset.files[i]``, which an earlier plan kept. Reads footers only.

    `where` is the predicate of that plan, with the names of columns as they are in the files. The other row groups
    count as skipped by statistics, whatever skipped them: this plan is for a reader, which asks for no reason.
    """
    plan = plan_dataset(dataset, None, replace(options, index="off"))
    for error in plan.unreadable.values():
        raise error
    codes = np.full(len(plan.table), Decision.BOUNDS.code, np.uint8)
    first = np.searchsorted(plan.table.file, np.arange(len(dataset.files)))
    for start, kept in zip(first.tolist(), row_groups, strict=True):
        codes[[start + row_group for row_group in kept]] = KEPT
    return replace(plan, where=where, codes=codes)


def _resolve(
    dataset: Dataset,
    predicate: Predicate | None,
    table: Units,
    excluded: Sequence[FileInfo],
    options: PlanOptions,
    reads: ReadCount,
    unknown_allowed: bool,
) -> Resolved:
    """The columns in the files that `predicate` and ``options.pushed`` name.

    Raises PlanError for a column of `predicate` that no file has; before that, it looks for the column in the footers
    of the `excluded` files. With ``options.strict``, raises PlanError for a comparison with a struct, a list or a map.
    If the table has a schema of its own, names refer to that schema.
    """
    partitions, case_sensitive = dataset.partition_names, options.case_sensitive
    names, pushed = (set() if each is None else columns(each) for each in (predicate, options.pushed))

    resolve = partial(
        resolve_names, names | pushed, partitions=partitions, case_sensitive=case_sensitive, exact=options.exact_names
    )
    columns_of_table = dataset.columns
    schemas = list(table.schemas) if columns_of_table is None else [columns_of_table.file_schema]
    resolved = resolve(schemas)
    if not unknown_allowed and not names.isdisjoint(resolved.unknown):
        if excluded and columns_of_table is None:
            others = open_table(dataset, excluded, reads, left_out={}, unreadable={}, cache=options.cache)
            schemas += others.schemas
            resolved = resolve(schemas)
        for name in names.intersection(resolved.unknown):
            raise unknown_column_error(name, schemas, partitions, directory_above(dataset, name, case_sensitive))
    if options.strict and predicate is not None:
        renamed = rename(predicate, resolved.paths)
        require_comparable(renamed, schemas, partitions, case_sensitive=case_sensitive)
        if VariantField in map(type, leaves(renamed)):
            require_variants(renamed, schemas, partitions, case_sensitive=case_sensitive)
    return resolved
