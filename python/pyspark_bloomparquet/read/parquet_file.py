"""What the Python data source reads of Parquet files: their columns, and their row groups."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from bloomparquet.parquet.metadata.footer import Footer, read_footers
from bloomparquet.query.nested import map_leaf_types
from bloomparquet.reading.arrow_schema import cast, readable
from bloomparquet.reading.scan import read_row_groups
from bloomparquet.storage.files import FileInfo, ReadCount, Storage
from pyspark_bloomparquet.read import legacy_calendar as legacy
from pyspark_bloomparquet.read import spark_schema as types

if TYPE_CHECKING:
    from pyspark.sql import types as T  # noqa: N812 - the name that PySpark users give it

    from bloomparquet.parquet.metadata.schema import SchemaNode
    from pyspark_bloomparquet.read.splits import FilePart


class DescribedFooter:
    """What a footer says of the columns. `key` is the same for footers that say the same."""

    def __init__(self, footer: Footer) -> None:
        self._footer = footer
        self.key: Hashable = id(footer.layout.schema), footer.key_values.get(types.SPARK_SCHEMA_KEY)
        self.names: Sequence[str] = [node.name for node in footer.layout.schema.root.children]

    def spark_schema(self) -> T.StructType:
        """The schema that Spark infers for the file. UnsupportedError where it has none."""
        return types.file_schema(self._footer.layout.schema.root, self._footer.key_values)


def describe(storage: Storage, files: Sequence[FileInfo], *, skip_corrupt: bool) -> Sequence[DescribedFooter | None]:
    """What each footer of `files` says. A damaged file is a FormatError, or None with `skip_corrupt`."""
    footers = read_footers(storage, files, ReadCount(), skip_corrupt=skip_corrupt)
    return [None if footer is None else DescribedFooter(footer) for footer in footers]


class StoredParquet:
    """A file that is read. `names` are its top-level columns; `old` are the columns whose old values are in the
    calendar of Spark 2."""

    def __init__(self, storage: Storage, part: FilePart) -> None:
        self._storage, self._part = storage, part
        (footer,) = read_footers(storage, [part.file], ReadCount())
        assert footer is not None
        self._footer: Footer = footer
        self._nodes = {node.name: node for node in footer.layout.schema.root.children}
        self.names: Sequence[str] = list(self._nodes)
        self.old: Sequence[str] = legacy.columns(footer)

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The columns `names` of the row groups of the part."""
        return read_row_groups(self._storage, self._part.path, self._footer, self._part.row_groups, names)

    def meant(self, name: str, column: pa.Array) -> pa.Array:
        """A column of :meth:`batches` as planning judged it."""
        return cast(column, _meaning(column.type, self._nodes[name]))


def _meaning(kind: pa.DataType, node: SchemaNode) -> pa.DataType:
    """The type that planning judged the column by; a duration is the number that Spark sees."""
    return map_leaf_types(readable(kind, node), lambda leaf: pa.int64() if pa.types.is_duration(leaf) else leaf)
