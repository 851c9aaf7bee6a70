"""Bloom filters for the files of a whole table, added or made smaller by Spark's executors.

The driver lists the files, the executors do them one by one, as :func:`bloomparquet.add_filters` and
:func:`bloomparquet.shrink_filters` do: what happens to a file, and that it stays whole whatever happens, is theirs.
What is Spark's own is here: what its users call a path and a column, and that its caches forget what has changed.
"""

from __future__ import annotations

import os
import pickle
import re
import socket
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bloomparquet.errors import BloomParquetError, FileBusyError, OptionError, UnsupportedError, quoted
from bloomparquet.planning.dataset import Dataset, Paths
from bloomparquet.query.predicate import Column
from bloomparquet.storage.files import FileInfo, LocalStorage, Storage, is_glob, open_storage
from bloomparquet.storage.table_formats import directories_of, require_writable
from bloomparquet.writing.filters.spec import BloomSpec, parse_bloom
from bloomparquet.writing.outcome import FIELDS, FileOutcome
from bloomparquet.writing.retrofit.change import Change, Job, ShrinkFilters, change_file
from bloomparquet.writing.retrofit.retrofit import plan_filters
from pyspark_bloomparquet.options.key_provider import provided_keys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


OUTCOME = (
    "path STRING, action STRING, bytes_before BIGINT, bytes_after BIGINT, filters INT, filter_bytes BIGINT, "
    "dropped INT, fpp DOUBLE, limited ARRAY<STRING>, error STRING, "
    "columns ARRAY<STRUCT<column: STRING, filters: INT, bytes: BIGINT, fpp: DOUBLE, limited: BOOLEAN, "
    "unused: STRING>>"
)
"""The schema of the returned DataFrame: that of the core's outcomes, and the new filters of each column."""

_NO_FILE_SYSTEM = ("UnsupportedFileSystemException", "No FileSystem for scheme", "ClassNotFoundException")
_MOST_SECONDS_BUSY = 600.0  # for another process to finish writing a file
_ATTEMPTS = 5
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|file:")
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
    """Add Bloom filters to the files at `path`, on Spark's executors; one row per file.

    Which columns, and how good the filters are, is said as to :func:`bloomparquet.add_filters`: a name, a list of
    names, ``{"user_id": Bloom(fpp=0.001)}``, or ``"*"`` for all for which it pays. Names are Spark's: their case does
    not matter unless ``spark.sql.caseSensitive`` is true, and parts with dots in them may stand in backticks.

    The work is done when this returns; the DataFrame only tells of it, in the columns of `OUTCOME`. ``action`` is
    ``added``, ``unchanged`` for a file that has the filters already (so running it again does what is left), or
    ``failed``, with ``error``: such a file is as it was, and the others are done. A file that was done by an attempt
    of which Spark has lost the result is ``unchanged``. With `dry_run` nothing is written, and rows say what would be.
    Where Spark gives up the job, because a Python worker was killed or the job was cancelled, its error is raised:
    files that were replaced stay so, and running it again does what is left.

    A path without a scheme is one of Spark's default file system. The executors open the files by themselves, under the
    same paths, in the Python that Spark runs there, which must have this package. DataFrames and tables that have
    listed the files before know their old sizes: load them anew, or ``REFRESH TABLE``. No query may be reading the
    files from an old listing meanwhile.

    Encrypted files take `key_provider`, as the option ``keyProvider`` names it; the executors call that function, too.

    Raises before anything is changed: OptionError for a key provider that gives no keys; PlanError for a column that
    no file has, or that could be several; UnsupportedError for one that cannot carry a useful filter, for tables of
    Delta Lake, Iceberg and Hudi, whose logs know the files' sizes, and for Spark Connect. Raises UnsupportedError, too,
    where the executors' Python lacks the package.
    """
    table = _Table.find(spark, path, files_per_task, key_provider)
    asked: Any = {_column(name): wanted for name, wanted in parse_bloom(bloom).items()}
    case_sensitive = spark.conf.get("spark.sql.caseSensitive") == "true"
    change = plan_filters(table.dataset, asked, replace, case_sensitive=case_sensitive)
    return table.run(change, "add Bloom filters to", dry_run)


def shrink_filters(
    spark: SparkSession,
    path: Paths,
    fpp: float = 0.01,
    drop_above: float = 0.9,
    dry_run: bool = False,
    *,
    files_per_task: int = 1,
    key_provider: str | None = None,
) -> DataFrame:
    """Fold the Bloom filters of the files at `path` to the size that `fpp` needs, on Spark's executors; one row per
    file.

    What is folded and what is dropped is as in :func:`bloomparquet.shrink_filters`; no data is read. ``action`` is
    ``shrunk``, ``unchanged`` or ``failed``. The data may lie elsewhere in a file afterwards: a DataFrame that has been
    planned, explained or run before is to be loaded anew. All else is as in :func:`add_filters`.
    """
    change = ShrinkFilters(fpp, drop_above)
    table = _Table.find(spark, path, files_per_task, key_provider)
    return table.run(change, "make smaller the Bloom filters of", dry_run)


@dataclass(frozen=True)
class _Table:
    """The files of one call."""

    spark: SparkSession
    paths: list[str]
    dataset: Dataset
    files_per_task: int
    key_provider: str | None

    @classmethod
    def find(cls, spark: SparkSession, path: Paths, files_per_task: int, key_provider: str | None) -> _Table:
        if getattr(spark, "_jsparkSession", None) is None:
            raise UnsupportedError(
                "this is a Spark Connect session, whose executors cannot be reached; call this in a program that runs "
                "on the cluster, or bloomparquet.add_filters where the files are"
            )
        if files_per_task < 1:
            raise OptionError(f"files_per_task is {files_per_task}: expected 1 or more")
        given = [path] if isinstance(path, str | os.PathLike) else list(path)
        paths = [_locate(spark, os.fspath(each)) for each in given]
        # run() refuses tables with a log, in the words for writing.
        dataset = Dataset.open(paths, partitioned=False, keys=provided_keys(key_provider), table_log="ignore")
        return cls(spark, paths, dataset, files_per_task, key_provider)

    def run(self, change: Change, what: str, dry_run: bool) -> DataFrame:
        storage, files = self.dataset.storage, self.dataset.files
        require_writable(storage, directories_of(storage, (file.path for file in files)))
        outcomes: dict[str, FileOutcome] = {}
        try:
            with _described(self.spark, f"{what} {len(files):,} files"):
                outcomes = self._change_on_executors(change, dry_run)
        finally:
            # A job that failed may have replaced files as well.
            if not dry_run and (not outcomes or any(each.action in ("added", "shrunk") for each in outcomes.values())):
                for path in self.paths:
                    _refresh(self.spark, path)
        rows = [_row(outcomes[path]) for path in dict.fromkeys(file.path for file in files)]
        return self.spark.createDataFrame(rows, OUTCOME)

    def _change_on_executors(self, change: Change, dry_run: bool) -> dict[str, FileOutcome]:
        """The outcomes by path. Large files are started first."""
        by_size = sorted(self.dataset.files, key=lambda file: -file.size)
        paths = list(dict.fromkeys(file.path for file in by_size))
        tasks = [paths[at : at + self.files_per_task] for at in range(0, len(paths), self.files_per_task)]
        payload = pickle.dumps((change, self.paths[0], dry_run, self.key_provider))
        results = self.spark.sparkContext.parallelize(tasks, len(tasks)).flatMap(_task(payload)).collect()
        for result in results:
            if isinstance(result, tuple):
                executable, host, reason = result
                raise UnsupportedError(
                    f"{executable} on {host}, which Spark runs its Python tasks with, cannot import bloomparquet "
                    f"({reason}); install it there, or name an interpreter that has it in PYSPARK_PYTHON before the "
                    "session is started"
                )
        return {path: outcome for paths, done in zip(tasks, results, strict=True) for path, outcome in zip(paths, done)}


def _task(payload: bytes) -> Callable[[list[str]], list[Any]]:
    """The function of a task: files to a list with their outcomes, or with what an executor lacks."""

    # A nested function is pickled by value. By reference, it could not be loaded where the package is missing.
    def run(paths: list[str]) -> list[Any]:
        import socket
        import sys

        try:
            from pyspark_bloomparquet.retrofit.retrofit import change_on_executor
        except ImportError as error:
            return [(sys.executable, socket.gethostname(), str(error))]
        return [[change_on_executor(payload, path) for path in paths]]

    return run


def change_on_executor(payload: bytes, path: str) -> FileOutcome:
    """Change one file, on an executor. Errors are returned in the outcome.

    Spark may run two attempts at a task at once, or one after another that was killed. So a file that another process
    is writing is waited for, and is listed anew for each try.
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
            return change_file(change, storage, storage, Job(file), keys=keys, dry_run=dry_run)
        except Exception as error:  # noqa: BLE001 - the other files are changed all the same
            if isinstance(error, FileBusyError) and time.monotonic() < until:
                time.sleep(0.2)
            elif file is None or attempts >= _ATTEMPTS or not _may_pass(error, storage, file, attempts):
                return _failed(path, 0 if file is None else file.size, _text(error))


def _may_pass(error: Exception, storage: Storage, file: FileInfo, attempts: int) -> bool:
    """Whether another attempt may succeed: the file has changed under this one, or a request to a storage failed."""
    if isinstance(error, OSError) and not isinstance(storage, LocalStorage) and attempts == 1:
        return True
    try:
        return storage.list_files(file.path, recursive=False) != [file]
    except OSError:
        return False


def _failed(path: str, size: int, error: str) -> FileOutcome:
    return FileOutcome(path, "failed", size, size, error=error)


def _text(error: Exception) -> str:
    # The text of an unexpected error says too little without its type.
    return str(error) if isinstance(error, BloomParquetError | OSError) else f"{type(error).__name__}: {error}"


def _column(name: str | Column) -> str | Column:
    """A name as Spark reads it: what stands in backticks is one part of a path, whatever it is made of."""
    if not isinstance(name, str) or "`" not in name:
        return name
    parts = list(_NAME_PARTS.finditer(name))
    if "".join(part[0] for part in parts) != name:
        raise OptionError(
            f"bloom has the column {quoted(name)}; expected pairs of backticks around whole parts of a name"
        )
    return tuple(part[2] or part[1].replace("``", "`") for part in parts)


def _locate(spark: SparkSession, path: str) -> str:
    """`path` with what Spark adds to one without a scheme: its default file system, the directory it was started in."""
    if _SCHEME.match(path):
        return path
    jvm: Any = spark._jvm
    default = jvm.org.apache.hadoop.fs.FileSystem.getDefaultUri(spark._jsparkSession.sessionState().newHadoopConf())
    if default.getScheme() == "file":
        return os.path.join(jvm.java.lang.System.getProperty("user.dir"), path)
    home = jvm.org.apache.hadoop.fs.Path(f"/user/{spark.sparkContext.sparkUser()}")
    return str(jvm.org.apache.hadoop.fs.Path(path).makeQualified(default, home).toString())


def _refresh(spark: SparkSession, path: str) -> None:
    """Let Spark forget what it has cached of the files at `path` under their old sizes."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        spark.catalog.refreshByPath(_fixed(path))
    except (Py4JJavaError, PySparkException) as error:
        reason = str(getattr(error, "java_exception", error))
        if any(name in reason for name in _NO_FILE_SYSTEM):  # then it has nothing from there
            return
        warnings.warn(f"Spark could not forget what it has cached of the files ({reason}); uncache it", stacklevel=4)


def _fixed(path: str) -> str:
    """The directory in which a glob begins, without what a URL has after a question mark."""
    if re.match("file:|/", path) is None:
        path = path.partition("?")[0]
    if not is_glob(path):
        return path
    parts = path.split("/")
    return "/".join(parts[: next(i for i, part in enumerate(parts) if is_glob(part))]) or "/"


@contextmanager
def _described(spark: SparkSession, text: str) -> Iterator[None]:
    """What Spark's UI calls the jobs of a block."""
    context, key = spark.sparkContext, "spark.job.description"
    before = context.getLocalProperty(key)
    context.setLocalProperty(key, text)
    try:
        yield
    finally:
        context.setLocalProperty(key, before)  # type: ignore[arg-type]


def _row(outcome: FileOutcome) -> tuple[Any, ...]:
    columns = [(each.column, each.filters, each.bytes, each.fpp, each.limited, each.unused) for each in outcome.columns]
    return (*(getattr(outcome, name) for name in FIELDS), columns)
