"""The public data set: files that are listed, or named by a table's log, and what can be done with them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bloomparquet.errors import UnsupportedError
from bloomparquet.indexing.build import IndexInfo, build_index
from bloomparquet.indexing.columns import Columns
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.planning import dataset as files
from bloomparquet.planning.dataset import PathLike
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.options import OnFilterError, PlanOptions
from bloomparquet.planning.plan import KEPT, ScanPlan
from bloomparquet.planning.planner import Where, plan_dataset
from bloomparquet.reading.scan import scan_batches
from bloomparquet.tables.delta import open_delta
from bloomparquet.tables.iceberg import open_iceberg
from bloomparquet.writing.advice.advise import SAMPLE_BYTES, advise
from bloomparquet.writing.filters.spec import AUTO, Fpp

if TYPE_CHECKING:
    import pyarrow.dataset as ds
    from deltalake import DeltaTable
    from pyiceberg.table import Table as IcebergTable


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
    ) -> Dataset:
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
    ) -> Dataset:
        """The rows of an Iceberg table: its live files, without the rows that position deletes and deletion vectors
        delete.

        Columns have the names and types of the table's schema, and are found in the files by field id, or by the
        table's name mapping in files without ids. In files that are older than a column, it has its initial default
        value or is null. Needs the package ``pyiceberg`` (``bloomparquet[iceberg]``).

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
        options = PlanOptions(
            timezone=timezone, case_sensitive=case_sensitive, on_filter_error=on_filter_error, index=os.fspath(index)
        )
        return plan_dataset(self, where, options)

    def read_table(
        self,
        where: Where = None,
        columns: Sequence[str] | None = None,
        *,
        timezone: str | None = "UTC",
        case_sensitive: bool = True,
        on_filter_error: OnFilterError = "keep",
        index: PathLike = "auto",
    ) -> pa.Table:
        """Exactly the rows for which `where` is TRUE; see :func:`bloomparquet.read_table`."""
        batches = self.scan_batches(
            where, columns, timezone=timezone, case_sensitive=case_sensitive, on_filter_error=on_filter_error,
            index=index,
        )  # fmt: skip
        return batches.read_all()

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
        """The row groups that might match `where` as a pyarrow data set, for engines that read those.

        The rows are not filtered: the engine does that. Raises UnsupportedError if a file that is read has deleted
        rows, or columns under other names than the table's: no pyarrow data set can describe these.
        """
        import pyarrow.dataset as ds  # lazy import: most uses need none

        plan = self.plan(where)
        _require_plain(plan)
        file_format = ds.ParquetFileFormat(ds.ParquetReadOptions(coerce_int96_timestamp_unit="us"))
        partitions = self.partition_table("UTC")
        fragments = [
            file_format.make_fragment(
                plan.table.paths[file],
                self.storage.filesystem,
                _partition_expression(partitions, int(plan.file_positions[file])),
                row_groups=row_groups,
            )
            for file, row_groups in plan.kept_by_file()
        ]
        schema = self.scan_batches(columns=None).schema
        return ds.FileSystemDataset(fragments, schema, file_format, self.storage.filesystem)

    def build_index(self, columns: Columns = None, to: PathLike | None = None) -> IndexInfo:
        """Build the index of these files; see :func:`bloomparquet.build_index`. Columns are named as in the table."""
        return build_index(self, columns, to)

    def advise(self, *, fpp: Fpp = AUTO, sample: int = SAMPLE_BYTES) -> pa.Table:
        """Where Bloom filters are worth their size; see :func:`bloomparquet.advise`. Columns have their names in the
        files."""
        return advise(self, fpp=fpp, sample=sample)


def vars_of(dataset: files.Dataset) -> dict[str, Any]:
    """The fields of `dataset`, from which a :class:`Dataset` can be made."""
    return {name: getattr(dataset, name) for name in files.Dataset.__dataclass_fields__}


def _require_plain(plan: ScanPlan) -> None:
    dataset = plan.dataset
    if plan.table.files and plan.table.format is not FileFormat.PARQUET:
        raise UnsupportedError(
            f"{plan.table.paths[0]} is an ORC file, whose stripes pyarrow data sets cannot skip; use read_table or "
            "scan_batches"
        )
    if unreadable := next(iter(plan.unreadable), None):
        raise plan.unreadable[unreadable]
    kept = np.flatnonzero(plan.codes == KEPT)
    for i, schema in enumerate(plan.table.schemas if dataset.columns is not None else ()):
        members = np.intersect1d(plan.table.members(i), kept)
        if dataset.columns is not None and len(members) and not dataset.columns.are_stored_by_name(schema):
            raise UnsupportedError(
                f"{plan.table.paths[plan.table.file[members[0]]]}: this file stores columns under other names than the "
                "table (column mapping, renamed columns), or lacks columns that have a value there, which pyarrow data "
                "sets cannot describe; use read_table or scan_batches"
            )
    read = plan.file_positions[np.unique(plan.table.file[kept])]
    deleting = [i for i in read.tolist() if dataset.deletes and dataset.deletes[i] is not None]
    if deleting:
        raise UnsupportedError(
            f"{dataset.files[deleting[0]].path}: some rows of this file are deleted (one of {len(deleting)} such "
            "files), which pyarrow data sets cannot describe; use read_table or scan_batches, or compact the table"
        )


def _partition_expression(partitions: pa.Table, position: int) -> pc.Expression | None:
    """The values of the partition columns in the file at `position`, from which pyarrow makes the columns."""
    expression = None
    for name in partitions.column_names:
        value, field = partitions.column(name)[position], pc.field(name)
        term = field == value if value.is_valid else field.is_null()
        expression = term if expression is None else expression & term
    return expression
