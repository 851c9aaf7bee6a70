"""Spark's own tables: buckets, partitions anywhere, changed columns. Rows are those without pruning."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support import plain
from tests.support.scenarios import PRUNED, UNPRUNED
from tests.support.spark import conf

pytestmark = pytest.mark.slow

_names = itertools.count()
FORMATS = ("parquet", "orc")
ROWS = 240


@pytest.fixture
def name(jar_spark: SparkSession) -> Iterator[str]:
    """A name for a table that is dropped after the test."""
    name = f"plain{next(_names)}"
    yield name
    jar_spark.sql(f"DROP TABLE IF EXISTS {name}")


def create(spark: SparkSession, name: str, definition: str, select: str, kind: str = "parquet") -> None:
    """A table with row groups (stripes) of ten rows and filters on `id`."""
    if kind == "parquet":
        options = (
            "'parquet.block.row.count.limit' '10', 'parquet.bloom.filter.enabled#id' 'true', "
            "'parquet.bloom.filter.expected.ndv#id' '10', 'parquet.enable.dictionary#id' 'false'"
        )
    else:
        options = "'orc.stripe.row.count' '10', 'orc.bloom.filter.columns' 'id', 'orc.bloom.filter.fpp' '0.001'"
    with conf(spark, {"spark.sql.orc.columnarWriterBatchSize": "10"}):
        spark.sql(f"CREATE TABLE {name} USING {kind} OPTIONS ({options}) {definition} AS {select}")


NUMBERS = f"SELECT id, id * 7919 % 1009 AS k, id % 8 AS b, CAST(id % 3 AS INT) AS p FROM range(0, {ROWS}, 1, 2)"


def asks(spark: SparkSession, *queries: str) -> int:
    """Compare the rows of each query without and with pruning. Returns how many row groups were skipped."""
    return sum(plain.compare(spark, lambda: spark.sql(query)).skipped for query in queries)  # noqa: B023


# -- buckets -----------------------------------------------------------------------------------------------------------

BUCKET_SETTINGS = {
    "defaults": {},
    "not adaptive": {"adaptive.enabled": "false", "sources.bucketing.autoBucketedScan.enabled": "false"},
    "sorted": {
        "legacy.bucketedTableScan.outputOrdering": "true",
        "sources.bucketing.autoBucketedScan.enabled": "false",
    },
    "coalesced": {"bucketing.coalesceBucketsInJoin.enabled": "true"},
}


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


@pytest.mark.parametrize("settings", BUCKET_SETTINGS)
def test_bucketed_tables_are_pruned(jar_spark: SparkSession, bucketed: tuple[str, str, str], settings: str) -> None:
    one, two, more = bucketed
    values = {f"spark.sql.{key}": value for key, value in BUCKET_SETTINGS[settings].items()}
    with conf(jar_spark, {"spark.sql.autoBroadcastJoinThreshold": "-1", **values}):
        skipped = asks(
            jar_spark,
            f"SELECT b, count(*), max(id) FROM {one} WHERE id IN (3, 77, 200) GROUP BY b",
            f"SELECT b, count(*) FROM {one} WHERE id = -1 GROUP BY b",
            f"SELECT count(*) FROM {one} WHERE id = -1",
            f"SELECT * FROM {one} WHERE b = 3 AND id = 19",
            f"SELECT * FROM {one} WHERE b = 3 AND id = 20",
            f"SELECT x.id, y.k FROM {one} x JOIN {two} y ON x.b = y.b AND x.id = y.id WHERE x.id IN (5, 99)",
            f"SELECT x.id, y.id FROM {one} x JOIN {more} y ON x.b = y.b WHERE x.id = 17 AND y.id BETWEEN 20 AND 30",
            f"SELECT x.b, y.n FROM {one} x LEFT JOIN (SELECT b, count(*) n FROM {two} WHERE id = 9 GROUP BY b) y "
            "ON x.b = y.b WHERE x.id < 12",
            f"SELECT b, id, row_number() OVER (PARTITION BY b ORDER BY id) FROM {one} WHERE id IN (8, 16, 160, 161)",
            f"SELECT b FROM {one} WHERE id = 3 UNION ALL SELECT b FROM {two} WHERE id = 4",
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


@pytest.mark.parametrize("kind", FORMATS)
def test_partitions_at_other_locations_are_pruned(
    jar_spark: SparkSession, tmp_path: Path, name: str, kind: str
) -> None:
    create(jar_spark, name, "PARTITIONED BY (p)", NUMBERS, kind)
    other = tmp_path / "p=7"
    jar_spark.table(name).where("p = 1").drop("p").selectExpr("id + 1000 AS id", "k", "b").write.format(kind).save(
        str(other)
    )
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
    with conf(jar_spark, PRUNED):
        assert [tuple(row) for row in jar_spark.sql(f"SELECT p FROM {name} WHERE id = 1007 ORDER BY p").collect()] == [
            (2,),
            (9,),
        ]


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_a_join_prunes_partitions_and_then_row_groups(jar_spark: SparkSession, name: str, adaptive: str) -> None:
    create(jar_spark, name, "PARTITIONED BY (p)", NUMBERS)
    jar_spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW days AS SELECT * FROM VALUES (0, 'a'), (1, 'b'), (2, 'c') AS t(p, day)"
    )
    settings = {
        "spark.sql.adaptive.enabled": adaptive,
        "spark.sql.optimizer.dynamicPartitionPruning.reuseBroadcastOnly": "false",
    }
    with conf(jar_spark, settings):
        for fallback in ("0.5", "10"):
            with conf(jar_spark, {"spark.sql.optimizer.dynamicPartitionPruning.fallbackFilterRatio": fallback}):
                assert asks(
                    jar_spark,
                    f"SELECT t.id FROM {name} t JOIN days d ON t.p = d.p WHERE d.day = 'b' AND t.id IN (4, 5, 100)",
                    f"SELECT t.id FROM {name} t JOIN days d ON t.p = d.p WHERE d.day = 'x' AND t.id = 4",
                    f"SELECT count(*) FROM {name} t JOIN days d ON t.p = d.p WHERE d.day <> 'b' AND t.id < 15",
                    f"SELECT t.id FROM {name} t WHERE p = (SELECT max(p) FROM days WHERE day < 'c') AND id IN (4, 5)",
                )


def test_a_partition_value_overrides_a_column_of_the_file(jar_spark: SparkSession, tmp_path: Path) -> None:
    for p in (1, 2):
        frame = jar_spark.sql(f"SELECT id, id % 5 AS p FROM range({p * 100}, {p * 100 + 40}, 1, 1)")
        frame.write.option("parquet.block.row.count.limit", "10").parquet(str(tmp_path / "t" / f"p={p}"))
    for where in ("p = 3", "p = 1 AND id = 104", "p = 2 AND id = 104", "p = 1 OR id = 203", "p = 4", "id = 104"):
        plain.compare(jar_spark, lambda: jar_spark.read.parquet(str(tmp_path / "t")).where(where))  # noqa: B023
    with conf(jar_spark, PRUNED):
        frame = jar_spark.read.parquet(str(tmp_path / "t")).where("p = 1 AND id = 104")
        assert [row.id for row in frame.collect()] == [104]


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
    with conf(jar_spark, PRUNED):
        assert jar_spark.sql(f"SELECT id FROM {name} WHERE d = 42").count() == 40


@pytest.mark.parametrize("kind", FORMATS)
def test_padded_and_collated_text_loses_no_row(jar_spark: SparkSession, name: str, kind: str) -> None:
    collation = "COLLATE UTF8_LCASE" if kind == "parquet" else ""  # Spark cannot read such a column of ORC files
    jar_spark.sql(f"CREATE TABLE {name} (id BIGINT, c CHAR(5), v VARCHAR(5), u STRING {collation}) USING {kind}")
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
                f"SELECT * FROM {name} WHERE v = 'v7'",
                f"SELECT * FROM {name} WHERE v = 'v7 '",
                f"SELECT * FROM {name} WHERE u = 'u7'",
                f"SELECT * FROM {name} WHERE u IN ('u7', 'U8') AND id = 8",
                f"SELECT * FROM {name} WHERE c LIKE 'c2%' AND v > 'v27'",
            )
    with conf(jar_spark, PRUNED):
        assert len(jar_spark.sql(f"SELECT * FROM {name} WHERE c = 'c7' AND lower(u) = 'u7'").collect()) == 1


def test_files_of_narrower_types_are_pruned(jar_spark: SparkSession, name: str, tmp_path: Path) -> None:
    options = {"parquet.block.row.count.limit": "5", "parquet.bloom.filter.enabled": "true"}
    types = (("INT", "FLOAT", "DECIMAL(9, 2)"), ("BIGINT", "DOUBLE", "DECIMAL(12, 3)"))
    for i, (integer, real, decimal) in enumerate(types):
        columns = (f"CAST(id AS {integer}) AS i", f"CAST(id / 4 AS {real}) AS r", f"CAST(id AS {decimal}) AS d")
        frame = jar_spark.range(i * 20, i * 20 + 20, 1, 1).selectExpr(*columns, f"'x' AS `n.{i}`")
        frame.write.options(**options).parquet(str(tmp_path / "t" / f"{i}"))
    jar_spark.sql(
        f"CREATE TABLE {name} (d DECIMAL(12, 3), r DOUBLE, i BIGINT, `n.0` STRING) USING parquet "
        f"OPTIONS (recursiveFileLookup 'true') LOCATION '{tmp_path / 't'}'"
    )
    assert asks(
        jar_spark,
        f"SELECT * FROM {name} WHERE i = 7",
        f"SELECT * FROM {name} WHERE i IN (7, 27, 8589934599)",
        f"SELECT * FROM {name} WHERE r = 1.75D",
        f"SELECT * FROM {name} WHERE r = 6.75D OR d = 3",
        f"SELECT * FROM {name} WHERE d = 7.001",
        f"SELECT * FROM {name} WHERE `n.0` = 'x' AND i < 3",
        f"SELECT * FROM {name} WHERE `n.0` IS NULL AND I = 27",
    )


# -- writing -----------------------------------------------------------------------------------------------------------


def test_statements_write_the_rows_of_pruned_scans(jar_spark: SparkSession, name: str) -> None:
    create(jar_spark, name, "", "SELECT id, id % 5 AS k FROM range(0, 40, 1, 2)")
    jar_spark.sql(f"INSERT INTO {name} SELECT id + 1000, k FROM {name} WHERE id = 33")
    jar_spark.sql(f"INSERT INTO {name} SELECT id + 1000, k FROM {name} WHERE id IN (33, 1033)")
    with conf(jar_spark, PRUNED):
        assert [row.id for row in jar_spark.sql(f"SELECT id FROM {name} WHERE id >= 33 ORDER BY id").collect()] == [
            *range(33, 40), 1033, 1033, 2033,
        ]  # fmt: skip
        with pytest.raises(Exception, match="UNSUPPORTED_OVERWRITE"):
            jar_spark.sql(f"INSERT OVERWRITE {name} SELECT * FROM {name} WHERE id = 33")
        jar_spark.sql(f"CREATE TABLE {name}_copy USING orc AS SELECT * FROM {name} WHERE id IN (33, 2033)")
    try:
        assert asks(jar_spark, f"SELECT * FROM {name}_copy WHERE id = 33", f"SELECT * FROM {name} WHERE id = 2033")
    finally:
        jar_spark.sql(f"DROP TABLE {name}_copy")
