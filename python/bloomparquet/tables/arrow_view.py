"""Listed files as a pyarrow data set, which engines read with filters of their own."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs

from bloomparquet.errors import PlanError, UnsupportedError, quoted
from bloomparquet.planning.dataset import Dataset
from bloomparquet.planning.open import scan_schema
from bloomparquet.planning.options import DEFAULT_OPTIONS, PlanOptions
from bloomparquet.planning.plan import ScanPlan
from bloomparquet.query.expressions import bind_expression, names_in
from bloomparquet.reading.scan import first_rows, plan_scan, read_plan
from bloomparquet.storage.forks import lazy_property

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
        shown = {name: getattr(self.options, name) for name in ("timezone", "on_filter_error", "skip_corrupt", "index")}
        return _restore_view, (shown, self.merge_schema, self.schema, self.names, self.condition)


def _restore_view(options: dict[str, Any], *rest: Any) -> View:
    return View(PlanOptions(**options), *rest)


class ArrowView(ds.UnionDataset):  # type: ignore[misc] # pyarrow has no types
    """Some rows and columns of listed files as a pyarrow data set; see :func:`bloomparquet.dataset`.

    A C++ function that takes the data set itself, such as ``pyarrow.dataset.Scanner.from_dataset``, raises
    :class:`UnsupportedError`.
    """

    _listed: Dataset
    view: View

    def __init__(self, listed: Dataset, view: View) -> None:
        super().__init__(pa.schema([]), [UNREADABLE])
        self._listed, self.view = listed, view

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrowView, (self._listed, self.view)

    def __repr__(self) -> str:
        where = "" if self.view.condition is None else f", where {self.view.condition}"
        return f"{self._listed!r}{where}"

    @property
    def schema(self) -> pa.Schema:
        """The columns of a scan, the partition columns last."""
        names = self.view.names
        return self._whole if names is None else pa.schema([self._whole.field(name) for name in names])

    @lazy_property
    def _whole(self) -> pa.Schema:
        """All columns of the files."""
        view = self.view
        if view.schema is not None:
            return view.schema
        return scan_schema(self._listed, view.options, merge_schema=view.merge_schema)

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
            listed = self._listed.select([int(plan.file_positions[file])])
            yield Fragment(ArrowView(listed, view), listed.files[0].path)

    def filter(self, expression: pc.Expression) -> ArrowView:
        """The rows for which `expression` is true, as a data set."""
        return ArrowView(self._listed, replace(self.view, condition=self._with(expression), planned=None))

    def replace_schema(self, schema: pa.Schema) -> ArrowView:
        """Some of the columns, in another order, as a data set. Raises PlanError for other names and types."""
        for wanted in schema:
            position = self.schema.get_field_index(wanted.name)
            if position < 0 or self.schema.field(position).type != wanted.type:
                known = "no such column" if position < 0 else f"type {self.schema.field(position).type}"
                raise PlanError(
                    f"column {quoted(wanted.name)}: expected type {wanted.type}, as asked for; found {known}"
                )
        return ArrowView(self._listed, replace(self.view, names=tuple(schema.names)))

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
        plan = plan_scan(self._listed, bound, self.view.options)
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

    def __init__(self, dataset: ArrowView, path: str) -> None:
        self._dataset, self.path, self.physical_schema = dataset, path, dataset.schema
        self.partition_expression = pc.scalar(True)

    def scanner(self, schema: pa.Schema | None = None, **options: Any) -> ds.Scanner:
        """See :meth:`ArrowView.scanner`. `schema`: as for :meth:`ArrowView.replace_schema`."""
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

    def _as(self, schema: pa.Schema | None) -> ArrowView:
        return self._dataset if schema is None else self._dataset.replace_schema(schema)


def _sliced(batches: pa.RecordBatchReader, most_rows: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, max(batch.num_rows, 1), most_rows):
            yield batch.slice(start, most_rows)


def _are_same(one: pc.Expression | None, other: pc.Expression | None) -> bool:
    return one is other or (one is not None and other is not None and one.equals(other))


def _to_table(data: Any) -> pa.Table:
    return data.to_table() if isinstance(data, ds.Dataset) else data


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


UNREADABLE = _unreadable()
