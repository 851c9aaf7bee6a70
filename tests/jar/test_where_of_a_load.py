"""The option ``where`` is resolved at the load: later settings do not change the rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.support.scenarios import read
from tests.support.spark import conf

ZONE, ANSI, CASE = "spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.caseSensitive"
NEW_YORK, UTC = {ZONE: "America/New_York"}, {ZONE: "UTC"}
NOON = "at = TIMESTAMP '2026-01-31 12:00:00'"


@pytest.fixture(scope="module", params=["bloomparquet", "bloomorc"])
def source(request: pytest.FixtureRequest, jar_spark: SparkSession) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def path(source: str, jar_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """One row for each hour of a day in UTC. All values of `text` but one are numbers."""
    directory = str(tmp_path_factory.mktemp("where") / source)
    with conf(jar_spark, UTC):
        rows = jar_spark.range(24).selectExpr(
            "CAST(id AS INT) hour",
            "make_timestamp(2026, 1, 31, CAST(id AS INT), 0, 0) at",
            "IF(id = 3, 'three', CAST(id AS STRING)) text",
        )
        rows.coalesce(1).write.format(source).save(directory)
    return directory


@pytest.fixture(autouse=True)
def settings(jar_spark: SparkSession) -> Iterator[None]:
    with conf(jar_spark, {**UTC, ANSI: "false", CASE: "false"}):
        yield
    jar_spark.catalog.clearCache()


def hours(frame: DataFrame) -> list[int]:
    return sorted(row["hour"] for row in frame.select("hour").collect())


CHANGES: dict[str, tuple[str, dict[str, str], dict[str, str], list[int]]] = {
    "zone": (NOON, UTC, NEW_YORK, [12]),
    "cast to timestamp": ("at = CAST('2026-01-31 12:00:00' AS TIMESTAMP)", NEW_YORK, UTC, [17]),
    "cast to date": ("CAST(at AS DATE) = DATE '2026-01-30'", NEW_YORK, UTC, [0, 1, 2, 3, 4]),
    "not ANSI": ("CAST(text AS INT) = 7", {ANSI: "false"}, {ANSI: "true"}, [7]),
    "case": ("HOUR = 7", {CASE: "false"}, {CASE: "true"}, [7]),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_setting_between_load_and_action_changes_nothing(
    jar_spark: SparkSession, source: str, path: str, case: str
) -> None:
    where, at_load, at_action, expected = CHANGES[case]
    with conf(jar_spark, at_load):
        frame = read(jar_spark, source, path, where=where)
    with conf(jar_spark, at_action):
        assert hours(frame) == hours(frame.where("hour >= 0")) == expected


def test_queries_over_a_load_have_their_own_rows(jar_spark: SparkSession, source: str, path: str) -> None:
    bound = read(jar_spark, source, path, where="hour IN (1, 2, 3)")
    assert hours(bound.where("hour = 1").union(bound.where("hour >= 3"))) == [1, 3]
    assert hours(bound.where("hour = 4")) == []
    assert hours(bound.join(bound.where("text = '2'").select("hour"), "hour")) == [2]
    assert bound.selectExpr("count(*)", "min(text)", "max(hour)").collect() == [(3, "1", 3)]
    assert hours(bound) == [1, 2, 3]


def test_a_cache_never_serves_another_load(jar_spark: SparkSession, source: str, path: str) -> None:
    first = read(jar_spark, source, path, where=NOON).cache()
    assert hours(first) == [12]
    with conf(jar_spark, NEW_YORK):
        assert hours(read(jar_spark, source, path, where=NOON)) == [17]
        assert hours(first) == [12]
    again = read(jar_spark, source, path, where=NOON)
    assert hours(again) == [12]
    assert "InMemoryRelation" in again._jdf.queryExecution().executedPlan().toString(), "equal loads share a cache"


def test_two_loads_with_one_text_in_one_query(jar_spark: SparkSession, source: str, path: str) -> None:
    first = read(jar_spark, source, path, where=NOON)
    with conf(jar_spark, NEW_YORK):
        second = read(jar_spark, source, path, where=NOON)
    counts = [frame.groupBy("hour").count() for frame in (first, second, first)]
    every = counts[0].union(counts[1]).union(counts[2])  # Spark reuses equal exchanges
    assert sorted(map(tuple, every.collect())) == [(12, 1), (12, 1), (17, 1)]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("no_such = 1", "UNRESOLVED_COLUMN"),
        ("hour IN (SELECT 1)", "expected a condition on the columns of one row"),
        ("rand() < 1", "expected a condition on the columns of one row"),
        ("hour", "DATATYPE_MISMATCH"),
    ],
)
def test_an_unresolvable_where_fails_the_load(
    jar_spark: SparkSession, source: str, path: str, where: str, message: str
) -> None:
    with pytest.raises((PySparkException, Exception), match=message):
        read(jar_spark, source, path, where=where)


def test_time_zone_applies_to_where(jar_spark: SparkSession, source: str, path: str) -> None:
    options: dict[str, Any] = {"where": NOON, "timeZone": "America/New_York"}
    assert hours(read(jar_spark, source, path, **options)) == [17]


@pytest.mark.parametrize("where", ["plus_one(hour) = 3 AND hour = 2", "latest(hour) = 23"])
def test_functions_defined_in_sql_are_refused(jar_spark: SparkSession, source: str, path: str, where: str) -> None:
    jar_spark.range(24).createOrReplaceTempView("numbers")
    jar_spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION plus_one(x INT) RETURNS INT RETURN x + 1")
    jar_spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION latest(x INT) RETURNS INT RETURN (SELECT max(id) FROM numbers)")
    try:
        with pytest.raises(Exception, match="expected a condition on the columns of one row"):
            hours(jar_spark.read.format(source).option("where", where).load(path))
    finally:
        jar_spark.sql("DROP TEMPORARY FUNCTION plus_one")
        jar_spark.sql("DROP TEMPORARY FUNCTION latest")
        jar_spark.catalog.dropTempView("numbers")
