"""ORC files as pyarrow writes them, so that ``spark.read.orc`` finds the same rows and types again, in every zone.

A TIMESTAMP of Spark becomes an ORC TIMESTAMP_INSTANT, with the attribute by which Spark knows it: pyarrow writes the
zone of a TIMESTAMP as GMT, by whose clock readers would take it for another moment. What ORC has no type for is a
number with an attribute, as Spark itself writes it.

Sources: Spark's ``OrcUtils``; apache/arrow ``cpp/src/arrow/adapters/orc/util.cc``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
from pyspark.sql import types as T  # noqa: N812 - the name that PySpark users give it

from bloomparquet.errors import UnsupportedError
from bloomparquet.orc.hashed import why_filters_unusable
from bloomparquet.orc.schema import Kind, file_schema
from bloomparquet.orc.tail import Tail, parse_tail
from bloomparquet.storage import FileInfo, Storage
from bloomparquet.writing.bloom import EVERY_COLUMN
from pyspark_bloomorc.calendar import numbers, to_gregorian, to_hybrid
from pyspark_bloomorc.types import CATALYST
from pyspark_bloomparquet.batches import arrow_schema
from pyspark_bloomparquet.blooms import leaf_of, words
from pyspark_bloomparquet.file_schema import check_schema
from pyspark_bloomparquet.write_options import check_codec

if TYPE_CHECKING:
    from bloomparquet.format.schema import LeafColumn
    from pyspark_bloomparquet.formats import OpenFile
    from pyspark_bloomparquet.write_options import OrcWriteOptions

_SESSION_CODEC = "spark.sql.orc.compression.codec"
_SPARKS_CODEC = "zstd"
_COMPRESSION_BLOCK = 256 * 1024
_REFUSED = ("TimeType", "VariantType", "NullType")
_FRACTIONS = (Kind.FLOAT, Kind.DOUBLE)
_MICROS = 1_000_000
_1900 = -2_208_988_800 * _MICROS
_WITH_THE_JAR = "or write with the jar (pyspark_bloomorc.attach), by Spark's own writer"


def check(schema: T.StructType, *, case_sensitive: bool) -> None:
    check_schema(schema, case_sensitive=case_sensitive)
    for field in schema.fields:
        _refuse(field.dataType, field.name)


def _refuse(kind: T.DataType, place: str) -> None:
    if isinstance(kind, T.UserDefinedType):
        kind = kind.sqlType()
    if type(kind).__name__ in _REFUSED:
        raise UnsupportedError(f"column {place} is {kind.simpleString()}, which ORC files cannot have; cast it")
    if isinstance(kind, T.StructType):
        for field in kind.fields:
            _refuse(field.dataType, f"{place}.{field.name}")
    elif isinstance(kind, T.ArrayType):
        _refuse(kind.elementType, f"{place}.element")
    elif isinstance(kind, T.MapType):
        _refuse(kind.keyType, f"{place}.key")
        _refuse(kind.valueType, f"{place}.value")


class OrcLayout:
    """The files of a write: see :class:`pyspark_bloomparquet.formats.Layout`."""

    def __init__(self, options: OrcWriteOptions, schema: T.StructType) -> None:
        self._options = options
        named = zip(arrow_schema(schema), schema.fields, strict=True)
        self._schema = pa.schema([_stored_field(field.name, field.type, spark.dataType) for field, spark in named])
        self._blooms = _bloom_columns(options, self._empty())

    def codec(self, setting: Callable[[str], str | None]) -> str:
        found = setting(_SESSION_CODEC)
        return self._options.codec or check_codec(_SESSION_CODEC, found or _SPARKS_CODEC, self._options.source)

    def extension(self, codec: str) -> str:
        return ".orc" if codec == "none" else f".{codec}.orc"

    def stored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        named = zip(batch.columns, self._schema, strict=True)
        columns = [_stored(column, field.type, f"column {field.name}") for column, field in named]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def open(self, path: str, storage: Storage, codec: str) -> OpenFile:
        return OpenOrc(storage.arrow.open_output_stream(path), self._schema, self._written_by(codec))

    def tell(self, limited: Sequence[tuple[str, float]]) -> None:
        """Nothing: these filters are never limited."""

    def _written_by(self, codec: str) -> dict[str, Any]:
        return {
            "compression": "uncompressed" if codec == "none" else codec,
            "compression_block_size": _COMPRESSION_BLOCK,
            "stripe_size": self._options.stripe_bytes,
            "row_index_stride": self._options.row_index_stride,
            "bloom_filter_columns": self._blooms,
            "bloom_filter_fpp": self._options.bloom_fpp,
        }

    def _empty(self) -> Tail:
        """The tail of a file without rows."""
        sink = pa.BufferOutputStream()
        try:
            orc.write_table(self._schema.empty_table(), sink)
        except pa.ArrowNotImplementedError as error:
            raise UnsupportedError(f"pyarrow {pa.__version__} writes no ORC files of such columns: {error}") from error
        raw = sink.getvalue().to_pybytes()
        return parse_tail(FileInfo("a file without rows", len(raw), 0), raw)


class OpenOrc:
    """A file that is written: see :class:`pyspark_bloomparquet.formats.OpenFile`."""

    def __init__(self, sink: Any, schema: pa.Schema, options: dict[str, Any]) -> None:
        self._sink, self._schema = sink, schema
        self._writer = orc.ORCWriter(sink, **options)
        self._is_empty = True

    def write_batch(self, batch: pa.RecordBatch) -> None:
        self._writer.write(pa.Table.from_batches([batch]))
        self._is_empty = False

    def close(self) -> Sequence[tuple[str, float]]:
        if self._is_empty:
            self._writer.write(self._schema.empty_table())
        self._writer.close()
        self._sink.close()
        return ()

    def abort(self) -> None:
        with suppress(OSError, pa.ArrowException):  # it would write once more when it is collected
            self._writer.close()
        self._sink.close()


def _stored_field(name: str, kind: pa.DataType, spark: T.DataType) -> pa.Field:
    """What a column is in a file, with the name that Spark has for its type where ORC has none."""
    if isinstance(spark, T.UserDefinedType):
        spark = spark.sqlType()
    if isinstance(spark, T.TimestampType):
        return pa.field(name, pa.timestamp("us", "UTC"), metadata={CATALYST: "timestamp"})
    if isinstance(spark, T.TimestampNTZType | T.DayTimeIntervalType):
        return pa.field(name, pa.int64(), metadata={CATALYST: spark.simpleString()})
    if isinstance(spark, T.StructType):
        named = zip(kind, spark.fields, strict=True)
        return pa.field(name, pa.struct([_stored_field(each.name, each.type, field.dataType) for each, field in named]))
    if isinstance(spark, T.ArrayType):
        return pa.field(name, pa.list_(_stored_field("item", kind.value_type, spark.elementType)))
    if isinstance(spark, T.MapType):
        key = _stored_field("key", kind.key_type, spark.keyType).with_nullable(False)
        return pa.field(name, pa.map_(key, _stored_field("value", kind.item_type, spark.valueType)))
    return pa.field(name, kind)


def _stored(array: Any, kind: pa.DataType, place: str) -> Any:
    """`array`, as Spark hands it over, as a file has it. UnsupportedError for values that readers would take for
    others."""
    types = pa.types
    if types.is_struct(kind):
        named = zip(array.flatten(), kind, strict=True)
        children = [_stored(child, field.type, f"{place}.{field.name}") for child, field in named]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    if types.is_list(kind):
        values = _stored(array.values, kind.value_type, f"{place}.element")
        return _around(array, kind, values)
    if types.is_map(kind):
        keys = _stored(array.keys, kind.key_type, f"{place}.key")
        items = _stored(array.items, kind.item_type, f"{place}.value")
        return _around(array, kind, pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field]))
    if types.is_timestamp(kind):
        array = array.cast(kind)
        _refuse_moments(array, place)
    elif types.is_date32(kind):
        return _stored_days(array, place)
    elif types.is_timestamp(array.type) or types.is_duration(array.type):
        return array.cast(pa.timestamp("us") if types.is_timestamp(array.type) else pa.duration("us")).cast(kind)
    return array if array.type == kind else array.cast(kind)


def _around(array: Any, kind: pa.DataType, values: Any) -> Any:
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], array.null_count, array.offset, [values])


def _refuse_moments(array: Any, place: str) -> None:
    micros, _ = numbers(array)  # those of nulls are 0
    if (micros < _1900).any():
        raise UnsupportedError(
            f"{place} has times from before 1900, which readers of ORC files take for others in other zones; cast it "
            f"to a string, {_WITH_THE_JAR}"
        )
    if ((micros < 0) & (micros % _MICROS != 0)).any():
        raise UnsupportedError(
            f"{place} has times from before 1970 with fractions of a second, which Spark cannot read from files that "
            f"pyarrow {pa.__version__} writes; cut them off by date_trunc('second', …), {_WITH_THE_JAR}"
        )


def _stored_days(array: Any, place: str) -> Any:
    days, nulls = numbers(array)
    found = to_hybrid(days)
    if (to_gregorian(found) != days).any():
        raise UnsupportedError(
            f"{place} has days that the calendar of ORC files has not, such as those from 5 to 14 October 1582; cast "
            "it to a string"
        )
    return pa.array(found.astype(np.int32), pa.int32(), mask=nulls).cast(pa.date32())


def _bloom_columns(options: OrcWriteOptions, tail: Tail) -> list[int]:
    """The numbers of the columns that get filters. OptionError for a column that is not there, or whose filters would
    prove nothing."""
    schema, columns = file_schema(tail.types)

    def refusal(leaf: LeafColumn) -> str | None:
        if leaf.repeated:
            return "is inside a list or a map; filters on elements prune nothing"
        why = why_filters_unusable(tail, columns[leaf.index])
        return None if why is None else f"cannot have one that proves something: {why}; {_WITH_THE_JAR[3:]}"

    found: set[int] = set()
    for word in words(options.bloom_columns):
        if word == EVERY_COLUMN:
            served = (leaf for leaf in schema.leaves if refusal(leaf) is None)
            found |= {columns[leaf.index] for leaf in served if tail.types[columns[leaf.index]].kind not in _FRACTIONS}
        else:
            leaf = leaf_of(word, str(options.bloom_columns), schema.leaves, refusal, options.columns_option)
            found.add(columns[leaf.index])
    return sorted(found)
