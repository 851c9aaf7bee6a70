"""Build, refresh and drop the index of a data set."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import pyarrow.fs

from bloomparquet.errors import OptionError, PlanError, UnsupportedError, join_names
from bloomparquet.indexing.columns import Columns, IndexColumns
from bloomparquet.indexing.segment import (
    MOST_FILTER_BYTES,
    MOST_ROW_GROUPS,
    PARQUET,
    Reader,
    Report,
    Target,
    write_segment,
)
from bloomparquet.planning.dataset import Dataset, PathLike, Paths
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.evidence.section_file import DamagedFileError, SectionFile
from bloomparquet.planning.index.listing import files_of_segment
from bloomparquet.planning.index.lookup import OpenIndex, data_root, forget_indexes
from bloomparquet.planning.index.manifest import (
    DIRECTORY,
    MANIFEST,
    SEGMENT_SUFFIX,
    Manifest,
    SegmentEntry,
    read_manifest,
)
from bloomparquet.planning.open import orc_files
from bloomparquet.storage.atomic import replacing
from bloomparquet.storage.files import FileInfo, LocalStorage, ReadCount, Storage, open_storage
from bloomparquet.storage.table_formats import OnTableLog

_FILES_AT_ONCE = 1024
_FILES_OF_A_FORMAT = 16

Progress = Callable[[int, int], object]
"""Called with the number of files that are done, and of all files."""


@dataclass(frozen=True)
class IndexInfo:
    """An index. `directory` is where it is; `files` and `row_groups` (of ORC: those within the stripes) are what it
    covers, in `segments` files of together `bytes` bytes. `left_out`: the files that are planned without it, with the
    reason."""

    directory: str
    files: int
    row_groups: int
    segments: int
    bytes: int
    left_out: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Place:
    """A data set and its index. `root` ends with a slash; `recorded` is what its manifest says of it."""

    dataset: Dataset
    target: Target
    recorded: str | None


def build_index(
    path: Paths,
    columns: Columns = None,
    to: PathLike | None = None,
    *,
    filesystem: Any = None,
    table_log: OnTableLog = "error",
    progress: Progress | None = None,
) -> IndexInfo:
    """Build the index of the Parquet or ORC files at `path`, from which plans then read a few kilobytes instead of
    footers and filters.

    The index holds what the files' footers and Bloom filters say. No data is read, except for columns with a
    :class:`Bloom`: filters are made of their values where the files have none, for files that must not be changed. It
    lies in ``_bloomparquet_index`` beside the data, where plans find it, or in the directory `to`, which plans are told
    by their option `index`. Files that are written, changed or deleted later are planned without it, as if there were
    no index, until :func:`refresh_index`. An index that was there is replaced.

    * `columns`: which columns; None for all. ``{"user_id": bp.Bloom()}`` makes filters that the files do not have, and
      ``"lower(email)"`` a filter of the lower-case values.
    * `filesystem`, `table_log`: as for :func:`plan`.
    * `progress`: called with the number of files that are done and the number of all files.

    Raises PlanError for a column that no file has, UnsupportedError for a column that cannot have a useful filter, and
    for a :class:`Bloom` if the files are ORC files; ``OSError`` if the index cannot be written. Encrypted and damaged
    files are left out.

    >>> info = bp.build_index("events.parquet")
    >>> (info.files, info.row_groups)
    (1, 4)
    >>> bp.plan("events.parquet", "user_id = 4711")
    1 of 4 row groups kept; 3 skipped by Bloom filter; index: 1 of 1 files
    >>> bp.drop_index("events.parquet")
    """
    wanted = IndexColumns.parse(columns)
    place = _locate(path, to, filesystem, table_log)
    report = Report()
    segments = list(make_segments(place.target, place.dataset, wanted, report, progress))
    if report.missing:
        remove_segments(place.target, segments)
        raise PlanError(f"no file below {place.target.root} has the columns {join_names(sorted(report.missing))}")
    return commit(place.target, place.recorded, wanted, segments, report)


def refresh_index(
    path: Paths,
    to: PathLike | None = None,
    *,
    filesystem: Any = None,
    table_log: OnTableLog = "error",
    progress: Progress | None = None,
) -> IndexInfo:
    """Bring the index of the files at `path` up to date: files that are new or changed are indexed.

    The columns are those of the build. Small segments, and segments most of whose files are gone, are made anew; the
    others stay. Arguments and errors as for :func:`build_index`; PlanError if there is no index.
    """
    place = _locate(path, to, filesystem, table_log)
    target = place.target
    manifest = _require_manifest(target)
    try:
        wanted = IndexColumns.from_json(manifest.columns)
    except (KeyError, TypeError) as error:
        raise PlanError(f"{target.directory}/{MANIFEST}: unknown columns ({error}); build the index again") from error
    live = set(place.dataset.files)
    kept, covered = _kept_segments(target, manifest, live)
    new = [file for file in place.dataset.files if file not in covered]
    report = Report(format=manifest.format)
    made = list(make_segments(target, _with_files(place.dataset, new), wanted, report, progress)) if new else []
    return commit(target, place.recorded, wanted, [*kept, *made], report)


def drop_index(
    path: Paths, to: PathLike | None = None, *, filesystem: Any = None, table_log: OnTableLog = "error"
) -> None:
    """Delete the index of the files at `path`. Nothing happens if there is none."""
    target = _locate(path, to, filesystem, table_log).target
    filesystem = target.storage.filesystem
    with suppress(FileNotFoundError):
        filesystem.delete_file(f"{target.directory}/{MANIFEST}")  # first: no reader may miss a segment
    collect_leftovers(target, ())
    with suppress(OSError):  # something else lies there
        if isinstance(target.storage, LocalStorage):
            os.rmdir(target.directory)
    forget_indexes()


def read_index_info(
    path: Paths, to: PathLike | None = None, *, filesystem: Any = None, table_log: OnTableLog = "error"
) -> IndexInfo:
    """The index of the files at `path`, as it is. Raises PlanError if there is none."""
    target = _locate(path, to, filesystem, table_log).target
    return _info(target, _require_manifest(target), Report())


def make_segments(
    target: Target, dataset: Dataset, columns: IndexColumns, report: Report, progress: Progress | None = None
) -> Iterator[SegmentEntry]:
    """Write segments of the files of `dataset`, which no plan uses before :func:`commit`. Sets ``report.format`` if it
    is not known yet."""
    done, total = 0, len(dataset.files)
    if report.format is None:
        report.format = _find_format(dataset, report)
    if report.format is FileFormat.ORC and columns.makes_filters:
        raise UnsupportedError(
            f"{target.root}: filters cannot be made of ORC files; name the columns without a bloomparquet.Bloom, and "
            "without lower() or upper()"
        )
    reader = _reader_of(report.format)
    for files, footers in _portions(dataset.storage, dataset.files, report, reader):
        segment = write_segment(target, dataset.storage, files, footers, columns, report, reader)
        done += len(files)
        if progress is not None:
            progress(min(done + len(report.left_out), total), total)
        if segment is not None:
            yield segment


def commit(
    target: Target, root: str | None, columns: IndexColumns, segments: Sequence[SegmentEntry], report: Report
) -> IndexInfo:
    """Make `segments` the index. What an earlier index or a killed build left is removed afterwards."""
    manifest = Manifest(report.format or FileFormat.PARQUET, root, columns.to_json(), tuple(segments))
    path = f"{target.directory}/{MANIFEST}"
    target.storage.make_parents(path)
    with replacing(target.storage, path) as output:
        output.write(manifest.to_bytes())
        output.commit()
    collect_leftovers(target, segments)
    forget_indexes()
    return _info(target, manifest, report)


def remove_segments(target: Target, segments: Iterable[SegmentEntry]) -> None:
    """Delete segments that are not part of an index."""
    for segment in segments:
        with suppress(OSError):
            target.storage.filesystem.delete_file(f"{target.directory}/{segment.name}")


def collect_leftovers(target: Target, keep: Sequence[SegmentEntry]) -> None:
    """Delete the segments in the directory of an index that are not to `keep`."""
    names = {segment.name for segment in keep}
    selector = pyarrow.fs.FileSelector(target.directory, allow_not_found=True)
    for info in target.storage.filesystem.get_file_info(selector):
        name = info.base_name
        is_ours = name.endswith(SEGMENT_SUFFIX) or (name.startswith(".") and SEGMENT_SUFFIX in name)
        if is_ours and info.type == pyarrow.fs.FileType.File and name not in names:
            with suppress(OSError):
                target.storage.filesystem.delete_file(info.path)


def _locate(path: Paths, to: PathLike | None, filesystem: Any, table_log: OnTableLog) -> _Place:
    dataset = Dataset.open(path, filesystem=filesystem, partitioned=False, table_log=table_log)
    root = data_root(dataset.files)
    if to is None:
        target = Target(dataset.storage, f"{root}/{DIRECTORY}", root + "/")
        return _Place(dataset, target, None)
    storage, directory = open_storage(os.fspath(to))
    if os.fspath(to) in ("auto", "off"):
        raise OptionError(f"to is {to!r}; expected a directory")
    if isinstance(storage, LocalStorage):
        directory = os.path.abspath(directory)
    return _Place(dataset, Target(storage, directory.rstrip("/"), root + "/"), root + "/")


def _with_files(dataset: Dataset, files: Sequence[FileInfo]) -> Dataset:
    return Dataset(dataset.storage, tuple(files), (), ((),) * len(files))


def _find_format(dataset: Dataset, report: Report) -> FileFormat:
    """The format of the files; the first of them tell it."""
    if dataset.format is not None:
        return dataset.format
    orc = orc_files(dataset.storage, dataset.files[:_FILES_OF_A_FORMAT], report.reads)
    return FileFormat.ORC if orc else FileFormat.PARQUET


def _reader_of(file_format: FileFormat) -> Reader:
    if file_format is FileFormat.PARQUET:
        return PARQUET
    from bloomparquet.indexing.orc import ORC  # lazy import: keeps ORC off the start-up path

    return ORC


def _portions(
    storage: Storage, files: Sequence[FileInfo], report: Report, reader: Reader
) -> Iterator[tuple[list[FileInfo], list[Any]]]:
    """The files of each segment, with their footers."""
    some: list[FileInfo] = []
    footers: list[Any] = []
    row_groups = filter_bytes = 0
    for first in range(0, len(files), _FILES_AT_ONCE):
        read = files[first : first + _FILES_AT_ONCE]
        kept, kept_footers = reader.read_files(storage, read, report)
        for file, footer in zip(kept, kept_footers, strict=True):
            groups, size = reader.size(footer)
            full = row_groups + groups > MOST_ROW_GROUPS or filter_bytes + size > MOST_FILTER_BYTES
            if some and full:
                yield some, footers
                some, footers, row_groups, filter_bytes = [], [], 0, 0
            some.append(file)
            footers.append(footer)
            row_groups += groups
            filter_bytes += size
    if some:
        yield some, footers


def _require_manifest(target: Target) -> Manifest:
    try:
        read = read_manifest(target.storage, target.directory, ReadCount())
    except DamagedFileError as error:
        raise PlanError(str(error)) from error
    if read is None:
        raise PlanError(f"{target.directory}: there is no index here; build one with bloomparquet index build")
    return read[1]


def _kept_segments(target: Target, manifest: Manifest, live: set[FileInfo]) -> tuple[list[SegmentEntry], set[FileInfo]]:
    """The segments that a refresh keeps, and the files that they cover."""
    opened = OpenIndex(target.storage, target.directory, target.root, manifest)
    by_path = {f"{target.directory}/{entry.name}": entry for entry in manifest.segments}
    kept: list[SegmentEntry] = []
    covered: set[FileInfo] = set()
    for file in opened.open_segments(ReadCount()):
        entry = by_path[file.path]
        current = _live_files(file, target.root, live)
        if len(current) * 2 >= entry.files:
            kept.append(entry)
            covered |= current
    return kept, covered


def _live_files(file: SectionFile, root: str, live: set[FileInfo]) -> set[FileInfo]:
    try:
        return live.intersection(files_of_segment(file, root, ReadCount()))
    except DamagedFileError:
        return set()


def _info(target: Target, manifest: Manifest, report: Report) -> IndexInfo:
    segments = manifest.segments
    files, row_groups, size = (sum(map(attrgetter(name), segments)) for name in ("files", "row_groups", "bytes"))
    return IndexInfo(target.directory, files, row_groups, len(segments), size, report.left_out)
