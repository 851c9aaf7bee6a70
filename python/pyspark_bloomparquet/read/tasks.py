"""Reads one split as Arrow batches for Spark, on executors.

Each batch is converted and handed to Spark before the next one is decoded, so memory holds part of one row group. Of
remote files, row groups are read ahead if there is a condition.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from bloomparquet.errors import FileChangedError, FormatError, OptionError
from bloomparquet.planning.options import PlanOptions
from bloomparquet.planning.partitions import to_array
from bloomparquet.planning.planner import plan_row_groups
from bloomparquet.query.predicate import columns
from bloomparquet.reading.scan import read_plan
from bloomparquet.storage.staleness import require_unchanged
from pyspark_bloomparquet.options.key_provider import invalidating, provided_keys
from pyspark_bloomparquet.read.arrow_to_spark import arrow_schema, to_spark_batch
from pyspark_bloomparquet.read.spark_schema import resolve

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from bloomparquet.planning.dataset import Dataset
    from bloomparquet.query.predicate import Predicate
    from pyspark_bloomparquet.options.load import Options
    from pyspark_bloomparquet.read.splits import Split

_Find = Callable[[Iterable[str], str], str | None]

_SESSION_ZONE = "spark.sql.session.timeZone"


def read_split(split: Split, schema: StructType, options: Options) -> Iterator[pa.RecordBatch]:
    """The rows of `split` for which its `where` is true, with the columns of `schema`. Errors name the file."""
    dataset = replace(split.dataset, files=tuple(split.comparable(split.dataset.files)))
    with invalidating(options.key_provider):
        dataset = dataset.with_keys(provided_keys(options.key_provider))
        for batches in _reads(dataset, split, schema, options):
            yield from _forgiving(batches, options)
    for file in split.comparable(split.skipped_files()):
        if not (options.ignore_missing_files and not os.path.exists(file.path)):
            require_unchanged(dataset.storage, file)


def _forgiving(batches: Iterator[pa.RecordBatch], options: Options) -> Iterator[pa.RecordBatch]:
    """`batches` up to an error that the options say to ignore."""
    try:
        yield from batches
    except FileNotFoundError:
        if not options.ignore_missing_files:
            raise
    except (PermissionError, FileChangedError):
        raise  # not a damaged file: ignoreCorruptFiles must not hide it
    except (FormatError, pa.ArrowInvalid, OSError):
        if not options.ignore_corrupt_files:
            raise


def _reads(dataset: Dataset, split: Split, schema: StructType, options: Options) -> Iterator[Iterator[pa.RecordBatch]]:
    """The rows of the files that are read together: those of a table, or else of each file alone, as types differ."""
    if dataset.columns is None:
        for i, row_groups in enumerate(split.row_groups):
            yield _read_file(dataset.select([i]), row_groups, split.where, schema, options)
    elif dataset.files:
        yield _read_table(dataset, split, schema, options)


def _read_table(dataset: Dataset, split: Split, schema: StructType, options: Options) -> Iterator[pa.RecordBatch]:
    planning = PlanOptions(timezone=options.time_zone, case_sensitive=options.case_sensitive)
    plan = plan_row_groups(dataset, split.where, split.row_groups, planning)
    for batch in read_plan(plan, schema.names, for_spark=True):
        yield to_spark_batch(batch, schema, {}, case_sensitive=True, path=options.paths[0])


def _read_file(
    dataset: Dataset, row_groups: Sequence[int], where: Predicate | None, schema: StructType, options: Options
) -> Iterator[pa.RecordBatch]:
    """The rows of the only file of `dataset`. `where` compares by the types of the file and the inferred types of
    partition columns, not by those of `schema`."""
    find = partial(resolve, case_sensitive=options.case_sensitive)
    partitions = [(find(dataset.partition_names, field.name), field.type) for field in arrow_schema(schema)]
    zone = options.time_zone or _find_zone(dataset, partitions, where, find)
    planning = PlanOptions(timezone=zone, case_sensitive=options.case_sensitive)
    plan = plan_row_groups(dataset, where, [row_groups], planning)
    stored = [node.name for node in plan.table.schemas[0].root.children]
    shown = (name for name, (partition, _) in zip(schema.names, partitions, strict=True) if partition is None)
    names = [name for name in dict.fromkeys(find(stored, name) for name in shown) if name is not None]
    raw = dict(zip(dataset.partition_names, dataset.partition_values[0], strict=True))
    values = {name: to_array([raw[name]], kind, zone)[0] for name, kind in partitions if name is not None}
    for batch in read_plan(plan, names, for_spark=True):
        path = dataset.files[0].path
        yield to_spark_batch(batch, schema, values, case_sensitive=options.case_sensitive, path=path)


def _find_zone(
    dataset: Dataset, partitions: Iterable[tuple[str | None, pa.DataType]], where: Predicate | None, find: _Find
) -> str:
    """The session's time zone if a partition column that is read has times without a zone; else UTC."""
    types = dict(zip(dataset.partition_names, dataset.partition_types or (), strict=True))
    compared = (find(types, column[0]) for column in columns(where)) if where is not None else ()
    used = [*partitions, *((name, types[name]) for name in compared if name is not None)]
    zoned = [name for name, kind in used if name is not None and pa.types.is_timestamp(kind) and kind.tz is not None]
    return _session_zone(zoned[0]) if zoned else "UTC"


def _session_zone(name: str) -> str:
    from pyspark import TaskContext

    context = TaskContext.get()
    zone = context.getLocalProperty(_SESSION_ZONE) if context is not None else None
    if zone is None:
        raise OptionError(
            f"partition column {name} has timestamps without a zone, and a Python data source cannot see the session's "
            "zone; set the option timeZone to the value of spark.sql.session.timeZone"
        )
    return zone
