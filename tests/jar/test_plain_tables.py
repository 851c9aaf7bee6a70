"""Spark's own tables: buckets, partitions anywhere, changed columns. Rows are those without pruning."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support import plain
from tests.support.scenarios import PRUNED, UNPRUNED
from tests.support.spark import conf
from tests.support.spark_rows import skipped_by

pytestmark = pytest.mark.slow

_names = itertools.count()
ROWS = 240


@pytest.fixture
def name(jar_spark: SparkSession) -> Iterator[str]:
    """A name for a table that is dropped after the test."""
    name = f"plain{next(_names)}"
    yield name
    jar_spark.sql(f"DROP TABLE IF EXISTS {name}")


def create(spark: SparkSession, name: str, definition: str, select: str) -> None:
    """A table with row groups of ten rows and filters on `id`."""
    options = (
        "'parquet.block.row.count.limit' '10', 'parquet.bloom.filter.enabled#id' 'true', "
        "'parquet.bloom.filter.expected.ndv#id' '10', 'parquet.enable.dictionary#id' 'false'"
    )
    spark.sql(f"CREATE TABLE {name} USING parquet OPTIONS ({options}) {definition} AS {select}")


NUMBERS = f"SELECT id, id * 7919 % 1009 AS k, id % 8 AS b, CAST(id % 3 AS INT) AS p FROM range(0, {ROWS}, 1, 2)"


def asks(spark: SparkSession, *queries: str) -> int:
    """Compare the rows of the queries without and with pruning. Returns how many row groups were skipped."""
    numbered = (f"SELECT {i}, CAST(struct(*) AS STRING) FROM ({query})" for i, query in enumerate(queries))
    return plain.compare(spark, partial(spark.sql, " UNION ALL ".join(numbered))).skipped


# -- buckets -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bucketed(jar_spark: SparkSession) -> Iterator[tuple[str, str, str]]:
    """Two tables of four and one of eight buckets on `b`, with one sorted file for each bucket."""
    names = ("bucketed4", "bucketed4_too", "bucketed8")
    for name in names:
        create(
            jar_spark,
            name,
            f"CLUSTERED BY (b) SORTED BY (b, id) INTO {name[8]} BUCKETS",
            f"SELECT * FROM ({NUMBERS}) DISTRIBUTE BY b SORT BY b",
        )
    yield names
    for name in names:
        jar_spark.sql(f"DROP TABLE {name}")


@pytest.mark.parametrize("is_sorted", [False, True])
def test_bucketed_tables_are_pruned(jar_spark: SparkSession, bucketed: tuple[str, str, str], is_sorted: bool) -> None:
    one, two, more = bucketed
    settings = {
        "autoBroadcastJoinThreshold": "-1",
        "adaptive.enabled": str(not is_sorted).lower(),
        "legacy.bucketedTableScan.outputOrdering": str(is_sorted).lower(),
        "sources.bucketing.autoBucketedScan.enabled": str(not is_sorted).lower(),
        "bucketing.coalesceBucketsInJoin.enabled": str(is_sorted).lower(),
    }
    with conf(jar_spark, {f"spark.sql.{key}": value for key, value in settings.items()}):
        skipped = asks(
            jar_spark,
            f"SELECT b, count(*), max(id) FROM {one} WHERE id IN (3, 77, 200) GROUP BY b",
            f"SELECT count(*) FROM {one} WHERE id = -1",
            f"SELECT * FROM {one} WHERE b = 3 AND id = 19",
            f"SELECT x.id, y.k FROM {one} x JOIN {two} y ON x.b = y.b AND x.id = y.id WHERE x.id IN (5, 99)",
            f"SELECT x.id, y.id FROM {one} x JOIN {more} y ON x.b = y.b WHERE x.id = 17 AND y.id BETWEEN 20 AND 30",
            f"SELECT x.b, y.n FROM {one} x LEFT JOIN (SELECT b, count(*) n FROM {two} WHERE id = 9 GROUP BY b) y "
            "ON x.b = y.b WHERE x.id < 12",
            f"SELECT b, id, row_number() OVER (PARTITION BY b ORDER BY id) FROM {one} WHERE id IN (8, 16, 160, 161)",
            f"SELECT b, count(*) FROM (SELECT b FROM {one} WHERE id = 3 UNION ALL SELECT b FROM {two} WHERE id = 4) "
            "GROUP BY b",
        )
    assert skipped > 100


def test_a_pruned_bucket_remains_one_partition(jar_spark: SparkSession, bucketed: tuple[str, str, str]) -> None:
    with conf(jar_spark, {"spark.sql.sources.bucketing.autoBucketedScan.enabled": "false"}):
        for where, settings in (("id = 3", PRUNED), ("id = -1", PRUNED), ("id = 3", UNPRUNED)):
            with conf(jar_spark, settings):
                assert jar_spark.table(bucketed[0]).where(where).rdd.getNumPartitions() == 4


def test_a_query_that_is_planned_before_buckets_are_turned_off(
    jar_spark: SparkSession, bucketed: tuple[str, str, str]
) -> None:
    """Spark joins the buckets without a shuffle, and so it still reads each into one partition."""
    one, two, _ = bucketed
    query = f"SELECT x.id, y.k FROM {one} x JOIN {two} y ON x.b = y.b WHERE x.id IN (5, 99) AND y.id IN (13, 107, 206)"
    settings = {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.files.openCostInBytes": "0"}
    results = []
    for pruning in (UNPRUNED, PRUNED):
        with conf(jar_spark, {**settings, **pruning}):
            frame = jar_spark.sql(query)
            assert "Exchange" not in plain.executed(frame)
            with conf(jar_spark, {"spark.sql.sources.bucketing.enabled": "false"}):
                results.append(sorted(row.id for row in frame.collect()))
    assert results == [[5, 99]] * 2


# -- partitions --------------------------------------------------------------------------------------------------------


def test_partitions_at_other_locations_are_pruned(jar_spark: SparkSession, tmp_path: Path, name: str) -> None:
    create(jar_spark, name, "PARTITIONED BY (p)", NUMBERS)
    other = tmp_path / "p=7"
    jar_spark.table(name).where("p = 1").selectExpr("id + 1000 AS id", "k", "b").write.parquet(str(other))
    jar_spark.sql(f"ALTER TABLE {name} PARTITION (p = 2) SET LOCATION '{other}'")
    jar_spark.sql(f"ALTER TABLE {name} ADD PARTITION (p = 9) LOCATION '{other}'")
    assert asks(
        jar_spark,
        f"SELECT * FROM {name} WHERE id = 7",
        f"SELECT * FROM {name} WHERE id = 1007",
        f"SELECT * FROM {name} WHERE id = 8",  # of the partition's former location
        f"SELECT p, count(*) FROM {name} WHERE id IN (3, 4, 1004) GROUP BY p",
        f"SELECT * FROM {name} WHERE p = 9 AND id = 1001",
        f"SELECT * FROM {name} WHERE (p = 9 AND id = 1001) OR (p = 0 AND id = 3)",
    )  # fmt: skip


def test_a_partition_value_overrides_a_column_of_the_file(jar_spark: SparkSession, tmp_path: Path) -> None:
    for p in (1, 2):
        frame = jar_spark.sql(f"SELECT id, id % 5 AS p FROM range({p * 100}, {p * 100 + 40}, 1, 1)")
        frame.write.option("parquet.block.row.count.limit", "10").parquet(str(tmp_path / "t" / f"p={p}"))
    wheres = ["p = 3", "p = 1 AND id = 104", "p = 2 AND id = 104", "p = 1 OR id = 203", "p = 4", "id = 104"]
    skipped_by(jar_spark.read.parquet(str(tmp_path / "t")), wheres)


# -- changed and special columns ---------------------------------------------------------------------------------------


def test_added_columns_have_their_default_or_null(jar_spark: SparkSession, name: str) -> None:
    create(jar_spark, name, "", "SELECT id, CAST(id * 3 AS INT) AS n FROM range(0, 40, 1, 1)")
    jar_spark.sql(f"ALTER TABLE {name} ADD COLUMNS (s STRING, d INT DEFAULT 42)")
    jar_spark.sql(f"INSERT INTO {name} SELECT id, id, concat('s', id), id FROM range(100, 120, 1, 1)")
    assert asks(
        jar_spark,
        f"SELECT * FROM {name} WHERE d = 42",
        f"SELECT * FROM {name} WHERE d = 42 AND id = 3",
        f"SELECT * FROM {name} WHERE d = 103",
        f"SELECT * FROM {name} WHERE s IS NULL AND id IN (3, 103)",
        f"SELECT * FROM {name} WHERE s = 's105'",
        f"SELECT * FROM {name} WHERE s <=> NULL AND n = 9",
        f"SELECT * FROM {name} WHERE d IS NULL",
        f"SELECT * FROM {name} WHERE d <> 42 AND n = 103",
    )


def test_padded_and_collated_text_loses_no_row(jar_spark: SparkSession, name: str) -> None:
    columns = "id BIGINT, c CHAR(5), v VARCHAR(5), u STRING COLLATE UTF8_LCASE"
    jar_spark.sql(f"CREATE TABLE {name} ({columns}) USING parquet")
    jar_spark.sql(
        f"INSERT INTO {name} SELECT id, concat('c', id), concat('v', id), concat('U', id) FROM range(0, 30, 1, 3)"
    )
    for padding in ("true", "false"):
        with conf(jar_spark, {"spark.sql.readSideCharPadding": padding}):
            asks(
                jar_spark,
                f"SELECT * FROM {name} WHERE c = 'c7'",
                f"SELECT * FROM {name} WHERE c = 'c7   '",
                f"SELECT * FROM {name} WHERE c IN ('c7', 'c29  ') AND id < 10",
                f"SELECT * FROM {name} WHERE v = 'v7 '",
                f"SELECT * FROM {name} WHERE u = 'u7'",
                f"SELECT * FROM {name} WHERE u IN ('u7', 'U8') AND id = 8",
                f"SELECT * FROM {name} WHERE c LIKE 'c2%' AND v > 'v27'",
            )
