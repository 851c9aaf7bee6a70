"""Adds and shrinks Bloom filters in the files of a whole table, on Spark's executors.

The driver lists the files. The executors change them one by one, as :func:`bloomparquet.add_filters` and
:func:`bloomparquet.shrink_filters` do. Paths, column names and the refreshing of caches are specific to Spark.
"""

from __future__ import annotations

import pickle
import re
import socket
import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bloomparquet.errors import BloomParquetError, FileBusyError, OptionError, quoted
from bloomparquet.planning.dataset import Dataset, Paths
from bloomparquet.query.predicate import Column
from bloomparquet.storage.files import FileInfo, LocalStorage, Storage
from bloomparquet.storage.globs import is_glob
from bloomparquet.storage.open import open_storage
from bloomparquet.storage.table_formats import directories_of, require_writable
from bloomparquet.writing.filters.spec import AUTO, BloomSpec, Fpp, parse_bloom
from bloomparquet.writing.outcome import FIELDS, FileOutcome
from bloomparquet.writing.retrofit.change import Change, FileJob, change_file
from bloomparquet.writing.retrofit.retrofit import plan_filters, plan_shrinking
from pyspark_bloomparquet.jobs.executors import locate_all, require_executors, run_tasks
from pyspark_bloomparquet.options.key_provider import provided_keys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


OUTCOME = (
    "path STRING, action STRING, bytes_before BIGINT, bytes_after BIGINT, filters INT, filter_bytes BIGINT, "
    "dropped INT, fpp DOUBLE, limited ARRAY<STRING>, error STRING, "
    "columns ARRAY<STRUCT<column: STRING, filters: INT, bytes: BIGINT, fpp: DOUBLE, limited: BOOLEAN, "
    "unused: STRING>>"
)
"""The schema of the returned DataFrame: the fields of :class:`bloomparquet.FileOutcome` and its columns."""

_NO_FILE_SYSTEM = ("UnsupportedFileSystemException", "No FileSystem for scheme", "ClassNotFoundException")
_MOST_SECONDS_BUSY = 600.0  # for another process to finish writing a file
_ATTEMPTS = 5
_NAME_PARTS = re.compile(r"(?:(?:^|\.)(?:`((?:[^`]|``)+)`|([^`.]+)))")


def add_filters(
    spark: SparkSession,
    path: Paths,
    bloom: BloomSpec = "*",
    replace: bool = False,
    dry_run: bool = False,
    *,
    files_per_task: int = 1,
    key_provider: str | None = None,
) -> DataFrame:
    """Add Bloom filters to the files at `path`, on Spark's executors. Returns one row per file.

    `bloom` is that of :func:`bloomparquet.add_filters`: a name, a list of names, ``{"user_id": Bloom(fpp=0.001)}``, or
    ``"*"`` for all columns for which filters pay. Unless each column has an fpp, the driver reads all footers at `path`
    to count the row groups. Column names are resolved as in Spark: their case is ignored unless
    ``spark.sql.caseSensitive`` is true, and parts with dots are quoted with backticks.

    The work is complete when this returns. The DataFrame has the columns of `OUTCOME`. ``action`` is ``added``;
    ``unchanged`` for a file that has the filters already; or ``failed``, with ``error``, for a file that is unchanged
    because of an error, unless the error says otherwise. The other files are still done. With `dry_run`, nothing is
    written, and the rows say what would be done. If Spark aborts the job, because it was cancelled or a Python worker
    was killed, Spark's error is raised. Files that were replaced stay replaced. Another call does the rest, and reports
    them as ``unchanged``.

    A path without a scheme is on Spark's default file system. The executors open the files under the same paths. Their
    Python must have this package. DataFrames and tables that listed the files before have their old sizes: load them
    again, or use ``REFRESH TABLE``. Queries with an old listing must have ended before.

    Encrypted files need `key_provider`, with the same value as the option ``keyProvider``. Executors call it, too.

    Raises before any file is changed: OptionError for a key provider without keys; PlanError for a column that no file
    has, or a name that matches several columns; UnsupportedError for a column that cannot have a useful filter, for
    tables of Delta Lake, Iceberg and Hudi, whose logs contain file sizes, and for Spark Connect. Raises
    UnsupportedError if the Python of an executor does not have this package.
    """
    call = _Call.find(spark, path, files_per_task, key_provider)
    asked: Any = {_column(name): wanted for name, wanted in parse_bloom(bloom).items()}
    case_sensitive = spark.conf.get("spark.sql.caseSensitive") == "true"
    change = plan_filters(call.dataset, asked, replace, case_sensitive=case_sensitive)
    return call.run(change, "add Bloom filters to", dry_run)


def shrink_filters(
    spark: SparkSession,
    path: Paths,
    fpp: Fpp = AUTO,
    drop_above: float = 0.9,
    dry_run: bool = False,
    *,
    files_per_task: int = 1,
    key_provider: str | None = None,
) -> DataFrame:
    """Fold the Bloom filters of the files at `path` to the size that `fpp` needs, on Spark's executors.

    Returns one row per file. Filters are folded and dropped as by :func:`bloomparquet.shrink_filters`, without
    reading data. ``action`` is ``shrunk``, ``unchanged`` or ``failed``. Data may move within a
    file, so DataFrames that were planned, explained or run before must be loaded again. Otherwise see
    :func:`add_filters`.
    """
    call = _Call.find(spark, path, files_per_task, key_provider)
    change = plan_shrinking(call.dataset, fpp, drop_above)
    return call.run(change, "shrink the Bloom filters of", dry_run)


@dataclass(frozen=True)
class _Call:
    """The files of a call of :func:`add_filters` or :func:`shrink_filters`."""

    spark: SparkSession
    paths: list[str]
    dataset: Dataset
    files_per_task: int
    key_provider: str | None

    @classmethod
    def find(cls, spark: SparkSession, path: Paths, files_per_task: int, key_provider: str | None) -> _Call:
        """List the files at `path`. Raises UnsupportedError with Spark Connect."""
        require_executors(spark, "bloomparquet.add_filters")
        if files_per_task < 1:
            raise OptionError(f"files_per_task is {files_per_task}; expected 1 or more")
        paths = locate_all(spark, path)
        # run() raises the error for tables with a log.
        dataset = Dataset.open(paths, partitioned=False, keys=provided_keys(key_provider), table_log="ignore")
        return cls(spark, paths, dataset, files_per_task, key_provider)

    def run(self, change: Change, verb: str, dry_run: bool) -> DataFrame:
        """Change the files, and return one row per file. Spark's UI shows `verb` with the number of files."""
        storage, files = self.dataset.storage, self.dataset.files
        require_writable(storage, directories_of(storage, (file.path for file in files)))
        outcomes: dict[str, FileOutcome] = {}
        try:
            outcomes = self._change_on_executors(change, f"{verb} {len(files):,} files", dry_run)
        finally:
            # A job that failed may have replaced files as well.
            if not dry_run and (not outcomes or any(each.action in ("added", "shrunk") for each in outcomes.values())):
                for path in self.paths:
                    _refresh(self.spark, path)
        rows = [_row(outcomes[path]) for path in dict.fromkeys(file.path for file in files)]
        return self.spark.createDataFrame(rows, OUTCOME)

    def _change_on_executors(self, change: Change, description: str, dry_run: bool) -> dict[str, FileOutcome]:
        """The outcomes by path. Large files are started first."""
        by_size = sorted(self.dataset.files, key=lambda file: -file.size)
        paths = list(dict.fromkeys(file.path for file in by_size))
        tasks = [paths[at : at + self.files_per_task] for at in range(0, len(paths), self.files_per_task)]
        payload = pickle.dumps((change, self.paths[0], dry_run, self.key_provider))
        function = "pyspark_bloomparquet.retrofit.retrofit:change_all_on_executor"
        results = run_tasks(self.spark, description, function, payload, tasks)
        return {path: outcome for paths, done in zip(tasks, results, strict=True) for path, outcome in zip(paths, done)}


def change_all_on_executor(payload: bytes, paths: list[str]) -> list[FileOutcome]:
    """Change the files of one task, on an executor."""
    return [change_on_executor(payload, path) for path in paths]


def change_on_executor(payload: bytes, path: str) -> FileOutcome:
    """Change one file, on an executor. Errors are returned in the outcome.

    Spark may run two attempts of a task at once, or another one after the first was killed. So this waits for a file
    that another process is writing, and each try lists the file again.
    """
    change, location, dry_run, key_provider = pickle.loads(payload)
    storage, _ = open_storage(location)
    try:
        keys = provided_keys(key_provider)
    except OptionError as error:
        return _failed(path, 0, f"{path}: on {socket.gethostname()}: {error}")
    until = time.monotonic() + _MOST_SECONDS_BUSY
    attempts = 0
    while True:
        attempts += 1
        file = None
        try:
            (file,) = storage.list_files(path, recursive=False)
            return change_file(change, storage, storage, FileJob(file), keys=keys, dry_run=dry_run)
        except Exception as error:  # noqa: BLE001 - the other files are changed all the same
            if isinstance(error, FileBusyError) and time.monotonic() < until:
                time.sleep(0.2)
            elif file is None or attempts >= _ATTEMPTS or not _may_succeed(error, storage, file, attempts):
                is_expected = isinstance(error, BloomParquetError | OSError)
                message = str(error) if is_expected else f"{type(error).__name__}: {error}"
                return _failed(path, 0 if file is None else file.size, message)


def _may_succeed(error: Exception, storage: Storage, file: FileInfo, attempts: int) -> bool:
    """Whether another try may succeed: the file has changed since it was listed, or a remote request failed."""
    if isinstance(error, OSError) and not isinstance(storage, LocalStorage) and attempts == 1:
        return True
    try:
        return storage.list_files(file.path, recursive=False) != [file]
    except OSError:
        return False


def _failed(path: str, size: int, error: str) -> FileOutcome:
    return FileOutcome(path, "failed", size, size, error=error)


def _column(name: str | Column) -> str | Column:
    """Parse a column name as Spark does: text in backticks is one part of a path."""
    if not isinstance(name, str) or "`" not in name:
        return name
    parts = list(_NAME_PARTS.finditer(name))
    if "".join(part[0] for part in parts) != name:
        raise OptionError(
            f"bloom has the column {quoted(name)}; expected backticks in pairs, around whole parts of the name"
        )
    return tuple(part[2] or part[1].replace("``", "`") for part in parts)


def _refresh(spark: SparkSession, path: str) -> None:
    """Make Spark drop cached listings and data of the files at `path`."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        spark.catalog.refreshByPath(_directory_of(path))
    except (Py4JJavaError, PySparkException) as error:
        reason = str(getattr(error, "java_exception", error))
        if any(name in reason for name in _NO_FILE_SYSTEM):  # Spark has cached no files of a storage it cannot open
            return
        warnings.warn(f"Spark could not refresh its caches of {path} ({reason}); uncache the table", stacklevel=4)


def _directory_of(path: str) -> str:
    """`path` without the query of a URL, cut before the first part with a glob."""
    if re.match("file:|/", path) is None:
        path = path.partition("?")[0]
    if not is_glob(path):
        return path
    parts = path.split("/")
    return "/".join(parts[: next(i for i, part in enumerate(parts) if is_glob(part))]) or "/"


def _row(outcome: FileOutcome) -> tuple[Any, ...]:
    columns = [(each.column, each.filters, each.bytes, each.fpp, each.limited, each.unused) for each in outcome.columns]
    return (*(getattr(outcome, name) for name in FIELDS), columns)
