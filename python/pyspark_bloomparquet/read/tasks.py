"""Reads one split as Arrow batches for Spark, on executors.

Each batch is converted and handed to Spark before the next one is decoded, so memory holds part of one row group.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from bloomparquet.errors import FileChangedError, FormatError, OptionError, located
from bloomparquet.parquet.metadata.footer import read_footers
from bloomparquet.planning.arrow_schema import cast, scan_type
from bloomparquet.planning.partitions import to_array
from bloomparquet.query.evaluate.mask import mask
from bloomparquet.query.nested import map_leaf_types
from bloomparquet.query.predicate import columns
from bloomparquet.reading.calendars import NO_CONDITION, legacy_calendar_columns, require_gregorian
from bloomparquet.reading.collations import compared_names, require_no_collation
from bloomparquet.reading.parquet_file import read_row_groups
from bloomparquet.storage.files import ReadCount
from bloomparquet.storage.open import open_storage
from bloomparquet.storage.staleness import checked, require_unchanged
from pyspark_bloomparquet.options.key_provider import invalidating, provided_keys
from pyspark_bloomparquet.read.arrow_to_spark import arrow_schema, to_spark_batch
from pyspark_bloomparquet.read.spark_schema import resolve

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from bloomparquet.parquet.encryption.keys import Keys
    from bloomparquet.parquet.metadata.footer import Footer
    from bloomparquet.query.columns import SchemaNode
    from bloomparquet.storage.files import Storage
    from pyspark_bloomparquet.options.load import Options
    from pyspark_bloomparquet.read.splits import FilePart, Split

_SESSION_ZONE = "spark.sql.session.timeZone"


def read_split(split: Split, schema: StructType, options: Options) -> Iterator[pa.RecordBatch]:
    """The rows of `split` for which its `where` is true, with the columns of `schema`. Errors name the file."""
    storage, _ = open_storage(options.paths[0], options.storage_options)
    keys = provided_keys(options.key_provider)
    with invalidating(options.key_provider):
        for part in split.files:
            batches = _read_file(storage, keys, part, split, schema, options)
            try:
                yield from checked(storage, split.comparable(part.file), batches)
            except FileNotFoundError:
                if not options.ignore_missing_files:
                    raise
            except (PermissionError, FileChangedError):
                raise  # not a damaged file: ignoreCorruptFiles must not hide it
            except (FormatError, pa.ArrowInvalid, OSError):
                if not options.ignore_corrupt_files:
                    raise
    for file in split.skipped.files() if split.skipped is not None else ():
        if not (options.ignore_missing_files and not os.path.exists(file.path)):
            require_unchanged(storage, split.comparable(file))


def _read_file(
    storage: Storage, keys: Keys | None, part: FilePart, split: Split, schema: StructType, options: Options
) -> Iterator[pa.RecordBatch]:
    (footer,) = read_footers(storage, [part.file], ReadCount(), keys=keys)
    assert footer is not None
    file = _File(part, footer, split, schema, options)
    batches = read_row_groups(storage, part.path, footer, part.row_groups, file.names_to_read())
    for batch in batches:
        matching = file.matching(batch)
        if matching is None:
            yield file.convert(batch)
        elif matching.true_count:
            # Filter after the conversion: Arrow can filter all types of Spark, but not all types of files.
            yield _filter(file.convert(batch), matching)


class _File:
    """The columns and the partition values of one file, for the schema and the predicate of a load."""

    def __init__(self, part: FilePart, footer: Footer, split: Split, schema: StructType, options: Options) -> None:
        self._path, self._schema, self._where, self._options = part.path, schema, split.where, options
        self._columns = {node.name: node for node in footer.profile.schema.root.children}
        self._legacy_calendar = legacy_calendar_columns(footer)
        compared = compared_names(split.where, self._columns, options.case_sensitive)
        require_no_collation(footer.profile.traits.collated.intersection(compared), part.path)
        self._compared_in_legacy_calendar = self._legacy_calendar.intersection(compared)
        self._raw_values = dict(zip(split.partition_types, part.values, strict=False))
        partitions = ((self._partition(field.name), field.type) for field in arrow_schema(schema))
        self._partition_values = {
            name: self._partition_value(name, kind) for name, kind in partitions if name is not None
        }
        self._where_columns = self._find_where_columns(split.partition_types)

    def names_to_read(self) -> list[str]:
        """The columns of the file that are in the schema or in `where`."""
        fields = (field.name for field in self._schema.fields if self._partition(field.name) is None)
        names = (self._find(self._columns, name) for name in fields)
        tested = (source for source in self._where_columns.values() if isinstance(source, str))
        return list(dict.fromkeys([*(name for name in names if name is not None), *tested]))

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return to_spark_batch(
            batch,
            self._schema,
            self._partition_values,
            case_sensitive=self._options.case_sensitive,
            legacy_calendar=self._legacy_calendar,
            path=self._path,
        )

    def matching(self, batch: pa.RecordBatch) -> pa.BooleanArray | None:
        """The mask of the rows that match `where`, by the types of the file, not of the schema. None without
        `where`."""
        if self._where is None:
            return None
        for name in self._compared_in_legacy_calendar:
            require_gregorian(batch.column(name), f"{self._path}: column {name}", NO_CONDITION)
        arrays = []
        for source in self._where_columns.values():
            if isinstance(source, str):
                column = batch.column(source)
                arrays.append(cast(column, _planned_type(column.type, self._columns[source])))
            else:
                arrays.append(pa.repeat(source, batch.num_rows))
        tested = pa.RecordBatch.from_arrays(arrays, names=list(self._where_columns)) if arrays else batch.select([])
        zone = self._options.time_zone or "UTC"
        with located(self._path):
            return mask(self._where, tested, timezone=zone, case_sensitive=self._options.case_sensitive)

    def _find(self, names: Iterable[str], name: str) -> str | None:
        return resolve(names, name, case_sensitive=self._options.case_sensitive)

    def _partition(self, name: str) -> str | None:
        """The name that partition column `name` has in the directories; None if `name` is no partition column."""
        return self._find(self._raw_values, name)

    def _partition_value(self, partition: str, kind: pa.DataType) -> pa.Scalar:
        raw, zone = self._raw_values[partition], "UTC"
        if pa.types.is_timestamp(kind) and kind.tz is not None and raw is not None:
            zone = self._options.time_zone or _session_zone(partition)
        return to_array([raw], kind, zone)[0]

    def _find_where_columns(self, partition_types: dict[str, pa.DataType]) -> dict[str, pa.Scalar | str]:
        """The columns of `where`, each as a partition value or as the name of a column of the file."""
        sources: dict[str, pa.Scalar | str] = {}
        for column in columns(self._where) if self._where is not None else ():
            partition, name = self._partition(column[0]), self._find(self._columns, column[0])
            if partition is not None:
                sources[partition] = self._partition_value(partition, partition_types[partition])
            elif name is not None:
                sources[name] = name
            else:  # null: resolved here, so that a name with dots does not find a field of a struct instead
                sources[column[0]] = pa.scalar(None)
        return sources


def _planned_type(kind: pa.DataType, node: SchemaNode) -> pa.DataType:
    """The type by which the planner compares the column. A duration is a number, as in Spark."""
    return map_leaf_types(scan_type(kind, node), lambda leaf: pa.int64() if pa.types.is_duration(leaf) else leaf)


def _filter(batch: pa.RecordBatch, matching: pa.BooleanArray) -> pa.RecordBatch:
    if batch.num_columns:
        return batch.filter(matching)
    return pa.RecordBatch.from_pydict({"rows": pa.nulls(matching.true_count)}).select([])


def _session_zone(name: str) -> str:
    from pyspark import TaskContext

    context = TaskContext.get()
    zone = context.getLocalProperty(_SESSION_ZONE) if context is not None else None
    if zone is None:
        raise OptionError(
            f"partition column {name} has timestamps without a zone, and a Python data source cannot see the session's "
            "zone; set the option timeZone to the value of spark.sql.session.timeZone"
        )
    return zone
