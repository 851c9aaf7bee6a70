"""Calls a function of this package on Spark's executors, and finds the paths that driver and executors share."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from bloomparquet.errors import UnsupportedError
from bloomparquet.planning.dataset import Paths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JOB_DESCRIPTION = "spark.job.description"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|file:")


def require_executors(spark: SparkSession, instead: str) -> None:
    """UnsupportedError if the session gives no access to executors. `instead` is the function to call then."""
    if getattr(spark, "_jsparkSession", None) is None:
        raise UnsupportedError(
            "a Spark Connect session gives no access to executors; call this in a program that runs on the "
            f"cluster, or call {instead} where the files are"
        )


def locate_all(spark: SparkSession, path: Paths) -> list[str]:
    """The result of :func:`locate` for each path in `path`."""
    given = [path] if isinstance(path, str | os.PathLike) else list(path)
    return [locate(spark, os.fspath(each)) for each in given]


def locate(spark: SparkSession, path: str) -> str:
    """`path`, completed by Spark's default file system or start directory if it has no scheme."""
    if _SCHEME.match(path):
        return path
    jvm: Any = spark._jvm
    default = jvm.org.apache.hadoop.fs.FileSystem.getDefaultUri(spark._jsparkSession.sessionState().newHadoopConf())
    if default.getScheme() == "file":
        return os.path.join(jvm.java.lang.System.getProperty("user.dir"), path)
    home = jvm.org.apache.hadoop.fs.Path(f"/user/{spark.sparkContext.sparkUser()}")
    return str(jvm.org.apache.hadoop.fs.Path(path).makeQualified(default, home).toString())


def run_tasks(spark: SparkSession, description: str, function: str, payload: bytes, inputs: Sequence[Any]) -> list[Any]:
    """Call ``function(payload, each)`` for each of `inputs` on executors, one task for each. Returns the results.

    `function` is ``module:name`` in this package. `inputs` must be of Python's own types: an executor that lacks the
    package reads them, too. `description` is shown in Spark's UI.

    Raises UnsupportedError if the Python of an executor does not have this package, and Spark's error if the job fails.
    """
    if not inputs:
        return []
    context = spark.sparkContext
    before = context.getLocalProperty(_JOB_DESCRIPTION)
    try:
        context.setJobDescription(description)
        outcomes = context.parallelize(inputs, len(inputs)).map(_task(function, payload)).collect()
    finally:
        context.setLocalProperty(_JOB_DESCRIPTION, before)  # type: ignore[arg-type]
    for missing, _ in outcomes:
        if missing is not None:
            executable, host, reason = missing
            raise UnsupportedError(
                f"{executable} on {host}, the Python of Spark's executors, cannot import bloomparquet ({reason}); "
                "install it there, or set PYSPARK_PYTHON to a Python that has it before the session is started"
            )
    return [result for _, result in outcomes]


def _task(function: str, payload: bytes) -> Callable[[Any], tuple[tuple[str, str, str] | None, Any]]:
    """The function of a task: it returns None and the result; or, if the package is missing, the interpreter, the host
    and the import error, and None."""

    # A nested function is pickled by value. A reference could not be loaded if the package is missing.
    def call_on_executor(each: Any) -> tuple[tuple[str, str, str] | None, Any]:
        import importlib
        import socket
        import sys

        module, _, name = function.partition(":")
        try:
            target = getattr(importlib.import_module(module), name)
        except ImportError as error:
            return (sys.executable, socket.gethostname(), str(error)), None
        return None, target(payload, each)

    return call_on_executor
