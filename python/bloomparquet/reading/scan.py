"""Reading the rows: the row groups (of ORC: stripes) that a plan kept, by pyarrow, filtered to exactly the rows that
match.

What the formats differ in is behind :class:`_Format`; all the rest is :class:`_Scan`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from bloomparquet.errors import FormatError, PlanError, listed, nearest, quoted
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.parquet.metadata.footer import Footer
from bloomparquet.parquet.pages.decrypted_row_group import Images
from bloomparquet.planning.dataset import Dataset, Paths
from bloomparquet.planning.open import open_table
from bloomparquet.planning.parquet.row_groups import RowGroups
from bloomparquet.planning.plan import ScanPlan
from bloomparquet.planning.planner import OnFilterError, PlanOptions, Where, open_dataset, plan_dataset
from bloomparquet.query.evaluate import Convert, bind
from bloomparquet.query.literals import coerce_all
from bloomparquet.query.names import Names, find
from bloomparquet.query.predicate import Predicate
from bloomparquet.query.predicate import columns as columns_of
from bloomparquet.query.sql import parse_where
from bloomparquet.reading.arrow_schema import as_instants, fit, footer_schemas, int96_columns, unify
from bloomparquet.storage.files import FileInfo, ReadCount, Storage
from bloomparquet.storage.staleness import checked
from bloomparquet.storage.table_formats import OnTableLog

if TYPE_CHECKING:
    from bloomparquet.planning.orc.stripes import Stripes

BATCH_ROWS = 64 * 1024


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


class _Format(Protocol):
    """What there is to know of the files of a table before they are read, and how they are read."""

    @property
    def convert(self) -> Convert:
        """What makes of literals what they are compared with; see :func:`bloomparquet.query.evaluate.bind`."""

    def schemas(self) -> Iterator[pa.Schema]:
        """The Arrow schemas of the files, in the order in which they first occur."""

    def names(self, place: int) -> list[str]:
        """The top-level columns of a file, by its place in the table."""

    def read(self, place: int, units: Sequence[int], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some `columns` of row groups or stripes of a file, one of them in memory at a time."""


class _Parquet:
    def __init__(self, table: RowGroups) -> None:
        self._table = table

    @property
    def convert(self) -> Convert:
        return coerce_all

    def schemas(self) -> Iterator[pa.Schema]:
        return footer_schemas(self._table.footers)

    def names(self, place: int) -> list[str]:
        return [node.name for node in self._table.footer(place).layout.schema.root.children]

    def read(self, place: int, units: Sequence[int], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        table = self._table
        return read_row_groups(table.storage, table.paths[place], table.footer(place), units, columns)


class _Orc:
    def __init__(self, table: Stripes) -> None:
        self._table = table

    @property
    def convert(self) -> Convert:
        from bloomparquet.orc.rows import coerce_all

        return coerce_all

    def schemas(self) -> Iterator[pa.Schema]:
        from bloomparquet.orc.rows import arrow_schema

        return map(arrow_schema, self._table.tails)

    def names(self, place: int) -> list[str]:
        return list(self._table.tails[place].types[0].names)

    def read(self, place: int, units: Sequence[int], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        from bloomparquet.orc.rows import read_stripes

        return read_stripes(self._table.storage, self._table.tails[place], units, columns, batch_rows=BATCH_ROWS)


def _format_of(table: Any) -> _Format:
    return _Parquet(table) if isinstance(table, RowGroups) else _Orc(table)


class _Scan:
    """One plan being read: which columns come from where, and what types the result has."""

    def __init__(
        self,
        plan: ScanPlan,
        columns: Sequence[str] | None,
        merge_schema: bool,
        options: PlanOptions,
    ) -> None:
        for error in plan.locked.values():  # its rows may match, and cannot be read
            raise error
        self._plan, self._options, self._case_sensitive = plan, options, options.case_sensitive
        zone = options.timezone or "UTC"
        self._partitions = plan.dataset.partition_table(zone)
        files = plan.dataset.files
        # Where nothing was opened, the plan does not know what the files are.
        self._format = _format_of(plan.table) if plan.table.files else self._open(files[:1])
        shown = self._with_partitions(unify(self._open(files).schemas() if merge_schema else self._first_schema()))
        self.schema = shown if columns is None else pa.schema([_field(shown, name) for name in columns])
        tops = {column[0] for column in columns_of(plan.where)} if plan.where is not None else set()
        names = Names(tops, self._case_sensitive)
        everything = shown
        if not merge_schema and not names.all_in(shown.names):  # only later files have what is tested
            others = unify(self._format.schemas(), names)
            everything = pa.schema([*shown, *(field for field in others if field.name not in shown.names)])
        tested = {name for name in everything.names if name in names}
        needed = {*self.schema.names, *tested}
        self._read_schema = pa.schema([field for field in everything if field.name in needed])
        self._stored_names = [name for name in self._read_schema.names if name not in self._partitions.column_names]
        self._matching = None
        if plan.where is not None:
            self._matching = bind(
                plan.where,
                self._read_schema,
                timezone=zone,
                case_sensitive=self._case_sensitive,
                convert=self._format.convert,
            )

    def _open(self, files: Sequence[FileInfo]) -> _Format:
        """Of some files, whether the plan opened them or not."""
        options = self._options
        table = open_table(
            self._plan.dataset, files, ReadCount(), skip_corrupt=options.skip_corrupt, cache=options.cache
        )
        return _format_of(table)

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
        present = self._format.names(place)
        names = [name for each in self._stored_names if (name := self._stored_as(each, present, path)) is not None]
        constants = self._partitions.slice(int(self._plan.file_places[place]), 1)
        for batch in self._format.read(place, units, names):
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
            raise PlanError(f"{path}: column {quoted(name)} may be any of {listed(names[i] for i in found)}")
        return names[found[0]] if found else None


def _field(everything: pa.Schema, name: str) -> pa.Field:
    at = everything.get_field_index(name)
    if at < 0:
        raise PlanError(
            f"column {quoted(name)} is in none of the files{nearest(name, everything.names)}; "
            f"the columns are {listed(everything.names)}"
        )
    return everything.field(at)
