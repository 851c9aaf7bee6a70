"""Reading the rows: the row groups (of ORC: stripes) that a plan kept, by pyarrow, filtered to exactly the rows that
match.

What the formats differ in is behind :class:`bloomparquet.reading.interface.FormatReader`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa

from bloomparquet.errors import PlanError, did_you_mean, join_names, quoted
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.planning.dataset import Dataset, Paths
from bloomparquet.planning.open import open_table
from bloomparquet.planning.plan import ScanPlan
from bloomparquet.planning.planner import OnFilterError, PlanOptions, Where, open_dataset, plan_dataset
from bloomparquet.query.evaluate import bind_mask
from bloomparquet.query.names import Names, find
from bloomparquet.query.predicate import Predicate
from bloomparquet.query.predicate import columns as columns_of
from bloomparquet.query.sql import parse_where
from bloomparquet.reading.arrow_schema import fit, unify
from bloomparquet.reading.formats import reader_of
from bloomparquet.reading.interface import FormatReader
from bloomparquet.storage.files import FileInfo, ReadCount
from bloomparquet.storage.staleness import checked
from bloomparquet.storage.table_formats import OnTableLog


def read_table(
    path: Paths | Dataset,
    where: Where = None,
    columns: Sequence[str] | None = None,
    *,
    merge_schema: bool = False,
    filesystem: Any = None,
    timezone: str | None = "UTC",
    case_sensitive: bool = True,
    on_filter_error: OnFilterError = "keep",
    skip_corrupt: bool = False,
    keys: Keys | None = None,
    table_log: OnTableLog = "error",
) -> pa.Table:
    """Exactly the rows at `path` for which `where` is TRUE, in file order; other row groups (of ORC: stripes) are not
    read.

    `columns` names top-level columns and partition columns, in the order wanted; None takes all, partition columns
    last. As for ``spark.read.parquet`` the first file says what the columns are, whatever `where` is; with
    `merge_schema` they are those of all files together, and every footer is read. The other keywords and errors are
    those of :func:`bloomparquet.plan`; a file whose column does not fit is a :class:`PlanError`, and a column to be
    read that its `keys` do not open is an :class:`EncryptionError`.

    >>> bp.read_table("events.parquet", "user_id = 4711", ["user_id", "country"]).to_pylist()
    [{'user_id': 4711, 'country': 'CH'}]
    """
    options = PlanOptions(
        timezone=timezone, case_sensitive=case_sensitive, on_filter_error=on_filter_error, skip_corrupt=skip_corrupt
    )
    predicate = parse_where(where)
    dataset = open_dataset(path, filesystem, keys, table_log)
    return _scan(dataset, predicate, columns, merge_schema, options).read_all()


def scan_batches(
    path: Paths | Dataset,
    where: Where = None,
    columns: Sequence[str] | None = None,
    *,
    merge_schema: bool = False,
    filesystem: Any = None,
    timezone: str | None = "UTC",
    case_sensitive: bool = True,
    on_filter_error: OnFilterError = "keep",
    skip_corrupt: bool = False,
    keys: Keys | None = None,
    table_log: OnTableLog = "error",
) -> pa.RecordBatchReader:
    """The rows of :func:`read_table` as record batches of one schema, with one file's batch in memory at a time.

    The call itself plans. Each batch is read, and errors of reading are raised, when the reader is asked for it. The
    file being read is closed when the reader is dropped.

    >>> with bp.scan_batches("events.parquet", "country = 'CH'", ["user_id"]) as batches:
    ...     sum(batch.num_rows for batch in batches)
    1000
    """
    options = PlanOptions(
        timezone=timezone, case_sensitive=case_sensitive, on_filter_error=on_filter_error, skip_corrupt=skip_corrupt
    )
    predicate = parse_where(where)
    return _scan(open_dataset(path, filesystem, keys, table_log), predicate, columns, merge_schema, options)


def _scan(
    dataset: Dataset,
    where: Predicate | None,
    columns: Sequence[str] | None,
    merge_schema: bool,
    options: PlanOptions,
) -> pa.RecordBatchReader:
    scan = _Scan(plan_dataset(dataset, where, options), columns, merge_schema, options)
    return pa.RecordBatchReader.from_batches(scan.schema, scan.batches())


class _Scan:
    """One plan being read: which columns come from where, and what types the result has."""

    def __init__(
        self,
        plan: ScanPlan,
        columns: Sequence[str] | None,
        merge_schema: bool,
        options: PlanOptions,
    ) -> None:
        for error in plan.unreadable.values():  # its rows may match, and cannot be read
            raise error
        self._plan, self._options, self._case_sensitive = plan, options, options.case_sensitive
        zone = options.timezone or "UTC"
        self._partitions = plan.dataset.partition_table(zone)
        files = plan.dataset.files
        # Where nothing was opened, the plan does not know what the files are.
        self._reader = reader_of(plan.table) if plan.table.files else self._open(files[:1])
        shown = self._with_partitions(unify(self._open(files).schemas() if merge_schema else self._first_schema()))
        self.schema = shown if columns is None else pa.schema([_field(shown, name) for name in columns])
        tops = {column[0] for column in columns_of(plan.where)} if plan.where is not None else set()
        names = Names(tops, self._case_sensitive)
        everything = shown
        if not merge_schema and not names.all_in(shown.names):  # only later files have what is tested
            others = unify(self._reader.schemas(), names)
            everything = pa.schema([*shown, *(field for field in others if field.name not in shown.names)])
        tested = {name for name in everything.names if name in names}
        needed = {*self.schema.names, *tested}
        self._read_schema = pa.schema([field for field in everything if field.name in needed])
        self._stored_names = [name for name in self._read_schema.names if name not in self._partitions.column_names]
        self._matching = None
        if plan.where is not None:
            self._matching = bind_mask(
                plan.where,
                self._read_schema,
                timezone=zone,
                case_sensitive=self._case_sensitive,
                convert=self._reader.convert,
            )

    def _open(self, files: Sequence[FileInfo]) -> FormatReader:
        """Of some files, whether the plan opened them or not."""
        options = self._options
        table = open_table(
            self._plan.dataset, files, ReadCount(), skip_corrupt=options.skip_corrupt, cache=options.cache
        )
        return reader_of(table)

    def _first_schema(self) -> Iterator[pa.Schema]:
        """That of the first file that has a readable one."""
        one_by_one = (schema for file in self._plan.dataset.files for schema in self._open([file]).schemas())
        return islice(one_by_one, 1)

    def _with_partitions(self, stored: pa.Schema) -> pa.Schema:
        partitions = Names(self._partitions.column_names, self._case_sensitive)
        return pa.schema([*(field for field in stored if field.name not in partitions), *self._partitions.schema])

    def batches(self) -> Iterator[pa.RecordBatch]:
        table = self._plan.table
        for place, units in self._plan.kept_by_file():
            yield from checked(self._plan.dataset.storage, table.files[place], self._read_file(place, units))

    def _read_file(self, place: int, units: Sequence[int]) -> Iterator[pa.RecordBatch]:
        path = self._plan.table.paths[place]
        present = self._reader.names(place)
        names = [name for each in self._stored_names if (name := self._stored_as(each, present, path)) is not None]
        constants = self._partitions.slice(int(self._plan.file_positions[place]), 1)
        for batch in self._reader.read(place, units, names):
            whole = self._conform(batch, constants, path)
            if self._matching is not None:
                whole = whole.filter(self._matching(whole))
            if whole.num_rows:
                yield whole.select(self.schema.names)

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
            raise PlanError(f"{path}: column {quoted(name)} may be any of {join_names(names[i] for i in found)}")
        return names[found[0]] if found else None


def _field(everything: pa.Schema, name: str) -> pa.Field:
    at = everything.get_field_index(name)
    if at < 0:
        raise PlanError(
            f"column {quoted(name)} is in none of the files{did_you_mean(name, everything.names)}; "
            f"the columns are {join_names(everything.names)}"
        )
    return everything.field(at)
