"""Other engines alone, over `bp.dataset`, and by their own readers over the files that a plan keeps.

The data set is opened before the first query. The others list the directory for every query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path

import datafusion
import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

import bloomparquet as bp
from tests.bench import rows
from tests.bench.data import Lookups, Shape, scatter, table
from tests.bench.measure import Aim, Contender, Row, milliseconds, take_turns

_CONTEXT = datafusion.SessionContext()  # one for all queries: it caches the footers
Query = Callable[[str, list[int]], pa.Table]
"""The rows with these ids, from the data set at a path."""


def engines(rounds: int, shape: Shape, rows_a_file: int) -> Iterator[Row]:
    """One id in many files, and 1 and 10 ids in row groups of several sizes; all columns."""
    looked_up = Lookups(shape)
    yield from _compare(
        rounds, str(looked_up.root), f"one id, {shape.files:,} files", 5.0,
        lambda number: [looked_up.row(number, hit=True)], lambda numbers: table(np.array(numbers, np.int64)),
    )  # fmt: skip
    for size in rows.row_group_sizes(rows_a_file):
        root = rows.data_set(size, rows_a_file, "snappy", wide=False)
        total = rows.FILES * rows_a_file
        for count in (1, 10):
            name = f"{'one id' if count == 1 else '10 ids'}, {size:,} rows in a row group"
            yield from _compare(
                rounds, str(root), name, 1.0, partial(_some_rows, count, total),
                lambda numbers: rows.table(np.array(numbers, np.int64), wide=False),
            )  # fmt: skip


def _some_rows(count: int, total: int, number: int) -> list[int]:
    return sorted({(number * count + i + 3) * 7_919_993 % total for i in range(count)})


def _compare(
    rounds: int,
    root: str,
    case: str,
    times: float,
    wanted: Callable[[int], list[int]],
    expected: Callable[[list[int]], pa.Table],
) -> Iterator[Row]:
    def agree(number: int, result: pa.Table) -> None:
        right = expected(wanted(number))
        rows_read = result.cast(right.schema).sort_by("id").to_pylist()
        if rows_read != right.sort_by("id").to_pylist():
            raise AssertionError(f"{case}: expected {right.num_rows} rows, found {result.num_rows}, or other rows")

    def run(query: Query, number: int) -> pa.Table:
        return query(root, scatter(np.array(wanted(number))).tolist())

    contenders = [Contender(name, partial(run, query)) for name, query in _QUERIES.items()]
    timings = take_turns(contenders, rounds, agree)
    for name, timing in timings.items():
        engine = name.partition(",")[0]
        if name == engine:
            yield milliseconds("engines", case, timing)
            continue
        ratio = timing.times_faster_than(timings[engine])
        aims = (Aim(f">= {times:g}x as fast as {engine} alone", ratio >= times),) if name.endswith("bp.dataset") else ()
        yield milliseconds("engines", case, timing, ratios={engine: ratio}, aims=aims)


@cache
def _open(root: str) -> ds.Dataset:
    return bp.dataset(root)


def _is_in(ids: Sequence[int]) -> str:
    return f"id = {ids[0]}" if len(ids) == 1 else f"id IN ({', '.join(map(str, ids))})"


def _kept(root: str, ids: list[int]) -> list[str]:
    return bp.plan(root, bp.In("id", ids)).files()


def _duckdb(source: duckdb.DuckDBPyRelation, ids: list[int]) -> pa.Table:
    return source.filter(_is_in(ids)).to_arrow_table()


def _polars(frame: pl.LazyFrame, ids: list[int]) -> pa.Table:
    return frame.filter(pl.col("id") == ids[0] if len(ids) == 1 else pl.col("id").is_in(ids)).collect().to_arrow()


def _datafusion(is_alone: bool, root: str, ids: list[int]) -> pa.Table:
    _CONTEXT.deregister_table("events")
    if is_alone:
        _CONTEXT.register_parquet("events", root)
    else:
        _CONTEXT.register_dataset("events", _open(root))
    return _CONTEXT.sql(f"SELECT * FROM events WHERE {_is_in(ids)}").to_arrow_table()


def _pandas(events: ds.Dataset, ids: list[int]) -> pa.Table:
    condition = pc.field("id") == ids[0] if len(ids) == 1 else pc.field("id").isin(ids)
    return pa.Table.from_pandas(events.to_table(filter=condition).to_pandas(), preserve_index=False)


_QUERIES: dict[str, Query] = {
    "DuckDB": lambda root, ids: _duckdb(duckdb.read_parquet(str(Path(root) / "*.parquet")), ids),
    "DuckDB, bp.dataset": lambda root, ids: _duckdb(duckdb.from_arrow(_open(root)), ids),
    "DuckDB, plan.files()": lambda root, ids: _duckdb(duckdb.read_parquet(_kept(root, ids)), ids),
    "polars": lambda root, ids: _polars(pl.scan_parquet(root), ids),
    "polars, bp.dataset": lambda root, ids: _polars(pl.scan_pyarrow_dataset(_open(root)), ids),
    "polars, plan.files()": lambda root, ids: _polars(pl.scan_parquet(_kept(root, ids)), ids),
    "DataFusion": partial(_datafusion, True),
    "DataFusion, bp.dataset": partial(_datafusion, False),
    "pandas": lambda root, ids: _pandas(ds.dataset(root, format="parquet"), ids),
    "pandas, bp.dataset": lambda root, ids: _pandas(_open(root), ids),
}
