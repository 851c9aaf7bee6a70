"""Statements on tables ``USING bloomparquet`` and ``bloomorc`` do what they do on tables of Parquet and ORC."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pyspark_bloomparquet import last_plan
from tests.support.spark import rows

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("transparent")]

DYNAMIC = "SET spark.sql.sources.partitionOverwriteMode = dynamic"
STATIC = "SET spark.sql.sources.partitionOverwriteMode = static"
PARTITIONED = "CREATE TABLE {t} (id BIGINT, s STRING, p INT) USING {fmt} PARTITIONED BY (p)"
PLAIN = "CREATE TABLE {t} (id BIGINT, s STRING, p INT) USING {fmt}"
FILLED = "INSERT INTO {t} SELECT id, concat('s', id), id DIV 10 FROM range(0, 40, 1, 4)"
BUCKETED = "CREATE TABLE {t} (id BIGINT, s STRING, p INT) USING {fmt} CLUSTERED BY (id) SORTED BY (id) INTO 3 BUCKETS"

# name -> how the table is made, and the statements that are compared
CASES: dict[str, tuple[str, list[str]]] = {
    "ADD PARTITION in another place": (
        PARTITIONED,
        [
            "ALTER TABLE {t} ADD PARTITION (p = 9) LOCATION '{path}/elsewhere'",
            "INSERT INTO {t} PARTITION (p = 9) VALUES (90, 'n')",
            "INSERT OVERWRITE {t} PARTITION (p = 9) VALUES (7, 'o')",
            "SELECT * FROM {t} WHERE p = 9",
            "INSERT OVERWRITE {t} VALUES (7, 'only', 1), (8, 'only', 3)",
            "SHOW PARTITIONS {t}",
        ],
    ),
    "buckets": (
        BUCKETED,
        [
            "SELECT count(*) FROM {t} WHERE id IN (7, 21)",
            "SELECT a.s, b.s FROM {t} a JOIN {t} b ON a.id = b.id WHERE b.s = 's7'",
            "INSERT INTO {t} VALUES (7, 'more', 1)",
            "INSERT OVERWRITE {t} VALUES (7, 'only', 1), (9, 'only', 1)",
        ],
    ),
    "INSERT OVERWRITE of everything": (
        PARTITIONED,
        [
            DYNAMIC,
            "INSERT OVERWRITE {t} VALUES (7, 'only', 1), (66, 'new', 6)",
            "SHOW PARTITIONS {t}",
            "SELECT count(*), sum(id) FROM {t}",
            STATIC,
            "INSERT OVERWRITE {t} SELECT 1L, 'x', 1 WHERE false",
            "SHOW PARTITIONS {t}",
            "SELECT count(*) FROM {t}",
            "ALTER TABLE {t} ADD PARTITION (p = 9)",
            "INSERT OVERWRITE {t} VALUES (7, 'only', 1), (8, 'new', 6)",
            "SHOW PARTITIONS {t}",
        ],
    ),
    "INSERT OVERWRITE of a partition": (
        PARTITIONED,
        [
            "INSERT OVERWRITE {t} PARTITION (p = 1) VALUES (7, 'only')",
            "INSERT OVERWRITE {t} PARTITION (p = 2) SELECT 1L, 'x' WHERE false",
            "INSERT OVERWRITE {t} PARTITION (p = 3) IF NOT EXISTS VALUES (7, 'not')",
            "INSERT OVERWRITE {t} PARTITION (p = 6) IF NOT EXISTS VALUES (66, 'new')",
            "SHOW PARTITIONS {t}",
        ],
    ),
}
_numbers = itertools.count()


def outcome(spark: SparkSession, source: str, path: Path, case: str) -> list[Any]:
    """The rows of each statement; then the table's schema and rows, and the rows and the counters of a filter."""
    made, statements = CASES.get(case, (case, []))
    names = {"t": f"statements_{next(_numbers)}", "fmt": source, "path": path / source}
    try:
        for statement in (made, FILLED):
            spark.sql(statement.format(**names))
        results: list[Any] = [rows(spark.sql(statement.format(**names))) for statement in statements]
        frame = spark.table(str(names["t"]))
        results += [frame.schema.simpleString(), rows(frame), rows(found := frame.where("id = 7"))]
        return [*results, [(plan.planned, plan.total, plan.kept, dict(plan.skipped)) for plan in last_plan(found)]]
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {names['t']}")


@pytest.mark.parametrize(
    ("plain", "source", "case"),
    [
        *(("parquet", "bloomparquet", case) for case in CASES),
        *(("orc", "bloomorc", case) for case in ("buckets", "INSERT OVERWRITE of a partition")),
    ],
)
def test_a_statement_does_what_it_does_on_sparks_tables(
    jar_spark: SparkSession, tmp_path: Path, plain: str, source: str, case: str
) -> None:
    expected, actual = (outcome(jar_spark, each, tmp_path, case) for each in (plain, source))
    for statement, one, other in zip(
        [*CASES[case][1], "schema", "rows", "hit", "counters"], actual, expected, strict=True
    ):
        assert one == other, statement


@pytest.mark.parametrize(("source", "made"), [("bloomparquet", PARTITIONED), ("bloomorc", PLAIN)])
def test_tables_are_pruned(jar_spark: SparkSession, tmp_path: Path, source: str, made: str) -> None:
    """Four files of ten rows each: one holds the row."""
    ((planned, total, kept, skipped),) = outcome(jar_spark, source, tmp_path, made)[-1]
    assert (planned, total, kept, sum(skipped.values())) == (True, 4, 1, 3)
