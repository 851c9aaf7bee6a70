"""Data sets: the files that paths mean, and the partition values in the names of their directories."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.fs
from numpy.typing import NDArray

from bloomparquet.errors import OptionError, PlanError, join_names, quoted
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.partitions import Values, infer_type, parse_directories, to_array
from bloomparquet.planning.table_columns import TableColumns
from bloomparquet.query.names import find, valid_text
from bloomparquet.storage.files import (
    FileInfo,
    Files,
    ListingNotes,
    LocalStorage,
    Storage,
    data_root,
    is_hidden,
    refused_paths_named,
    with_scheme,
)
from bloomparquet.storage.forks import lazy_property
from bloomparquet.storage.globs import expand_braces, is_glob
from bloomparquet.storage.open import open_storage
from bloomparquet.storage.options import StorageOptions, filesystem_or_options
from bloomparquet.storage.table_formats import (
    OnTableLog,
    directories_of,
    require_no_log,
    require_no_stream_log,
)

if TYPE_CHECKING:
    from typing_extensions import Self

PathLike: TypeAlias = str | os.PathLike[str]
Paths: TypeAlias = PathLike | Sequence[PathLike]
"""A file, a directory, a glob (``events/*.parquet``, ``{a,b}/*``), a URL (``s3://bucket/events``), or a list of those.

Below a directory, ``name=value`` directories become partition columns.
"""


_SUMMARY_FILES = ("_metadata", "_common_metadata")


class RowDeletes(Protocol):
    """The rows of one file that its table has deleted. Implementations can be compared, hashed and pickled."""

    def read(self, storage: Storage) -> NDArray[np.int64]:
        """The positions of the deleted rows in the file, ascending. Row groups that are not read count too."""


@dataclass(frozen=True)
class Dataset:
    """The files of one or several paths, on one storage, in the order in which they are read.

    * `partition_names`: the partition columns, outermost first. ``partition_values[i]``: their values for ``files[i]``
      as text, or as values of their types; None is Hive's null directory. `partition_types`: their types; None infers
      them as Spark does;
    * `format`: the format of the files; None detects it from their first and last bytes;
    * `keys`: decrypt encrypted files;
    * `paths`: the paths as they were given; empty if they need a file system object.

    A table with a log also has:

    * `columns`: the columns of the table, and their form in its files; None if the columns are those of the files;
    * ``deletes[i]``: the deleted rows of ``files[i]``; None, like an empty `deletes`, if no row is deleted;
    * ``fallbacks[i]``: names and values of columns whose value is known for ``files[i]`` if that file does not store
      them;
    * `location`: the directory of the table, with a slash.

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
    partition_values: tuple[tuple[Any, ...], ...]
    partition_types: tuple[pa.DataType, ...] | None = None
    format: FileFormat | None = None
    keys: Keys | None = None
    columns: TableColumns | None = None
    deletes: tuple[RowDeletes | None, ...] = ()
    location: str | None = None
    fallbacks: tuple[tuple[tuple[str, Any], ...], ...] = ()
    paths: tuple[str, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.keys, Keys | None):
            raise OptionError(f"keys is a {type(self.keys).__name__}; expected bloomparquet.Keys")
        if not isinstance(self.files, Files):
            object.__setattr__(self, "files", Files(self.files))

    def __repr__(self) -> str:
        count = len(self.files)
        partitions = f"; partition columns: {join_names(self.partition_names)}" if self.partition_names else ""
        return f"Dataset({count:,} {'file' if count == 1 else 'files'} in {self.root or '.'}{partitions})"

    @lazy_property
    def root(self) -> str:
        """The table's directory if it holds all files; or else the deepest directory that holds all files and lies
        above partition directories. With a slash, or ``""`` for the current directory."""
        if self.location is not None and all(file.path.startswith(self.location) for file in self.files):
            return self.location
        root = data_root(self.files) if self.files else ""
        return root + "/" if root or any(file.path.startswith("/") for file in self.files[:1]) else ""

    @classmethod
    def open(
        cls,
        path: Paths,
        *,
        filesystem: Any = None,
        storage_options: StorageOptions | None = None,
        partitioned: bool = True,
        base_path: PathLike | None = None,
        keys: Keys | None = None,
        table_log: OnTableLog = "error",
        allow_named_files: bool = False,
    ) -> Self:
        """List the files at `path`: a file, a directory with its subdirectories, a glob, or a list of those. Names that
        begin with ``_`` or ``.`` are left out.

        * `filesystem`: a pyarrow or fsspec file system that the paths belong to.
        * `storage_options`: instead of a file system, the endpoint, credentials and retries of the URL's storage.
        * `partitioned`: whether ``name=value`` directories become partition columns.
        * `base_path`: the directory below which partition directories begin, if it is above `path`.
        * `keys`: decrypt encrypted files.
        * `table_log`: ``"ignore"`` lists the bare files of a Delta Lake, Iceberg or Hudi table, which may hold deleted
          rows. Otherwise they raise :class:`UnsupportedError`.
        * `allow_named_files`: files of such a table may be named one by one.

        Raises FileNotFoundError for a path that does not exist, and PlanError for one without data files.
        """
        if table_log not in ("error", "ignore"):
            raise OptionError(f"table_log is {table_log!r}; expected 'error' or 'ignore'")
        filesystem = filesystem_or_options(filesystem, storage_options)
        given: Sequence[Any] = path if isinstance(path, Sequence) and not isinstance(path, str | bytes) else [path]
        for item in given:
            if not isinstance(item, str | os.PathLike):
                raise OptionError(
                    f"path is {quoted(item)}; expected a file, a directory, a glob, a URL, or a list of them"
                )
        items = [os.fspath(item) for item in given]
        if not items:
            raise PlanError("no path was given; expected a file, a directory, a glob, or a list of them")
        base = open_storage(os.fspath(base_path), filesystem)[1] if base_path is not None else None
        opened = [open_storage(item, filesystem) for item in items]
        notes = ListingNotes() if table_log == "error" else None
        listing = _Listing(opened[0][0], notes, base, partitioned, allow_named_files)
        for (storage, inner), item in zip(opened, items, strict=True):
            listing.add(storage, inner, item)
        listing.require_no_log(inner if len(items) == 1 else None)
        files, partitions = listing.files, listing.partitions
        if not files:
            raise PlanError(
                f"{join_names(items)}: no data files here; expected Parquet or ORC files (names that begin with _ or . "
                "are hidden)"
            )
        names = _partition_names(files, partitions) if any(partitions) else ()
        # Many files share few directories.
        texts = {values: tuple(text for _, text in values) for values in dict.fromkeys(partitions)}
        partition_values = tuple(map(texts.__getitem__, partitions))
        paths = tuple(items) if isinstance(filesystem, Mapping | None) else ()
        return cls(listing.storage, tuple(files), names, partition_values, keys=keys, paths=paths)

    def with_keys(self, keys: Keys | None) -> Self:
        """A copy of this data set that is decrypted with `keys`; this data set itself if `keys` is None."""
        return self if keys is None else replace(self, keys=keys)

    def select(self, positions: Sequence[int]) -> Self:
        """A copy of this data set with the files at `positions` only."""

        def pick(items: Sequence[Any]) -> tuple[Any, ...]:
            return tuple(items[i] for i in positions) if items else ()

        return replace(
            self,
            files=pick(self.files),
            partition_values=pick(self.partition_values),
            deletes=pick(self.deletes),
            fallbacks=pick(self.fallbacks),
        )

    def partition_table(self, timezone: str) -> pa.Table:
        """The partition columns, one row per file. Timestamps without a time zone are in `timezone`."""
        table = self._partition_tables.get(timezone)
        if table is None:
            columns = [[values[i] for values in self.partition_values] for i in range(len(self.partition_names))]
            types = self.partition_types or [infer_type(dict.fromkeys(column)) for column in columns]
            arrays = [to_array(column, kind, timezone) for column, kind in zip(columns, types, strict=True)]
            for name in self.partition_names:
                if valid_text(name) != name:
                    raise PlanError(
                        f"{self.files[0].path}: the name {quoted(name)} of a partition column is not UTF-8; rename the "
                        "directory, or read the directories below it one by one"
                    )
            table = self._partition_tables[timezone] = pa.table(arrays, names=list(self.partition_names))
        return table

    @lazy_property
    def _partition_tables(self) -> dict[str, pa.Table]:
        """The tables that :meth:`partition_table` has made, by time zone."""
        return {}


class _Listing:
    """The data files at the paths that were added, their partition values, and where to look for the log of a table.

    `notes`: what the listings skip or follow; None if tables with a log are allowed. `base`: the directory below which
    partition directories begin; None for the path itself.
    """

    def __init__(
        self,
        storage: Storage,
        notes: ListingNotes | None,
        base: str | None,
        partitioned: bool,
        allow_named_files: bool,
    ) -> None:
        self.storage = storage
        self.files: list[FileInfo] = []
        self.partitions: list[Values] = []
        self._notes, self._base = notes, base
        self._partitioned, self._allow_named_files = partitioned, allow_named_files
        self._log_roots: set[str] = set()  # directories that a table log may lie in or above
        self._listed_files: list[FileInfo] = []

    def add(self, storage: Storage, inner: str, given: str) -> None:
        """List the path that the user gave as `given`, which is `inner` on `storage`."""
        if storage.key != self.storage.key:
            raise PlanError(
                f"{given}: all paths of one scan must lie on one storage; found {self.storage.key} and {storage.key}"
            )
        roots = _expand(self.storage, inner, given) if is_glob(inner) else [inner]
        seen: set[str] = set()  # a glob may match a directory and a file in it
        for root in roots:
            data_files = self._list(root, is_named=root == inner)
            if len(roots) > 1:
                data_files = [file for file in data_files if file.path not in seen]
                seen.update(file.path for file in data_files)
            self.files += data_files
            if self._partitioned:
                self.partitions += _partitions(root if self._base is None else self._base, data_files)
            else:
                self.partitions += [()] * len(data_files)

    def _list(self, root: str, *, is_named: bool) -> list[FileInfo]:
        """The data files at `root`, a file or a directory. `is_named`: the user gave this path, not a glob."""
        below = self.storage.list_files(root, recursive=True, notes=self._notes)
        if len(below) == 1 and below[0].path == root:  # a file
            directory, _, name = root.rpartition("/")
            if is_named and name in _SUMMARY_FILES:
                raise PlanError(
                    f"{root} is a summary of the footers of other files, and holds no rows; expected files with data: "
                    f"name the directory, {with_scheme(self.storage, directory or '.')}"
                )
            if not (self._allow_named_files and is_named):
                self._log_roots |= directories_of(self.storage, [root])
            # Spark skips empty files in a listing. An empty file that is named is a mistake, and an error later.
            return below if is_named or _is_data(below[0]) else []
        # The listing shows the logs in and below it. On remote storage, save the request for it.
        only_above = not isinstance(self.storage, LocalStorage)
        self._log_roots.add(root.rstrip("/").rpartition("/")[0] if only_above else root)
        self._listed_files += below
        return [file for file in below if file.size > 0]

    def require_no_log(self, only: str | None) -> None:
        """UnsupportedError if the files belong to a table with a log. `only`: the path, if there is only one."""
        if self._notes is None:
            return
        require_no_log(self.storage, self._log_roots, self.files, self._listed_files, self._notes)
        if self._notes.hidden and only is not None:  # of several paths, Spark does not look for a stream's log either
            require_no_stream_log(only, self._notes)


def _expand(storage: Storage, inner: str, given: str) -> list[str]:
    if _exists(storage, inner):  # the name of this file looks like a glob
        return [inner]
    matches: set[str] = set()
    for pattern in expand_braces(inner):
        if is_glob(pattern):
            matches.update(storage.glob(pattern))
        elif _exists(storage, pattern) or storage.is_directory(pattern):
            matches.add(pattern)
    if not matches:
        raise FileNotFoundError(f"no file matches the pattern {given}")
    return sorted(matches)


def _exists(storage: Storage, path: str) -> bool:
    with refused_paths_named(path):
        kind = storage.filesystem.get_file_info(path).type
    return bool(kind != pyarrow.fs.FileType.NotFound)


def _is_data(file: FileInfo) -> bool:
    return file.size > 0 and not is_hidden(file.path.rpartition("/")[2])


def _partitions(root: str, files: Iterable[FileInfo]) -> list[Values]:
    """The partition values of each file, from the directories between `root` and the file."""
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


def _partition_names(files: Sequence[FileInfo], partitions: Sequence[Values]) -> tuple[str, ...]:
    """The partition columns that all files share. Raises PlanError if they differ."""
    by_names: dict[tuple[str, ...], Values] = {}
    for values in dict.fromkeys(partitions):
        by_names.setdefault(tuple(name for name, _ in values), values)
    if len(by_names) > 1:
        first, second = list(by_names)[:2]
        i, j = (partitions.index(by_names[names]) for names in (first, second))
        raise PlanError(
            f"conflicting partition columns: {files[i].path} has ({join_names(first)}), {files[j].path} has "
            f"({join_names(second)}); expected the same name=value directories above all files. Read the parts one by "
            "one, or set the base path (base_path= of bloomparquet.Dataset.open, option basePath in Spark)"
        )
    names = next(iter(by_names))
    if len(set(names)) < len(names):
        raise PlanError(f"{files[0].path}: a partition column occurs twice in the path: {join_names(names)}")
    return names


def directory_above(dataset: Dataset, column: tuple[str, ...], case_sensitive: bool) -> str | None:
    """The directory that holds the ``column=…`` directory of the first file, which is no partition column if the path
    of `dataset` lies within it. None if there is no such directory."""
    directories = dataset.files[0].path.split("/")[:-1] if len(column) == 1 and dataset.files else []
    for i, directory in enumerate(directories):
        if any(find([name], column[0], case_sensitive) for name, _ in parse_directories([directory])):
            return with_scheme(dataset.storage, "/".join(directories[:i]) or ("/" if i else "."))
    return None


def open_dataset(
    path: Paths | Dataset, filesystem: Any, keys: Keys | None, table_log: OnTableLog, *, allow_named_files: bool = False
) -> Dataset:
    """List the files at `path`, unless it is a data set already. `keys`, if given, replace those of the data set."""
    if isinstance(path, Dataset):
        return path.with_keys(keys)
    return Dataset.open(
        path, filesystem=filesystem, keys=keys, table_log=table_log, allow_named_files=allow_named_files
    )
