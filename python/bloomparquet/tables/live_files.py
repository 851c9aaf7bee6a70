"""The live files of a table as the storage lists them now, checked against the table's log."""

from __future__ import annotations

from collections.abc import Sequence

from bloomparquet.errors import FileChangedError
from bloomparquet.storage.files import FileInfo, Storage
from bloomparquet.storage.threads import in_threads

_MOST_SINGLE_REQUESTS = 64


def list_live_files(storage: Storage, paths: Sequence[str], sizes: Sequence[int], table: str) -> tuple[FileInfo, ...]:
    """The files at `paths`, checked against their `sizes` in the log of the table at `table`.

    If the storage is remote, makes one request per file, or lists the table's directory if there are many files. Raises
    FileNotFoundError for a file that is gone, and FileChangedError for a file of another size.
    """
    listed: dict[str, FileInfo] = {}
    if storage.threads > 1 and sum(path.startswith(table) for path in paths) > _MOST_SINGLE_REQUESTS:
        listed = {file.path: file for file in storage.list_files(table, recursive=True)}

    def find(path: str) -> FileInfo:
        if path in listed:  # a listing leaves hidden names out
            return listed[path]
        try:
            at_path = storage.list_files(path, recursive=False)
            if len(at_path) != 1:
                raise FileNotFoundError(f"{path}: a directory")
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"{path}: this file is gone, although it is live in this version of the table at {table}. If the "
                "version was vacuumed or has expired since, read a newer one"
            ) from error
        return at_path[0]

    files = tuple(in_threads(storage.threads, find, paths))
    for file, size in zip(files, sizes, strict=True):
        if file.size != size:
            raise FileChangedError(
                f"{file.path}: this file has {file.size} bytes; the log of the table at {table} says {size}. It is not "
                "the file that the table wrote: restore it"
            )
    return files
