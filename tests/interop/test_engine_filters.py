"""The filters of DuckDB, polars, DataFusion, Ibis and pandas skip what `bp.plan` skips, and lose no row."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import datafusion
import duckdb
import ibis
import polars as pl
import pyarrow as pa
import pytest

import bloomparquet as bp
from tests.support.files import write

GROUPS, PER_GROUP = 36, 100
ROWS = GROUPS * PER_GROUP
START = dt.datetime(2026, 1, 1)
IDS = [i * 7919 % ROWS for i in range(ROWS)]
WANTED, OTHER = IDS[1234], IDS[3]
AT = START + dt.timedelta(hours=WANTED)


def hours(kind: pa.DataType) -> pa.Array:
    return pa.array([START + dt.timedelta(hours=i) for i in IDS], pa.timestamp("us")).cast(kind)


DATA = pa.table(
    {
        "id": IDS,
        "small": pa.array(IDS, pa.int32()),
        "u": pa.array(IDS, pa.uint16()),
        "word": [f"k{i}" for i in IDS],
        "f": [i / 4 for i in IDS],
        "f4": pa.array([i / 4 for i in IDS], pa.float32()),
        "price": pa.array([Decimal(i) / 100 for i in IDS], pa.decimal128(10, 2)),
        "day": [dt.date(2026, 1, 1) + dt.timedelta(days=i // PER_GROUP) for i in range(ROWS)],
        "stamp": hours(pa.timestamp("us")),
        "tz": hours(pa.timestamp("us", "UTC")),
        "ns": hours(pa.timestamp("ns")),
        "flag": [i // PER_GROUP == 7 for i in range(ROWS)],
        "blob": [b"b%d" % i for i in IDS],
        "st": [{"x": i} for i in IDS],
        "seldom": [i if i // PER_GROUP == 3 else None for i in range(ROWS)],
    }
)
FILTERED = ["id", "small", "u", "word", "f", "f4", "price", "stamp", "tz", "ns", "blob", "st.x"]

CONDITIONS = {
    "=": f"id = {WANTED}",
    "int32": f"small = {WANTED}",
    "uint16": f"u = {WANTED}",
    "text": f"word = 'k{WANTED}'",
    "double": f"f = {WANTED / 4}",
    "float": f"f4 = {WANTED / 4}",
    "decimal": f"price = {WANTED / 100:.2f}",
    "<>": "id <> 5",
    "IN 1": f"id IN ({WANTED})",
    "IN 10": f"id IN ({', '.join(map(str, IDS[:10]))})",
    "IN 1000": f"id IN ({', '.join(map(str, sorted(IDS[:1_000])))})",
    "IN text": f"word IN ('k{WANTED}', 'nothing')",
    "IN date": "day IN (DATE '2026-01-05', DATE '2026-01-07')",
    "NOT IN": f"id NOT IN ({WANTED}, 5)",
    "range": "day >= DATE '2026-01-05' AND day < DATE '2026-01-07'",
    "BETWEEN": "day BETWEEN DATE '2026-01-05' AND DATE '2026-01-06'",
    "OR": f"id = {WANTED} OR word = 'k{OTHER}'",
    "AND": f"id = {WANTED} AND f < 1000",
    "NOT": f"NOT (id <> {WANTED})",
    "NULL": "seldom IS NULL",
    "NOT NULL": "seldom IS NOT NULL",
    "LIKE": "word LIKE 'zz%'",
    "CAST": f"CAST(small AS BIGINT) = {WANTED}",
    "date": "day = DATE '2026-01-05'",
    "timestamp": f"stamp = TIMESTAMP '{AT}'",
    "zone": f"tz = TIMESTAMP '{AT}+00'",
    "nanoseconds": f"ns = TIMESTAMP '{AT}'",
    "boolean": "flag",
    "boolean =": "flag = true",
    "NOT boolean": "NOT flag",
    "struct": f"st.x = {WANTED}",
    "integer as double": f"id = {WANTED}.0",
}
NOT_PUSHED = {  # by the tested releases: these engines apply such conditions only to the rows that they get
    "DuckDB": {"LIKE", "nanoseconds", "boolean", "NOT boolean", "integer as double"},
    "polars": {"decimal", "IN 1000", "LIKE", "CAST", "nanoseconds", "struct", "integer as double"},
    "DataFusion": {"float", "LIKE", "struct", "integer as double"},
}


def by_duckdb(events: Any, where: str) -> list[int]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("events", events)
        where = where.replace("tz = TIMESTAMP", "tz = TIMESTAMPTZ")
        return [row[0] for row in connection.execute(f"SELECT id FROM events WHERE {where}").fetchall()]


def by_polars(events: Any, where: str) -> list[int]:
    context = pl.SQLContext(events=pl.scan_pyarrow_dataset(events))
    query = f"SELECT id FROM events WHERE {where.replace('tz = TIMESTAMP', 'tz = TIMESTAMPTZ')}"
    ids: list[int] = context.execute(query).collect()["id"].to_list()
    return ids


def by_datafusion(events: Any, where: str) -> list[int]:
    context = datafusion.SessionContext()
    context.register_dataset("events", events)
    batches = context.sql(f"SELECT id FROM events WHERE {where}").collect()
    return [value for batch in batches for value in batch.column("id").to_pylist()]


ENGINES: dict[str, Callable[[Any, str], list[int]]] = {
    "DuckDB": by_duckdb, "polars": by_polars, "DataFusion": by_datafusion,
}  # fmt: skip


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("events") / "0.parquet", DATA, FILTERED, rows_per_group=PER_GROUP, fpp=0.0001)


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_query_of_an_engine_is_pruned_as_a_plan(engine: str, condition: str, path: str) -> None:
    events, where = bp.dataset(path), CONDITIONS[condition]
    plain = f"small = {WANTED}" if condition == "CAST" else where  # engines move the cast to the literal
    assert sorted(ENGINES[engine](events, where)) == sorted(bp.read_table(path, plain, ["id"])["id"].to_pylist())
    plan = events.last_plan()
    assert plan is not None
    if condition not in NOT_PUSHED[engine]:
        assert plan.kept_row_groups() == bp.plan(path, plain).kept_row_groups()


def test_the_conditions_skip_row_groups(path: str) -> None:
    """So that the test above compares more than plans that keep everything."""
    kept = {name: bp.plan(path, where).kept for name, where in CONDITIONS.items()}
    assert {name for name, count in kept.items() if count == GROUPS} == {"<>", "NOT IN", "CAST"}


def test_ibis_prunes(path: str) -> None:
    events = bp.dataset(path)
    table = ibis.memtable(events)
    assert table.filter(table.id.isin([WANTED, OTHER])).id.to_pyarrow().to_pylist() == [OTHER, WANTED]
    plan = events.last_plan()
    assert plan is not None
    assert plan.kept == 2
