"""Finds the location of an index: beside the data, or in a directory that the user names."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bloomparquet.errors import OptionError, PlanError
from bloomparquet.indexing.segment import Target
from bloomparquet.planning.dataset import Dataset, PathLike, Paths
from bloomparquet.planning.index.lookup import absolute_directory, open_directory
from bloomparquet.planning.index.manifest import DIRECTORY
from bloomparquet.planning.remedies import path_argument
from bloomparquet.storage.files import LocalStorage, is_hidden, with_scheme
from bloomparquet.storage.open import open_storage
from bloomparquet.storage.table_formats import OnTableLog


@dataclass(frozen=True, slots=True)
class LocatedIndex:
    """A data set, and the location of its index.

    `recorded_root` is the root of the data as the index's manifest names it; None for an index beside the data.
    """

    dataset: Dataset
    target: Target
    recorded_root: str | None

    @property
    def build_command(self) -> str:
        """What builds this index, for a message."""
        if self.dataset.columns is not None:  # a table with a log, which no command can open
            return "build_index() of the data set"
        target = self.target
        elsewhere = [] if self.recorded_root is None else ["--to", with_scheme(target.storage, target.directory)]
        return " ".join(["bloomparquet index build", path_argument(self.dataset), *map(shlex.quote, elsewhere)])


def locate_index(path: Paths | Dataset, to: PathLike | None, filesystem: Any, table_log: OnTableLog) -> LocatedIndex:
    """The data set at `path`, and the location of its index."""
    if isinstance(path, Dataset):
        dataset, paths = path, list(path.paths)
    else:
        dataset = Dataset.open(path, filesystem=filesystem, partitioned=False, table_log=table_log)
        given: Sequence[PathLike] = [path] if isinstance(path, str | os.PathLike) else path
        paths = [os.fspath(each) for each in given]
    if isinstance(path, str | os.PathLike):
        _require_all_partitions(os.fspath(path), filesystem, dataset)
    if to is None:
        return LocatedIndex(dataset, Target(dataset.storage, dataset.root + DIRECTORY, dataset.root), None)
    if isinstance(path, Dataset) and not isinstance(dataset.storage, LocalStorage):
        paths = []  # how they were opened is unknown
    return _locate_elsewhere(dataset, os.fspath(to), [open_storage(each, filesystem)[1] for each in paths])


def _require_all_partitions(path: str, filesystem: Any, dataset: Dataset) -> None:
    """PlanError if `path` is one partition of a data set, whose partitions have one index."""
    inner = open_storage(path, filesystem)[1].rstrip("/") + "/"
    root = dataset.root
    if root and inner.startswith(root) and inner != root and dataset.storage.is_directory(inner):
        raise PlanError(
            f"{path}: this is a partition of the data at {root}, which have one index; expected the "
            f"directory of all partitions: {root}"
        )


def _locate_elsewhere(dataset: Dataset, to: str, paths: Sequence[str]) -> LocatedIndex:
    """The place of an index in the directory `to`. OptionError if its files would be read as data: below the root of
    `dataset`, or below one of `paths`, which were listed."""
    if to in ("auto", "off"):
        raise OptionError(f"to is {to!r}; expected a directory")
    storage, directory = open_directory(to, dataset.storage)
    if isinstance(storage, LocalStorage):
        directory = os.path.abspath(directory)
    recorded_root = absolute_directory(dataset.root) if isinstance(dataset.storage, LocalStorage) else dataset.root
    if storage.key == dataset.storage.key:
        # Also without symbolic links.
        spellings = (os.path.abspath, os.path.realpath) if isinstance(storage, LocalStorage) else (str,)
        for root in (recorded_root, *paths):
            if any(_is_among(below(directory), above(root)) for below in spellings for above in spellings):
                raise OptionError(
                    f"to is {to!r}, which is inside the data at {root}: the files of the index would be read as "
                    "data; expected a directory elsewhere, or a name that begins with _"
                )
    return LocatedIndex(dataset, Target(storage, directory.rstrip("/"), dataset.root), recorded_root)


def _is_among(directory: str, root: str) -> bool:
    """Whether a listing of `root` lists the files in `directory`: hidden names below it are left out."""
    directory, root = directory.rstrip("/") + "/", root.rstrip("/") + "/"
    below = directory.removeprefix(root)
    return directory == root or (below != directory and not any(map(is_hidden, below.split("/"))))
