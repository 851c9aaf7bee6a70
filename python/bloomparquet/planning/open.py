"""The table of units that files amount to, of the format that they turn out to have.

What a data set does not say of its format, its files' first and last bytes do: they are taken for Parquet until one is
none. Which files were ORC is remembered, so that this is found out once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from threading import Lock

from bloomparquet.errors import BloomParquetError, NotParquetError, PlanError
from bloomparquet.planning.dataset import Dataset
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.evidence.interface import Table
from bloomparquet.planning.parquet.cache import FooterCache, process_cache
from bloomparquet.storage.files import FileInfo, ReadCount, Storage

_MOST_REMEMBERED = 1 << 18

_orc: OrderedDict[tuple[Hashable, FileInfo], bool] = OrderedDict()  # whether files were found to be ORC
_lock = Lock()


def open_table(
    dataset: Dataset,
    files: Sequence[FileInfo],
    reads: ReadCount,
    *,
    skip_corrupt: bool,
    unreadable: dict[FileInfo, BloomParquetError] | None = None,
    cache: FooterCache = process_cache,
) -> Table:
    """The units of `files`, which are some of those of `dataset`; what is not known of them is read.

    `skip_corrupt` passes over files that are damaged, `unreadable` takes those that are encrypted and do not open, or
    hold more than is read.
    Otherwise raises NotParquetError for files of neither format, PlanError for files of both, and what is wrong with
    the first that cannot be read.
    """
    storage, told = dataset.storage, dataset.format is not None
    with _lock:
        is_orc = dataset.format is FileFormat.ORC or (
            not told and bool(files) and _orc.get((storage.key, files[0]), False)
        )
    refused: NotParquetError | None = None
    table: Table | None = None
    if not is_orc:
        try:
            table = cache.row_groups(
                storage, files, reads, keys=dataset.keys, skip_corrupt=skip_corrupt, unreadable=unreadable
            )
        except NotParquetError as error:
            if told:
                raise
            refused = error
        else:
            if table.files or unreadable or told or not files:
                readable = {*table.files, *(unreadable or ())} if not told else files
                if len(readable) < len(files):
                    _refuse_orc(storage, [file for file in files if file not in readable], reads)
                return table
    # Imported here, because who has no ORC files shall not wait for it.
    from bloomparquet.planning.orc.cache import cache as orc_cache

    found = orc_cache.open(storage, files, reads, keys=dataset.keys)
    if not is_orc:
        if not found.is_orc:
            if refused is not None:
                raise NotParquetError(f"{refused}, or an ORC file") from refused
            assert table is not None
            return table
        _remember(storage, dict.fromkeys(found.table.files, True))
    return found.require(skip_corrupt, unreadable, told)


def _refuse_orc(storage: Storage, damaged: Sequence[FileInfo], reads: ReadCount) -> None:
    """PlanError where one of the files that are passed over is no damaged one, but of ORC."""
    from bloomparquet.orc.file_tail import are_orc

    with _lock:
        unknown = [file for file in damaged if (storage.key, file) not in _orc]
    _remember(storage, dict(zip(unknown, are_orc(storage, unknown, reads), strict=True)))
    with _lock:
        one = next((file for file in damaged if _orc.get((storage.key, file))), None)
    if one is not None:
        raise PlanError(
            f"{one.path} is an ORC file, and others are of Parquet; expected files of one format: ask of each apart"
        )


def _remember(storage: Storage, found: Mapping[FileInfo, bool]) -> None:
    with _lock:
        _orc.update(((storage.key, file), is_one) for file, is_one in found.items())
        while len(_orc) > _MOST_REMEMBERED:
            _orc.popitem(last=False)
