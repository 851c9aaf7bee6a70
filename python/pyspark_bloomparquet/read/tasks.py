"""One split → Arrow batches as Spark expects them. Runs on executors.

A file is read batch by batch, and each batch is cast and handed over before the next is decoded: memory holds part of
one row group.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from bloomparquet.errors import FileChangedError, FormatError, OptionError
from bloomparquet.parquet.metadata.footer import read_footers
from bloomparquet.planning.partitions import to_array
from bloomparquet.query.evaluate import mask
from bloomparquet.query.nested import map_leaf_types
from bloomparquet.query.predicate import columns
from bloomparquet.reading.arrow_schema import cast, scan_type
from bloomparquet.reading.parquet import read_row_groups
from bloomparquet.storage.files import ReadCount, open_storage
from bloomparquet.storage.staleness import checked, require_unchanged
from pyspark_bloomparquet.options.key_provider import doubted, provided_keys
from pyspark_bloomparquet.read.arrow_to_spark import arrow_schema, to_spark_batch
from pyspark_bloomparquet.read.spark_schema import legacy_calendar_columns, resolve

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from bloomparquet.parquet.encryption.keys import Keys
    from bloomparquet.query.columns import SchemaNode
    from bloomparquet.storage.files import Storage
    from pyspark_bloomparquet.options.load import Options
    from pyspark_bloomparquet.read.splits import FilePart, Split

_SESSION_ZONE = "spark.sql.session.timeZone"


def read_split(split: Split, schema: StructType, options: Options) -> Iterator[pa.RecordBatch]:
    """The rows of `split` for which its `where` is TRUE, with the columns of `schema`. Errors name the file."""
    storage, keys = open_storage(options.paths[0])[0], provided_keys(options.key_provider)
    with doubted(options.key_provider):
        for part in split.files:
            yield from _read_part(storage, keys, part, split, schema, options)
    for file in split.skipped.files() if split.skipped is not None else ():
        if not (options.ignore_missing_files and not os.path.exists(file.path)):
            require_unchanged(storage, split.planned(file))


def _read_part(
    storage: Storage, keys: Keys | None, part: FilePart, split: Split, schema: StructType, options: Options
) -> Iterator[pa.RecordBatch]:
    try:
        yield from checked(storage, split.planned(part.file), _read_file(storage, keys, part, split, schema, options))
    except FileNotFoundError:
        if not options.ignore_missing_files:
            raise
    except (PermissionError, FileChangedError):
        raise  # a file that may not be read, or of which rows may be missing, is no damaged one
    except (FormatError, pa.ArrowInvalid, OSError):
        if not options.ignore_corrupt_files:
            raise


def _read_file(
    storage: Storage, keys: Keys | None, part: FilePart, split: Split, schema: StructType, options: Options
) -> Iterator[pa.RecordBatch]:
    yield from _FileReader(storage, keys, part, split, schema, options).batches()


class _FileReader:
    """One file of a split."""

    def __init__(
        self,
        storage: Storage,
        keys: Keys | None,
        part: FilePart,
        split: Split,
        schema: StructType,
        options: Options,
    ) -> None:
        self._storage, self._part, self._schema, self._options = storage, part, schema, options
        self._where = split.where
        self._raw = dict(zip(split.partition_types, part.values, strict=False))
        (footer,) = read_footers(storage, [part.file], ReadCount(), keys=keys)
        assert footer is not None
        self._footer = footer
        self._nodes = {node.name: node for node in footer.profile.schema.root.children}
        self._constants = self._typed_constants()
        self._tested = self._find_tested(split.partition_types)

    def batches(self) -> Iterator[pa.RecordBatch]:
        names = list(
            dict.fromkeys([*self._stored_names(), *(found for _, found in self._tested if isinstance(found, str))])
        )
        legacy_calendar = legacy_calendar_columns(self._footer)
        for batch in read_row_groups(self._storage, self._part.path, self._footer, self._part.row_groups, names):
            matching = None if self._where is None else self._matching(batch)
            if matching is not None and not matching.true_count:
                continue
            converted = to_spark_batch(
                batch,
                self._schema,
                self._constants,
                case_sensitive=self._options.case_sensitive,
                legacy_calendar=legacy_calendar,
                path=self._part.path,
            )
            # Filtered last: Arrow filters every type that Spark has, but not every one that a file may have.
            yield converted if matching is None else _filter(converted, matching)

    def _partition(self, name: str) -> str | None:
        """The partition column that `name` is, as the directories call it; None where it is none."""
        names = list(self._raw)
        at = resolve(names, name, case_sensitive=self._options.case_sensitive)
        return None if at is None else names[at]

    def _stored_names(self) -> Iterator[str]:
        """The file's columns that the schema asks for."""
        names = list(self._nodes)
        for field in self._schema.fields:
            if self._partition(field.name) is None:
                at = resolve(names, field.name, case_sensitive=self._options.case_sensitive)
                if at is not None:
                    yield names[at]

    def _typed_constants(self) -> dict[str, pa.Scalar]:
        """The partition columns that the schema asks for, each as the type that it has there."""
        found = ((self._partition(field.name), field.type) for field in arrow_schema(self._schema))
        return {name: self._constant(name, kind) for name, kind in found if name is not None}

    def _constant(self, name: str, kind: pa.DataType) -> pa.Scalar:
        zone = "UTC"
        if pa.types.is_timestamp(kind) and kind.tz is not None and self._raw[name] is not None:
            zone = self._options.time_zone or _session_zone(name)
        return to_array([self._raw[name]], kind, zone)[0]

    def _find_tested(self, partition_types: dict[str, pa.DataType]) -> list[tuple[str, pa.Scalar | str]]:
        """What `where` looks at: the name it is tested by, with a constant, or with the file's column of that name."""
        found: dict[str, pa.Scalar | str] = {}
        names = list(self._nodes)
        for column in columns(self._where) if self._where is not None else ():
            top = column[0]
            constant = self._partition(top)
            at = resolve(names, top, case_sensitive=self._options.case_sensitive)
            if constant is not None:
                found[constant] = self._constant(constant, partition_types[constant])
            elif at is not None:
                found[names[at]] = names[at]
            else:  # null here, and not a field of a struct that the name with its dots would find instead
                found[top] = pa.scalar(None)
        return list(found.items())

    def _matching(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Which rows match, judged on what the file holds, whatever types the schema asks for."""
        arrays = []
        for _, source in self._tested:
            if isinstance(source, str):
                column = batch.column(source)
                arrays.append(cast(column, _planned_type(column.type, self._nodes[source])))
            else:
                arrays.append(pa.repeat(source, batch.num_rows))
        tested = (
            pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in self._tested]) if arrays else batch.select([])
        )
        assert self._where is not None
        zone = self._options.time_zone or "UTC"
        return mask(self._where, tested, timezone=zone, case_sensitive=self._options.case_sensitive)


def _planned_type(kind: pa.DataType, node: SchemaNode) -> pa.DataType:
    """The type that planning judged the column by; a duration is the number that Spark sees."""
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
            f"the directories of partition column {name} hold times without a zone, and the session's zone cannot be "
            "seen from Python; give the option timeZone (what spark.sql.session.timeZone is)"
        )
    return zone
