"""pyarrow's answer about a file, from a process of its own: pyarrow ends its process over some damaged files.

The process reads every row group, filters the rows, and says which skipped row groups hold matching rows although none
of their evidence is false. A mutated file may lie: min/max and null counts that its rows contradict, or a filter that
lacks their values. No promise covers such files.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from bloomparquet.query.evaluate import bind_mask
from tests.support.core import decode, encode
from tests.support.stored import lacking, leaf_arrays, plain

_ALLOCATION = 2 << 30


Skipped = Sequence[tuple[int, str]]
"""The row groups that a plan skips, and the evidence."""
Questions = Sequence[tuple[Any, Skipped]]
"""Predicates, and what a plan skips for each."""


@dataclass
class Answer:
    """The answer to one predicate.

    `rows`: those that match and are not in skipped row groups; None if pyarrow raises an error. `lost`: the skipped row
    groups that should have been kept.
    """

    rows: pa.Table | None = None
    lost: list[str] = field(default_factory=list)


class Oracle:
    """The process, which is started again if it has ended."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, path: str, questions: Questions) -> list[Answer] | None:
        """An answer to each question; None if pyarrow ended the process, or made a table that cannot be sent."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", "from tests.fuzz import oracle; oracle.main()"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            pickle.dump((path, questions), self._process.stdin)
            self._process.stdin.flush()
            answers: list[Answer] = pickle.load(self._process.stdout)
        except (EOFError, OSError, ValueError, pickle.UnpicklingError):  # such as a field that no schema may have
            self._process.kill()
            self._process.communicate()
            self._process = None
            return None
        return answers

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()
            self._process = None


def answer(path: str, questions: Questions) -> list[Answer]:
    try:
        file = pq.ParquetFile(path, coerce_int96_timestamp_unit="us")
        groups = [file.read_row_group(i, use_threads=False) for i in range(file.metadata.num_row_groups)]
        everything = pa.concat_tables([file.schema_arrow.empty_table(), *groups])
    except Exception:  # noqa: BLE001 - whatever pyarrow raises over damaged bytes
        return [Answer()] * len(questions)
    starts = np.cumsum([0, *(group.num_rows for group in groups)])
    lies = cache(lambda i: _lies(path, file, i, groups[i]))
    return [_answer(everything, starts, where, skipped, lies) for where, skipped in questions]


def _answer(rows: pa.Table, starts: Any, where: Any, skipped: Skipped, lies: Callable[[int], bool]) -> Answer:
    try:
        matches = np.array(bind_mask(where, rows.schema)(rows).fill_null(False))
    except Exception:  # noqa: BLE001 - a changed column may not be comparable
        return Answer()
    lost = []
    for i, reason in skipped:
        if matches[starts[i] : starts[i + 1]].any() and not lies(i):
            lost.append(f"row group {i} was skipped by {reason} for {where}, and has matching rows")
        matches[starts[i] : starts[i + 1]] = False
    return Answer(rows.filter(pa.array(matches)), lost)


def _lies(path: str, file: pq.ParquetFile, row_group: int, rows: pa.Table) -> bool:
    """Whether any evidence about a row group contradicts its rows, or cannot be compared with them."""
    try:
        metadata = file.metadata.row_group(row_group)
        arrays = list(_leaves_with_nulls(rows))
        if metadata.num_rows != rows.num_rows or len(arrays) != metadata.num_columns:
            return True
        return any(
            _false_statistics(metadata.column(j), leaf, nulls)
            or _false_filter(path, file.schema.column(j), metadata.column(j), leaf)
            for j, (leaf, nulls) in enumerate(arrays)
        )
    except Exception:  # noqa: BLE001 - evidence that cannot be understood
        return True


def _leaves_with_nulls(rows: pa.Table) -> list[tuple[pa.Array, int]]:
    """The values of each leaf, and its number of nulls (as levels count them: a null struct is one)."""
    leaves = []
    for column in rows.columns:
        for leaf in leaf_arrays(column):
            is_list = pa.types.is_list(column.type)
            nulls = sum(len(each or [None]) for each in column.to_pylist()) if is_list else len(column)
            leaves.append((leaf, nulls - len(leaf)))
    return leaves


def _false_statistics(chunk: Any, leaf: pa.Array, nulls: int) -> bool:
    statistics = chunk.statistics
    if statistics is None:
        return False
    if (statistics.has_null_count and statistics.null_count != nulls) or chunk.num_values != nulls + len(leaf):
        return True
    if not statistics.has_min_max or not len(leaf):
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
    while True:
        try:
            request = pickle.load(requests)
        except EOFError:
            return
        pickle.dump(answer(*request), answers)
        answers.flush()
