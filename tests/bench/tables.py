"""Iceberg and Delta Lake tables in Spark, by their own connectors: pruned, and not pruned.

Both contenders ask one table in one session; a setting switches the pruning. Needs a PySpark for which there are
connectors: ``.venv-4.1/bin/python -m tests.bench --only tables``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pyspark.sql import SparkSession

from pyspark_bloomparquet import last_plan
from tests.bench.measure import Contender, Row, compared, take_turns
from tests.bench.session import directory, session
from tests.connectors.session import connector_settings
from tests.support import connectors
from tests.support.spark import conf

_ON, _OFF = "pruned", "not pruned"
_SWITCH = "spark.bloomparquet.transparent"
_BLOOM = {"parquet.bloom.filter.enabled#id": "true", "parquet.bloom.filter.expected.ndv#id": "1000"}
_CREATE = {
    "iceberg": "CREATE TABLE lake.db.t (id bigint, k bigint, v string, w string) USING iceberg TBLPROPERTIES ("
    "'format-version'='3', 'write.merge.mode'='merge-on-read', 'write.distribution-mode'='none', "
    "'write.parquet.bloom-filter-enabled.column.id'='true', 'write.parquet.bloom-filter-max-bytes'='4096')",
    "delta": "CREATE TABLE db.t (id bigint, k bigint, v string, w string) USING delta TBLPROPERTIES "
    "('delta.enableDeletionVectors'='true')",
}
_NAMES = {"iceberg": "lake.db.t", "delta": "db.t"}
_AIMS = {("iceberg", "lookup"): 8.0, ("iceberg", "IN of 10"): 5.0, ("iceberg", "join with 5 keys"): 4.0,
         ("iceberg", "MERGE of 5 rows"): 2.0, ("delta", "lookup"): 2.0}  # fmt: skip


def tables(rounds: int, files: int, rows: int) -> Iterator[Row]:
    """Lookups, a join and a MERGE in tables of so many `files`, each of so many `rows` in one row group."""
    if connectors.TABLES:
        with directory() as home, session(home, **connector_settings(home)) as spark:
            for name in connectors.TABLES:
                yield from _of(spark, name, rounds, files, rows)


def _of(spark: SparkSession, name: str, rounds: int, files: int, rows: int) -> Iterator[Row]:
    table = _NAMES[name]
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {table.rpartition('.')[0]}")
    spark.sql(_CREATE[name])
    columns = ("xxhash64(id) AS id", "id AS k", "sha2(string(id), 256) AS v", "sha2(string(-id), 256) AS w")
    with conf(spark, _BLOOM):
        spark.range(0, files * rows, 1, files).selectExpr(*columns).writeTo(table).append()

    def ids(number: int, count: int) -> str:
        step = files * rows // (count * (rounds + 3))
        return ", ".join(f"xxhash64({(number + 2) * count * step + i * step}L)" for i in range(count))

    def rows_of(where: str) -> Callable[[int], int]:
        return lambda number: len(spark.sql(f"SELECT * FROM {table} WHERE {where.format(ids(number, 10))}").collect())

    def lookup(number: int) -> int:
        return len(spark.sql(f"SELECT * FROM {table} WHERE id = {ids(number, 1)}").collect())

    def join(number: int) -> int:
        keys = f"(SELECT explode(array({ids(number, 5)})) AS id)"
        return len(spark.sql(f"SELECT /*+ BROADCAST(s) */ t.* FROM {table} t JOIN {keys} s ON t.id = s.id").collect())

    def merge(number: int) -> int:
        values = ", ".join(f"({each}, {number}L, 'v', 'w')" for each in ids(number, 4).split(", "))
        source = (
            f"(SELECT col1 AS id, col2 AS k, col3 AS v, col4 AS w FROM VALUES {values}, ({-number}L, 0L, 'v', 'w'))"
        )
        spark.sql(
            f"MERGE INTO {table} t USING {source} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET k = s.k "
            "WHEN NOT MATCHED THEN INSERT *"
        )
        return 5

    cases: Sequence[tuple[str, Callable[[int], int], int]] = (
        ("lookup", lookup, 1),
        ("IN of 10", rows_of("id IN ({})"), 10),
        ("join with 5 keys", join, 5),
        (
            "nothing is skipped",
            lambda _: spark.sql(f"SELECT count(w) FROM {table} WHERE v > ''").first()[0],
            files * rows,
        ),
        ("MERGE of 5 rows", merge, 5),
    )
    for case, run, expected in cases:
        yield from _turns(spark, f"{name}, {files:,} files: {case}", run, expected, rounds, _AIMS.get((name, case), 0))
    (plan,) = last_plan(spark.sql(f"SELECT * FROM {table} WHERE id = {ids(0, 1)}"))
    assert plan.planned, plan
    assert plan.kept < plan.total, plan


def _turns(
    spark: SparkSession, case: str, run: Callable[[int], int], expected: int, rounds: int, aim: float
) -> Iterator[Row]:
    def contender(name: str, is_on: bool) -> Contender:
        return Contender(name, run, lambda _: spark.conf.set(_SWITCH, str(is_on).lower()))

    def agree(_: int, result: int) -> None:
        assert result == expected, (case, result, expected)

    timings = take_turns([contender(_ON, True), contender(_OFF, False)], rounds, agree)
    spark.conf.unset(_SWITCH)
    yield from compared("tables", case, timings, {_OFF: aim})
