"""ORC files, for the data sources: see :class:`pyspark_bloomparquet.formats.Files`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from bloomparquet.errors import BloomParquetError, FormatError, PlanError, UnsupportedError
from bloomparquet.literals import coerce
from bloomparquet.orc.indexes import Place, read_stripes
from bloomparquet.orc.reading import read_stripes as read_rows
from bloomparquet.orc.schema import Kind
from bloomparquet.orc.tail import Tail, read_tails
from bloomparquet.predicate import And, Comparison, Membership, Not, Or, Predicate
from bloomparquet.pruning.binding import NoLeaf, bind
from bloomparquet.storage import FileInfo, ReadCount, Storage
from pyspark_bloomorc.clock import is_known, is_utc, jvm_zone, same_zone
from pyspark_bloomorc.moments import Reading, has_kind
from pyspark_bloomorc.types import check_readable, file_schema
from pyspark_bloomorc.unzoned import without_zone
from pyspark_bloomorc.writing import OrcLayout, check
from pyspark_bloomparquet.types import resolve

if TYPE_CHECKING:
    from pyspark.sql import types as T  # noqa: N812 - the name that PySpark users give it

    from bloomparquet.format.schema import FileSchema, LeafColumn
    from bloomparquet.literals import Value
    from bloomparquet.predicate import Column
    from pyspark_bloomparquet.formats import Described, StoredFile
    from pyspark_bloomparquet.options import Options
    from pyspark_bloomparquet.splits import FilePart

__all__ = ["check", "clock", "describe", "for_planning", "layout", "open", "require_plain"]

_WITHOUT_NAMES = "_col"
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)

layout = OrcLayout


class DescribedTail:
    """What a tail says of the columns."""

    def __init__(self, tail: Tail) -> None:
        self._tail = tail
        self.key: Hashable = repr(tail.types)
        self.names: Sequence[str] = tail.types[0].names

    def spark_schema(self) -> T.StructType:
        return file_schema(self._tail.types)


def describe(storage: Storage, files: Sequence[FileInfo], *, skip_corrupt: bool) -> Sequence[Described | None]:
    found: list[Described | None] = []
    for tail in read_tails(storage, files, ReadCount()):
        if isinstance(tail, BloomParquetError):
            if not (skip_corrupt and isinstance(tail, FormatError)):
                raise tail
            found.append(None)
        else:  # files without columns are passed over by Spark too
            found.append(DescribedTail(tail) if tail.types[0].kind != Kind.STRUCT or tail.types[0].names else None)
    return found


def clock(options: Options) -> str | None:
    return options.clock_time_zone or jvm_zone()


def for_planning(
    where: Predicate, schemas: Sequence[FileSchema], partitions: Mapping[str, pa.DataType], options: Options
) -> Predicate | None:
    """The planner knows the clock's zone alone, and what names no zone is of `timeZone`."""
    zone, by_clock = options.time_zone, clock(options)
    if zone is None or (by_clock is not None and same_zone(zone, by_clock)):
        return where
    moments = {name.lower() for name, kind in partitions.items() if pa.types.is_timestamp(kind)}
    try:
        return _with_zone(where, schemas, moments, zone)
    except _UnsaidError:
        return None


class _UnsaidError(Exception):
    """A condition means different things in different files, or to the planner."""


def _with_zone(where: Predicate, schemas: Sequence[FileSchema], moments: Set[str], zone: str) -> Predicate:
    if isinstance(where, And | Or):
        return type(where)(*(_with_zone(child, schemas, moments, zone) for child in where.children))
    if isinstance(where, Not):
        return Not(_with_zone(where.child, schemas, moments, zone))
    if not isinstance(where, Comparison | Membership):
        return where
    if where.column[0].lower() in moments:
        raise _UnsaidError
    kinds = {leaf.node.physical_type for leaf in _leaves(where.column, schemas)}
    if not kinds & {"TIMESTAMP", "TIMESTAMP_INSTANT"}:
        return where
    if isinstance(where, Membership):
        values = [_in_zone(value, zone) for value in where.values]
        changed = values != list(where.values)
        meant: Predicate = type(where)(where.column, values)
    else:
        value = _in_zone(where.value, zone)
        changed, meant = value != where.value, type(where)(where.column, value)
    if changed and len(kinds) > 1:
        raise _UnsaidError
    return meant if changed else where


def _leaves(column: Column, schemas: Sequence[FileSchema]) -> Iterator[LeafColumn]:
    for schema in schemas:
        leaf = bind(schema, column, case_sensitive=False)
        if not isinstance(leaf, NoLeaf):
            yield leaf


def _in_zone(value: Value, zone: str) -> Value:
    """A time that names no zone, with the one that it is of."""
    try:
        one, other = (coerce(value, "timestamp", timezone=each) for each in ("UTC", "Asia/Tokyo"))
        if one == other:
            return value
        micros, rest = divmod(coerce(value, "timestamp", timezone=zone), 1_000)
        found = _EPOCH + dt.timedelta(microseconds=micros)
    except (PlanError, OverflowError):
        raise _UnsaidError from None
    if rest:
        raise _UnsaidError
    return found


class StoredOrc:
    """A file that is read: see :class:`pyspark_bloomparquet.formats.StoredFile`."""

    old: Sequence[str] = ()

    def __init__(
        self, storage: Storage, part: FilePart, data: T.StructType, clock: str | None, options: Options
    ) -> None:
        self._storage, self._part, self._clock = storage, part, clock
        (tail,) = read_tails(storage, [FileInfo(part.path, part.size, 0)], ReadCount())
        if isinstance(tail, BloomParquetError):
            raise tail
        self._tail = tail
        root = tail.types[0]
        self.names: Sequence[str] = _by_position(tail, data) if _has_no_names(tail) else root.names
        if options.where is not None and list(self.names) != list(root.names):
            raise UnsupportedError(
                f"{part.path}: the file calls its columns {', '.join(root.names[:3])}, …, so the option where cannot "
                "go by their names; use .where(…) on the DataFrame instead"
            )
        for field in data.fields:
            at = resolve(self.names, field.name, case_sensitive=options.case_sensitive)
            if at is not None:
                place = f"{part.path}: column {field.name}"
                check_readable(
                    tail.types, root.children[at], field.dataType, place, case_sensitive=options.case_sensitive
                )

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        root = self._tail.types[0]
        columns = [self.names.index(name) for name in names]
        stored = [root.names[at] for at in columns]
        clocked = [at for at in columns if has_kind(self._tail.types, root.children[at], [Kind.TIMESTAMP])]
        for writer, stripes in groupby(self._part.row_groups, self._writer_zone if clocked else lambda stripe: None):
            reading = Reading(self._tail.types, self._tail.calendar, writer, self._clock)
            for batch in self._read(list(stripes), stored, writer):
                yield self._shown(batch, names, reading)

    def _read(self, stripes: list[int], stored: Sequence[str], writer: str | None) -> Iterator[pa.RecordBatch]:
        if writer is None or is_utc(writer):
            yield from read_rows(self._storage, self._tail, stripes, stored)
            return
        for stripe in stripes:
            image, tail = without_zone(self._storage, self._tail, stripe)
            yield from read_rows(image, tail, [0], stored)

    def meant(self, name: str, column: pa.Array) -> pa.Array:
        return column

    def _shown(self, batch: pa.RecordBatch, names: Sequence[str], reading: Reading) -> pa.RecordBatch:
        if not names:
            return batch
        root, types = self._tail.types[0], self._tail.types
        arrays = []
        for name in names:
            at = self.names.index(name)
            column, array = root.children[at], batch.column(root.names[at])
            if has_kind(types, column, [Kind.LIST, Kind.MAP]):
                array = array.take(pa.array(np.arange(len(array))))  # of a slice, all elements would be converted
            arrays.append(reading.shown(array, column, f"{self._part.path}: column {name}"))
        return pa.RecordBatch.from_arrays(arrays, names=list(names))

    def _writer_zone(self, stripe: int) -> str | None:
        """The zone in which a stripe was written."""
        (found,) = read_stripes(self._storage, [self._tail], [Place(0, stripe)], ReadCount())
        if isinstance(found, BloomParquetError):
            raise found
        zone, where = found.writer_timezone, f"{self._part.path}: stripe {stripe}"
        if zone is None:  # Java takes its own for it
            return self._clock
        if not is_known(zone):
            raise UnsupportedError(
                f"{where} was written in the time zone {zone!r}, which is not known here; read it by spark.read.orc, "
                "or give a schema without timestamps"
            )
        return zone


def open(  # noqa: A001 - what it is called is what it does
    storage: Storage, part: FilePart, data: T.StructType, clock: str | None, options: Options
) -> StoredFile:
    return StoredOrc(storage, part, data, clock, options)


def require_plain(storage: Storage, directory: str, path: str) -> None:
    """Nothing: encrypted ORC is neither read nor written."""


def _has_no_names(tail: Tail) -> bool:
    names = tail.types[0].names
    return bool(names) and all(name.startswith(_WITHOUT_NAMES) for name in names)


def _by_position(tail: Tail, data: T.StructType) -> list[str]:
    """What the columns of a file of Hive are called, whose names are none, when it is read as `data`."""
    count = len(tail.types[0].names)
    if count > len(data.fields):
        raise UnsupportedError(
            f"{tail.path}: its {count} columns have no names and are taken by their positions, and the schema has "
            f"{len(data.fields)} columns, so that it is not known which of them were left out; name all"
        )
    return [field.name for field in data.fields[:count]]
