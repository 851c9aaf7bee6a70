"""Listed files as a pyarrow data set, which engines read with filters of their own."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs

from bloomparquet.errors import PlanError, UnsupportedError, quoted
from bloomparquet.planning.dataset import Dataset
from bloomparquet.planning.open import scan_schema
from bloomparquet.planning.options import DEFAULT_OPTIONS, PlanOptions
from bloomparquet.planning.plan import ScanPlan
from bloomparquet.query.expressions import bind_expression, names_in, project, projected_schema
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
        return type(self), (self._listed, self.view)

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
        batch_readahead: int = 16,
        fragment_readahead: int = 4,
        fragment_scan_options: Any = None,
        use_threads: bool = True,
        cache_metadata: bool = True,
        memory_pool: pa.MemoryPool | None = None,
    ) -> Scan:
        """A scan of the rows for which `filter` is true.

        `columns`: names, or expressions by the names of their results. `batch_size`: the most rows of a batch. The
        parameters after it are those of pyarrow, and change nothing.
        """
        return Scan(self, columns, filter, batch_size)

    def to_batches(self, *options: Any, **more: Any) -> Iterator[pa.RecordBatch]:
        """:meth:`Scan.to_batches` of :meth:`scanner`, with its parameters."""
        return self.scanner(*options, **more).to_batches()

    def to_table(self, *options: Any, **more: Any) -> pa.Table:
        """:meth:`Scan.to_table` of :meth:`scanner`, with its parameters."""
        return self.scanner(*options, **more).to_table()

    def head(self, num_rows: int, *options: Any, **more: Any) -> pa.Table:
        """:meth:`Scan.head` of :meth:`scanner`, with its parameters after `num_rows`."""
        return self.scanner(*options, **more).head(num_rows)

    def take(self, indices: Any, *options: Any, **more: Any) -> pa.Table:
        """:meth:`Scan.take` of :meth:`scanner`, with its parameters after `indices`."""
        return self.scanner(*options, **more).take(indices)

    def count_rows(self, filter: pc.Expression | None = None, **options: Any) -> int:  # noqa: A002
        """The number of rows for which `filter` is true. Reads the columns of the filter only."""
        return self.scanner(columns=[], filter=filter, **options).count_rows()

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[Fragment]:  # noqa: A002
        """One fragment for each file that may hold a row for which `filter` is true."""
        plan = self._plan(filter)
        for error in plan.unreadable.values():  # their rows might match
            raise error
        for file, _ in plan.kept_by_file():
            view = replace(self.view, schema=self._whole, plans=[], planned=(filter, plan.of_file(file)))
            yield Fragment(self._listed.select([int(plan.file_positions[file])]), view)

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

    def scan(self, columns: _Columns, expression: pc.Expression | None, batch_size: int) -> pa.RecordBatchReader:
        """A reader of the rows for which `expression` is true. It plans now."""
        if isinstance(columns, dict):
            needed = names_in(columns.values(), self._whole)
            names: Sequence[str] | None = [name for name in self._whole.names if name in needed]
        else:
            names = self.view.names if columns is None else columns
        reader = read_plan(self._plan(expression), names, schema=self._whole)
        batches = _sliced(reader, batch_size)
        if not isinstance(columns, dict):
            return pa.RecordBatchReader.from_batches(reader.schema, batches)
        projected = (part for batch in batches for part in project(columns, batch).to_batches())
        return pa.RecordBatchReader.from_batches(self.projected_schema(columns), projected)

    def projected_schema(self, columns: _Columns) -> pa.Schema:
        """The columns of a scan of `columns`."""
        if isinstance(columns, dict):
            return projected_schema(columns, self._whole)
        return self.schema if columns is None else pa.schema([self._whole.field(name) for name in columns])


@dataclass(frozen=True, eq=False)
class Scan:
    """A scan of a data set, with the methods of pyarrow's scanners. Each call plans and reads anew.

    It is not a pyarrow scanner. A pyarrow scanner asks for batches in Arrow's threads, and decoding them needs the same
    threads, so that two scans at once may wait for each other for ever. Here, the caller's thread asks.
    """

    dataset: ArrowView
    columns: _Columns
    filter: pc.Expression | None
    batch_size: int

    @property
    def dataset_schema(self) -> pa.Schema:
        return self.dataset.schema

    @property
    def projected_schema(self) -> pa.Schema:
        return self.dataset.projected_schema(self.columns)

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as record batches. It plans now, and each batch is read when it is asked for."""
        return self.dataset.scan(self.columns, self.filter, self.batch_size)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The record batches of :meth:`to_reader`."""
        return iter(self.to_reader())

    def to_table(self) -> pa.Table:
        """All rows."""
        return self.to_reader().read_all()

    def head(self, num_rows: int) -> pa.Table:
        """The first `num_rows` rows. No further batch is read."""
        return first_rows(self.to_reader(), num_rows)

    def take(self, indices: Any) -> pa.Table:
        """The rows at these positions. Reads all batches, as pyarrow does, one in memory at a time."""
        wanted = np.asarray(pa.array(indices, pa.int64()))
        reader, taken, positions, start = self.to_reader(), [], [np.zeros(0, np.int64)], 0
        for batch in reader:
            (here,) = np.nonzero((wanted >= start) & (wanted < start + batch.num_rows))
            taken.append(batch.take(pa.array(wanted[here] - start)))
            positions.append(here)
            start += batch.num_rows
        if len(wanted) and not 0 <= int(wanted.min()) <= int(wanted.max()) < start:
            raise IndexError(f"there are {start} rows; found the positions {wanted.min()} to {wanted.max()}")
        order = np.argsort(np.concatenate(positions))
        return pa.Table.from_batches(taken, reader.schema).take(pa.array(order))

    def count_rows(self) -> int:
        """The number of rows."""
        return sum(batch.num_rows for batch in self.to_reader())


class Fragment(ArrowView):
    """One file of a data set, with the methods of pyarrow's fragments. Its columns are those of the data set."""

    partition_expression = pc.scalar(True)

    @property
    def path(self) -> str:
        return self._listed.files[0].path

    @property
    def physical_schema(self) -> pa.Schema:
        return self.schema

    def scanner(self, schema: pa.Schema | None = None, *options: Any, **more: Any) -> Scan:  # type: ignore[override]
        """See :meth:`ArrowView.scanner`. `schema`: as for :meth:`ArrowView.replace_schema`."""
        return ArrowView.scanner(self if schema is None else self.replace_schema(schema), *options, **more)


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
            "to_table() or scanner().to_reader()"
        )


def _unreadable() -> ds.FileSystemDataset:
    storage, parquet = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(_Refusing())), ds.ParquetFileFormat()
    return ds.FileSystemDataset([parquet.make_fragment("data", storage)], pa.schema([]), parquet, storage)


UNREADABLE = _unreadable()
