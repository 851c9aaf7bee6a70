"""Tables of Delta Lake, Iceberg and Hudi: their logs know the size of every file, and readers go by it.

A file that has another size than its log says cannot be read any more, so none is changed where it lies. Iceberg and
Hudi only say in their metadata directories that they are there, Delta Lake in ``_delta_log``.

Sources: Delta Lake's PROTOCOL.md ("Delta Table Specification"), Iceberg's spec ("File System Tables"), Hudi's
technical specification ("Storage Layout").
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import pyarrow.fs

from bloomparquet.errors import UnsupportedError
from bloomparquet.storage import FileInfo, LocalStorage, Storage

_LOGS = {"_delta_log": "Delta Lake", ".hoodie": "Hudi"}
_ICEBERG = "metadata"


def require_no_log(storage: Storage, files: Iterable[FileInfo]) -> None:
    """UnsupportedError where one of `files` lies in a table with a log of its files."""
    directories: dict[str, None] = {}
    for file in files:
        path = os.path.abspath(file.path) if isinstance(storage, LocalStorage) else file.path
        directory = path.rpartition("/")[0]
        while directory and directory not in directories:
            directories[directory] = None
            directory = directory.rpartition("/")[0]
    # No table begins in a partition's directory.
    roots = [directory for directory in directories if "=" not in directory.rpartition("/")[2]]
    asked = [f"{root}/{name}" for root in roots for name in (*_LOGS, _ICEBERG)]
    for found in storage.arrow.get_file_info(asked):
        if found.type != pyarrow.fs.FileType.Directory:
            continue
        table, _, name = found.path.rpartition("/")
        kind = _LOGS.get(name) or ("Iceberg" if _has_iceberg_metadata(storage, found.path) else None)
        if kind is not None:
            raise UnsupportedError(
                f"{table} is a table of {kind}, whose log says how large each file is: a file with another size could "
                "not be read any more, and none was changed; write the files to another place, or write the table "
                f"anew with {kind}"
            )


def _has_iceberg_metadata(storage: Storage, directory: str) -> bool:
    names = (info.base_name for info in storage.arrow.get_file_info(pyarrow.fs.FileSelector(directory)))
    return any(name.endswith(".metadata.json") or name == "version-hint.text" for name in names)
