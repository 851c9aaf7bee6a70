"""Other engines alone, and the same engines through a plan: all columns of the row with one value, from many files.

Every query lists the directory. Through a plan, the query is made of `bp.plan`, `to_dataset` and the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import datafusion
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

import bloomparquet as bp
from tests.bench.data import Shape, table
from tests.bench.measure import Aim, Contender, Row, milliseconds, take_turns
from tests.bench.plans import Lookups

_CONTEXT = datafusion.SessionContext()  # one for all queries: it caches the footers


def engines(rounds: int, shape: Shape) -> Iterator[Row]:
    """One present value of the long column."""
    looked_up = Lookups(shape)
    root = str(looked_up.root)

    def agree(number: int, result: pa.Table) -> None:
        expected = table(pa.array([looked_up.row(number, hit=True)], pa.int64()).to_numpy()).to_pylist()
        if result.to_pylist() != expected:
            raise AssertionError(f"expected the rows {expected}, found {result.to_pylist()}")

    contenders = []
    for name, (alone, planned) in _ENGINES.items():

        def run_alone(number: int, alone: Callable[[str, int], pa.Table] = alone) -> pa.Table:
            return alone(root, looked_up.id(number, hit=True))

        def run_planned(number: int, planned: Callable[[ds.Dataset, int], pa.Table] = planned) -> pa.Table:
            value = looked_up.id(number, hit=True)
            return planned(bp.plan(root, bp.Eq("id", value)).to_dataset(), value)

        contenders += [Contender(name, run_alone), Contender(f"{name}, through a plan", run_planned)]
    timings = take_turns(contenders, rounds, agree)
    for name in _ENGINES:
        by_itself, by_plan = timings[name], timings[f"{name}, through a plan"]
        yield milliseconds("engines", "long hit", by_itself)
        ratio = by_plan.times_faster_than(by_itself)
        aim = Aim(f"faster than {name} alone", ratio > 1)
        yield milliseconds("engines", "long hit", by_plan, ratios={name: ratio}, aims=(aim,))


def _polars(frame: pl.LazyFrame, value: int) -> pa.Table:
    return frame.filter(pl.col("id") == value).collect().to_arrow()


def _datafusion(register: Callable[[datafusion.SessionContext], Any], value: int) -> pa.Table:
    _CONTEXT.deregister_table("events")
    register(_CONTEXT)
    return _CONTEXT.sql(f"SELECT * FROM events WHERE id = {value}").to_arrow_table()


def _pandas(events: ds.Dataset, value: int) -> pa.Table:
    return pa.Table.from_pandas(events.to_table(filter=pc.field("id") == value).to_pandas(), preserve_index=False)


_ENGINES: dict[str, tuple[Callable[[str, int], pa.Table], Callable[[ds.Dataset, int], pa.Table]]] = {
    "polars": (
        lambda root, value: _polars(pl.scan_parquet(root), value),
        lambda events, value: _polars(pl.scan_pyarrow_dataset(events), value),
    ),
    "DuckDB": (
        lambda root, value: duckdb.read_parquet(f"{root}/*.parquet").filter(f"id = {value}").to_arrow_table(),
        lambda events, value: duckdb.from_arrow(events).filter(f"id = {value}").to_arrow_table(),
    ),
    "DataFusion": (
        lambda root, value: _datafusion(lambda context: context.register_parquet("events", root), value),
        lambda events, value: _datafusion(lambda context: context.register_dataset("events", events), value),
    ),
    "pandas": (lambda root, value: _pandas(ds.dataset(root, format="parquet"), value), _pandas),
}
