"""A data set that engines read with filters of their own: pyarrow's interface to the planner and the reader."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import fsspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs

from bloomparquet.errors import PlanError, UnsupportedError, quoted
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.planning import dataset as files
from bloomparquet.planning.dataset import PathLike, Paths
from bloomparquet.planning.open import scan_schema
from bloomparquet.planning.options import DEFAULT_OPTIONS, OnFilterError, PlanOptions, index_path
from bloomparquet.planning.plan import ScanPlan
from bloomparquet.query.expressions import bind_expression, names_in
from bloomparquet.reading.scan import first_rows, plan_scan, read_plan
from bloomparquet.storage.forks import lazy_property
from bloomparquet.storage.options import StorageOptions, filesystem_or_options
from bloomparquet.storage.table_formats import OnTableLog
from bloomparquet.tables.dataset import Dataset, vars_of
from bloomparquet.tables.delta import open_delta
from bloomparquet.tables.iceberg import open_iceberg, open_scan

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyiceberg.table import DataScan
    from pyiceberg.table import Table as IcebergTable

log = logging.getLogger("bloomparquet")

_BATCH_ROWS = 131_072  # pyarrow's default
_Columns = Sequence[str] | dict[str, pc.Expression] | None


@dataclass(frozen=True, eq=False)
class View:
    """What a data set shows of its files: the rows for which `condition` is true, and the columns `names`; all, if they
    are None. `schema`: the columns of the files; None: those of the first one, or with `merge_schema` of all.
    `plans`: the plan of the last scan. `planned`: a filter, and the plan that is known for it."""

    options: PlanOptions = DEFAULT_OPTIONS
    merge_schema: bool = False
    schema: pa.Schema | None = None
    names: tuple[str, ...] | None = None
    condition: pc.Expression | None = None
    plans: list[ScanPlan] = field(default_factory=list)
    planned: tuple[pc.Expression | None, ScanPlan] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        options = replace(self.options, cache=DEFAULT_OPTIONS.cache)
        shown = {name: getattr(options, name) for name in ("timezone", "on_filter_error", "skip_corrupt", "index")}
        return _restore_view, (shown, self.merge_schema, self.schema, self.names, self.condition)


def _restore_view(options: dict[str, Any], *rest: Any) -> View:
    return View(PlanOptions(**options), *rest)


@dataclass(frozen=True, eq=False, repr=False)
class ArrowDataset(Dataset, ds.UnionDataset):  # type: ignore[misc] # pyarrow has no types
    """The data set of :func:`bloomparquet.dataset`: a :class:`bloomparquet.Dataset` that is a pyarrow data set, too.

    Each scan plans by the filter that the engine gives, and reads as :func:`bloomparquet.read_table` does: exactly the
    rows for which the filter is true, in file order, and of other columns than the filter's only the pages that hold
    them. ORC files, encrypted files, deleted rows and renamed columns are read, too. Filters mean what pyarrow means by
    them. A file that changed since it was listed is a :class:`bloomparquet.FileChangedError`.

    It may be used by several threads, in forked processes, and pickled unless it has keys. A C++ function that takes
    the data set itself, such as ``pyarrow.dataset.Scanner.from_dataset``, raises :class:`UnsupportedError`.
    """

    view: View = field(default_factory=View)

    def __post_init__(self) -> None:
        super().__post_init__()
        ds.UnionDataset.__init__(self, pa.schema([]), [_UNREADABLE])

    __eq__ = object.__eq__  # as pyarrow compares data sets
    __hash__ = object.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (vars_of(self), self.view)

    @property
    def schema(self) -> pa.Schema:
        """The columns of a scan, the partition columns last."""
        names = self.view.names
        return self._whole if names is None else pa.schema([self._whole.field(name) for name in names])

    @lazy_property
    def _whole(self) -> pa.Schema:
        """All columns of the files."""
        view = self.view
        return view.schema or scan_schema(self, view.options, merge_schema=view.merge_schema)

    def last_plan(self) -> ScanPlan | None:
        """The plan of the last scan of this data set or of its ``filter(…)``; None before the first. It says what was
        skipped and why: ``events.last_plan().explain()``."""
        return next(iter(self.view.plans), None)

    def scanner(
        self,
        columns: _Columns = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        batch_size: int = _BATCH_ROWS,
        **options: Any,
    ) -> ds.Scanner:
        """A scanner of the rows for which `filter` is true. It plans now, and is read once.

        `columns`: names, or expressions by the names of their results. `options`: those of pyarrow's scanners.
        """
        reader = self._scan(columns, filter, batch_size)
        return ds.Scanner.from_batches(reader, columns=columns if isinstance(columns, dict) else None, **options)

    def to_batches(
        self,
        columns: _Columns = None,
        filter: pc.Expression | None = None,  # noqa: A002
        batch_size: int = _BATCH_ROWS,
        **options: Any,
    ) -> Iterator[pa.RecordBatch]:
        """The record batches of :meth:`scanner`. It plans now, and each batch is read when it is asked for."""
        if isinstance(columns, dict):
            return iter(self.scanner(columns, filter, batch_size, **options).to_batches())
        return iter(self._scan(columns, filter, batch_size))

    def to_table(
        self,
        columns: _Columns = None,
        filter: pc.Expression | None = None,  # noqa: A002
        batch_size: int = _BATCH_ROWS,
        **options: Any,
    ) -> pa.Table:
        """The rows of :meth:`scanner` as a table."""
        if isinstance(columns, dict):
            return self.scanner(columns, filter, batch_size, **options).to_table()
        return self._scan(columns, filter, batch_size).read_all()

    def head(
        self,
        num_rows: int,
        columns: _Columns = None,
        filter: pc.Expression | None = None,  # noqa: A002
        batch_size: int = _BATCH_ROWS,
        **options: Any,
    ) -> pa.Table:
        """The first `num_rows` rows of :meth:`scanner`. No further batch is read."""
        if isinstance(columns, dict):
            return self.scanner(columns, filter, batch_size, **options).head(num_rows)
        return first_rows(self._scan(columns, filter, batch_size), num_rows)

    def take(
        self,
        indices: Any,
        columns: _Columns = None,
        filter: pc.Expression | None = None,  # noqa: A002
        batch_size: int = _BATCH_ROWS,
        **options: Any,
    ) -> pa.Table:
        """The rows of :meth:`scanner` at these positions among them. It reads all of them, as pyarrow does."""
        return self.scanner(columns, filter, batch_size, **options).take(indices)

    def count_rows(
        self,
        filter: pc.Expression | None = None,  # noqa: A002
        **_: Any,
    ) -> int:
        """The number of rows of :meth:`scanner`. Reads the columns of the filter only."""
        return sum(batch.num_rows for batch in self._scan([], filter, _BATCH_ROWS))

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[Fragment]:  # noqa: A002
        """One fragment for each file that may hold a row for which `filter` is true."""
        plan = self._plan(filter)
        for error in plan.unreadable.values():  # their rows might match
            raise error
        for file, _ in plan.kept_by_file():
            view = replace(self.view, schema=self._whole, plans=[], planned=(filter, plan.of_file(file)))
            yield Fragment(replace(self.select([int(plan.file_positions[file])]), view=view))

    def filter(self, expression: pc.Expression) -> ArrowDataset:
        """The rows for which `expression` is true, as a data set."""
        return replace(self, view=replace(self.view, condition=self._with(expression), planned=None))

    def replace_schema(self, schema: pa.Schema) -> ArrowDataset:
        """Some of the columns, in another order, as a data set. Raises PlanError for other names and types."""
        for wanted in schema:
            position = self.schema.get_field_index(wanted.name)
            if position < 0 or self.schema.field(position).type != wanted.type:
                known = "no such column" if position < 0 else f"type {self.schema.field(position).type}"
                raise PlanError(
                    f"column {quoted(wanted.name)}: expected type {wanted.type}, as asked for; found {known}"
                )
        return replace(self, view=replace(self.view, names=tuple(schema.names)))

    def sort_by(self, sorting: Any, **options: Any) -> ds.InMemoryDataset:
        """All rows, sorted, in memory; see ``pyarrow.Table.sort_by``."""
        return ds.InMemoryDataset(self.to_table().sort_by(sorting, **options))

    def join(self, right_dataset: Any, *arguments: Any, **options: Any) -> ds.InMemoryDataset:
        """The join with another data set or table, in memory; see ``pyarrow.Table.join``."""
        return ds.InMemoryDataset(self.to_table().join(_to_table(right_dataset), *arguments, **options))

    def join_asof(self, right_dataset: Any, *arguments: Any, **options: Any) -> ds.InMemoryDataset:
        """The join with the nearest rows of another data set or table; see ``pyarrow.Table.join_asof``."""
        return ds.InMemoryDataset(self.to_table().join_asof(_to_table(right_dataset), *arguments, **options))

    def _with(self, expression: pc.Expression | None) -> pc.Expression | None:
        """The condition of this data set and `expression`."""
        own = self.view.condition
        if isinstance(expression, pa.BooleanScalar):  # from DataFusion
            expression = pc.scalar(expression)
        if not isinstance(expression, pc.Expression | None):
            raise PlanError(f"the filter is {quoted(expression)}; expected an expression of pyarrow")
        return own if expression is None else expression if own is None else own & expression

    def _plan(self, expression: pc.Expression | None) -> ScanPlan:
        where, known = self._with(expression), self.view.planned
        if known is not None and _are_same(known[0], expression):
            return known[1]
        bound = None if where is None else bind_expression(where, [self._whole])
        plan = plan_scan(self, bound, self.view.options)
        self.view.plans[:] = [plan]
        log.info("%r: %r", self, plan)
        return plan

    def _scan(self, columns: _Columns, expression: pc.Expression | None, batch_size: int) -> pa.RecordBatchReader:
        if isinstance(columns, dict):
            needed = names_in(columns.values(), self._whole)
            columns = [name for name in self._whole.names if name in needed]
        names = self.view.names if columns is None else columns
        reader = read_plan(self._plan(expression), names, schema=self._whole)
        return pa.RecordBatchReader.from_batches(reader.schema, _sliced(reader, batch_size))


class Fragment:
    """One file of a data set, with the methods of pyarrow's fragments. Its columns are those of the data set."""

    def __init__(self, dataset: ArrowDataset) -> None:
        self._dataset = dataset
        self.path, self.physical_schema = dataset.files[0].path, dataset.schema
        self.partition_expression = pc.scalar(True)

    def scanner(self, schema: pa.Schema | None = None, **options: Any) -> ds.Scanner:
        """See :meth:`ArrowDataset.scanner`. `schema`: as for :meth:`ArrowDataset.replace_schema`."""
        return self._as(schema).scanner(**options)

    def to_batches(self, schema: pa.Schema | None = None, **options: Any) -> Iterator[pa.RecordBatch]:
        return self._as(schema).to_batches(**options)

    def to_table(self, schema: pa.Schema | None = None, **options: Any) -> pa.Table:
        return self._as(schema).to_table(**options)

    def head(self, num_rows: int, **options: Any) -> pa.Table:
        return self._dataset.head(num_rows, **options)

    def take(self, indices: Any, **options: Any) -> pa.Table:
        return self._dataset.take(indices, **options)

    def count_rows(self, **options: Any) -> int:
        return self._dataset.count_rows(**options)

    def _as(self, schema: pa.Schema | None) -> ArrowDataset:
        return self._dataset if schema is None else self._dataset.replace_schema(schema)


def _sliced(batches: pa.RecordBatchReader, most_rows: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, max(batch.num_rows, 1), most_rows):
            yield batch.slice(start, most_rows)


def _are_same(one: pc.Expression | None, other: pc.Expression | None) -> bool:
    return one is other or (one is not None and other is not None and one.equals(other))


def _to_table(data: Any) -> pa.Table:
    return data.to_table() if isinstance(data, ds.Dataset) else data


def _restore(fields: dict[str, Any], view: View) -> ArrowDataset:
    return ArrowDataset(**fields, view=view)


class _Refusing(fsspec.AbstractFileSystem):  # type: ignore[misc] # fsspec has no types
    """A file system whose files cannot be opened: what C++ sees of a data set."""

    cachable = False

    def isfile(self, path: str) -> bool:
        raise UnsupportedError(
            "pyarrow's C++ cannot scan this data set without its methods; where a data set is expected, pass on its "
            "scanner(), to_table() or to_batches()"
        )


def _unreadable() -> ds.FileSystemDataset:
    storage, parquet = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(_Refusing())), ds.ParquetFileFormat()
    return ds.FileSystemDataset([parquet.make_fragment("data", storage)], pa.schema([]), parquet, storage)


_UNREADABLE = _unreadable()


def dataset(
    source: Paths | files.Dataset | DeltaTable | IcebergTable | DataScan,
    *,
    partitioned: bool = True,
    base_path: PathLike | None = None,
    filesystem: Any = None,
    storage_options: StorageOptions | None = None,
    keys: Keys | None = None,
    table_log: OnTableLog = "error",
    merge_schema: bool = False,
    timezone: str | None = "UTC",
    on_filter_error: OnFilterError = "keep",
    skip_corrupt: bool = False,
    index: PathLike = "auto",
) -> ArrowDataset:
    """A pyarrow data set that polars, DuckDB, DataFusion, Ibis and pandas read, pruned by the filter of each query.

    * `source`: a file, a directory, a glob or a URL, or a list of them; or a :class:`bloomparquet.Dataset`, an open
      ``deltalake.DeltaTable``, an Iceberg table of pyiceberg, or a scan of one, with its filter, its columns and its
      snapshot.
    * `partitioned`, `base_path`, `filesystem`, `storage_options`, `keys`, `table_log`: as for
      :meth:`bloomparquet.Dataset.open`.
    * `merge_schema`: the columns of all files, as for :func:`bloomparquet.read_table`.
    * `timezone`, `on_filter_error`, `skip_corrupt`, `index`: as for :func:`bloomparquet.plan`.

    The files are listed now. Raises the errors of :meth:`bloomparquet.Dataset.open`.

    >>> events = bp.dataset("events.parquet")
    >>> events.to_table(filter=pc.field("user_id") == 4711, columns=["user_id", "country"]).to_pylist()
    [{'user_id': 4711, 'country': 'CH'}]
    >>> events.last_plan()
    1 of 4 row groups kept; 3 skipped by Bloom filter
    """
    options = PlanOptions(
        timezone=timezone, on_filter_error=on_filter_error, skip_corrupt=skip_corrupt, index=index_path(index)
    )
    view, given = View(options, merge_schema), cast("Any", source)
    module = type(source).__module__.partition(".")[0]
    if isinstance(source, files.Dataset):
        listed = source.with_keys(keys)
    elif module == "deltalake":
        listed = open_delta(given, None, None, filesystem_or_options(filesystem, storage_options), keys)
    elif module == "pyiceberg":
        table, snapshot_id, condition, names = open_scan(given)
        listed = open_iceberg(table, snapshot_id, filesystem_or_options(filesystem, storage_options), keys)
        view = replace(view, names=names, condition=condition)
    else:
        listed = files.Dataset.open(
            given, filesystem=filesystem, storage_options=storage_options, partitioned=partitioned,
            base_path=base_path, keys=keys, table_log=table_log,
        )  # fmt: skip
    return ArrowDataset(**vars_of(listed), view=view)
