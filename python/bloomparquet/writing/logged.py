"""Tables of Delta Lake, Iceberg and Hudi: their logs know every file and its size, and readers go by it.

A file that has another size than its log says cannot be read any more, and one that the log does not name is not, so
none is changed or written where such a table lies.

Sources: Delta Lake's PROTOCOL.md ("Delta Table Specification"), Iceberg's spec ("File System Tables"), Hudi's
technical specification ("Storage Layout").
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import pyarrow.fs

from bloomparquet.errors import UnsupportedError
from bloomparquet.storage import LocalStorage, Storage

_LOGS = {"_delta_log": "Delta Lake", ".hoodie": "Hudi"}
_ICEBERG = "metadata"


def directories_of(storage: Storage, files: Iterable[str]) -> set[str]:
    """Where `files` lie: those that are named, and, of links, those that are meant."""
    found = set(files)
    if isinstance(storage, LocalStorage):
        found |= {os.path.realpath(file) for file in found}
    return {file.rpartition("/")[0] for file in found}


def require_no_log(storage: Storage, directories: Iterable[str]) -> None:
    """UnsupportedError where one of `directories` is, or lies in, a table with a log of its files."""
    above: dict[str, None] = {}
    for directory in directories:
        directory = os.path.abspath(directory) if isinstance(storage, LocalStorage) else directory.rstrip("/")
        while directory and directory not in above:
            above[directory] = None
            directory = directory.rpartition("/")[0]
    local = isinstance(storage, LocalStorage)
    # Where it costs something to ask, tables are not taken to begin in a partition's directory.
    roots = [directory for directory in above if local or "=" not in directory.rpartition("/")[2]]
    asked = [f"{root}/{name}" for root in roots for name in (*_LOGS, _ICEBERG)]
    for found in storage.arrow.get_file_info(asked):
        if found.type != pyarrow.fs.FileType.Directory:
            continue
        table, _, name = found.path.rpartition("/")
        kind = _LOGS.get(name) or ("Iceberg" if _has_iceberg_metadata(storage, found.path) else None)
        if kind is not None:
            raise UnsupportedError(
                f"{table} is a table of {kind}, whose log knows its files and how large each is: a file that is new or "
                "of another size could not be read, and none was written; name another place to write to, or write "
                f"the table with {kind}"
            )


def _has_iceberg_metadata(storage: Storage, directory: str) -> bool:
    names = (info.base_name for info in storage.arrow.get_file_info(pyarrow.fs.FileSelector(directory)))
    return any(name.endswith(".metadata.json") or name == "version-hint.text" for name in names)
