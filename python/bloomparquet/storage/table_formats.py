"""Tables with a log that names their files: Delta Lake, Iceberg, Hudi, and the sinks of Spark's streams.

Rows that such a table has deleted may still be in files below its directory. So these files are not read as if they
were the table, and nothing is written into such a table.

The jar has the same rule (``TableLog.java``). ``tests/support/table_logs.py`` holds the cases that both must pass. The
jar reads a stream's sink by its log, as Spark does; Python refuses such a directory.

Sources: Delta Lake's PROTOCOL.md ("Delta Table Specification"), Iceberg's spec ("File System Tables"), Hudi's
technical specification ("Storage Layout").
"""

from __future__ import annotations

import os
import posixpath
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Literal

import pyarrow.fs

from bloomparquet.errors import UnsupportedError
from bloomparquet.storage.files import FileInfo, ListingNotes, LocalStorage, Storage
from bloomparquet.storage.threads import in_threads

OnTableLog = Literal["error", "ignore"]

_LOGS = {"_delta_log": "Delta Lake", ".hoodie": "Hudi"}
_STREAM_LOG, _STREAM = "_spark_metadata", "a Spark stream"
_ICEBERG = "metadata"
_ICEBERG_FILES = (".metadata.json", ".metadata.json.gz")
_VERSION_HINT = "version-hint.text"
_ICEBERG_NAMES = (*_ICEBERG_FILES, _VERSION_HINT)
_OPENED = {
    "Delta Lake": 'bloomparquet.Dataset.from_delta("{}")',
    "Iceberg": 'bloomparquet.Dataset.from_iceberg("{}")',
}  # the Python expression for the live files of a table
_FILTERS = {
    "Delta Lake": 'spark.conf.set("parquet.bloom.filter.enabled#COLUMN", "true") before it writes',
    "Iceberg": "its property write.parquet.bloom-filter-enabled.column.COLUMN = true",
}  # how the writer of a table adds filters
_SPARK_FORMATS = {"Delta Lake": "delta", "Iceberg": "iceberg", "Hudi": "hudi"}
_HOW_TO_READ_FILES = (
    'To read the files as they are: table_log="ignore" in Python, the option tableLog=ignore in Spark, '
    "--ignore-table-log on the command line"
)
_MOST_SINGLE_CHECKS = 64  # remote directories; for more, one listing is cheaper than asking for each
_ROOT_HOLDS_FILES = ("subtree", "memory", "dir")  # file systems whose root is a directory, not a list of buckets


@dataclass(frozen=True, slots=True)
class TableLog:
    """The log of a table. `kind` is the product, `table` the table's directory, `directory` the log's."""

    kind: str
    table: str
    directory: str


def require_no_log(
    storage: Storage, roots: Iterable[str], files: Sequence[FileInfo], listed: Iterable[FileInfo], notes: ListingNotes
) -> None:
    """UnsupportedError if one of the `files` to read belongs to a table with a log.

    A table at or above one of the directories `roots` is looked up. A table below them shows in `listed` and `notes`,
    the result of listing them.
    """
    log = _find_log_above(storage, [*roots, *map(_link_target, notes.links)]) or _find_log_below(files, listed, notes)
    if log is not None:
        opened = _OPENED.get(log.kind, "").format(log.table)
        in_python = (
            f"{opened}, which has plan, read_table, advise and build_index" if opened else f"a package for {log.kind}"
        )
        raise UnsupportedError(
            f"{log.table} is a table of {log.kind}: its log, {log.directory}, says which files hold its rows, and "
            "other files here may hold deleted rows. Read it with "
            f'spark.read.format("{_SPARK_FORMATS[log.kind]}").load("{log.table}"), or in Python with {in_python}. '
            f"{_HOW_TO_READ_FILES}"
        )


def require_no_stream_log(root: str, notes: ListingNotes) -> None:
    """UnsupportedError if the directory `root` was written by a Spark stream.

    As in Spark, the log matters only if this directory is read, and not if files or directories in it are.
    """
    directory = root.rstrip("/")
    log = f"{directory}/{_STREAM_LOG}" if directory else _STREAM_LOG
    if log in notes.hidden:
        raise UnsupportedError(
            f"{root} was written by {_STREAM}: its log, {log}, says which files hold its rows, and files of failed "
            f"batches may be here too. Read it with spark.read. {_HOW_TO_READ_FILES}"
        )


def require_writable(storage: Storage, directories: Iterable[str]) -> None:
    """UnsupportedError if one of `directories` is, or is in, a table with a log."""
    log = _find_log_above(storage, directories, {**_LOGS, _STREAM_LOG: _STREAM})
    if log is not None:
        opened = _OPENED.get(log.kind, "").format(log.table)
        filters = f"; new files get filters by {_FILTERS[log.kind]}" if log.kind in _FILTERS else ""
        index = f"; filters in an index leave the files as they are: {opened}.build_index(…)" if opened else ""
        raise UnsupportedError(
            f"{log.table} is a table of {log.kind}: its log, {log.directory}, holds the names and sizes of its files, "
            "so a new file would be ignored and a changed one could not be read. Nothing was written; write to another "
            f"directory, or write the table with {log.kind}{filters}{index}"
        )


def require_copyable(storage: Storage, directories: Iterable[str]) -> None:
    """UnsupportedError if one of `directories` is, or is in, a table with a log: its copy would have no log."""
    log = _find_log_above(storage, directories)
    if log is not None:
        raise UnsupportedError(
            f"{log.table} is a table of {log.kind}: its log, {log.directory}, says which files hold its rows, so a "
            "copy of all files would bring deleted rows back. Nothing was written; copy the table with "
            f"{log.kind}, or name the files one by one"
        )


def directories_of(storage: Storage, files: Iterable[str]) -> set[str]:
    """The directories that contain `files`, and the targets of those that are symbolic links."""
    paths = set(files)
    if isinstance(storage, LocalStorage):
        paths |= {os.path.realpath(path) for path in paths if os.path.islink(path)}
    return {path.rpartition("/")[0] for path in paths}


def _find_log_above(
    storage: Storage, directories: Iterable[str], logs: Mapping[str, str] = MappingProxyType(_LOGS)
) -> TableLog | None:
    """The log of a table that is, or contains, one of `directories`, also through symbolic links.

    `logs` maps names of log directories to products. Iceberg's logs have a rule of their own.
    """
    local = isinstance(storage, LocalStorage)
    if local:  # `link/..` is the parent of the link's target
        pending = [os.path.realpath(path) if ".." in path.split("/") else os.path.abspath(path) for path in directories]
    else:
        pending = [path.rstrip("/") for path in directories]
    deepest = list(pending)
    above: dict[str, None] = {}
    while pending:
        directory = pending.pop()
        while directory and directory not in above:
            above[directory] = None
            if local and os.path.islink(directory):
                pending.append(os.path.realpath(directory))
            directory = directory.rpartition("/")[0]
    if local or any(name in storage.filesystem.type_name for name in _ROOT_HOLDS_FILES):
        above["/" if local else ""] = None
    # On remote storage, assume that no table begins in a partition directory: each check costs a request.
    tables = [directory for directory in above if local or "=" not in directory.rpartition("/")[2]]
    if not local and len(tables) > _MOST_SINGLE_CHECKS:
        root = posixpath.commonpath(deepest)
        log = _find_log_listed(storage, root, set(tables), logs)
        if log is not None:
            return log
        below = f"{root}/" if root else ""
        tables = [table for table in tables if table != root and not table.startswith(below)]
    paths = [posixpath.join(table, name) for table in tables for name in (*logs, _ICEBERG)]
    check = partial(_is_directory, storage)
    checks = map(check, paths) if local else in_threads(storage.threads, check, paths)
    for path, is_directory in zip(paths, checks, strict=True):
        table, name = posixpath.split(path)
        if is_directory and (name in logs or _has_iceberg_metadata(storage, path)):
            return TableLog(logs.get(name, "Iceberg"), table or "/", path)
    return None


def _find_log_listed(storage: Storage, root: str, tables: set[str], logs: Mapping[str, str]) -> TableLog | None:
    """The log of one of `tables` at or below `root`, by one listing."""
    selector = pyarrow.fs.FileSelector(root, recursive=True, allow_not_found=True)
    for info in storage.filesystem.get_file_info(selector):
        parts = info.path.split("/")
        for at, name in enumerate(parts):
            table = "/".join(parts[:at])
            is_log = name in logs and (at < len(parts) - 1 or info.type == pyarrow.fs.FileType.Directory)
            is_iceberg = name == _ICEBERG and at == len(parts) - 2 and _is_iceberg_metadata(parts[-1])
            if (is_log or is_iceberg) and table in tables:
                return TableLog(logs.get(name, "Iceberg"), table, posixpath.join(table, name))
    return None


def _find_log_below(files: Sequence[FileInfo], listed: Iterable[FileInfo], notes: ListingNotes) -> TableLog | None:
    """The log of a table below a listed directory, if one of `files` is in that table."""
    logs = [
        TableLog(_LOGS[name], table, path)
        for path in notes.hidden
        for table, _, name in (path.rpartition("/"),)
        if name in _LOGS
    ]
    for file in listed:
        if file.path.endswith(_ICEBERG_NAMES):
            directory, _, name = file.path.rpartition("/")
            table, _, directory_name = directory.rpartition("/")
            if directory_name == _ICEBERG and _is_iceberg_metadata(name):
                logs.append(TableLog("Iceberg", table, directory))
    paths = sorted(file.path for file in files) if logs else []
    for log in logs:
        table = f"{log.table}/" if log.table else ""
        at = bisect_left(paths, table)
        if at < len(paths) and paths[at].startswith(table):
            return log
    return None


def _link_target(link: str) -> str:
    """The directory that a symbolic link leads to, or the one of its file."""
    target = os.path.realpath(link)
    return target if os.path.isdir(target) else os.path.dirname(target)


def _is_directory(storage: Storage, path: str) -> bool:
    try:
        return storage.is_directory(path)
    except OSError as error:
        # A user who may read a table's files need not be allowed to look above them.
        if isinstance(error, PermissionError) or "ACCESS_DENIED" in str(error):
            return False
        raise


def _has_iceberg_metadata(storage: Storage, directory: str) -> bool:
    try:
        names = [info.base_name for info in storage.filesystem.get_file_info(pyarrow.fs.FileSelector(directory))]
    except PermissionError:
        return False
    return any(map(_is_iceberg_metadata, names))


def _is_iceberg_metadata(name: str) -> bool:
    return name == _VERSION_HINT or name.endswith(_ICEBERG_FILES)
