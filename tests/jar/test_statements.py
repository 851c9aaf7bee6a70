"""Statements on tables ``USING bloomparquet`` and ``bloomorc`` do what they do on tables of Parquet and ORC."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyspark_bloomparquet import last_plan
from tests.support.spark import conf, rows

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("transparent")]

PAIRS = [("parquet", "bloomparquet"), ("orc", "bloomorc")]
SETTINGS = {
    "spark.sql.defaultColumn.allowedProviders": "parquet,orc,bloomparquet,bloomorc",
}
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
            "SHOW PARTITIONS {t} PARTITION (p = 1)",
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
    "TRUNCATE": (PLAIN, ["TRUNCATE TABLE {t}", "SELECT count(*) FROM {t}", "INSERT INTO {t} VALUES (7, 'n', 1)"]),
    "descriptions": (
        PARTITIONED,
        [
            "SHOW CREATE TABLE {t}",
            "SHOW COLUMNS IN {t}",
            "SHOW TBLPROPERTIES {t}",
            "ANALYZE TABLE {t} COMPUTE STATISTICS",
            "ANALYZE TABLE {t} COMPUTE STATISTICS FOR COLUMNS id, s",
            "ANALYZE TABLE {t} PARTITION (p = 1) COMPUTE STATISTICS",
            "DESCRIBE EXTENDED {t} id",
            "ALTER TABLE {t} RENAME TO {t}_new",
            "ALTER TABLE {t}_new RENAME TO {t}",
        ],
    ),
    "CREATE TABLE LIKE": (
        PARTITIONED,
        [
            "CREATE TABLE {t}_like LIKE {t}",
            "INSERT INTO {t}_like SELECT * FROM {t}",
            "SELECT * FROM {t}_like WHERE id = 7",
            "FROM {t} INSERT OVERWRITE {t}_like SELECT * WHERE p = 1 INSERT INTO {t}_like SELECT * WHERE p = 2",
            "SELECT * FROM {t}_like",
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
    "SET LOCATION": (PLAIN, ["ALTER TABLE {t} SET LOCATION '{path}/new'", "INSERT INTO {t} VALUES (7, 'moved', 1)"]),
    "CACHE": (
        PLAIN,
        [
            "CACHE TABLE {t}",
            "SELECT count(*) FROM {t}",
            "INSERT INTO {t} VALUES (7, 'more', 1)",
            "SELECT count(*) FROM {t}",
            "INSERT OVERWRITE {t} SELECT 7L, 'only', 1",
            "SELECT count(*) FROM {t}",
            "UNCACHE TABLE {t}",
        ],
    ),
    "column defaults": (
        PLAIN,
        [
            "ALTER TABLE {t} ADD COLUMNS (d INT DEFAULT 42)",
            "INSERT INTO {t} (id) VALUES (50)",
            "SELECT id FROM {t} WHERE d = 42",
        ],
    ),
    "CHAR and VARCHAR": (
        "CREATE TABLE {t} (id BIGINT, s CHAR(5), p VARCHAR(3)) USING {fmt}",
        [
            "SELECT id FROM {t} WHERE s = 's7'",
            "INSERT INTO {t} VALUES (1, 'a', 'abcd')",
            "INSERT INTO {t} VALUES (1, 'a', 'x')",
        ],
    ),
    "INSERT by name, position and list": (
        PARTITIONED,
        [
            "INSERT INTO {t} BY NAME SELECT 4 AS p, 'd' AS s, 44L AS id",
            "INSERT INTO {t} (s, p, id) VALUES ('c', 3, 33)",
            "INSERT INTO {t} PARTITION (p = 5) VALUES (55, 'e')",
            "INSERT INTO {t} PARTITION (p) VALUES (56, 'e', 5)",
            "INSERT INTO {t} PARTITION (p = NULL) VALUES (57, 'null')",
            "SHOW PARTITIONS {t}",
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
    "INSERT OVERWRITE of two partition columns": (
        "CREATE TABLE {t} (id BIGINT, s STRING, p INT) USING {fmt} PARTITIONED BY (s, p)",
        [
            "INSERT OVERWRITE {t} PARTITION (s = 's9', p) VALUES (7, 5), (8, 6)",
            "SHOW PARTITIONS {t} PARTITION (s = 's9')",
            "SELECT count(*), sum(id) FROM {t}",
        ],
    ),
    "INSERT OVERWRITE of what is read": (
        PARTITIONED,
        [
            "INSERT OVERWRITE {t} SELECT id + 1, s, p FROM {t}",
            "INSERT OVERWRITE {t} PARTITION (p = 1) SELECT id, s FROM {t}",
        ],
    ),
    "refused": (
        PARTITIONED,
        [
            "DELETE FROM {t} WHERE id = 1",
            "UPDATE {t} SET id = 1",
            "CREATE OR REPLACE TABLE {t} (id BIGINT) USING {fmt}",
            "REPLACE TABLE {t} USING {fmt} AS SELECT 1 AS id",
            "ALTER TABLE {t} RENAME COLUMN id TO z",
            "ALTER TABLE {t} DROP COLUMN id",
            "ALTER TABLE {t} ALTER COLUMN id TYPE STRING",
            "ALTER TABLE {t} REPLACE COLUMNS (q INT)",
            "ALTER TABLE {t} ADD COLUMNS (ID INT)",
            "INSERT INTO {t} VALUES (1)",
            "CREATE TABLE {t} USING {fmt} AS SELECT 1 AS id",
        ],
    ),
    "ALTER COLUMN": (
        PARTITIONED,
        [
            "ALTER TABLE {t} ALTER COLUMN id COMMENT 'why'",
            "ALTER TABLE {t} ADD COLUMNS (x INT, y STRING COMMENT 'because')",
            "INSERT INTO {t} VALUES (2, 'b', 22, 'y', 2)",
            "SELECT * FROM {t} WHERE x IS NULL AND id < 3",
            "DESCRIBE {t}",
        ],
    ),
    "CTAS": (
        PLAIN,
        [
            "CREATE TABLE {t}_as USING {fmt} PARTITIONED BY (p) LOCATION '{path}/as' AS SELECT p, id FROM {t}",
            "SELECT * FROM {t}_as",
            "SHOW PARTITIONS {t}_as",
            "CREATE TABLE {t}_more USING {fmt} LOCATION '{path}/as' AS SELECT 1 AS id",
            "CREATE TABLE IF NOT EXISTS {t}_as USING {fmt} AS SELECT 1 AS id",
        ],
    ),
    "a directory that is there": (
        PLAIN,
        [
            "INSERT OVERWRITE DIRECTORY '{path}/dir/q=1' USING {fmt} SELECT 1L AS id",
            "CREATE TABLE {t}_at USING {fmt} LOCATION '{path}/dir'",
            "SELECT * FROM {t}_at",
            "MSCK REPAIR TABLE {t}_at",
            "SELECT * FROM {t}_at",
            "CREATE TABLE {t}_in USING {fmt} LOCATION '{path}/missing'",
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
            for suffix in ("", "_like", "_new", "_as", "_more", "_at", "_in"):
                self.spark.sql(f"DROP TABLE IF EXISTS {self.table}{suffix}")


def pruned(frame: DataFrame) -> tuple[Any, ...]:
    """The rows of a filtered frame, and the counters of its scan."""
    (values, plans) = rows(frame), last_plan(frame)
    return values, [(plan.planned, plan.total, plan.kept, dict(plan.skipped)) for plan in plans]


@pytest.mark.parametrize(
    ("plain", "source", "case"),
    [
        *((*PAIRS[0], case) for case in CASES),
        *((*PAIRS[1], case) for case in ("buckets", "MSCK REPAIR", "ALTER COLUMN", "INSERT OVERWRITE of a partition")),
    ],
)
def test_a_statement_does_what_it_does_on_sparks_tables(
    jar_spark: SparkSession, tmp_path: Path, plain: str, source: str, case: str
) -> None:
    made, statements = CASES[case]
    with conf(jar_spark, SETTINGS):
        expected = Side(jar_spark, plain, tmp_path).outcome(made, statements)
        actual = Side(jar_spark, source, tmp_path).outcome(made, statements)
    for statement, one, other in zip([*statements, "schema", "rows", "hit", "counters"], actual, expected, strict=True):
        assert one == other, statement
    errors = [each for each in actual[: len(statements)] if isinstance(each, tuple)]
    assert (len(errors) == len(statements)) == (case in ("refused", "INSERT OVERWRITE of what is read")), errors


@pytest.mark.parametrize(("plain", "source"), PAIRS)
def test_tables_are_pruned(jar_spark: SparkSession, tmp_path: Path, plain: str, source: str) -> None:
    """Four files of ten rows each: one holds the row."""
    for made in (PARTITIONED, PLAIN):
        side = Side(jar_spark, source, tmp_path)
        (planned, total, kept, skipped), *_ = side.outcome(made, [])[-1]
        assert (planned, total, kept, sum(skipped.values())) == (True, 4, 1, 3)
