"""The operations of clients, one function for each kind. Each compares its answer with the known facts of the data."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import bloomparquet as bp
import pyspark_bloomparquet as bps
from bloomparquet.planning.index.manifest import MANIFEST
from tests.soak.data import CHANGING_FILES, CHANGING_ROWS, COLUMNS, ROWS, Row, Tables, row_of, rows_of
from tests.support.scenarios import PYTHON


class WrongRowsError(Exception):
    """An answer differs from what is known of the data."""


@dataclass
class Client:
    """One thread of a driver. `written` is what its own tables hold."""

    spark: SparkSession
    tables: Tables
    name: str
    random: random.Random
    written: dict[str, tuple[int, int]] = field(default_factory=dict)

    def some_ids(self, most: int = 3) -> list[int]:
        """Ids to look up. The odd ones, and some even ones, are in no file."""
        return [self.random.randrange(2 * ROWS + 20) for _ in range(self.random.randint(1, most))]


def _compare(what: str, rows: Iterable[Any], expected: list[Row]) -> None:
    found = sorted(tuple(row) for row in rows)
    if found != expected:
        missing, more = set(expected) - set(found), set(found) - set(expected)
        raise WrongRowsError(
            f"{what}: {len(found)} rows, expected {len(expected)}; missing {sorted(missing)[:5]}, "
            f"unexpected {sorted(more)[:5]}"
        )


def _look_up(client: Client, frame: DataFrame, rows: int = ROWS) -> None:
    ids = client.some_ids()
    where = f"id IN ({', '.join(map(str, ids))})"
    if client.random.random() < 0.3:
        where = f"name IN ({', '.join(repr(f'n{id_}') for id_ in ids)})"
    _compare(where, frame.where(where).select(*COLUMNS).collect(), rows_of(ids, rows))


def plain_parquet(client: Client) -> None:
    _look_up(client, client.spark.read.parquet(str(client.tables.events)))


def plain_orc(client: Client) -> None:
    _look_up(client, client.spark.read.orc(str(client.tables.events_orc)))


def source_parquet(client: Client) -> None:
    _look_up(client, client.spark.read.format("bloomparquet").load(str(client.tables.events)))


def source_orc(client: Client) -> None:
    _look_up(client, client.spark.read.format("bloomorc").load(str(client.tables.events_orc)))


def python_source(client: Client) -> None:
    ids = client.some_ids()
    where = f"id IN ({', '.join(map(str, ids))})"
    frame = client.spark.read.format(PYTHON).option("where", where).load(str(client.tables.events))
    _compare(where, frame.select(*COLUMNS).collect(), rows_of(ids))


def sql_path(client: Client) -> None:
    (id_,) = client.some_ids(1)
    sql = f"SELECT id, name, v FROM parquet.`{client.tables.events}` WHERE name = 'n{id_}' AND v >= 0"
    _compare(sql, client.spark.sql(sql).collect(), rows_of([id_]))


def join(client: Client) -> None:
    ids = sorted(set(client.some_ids(5)))
    keys = ", ".join(f"({id_})" for id_ in ids)
    sql = (
        f"SELECT e.id, e.name, e.v FROM parquet.`{client.tables.events}` e "
        f"JOIN (SELECT /*+ REPARTITION(2) */ * FROM VALUES {keys} AS k(id)) k ON e.id = k.id"
    )
    _compare(sql, client.spark.sql(sql).collect(), rows_of(ids))


def whole_table(client: Client) -> None:
    frame = client.spark.read.parquet(str(client.tables.events)).where("v >= 0")
    (found,) = frame.selectExpr("count(*) AS n", "sum(v) AS v", "count(DISTINCT id) AS ids").collect()
    _compare("a whole table", [tuple(found)], [(ROWS, 3 * ROWS * (ROWS - 1), ROWS)])  # type: ignore[list-item]


def plain_python(client: Client) -> None:
    ids = client.some_ids()
    rows = bp.read_table(str(client.tables.events), [("id", "in", ids)], columns=list(COLUMNS)).to_pylist()
    _compare(f"bp.read_table {ids}", [tuple(row.values()) for row in rows], rows_of(ids))


def read_changing(client: Client) -> None:
    reader = client.spark.read.format(client.random.choice(["parquet", "bloomparquet"]))
    _look_up(client, reader.load(str(client.tables.changing)), CHANGING_ROWS)


def retrofit(client: Client) -> None:
    """Replace a file by one without filters, add filters or shrink them, and check every row."""
    number = client.random.randrange(CHANGING_FILES)
    path = str(client.tables.changing)
    client.tables.restore(number)
    if client.random.random() < 0.6:
        outcomes = bps.add_filters(client.spark, path, client.random.choice([["id"], ["id", "name"]])).collect()
    else:
        outcomes = bps.shrink_filters(client.spark, path, fpp=client.random.choice([0.05, 0.3])).collect()
    _compare_rows_of_file(client.tables.changing / f"{number}.parquet")
    failures = [outcome.error for outcome in outcomes if outcome.error]
    if failures:
        raise RuntimeError("; ".join(failures))


def _compare_rows_of_file(path: Path) -> None:
    """A file must have the rows of its original. It is opened once: another client may replace it."""
    found, expected = (
        [tuple(row.values()) for row in pq.ParquetFile(file).read().to_pylist()]
        for file in (path, path.parents[1] / "originals" / path.name)
    )
    _compare(f"{path.name} after its filters were changed", found, sorted(expected))


def index(client: Client) -> None:
    table = client.random.choice([client.tables.events, client.tables.events_orc])
    change = client.random.choice([bps.build_index, bps.refresh_index, bps.refresh_index])
    if not (table / "_bloomparquet_index" / MANIFEST).exists():
        change = bps.build_index
    info = change(client.spark, str(table), files_per_task=8)
    if info.files != 16:
        raise WrongRowsError(f"the index of {table.name} has {info.files} files, expected 16")


def write(client: Client) -> None:
    """Overwrite a table of this client. If that fails, the table must be as it was."""
    source = client.random.choice(["bloomparquet", "bloomorc"])
    plain = source.removeprefix("bloom")
    path = str(client.tables.written / f"{client.name}-{plain}")
    start, count = client.random.randrange(10_000), client.random.randint(100, 2_000)
    frame = client.spark.range(start, start + count, 1, 3).selectExpr("id", "concat('n', id) AS name", "id * 3 AS v")
    _check_written(client, plain, path)
    frame.write.mode("overwrite").format(source).option("bloomColumns", "id,name").save(path)
    client.written[path] = start, count
    _check_written(client, plain, path)


def _check_written(client: Client, plain: str, path: str) -> None:
    if path not in client.written:
        return
    start, count = client.written[path]
    ids = range(start, start + count)
    frame = client.spark.read.format(plain).load(path)
    _compare(f"written as {plain}", frame.select(*COLUMNS).collect(), [row_of(id_) for id_ in ids])
    wanted = client.random.choice(ids)
    _compare(f"lookup in {plain}", frame.where(f"id = {wanted}").select(*COLUMNS).collect(), [row_of(wanted)])


OPERATIONS: dict[str, tuple[Callable[[Client], None], int]] = {
    "read plain Parquet": (plain_parquet, 8),
    "read plain ORC": (plain_orc, 5),
    "read bloomparquet": (source_parquet, 6),
    "read bloomorc": (source_orc, 4),
    "read by Python source": (python_source, 3),
    "read SQL path": (sql_path, 5),
    "read join": (join, 4),
    "read whole table": (whole_table, 1),
    "read by bp.read_table": (plain_python, 6),
    "read changing": (read_changing, 4),
    "retrofit": (retrofit, 1),
    "index": (index, 1),
    "write": (write, 2),
}
"""By name: the function, and its weight among them."""
