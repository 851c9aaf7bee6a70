"""Adds Bloom filters to existing files, or folds them, in one run over many files.

A run does only the work that is left: a file that has the filters is not written. Each file is replaced in one step. A
file that fails is unchanged, unless its error says otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

from bloomparquet.errors import BloomParquetError, OptionError, quoted
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.parquet.metadata.footer import Footer, read_footers
from bloomparquet.planning.dataset import Dataset, PathLike, Paths
from bloomparquet.planning.parquet.row_groups import RowGroups
from bloomparquet.storage.files import FileInfo, LocalStorage, ReadCount, Storage
from bloomparquet.storage.open import open_storage
from bloomparquet.storage.table_formats import directories_of, require_copyable, require_writable
from bloomparquet.storage.threads import in_threads
from bloomparquet.writing.advice.advise import SAMPLE_BYTES, recommended_columns
from bloomparquet.writing.filters.spec import AUTO, EVERY_COLUMN, Bloom, BloomSpec, Fpp, choose_leaves, parse_bloom
from bloomparquet.writing.outcome import FileOutcome, warn_of_filters
from bloomparquet.writing.retrofit.change import AddFilters, Change, FileJob, ShrinkFilters, change_file, read_footer

OnError = Literal["raise", "report"]
Progress = Callable[[FileOutcome, int], object]
"""Called with the outcome of each file, and the number of all files."""
Footers = dict[FileInfo, Footer]
"""Footers that a run has read, to be used again when their files are changed."""

_MOST_THREADS = 8  # each holds a column chunk


def add_filters(
    src: Paths,
    dst: PathLike | None = None,
    *,
    bloom: BloomSpec = "*",
    replace: bool = False,
    dry_run: bool = False,
    on_error: OnError = "raise",
    filesystem: Any = None,
    keys: Keys | None = None,
    progress: Progress | None = None,
) -> list[FileOutcome]:
    """Add Bloom filters to the Parquet files at `src`. Returns one outcome per file.

    The files are replaced; with `dst`, the new files are written there instead. Every byte before the old footer is
    copied unchanged, and filters and a new footer follow. `bloom` chooses the columns and the quality of their filters:
    a name, a list of names, ``{"user_id": Bloom(fpp=0.001)}``, or ``"*"`` for all columns where filters are worth their
    size. The fpp is ``"auto"`` by default, for which the row groups of all files at `src` are counted. Column chunks
    that have a filter keep it unless `replace`. With `dry_run`, outcomes are computed and nothing is written.

    A file that fails is unchanged, unless its error says otherwise. The error is raised, or with ``on_error="report"``
    returned in the outcome. `progress` is called with each outcome and the number of files.

    Filters of encrypted columns are encrypted with the column's key. `keys` must have the footer key and the keys of
    the named columns; ``"*"`` skips columns without a key.

    Raises PlanError for a column that no file has, UnsupportedError for a column that cannot have a useful filter,
    EncryptionError for a missing or wrong key, FormatError for a damaged file, FileBusyError for a file that another
    process or thread is writing, OptionError if a new file in `dst` would replace a file of `src`.

    >>> import pyarrow.parquet as pq
    >>> pq.write_table(pa.table({"user_id": range(1000)}), "old.parquet")
    >>> [outcome] = bp.add_filters("old.parquet", bloom={"user_id": bp.Bloom(fpp=0.001)})
    >>> (outcome.action, outcome.filters)
    ('added', 1)
    """
    dataset = _open(src, dst, filesystem, keys)
    footers: Footers = {}
    change = plan_filters(dataset, bloom, replace, footers=footers)
    return _run(change, dataset, footers, src, dst, dry_run, on_error, filesystem, progress)


def _open(src: Paths, dst: PathLike | None, filesystem: Any, keys: Keys | None) -> Dataset:
    dataset = Dataset.open(src, partitioned=False, filesystem=filesystem, keys=keys, table_log="ignore")
    if dst is not None:
        given = [src] if isinstance(src, str | os.PathLike) else src
        named = {open_storage(os.fspath(item), filesystem)[1] for item in given}
        listed = (file.path for file in dataset.files if file.path not in named)
        require_copyable(dataset.storage, directories_of(dataset.storage, listed))
    return dataset


def plan_filters(
    dataset: Dataset,
    bloom: BloomSpec,
    replace: bool = False,
    *,
    case_sensitive: bool = True,
    footers: Footers | None = None,
) -> AddFilters:
    """The change to each file of `dataset`: for ``"*"``, the columns for which filters pay in all files together.

    Puts the footers that it reads into `footers`. Raises the errors that :func:`add_filters` raises before it changes a
    file.
    """
    footers = {} if footers is None else footers
    asked = parse_bloom(bloom)
    if EVERY_COLUMN in asked or any(wanted.needs_row_groups for wanted in asked.values()):
        row_group_count = _read_footers(dataset, footers)
        asked = {column: wanted.for_row_groups(row_group_count) for column, wanted in asked.items()}
    change = AddFilters(asked, replace, case_sensitive=case_sensitive)
    _require_somewhere(dataset, change, footers)
    if EVERY_COLUMN not in asked:
        return change
    wanted = asked.pop(EVERY_COLUMN)
    readable = [file for file in dataset.files if file in footers]
    row_groups = RowGroups.of_footers(dataset.storage, readable, [footers[file] for file in readable], dataset.keys)
    paying = recommended_columns(dataset, row_groups, wanted.target_fpp, SAMPLE_BYTES, ReadCount())
    unasked = frozenset(column for column in paying if column not in asked)
    return AddFilters({**dict.fromkeys(paying, wanted), **asked}, replace, unasked, case_sensitive)


def plan_shrinking(dataset: Dataset, fpp: Fpp, drop_above: float, *, footers: Footers | None = None) -> ShrinkFilters:
    """The change to each file of `dataset`, with the fpp for its row groups. Puts the footers that it reads into
    `footers`."""
    change = ShrinkFilters(Bloom(fpp), drop_above)
    if not change.bloom.needs_row_groups:
        return change
    row_group_count = _read_footers(dataset, {} if footers is None else footers)
    return replace(change, bloom=change.bloom.for_row_groups(row_group_count))


def _read_footers(dataset: Dataset, footers: Footers) -> int:
    """Put the footers of all readable files into `footers`. Returns the number of their row groups."""
    read = read_footers(dataset.storage, dataset.files, ReadCount(), keys=dataset.keys, left_out={}, undecryptable={})
    footers |= {file: footer for file, footer in zip(dataset.files, read, strict=True) if footer is not None}
    return sum(len(footer.rows) for footer in footers.values())


def _require_somewhere(dataset: Dataset, change: AddFilters, footers: Footers) -> None:
    """Raise the error of a column that no file has.

    Unreadable files are skipped: they have errors of their own when they are changed.
    """
    missing = dict(change.bloom)
    path, schema = "", None
    for file in dataset.files:
        if file not in footers:
            try:
                footers[file] = read_footer(dataset.storage, file, ReadCount(), dataset.keys)
            except (BloomParquetError, OSError):
                continue
        path, schema = file.path, footers[file].profile.schema
        for column, wanted in list(missing.items()):
            if choose_leaves({column: wanted}, schema, path, absent_ok=True, case_sensitive=change.case_sensitive):
                del missing[column]
        if not missing:
            return
    if schema is not None:
        choose_leaves(missing, schema, path, case_sensitive=change.case_sensitive)


def shrink_filters(
    src: Paths,
    dst: PathLike | None = None,
    *,
    fpp: Fpp = AUTO,
    drop_above: float = 0.9,
    dry_run: bool = False,
    on_error: OnError = "raise",
    filesystem: Any = None,
    keys: Keys | None = None,
    progress: Progress | None = None,
) -> list[FileOutcome]:
    """Fold the Bloom filters of the Parquet files at `src` to the size that `fpp` needs. Returns one outcome per file.

    ``"auto"`` is the fpp for the number of row groups of all files at `src`, as in :class:`Bloom`.

    No data is read. A folded filter has exactly the bits of a filter that was made at the smaller size. Filters whose
    false positive probability is `drop_above` or more are dropped. Empty filters of chunks with values are dropped too:
    parquet-java writes for BOOLEAN. The rest of the file is copied without the old filters.

    An encrypted file gets smaller only if `keys` has the keys of all columns; else EncryptionError is raised. Other
    arguments and errors are those of :func:`add_filters`.

    >>> table = pa.table({"user_id": range(1000)})
    >>> bp.write_table(table, "large.parquet", bloom={"user_id": bp.Bloom(ndv=100_000)}).filter_bytes
    131072
    >>> [outcome] = bp.shrink_filters("large.parquet", fpp=0.01)
    >>> (outcome.action, outcome.filter_bytes)
    ('shrunk', 2048)
    """
    dataset = _open(src, dst, filesystem, keys)
    footers: Footers = {}
    change = plan_shrinking(dataset, fpp, drop_above, footers=footers)
    return _run(change, dataset, footers, src, dst, dry_run, on_error, filesystem, progress)


def _run(
    change: Change,
    dataset: Dataset,
    footers: Footers,
    src: Paths,
    dst: PathLike | None,
    dry_run: bool,
    on_error: OnError,
    filesystem: Any,
    progress: Progress | None,
) -> list[FileOutcome]:
    storage = dataset.storage
    target_storage, jobs = _jobs(dataset, src, dst, filesystem)
    require_writable(target_storage, directories_of(target_storage, (job.target or job.file.path for job in jobs)))

    def work(job: FileJob) -> FileOutcome:
        # Without a modification time, nothing tells whether the file was replaced since its footer was read.
        footer = footers.pop(job.file, None) if job.file.mtime_ns else None
        try:
            return change_file(change, storage, target_storage, job, keys=dataset.keys, dry_run=dry_run, footer=footer)
        except (BloomParquetError, OSError) as error:
            if on_error == "raise":
                raise
            return FileOutcome(job.file.path, "failed", job.file.size, job.file.size, error=str(error))

    outcomes = []
    for outcome in in_threads(min(max(storage.threads, os.cpu_count() or 1), _MOST_THREADS), work, jobs):
        outcomes.append(outcome)
        if progress is not None:
            progress(outcome, len(jobs))
        warn_of_filters(outcome)
    return outcomes


def _jobs(dataset: Dataset, src: Paths, dst: PathLike | None, filesystem: Any) -> tuple[Storage, list[FileJob]]:
    """The storage of the new files, and one job for each file of `dataset`. A file that is listed twice has one job.

    Raises OptionError if `dst` does not name one path for each file, or if a new file would replace one of `dataset`,
    or the new file of another job.
    """
    if dst is None:
        resolve = _resolver(dataset.storage)
        files: dict[str, FileInfo] = {}
        for file in dataset.files:
            files.setdefault(resolve(file.path), file)
        return dataset.storage, list(map(FileJob, files.values()))
    storage, targets = _targets(dataset, src, dst, filesystem)
    resolve = _resolver(storage)
    taken = {resolve(file.path): file.path for file in dataset.files if storage.key == dataset.storage.key}
    for file, target in zip(dataset.files, targets, strict=True):
        place = resolve(target)
        if place in taken:
            raise OptionError(
                f"dst is {quoted(os.fspath(dst))}: the new file of {file.path} would replace {target}, which is "
                f"{taken[place]} or its new file; expected a directory outside of src; to replace the files of src, "
                "leave out dst (-o)"
            )
        taken[place] = file.path
    return storage, list(map(FileJob, dataset.files, targets))


def _resolver(storage: Storage) -> Callable[[str], str]:
    """A function that returns the same path for all names of a file that differ by symbolic links only."""
    return os.path.realpath if isinstance(storage, LocalStorage) else str


def _targets(dataset: Dataset, src: Paths, dst: PathLike, filesystem: Any) -> tuple[Storage, list[str]]:
    """The storage of `dst`, and the path of each new file: below `dst`, or `dst` itself."""
    if not isinstance(src, str) and isinstance(src, Sequence):
        raise OptionError("dst needs a single src, a file or a directory; give one src, or leave out dst")
    if not isinstance(dst, str | os.PathLike):
        raise OptionError(f"dst is a {type(dst).__name__}; expected a path; columns are given as bloom=…")
    storage, target = open_storage(os.fspath(dst), filesystem)
    _, root = open_storage(str(src), filesystem)
    below = target.rstrip("/")
    if len(dataset.files) == 1 and dataset.files[0].path == root:
        into = target.endswith("/") or storage.is_directory(target)
        return storage, [f"{below}/{root.rpartition('/')[2]}" if into else target]
    root = root.rstrip("/") + "/"
    if not all(file.path.startswith(root) for file in dataset.files):  # src is a glob
        root = os.path.commonprefix([root, *(file.path for file in dataset.files)])  # noqa: RUF071 (of characters)
        root = root[: root.rfind("/") + 1]
    return storage, [f"{below}/{file.path[len(root) :]}" for file in dataset.files]
