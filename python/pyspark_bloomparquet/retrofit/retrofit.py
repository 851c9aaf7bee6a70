"""Bloom filters for the files of a whole table, added or made smaller by Spark's executors.

The driver lists the files, the executors do them one by one, as :func:`bloomparquet.add_filters` and
:func:`bloomparquet.shrink_filters` do: what happens to a file, and that it stays whole whatever happens, is theirs.
What is Spark's own is here: what its users call a path and a column, and that its caches forget what has changed.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bloomparquet.errors import OptionError, UnsupportedError, quoted
from bloomparquet.planning.dataset import Dataset, Paths
from bloomparquet.query.predicate import Column
from bloomparquet.storage.files import is_glob
from bloomparquet.storage.table_formats import directories_of, require_writable
from bloomparquet.writing.filters.spec import BloomSpec, by_column
from bloomparquet.writing.outcome import FIELDS, FileOutcome
from bloomparquet.writing.retrofit.change import Change, ShrinkFilters
from bloomparquet.writing.retrofit.retrofit import plan_filters
from pyspark_bloomparquet.options.key_provider import provided_keys
from pyspark_bloomparquet.retrofit.executors import spread

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
    asked: Any = {_column(name): wanted for name, wanted in by_column(bloom).items()}
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
        files = self.dataset.files
        require_writable(self.dataset.storage, directories_of(self.dataset.storage, (file.path for file in files)))
        context = self.spark.sparkContext
        with _described(self.spark, f"{what} {len(files):,} files"):
            outcomes = spread(context, change, self.paths[0], files, self.files_per_task, dry_run, self.key_provider)
        if not dry_run and any(outcome.action in ("added", "shrunk") for outcome in outcomes.values()):
            for path in self.paths:
                _refresh(self.spark, path)
        rows = [_row(outcomes[path]) for path in dict.fromkeys(file.path for file in files)]
        return self.spark.createDataFrame(rows, OUTCOME)


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
