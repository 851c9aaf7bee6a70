"""Work on files, one by one, on Spark's executors: every file is tried, and each has its outcome.

Spark gives up a job when one task of it fails too often. What makes a task fail here is what kills its Python worker (a
crash, no memory left): that is the failure of the file it was doing, and the others go on in another job.

An attempt at a task may run twice at once, or again after it has been killed. One that finds somebody else writing its
file waits, and looks at the file anew.
"""

from __future__ import annotations

import os
import pickle
import re
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from bloomparquet.errors import BloomParquetError, OptionError, UnsupportedError
from bloomparquet.storage.atomic import hidden_name
from bloomparquet.storage.files import FileInfo, LocalStorage, Storage, open_storage, with_keys
from bloomparquet.writing.outcome import FileOutcome
from bloomparquet.writing.retrofit.change import Change, Job, change_file
from pyspark_bloomparquet.options.key_provider import provided_keys

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator

    Found = list[tuple[Any, ...]]

_PATIENCE = 600.0  # seconds for somebody else to finish with a file
_ATTEMPTS = 5
_LOST_TASK = re.compile(r"Task (\d+) in stage \S+ failed \d+ times?, most recent failure: ([^\n]*)")


def spread(
    context: SparkContext,
    change: Change,
    location: str,
    files: Sequence[FileInfo],
    files_per_task: int,
    dry_run: bool,
    key_provider: str | None,
) -> dict[str, FileOutcome]:
    """The outcome of each of `files`, by path. `location` is a path on their storage, as a user writes it; the
    executors ask `key_provider` for the keys of encrypted ones.

    UnsupportedError where the Python of the executors lacks this package; files may have been done by others.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.accumulators import AddingAccumulatorParam

    sizes = {file.path: file.size for file in sorted(files, key=lambda file: -file.size)}
    paths = list(sizes)
    tasks = [paths[at : at + files_per_task] for at in range(0, len(paths), files_per_task)]
    payload = pickle.dumps((change, location, dry_run, key_provider))
    outcomes: dict[str, FileOutcome] = {}
    while tasks:
        # By an accumulator, and not by the job's result: of a job that fails, what was done is to be known.
        found: Accumulator[Found] = context.accumulator([], AddingAccumulatorParam([]))
        lost: list[str] = []
        try:
            context.parallelize(tasks, len(tasks)).foreachPartition(_task(payload, found))
        except Py4JJavaError as error:
            match = _LOST_TASK.search(str(error))
            if match is None:
                raise
            lost, reason = tasks.pop(int(match[1])), match[2]
        _raise_missing(found.value)
        outcomes |= {path: pickle.loads(outcome) for path, outcome in found.value}
        tasks = [left for task in tasks if (left := [path for path in task if path not in outcomes])]
        if len(lost) > 1:  # which of them it was is not known
            tasks = [[path] for path in lost] + tasks
        elif lost:
            (path,) = lost
            outcomes[path] = _failed(path, sizes[path], f"{path}: the task that did this file was lost: {reason}")
    return outcomes


def work(payload: bytes, path: str) -> FileOutcome:
    """Do one file, on an executor. Whatever goes wrong is told in its outcome."""
    change, location, dry_run, key_provider = pickle.loads(payload)
    storage, _ = open_storage(location)
    try:
        storage = with_keys(storage, provided_keys(key_provider))
    except OptionError as error:
        return _failed(path, 0, f"{path}: on {socket.gethostname()}: {error}")
    until = time.monotonic() + _PATIENCE
    attempts = 0
    while True:
        attempts += 1
        file = None
        try:
            # Not as it was listed: an earlier attempt may have done it.
            (file,) = storage.list_files(path, recursive=False)
            return change_file(change, storage, storage, Job(file), dry_run=dry_run)
        except Exception as error:  # noqa: BLE001 - one file's trouble is not the others'
            if _is_being_written(error, path) and time.monotonic() < until:
                time.sleep(0.2)
            elif file is None or attempts >= _ATTEMPTS or not _may_pass(error, storage, file, attempts):
                return _failed(path, 0 if file is None else file.size, _text(error))


def _task(payload: bytes, found: Accumulator[Found]) -> Callable[[Iterable[list[str]]], None]:
    # Within a function, so that it is sent as it is: its module cannot be imported where the package is missing.
    def run(tasks: Iterable[list[str]]) -> None:
        import pickle
        import socket
        import sys

        try:
            from pyspark_bloomparquet.retrofit.executors import work
        except ImportError as error:
            found.add([(sys.executable, socket.gethostname(), str(error))])
            return
        for paths in tasks:
            for path in paths:
                found.add([(path, pickle.dumps(work(payload, path)))])

    return run


def _raise_missing(found: Found) -> None:
    for executable, host, reason in (each for each in found if len(each) == 3):
        raise UnsupportedError(
            f"{executable} on {host}, which Spark runs its Python tasks with, cannot import bloomparquet ({reason}); "
            "install it there, or name an interpreter that has it in PYSPARK_PYTHON before the session is started"
        )


def _is_being_written(error: Exception, path: str) -> bool:
    """Whether `error` is that another process, or attempt, holds the lock of the local file at `path`."""
    return isinstance(error, BloomParquetError) and hidden_name(os.path.realpath(path)) in str(error)


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
    # Of an error that was not raised on purpose, the name says more than its text.
    return str(error) if isinstance(error, BloomParquetError | OSError) else f"{type(error).__name__}: {error}"
