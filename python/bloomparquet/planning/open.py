"""Opens the files of a data set as a table of row groups or stripes, and detects their file format.

If the data set does not say its format, the files are read as Parquet first, and as ORC if they are not Parquet. Files
that turned out to be ORC are remembered, so that they are not read as Parquet again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from bloomparquet.errors import BloomParquetError, NotParquetError, PlanError, quoted
from bloomparquet.planning.arrow_schema import footer_schemas, unify, with_partitions
from bloomparquet.planning.cache.plan_cache import PlanCache, process_cache
from bloomparquet.planning.dataset import Dataset
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.evidence.interface import Table
from bloomparquet.planning.evidence.selection import Selection
from bloomparquet.planning.index.lookup import OpenIndex, find_index
from bloomparquet.planning.parquet.open import open_row_groups
from bloomparquet.planning.parquet.row_groups import RowGroups
from bloomparquet.storage.files import FileInfo, ReadCount, Storage, with_scheme
from bloomparquet.storage.forks import new_lock
from bloomparquet.storage.staleness import checked

if TYPE_CHECKING:
    from bloomparquet.planning.options import PlanOptions
    from bloomparquet.planning.orc.open import OrcFiles

_MOST_REMEMBERED = 1 << 18

_orc_files: dict[tuple[Hashable, FileInfo], bool] = {}  # whether a file that is not Parquet is ORC
_lock = new_lock()


def open_table(
    dataset: Dataset,
    files: Sequence[FileInfo],
    reads: ReadCount,
    *,
    left_out: dict[FileInfo, BloomParquetError] | None = None,
    unreadable: dict[FileInfo, BloomParquetError] | None = None,
    cache: PlanCache = process_cache,
    index: OpenIndex | None = None,
) -> Table:
    """The row groups or stripes of `files`, which are some of the files of `dataset`. Reads what neither `index` nor
    `cache` has.

    `left_out` collects the errors of damaged files, and `unreadable` those of files that cannot be decrypted or exceed
    a limit; without them, these errors are raised. Raises NotParquetError for files of neither format, PlanError for
    files of both, and the error of the first file that cannot be read.
    """
    if dataset.keys is not None and not dataset.keys.allow_plaintext_files:
        index = None  # the files in an index are not encrypted: they are read to say so
    indexed = None if index is None else index.manifest.format
    open_parquet = partial(
        open_row_groups, dataset.storage, files, reads, cache=cache, keys=dataset.keys, left_out=left_out,
        unreadable=unreadable, index=index if indexed is FileFormat.PARQUET else None,
    )  # fmt: skip
    if dataset.format is FileFormat.PARQUET:
        return open_parquet()
    open_orc = partial(_open_orc, dataset, files, reads, cache, index if indexed is FileFormat.ORC else None)
    is_declared = dataset.format is FileFormat.ORC
    if is_declared or indexed is FileFormat.ORC or (files and _is_orc(dataset.storage, files[0])):
        known = open_orc()
        if is_declared or known.is_orc:
            return known.require(left_out, unreadable, is_declared=is_declared)
    return _detect_format(dataset, files, reads, open_parquet, open_orc, left_out, unreadable)


def open_part(dataset: Dataset, reads: ReadCount) -> Table:
    """The row groups or stripes of all files of `dataset` as one part. Reads the files again if the cache has them in
    several."""
    table = open_table(dataset, dataset.files, reads)
    if isinstance(table, Selection):
        table = open_table(dataset, dataset.files, reads, cache=PlanCache())
    return table


def _detect_format(
    dataset: Dataset,
    files: Sequence[FileInfo],
    reads: ReadCount,
    open_parquet: Callable[[], Table],
    open_orc: Callable[[], OrcFiles],
    left_out: dict[FileInfo, BloomParquetError] | None,
    unreadable: dict[FileInfo, BloomParquetError] | None,
) -> Table:
    """Open `files` as Parquet files; as ORC files if none of them is a Parquet file."""
    table, refused = None, None
    try:
        table = open_parquet()
    except NotParquetError as error:
        refused = error
    if table is not None and len(table.files) == len(files):
        return table
    if table is not None and (table.files or unreadable):
        opened = {*table.files, *(unreadable or ())}
        damaged = [file for file in files if file not in opened]
        for file in orc_files(dataset.storage, damaged, reads):
            raise PlanError(
                f"{file.path} is an ORC file, and others are Parquet files; expected files of one format: read each "
                "format separately"
            )
        return table
    known = open_orc()
    if known.is_orc:
        _remember(dataset.storage, ((file, True) for file in known.table.files))
        if left_out is not None:  # of all files, that they are not Parquet files
            left_out.clear()
        return known.require(left_out, unreadable, is_declared=False)
    if table is None:
        remedy = "" if len(files) == 1 else _without_file(dataset, files, str(refused))
        raise NotParquetError(f"{refused}, or an ORC file{remedy}") from refused
    return table


def _without_file(dataset: Dataset, files: Sequence[FileInfo], message: str) -> str:
    """The remedy for the one of `files` that `message` begins with, which is not a Parquet file."""
    path = next((file.path for file in files if message.startswith(f"{file.path}: ")), "")
    if path.endswith((".parquet", ".orc")):  # a glob for the others would find this file too
        return (
            "; restore the file, move it away, or leave it out of plans and reads: skip_corrupt=True in Python, "
            "--skip-corrupt on the command line, ignoreCorruptFiles in Spark"
        )
    if dataset.partition_names:  # a glob has no partition columns
        return "; move the file out of the directory of the data"
    below = "" if all(file.path.rpartition("/")[0] == dataset.root.rstrip("/") for file in files) else "**/"
    pattern = quoted(with_scheme(dataset.storage, f"{dataset.root}{below}*.parquet"))
    return f"; name the data files alone, for example by a glob: {pattern}"


def _open_orc(
    dataset: Dataset, files: Sequence[FileInfo], reads: ReadCount, cache: PlanCache, index: OpenIndex | None
) -> OrcFiles:
    from bloomparquet.planning.orc.open import open_stripes  # lazy import: keeps ORC off the start-up path

    return open_stripes(dataset.storage, files, reads, cache=cache, keys=dataset.keys, index=index)


def scan_schema(dataset: Dataset, options: PlanOptions, *, merge_schema: bool) -> pa.Schema:
    """The columns of a scan. If the data set is a table, its columns; else the columns of the first file that is not
    corrupt, or of all files with `merge_schema`, and then the partition columns."""
    if dataset.columns is not None:
        return dataset.columns.schema

    def schemas_of(files: Sequence[FileInfo]) -> Iterator[pa.Schema]:
        table = open_table(
            dataset, files, ReadCount(), left_out={} if options.skip_corrupt else None, cache=options.cache
        )
        if table.format is FileFormat.PARQUET:
            return footer_schemas(table.gather(range(len(table.files)), RowGroups.read_footers))
        from bloomparquet.orc.rows import arrow_schema  # lazy imports: see _open_orc
        from bloomparquet.planning.orc.stripes import tails_of

        return map(arrow_schema, table.gather(range(len(table.files)), tails_of))

    if merge_schema:
        stored = unify(schemas_of(dataset.files))
    else:
        one_by_one = (schema for file in dataset.files for schema in checked(dataset.storage, file, schemas_of([file])))
        stored = next(one_by_one, pa.schema([]))
    partitions = dataset.partition_table(options.timezone or "UTC")
    return with_partitions(stored, partitions.schema, options.case_sensitive)


def has_expression_filters(dataset: Dataset, options: PlanOptions) -> bool:
    """Whether there may be Bloom filters of ``lower(column)`` or ``upper(column)``. Only an index has them."""
    if not dataset.files:
        return False
    opened = find_index(dataset.storage, dataset.root, options.index, ReadCount())
    return opened is not None and opened.manifest.has_expressions


def orc_files(storage: Storage, files: Sequence[FileInfo], reads: ReadCount) -> list[FileInfo]:
    """The ORC files among `files`, none of which is a Parquet file."""
    unknown = [file for file in files if _is_orc(storage, file) is None]
    if unknown:
        from bloomparquet.orc.file_tail import are_orc  # lazy import: keeps ORC off the start-up path

        _remember(storage, zip(unknown, are_orc(storage, unknown, reads), strict=True))
    return [file for file in files if _is_orc(storage, file)]


def _is_orc(storage: Storage, file: FileInfo) -> bool | None:
    """Whether a file was found to be ORC; None if that is not remembered."""
    with _lock:
        return _orc_files.get((storage.key, file))


def _remember(storage: Storage, files: Iterable[tuple[FileInfo, bool]]) -> None:
    with _lock:
        _orc_files.update(((storage.key, file), is_orc) for file, is_orc in files)
        while len(_orc_files) > _MOST_REMEMBERED:
            del _orc_files[next(iter(_orc_files))]
