"""Reading single rows by the size of row groups: bloomparquet compared with DuckDB.

The files are as pyarrow writes them by default, with filters on the keys. Every query lists the directory. The files
are in the page cache of the operating system.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

import bloomparquet as bp
from tests.bench.data import keys, scatter, written_once
from tests.bench.measure import Contender, Row, compared, take_turns

ROW_GROUP_SIZES = (5_000, 122_880, 1_000_000)
FILES, _WIDE_COLUMNS, _DAY = 4, 95, 86_400_000_000
_OURS, _DUCKDB = "bloomparquet", "DuckDB, metadata cache"


@dataclass(frozen=True)
class Case:
    """`condition` gives the SQL of a round, `matching` the numbers of its rows."""

    name: str
    condition: Callable[[int], str]
    matching: Callable[[int], list[int]]
    duckdb_times: float  # the aim: how many times as long DuckDB takes


def rows(rounds: int, rows_a_file: int) -> Iterator[Row]:
    """Lookups in row groups of several sizes, all columns."""
    for size in row_group_sizes(rows_a_file):
        for codec, wide in (("snappy", False), ("lz4", False), ("snappy", True)):
            root = data_set(size, rows_a_file if not wide else rows_a_file // 10, codec, wide)
            total = FILES * (rows_a_file // 10 if wide else rows_a_file)
            for case in _cases(root, total):
                if (codec == "lz4" and case.name != "one text") or (wide and case.name != "one id"):
                    continue
                label = f"{case.name}, {size:,} rows" + (", 100 columns" if wide else f", {codec}")
                yield from _measure(str(root), case, label, rounds, wide)


def row_group_sizes(rows_a_file: int) -> list[int]:
    """No file has larger row groups than rows."""
    return sorted({min(size, rows_a_file) for size in ROW_GROUP_SIZES})


def _cases(root: Path, total: int) -> Iterator[Case]:
    def row(number: int, step: int = 7_919_993) -> int:
        return (number + 3) * step % total

    def ids(numbers: list[int]) -> list[int]:
        return scatter(np.array(numbers)).tolist()

    def several(number: int, count: int) -> list[int]:
        return sorted({row(number * count + i) for i in range(count)})

    def condition_of(numbers: list[int]) -> str:
        return f"id IN ({', '.join(map(str, ids(numbers)))})"

    def text(number: int) -> str:
        return str(keys(np.array([row(number)]))[0])

    yield Case("one id", lambda n: f"id = {ids([row(n)])[0]}", lambda n: [row(n)], 1.3)
    yield Case("one text", lambda n: f"key = '{text(n)}'", lambda n: [row(n)], 1.0)
    yield Case("10 ids", lambda n: condition_of(several(n, 10)), lambda n: several(n, 10), 1.0)
    yield Case("1,000 ids", lambda n: condition_of(several(n, 1_000)), lambda n: several(n, 1_000), 1 / 1.3)
    yield Case(
        "id and range",
        lambda n: f"id = {ids([row(n)])[0]} AND v >= 0.0 AND v < 0.9",
        lambda n: [row(n)] if row(n) % 97 / 97 < 0.9 else [],
        1.0,
    )
    misses: list[int] = []

    def miss(number: int) -> int:
        while len(misses) <= number + 2:
            start = misses[-1] + 1 if misses else total
            absent = next(i for i in range(start, start + 10_000) if bp.plan(root, bp.Eq("id", ids([i])[0])).kept)
            misses.append(absent)
        return misses[number + 2]

    yield Case("miss that a filter keeps", lambda n: f"id = {ids([miss(n)])[0]}", lambda n: [], 1.0)


def _measure(root: str, case: Case, label: str, rounds: int, wide: bool) -> Iterator[Row]:
    cached = duckdb.connect()
    cached.execute("SET parquet_metadata_cache = true")

    def agree(number: int, result: pa.Table) -> None:
        expected = table(np.array(case.matching(number), np.int64), wide)
        if result.cast(expected.schema).sort_by("number").to_pylist() != expected.sort_by("number").to_pylist():
            raise AssertionError(f"{label}: expected {expected.num_rows} rows, found {result.num_rows}, or other rows")

    def ask_duckdb(number: int) -> pa.Table:
        return cached.sql(
            f"SELECT * FROM read_parquet('{root}/*.parquet') WHERE {case.condition(number)}"
        ).to_arrow_table()

    contenders = [
        Contender(_OURS, lambda number: bp.read_table(root, case.condition(number)), before=case.condition),
        Contender(_DUCKDB, ask_duckdb, before=case.condition),
    ]
    timings = take_turns(contenders, rounds, agree, warm_up=2)
    yield from compared("rows", label, timings, {_DUCKDB: case.duckdb_times})


def table(numbers: NDArray[np.int64], wide: bool) -> pa.Table:
    """The rows with these numbers: 5 columns and their number, or 95 more."""
    columns = {
        "id": pa.array(scatter(numbers)),
        "key": keys(numbers),
        "time": pa.array(numbers * 1_000_003 % (365 * _DAY) + 1_700_000_000_000_000).cast(pa.timestamp("us")),
        "v": pa.array(numbers % 97 / 97),
        "c": pa.array([f"country {i}" for i in range(200)]).take(pa.array(numbers * 31 % 200)),
        "number": pa.array(numbers),
    }
    for i in range(_WIDE_COLUMNS if wide else 0):
        columns[f"w{i}"] = pa.array(numbers * (i + 3) % 1_000_003)
    return pa.table(columns)


def data_set(size: int, rows_a_file: int, codec: str, wide: bool) -> Path:
    """The directory with row groups of `size` rows, which is written if it does not exist."""

    def write(root: Path, i: int) -> None:
        part = table(np.arange(i * rows_a_file, (i + 1) * rows_a_file), wide)
        options = {name: {"ndv": min(size, rows_a_file), "fpp": 0.01} for name in ("id", "key")}
        pq.write_table(
            part, root / f"part-{i}.parquet", row_group_size=size, compression=codec, bloom_filter_options=options
        )

    return written_once(f"rows-v1-{size}-{rows_a_file}-{codec}{'-wide' if wide else ''}", FILES, write)
