"""Reads the matching rows of one file: the columns of the condition first, then the others where rows match."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bloomparquet.errors import located
from bloomparquet.query.arrow_values import filter_rows, from_bools, to_bools
from bloomparquet.query.predicate import And, Eq, In, Predicate, RowTest
from bloomparquet.reading.calendars import NO_CONDITION, NOT_SHOWN, require_gregorian
from bloomparquet.reading.collations import collation_error
from bloomparquet.reading.cost import MatchedShare, reads_condition_first, row_groups_at_once
from bloomparquet.reading.file_columns import FileColumns
from bloomparquet.reading.interface import FileReader
from bloomparquet.storage.forks import new_lock


@dataclass(frozen=True)
class Condition:
    """The condition of a scan: `matches` gives its value for each row of a batch of `columns`. `compared` gives the
    columns that decide by their values; the others decide by being null or not. `wanted`: a column, and values of which
    it has one in every matching row; None if no such column is known. `matched`: what the scan has found so far."""

    matches: Callable[[pa.RecordBatch], pa.BooleanArray]
    columns: pa.Schema
    compared: Callable[[], Iterable[str]]
    wanted: tuple[str, Sequence[Any]] | None
    timezone: str | None
    matched: MatchedShare


class FileScan:
    """The scan of one file. Several threads may read its row groups (stripes of ORC).

    * `result`: the columns to return.
    * `constants`: one row, the partition values of the file.
    * `rows`: how many each row group of the file has.
    * `deleted`: the positions of the deleted rows, ascending; None if there are none.
    * `for_spark`: values that Spark's own reader shows as other days are errors, also without a condition; and one row
      group is decoded at a time.

    Raises UnsupportedError if the condition compares text with a collation.
    """

    def __init__(
        self,
        reader: FileReader,
        columns: FileColumns,
        result: pa.Schema,
        condition: Condition | None,
        constants: pa.Table,
        rows: NDArray[np.int64],
        deleted: NDArray[np.int64] | None,
        for_spark: bool,
    ) -> None:
        self._reader, self._columns, self._result, self._condition = reader, columns, result, condition
        self._constants = dict(zip(constants.column_names, constants.columns, strict=True))
        self._rows, self._deleted, self._for_spark = rows, deleted, for_spark
        self._bytes_per_row: dict[int, float] = {}  # decoded bytes, by the number of decoded columns
        tested = condition.columns if condition is not None else pa.schema([])
        tested_names = frozenset(tested.names)
        # By name: a column that is named twice is read once.
        others = {field.name: field for field in result if field.name not in tested_names}
        self._others = pa.schema(others.values())
        self._all = pa.schema([*tested, *self._others])
        self._other_names = self._stored_names(self._others)
        legacy, compared = reader.legacy_calendar, set[str | None]()
        if condition is not None and (legacy or reader.collated):
            compared = {columns.stored_name(name) for name in condition.compared()}
        if collated := reader.collated & compared:
            raise collation_error(collated, reader.path)
        self._legacy_compared = legacy & compared
        shown = result.names if for_spark and legacy else ()
        self._legacy_shown = [name for name in shown if columns.stored_name(name) in legacy]

    def read(self, units: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """The matching rows of row groups, in order."""
        reader, condition, start = self._reader, self._condition, 0
        rows = self._rows[units]
        while start < len(units):
            size = 0 if condition is None else reader.size_of(units[start], self._other_names)
            if condition is None or condition.matched.is_large or not reads_condition_first(size, reader.storage):
                first = self._all
            else:
                first = condition.columns
            bytes_per_row = None if self._for_spark else self._bytes_per_row.get(len(first))
            end = start + row_groups_at_once(rows[start:], bytes_per_row)
            chosen, start = units[start:end], end
            if reader.amounts is not None:
                reader.amounts.add_units(len(chosen))
            batches: Iterator[pa.RecordBatch]
            if first is self._all:
                batches = (batch.select(self._result.names) for batch, _ in self._match(chosen, self._all))
            else:
                batches = self._read_apart(chosen)
            for batch in batches:
                for name in self._legacy_shown:
                    require_gregorian(batch.column(name), f"{reader.path}: column {name}", NOT_SHOWN)
                yield batch

    def _read_apart(self, units: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """The matching rows, by reading the columns of the condition first."""
        condition = self._condition
        assert condition is not None
        matches = list(self._match(units, condition.columns))
        if not matches:
            return
        tested = pa.concat_batches([batch for batch, _ in matches])
        rows, start = np.concatenate([rows for _, rows in matches]), 0
        for stored in self._read_others(units, rows):
            others, same_rows = self._convert(stored, self._others), tested.slice(start, stored.num_rows)
            columns = {name: batch.column(name) for batch in (same_rows, others) for name in batch.schema.names}
            yield pa.RecordBatch.from_arrays([columns[name] for name in self._result.names], schema=self._result)
            start += stored.num_rows

    def _read_others(self, units: Sequence[int], rows: NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
        """The columns that are not tested, at the positions `rows`, which count over all `units`."""
        ends = np.cumsum(self._rows[units])
        bounds = [0, *np.searchsorted(rows, ends).tolist()]
        for i, unit in enumerate(units):
            first, last = bounds[i : i + 2]
            if first < last:
                start = ends[i] - self._rows[unit]
                yield from self._reader.read_rows(unit, self._other_names, rows[first:last] - start)

    def _positions_in_file(self, units: Sequence[int], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The positions in the file of `rows`, which count over all `units`."""
        ends, ends_in_file = np.cumsum(self._rows[units]), np.cumsum(self._rows)[units]
        return rows + (ends_in_file - ends)[np.searchsorted(ends, rows, side="right")]

    def _match(self, units: Sequence[int], schema: pa.Schema) -> Iterator[tuple[pa.RecordBatch, NDArray[np.int64]]]:
        """The columns `schema` of row groups, in batches of matching rows; and the positions of these rows, which count
        over all `units`."""
        names, possible = self._stored_names(schema), self._find_rows(units[0]) if len(units) == 1 else None
        if possible is None:
            stored_batches = self._reader.read(units, names)
        elif len(possible):
            stored_batches = self._reader.read_rows(units[0], names, possible)
        else:
            return
        matched, end, size = [np.zeros(0, np.int64)], 0, 0
        for stored in stored_batches:
            start, end, size = end, end + stored.num_rows, size + stored.nbytes
            rows = np.arange(start, end) if possible is None else possible[start:end]
            for name in self._legacy_compared:
                require_gregorian(stored.column(name), f"{self._reader.path}: column {name}", NO_CONDITION)
            batch = self._convert(stored, schema)
            if self._deleted is not None:
                live = ~np.isin(self._positions_in_file(units, rows), self._deleted, assume_unique=True)
                batch, rows = filter_rows(batch, from_bools(live)), rows[live]
            if self._condition is not None:
                with located(self._reader.path):
                    matches = self._condition.matches(batch)
                if matches.true_count == 0:
                    continue
                batch, rows = filter_rows(batch, matches), rows[to_bools(matches)]
                matched.append(rows)
            if batch.num_rows:
                yield batch, rows
        if end:
            self._bytes_per_row[len(schema)] = size / end
        if self._condition is not None and possible is None and end:
            sizes = [self._reader.size_of(unit, self._other_names) for unit in units]
            column_bytes = sum(sizes) // max(len(self._other_names), 1)
            self._condition.matched.note(np.concatenate(matched), end, column_bytes)

    def _find_rows(self, unit: int) -> NDArray[np.int64] | None:
        """The rows that may match; see :meth:`FileReader.find_rows`."""
        if self._condition is None or self._condition.wanted is None:
            return None
        column, values = self._condition.wanted
        stored = None if column in self._constants else self._columns.stored_name(column)
        return None if stored is None else self._reader.find_rows(unit, stored, values, self._condition.timezone)

    def _stored_names(self, schema: pa.Schema) -> list[str]:
        """The names in the file of those columns of `schema` that it has."""
        wanted = (name for name in schema.names if name not in self._constants)
        return [stored for name in wanted if (stored := self._columns.stored_name(name)) is not None]

    def _convert(self, stored: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        """The columns `schema` of the scan, from the columns of the file."""
        arrays = []
        for wanted in schema:
            if wanted.name in self._constants:
                arrays.append(pa.repeat(self._constants[wanted.name][0], stored.num_rows))
                continue
            name = self._columns.stored_name(wanted.name)
            column = None if name is None else stored.column(name)
            arrays.append(self._columns.convert(column, wanted, stored.num_rows))
        return pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else stored


@dataclass(eq=False)
class OpenFile:
    """A file that the first thread opens that reads it. It is closed with the last reference."""

    open_scan: Callable[[], FileScan]
    _lock: AbstractContextManager[bool, None] = field(default_factory=new_lock)
    _scan: FileScan | None = None

    def read(self, units: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """The matching rows of some row groups, in order."""
        with self._lock:
            if self._scan is None:
                self._scan = self.open_scan()
        yield from self._scan.read(units)


def wanted_values(where: Predicate, names: Sequence[str]) -> tuple[str, Sequence[Any]] | None:
    """A column of `names`, and values of which it has one in every row for which `where` is TRUE; the fewest values.
    None if no such column is known."""
    where = where.implied if isinstance(where, RowTest) else where
    fewest: tuple[str, Sequence[Any]] | None = None
    for leaf in where.children if isinstance(where, And) else [where]:
        if isinstance(leaf, Eq | In) and len(leaf.column) == 1 and leaf.column[0] in names:
            values = [leaf.value] if isinstance(leaf, Eq) else [value for value in leaf.values if value is not None]
            if values and None not in values and (fewest is None or len(values) < len(fewest[1])):
                fewest = leaf.column[0], values
    return fewest
