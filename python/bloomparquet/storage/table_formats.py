"""Tables whose log says which files hold their rows: Delta Lake, Iceberg, Hudi, and the sinks of Spark's streams.

Rows that such a table has deleted are still in files below its directory; only the log knows. So these files are not
read as if they were the table, and nothing is written where such a table lies. The jar applies the same rule
(``TableLog.java``); ``tests/support/table_logs.py`` has the directories that both must judge alike. The log of a
stream is Spark's own: with the jar Spark goes by it, here such a directory is refused as the others are.

Sources: Delta Lake's PROTOCOL.md ("Delta Table Specification"), Iceberg's spec ("File System Tables"), Hudi's
technical specification ("Storage Layout").
"""

from __future__ import annotations

import os
import posixpath
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import pyarrow.fs

from bloomparquet.errors import OptionError, UnsupportedError
from bloomparquet.storage.files import FileInfo, ListingNotes, LocalStorage, Storage, in_threads

OnTableLog = Literal["error", "ignore"]

_LOGS = {"_delta_log": "Delta Lake", ".hoodie": "Hudi"}
_STREAM_LOG, _STREAM = "_spark_metadata", "a Spark stream"
_ICEBERG = "metadata"
_ICEBERG_FILES = (".metadata.json", ".metadata.json.gz")
_VERSION_HINT = "version-hint.text"
_READERS = {
    "Delta Lake": ("delta", "deltalake"),
    "Iceberg": ("iceberg", "pyiceberg"),
    "Hudi": ("hudi", "hudi"),
}  # the Spark format, and the Python package
_HOW_TO_READ_FILES = (
    'To read the bare files: table_log="ignore" in Python, the option tableLog=ignore in Spark, --ignore-table-log on '
    "the command line"
)
_MOST_ASKED = 64  # directories that are asked for one by one where each costs a few requests
_ROOT_HOLDS_FILES = ("subtree", "memory", "dir")  # file systems whose root is a directory, and not a list of buckets


@dataclass(frozen=True, slots=True)
class TableLog:
    """The log of the table in the directory `table`; `kind` is the product's name."""

    kind: str
    table: str
    directory: str


def check_choice(table_log: OnTableLog) -> None:
    """OptionError for what is no choice."""
    if table_log not in ("error", "ignore"):
        raise OptionError(f"table_log is {table_log!r}; expected 'error' or 'ignore'")


def require_no_log(
    storage: Storage, roots: Iterable[str], files: Sequence[FileInfo], listed: Iterable[FileInfo], notes: ListingNotes
) -> None:
    """UnsupportedError if one of the `files` to read belongs to a table with a log.

    `roots` are directories that are, or lie in, the table if there is one. `listed` and `notes` are what listing
    directories showed: the tables in and below them.
    """
    log = find_above(storage, [*roots, *_link_targets(notes.links)]) or _find_below(files, listed, notes)
    if log is not None:
        format_name, package = _READERS[log.kind]
        raise UnsupportedError(
            f"{log.table} is a table of {log.kind}: its log, {log.directory}, says which files hold its rows, and "
            "other files may lie here that hold deleted rows. Read it with "
            f'spark.read.format("{format_name}").load("{log.table}"), or in Python with the package {package}. '
            f"{_HOW_TO_READ_FILES}"
        )


def require_no_stream_log(root: str, notes: ListingNotes) -> None:
    """UnsupportedError if the directory `root` was written by a Spark stream.

    As in Spark, the log counts where this directory is read, and not where files or directories in it are.
    """
    directory = root.rstrip("/")
    log = f"{directory}/{_STREAM_LOG}" if directory else _STREAM_LOG
    if log in notes.hidden:
        raise UnsupportedError(
            f"{root} was written by {_STREAM}: its log, {log}, says which files hold its rows, and files of failed "
            f"batches may lie here too. Read it with spark.read. {_HOW_TO_READ_FILES}"
        )


def require_writable(storage: Storage, directories: Iterable[str]) -> None:
    """UnsupportedError if one of `directories` is, or lies in, a table with a log."""
    log = find_above(storage, directories, {**_LOGS, _STREAM_LOG: _STREAM})
    if log is not None:
        raise UnsupportedError(
            f"{log.table} is a table of {log.kind}: its log, {log.directory}, says which files it has and how large "
            "each is, so a file that is new or changed here would be ignored or could not be read. Nothing was "
            f"written; write to another directory, or write the table with {log.kind}"
        )


def require_copyable(storage: Storage, directories: Iterable[str]) -> None:
    """UnsupportedError if one of `directories` is, or lies in, a table with a log: copies would lack the log."""
    log = find_above(storage, directories)
    if log is not None:
        raise UnsupportedError(
            f"{log.table} is a table of {log.kind}: its log, {log.directory}, says which files hold its rows, and "
            "copies of other files would bring deleted rows back. Nothing was written; copy the table with "
            f"{log.kind}, or name the files one by one"
        )


def directories_of(storage: Storage, files: Iterable[str]) -> set[str]:
    """The directories of `files`, and those of the files that links among them lead to."""
    paths = set(files)
    if isinstance(storage, LocalStorage):
        paths |= {os.path.realpath(path) for path in paths if os.path.islink(path)}
    return {path.rpartition("/")[0] for path in paths}


def find_above(
    storage: Storage, directories: Iterable[str], logs: Mapping[str, str] = MappingProxyType(_LOGS)
) -> TableLog | None:
    """The log of a table that one of `directories` is or lies in, also through symbolic links.

    `logs` are the names of log directories with the products they belong to; Iceberg's has rules of its own.
    """
    local = isinstance(storage, LocalStorage)
    pending = [_absolute(directory) if local else directory.rstrip("/") for directory in directories]
    deepest = list(pending)
    above: dict[str, None] = {}
    while pending:
        directory = pending.pop()
        while directory and directory not in above:
            above[directory] = None
            if local and os.path.islink(directory):
                pending.append(os.path.realpath(directory))
            directory = directory.rpartition("/")[0]
    if local or any(name in storage.arrow.type_name for name in _ROOT_HOLDS_FILES):
        above[""] = None
    # Where it costs a request to ask, tables are not taken to begin in a partition's directory.
    tables = [directory for directory in above if local or "=" not in directory.rpartition("/")[2]]
    if not local and len(tables) > _MOST_ASKED:
        root = posixpath.commonpath(deepest)
        log = _find_listed(storage, root, set(tables), logs)
        if log is not None:
            return log
        below = f"{root}/" if root else ""
        tables = [table for table in tables if table != root and not table.startswith(below)]
    asked = [(table, name) for table in tables for name in (*logs, _ICEBERG)]
    answers = in_threads(storage.threads, lambda place: _is_directory(storage, _join(*place, local=local)), asked)
    for (table, name), is_directory in zip(asked, answers, strict=True):
        path = _join(table, name, local=local)
        if is_directory and (name in logs or _has_iceberg_metadata(storage, path)):
            return TableLog(logs.get(name, "Iceberg"), table or "/", path)
    return None


def _find_listed(storage: Storage, root: str, tables: set[str], logs: Mapping[str, str]) -> TableLog | None:
    """The log of one of `tables` below `root`, by one listing."""
    for info in storage.arrow.get_file_info(pyarrow.fs.FileSelector(root, recursive=True, allow_not_found=True)):
        parts = info.path.split("/")
        for at, name in enumerate(parts):
            table = "/".join(parts[:at])
            is_log = name in logs and (at < len(parts) - 1 or info.type == pyarrow.fs.FileType.Directory)
            is_iceberg = name == _ICEBERG and at == len(parts) - 2 and _is_iceberg_metadata(parts[-1])
            if (is_log or is_iceberg) and table in tables:
                return TableLog(logs.get(name, "Iceberg"), table, _join(table, name, local=False))
    return None


def _join(directory: str, name: str, *, local: bool) -> str:
    """The path of `name` in `directory`, which is empty for the root."""
    return f"{directory}/{name}" if directory or local else name


def _find_below(files: Sequence[FileInfo], listed: Iterable[FileInfo], notes: ListingNotes) -> TableLog | None:
    """The log of a table below a directory that was listed, if one of `files` lies in that table."""
    paths: list[str] = []
    for log in _logs_below(listed, notes):
        paths = paths or sorted(file.path for file in files)
        table = f"{log.table}/" if log.table else ""
        at = bisect_left(paths, table)
        if at < len(paths) and paths[at].startswith(table):
            return log
    return None


def _logs_below(listed: Iterable[FileInfo], notes: ListingNotes) -> Iterator[TableLog]:
    for path in notes.hidden:
        table, _, name = path.rpartition("/")
        if name in _LOGS:
            yield TableLog(_LOGS[name], table, path)
    for file in listed:
        if file.path.endswith((*_ICEBERG_FILES, _VERSION_HINT)):
            directory, _, name = file.path.rpartition("/")
            table, _, directory_name = directory.rpartition("/")
            if directory_name == _ICEBERG and _is_iceberg_metadata(name):
                yield TableLog("Iceberg", table, directory)


def _link_targets(links: Iterable[str]) -> set[str]:
    targets = {os.path.realpath(link) for link in links}
    return {target if os.path.isdir(target) else os.path.dirname(target) for target in targets}


def _absolute(directory: str) -> str:
    # `link/..` is the directory above the link's target.
    return os.path.realpath(directory) if ".." in directory.split("/") else os.path.abspath(directory)


def _is_directory(storage: Storage, path: str) -> bool:
    if isinstance(storage, LocalStorage):
        return os.path.isdir(path)
    try:
        return bool(storage.arrow.get_file_info(path).type == pyarrow.fs.FileType.Directory)
    except OSError as error:
        # Who may read a table's files need not be allowed to look above them.
        if isinstance(error, PermissionError) or "ACCESS_DENIED" in str(error):
            return False
        raise


def _has_iceberg_metadata(storage: Storage, directory: str) -> bool:
    try:
        names = [info.base_name for info in storage.arrow.get_file_info(pyarrow.fs.FileSelector(directory))]
    except PermissionError:
        return False
    return any(map(_is_iceberg_metadata, names))


def _is_iceberg_metadata(name: str) -> bool:
    return name == _VERSION_HINT or name.endswith(_ICEBERG_FILES)
