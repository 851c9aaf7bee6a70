"""Reading the rows: the row groups that a plan kept, by pyarrow, filtered to exactly the rows that match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bloomparquet.dataset import Dataset, Paths
from bloomparquet.errors import EncryptionError, FormatError, PlanError, nearest
from bloomparquet.format.footer import Footer
from bloomparquet.format.plain import Images
from bloomparquet.names import Names, find
from bloomparquet.predicate import columns as columns_of
from bloomparquet.pruning.plan import ScanPlan
from bloomparquet.pruning.planner import Where, cache, plan
from bloomparquet.pruning.rowgroups import is_unchanged
from bloomparquet.residual import bind
from bloomparquet.storage import FileInfo, ReadCount, Storage
from bloomparquet.unify import as_instants, fit, int96_columns, unify

BATCH_ROWS = 64 * 1024


def read_table(
    path: Paths | Dataset,
    where: Where = None,
    *,
    columns: Sequence[str] | None = None,
    merge_schema: bool = False,
    **planning: Any,
) -> pa.Table:
    """Exactly the rows at `path` for which `where` is TRUE, in file order; other row groups are not read.

    `columns` names top-level columns and partition columns, in the order wanted; None takes all, partition columns
    last. As for ``spark.read.parquet`` the first file says what the columns are, whatever `where` is; with
    `merge_schema` they are those of all files together, and every footer is read. `planning` takes the keywords of
    :func:`bloomparquet.plan`, and errors are as there; a file whose column does not fit is a :class:`PlanError`, and a
    column to be read that its `keys` do not open is an :class:`EncryptionError`.
    """
    scan = _Scan(plan(path, where, **planning), columns, merge_schema, planning)
    return pa.Table.from_batches(scan.batches(), scan.schema)


def scan_batches(
    path: Paths | Dataset,
    where: Where = None,
    *,
    columns: Sequence[str] | None = None,
    merge_schema: bool = False,
    **planning: Any,
) -> Iterator[pa.RecordBatch]:
    """The rows of :func:`read_table` as record batches of one schema, with one file's batch in memory at a time."""
    scan = _Scan(plan(path, where, **planning), columns, merge_schema, planning)
    return scan.batches()


def read_row_groups(
    storage: Storage,
    path: str,
    footer: Footer,
    row_groups: Sequence[int],
    columns: Sequence[str] | None = None,
    *,
    batch_rows: int = BATCH_ROWS,
) -> Iterator[pa.RecordBatch]:
    """Some row groups of the file at `path`, whose footer is `footer`, as record batches; one is decoded at a time.

    `columns` names top-level columns. INT96 comes as ``timestamp[us, UTC]``, the meaning and range that Spark gives it.
    Of an encrypted file one row group's `columns` are in memory at a time; one of them whose key is not at hand is an
    :class:`EncryptionError`, and so is what was altered.
    """
    chosen = None if columns is None else list(columns)
    instants = int96_columns(footer.layout.schema.root)
    read = _read_stored if footer.crypto is None else _read_opened
    for batch in read(storage, path, footer, row_groups, chosen, batch_rows):
        yield as_instants(batch, instants) if instants else batch


def _read_stored(
    storage: Storage, path: str, footer: Footer, row_groups: Sequence[int], columns: list[str] | None, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    with storage.arrow.open_input_file(path) as source:
        file = pq.ParquetFile(
            source, metadata=footer.to_arrow(), coerce_int96_timestamp_unit="us", pre_buffer=storage.threads > 1
        )
        for row_group in row_groups:  # one at a time: over several, pyarrow cannot decode dictionaries inside structs
            yield from file.iter_batches(batch_size=batch_rows, row_groups=[row_group], columns=columns)


def _read_opened(
    storage: Storage, path: str, footer: Footer, row_groups: Sequence[int], columns: list[str] | None, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    images, count = Images(storage, path, footer, columns), ReadCount()
    for row_group in row_groups:
        data, metadata = images.read(row_group, count)
        try:
            file = pq.ParquetFile(pa.BufferReader(data), metadata=metadata, coerce_int96_timestamp_unit="us")
            yield from file.iter_batches(batch_size=batch_rows, columns=columns)
        except (OSError, pa.ArrowException) as error:  # pyarrow's words for damage: no file is read here
            what = next(iter(str(error).splitlines()), type(error).__name__)
            raise FormatError(f"{path}: row group {row_group}: {what}") from error


class _Scan:
    """One plan being read: which columns come from where, and what types the result has."""

    def __init__(
        self, plan: ScanPlan, columns: Sequence[str] | None, merge_schema: bool, planning: dict[str, Any]
    ) -> None:
        for error in plan.locked.values():  # its rows may match, and cannot be read
            raise error
        self._plan, self._case_sensitive = plan, planning.get("case_sensitive", True)
        zone = planning.get("timezone", "UTC") or "UTC"
        self._partitions = plan.dataset.partition_table(zone)
        files = plan.dataset.files
        skip_corrupt = planning.get("skip_corrupt", False)
        footers = _footers(plan, files, skip_corrupt) if merge_schema else _first_footer(plan, skip_corrupt)
        shown = self._with_partitions(unify(footers))
        self.schema = shown if columns is None else pa.schema([_field(shown, name) for name in columns])
        tops = {column[0] for column in columns_of(plan.where)} if plan.where is not None else set()
        names = Names(tops, self._case_sensitive)
        everything = shown
        if not merge_schema and not names.all_in(shown.names):  # only later files have what is tested
            others = unify(plan.table.footers, names)
            everything = pa.schema([*shown, *(field for field in others if field.name not in shown.names)])
        tested = {name for name in everything.names if name in names}
        needed = {*self.schema.names, *tested}
        self._read_schema = pa.schema([field for field in everything if field.name in needed])
        self._stored_names = [name for name in self._read_schema.names if name not in self._partitions.column_names]
        self._matching = None
        if plan.where is not None:
            self._matching = bind(plan.where, self._read_schema, timezone=zone, case_sensitive=self._case_sensitive)

    def _with_partitions(self, stored: pa.Schema) -> pa.Schema:
        partitions = Names(self._partitions.column_names, self._case_sensitive)
        return pa.schema([*(field for field in stored if field.name not in partitions), *self._partitions.schema])

    def batches(self) -> Iterator[pa.RecordBatch]:
        plan = self._plan
        for place, row_groups in plan.kept_by_file():
            file, footer = plan.table.files[place], plan.table.footer(place)
            present = [node.name for node in footer.layout.schema.root.children]
            found = (self._stored_as(name, present, file.path) for name in self._stored_names)
            names = [name for name in found if name is not None]
            constants = self._partitions.slice(int(plan.file_places[place]), 1)
            for batch in self._read(file, footer, row_groups, names):
                whole = self._conform(batch, constants, file.path)
                if self._matching is not None:
                    whole = whole.filter(self._matching(whole))
                if whole.num_rows:
                    yield whole.select(self.schema.names)

    def _read(
        self, file: FileInfo, footer: Footer, row_groups: list[int], names: list[str]
    ) -> Iterator[pa.RecordBatch]:
        storage = self._plan.dataset.storage
        try:
            yield from read_row_groups(storage, file.path, footer, row_groups, names)
        except EncryptionError:
            if storage.key != "file" or is_unchanged(file):
                raise
            raise FormatError(f"{file.path}: the file was replaced while it was read; read it again") from None

    def _conform(self, batch: pa.RecordBatch, constants: pa.Table, path: str) -> pa.RecordBatch:
        arrays = []
        for field in self._read_schema:
            if field.name in constants.column_names:
                arrays.append(pa.repeat(constants.column(field.name)[0], batch.num_rows))
                continue
            name = self._stored_as(field.name, batch.schema.names, path)
            missing = name is None
            arrays.append(pa.nulls(batch.num_rows, field.type) if missing else fit(batch.column(name), field, path))
        if not arrays:
            return batch
        return pa.RecordBatch.from_arrays(arrays, schema=self._read_schema)

    def _stored_as(self, name: str, names: Sequence[str], path: str) -> str | None:
        """What a file calls the column `name`; None where it has none."""
        found = find(names, name, self._case_sensitive)
        if len(found) > 1:
            raise PlanError(f"{path}: column {name!r} may be any of {', '.join(names[i] for i in found)}")
        return names[found[0]] if found else None


def _footers(plan: ScanPlan, files: Sequence[FileInfo], skip_corrupt: bool) -> Sequence[Footer]:
    """The footers of `files`, whether the plan opened them or not."""
    return cache.row_groups(plan.dataset.storage, files, ReadCount(), skip_corrupt=skip_corrupt).footers


def _first_footer(plan: ScanPlan, skip_corrupt: bool) -> Sequence[Footer]:
    """That of the first file that has a readable one."""
    one_by_one = (_footers(plan, [file], skip_corrupt) for file in plan.dataset.files)
    return next(filter(None, one_by_one), ())


def _field(everything: pa.Schema, name: str) -> pa.Field:
    at = everything.get_field_index(name)
    if at < 0:
        raise PlanError(
            f"column {name!r} is in none of the files{nearest(name, everything.names)}; "
            f"the columns are {', '.join(everything.names)}"
        )
    return everything.field(at)
