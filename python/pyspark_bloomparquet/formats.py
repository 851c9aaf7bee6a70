"""What the data sources ``bloomparquet`` and ``bloomorc`` differ in: the format of their files.

All else (options, listings, plans, splits, partitions, staging and commit of writes) is the same code, which asks the
:class:`Format` of its options for a :class:`Files`. A Spark session that looks for data sources imports this, so what
knows files is imported when there are some.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import types as T  # noqa: N812 - the name that PySpark users give it

    from bloomparquet.dataset import Format as Kind
    from bloomparquet.format.schema import FileSchema
    from bloomparquet.predicate import Predicate
    from bloomparquet.storage import FileInfo, Storage
    from pyspark_bloomparquet.options import Options
    from pyspark_bloomparquet.splits import FilePart
    from pyspark_bloomparquet.write_options import TableOptions

Source = Literal["bloomparquet", "bloomorc"]

PARQUET: Source = "bloomparquet"
ORC: Source = "bloomorc"


class Described(Protocol):
    """What one file says of its columns. `key` is the same for files that say the same."""

    key: Hashable
    names: Sequence[str]

    def spark_schema(self) -> T.StructType:
        """The schema that Spark infers of the file. UnsupportedError where it has none."""


class StoredFile(Protocol):
    """A file that is read. `names` are its top-level columns; `old` are those whose old values are in the calendar of
    Spark 2, and so refused."""

    names: Sequence[str]
    old: Sequence[str]

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The columns `names` of the row groups (of ORC: stripes) that are to be read."""

    def meant(self, name: str, column: pa.Array) -> pa.Array:
        """A column of :meth:`batches` as planning judged it."""


class OpenFile(Protocol):
    """A file that is written."""

    def write_batch(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> Sequence[tuple[str, float]]:
        """Complete the file. The columns whose filters had to be made worse than asked for, with the fpp of each."""

    def abort(self) -> None: ...


class Layout(Protocol):
    """What the files of one write are like. Made on the driver, pickled to the tasks."""

    def codec(self, setting: Callable[[str], str | None]) -> str:
        """The compression that was asked for, or else the session's, whose `setting` of a name it is. UnsupportedError
        for what the session asks of files and these cannot have."""

    def extension(self, codec: str) -> str:
        """The end of files' names."""

    def stored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of files, of a batch as Spark hands it over. UnsupportedError for values that would be read as
        others."""

    def open(self, path: str, storage: Storage, codec: str) -> OpenFile: ...

    def tell(self, limited: Sequence[tuple[str, float]]) -> None:
        """Warn of the filters that had to be made worse than asked for."""


class Files(Protocol):
    """How the files of a format are read and written: a module."""

    def describe(
        self, storage: Storage, files: Sequence[FileInfo], *, skip_corrupt: bool
    ) -> Sequence[Described | None]:
        """What each of `files` says of its columns; None where it says nothing, and with `skip_corrupt` where it is
        damaged, which is a :class:`FormatError` otherwise."""

    def clock(self, options: Options) -> str | None:
        """The zone of the clock that timestamps in files are read by; None where there are none, or it is not
        known."""

    def for_planning(
        self, where: Predicate, schemas: Sequence[FileSchema], partitions: Mapping[str, pa.DataType], options: Options
    ) -> Predicate | None:
        """`where` as it means the same to the planner, which knows one zone alone; None where that cannot be said.
        `partitions` are the partition columns."""

    def open(
        self, storage: Storage, part: FilePart, data: T.StructType, clock: str | None, options: Options
    ) -> StoredFile:
        """The file of `part`, to be read as the columns `data`: those of the load that are no partition columns."""

    def check(self, schema: T.StructType, *, case_sensitive: bool) -> None:
        """The errors of Spark's own writer, before anything is written."""

    def require_plain(self, storage: Storage, directory: str, path: str) -> None:
        """UnsupportedError where files lie that more of their like may not be put beside."""

    def layout(self, options: Any, schema: T.StructType) -> Layout:
        """The files of a write, whose columns are `schema`."""


@dataclass(frozen=True)
class Format:
    """A format: its data source, what it is called, Spark's own reader of it, and the module of its :class:`Files`."""

    source: Source
    kind: Kind
    title: str
    sparks: str
    unit: str
    module: str

    @property
    def files(self) -> Files:
        return cast("Files", importlib.import_module(self.module))


_FORMATS = {
    PARQUET: Format(PARQUET, "parquet", "Parquet", "spark.read.parquet", "row group", "pyspark_bloomparquet.parquet"),
    ORC: Format(ORC, "orc", "ORC", "spark.read.orc", "stripe", "pyspark_bloomorc.files"),
}


def format_of(options: Options | TableOptions) -> Format:
    """The format of the data source that was given `options`."""
    return _FORMATS[options.source]
