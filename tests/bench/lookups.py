"""Reading the rows with one value from many files: bloomparquet compared with other engines.

All contenders list the directory in every query and get the same predicate. Their names say what they cache between
queries. The files are in the page cache of the operating system.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import datafusion
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds

import bloomparquet as bp
from bloomparquet.planning.cache.plan_cache import process_cache
from tests.bench.data import Lookups, Shape, table
from tests.bench.measure import Aim, Contender, Row, Timing, milliseconds, take_turns

_OURS = "bloomparquet"
_DUCKDB_CACHED = "DuckDB, metadata cache"
_ARROW = "pyarrow.dataset"
_ARROW_RATIO = 10


def lookups(rounds: int, shape: Shape) -> Iterator[Row]:
    """One value of the long column and of the string column, present and absent; all columns of its row."""
    looked_up = Lookups(shape)
    for column, value in (("id", looked_up.id), ("key", looked_up.key)):
        for hit in (True, False):

            def value_of(number: int, value: Callable[..., Any] = value, hit: bool = hit) -> Any:
                return value(number, hit=hit)

            def agree(number: int, result: pa.Table, hit: bool = hit) -> None:
                row = looked_up.row(number, hit=hit)
                expected = table(pa.array([row] if hit else [], pa.int64()).to_numpy()).to_pylist()
                if result.to_pylist() != expected:
                    raise AssertionError(f"expected the rows {expected}, found {result.to_pylist()}")

            contenders = list(_contenders(str(looked_up.root), column, value_of))
            timings = take_turns(contenders, rounds, agree)
            case = f"{'long' if column == 'id' else 'string'} {'hit' if hit else 'miss'}"
            for contender in contenders:
                row = _row(case, timings[contender.name], timings, with_aims=hit)
                yield replace(row, notes={"MiB read": _bytes_read(contender, rounds) >> 20})


def _bytes_read(contender: Contender, number: int) -> int:
    """The bytes that one more run reads, also from the page cache. Linux counts the bytes of a process's read calls."""
    if contender.before is not None:
        contender.before(number)
    began = _bytes_so_far()
    contender.run(number)
    return _bytes_so_far() - began


def _bytes_so_far() -> int:
    return int(Path("/proc/self/io").read_text().split("rchar: ")[1].split()[0])


def _contenders(root: str, column: str, value: Callable[[int], Any]) -> Iterator[Contender]:
    def ours(number: int) -> pa.Table:
        return bp.read_table(root, bp.Eq(column, value(number)))

    def fresh_duckdb(number: int) -> pa.Table:
        with duckdb.connect() as connection:
            return _ask_duckdb(connection, root, column, value(number))

    plain, cached = duckdb.connect(), duckdb.connect()
    cached.execute("SET parquet_metadata_cache = true")
    yield Contender(_OURS, ours, before=lambda number: ours(number - 1))
    yield Contender(f"{_OURS}, cold", ours, before=lambda _: process_cache.clear())
    yield Contender(_DUCKDB_CACHED, lambda number: _ask_duckdb(cached, root, column, value(number)))
    yield Contender("DuckDB", lambda number: _ask_duckdb(plain, root, column, value(number)))
    yield Contender("DuckDB, new connection", fresh_duckdb)
    for name, pushdown in (("DataFusion", "false"), ("DataFusion, pushdown_filters", "true")):
        settings = datafusion.SessionConfig({"datafusion.execution.parquet.pushdown_filters": pushdown})
        context = datafusion.SessionContext(settings)  # one for all queries: it caches the footers
        yield Contender(name, lambda number, context=context: _ask_datafusion(context, root, column, value(number)))
    yield Contender(
        "polars", lambda number: pl.scan_parquet(root).filter(pl.col(column) == value(number)).collect().to_arrow()
    )
    yield Contender(
        _ARROW, lambda number: ds.dataset(root, format="parquet").to_table(filter=ds.field(column) == value(number))
    )


def _ask_duckdb(connection: duckdb.DuckDBPyConnection, root: str, column: str, value: Any) -> pa.Table:
    query = f"SELECT * FROM read_parquet('{root}/*.parquet') WHERE \"{column}\" = ?"
    return connection.sql(query, params=[value]).to_arrow_table()


def _ask_datafusion(context: datafusion.SessionContext, root: str, column: str, value: Any) -> pa.Table:
    frame = context.read_parquet(f"{root}/")
    return frame.filter(datafusion.col(column) == datafusion.lit(value)).to_arrow_table()


def _row(case: str, timing: Timing, timings: dict[str, Timing], *, with_aims: bool) -> Row:
    ours, cached, arrow = timings[_OURS], timings[_DUCKDB_CACHED], timings[_ARROW]
    aims: tuple[Aim, ...] = ()
    if timing is not ours:
        return milliseconds("lookup", case, timing, ratios={_OURS: timing.times_faster_than(ours)})
    over_duckdb, over_arrow = ours.times_faster_than(cached), ours.times_faster_than(arrow)
    if with_aims:
        aims = (
            Aim(f"faster than {cached.name}", over_duckdb > 1),
            Aim(f">= {_ARROW_RATIO}x faster than {arrow.name}", over_arrow >= _ARROW_RATIO),
        )
    return milliseconds("lookup", case, timing, ratios={cached.name: over_duckdb, arrow.name: over_arrow}, aims=aims)
