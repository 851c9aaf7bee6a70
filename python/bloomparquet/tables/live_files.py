"""The live files of a table as the storage lists them now, checked against the table's log."""

from __future__ import annotations

import os
from collections.abc import Sequence

from bloomparquet.errors import FileChangedError
from bloomparquet.storage.files import FileInfo, LocalStorage, Storage
from bloomparquet.storage.threads import in_threads

_MOST_SINGLE_REQUESTS = 64


def list_live_files(storage: Storage, paths: Sequence[str], sizes: Sequence[int], table: str) -> tuple[FileInfo, ...]:
    """The files at `paths`, checked against their `sizes` in the log of the table at `table`.

    If the storage is remote, makes one request per file, or lists the table's directory if there are many files. Raises
    FileNotFoundError for a file that is gone, and FileChangedError for a file of another size.
    """
    if isinstance(storage, LocalStorage):
        files = [_stat(path, table) for path in paths]
    else:
        listed: dict[str, FileInfo] = {}
        if sum(path.startswith(table) for path in paths) > _MOST_SINGLE_REQUESTS:
            listed = {file.path: file for file in storage.list_files(table, recursive=True)}

        def find(path: str) -> FileInfo:
            return listed.get(path) or _list_one(storage, path, table)  # a listing leaves hidden names out

        files = list(in_threads(storage.threads, find, paths))
    for file, size in zip(files, sizes, strict=True):
        if file.size != size:
            raise FileChangedError(
                f"{file.path}: this file has {file.size} bytes; the log of the table at {table} says {size}. It is not "
                "the file that the table wrote: restore it"
            )
    return tuple(files)


def _stat(path: str, table: str) -> FileInfo:
    try:
        return FileInfo.of(path, os.stat(path))
    except FileNotFoundError as error:
        raise _missing(path, table) from error


def _list_one(storage: Storage, path: str, table: str) -> FileInfo:
    try:
        (file,) = storage.list_files(path, recursive=False)
    except FileNotFoundError as error:
        raise _missing(path, table) from error
    return file


def _missing(path: str, table: str) -> FileNotFoundError:
    return FileNotFoundError(
        f"{path}: this file is gone, although it is live in this version of the table at {table}. If the "
        "version was vacuumed or has expired since, read a newer one"
    )
