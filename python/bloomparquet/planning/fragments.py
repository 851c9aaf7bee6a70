"""Kept row groups as a pyarrow data set, which other engines read: one fragment for each file."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from numpy.typing import NDArray

from bloomparquet.errors import PlanError, UnsupportedError, join_names, quoted
from bloomparquet.parquet.metadata.footer import Footer
from bloomparquet.planning.arrow_schema import conflict, footer_schemas, keeps_values, views
from bloomparquet.planning.dataset import Dataset
from bloomparquet.planning.evidence.formats import FileFormat
from bloomparquet.planning.evidence.interface import Table
from bloomparquet.planning.open import scan_schema
from bloomparquet.planning.options import PlanOptions
from bloomparquet.planning.parquet.row_groups import RowGroups
from bloomparquet.planning.table_columns import TableColumns
from bloomparquet.query.names import Positions
from bloomparquet.storage.files import FileInfo
from bloomparquet.storage.staleness import checked
from bloomparquet.storage.threads import in_threads

_INSTEAD = "use bloomparquet.scan_batches, whose record batches engines read too"


class _KeptRowGroups(ds.FileSystemDataset):  # type: ignore[misc] # pyarrow has no types
    """A data set of row groups. pyarrow's own counts the rows of whole files."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _KeptRowGroups, super().__reduce__()[1]

    def count_rows(self, filter: ds.Expression | None = None, **options: Any) -> int:  # noqa: A002 - pyarrow's name
        if filter is None:
            with suppress(ValueError):  # the result of filter() has no fragments, and pyarrow counts its rows
                return sum(group.num_rows for fragment in self.get_fragments() for group in fragment.row_groups)
        return int(super().count_rows(filter=filter, **options))


def make_dataset(
    dataset: Dataset,
    table: Table,
    kept: Sequence[tuple[int, list[int]]],
    file_positions: NDArray[Any],
    options: PlanOptions,
    *,
    merge_schema: bool,
) -> ds.Dataset:
    """Make the data set of :meth:`bloomparquet.planning.plan.ScanPlan.to_dataset`.

    `kept`: indexes of files of `table`, each with the numbers of its row groups. ``file_positions[i]``: the index in
    ``dataset.files`` of file i of `table`.
    """
    if table.format is not FileFormat.PARQUET or dataset.format is FileFormat.ORC:
        raise UnsupportedError(
            f"{dataset.files[0].path} is an ORC file; pyarrow's data sets can skip row groups of Parquet files, but "
            f"not stripes of ORC files; {_INSTEAD}"
        )
    partitions = dataset.partition_table(options.timezone or "UTC")
    schema = scan_schema(dataset, options, merge_schema=merge_schema)
    _require_no_deletes(dataset, [(table.paths[file], int(file_positions[file])) for file, _ in kept])
    footers = table.gather([file for file, _ in kept], RowGroups.read_footers)
    parquet = ds.ParquetFileFormat(
        # pyarrow compares no views of text, but dictionaries of text.
        ds.ParquetReadOptions(coerce_int96_timestamp_unit="us", dictionary_columns=views(footers))
    )
    storage = dataset.storage
    fragments, compared = [], set()
    for (file, row_groups), footer in zip(kept, footers, strict=True):
        kind = footer.profile, footer.key_values.get("ARROW:schema"), footer.crypto is None
        if kind not in compared:
            compared.add(kind)
            if dataset.columns is not None:
                _require_names(table.paths[file], footer, dataset.columns)
            columns = [field for field in schema if field.name not in dataset.partition_names]
            _require_same_values(table.paths[file], footer, columns, options.case_sensitive)
        values = partitions.slice(int(file_positions[file]), 1)
        _require_text(table.paths[file])
        fragment = parquet.make_fragment(table.paths[file], storage.filesystem, _guarantee(values), row_groups)
        fragments.append((table.files[file], fragment))

    def read_footer(planned: tuple[FileInfo, ds.ParquetFileFragment]) -> ds.ParquetFileFragment:
        # pyarrow keeps the footer. So the row groups that engines read are those of the planned version, by their
        # offsets. In another version, reading them is an error, unless pages begin there too.
        file, fragment = planned
        for _ in checked(storage, file, map(ds.ParquetFileFragment.ensure_complete_metadata, [fragment])):
            pass
        return fragment

    complete = list(in_threads(storage.threads, read_footer, fragments))
    return _KeptRowGroups(complete, schema, parquet, storage.filesystem)


def _guarantee(values: pa.Table) -> ds.Expression:
    """The expression from which pyarrow takes the partition columns of a file. `values` has one row."""
    guarantee = ds.scalar(True)
    for name in values.column_names:
        field, value = ds.field((name,)), values.column(name)[0]
        one = field == value if value.is_valid else field.is_null()
        guarantee = one if name == values.column_names[0] else guarantee & one
    return guarantee


def _require_text(path: str) -> None:
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UnsupportedError(
            f"{quoted(path)}: the name of this file is not UTF-8, and pyarrow's data sets need text; rename the file, "
            f"or {_INSTEAD}"
        ) from None


def _require_no_deletes(dataset: Dataset, kept: Sequence[tuple[str, int]]) -> None:
    deleting = [path for path, position in kept if dataset.deletes and dataset.deletes[position] is not None]
    if deleting:
        raise UnsupportedError(
            f"{deleting[0]}: some rows of this file are deleted (one of {len(deleting)} such files), which pyarrow "
            f"data sets cannot describe; {_INSTEAD}, or compact the table"
        )


def _require_names(path: str, footer: Footer, columns: TableColumns) -> None:
    if not columns.are_stored_by_name(footer.profile.schema):
        raise UnsupportedError(
            f"{path}: this file stores columns under other names than the table (column mapping, renamed columns), or "
            f"lacks columns that have a value there, which pyarrow data sets cannot describe; {_INSTEAD}"
        )


def _require_same_values(path: str, footer: Footer, columns: Sequence[pa.Field], case_sensitive: bool) -> None:
    """Raise an error if pyarrow would read other values from a file than :func:`bloomparquet.read_table` does.

    pyarrow finds columns by their exact names, returns NULLs for those that it does not find, and casts other types.
    """
    if footer.crypto is not None:
        raise UnsupportedError(f"{path}: the file is encrypted, and other engines do not get its keys; {_INSTEAD}")
    (stored,) = footer_schemas([footer])
    stored_names = stored.names
    positions = Positions(stored_names, case_sensitive)
    for column in columns:
        names = [stored_names[i] for i in positions.find(column.name)]
        if names and names != [column.name]:
            raise PlanError(
                f"{path}: column {quoted(column.name)} is named {join_names(map(repr, names))} here; pyarrow's data "
                f"sets need one name for a column; {_INSTEAD}"
            )
        if names and not keeps_values(stored.field(column.name).type, column.type):
            raise conflict(path, stored.field(column.name).type, column)
