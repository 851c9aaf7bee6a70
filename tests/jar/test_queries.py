"""Queries of many kinds: rows, order, types and nullability equal those of ``spark.read.parquet``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from tests.support import files, plain
from tests.support.scenarios import PRUNED, TRANSPARENT, UNPRUNED, Readers, read
from tests.support.spark import conf

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Orders of two days, two files each, four row groups per file. Some customers have no order or no name."""
    root = tmp_path_factory.mktemp("queries")
    for day in (1, 2):
        for part in (0, 1):
            first = (day * 2 + part) * 40
            ids = [first + i * 7 % 40 for i in range(40)]
            table = pa.table(
                {
                    "id": pa.array(ids, pa.int64()),
                    "customer": pa.array([None if i % 13 == 0 else i % 17 for i in ids], pa.int32()),
                    "amount": pa.array([Decimal(i * 37 % 101) for i in ids], pa.decimal128(10, 2)),
                    "at": pa.array([dt.datetime(2026, 1, day, i % 24) for i in ids], pa.timestamp("us", "UTC")),
                    "place": pa.array([{"city": f"c{i % 5}", "zip": {"code": i % 9}} for i in ids]),
                    "tags": pa.array([[f"t{i % 3}", f"t{i % 4}"][: i % 3] for i in ids], pa.list_(pa.string())),
                }
            )
            filtered = ["id", "customer", "amount", "place.city", "place.zip.code"]
            files.write(root / "orders" / f"day=2026-01-0{day}" / f"{part}.parquet", table, filtered, rows_per_group=10)
    customers = {
        "customer": pa.array([*range(20), None], pa.int32()),
        "name": [None if i % 6 == 5 else f"n{i}" for i in range(21)],
    }
    files.write(root / "customers" / "c.parquet", customers, ["customer", "name"])
    return root


QUERIES = {
    "comparison of comparisons, one never true": "SELECT count(*) FROM o WHERE (customer = 5.5D) = (customer > 5.5D)",
    "left join": (
        "SELECT o.id, c.name FROM o LEFT JOIN c ON o.customer = c.customer AND c.name = 'n4' WHERE o.id < 100 "
        "ORDER BY 1, 2"
    ),
    "null-safe join": (
        "SELECT o.id, c.name FROM o JOIN c ON o.customer <=> c.customer WHERE o.id IN (91, 92, 104) ORDER BY 1, 2"
    ),
    "filter over a window": (
        "SELECT * FROM (SELECT id, customer, rank() OVER (PARTITION BY customer ORDER BY amount) r FROM o) WHERE "
        "r = 1 AND customer = 5 ORDER BY id"
    ),
    "scalar subquery": "SELECT id FROM o WHERE id = (SELECT max(id) FROM o WHERE customer = 5)",
    "NOT EXISTS": (
        "SELECT c.customer FROM c WHERE NOT EXISTS (SELECT 1 FROM o WHERE o.customer = c.customer AND o.id < 90) "
        "ORDER BY 1"
    ),
    "NOT IN with nulls": (
        "SELECT id FROM o WHERE customer NOT IN (SELECT customer FROM c WHERE name IS NOT NULL) ORDER BY 1"
    ),
    "a CTE used twice": (
        "WITH w AS (SELECT * FROM o WHERE customer = 5) SELECT a.id, b.id FROM w a JOIN w b ON a.id + 17 = b.id "
        "WHERE a.id > 100 ORDER BY 1"
    ),
    "rollup": (
        "SELECT day, customer, sum(amount) FROM o WHERE customer <= 1 GROUP BY ROLLUP (day, customer) ORDER BY 1, 2"
    ),
    "explode outer": (
        "SELECT id, t FROM o LATERAL VIEW OUTER explode(tags) x AS t WHERE id IN (81, 82, 83) ORDER BY 1, 2"
    ),
    "partition column": "SELECT day, count(*) FROM o WHERE day = DATE'2026-01-02' AND id IN (81, 170) GROUP BY day",
    "cast": "SELECT id FROM o WHERE CAST(id AS STRING) = '81' OR id = 81.0 OR customer = '4' AND id < 90 ORDER BY 1",
    "lateral join": (
        "SELECT c.customer, x.id FROM c, LATERAL (SELECT id FROM o WHERE o.customer = c.customer ORDER BY id "
        "LIMIT 1) x WHERE c.name = 'n4'"
    ),
}


# adaptive, whole stages, and how code is made
MODES = [("true", "true", "FALLBACK"), ("false", "false", "NO_CODEGEN")]


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("name", QUERIES)
def test_a_query_returns_sparks_rows(readers: Readers, lake: Path, schemas: dict[str, StructType], name: str) -> None:
    """By a load or by Spark's own scans, in one of the modes: :mod:`tests.jar.test_random_settings` has more."""
    with conf(readers.spark, UNPRUNED):
        oracle = outcome(readers.oracle, lake, schemas, name)
    number = list(QUERIES).index(name)
    adaptive, whole_stage, codegen = MODES[number % 2]
    settings = {"spark.sql.adaptive.enabled": adaptive, "spark.sql.codegen.wholeStage": whole_stage}
    with conf(readers.spark, {**settings, **PRUNED, "spark.sql.codegen.factoryMode": codegen}):
        pruned = outcome((readers.jar, readers.oracle)[number // 2 % 2], lake, schemas, name)
    assert pruned == oracle  # every query with several rows has an ORDER BY
    assert oracle[1] or name == "NOT IN with nulls"


@pytest.fixture(scope="module")
def schemas(readers: Readers, lake: Path) -> dict[str, StructType]:
    """The schema of each table, which both readers infer; given to them, it saves a job for each load."""
    inferred = {table: readers.oracle(lake / table).schema for table in ("orders", "customers")}
    assert inferred == {table: readers.jar(lake / table).schema for table in inferred}
    return inferred


def outcome(
    read: Callable[[Path, StructType], DataFrame], lake: Path, schemas: dict[str, StructType], name: str
) -> tuple[StructType, list[tuple[Any, ...]]]:
    """The schema and the rows of a query over the tables of one reader."""
    for view, table in (("o", "orders"), ("c", "customers")):
        frame = read(lake / table, schemas[table])
        frame.createOrReplaceTempView(view)
    answer = frame.sparkSession.sql(QUERIES[name])
    return answer.schema, [tuple(row) for row in answer.collect()]


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize("single", ["true", "false"])
def test_a_global_aggregate_of_nothing_has_a_row(readers: Readers, lake: Path, adaptive: str, single: str) -> None:
    settings = {
        "spark.sql.adaptive.enabled": adaptive,
        "spark.sql.optimizer.singleTaskExecution.enabled": single,
        "spark.sql.optimizer.singleTaskExecution.enabled.maxBytes": "1g",
    }
    with conf(readers.spark, settings):
        for path in (lake / "orders", lake / "orders" / "day=2026-01-01" / "0.parquet"):
            frame = readers.oracle(path).where("id = -5").selectExpr("count(*)", "sum(id)", "max(place.city)")
            assert len(plain.compare(readers.spark, lambda: frame.select("*")).rows) == 1  # noqa: B023


def test_a_query_without_data_filters_keeps_its_plan(readers: Readers, lake: Path) -> None:
    readers.oracle(lake / "orders").createOrReplaceTempView("o")
    for sql in (
        "SELECT count(*) FROM o",
        "SELECT id FROM o WHERE day = DATE'2026-01-02'",
        "SELECT day, max(id) FROM o GROUP BY day",
        f"SELECT id FROM parquet.`{lake}/orders` WHERE _metadata.file_name = 'x'",
    ):
        texts_of_plans = []
        for pruning in (UNPRUNED, PRUNED):
            with conf(readers.spark, pruning):
                text = plain.executed(readers.spark.sql(sql))
                texts_of_plans.append(plain.without_ids(text))
        assert texts_of_plans[0] == texts_of_plans[1]
        assert plain.NODE not in texts_of_plans[1]


@pytest.mark.parametrize(("setting", "is_pruned"), [("TRUE", True), (" false ", False)])
def test_pruning_is_turned_on_and_off(readers: Readers, lake: Path, setting: str, is_pruned: bool) -> None:
    with conf(readers.spark, {**PRUNED, TRANSPARENT: setting}):
        executed = plain.executed(read(readers.spark, "parquet", lake / "orders").where("id = 100"))
    assert (plain.NODE in executed) is is_pruned


def test_a_misspelt_setting_is_an_error(readers: Readers, lake: Path) -> None:
    with conf(readers.spark, {TRANSPARENT: "flase"}):
        frame = read(readers.spark, "parquet", lake / "orders").where("id = 100")
        with pytest.raises(Exception, match=r"spark\.bloomparquet\.transparent is 'flase'; expected true or false"):
            frame.collect()
