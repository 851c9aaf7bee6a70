"""The data set of :func:`bloomparquet.dataset`, and where its files come from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.dataset as ds

from bloomparquet.errors import UnsupportedError
from bloomparquet.parquet.encryption.keys import Keys
from bloomparquet.planning import dataset as files
from bloomparquet.planning.dataset import PathLike, Paths
from bloomparquet.planning.options import OnFilterError, PlanOptions, index_path
from bloomparquet.storage.options import StorageOptions, filesystem_or_options
from bloomparquet.storage.table_formats import OnTableLog
from bloomparquet.tables.arrow_view import UNREADABLE, ArrowView, View
from bloomparquet.tables.dataset import Dataset, vars_of
from bloomparquet.tables.delta import open_delta
from bloomparquet.tables.iceberg import open_iceberg

if TYPE_CHECKING:
    import pyarrow.compute as pc
    from deltalake import DeltaTable
    from pyiceberg.table import DataScan
    from pyiceberg.table import Table as IcebergTable


@dataclass(frozen=True, eq=False, repr=False)
class ArrowDataset(Dataset, ArrowView):
    """The data set of :func:`bloomparquet.dataset`: a :class:`bloomparquet.Dataset` that is a pyarrow data set, too.

    Each scan plans by the filter that the engine gives, and reads as :func:`bloomparquet.read_table` does: exactly the
    rows for which the filter is true, in file order, and of other columns than the filter's only the pages that hold
    them. ORC files, encrypted files, deleted rows and renamed columns are read, too. Filters mean what pyarrow means by
    them. A file that changed since it was listed is a :class:`bloomparquet.FileChangedError`.

    It may be used by several threads, in forked processes, and pickled unless it has keys.
    """

    view: View = field(default_factory=View)

    def __post_init__(self) -> None:
        super().__post_init__()
        ds.UnionDataset.__init__(self, pa.schema([]), [UNREADABLE])

    __eq__ = object.__eq__  # as pyarrow compares data sets
    __hash__ = object.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (vars_of(self), self.view)

    @property
    def _listed(self) -> files.Dataset:  # type: ignore[override] # a reference to itself would be a cycle
        return self


def _restore(fields: dict[str, Any], view: View) -> ArrowDataset:
    return ArrowDataset(**fields, view=view)


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
      snapshot. The data set of a scan lacks the methods of :class:`bloomparquet.Dataset`, and so does ``filter(…)``.
    * `partitioned`, `base_path`, `filesystem`, `storage_options`, `keys`, `table_log`: as for
      ``bloomparquet.Dataset.open``.
    * `merge_schema`: the columns of all files, as for :func:`bloomparquet.read_table`.
    * `timezone`, `on_filter_error`, `skip_corrupt`, `index`: as for :func:`bloomparquet.plan`.

    The files are listed now. Raises the errors of ``bloomparquet.Dataset.open``.

    >>> import pyarrow.compute as pc
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
        table, snapshot_id, condition, names = _open_scan(given)
        listed = open_iceberg(table, snapshot_id, filesystem_or_options(filesystem, storage_options), keys)
        if names is not None:
            of_scan = ArrowView(listed, replace(view, names=names, condition=condition))
            return cast("ArrowDataset", of_scan)  # but for the methods of bp.Dataset, as the docstring says
    else:
        listed = files.Dataset.open(
            given, filesystem=filesystem, storage_options=storage_options, partitioned=partitioned,
            base_path=base_path, keys=keys, table_log=table_log,
        )  # fmt: skip
    return ArrowDataset(**vars_of(listed), view=view)


def _open_scan(
    source: IcebergTable | DataScan,
) -> tuple[IcebergTable, int | None, pc.Expression | None, tuple[str, ...] | None]:
    """The table of `source`, and of a scan its snapshot, its filter and the names of its columns."""
    from pyiceberg.catalog.noop import NoopCatalog
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.expressions.visitors import bind
    from pyiceberg.io.pyarrow import expression_to_pyarrow
    from pyiceberg.table import DataScan, Table

    if not isinstance(source, DataScan):
        return source, None, None, None
    if source.limit is not None:
        raise UnsupportedError("the scan of the Iceberg table has a limit; give head() or the engine's query the limit")
    table = Table(("scan",), source.table_metadata, "", source.io, NoopCatalog("scan"))
    schema = source.update(selected_fields=("*",)).projection()
    where = bind(schema, source.row_filter, source.case_sensitive)
    condition = None if isinstance(where, AlwaysTrue) else expression_to_pyarrow(where)
    return table, source.snapshot_id, condition, tuple(source.projection().column_names)
