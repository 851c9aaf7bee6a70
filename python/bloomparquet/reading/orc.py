"""Reads the rows and the Bloom filters of ORC files.

The number of a row group is counted within its file, over all stripes. A stripe without row groups counts as one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bloomparquet.errors import UnsupportedError, quoted, unless_error
from bloomparquet.orc import rows, stripe_indexes
from bloomparquet.orc.bloom_filter import Hashes, OrcBloomFilter
from bloomparquet.orc.encoding import encode_value, orc_family
from bloomparquet.orc.file_tail import JULIAN_GREGORIAN, Tail
from bloomparquet.orc.schema import build_schema
from bloomparquet.orc.stripe_indexes import StripeId, StripeIndexes
from bloomparquet.orc.writer_quirks import why_filters_unusable
from bloomparquet.planning.evidence.interface import Table
from bloomparquet.planning.orc.stripes import Stripes, tails_of
from bloomparquet.query.columns import FileSchema, LeafColumn
from bloomparquet.query.evaluate.mask import Convert
from bloomparquet.query.literals import Family
from bloomparquet.query.names import dotted_name
from bloomparquet.reading.interface import FileReader, FilterRow, Probed
from bloomparquet.storage.files import ReadCount, Storage

_STRIPES_AT_ONCE = 256  # with the filters of one column in memory


class OrcFileReader(FileReader):
    """The reader of one ORC file. Its amounts are not counted: pyarrow does not tell them."""

    collated = frozenset()  # Spark does not write collations to ORC files

    def __init__(self, storage: Storage, tail: Tail, schema: FileSchema) -> None:
        self.storage, self.path, self.schema, self._tail = storage, tail.path, schema, tail
        self._source = storage.open_file(tail.path)
        # Timestamps need no check: Arrow refuses those before 1677.
        has_legacy_dates = tail.calendar == JULIAN_GREGORIAN
        dates = (leaf.path[0] for leaf in schema.leaves if leaf.node.physical_type == "DATE")
        self.legacy_calendar = frozenset(dates if has_legacy_dates else ())

    def size_of(self, unit: int, columns: Sequence[str]) -> int:
        return self._tail.stripes[unit].length * len(columns) // max(len(self.schema.root.children), 1)

    def read(self, units: Sequence[int], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return rows.read_stripes(self.storage, self._tail, units, columns, source=self._source)


@dataclass(frozen=True)
class OrcReader:
    """The reader of ORC files; see :class:`bloomparquet.reading.parquet.ParquetReader`."""

    _table: Table
    convert: ClassVar[Convert] = staticmethod(rows.coerce_all)

    def schemas(self, files: Sequence[int] | None = None) -> Iterator[pa.Schema]:
        tails = self._table.gather(range(len(self._table.files)) if files is None else files, tails_of)
        return map(rows.arrow_schema, tails)

    def file(self, file_index: int) -> OrcFileReader:
        (tail,) = self._table.gather([file_index], tails_of)
        return OrcFileReader(self._table.storage, tail, build_schema(tail.types)[0])


@dataclass(frozen=True)
class OrcInspector:
    """Looks into the filters of ORC files; see :class:`bloomparquet.reading.parquet.ParquetInspector`."""

    _table: Stripes

    def column_type(self, schema_index: int, leaf: LeafColumn) -> tuple[Family, str]:
        column_type = self._table.type_of(schema_index, leaf)
        return orc_family(column_type), column_type.describe()

    def row_groups(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        file = np.repeat(self._table.file, np.diff(self._table.first_group))
        first = self._table.first_group[self._table.first]
        return file, np.arange(len(file)) - first[file]

    def filters(self, leaves: Sequence[tuple[int, LeafColumn]]) -> Iterator[FilterRow]:
        _, numbers = self.row_groups()
        for schema_index, leaf, at, stripe, filters in self._read_filters(leaves):
            column, tail = self._table.column_of(schema_index, leaf), self._table.tails[stripe.id.file]
            kind = stripe.filter_kind(column)
            assert kind is not None
            unusable = why_filters_unusable(tail, column, stripe)
            stripe_rows, stride = tail.stripes[stripe.id.stripe].rows, tail.row_index_stride
            for i, bloom in enumerate(filters):
                yield FilterRow(
                    tail.path, int(numbers[at]) + i, stripe.id.stripe, dotted_name(leaf.path),
                    tail.types[column].describe(), min(stride, stripe_rows - i * stride),
                    stripe.streams[kind, column].offset, bloom.bits // 8, bloom.bits_set, bloom.estimated_ndv,
                    bloom.estimated_fpp, unusable,
                )  # fmt: skip

    def probe(self, leaves: Sequence[tuple[int, LeafColumn]], value: Any, timezone: str) -> Probed:
        encoded: dict[tuple[int, str | None], Hashes] = {}

        def hashes(schema_index: int, leaf: LeafColumn, writer_timezone: str | None) -> Hashes:
            key = schema_index, writer_timezone
            if key not in encoded:
                encoded[key] = self._encode(schema_index, leaf, value, timezone, writer_timezone)
            return encoded[key]

        for schema_index, leaf in leaves:  # an error of the value comes first, also for files without filters
            hashes(schema_index, leaf, "UTC")
        might_match = np.ones(int(self._table.first_group[-1]), np.bool_)
        has_filter = np.zeros_like(might_match)
        shares: list[float] = []
        for schema_index, leaf, at, stripe, filters in self._read_filters(leaves):
            if not filters:
                continue
            tail = self._table.tails[stripe.id.file]
            unusable = why_filters_unusable(tail, self._table.column_of(schema_index, leaf), stripe)
            if unusable is not None:
                raise UnsupportedError(
                    f"{tail.path}: the Bloom filters of column {dotted_name(leaf.path)} cannot be used to skip: "
                    f"{unusable}"
                )
            wanted = hashes(schema_index, leaf, stripe.writer_timezone)
            end = at + len(filters)
            might_match[at:end] = [bloom.check(wanted).any() for bloom in filters]
            shares += [bloom.estimated_fpp for bloom, maybe in zip(filters, might_match[at:end]) if maybe]
            has_filter[at:end] = True
        return Probed(might_match, has_filter, float(np.mean(shares)) if shares else 0.0)

    def _encode(
        self, schema_index: int, leaf: LeafColumn, value: Any, timezone: str, writer_timezone: str | None
    ) -> Hashes:
        tail, name = self._table.profiles[schema_index].tail, dotted_name(leaf.path)
        column_type = self._table.type_of(schema_index, leaf)
        encoded = encode_value(column_type, value, timezone=timezone, writer_timezone=writer_timezone, column=name)
        if encoded is None:
            raise UnsupportedError(
                f"{tail.path}: column {name} ({column_type.describe()}): cannot probe for {quoted(value)}: the "
                "bytes that this column stores for the value are not known"
            )
        return encoded

    def _read_filters(
        self, leaves: Sequence[tuple[int, LeafColumn]]
    ) -> Iterator[tuple[int, LeafColumn, int, StripeIndexes, tuple[OrcBloomFilter, ...]]]:
        """The filters of `leaves` in every stripe that has some.

        Each item is the index of the schema, the leaf, the position of the stripe's first row group among all row
        groups of the table, the stripe, and its filters.
        """
        table = self._table
        for schema_index, group in groupby(leaves, key=lambda each: each[0]):
            members, columns = table.members(schema_index), [leaf for _, leaf in group]
            for start in range(0, len(members), _STRIPES_AT_ONCE):
                stripes = members[start : start + _STRIPES_AT_ONCE].tolist()
                ids = [StripeId(int(table.file[i]), int(table.index[i])) for i in stripes]
                indexes = [
                    unless_error(index)
                    for index in stripe_indexes.read_stripe_footers(table.storage, table.tails, ids, ReadCount())
                ]
                for leaf in columns:
                    wanted = [(index, self._table.column_of(schema_index, leaf)) for index in indexes]
                    results = stripe_indexes.read_filters(table.storage, wanted, ReadCount())
                    for i, index, result in zip(stripes, indexes, results, strict=True):
                        filters = unless_error(result)
                        if filters is not None:
                            yield schema_index, leaf, int(table.first_group[i]), index, filters
