"""Statements on tables ``USING bloomparquet`` and ``bloomorc`` do what they do on tables of Parquet and ORC."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyspark_bloomparquet import last_plan
from tests.support.spark import rows

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("transparent")]

PAIRS = [("parquet", "bloomparquet"), ("orc", "bloomorc")]
DYNAMIC = "SET spark.sql.sources.partitionOverwriteMode = dynamic"
STATIC = "SET spark.sql.sources.partitionOverwriteMode = static"
PARTITIONED = "CREATE TABLE {t} (id BIGINT, s STRING, p INT) USING {fmt} PARTITIONED BY (p)"
PLAIN = "CREATE TABLE {t} (id BIGINT, s STRING, p INT) USING {fmt}"
FILLED = "INSERT INTO {t} SELECT /*+ REPARTITION_BY_RANGE(4, id) */ id, concat('s', id), id DIV 10 FROM range(40)"
BUCKETED = "CREATE TABLE {t} (id BIGINT, s STRING, p INT) USING {fmt} CLUSTERED BY (id) SORTED BY (id) INTO 3 BUCKETS"

# name -> how the table is made, and the statements that are compared
CASES: dict[str, tuple[str, list[str]]] = {
    "partitions": (
        PARTITIONED,
        [
            "SHOW PARTITIONS {t}",
            "ALTER TABLE {t} ADD PARTITION (p = 9)",
            "INSERT INTO {t} VALUES (90, 'n', 9)",
            "ALTER TABLE {t} PARTITION (p = 1) RENAME TO PARTITION (p = 8)",
            "SHOW PARTITIONS {t}",
            "ALTER TABLE {t} DROP PARTITION (p = 2)",
            "TRUNCATE TABLE {t} PARTITION (p = 3)",
            "SHOW PARTITIONS {t}",
        ],
    ),
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
    "MSCK REPAIR": (
        PARTITIONED,
        [
            "INSERT OVERWRITE DIRECTORY '{dir}/p=8' USING {fmt} SELECT 80L AS id, 'm' AS s",
            "SELECT count(*) FROM {t}",
            "MSCK REPAIR TABLE {t}",
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
    "refused": (
        PARTITIONED,
        [
            "DELETE FROM {t} WHERE id = 1",
            "UPDATE {t} SET id = 1",
            "REPLACE TABLE {t} USING {fmt} AS SELECT 1 AS id",
            "ALTER TABLE {t} RENAME COLUMN id TO z",
            "ALTER TABLE {t} ALTER COLUMN id TYPE STRING",
            "INSERT INTO {t} VALUES (1)",
        ],
    ),
}
_numbers = itertools.count()


class Side:
    """One table and what its statements gave."""

    def __init__(self, spark: SparkSession, source: str, path: Path) -> None:
        self.spark, self.source, self.path = spark, source, path / source
        self.table = f"statements_{next(_numbers)}"

    def masked(self, text: str) -> str:
        """`text` with common words for the names in which the sides differ."""
        for ours, common in ((self.table, "T"), (str(self.path), "PATH"), (self.source, "FORMAT")):
            text = text.replace(ours, common)
        return text

    def run(self, statement: str) -> Any:
        """The rows of a statement as text, or its error."""
        warehouse = self.spark.conf.get("spark.sql.warehouse.dir", "")
        directory = f"{warehouse}/{self.table}".removeprefix("file:")
        text = statement.format(t=self.table, fmt=self.source, path=self.path, dir=directory)
        try:
            return sorted(self.masked(str(tuple(row))) for row in self.spark.sql(text).collect())
        except PySparkException as error:
            return type(error).__name__, error.getCondition()

    def outcome(self, made: str, statements: list[str]) -> list[Any]:
        try:
            for statement in (made, FILLED):
                self.spark.sql(statement.format(t=self.table, fmt=self.source, path=self.path))
            results = [self.run(statement) for statement in statements]
            frame = self.spark.table(self.table)
            return [*results, frame.schema.simpleString(), rows(frame), *pruned(frame.where("id = 7"))]
        finally:
            self.spark.sql(f"DROP TABLE IF EXISTS {self.table}")


def pruned(frame: DataFrame) -> tuple[Any, ...]:
    """The rows of a filtered frame, and the counters of its scan."""
    (values, plans) = rows(frame), last_plan(frame)
    return values, [(plan.planned, plan.total, plan.kept, dict(plan.skipped)) for plan in plans]


@pytest.mark.parametrize(
    ("plain", "source", "case"),
    [
        *((*PAIRS[0], case) for case in CASES),
        *((*PAIRS[1], case) for case in ("buckets", "INSERT OVERWRITE of a partition")),
    ],
)
def test_a_statement_does_what_it_does_on_sparks_tables(
    jar_spark: SparkSession, tmp_path: Path, plain: str, source: str, case: str
) -> None:
    made, statements = CASES[case]
    expected = Side(jar_spark, plain, tmp_path).outcome(made, statements)
    actual = Side(jar_spark, source, tmp_path).outcome(made, statements)
    for statement, one, other in zip([*statements, "schema", "rows", "hit", "counters"], actual, expected, strict=True):
        assert one == other, statement
    errors = [each for each in actual[: len(statements)] if isinstance(each, tuple)]
    assert (len(errors) == len(statements)) == (case == "refused"), errors


@pytest.mark.parametrize(("source", "made"), [("bloomparquet", PARTITIONED), ("bloomorc", PLAIN)])
def test_tables_are_pruned(jar_spark: SparkSession, tmp_path: Path, source: str, made: str) -> None:
    """Four files of ten rows each: one holds the row."""
    (planned, total, kept, skipped), *_ = Side(jar_spark, source, tmp_path).outcome(made, [])[-1]
    assert (planned, total, kept, sum(skipped.values())) == (True, 4, 1, 3)
