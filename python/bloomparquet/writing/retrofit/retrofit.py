"""Filters for files that exist: added where there are none, folded where they are too large, dropped where they are
full. No data page is written again.

Each file is looked at before anything is done, so that running once more does only what is left. Each is replaced in
one step, and one that fails is as it was.

Source: parquet-format ``BloomFilter.md``; the folding is that of :mod:`bloomparquet.parquet.bloom_filter.split_block`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from bloomparquet.errors import BloomParquetError, EncryptionError, OptionError
from bloomparquet.parquet.bloom_filter.split_block import SplitBlockBloomFilter
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.parquet.metadata.footer import Footer
from bloomparquet.parquet.metadata.schema import FileSchema
from bloomparquet.planning.dataset import Dataset, PathLike, Paths
from bloomparquet.planning.parquet.row_groups import RowGroups
from bloomparquet.planning.planner import cache
from bloomparquet.query.predicate import Column
from bloomparquet.storage.atomic import replacing, sweep
from bloomparquet.storage.files import FileInfo, LocalStorage, ReadCount, Storage, in_threads, open_storage, read_ranges
from bloomparquet.storage.staleness import is_unchanged
from bloomparquet.storage.table_formats import directories_of, require_copyable, require_writable
from bloomparquet.writing.advice.advise import SAMPLE_BYTES, paying_columns
from bloomparquet.writing.filters.build import insert_equals
from bloomparquet.writing.filters.from_chunk import filter_chunk
from bloomparquet.writing.filters.locate import Existing, find_filters, has_filter, is_open, read_filter, replaced
from bloomparquet.writing.filters.spec import EVERY_COLUMN, Bloom, BloomSpec, by_column, choose
from bloomparquet.writing.footer_edit import Place, require_footer_key, require_keys_inside
from bloomparquet.writing.outcome import Action, FileOutcome, describe, warn_of_filters
from bloomparquet.writing.retrofit.footers import read_footer
from bloomparquet.writing.rewrite import Extent, Filters, Rewrite, rewrite

OnError = Literal["raise", "report"]
Named = Mapping[str | Column, Bloom]
Spell = Callable[[Named, FileSchema, str], Named]
"""Finds the names that the file at a path, of a schema, has for the columns that were asked for."""
Progress = Callable[[FileOutcome, int], object]
"""Told of each file as it is done, with the number of all files."""

_MOST_THREADS = 8  # each holds a column chunk


@dataclass(frozen=True, slots=True)
class Job:
    """One file, and where its new version goes: None is where it is."""

    file: FileInfo
    target: str | None = None


@dataclass(frozen=True)
class AddFilters:
    """Filters on the columns of `bloom`, for the chunks that have none; with `replace`, for all, made anew. Those that
    nobody has named are `unasked`, and are passed over where they are encrypted and their key is not at hand."""

    bloom: Mapping[str | Column, Bloom]
    replace: bool = False
    unasked: frozenset[str | Column] = frozenset()

    action: Action = "added"

    def changes(
        self, storage: Storage, file: FileInfo, footer: Footer, count: ReadCount
    ) -> tuple[Filters, list[Extent], Mapping[int, Bloom]]:
        """The filters that change, the bytes of old ones that nobody needs then, and what was asked for by leaf."""
        schema = footer.layout.schema
        chosen = choose(self.bloom, schema, file.path, absent_ok=True)
        asked = {column: bloom for column, bloom in self.bloom.items() if column not in self.unasked}
        named = choose(asked, schema, file.path, absent_ok=True)
        old = find_filters(storage, file, footer, count, skip_broken=True) if self.replace else {}
        filters: dict[Place, SplitBlockBloomFilter | None] = {}
        for row_group in range(len(footer.rows)):
            for index, bloom in chosen.items():
                leaf, place = schema.leaves[index], (row_group, index)
                if index not in named and not is_open(footer, place):
                    continue
                if not self.replace and has_filter(file, footer, place):
                    continue
                found = filter_chunk(storage, file, footer, row_group, leaf, bloom, count)
                if found is None:
                    continue
                if place not in old or not _is_same(found, storage, file, footer, place, old[place], count):
                    filters[place] = found
        return filters, replaced(file, footer, old, filters), chosen


@dataclass(frozen=True)
class ShrinkFilters:
    """Every filter folded as far as `fpp` allows. Dropped are those that let through `drop_above` of what is absent,
    and those that are empty over values."""

    fpp: float = 0.01
    drop_above: float = 0.9

    action: Action = "shrunk"

    def __post_init__(self) -> None:
        Bloom(self.fpp)
        if not 0.0 < self.drop_above <= 1.0:
            raise OptionError(
                f"drop_above is {self.drop_above}: expected a share of absent values, above 0 and at most 1"
            )

    def changes(
        self, storage: Storage, file: FileInfo, footer: Footer, count: ReadCount
    ) -> tuple[Filters, list[Extent], Mapping[int, Bloom]]:
        """As for :class:`AddFilters`."""
        old = find_filters(storage, file, footer, count)
        filters: dict[Place, SplitBlockBloomFilter | None] = {}
        for place, existing in old.items():
            bloom = read_filter(storage, file, footer, place, existing, count)
            fields = footer.read_chunk(*place)
            share_set = bloom.bits_set / (8 * bloom.num_bytes)  # the fpp is at most that, and takes longer to tell
            is_empty = not share_set and (fields.values or 0) > (fields.nulls or 0)
            if is_empty or (share_set >= self.drop_above and bloom.estimated_fpp >= self.drop_above):
                filters[place] = None
                continue
            fitted = bloom.fitted(self.fpp)
            if fitted is not bloom:
                insert_equals(footer.layout.schema.leaves[place[1]], fitted)
                filters[place] = fitted
        wanted = dict.fromkeys((leaf for _, leaf in filters), Bloom(self.fpp))
        return filters, replaced(file, footer, old, filters), wanted


def _is_same(
    bloom: SplitBlockBloomFilter,
    storage: Storage,
    file: FileInfo,
    footer: Footer,
    place: Place,
    old: Existing,
    count: ReadCount,
) -> bool:
    try:
        return np.array_equal(bloom.blocks, read_filter(storage, file, footer, place, old, count).blocks)
    except EncryptionError:  # it was altered
        return False


Change = AddFilters | ShrinkFilters


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
    """Add Bloom filters to the files at `src`, which are replaced, or else written to `dst`; one outcome per file.

    Every byte before a file's old footer stays as it is; filters and a new footer follow. `bloom` says which columns
    get one and how good it is to be: a name, a list of names, ``{"user_id": Bloom(fpp=0.001)}``, or ``"*"`` for all
    columns for which it pays. Chunks that have a filter keep it unless `replace`. With `dry_run` everything is
    computed and nothing written. A file that cannot be done is left as it is; its error is raised, or with
    ``on_error="report"`` told in its outcome. `progress` is called with each outcome and the number of files.

    In an encrypted file, filters of encrypted columns are encrypted by the column's key. `keys` must have that of the
    footer and those of the columns named; ``"*"`` passes over the others, of which nothing changes.

    Raises PlanError for a column that no file has, UnsupportedError for one that cannot carry a useful filter,
    EncryptionError where a key is missing or does not fit, FormatError for damaged files.
    """
    dataset = _open(src, dst, filesystem, keys)
    return _run(planned(dataset, bloom, replace), dataset, src, dst, dry_run, on_error, filesystem, progress)


def _open(src: Paths, dst: PathLike | None, filesystem: Any, keys: Keys | None) -> Dataset:
    dataset = Dataset.open(src, partitioned=False, filesystem=filesystem, keys=keys, table_log="ignore")
    if dst is not None:
        given = [src] if isinstance(src, str | os.PathLike) else src
        named = {open_storage(os.fspath(item), filesystem)[1] for item in given}
        listed = (file.path for file in dataset.files if file.path not in named)
        require_copyable(dataset.storage, directories_of(dataset.storage, listed))
    return dataset


def _as_asked(bloom: Named, schema: FileSchema, path: str) -> Named:
    return bloom


def planned(dataset: Dataset, bloom: BloomSpec, replace: bool = False, spell: Spell = _as_asked) -> AddFilters:
    """What is to be done to each file of `dataset`, with ``"*"`` resolved to the columns for which filters pay in all
    of them together. Errors are those of :func:`add_filters`."""
    asked = by_column(bloom)
    _require_somewhere(dataset, asked, spell)
    if EVERY_COLUMN not in asked:
        return AddFilters(asked, replace)
    wanted = asked.pop(EVERY_COLUMN)
    paying = paying_columns(dataset, _readable(dataset), wanted.fpp, SAMPLE_BYTES, ReadCount())
    unasked = frozenset(column for column in paying if column not in asked)
    return AddFilters({**dict.fromkeys(paying, wanted), **asked}, replace, unasked)


def shrink_filters(
    src: Paths,
    dst: PathLike | None = None,
    *,
    fpp: float = 0.01,
    drop_above: float = 0.9,
    dry_run: bool = False,
    on_error: OnError = "raise",
    filesystem: Any = None,
    keys: Keys | None = None,
    progress: Progress | None = None,
) -> list[FileOutcome]:
    """Fold the Bloom filters of the files at `src` to the size that `fpp` needs, without reading data; one outcome per
    file.

    Folding loses nothing: the result is bit for bit the filter that a smaller one would have been. Filters that let
    through `drop_above` or more of absent values are dropped, and so are empty ones over columns that have values
    (which parquet-java writes for BOOLEAN). The rest of the file is copied around the hole. Of an encrypted file
    nothing moves unless `keys` has the keys of all columns, and so it gets no smaller: that is an EncryptionError.
    Otherwise as :func:`add_filters`.
    """
    dataset = _open(src, dst, filesystem, keys)
    change = ShrinkFilters(fpp, drop_above)
    return _run(change, dataset, src, dst, dry_run, on_error, filesystem, progress)


def _run(
    change: Change,
    dataset: Dataset,
    src: Paths,
    dst: PathLike | None,
    dry_run: bool,
    on_error: OnError,
    filesystem: Any,
    progress: Progress | None,
) -> list[FileOutcome]:
    storage = dataset.storage
    target_storage, jobs = jobs_of(dataset, src, dst, filesystem)
    places = directories_of(target_storage, (job.target or job.file.path for job in jobs))
    require_writable(target_storage, places)
    work = partial(_reported, change, storage, target_storage, dry_run=dry_run, on_error=on_error)
    outcomes = []
    for outcome in in_threads(min(max(storage.threads, os.cpu_count() or 1), _MOST_THREADS), work, jobs):
        outcomes.append(outcome)
        if progress is not None:
            progress(outcome, len(jobs))
        warn_of_filters(outcome)
    return outcomes


def jobs_of(dataset: Dataset, src: Paths, dst: PathLike | None, filesystem: Any = None) -> tuple[Storage, list[Job]]:
    """The files of `dataset`, each once, and where the new ones go."""
    if dst is None:
        resolve = os.path.realpath if isinstance(dataset.storage, LocalStorage) else str
        once: dict[str, FileInfo] = {}
        for file in dataset.files:
            once.setdefault(resolve(file.path), file)
        return dataset.storage, [Job(file) for file in once.values()]
    if not isinstance(src, str) and isinstance(src, Sequence):
        raise OptionError("dst is for one src, a file or a directory; give one, or no dst")
    if not isinstance(dst, str | os.PathLike):
        raise OptionError(f"dst is a {type(dst).__name__}; expected a path, and columns as bloom=")
    storage, target = open_storage(os.fspath(dst), filesystem)
    _, root = open_storage(str(src), filesystem)
    if len(dataset.files) == 1 and dataset.files[0].path == root:
        into = target.endswith("/") or storage.is_directory(target)
        return storage, [Job(dataset.files[0], f"{target.rstrip('/')}/{root.rpartition('/')[2]}" if into else target)]
    root = root.rstrip("/") + "/"
    if not all(file.path.startswith(root) for file in dataset.files):  # a glob: of it, what no file name is part of
        root = os.path.commonprefix([root, *(file.path for file in dataset.files)])  # noqa: RUF071 (of characters)
        root = root[: root.rfind("/") + 1]
    return storage, [Job(file, f"{target.rstrip('/')}/{file.path[len(root) :]}") for file in dataset.files]


def change_file(
    change: Change, storage: Storage, target_storage: Storage, job: Job, *, dry_run: bool = False
) -> FileOutcome:
    """Do one file. Raises what makes it impossible; the file is then as it was."""
    file, target = job.file, job.target
    if not dry_run:
        sweep(target_storage, target or file.path)
    count = ReadCount()
    footer = read_footer(storage, file, count)
    require_footer_key(file.path, footer)
    if target is not None:
        require_keys_inside(file.path, footer)
    filters, dead, wanted = change.changes(storage, file, footer, count)
    if filters:
        new = rewrite(file.path, file.size, footer, filters, dead, partial(_read, storage, file.path, count))
        if footer.crypto is not None and change.action == "shrunk" and new.size > file.size:
            raise EncryptionError(
                f"{file.path}: the file is encrypted and is left as it is: it would not get smaller, as nothing can be "
                "moved where the key of some column is not at hand; give the keys of all columns"
            )
    elif target is None:
        return FileOutcome(file.path, "unchanged", file.size, file.size)
    else:
        new = Rewrite(((0, file.size),), ())
    if not dry_run:
        _write(storage, file, target_storage, target, new)
    action: Action = change.action if filters else "copied"
    dropped = sum(bloom is None for bloom in filters.values())
    columns = describe(footer, filters, wanted)
    return FileOutcome(target or file.path, action, file.size, new.size, columns, dropped)


def _write(storage: Storage, file: FileInfo, target_storage: Storage, target: str | None, new: Rewrite) -> None:
    if target is not None:
        target_storage.make_parents(target)
    with replacing(target_storage, target or file.path, file if target is None else None) as output:
        for start, stop in new.pieces:
            output.copy(storage, file.path, start, stop)
        for part in new.tail:
            output.write(part)
        if target is not None and not is_unchanged(storage, file):
            raise BloomParquetError(f"{file.path}: the file changed while it was copied; run again")
        output.commit()


def _reported(
    change: Change, storage: Storage, target_storage: Storage, job: Job, *, dry_run: bool, on_error: OnError
) -> FileOutcome:
    try:
        return change_file(change, storage, target_storage, job, dry_run=dry_run)
    except (BloomParquetError, OSError) as error:
        if on_error == "raise":
            raise
        return FileOutcome(job.file.path, "failed", job.file.size, job.file.size, error=str(error))


def _readable(dataset: Dataset) -> RowGroups:
    """The row groups of the files whose footers can be read; the others have their own errors in their turn."""
    storage, count = dataset.storage, ReadCount()
    try:
        return cache.row_groups(storage, dataset.files, count, skip_corrupt=True)
    except BloomParquetError:
        readable = [file for file in dataset.files if _has_footer(storage, file)]
        return cache.row_groups(storage, readable, count, skip_corrupt=True)


def _has_footer(storage: Storage, file: FileInfo) -> bool:
    try:
        read_footer(storage, file, ReadCount())
    except BloomParquetError:
        return False
    return True


def _require_somewhere(dataset: Dataset, bloom: Named, spell: Spell) -> None:
    """The error of a column that no file has, before any file is touched. Of a file that cannot be read nothing is
    known; it has its own error in its turn."""
    missing: Named = dict(bloom)
    path, schema = "", None
    for file in dataset.files:
        try:
            schema, path = read_footer(dataset.storage, file, ReadCount()).layout.schema, file.path
        except (BloomParquetError, OSError):
            continue
        there = [
            column
            for column, wanted in missing.items()
            if choose(spell({column: wanted}, schema, path), schema, path, absent_ok=True)
        ]
        missing = {column: wanted for column, wanted in missing.items() if column not in there}
        if not missing:
            return
    if schema is not None:
        choose(spell(missing, schema, path), schema, path)


def _read(storage: Storage, path: str, count: ReadCount, extents: list[Extent]) -> list[bytes]:
    starts = np.array([start for start, _ in extents], np.int64)
    sizes = np.array([stop - start for start, stop in extents], np.int64)
    ranges = read_ranges(storage, [path], np.zeros_like(starts), starts, sizes, count)
    return [ranges.buffer[at : at + size].tobytes() for at, size in zip(ranges.starts.tolist(), sizes.tolist())]
