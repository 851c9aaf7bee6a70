"""Build, refresh and drop the index of a data set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bloomparquet.errors import FileChangedError, PlanError, UnsupportedError, join_names
from bloomparquet.indexing.columns import Columns, ColumnsError, IndexColumns
from bloomparquet.indexing.commit import begin_build
from bloomparquet.indexing.located_index import LocatedIndex, locate_index
from bloomparquet.indexing.parquet import PARQUET
from bloomparquet.indexing.segment import (
    MOST_ROW_GROUPS,
    BuildReport,
    EvidenceReader,
    SegmentWriter,
    Target,
    are_unchanged,
    why_left_out,
)
from bloomparquet.planning.cache.file_positions import FilePositions
from bloomparquet.planning.cache.listing import TABLE, StoredFiles
from bloomparquet.planning.dataset import Dataset, PathLike, Paths
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.evidence.section_source import DamagedFileError
from bloomparquet.planning.evidence.stored_arrays import MALFORMED
from bloomparquet.planning.index.lookup import OpenIndex, absolute_directory, covered_root
from bloomparquet.planning.index.manifest import MANIFEST, Manifest, SegmentEntry, read_manifest
from bloomparquet.planning.open import orc_files
from bloomparquet.storage.files import FileInfo, LocalStorage, ReadCount, Storage
from bloomparquet.storage.staleness import is_unchanged, may_be_cached, wait_for_clock
from bloomparquet.storage.table_formats import OnTableLog

SMALL_ROW_GROUPS = MOST_ROW_GROUPS // 8
MOST_SMALL_SEGMENTS = 8
"""So many segments of fewer than SMALL_ROW_GROUPS row groups become one at the next refresh."""

_FILES_AT_ONCE = 1024
_FILES_OF_A_FORMAT = 16

Progress = Callable[[int, int], object]
"""Called with the number of files that are done, and of all files."""


@dataclass(frozen=True)
class IndexInfo:
    """The facts of an index.

    The index lies in `directory`, in `segments` files of together `bytes` bytes. It covers `files` and `row_groups` (of
    ORC: those within the stripes). `columns` are those that were named, None for all. `left_out` are the files that are
    planned without the index, with the reason.

    :func:`read_index_info` also compares the index with the data set: `covered` files are planned from it as they are
    now, and `outdated` files are new or changed, so that a refresh would index them.
    """

    directory: str
    columns: tuple[str, ...] | None
    files: int
    row_groups: int
    segments: int
    bytes: int
    left_out: Mapping[str, str]
    covered: int | None = None
    outdated: int | None = None


def build_index(
    path: Paths | Dataset,
    columns: Columns = None,
    to: PathLike | None = None,
    *,
    filesystem: Any = None,
    table_log: OnTableLog = "error",
    progress: Progress | None = None,
) -> IndexInfo:
    """Build the index of Parquet or ORC files, of which plans then read a few kilobytes instead of footers and filters.

    The index holds the evidence of the files' footers and Bloom filters. No data is read, except for columns with a
    :class:`Bloom`: filters are made of their values where the files have none, for files that must not be changed. The
    index lies in ``_bloomparquet_index`` beside the data, where plans find it, or in the directory `to`, which plans
    are told by their option `index`. Files that are written, changed or deleted later are planned without the index, as
    if there were none, until :func:`refresh_index`. An index that was there is replaced.

    * `columns`: which columns; None for all. ``{"user_id": bp.Bloom()}`` makes filters that the files do not have, and
      ``"lower(email)"`` a filter of the lower-case values. For a ``bp.Bloom`` without an fpp, this process
      first reads the footers of all files, to count their row groups.
    * `filesystem`, `table_log`: as for :func:`plan`.
    * `progress`: called with the number of files that are done and the number of all files.

    Raises PlanError for a column that no file has, and for one partition of a data set; UnsupportedError for a column
    that cannot have a useful filter, and for a :class:`Bloom` if the files are ORC files; OptionError if `to` is among
    the data; FileBusyError if another process builds this index; ``OSError`` if the index cannot be written. Then the
    index stays as it was. Encrypted and damaged files are left out.

    >>> info = bp.build_index("events.parquet")
    >>> (info.files, info.row_groups)
    (1, 4)
    >>> bp.plan("events.parquet", "user_id = 4711")
    1 of 4 row groups kept; 3 skipped by Bloom filter; index: 1 of 1 files
    >>> bp.drop_index("events.parquet")
    True
    """
    wanted = IndexColumns.parse(columns)
    return build_with(partial(_make_here, progress), locate_index(path, to, filesystem, table_log), wanted)


def refresh_index(
    path: Paths | Dataset,
    to: PathLike | None = None,
    *,
    filesystem: Any = None,
    table_log: OnTableLog = "error",
    progress: Progress | None = None,
) -> IndexInfo:
    """Bring the index of the files at `path` up to date: files that are new or changed are indexed.

    The index keeps the columns that it was built with. Segments most of whose files are gone are made anew, and small
    segments once there are eight; the others stay. Arguments and errors as for :func:`build_index`; PlanError if there
    is no index.

    >>> _ = bp.build_index("events.parquet", columns=["user_id"])
    >>> bp.refresh_index("events.parquet").columns
    ('user_id',)
    """
    return refresh_with(partial(_make_here, progress), locate_index(path, to, filesystem, table_log))


def drop_index(
    path: Paths | Dataset, to: PathLike | None = None, *, filesystem: Any = None, table_log: OnTableLog = "error"
) -> bool:
    """Delete the index of the files at `path`. Returns whether there was one.

    >>> bp.drop_index("events.parquet")
    False
    """
    target = locate_index(path, to, filesystem, table_log).target
    if not target.storage.is_directory(target.directory):
        return False
    with begin_build(target) as build:
        return build.drop()


def read_index_info(
    path: Paths | Dataset, to: PathLike | None = None, *, filesystem: Any = None, table_log: OnTableLog = "error"
) -> IndexInfo:
    """The facts of the index of the files at `path`, and the number of files that it covers.

    Reads the footers of files that the index does not cover, to say why. Raises PlanError if there is no index.

    >>> _ = bp.build_index("events.parquet")
    >>> info = bp.read_index_info("events.parquet")
    >>> (info.covered, info.outdated)
    (1, 0)
    """
    index = locate_index(path, to, filesystem, table_log)
    manifest = _require_manifest(index)
    opened = OpenIndex(index.target.storage, index.target.directory, index.target.root, manifest)
    files = index.dataset.files
    _, segment = _find_files(opened, index.dataset.storage, files)
    others = [files[i] for i in np.flatnonzero(segment < 0).tolist()]
    report = BuildReport()
    outdated, _ = _read_unchanged(index.dataset.storage, others, report, _reader_of(manifest.format))
    return replace(_info(index.target, manifest, report), covered=len(files) - len(others), outdated=len(outdated))


Make = Callable[[Target, Dataset, IndexColumns], tuple[list[SegmentEntry], BuildReport]]
"""Writes segments of the files of a data set."""


def build_with(make: Make, index: LocatedIndex, columns: IndexColumns) -> IndexInfo:
    """Build `index` of segments that `make` writes."""
    with begin_build(index.target) as build:
        dataset = replace(index.dataset, format=_find_format(index.dataset))
        if columns.needs_row_groups and dataset.format is FileFormat.PARQUET:
            columns = columns.for_row_groups(_count_row_groups(dataset))
        segments, report = make(index.target, dataset, replace(columns, table=dataset.columns))
        if report.missing:
            raise PlanError(
                f"no file below {index.target.root or './'} has the columns {join_names(sorted(report.missing))}; name "
                "columns as bloomparquet inspect does, elements of a list as tags.list.element"
            )
        return _info(index.target, build.commit(_find_format(dataset), index.recorded_root, columns, segments), report)


def refresh_with(make: Make, index: LocatedIndex) -> IndexInfo:
    """Refresh `index` by segments that `make` writes."""
    target, dataset = index.target, index.dataset
    _require_manifest(index)  # before anything is created
    with begin_build(target) as build:
        manifest = build.former or _require_manifest(index)
        try:
            wanted = IndexColumns.from_json(manifest.columns)
        except (KeyError, TypeError) as error:
            raise PlanError(
                f"{target.directory}/{MANIFEST}: unknown columns ({error}); build the index again"
            ) from error
        kept, new = _kept_segments(target, manifest, dataset)
        dataset = Dataset(dataset.storage, tuple(new), (), ((),) * len(new), format=manifest.format)
        made, report = (
            make(target, dataset, replace(wanted, table=index.dataset.columns)) if new else ([], BuildReport())
        )
        return _info(target, build.commit(manifest.format, index.recorded_root, wanted, [*kept, *made]), report)


def _make_here(
    progress: Progress | None, target: Target, dataset: Dataset, columns: IndexColumns
) -> tuple[list[SegmentEntry], BuildReport]:
    report = BuildReport()
    return list(make_segments(target, dataset, columns, report, progress)), report


def make_segments(
    target: Target, dataset: Dataset, columns: IndexColumns, report: BuildReport, progress: Progress | None = None
) -> Iterator[SegmentEntry]:
    """Write segments of the files of `dataset`. No plan uses a segment before it is committed.

    Sets ``report.format`` if it is not known yet.
    """
    done, total = 0, len(dataset.files)
    if report.format is None:
        report.format = _find_format(dataset)
    if report.format is FileFormat.ORC and columns.makes_filters:
        raise UnsupportedError(
            f"{target.root}: filters cannot be made of ORC files; name the columns without a bloomparquet.Bloom, and "
            "without lower() or upper()"
        )
    reader = _reader_of(report.format)
    writer = SegmentWriter(target, dataset.storage, reader, columns, report)
    for files, footers in _portions(dataset.storage, dataset.files, report, reader):
        try:
            yield from writer.write(files, footers)
        except ColumnsError as error:
            raise error.reason from None
        done += len(files)
        if progress is not None:
            progress(min(done + len(report.left_out), total), total)


def _find_format(dataset: Dataset) -> FileFormat:
    """The format of most of the first files."""
    if dataset.format is not None:
        return dataset.format
    first: Sequence[FileInfo] = dataset.files[:_FILES_OF_A_FORMAT]
    try:
        orc = orc_files(dataset.storage, first, ReadCount())
    except (FileNotFoundError, FileChangedError):
        first = [file for file in first if is_unchanged(dataset.storage, file)]
        orc = orc_files(dataset.storage, first, ReadCount())
    return FileFormat.ORC if first and 2 * len(orc) >= len(first) else FileFormat.PARQUET


def _reader_of(file_format: FileFormat) -> EvidenceReader:
    if file_format is FileFormat.PARQUET:
        return PARQUET
    from bloomparquet.indexing.orc import ORC  # lazy import: keeps ORC off the start-up path

    return ORC


def _count_row_groups(dataset: Dataset) -> int:
    """The number of row groups in all readable files. Reads their footers."""
    batches = range(0, len(dataset.files), _FILES_AT_ONCE)
    files = (dataset.files[first : first + _FILES_AT_ONCE] for first in batches)
    return sum(
        PARQUET.row_groups(footer)
        for some in files
        for footer in _read_unchanged(dataset.storage, some, BuildReport(), PARQUET)[1]
    )


def _portions(
    storage: Storage, files: Sequence[FileInfo], report: BuildReport, reader: EvidenceReader
) -> Iterator[tuple[list[FileInfo], list[Any]]]:
    """The files of each segment, with their footers."""
    some: list[FileInfo] = []
    footers: list[Any] = []
    row_groups = 0
    for first in range(0, len(files), _FILES_AT_ONCE):
        read = files[first : first + _FILES_AT_ONCE]
        wait_for_clock(storage, read)
        kept, kept_footers = _read_unchanged(storage, read, report, reader)
        for file, footer in zip(kept, kept_footers, strict=True):
            groups = reader.row_groups(footer)
            if some and row_groups + groups > MOST_ROW_GROUPS:
                yield some, footers
                some, footers, row_groups = [], [], 0
            some.append(file)
            footers.append(footer)
            row_groups += groups
    if some:
        yield some, footers


def _read_unchanged(
    storage: Storage, files: Sequence[FileInfo], report: BuildReport, reader: EvidenceReader
) -> tuple[list[FileInfo], list[Any]]:
    """The result of ``reader.read_files``. Files that were deleted or replaced since they were listed are left out, and
    those that may not be cached."""
    report.left_out.update((file.path, why_left_out(file)) for file in files if not may_be_cached(file))
    files = list(filter(may_be_cached, files))
    try:
        return reader.read_files(storage, files, report)
    except (FileNotFoundError, FileChangedError):
        are_same = are_unchanged(storage, files, report)
        if all(are_same):
            raise
    others = [file for file, is_same in zip(files, are_same, strict=True) if is_same]
    return _read_unchanged(storage, others, report, reader)


def _require_manifest(index: LocatedIndex) -> Manifest:
    target = index.target
    try:
        read = read_manifest(target.storage, target.directory, ReadCount())
    except DamagedFileError as error:
        raise PlanError(str(error)) from error
    if read is None:
        raise PlanError(f"{target.directory}: there is no index here; build one: {index.build_command}")
    return read


def _kept_segments(target: Target, manifest: Manifest, dataset: Dataset) -> tuple[list[SegmentEntry], list[FileInfo]]:
    """The segments that a refresh keeps, and the files that they do not cover."""
    opened = OpenIndex(target.storage, target.directory, target.root, manifest)
    entries, segment = _find_files(opened, dataset.storage, dataset.files)
    small = [entry for entry in manifest.segments if entry.row_groups < SMALL_ROW_GROUPS]
    merged = small if len(small) >= MOST_SMALL_SEGMENTS else []
    live = np.bincount(segment[segment >= 0], minlength=len(entries)).tolist()
    is_kept = [entry not in merged and count * 2 >= entry.files for entry, count in zip(entries, live, strict=True)]
    is_covered = np.array([*is_kept, False])[segment]  # a file in no segment has the number -1
    new = [dataset.files[i] for i in np.flatnonzero(~is_covered).tolist()]
    return [entry for entry, kept in zip(entries, is_kept, strict=True) if kept], new


def _find_files(
    index: OpenIndex, storage: Storage, files: Sequence[FileInfo]
) -> tuple[list[SegmentEntry], NDArray[np.int64]]:
    """The usable segments of `index`, and for each of `files` on `storage` the position of its segment among them, -1
    for none."""
    covered = covered_root(index.manifest, index.directory)
    is_local = isinstance(storage, LocalStorage)
    if covered != index.root and not (is_local and absolute_directory(covered) == absolute_directory(index.root)):
        return [], np.full(len(files), -1)  # paths below another root are those of other files
    by_path = {f"{index.directory}/{entry.name}": entry for entry in index.manifest.segments}
    entries, listings = [], []
    for file in index.open_segments(ReadCount()):
        try:
            listings.append(StoredFiles(file.section(TABLE), index.root).arrays)
        except MALFORMED:
            continue
        entries.append(by_path[file.path])
    positions = FilePositions(listings, index.root, times_are_rounded=not is_local)
    return entries, positions.find(files)[0]


def _info(target: Target, manifest: Manifest, report: BuildReport) -> IndexInfo:
    segments = manifest.segments
    files, row_groups, size = (sum(map(attrgetter(name), segments)) for name in ("files", "row_groups", "bytes"))
    columns = manifest.columns.get("named")
    names = None if columns is None else tuple(columns)
    return IndexInfo(target.directory, names, files, row_groups, len(segments), size, report.left_out)
