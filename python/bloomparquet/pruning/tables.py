"""The table of units that files amount to, of the format that they turn out to have.

What a data set does not say of its format, its files' first and last bytes do: they are taken for Parquet until one is
none. Which files were ORC is remembered, so that this is found out once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

from bloomparquet.dataset import Dataset
from bloomparquet.errors import EncryptionError, NotParquetError
from bloomparquet.pruning.cache import FooterCache
from bloomparquet.pruning.evidence import Table
from bloomparquet.storage import FileInfo, ReadCount

_MOST_REMEMBERED = 1 << 18

cache = FooterCache()
"""Shared by all plans of this process; ``cache.clear()`` forgets it, ``cache.use_disk()`` shares it with others."""

_orc: OrderedDict[tuple[str, FileInfo], None] = OrderedDict()  # files that were found to be ORC
_lock = Lock()


def open_table(
    dataset: Dataset,
    files: Sequence[FileInfo],
    reads: ReadCount,
    *,
    skip_corrupt: bool,
    locked: dict[FileInfo, EncryptionError] | None = None,
) -> Table:
    """The units of `files`, which are some of those of `dataset`; what is not known of them is read.

    `skip_corrupt` passes over files that are damaged, `locked` takes those that are encrypted and do not open.
    Otherwise raises NotParquetError for files of neither format, PlanError for files of both, and what is wrong with
    the first that cannot be read.
    """
    storage, is_orc = dataset.storage, dataset.format == "orc"
    if dataset.format is None and files:
        with _lock:
            is_orc = (storage.key, files[0]) in _orc
    if not is_orc:
        try:
            table = cache.row_groups(storage, files, reads, skip_corrupt=skip_corrupt, locked=locked)
            if table.files or locked or dataset.format or not _are_orc(dataset, files, reads, skip_corrupt):
                return table
        except NotParquetError:
            if dataset.format or not _are_orc(dataset, files, reads, skip_corrupt):
                raise
    # Imported here, because who has no ORC files shall not wait for it.
    from bloomparquet.pruning.orc.cache import cache as orc_cache

    return orc_cache.stripes(storage, files, reads, skip_corrupt=skip_corrupt, locked=locked)


def _are_orc(dataset: Dataset, files: Sequence[FileInfo], reads: ReadCount, skip_corrupt: bool) -> bool:
    from bloomparquet.pruning.orc.cache import require_orc

    if not files or not require_orc(dataset, files, reads, skip_corrupt=skip_corrupt):
        return False
    with _lock:
        _orc.update(((dataset.storage.key, file), None) for file in files)
        while len(_orc) > _MOST_REMEMBERED:
            _orc.popitem(last=False)
    return True
