"""Builds and refreshes the index of a data set on Spark's executors.

The driver lists the files and commits the index. Each task writes segments of some of the files, under names of its
own, and returns them. A task may run twice, or be killed: only what successful attempts returned becomes part of the
index, and the driver removes the rest.
"""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING, Any

from bloomparquet.errors import BloomParquetError, OptionError
from bloomparquet.indexing.build import IndexInfo, build_with, make_segments, refresh_with
from bloomparquet.indexing.columns import Columns, IndexColumns
from bloomparquet.indexing.located_index import LocatedIndex, locate_index
from bloomparquet.indexing.segment import MOST_ROW_GROUPS, BuildReport, Target
from bloomparquet.planning.dataset import Dataset, PathLike, Paths
from bloomparquet.planning.index.manifest import SegmentEntry
from bloomparquet.storage.files import FileInfo, LocalStorage
from bloomparquet.storage.open import open_storage
from bloomparquet.storage.table_formats import OnTableLog
from pyspark_bloomparquet.jobs.executors import locate, locate_all, require_executors, run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROW_GROUP_BYTES = 128 << 20  # Spark's default; how many row groups a file has is only known when it is read
_LEAST_ROW_GROUPS = 1024  # of a task: a plan reads each segment, so there should not be many small ones
_LEAST_TO_MAKE = 16  # of a task that reads the values of columns


def build_index(
    spark: SparkSession,
    path: Paths,
    columns: Columns = None,
    to: PathLike | None = None,
    *,
    files_per_task: int | None = None,
    table_log: OnTableLog = "error",
) -> IndexInfo:
    """Build the index of the Parquet or ORC files at `path` on Spark's executors.

    This is :func:`bloomparquet.build_index` for large data sets. The driver lists the files, executors read their
    footers and filters and write the index, and the driver puts it in place when all is written. If Spark aborts the
    job, because it was cancelled or executors were killed, Spark's error is raised, and the index stays as it was.

    * `columns`, `to`, `table_log`: as for :func:`bloomparquet.build_index`. The case of column names is ignored unless
      ``spark.sql.caseSensitive`` is true.
    * `files_per_task`: the number of files of each task. None chooses it by their sizes, so that tasks write few large
      segments: each of them costs a plan some reads.

    A path without a scheme is on Spark's default file system. The executors open the files, and the directory of the
    index, under the same paths, and their Python must have this package.

    Raises the errors of :func:`bloomparquet.build_index`, and UnsupportedError for Spark Connect and if the Python of
    an executor does not have this package.
    """
    case_sensitive = spark.conf.get("spark.sql.caseSensitive") == "true"
    wanted = IndexColumns.parse(columns, case_sensitive=case_sensitive)
    call = _Call(spark, path, to, files_per_task, table_log)
    return build_with(call.make, call.index, wanted)


def refresh_index(
    spark: SparkSession,
    path: Paths,
    to: PathLike | None = None,
    *,
    files_per_task: int | None = None,
    table_log: OnTableLog = "error",
) -> IndexInfo:
    """Bring the index of the files at `path` up to date on Spark's executors: index new and changed files.

    This is :func:`bloomparquet.refresh_index` for large data sets. See :func:`build_index` for the arguments and
    errors.
    """
    call = _Call(spark, path, to, files_per_task, table_log)
    return refresh_with(call.make, call.index)


class _Call:
    """The files of a call of :func:`build_index` or :func:`refresh_index`, and the location of their index."""

    def __init__(
        self, spark: SparkSession, path: Paths, to: PathLike | None, files_per_task: int | None, table_log: OnTableLog
    ) -> None:
        require_executors(spark, "bloomparquet.build_index")
        if files_per_task is not None and files_per_task < 1:
            raise OptionError(f"files_per_task is {files_per_task}; expected 1 or more")
        self._spark, self._files_per_task = spark, files_per_task
        paths = locate_all(spark, path)
        index = None if to is None else locate(spark, os.fspath(to))
        self._location, self._to = paths[0], paths[0] if index is None else index
        self.index: LocatedIndex = locate_index(paths, index, None, table_log)

    def make(self, target: Target, dataset: Dataset, columns: IndexColumns) -> tuple[list[SegmentEntry], BuildReport]:
        """Write segments of the files of `dataset` on executors. Returns the segments, and the reports of all tasks as
        one."""
        files, step = dataset.files, self._files_per_task
        if step is None:
            least = _LEAST_TO_MAKE if columns.makes_filters else _LEAST_ROW_GROUPS
            portions = split(files, self._spark.sparkContext.defaultParallelism, least)
        else:
            portions = [files[first : first + step] for first in range(0, len(files), step)]
        function = "pyspark_bloomparquet.indexing.build:make_on_executor"
        payload = pickle.dumps(
            (self._location, self._to, target.directory, target.root, target.build, columns, dataset.format)
        )
        inputs = [[tuple(file) for file in portion] for portion in portions]
        results = run_tasks(self._spark, f"index {len(files):,} files", function, payload, inputs)
        segments: list[SegmentEntry] = []
        report = BuildReport()
        for result in results:
            if isinstance(result, Exception):
                raise result
            made, of_task = result
            segments += made
            report.add(of_task)
        return segments, report


def split(files: tuple[FileInfo, ...], tasks: int, least: int) -> list[tuple[FileInfo, ...]]:
    """Split `files`, in their order, into portions for about so many `tasks`.

    If row groups have the usual size, each portion has at most as many row groups as one segment, and each but the last
    has `least` or more.
    """
    row_groups = [max(1, file.size // _ROW_GROUP_BYTES) for file in files]
    wanted = min(max(sum(row_groups) / tasks, least), MOST_ROW_GROUPS)
    portions, first, size = [], 0, 0
    for i, count in enumerate(row_groups):
        size += count
        if size >= wanted or i == len(files) - 1:
            portions.append(files[first : i + 1])
            first, size = i + 1, 0
    return portions


def make_on_executor(
    payload: bytes, files: list[tuple[Any, ...]]
) -> tuple[list[SegmentEntry], BuildReport] | Exception:
    """Write segments of `files`, on an executor. Errors are returned, so that the driver raises them as they are.

    A remote storage may fail for a moment: then Spark runs the task again, if it may.
    """
    location, to, directory, root, build, columns, file_format = pickle.loads(payload)
    storage, _ = open_storage(location)
    index_storage, _ = open_storage(to)
    dataset = Dataset(storage, tuple(map(FileInfo._make, files)), (), ((),) * len(files), format=file_format)
    report = BuildReport()
    try:
        return list(make_segments(Target(index_storage, directory, root, build), dataset, columns, report)), report
    except BloomParquetError as error:
        return error
    except OSError as error:
        if isinstance(storage, LocalStorage) and isinstance(index_storage, LocalStorage):
            return error
        raise
