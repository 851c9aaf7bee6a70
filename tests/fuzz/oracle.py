"""pyarrow's answers about a file, from a process of its own: pyarrow ends its process over some damaged files.

The process reads every row group and tells the values. Then it filters the rows, and says which skipped row groups hold
matching rows although none of their evidence is false. A mutated file may lie: min/max and null counts that its rows
contradict, or a filter that lacks their values. No promise covers such files.
"""

from __future__ import annotations

import datetime as dt
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from bloomparquet import Eq
from bloomparquet.query.evaluate.mask import bind_mask
from bloomparquet.query.predicate import Column
from tests.support.core import column_metadata, decode, encode, read_footer
from tests.support.stored import lacking, leaf_arrays, plain

_ALLOCATION = 2 << 30
_STATISTICS = 12  # field of ColumnMetaData
_MIN_MAX = {1, 2, 5, 6}  # fields of Statistics: min and max, and the deprecated ones
_NAN_COUNT = 9


Skipped = Sequence[tuple[int, str]]
"""The row groups that a plan skips, and the evidence."""
Question = tuple[Any, Skipped, bool]
"""A predicate, what a plan skips for it, and whether the rows are wanted."""
Values = list[tuple[Column, list[Any]]]
"""The distinct values of each leaf column that is not in a list."""


@dataclass
class Answer:
    """The answer to one predicate.

    `readable`: pyarrow raises no error. `rows`: those that match and are not in skipped row groups, if they are wanted.
    `lost`: the skipped row groups that should have been kept, and the rows that the row filter should have kept.
    """

    readable: bool = False
    rows: pa.Table | None = None
    lost: list[str] = field(default_factory=list)


class Oracle:
    """The process, which is started again if it has ended."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def values(self, path: str) -> Values | None:
        """The values of a file: none if pyarrow raises an error; None if it ends the process."""
        return self._ask(path)  # type: ignore[no-any-return]

    def answers(self, questions: Sequence[Question]) -> list[Answer] | None:
        """An answer about the last file to each question; None as for :meth:`values`, or if a table cannot be sent."""
        return self._ask(questions)  # type: ignore[no-any-return]

    def _ask(self, request: str | Sequence[Question]) -> Any:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", "from tests.fuzz import oracle; oracle.main()"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            pickle.dump(request, self._process.stdin)
            self._process.stdin.flush()
            return pickle.load(self._process.stdout)
        except (EOFError, OSError, ValueError, pickle.UnpicklingError):  # such as a field that no schema may have
            self._process.kill()
            self._process.communicate()
            self._process = None
            return None

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()
            self._process = None


class _File:
    """A file as pyarrow reads it. `rows`: None if it raises an error."""

    def __init__(self, path: str) -> None:
        self.rows: pa.Table | None = None
        try:
            self._file = pq.ParquetFile(path, coerce_int96_timestamp_unit="us")
            numbers = range(self._file.metadata.num_row_groups)
            self._groups = [self._file.read_row_group(i, use_threads=False) for i in numbers]
            self.rows = pa.concat_tables([self._file.schema_arrow.empty_table(), *self._groups])
        except Exception:  # noqa: BLE001 - whatever pyarrow raises over damaged bytes
            return
        self.starts = np.cumsum([0, *(group.num_rows for group in self._groups)])
        self.lies = cache(lambda i: _lies(path, self._file, i, self._groups[i]))

    @cached_property
    def columns(self) -> dict[Column, list[Any]]:
        """The value of each row, by leaf column."""
        found: dict[Column, list[Any]] = {}
        for name, array in [] if self.rows is None else zip(self.rows.column_names, self.rows.columns):
            with suppress(Exception):  # text that is not UTF-8, a date beyond Python's
                _add_leaves((name,), array.type, array.to_pylist(), found)
        return found

    def values(self) -> Values:
        """The values of the columns that have a name."""
        return [(column, _distinct(values)) for column, values in self.columns.items() if all(column)]

    def answer(self, where: Any, skipped: Skipped, is_wanted: bool) -> Answer:
        if self.rows is None:
            return Answer()
        try:
            matches = np.array(bind_mask(where, self.rows.schema)(self.rows).fill_null(False))
        except Exception:  # noqa: BLE001 - a changed column may not be comparable
            return Answer()
        lost = []
        if type(where) is Eq and not isinstance(where.value, dt.time):  # Python shows 25:00 as 01:00
            for i, value in enumerate(self.columns.get(where.column, [])):
                if value == where.value and not matches[i]:
                    lost.append(f"the row filter drops row {i} for {where}")
        for i, reason in skipped:
            rows = slice(self.starts[i], self.starts[i + 1])
            if matches[rows].any() and not self.lies(i):
                lost.append(f"row group {i} was skipped by {reason} for {where}, and has matching rows")
            matches[rows] = False
        return Answer(True, self.rows.filter(pa.array(matches)) if is_wanted else None, lost)


def _add_leaves(column: Column, kind: pa.DataType, values: list[Any], found: dict[Column, list[Any]]) -> None:
    if pa.types.is_struct(kind):
        for field_ in kind:
            inner = [None if each is None else each[field_.name] for each in values]
            _add_leaves((*column, field_.name), field_.type, inner, found)
    elif not pa.types.is_nested(kind):
        found[column] = values


def _distinct(values: list[Any]) -> list[Any]:
    return list(dict.fromkeys(each for each in values if not isinstance(each, (type(None), dt.timedelta))))


def _lies(path: str, file: pq.ParquetFile, row_group: int, rows: pa.Table) -> bool:
    """Whether any evidence about a row group contradicts its rows, or cannot be compared with them."""
    try:
        metadata = file.metadata.row_group(row_group)
        arrays = list(_leaves_with_nulls(rows))
        if metadata.num_rows != rows.num_rows or len(arrays) != metadata.num_columns:
            return True
        footer = decode(read_footer(path))
        return any(
            _false_statistics(metadata.column(j), leaf, nulls, _stored_statistics(footer, row_group, j))
            or _false_filter(path, file.schema.column(j), metadata.column(j), leaf)
            for j, (leaf, nulls) in enumerate(arrays)
        )
    except Exception:  # noqa: BLE001 - evidence that cannot be understood
        return True


def _stored_statistics(footer: dict[int, Any], row_group: int, column: int) -> dict[int, Any]:
    """The fields of a chunk's Statistics."""
    statistics = column_metadata(footer, row_group, column).get(_STATISTICS)
    return {} if statistics is None else statistics.value


def _leaves_with_nulls(rows: pa.Table) -> list[tuple[pa.Array, int]]:
    """The values of each leaf, and its number of nulls (as levels count them: a null struct is one)."""
    leaves = []
    for column in rows.columns:
        for leaf in leaf_arrays(column):
            is_list = pa.types.is_list(column.type)
            nulls = sum(len(each or [None]) for each in column.to_pylist()) if is_list else len(column)
            leaves.append((leaf, nulls - len(leaf)))
    return leaves


def _false_statistics(chunk: Any, leaf: pa.Array, nulls: int, stored: dict[int, Any]) -> bool:
    """`stored`: the fields of the Statistics in the footer."""
    nans = stored.get(_NAN_COUNT)
    if nans is not None and pa.types.is_floating(leaf.type) and nans.value != (pc.sum(pc.is_nan(leaf)).as_py() or 0):
        return True
    statistics = chunk.statistics
    if statistics is None:
        return False
    if (statistics.has_null_count and statistics.null_count != nulls) or chunk.num_values != nulls + len(leaf):
        return True
    if not statistics.has_min_max:
        return bool(_MIN_MAX & stored.keys())  # pyarrow does not show them: nothing to compare with
    if not len(leaf):
        return False
    least, greatest = (pc.min_max(leaf)[side].as_py() for side in ("min", "max"))
    return not (statistics.min <= least and greatest <= statistics.max)


def _false_filter(path: str, column: Any, chunk: Any, leaf: pa.Array) -> bool:
    if chunk.bloom_filter_offset is None:
        return False
    with open(path, "rb") as file:
        file.seek(chunk.bloom_filter_offset)
        data = file.read()
    header = decode(data[:64])
    start, size = len(encode(header)), header[1].value
    hashes = {xxhash.xxh64_intdigest(value) for value in plain(leaf, column.physical_type, column.length)}
    return bool(lacking(data[start : start + size], hashes))


def main() -> None:
    from tests.fuzz.target import limit_memory

    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    limit_memory(_ALLOCATION)
    file: _File | None = None
    while True:
        try:
            request = pickle.load(requests)
        except EOFError:
            return
        if isinstance(request, str):
            file = _File(request)
            pickle.dump(file.values(), answers)
        else:
            assert file is not None
            pickle.dump([file.answer(*each) for each in request], answers)
        answers.flush()
