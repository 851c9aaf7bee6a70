"""The public data set: files that are listed, or named by a table's log, and methods that plan, read and index them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bloomparquet.indexing.build import IndexInfo, build_index
from bloomparquet.indexing.columns import Columns
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.planning import dataset as files
from bloomparquet.planning.dataset import PathLike
from bloomparquet.planning.options import OnFilterError
from bloomparquet.planning.plan import ScanPlan
from bloomparquet.planning.planner import Where, plan
from bloomparquet.query.sql.parse import parse_where
from bloomparquet.reading.scan import count, read_table, scan_batches
from bloomparquet.tables.delta import open_delta
from bloomparquet.tables.iceberg import open_iceberg
from bloomparquet.writing.advice.advise import SAMPLE_BYTES, advise
from bloomparquet.writing.filters.spec import AUTO, Fpp

if TYPE_CHECKING:
    import pyarrow.dataset as ds
    from deltalake import DeltaTable
    from pyiceberg.table import Table as IcebergTable
    from typing_extensions import Self


class Dataset(files.Dataset):
    __doc__ = files.Dataset.__doc__

    @classmethod
    def from_delta(
        cls,
        table: PathLike | DeltaTable,
        *,
        version: int | None = None,
        storage_options: dict[str, str] | None = None,
        filesystem: Any = None,
        keys: Keys | None = None,
    ) -> Self:
        """The rows of a Delta Lake table: its live files, without the rows that deletion vectors delete.

        Columns have the names and types of the table's schema, whatever the files call them (column mapping), and are
        null in files that are older than the column. Needs the package ``deltalake`` (``bloomparquet[delta]``).

        * `table`: the directory or URL of the table, or an open ``deltalake.DeltaTable``, whose version is read.
        * `version`: the version of the table; None for the newest one, or that of the open table.
        * `storage_options`: how ``deltalake`` opens the log.
        * `filesystem`: a pyarrow or fsspec file system for the data files.
        * `keys`: decrypt encrypted files.

        Raises UnsupportedError for a table that needs a feature that is not supported here, and FileNotFoundError and
        FileChangedError for live files that are gone or differ from the log. The statistics in the log skip nothing.
        """
        return cls(**vars_of(open_delta(table, version, storage_options, filesystem, keys)))

    @classmethod
    def from_iceberg(
        cls,
        table: IcebergTable | PathLike,
        *,
        snapshot_id: int | None = None,
        filesystem: Any = None,
        keys: Keys | None = None,
    ) -> Self:
        """The rows of an Iceberg table: its live files, without the deleted rows.

        Deleted rows are those of position deletes and deletion vectors. Columns have the names and types of the table's
        schema, and are found in the files by field id, or by the table's name mapping in files without ids. In files
        that are older than a column, the column has its initial default value or is null. Needs the package
        ``pyiceberg`` (``bloomparquet[iceberg]``).

        * `table`: a ``pyiceberg.table.Table``, or the path of a metadata file (``….metadata.json``).
        * `snapshot_id`: the snapshot to read, with the schema that it was written with; None for the current one.
        * `filesystem`: a pyarrow or fsspec file system for the files; None: the one with which pyiceberg opens them.
        * `keys`: decrypt encrypted files.

        Raises UnsupportedError for equality deletes that concern a live file, and for files that are not Parquet;
        FileNotFoundError and FileChangedError for live files that are gone or differ from the manifest.
        The statistics in manifests skip nothing.
        """
        return cls(**vars_of(open_iceberg(table, snapshot_id, filesystem, keys)))

    def plan(
        self,
        where: Where = None,
        *,
        timezone: str | None = "UTC",
        case_sensitive: bool = True,
        on_filter_error: OnFilterError = "keep",
        index: PathLike = "auto",
    ) -> ScanPlan:
        """Plan a scan of these files; see :func:`bloomparquet.plan`."""
        return plan(
            self, where, timezone=timezone, case_sensitive=case_sensitive, on_filter_error=on_filter_error, index=index
        )

    def read_table(
        self,
        where: Where = None,
        columns: Sequence[str] | None = None,
        *,
        timezone: str | None = "UTC",
        case_sensitive: bool = True,
        on_filter_error: OnFilterError = "keep",
        index: PathLike = "auto",
        limit: int | None = None,
    ) -> pa.Table:
        """Exactly the rows for which `where` is TRUE; see :func:`bloomparquet.read_table`."""
        return read_table(
            self, where, columns, timezone=timezone, case_sensitive=case_sensitive, on_filter_error=on_filter_error,
            index=index, limit=limit,
        )  # fmt: skip

    def count(
        self,
        where: Where = None,
        *,
        timezone: str | None = "UTC",
        case_sensitive: bool = True,
        on_filter_error: OnFilterError = "keep",
        index: PathLike = "auto",
    ) -> int:
        """The number of rows for which `where` is TRUE; see :func:`bloomparquet.count`."""
        return count(
            self, where, timezone=timezone, case_sensitive=case_sensitive, on_filter_error=on_filter_error, index=index
        )

    def scan_batches(
        self,
        where: Where = None,
        columns: Sequence[str] | None = None,
        *,
        timezone: str | None = "UTC",
        case_sensitive: bool = True,
        on_filter_error: OnFilterError = "keep",
        index: PathLike = "auto",
    ) -> pa.RecordBatchReader:
        """The rows of :meth:`read_table` as record batches; see :func:`bloomparquet.scan_batches`."""
        return scan_batches(
            self, where, columns, timezone=timezone, case_sensitive=case_sensitive, on_filter_error=on_filter_error,
            index=index,
        )  # fmt: skip

    def to_dataset(self, where: Where = None) -> ds.Dataset:
        """The row groups that might match `where` as a pyarrow data set, for engines that read pyarrow data sets.

        The rows are not filtered: the engine does that. Raises PlanError for a condition of SQL text that is not
        supported; and UnsupportedError if a file that is read has deleted rows, or columns under other names than the
        table's: no pyarrow data set can describe these.
        """
        return self.plan(parse_where(where)).to_dataset()

    def build_index(self, columns: Columns = None, to: PathLike | None = None) -> IndexInfo:
        """Build the index of these files; see :func:`bloomparquet.build_index`. Columns are named as in the table."""
        return build_index(self, columns, to)

    def advise(self, *, fpp: Fpp = AUTO, sample: int = SAMPLE_BYTES) -> pa.Table:
        """Assess the columns for which Bloom filters are worth their size; see :func:`bloomparquet.advise`.

        Columns have the names that they have in the files.
        """
        return advise(self, fpp=fpp, sample=sample)


def vars_of(dataset: files.Dataset) -> dict[str, Any]:
    """The fields of `dataset`, from which a :class:`Dataset` can be made."""
    return {name: getattr(dataset, name) for name in files.Dataset.__dataclass_fields__}
