"""What a path means: the files of a data set, and the partition values that their directories carry."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.fs

from bloomparquet.errors import OptionError, PlanError, join_names
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.planning.formats import FileFormat
from bloomparquet.planning.partitions import Values, infer_type, parse_directories, to_array
from bloomparquet.storage.files import FileInfo, ListingNotes, LocalStorage, Storage, is_glob, is_hidden, open_storage
from bloomparquet.storage.table_formats import (
    OnTableLog,
    check_choice,
    directories_of,
    require_no_log,
    require_no_stream_log,
)

PathLike: TypeAlias = str | os.PathLike[str]
Paths: TypeAlias = PathLike | Sequence[PathLike]
"""A file, a directory, a glob (``events/*.parquet``), a URL (``s3://bucket/events``), or a list of those.

Below a directory, ``name=value`` directories become partition columns.
"""


@dataclass(frozen=True)
class Dataset:
    """The files behind one or several paths, on one storage, in the order that they are read.

    `partition_names` are the hive columns, outermost first, and ``partition_values[i]`` the raw text of each for
    ``files[i]`` (None is Hive's null directory). Their types are `partition_types`, or those that Spark infers.
    `format` is what the files are known to be; None leaves that to their magic numbers. `keys` decrypt encrypted files.

    >>> import pyarrow.dataset as ds
    >>> table = pa.table({"id": range(9), "day": [1, 2, 3] * 3})
    >>> ds.write_dataset(table, "days", format="parquet", partitioning=["day"], partitioning_flavor="hive")
    >>> dataset = bp.Dataset.open("days")
    >>> (len(dataset.files), dataset.partition_names)
    (3, ('day',))
    >>> bp.read_table(dataset, "day = 2 AND id = 7").to_pylist()
    [{'id': 7, 'day': 2}]
    """

    storage: Storage
    files: tuple[FileInfo, ...]
    partition_names: tuple[str, ...]
    partition_values: tuple[tuple[str | None, ...], ...]
    partition_types: tuple[pa.DataType, ...] | None = None
    format: FileFormat | None = None
    keys: Keys | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.keys, Keys | None):
            raise OptionError(f"keys is a {type(self.keys).__name__}; expected bloomparquet.Keys")

    @classmethod
    def open(
        cls,
        path: Paths,
        *,
        filesystem: Any = None,
        recursive: bool = True,
        partitioned: bool = True,
        base_path: PathLike | None = None,
        keys: Keys | None = None,
        table_log: OnTableLog = "error",
        allow_named_files: bool = False,
    ) -> Dataset:
        """List what `path` names: a file, a directory, a glob, or a list of those.

        Below a directory, hidden names are passed over and ``name=value`` directories become partition columns;
        without `recursive` only the directory's own files count, and without `partitioned` such directories are like
        any other. `base_path` says where partition directories begin when that is not the directory given. `keys` open
        encrypted files. Raises FileNotFoundError for a path that is not there, PlanError for one that holds no data
        file.

        The files of a table with a log (Delta Lake, Iceberg, Hudi) are an UnsupportedError, for files with deleted
        rows may be among them; ``table_log="ignore"`` takes them as they lie, and `allow_named_files` those that
        `path` names one by one.
        """
        check_choice(table_log)
        given = [path] if isinstance(path, str | os.PathLike) else list(path)
        if not given:
            raise PlanError("no path was given; expected a file, a directory, a glob, or a list of them")
        storage: Storage | None = None
        files: list[FileInfo] = []
        partitions: list[Values] = []
        roots: set[str] = set()
        listed_files: list[FileInfo] = []
        notes = ListingNotes() if table_log == "error" else None
        base = open_storage(os.fspath(base_path), filesystem)[1] if base_path is not None else None
        for item in given:
            opened, inner = open_storage(os.fspath(item), filesystem)
            if storage is not None and opened.key != storage.key:
                raise PlanError(
                    f"{os.fspath(item)}: the paths of one scan lie on one storage; "
                    f"{storage.key} and {opened.key} were given"
                )
            storage = storage or opened
            seen: set[str] = set()  # a glob may find a directory and what is in it
            for root in _expand(storage, inner, os.fspath(item)):
                # Spark reads past empty files that it lists; one that is named is a mistake worth an error.
                below = storage.list_files(root, recursive=recursive, notes=notes)
                found = [file for file in below if file.path == inner or (_is_data(file) and file.path not in seen)]
                is_file = len(below) == 1 and below[0].path == root
                if not is_file:
                    # A listing showed what is in `root`: where asking costs a request, ask only above it.
                    is_known = recursive and not isinstance(storage, LocalStorage)
                    roots.add(root.rstrip("/").rpartition("/")[0] if is_known else root)
                    listed_files += below
                elif not (allow_named_files and root == inner):
                    roots |= directories_of(storage, [root])
                seen.update(file.path for file in found)
                files += found
                hive = recursive and partitioned
                partitions += _partitions(root if base is None else base, found) if hive else [()] * len(found)
        assert storage is not None
        if notes is not None:
            require_no_log(storage, roots, files, listed_files, notes)
            if len(given) == 1:  # of several paths, Spark reads the files
                require_no_stream_log(inner, notes)
        if not files:
            raise PlanError(
                f"{join_names(os.fspath(item) for item in given)}: no data files here; "
                "expected Parquet or ORC files (names that begin with _ or . do not count)"
            )
        names = _one_set_of_names(files, partitions)
        raw_values = tuple(tuple(value for _, value in values) for values in partitions)
        return cls(storage, tuple(files), names, raw_values, keys=keys)

    def with_keys(self, keys: Keys | None) -> Dataset:
        """This data set, to be decrypted with `keys`; None leaves its own."""
        return self if keys is None else replace(self, keys=keys)

    def partition_table(self, timezone: str) -> pa.Table:
        """The partition columns with their types: one row per file."""
        columns = list(zip(*self.partition_values, strict=True)) if self.partition_names else []
        types = self.partition_types or [infer_type(dict.fromkeys(column)) for column in columns]
        arrays = [to_array(column, kind, timezone) for column, kind in zip(columns, types, strict=True)]
        return pa.table(arrays, names=list(self.partition_names))


def _expand(storage: Storage, inner: str, given: str) -> list[str]:
    # A name with a bracket in it may simply be a name.
    if not is_glob(inner) or storage.filesystem.get_file_info(inner).type != pyarrow.fs.FileType.NotFound:
        return [inner]
    found = storage.glob(inner)
    if not found:
        raise FileNotFoundError(f"no file matches the pattern {given}")
    return found


def _is_data(file: FileInfo) -> bool:
    return file.size > 0 and not is_hidden(file.path.rpartition("/")[2])


def _partitions(root: str, files: Iterable[FileInfo]) -> list[Values]:
    below = root.rstrip("/") + "/"
    parsed: dict[str, Values] = {}
    result = []
    for file in files:
        directory = file.path.rpartition("/")[0] + "/"
        values = parsed.get(directory)
        if values is None:
            inner = directory[len(below) :] if directory.startswith(below) else ""
            values = parsed[directory] = parse_directories(inner.split("/")) if "=" in inner else ()
        result.append(values)
    return result


def _one_set_of_names(files: Sequence[FileInfo], partitions: Sequence[Values]) -> tuple[str, ...]:
    by_names: dict[tuple[str, ...], int] = {}
    for i, values in enumerate(partitions):
        by_names.setdefault(tuple(name for name, _ in values), i)
    if len(by_names) > 1:
        (first, i), (second, j) = list(by_names.items())[:2]
        raise PlanError(
            f"conflicting partition columns: {files[i].path} has ({join_names(first)}), "
            f"{files[j].path} has ({join_names(second)}); "
            "expected one set of directories name=value over all files; read the parts apart or give base_path"
        )
    names = next(iter(by_names))
    if len(set(names)) < len(names):
        raise PlanError(f"{files[0].path}: a partition column occurs twice in the path: {join_names(names)}")
    return names
