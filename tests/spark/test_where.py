"""The option `where` filters a load and skips row groups, on every version of Spark."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

import bloomparquet as bp
from bloomparquet.errors import OptionError
from bloomparquet.query.like import Like
from pyspark_bloomparquet.options.load import Options
from pyspark_bloomparquet.read.listing import LoadListing
from pyspark_bloomparquet.read.reader import make_reader
from tests.planning import test_narrow_integers as narrow
from tests.query.test_like import TEXTS
from tests.spark.compare import load, parquet, rows, rows_and_tasks
from tests.support import files
from tests.support.spark import conf, write

ONE_TASK_EACH = {"maxPartitionBytes": "1", "openCostInBytes": "1"}


def plan(path: str, where: str) -> None:
    """Plan a load as Spark's driver does; here, errors are not wrapped."""
    options = Options.parse({"path": path, "where": where})
    make_reader(options, LoadListing(options).schema()).partitions()


@pytest.fixture(scope="module")
def events(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """16 row groups by Spark and by pyarrow, in two days. `session` looks random: only Bloom filters can skip by it."""
    root = tmp_path_factory.mktemp("events")
    frame = spark.sql(
        "SELECT id, md5(CAST(id AS STRING)) AS session, CAST(id * 7919 % 100003 AS DECIMAL(12, 2)) AS amount,"
        " TIMESTAMP'2026-01-01 00:00:00' + make_interval(0, 0, 0, 0, 0, 0, id) AS at,"
        " struct(id % 97 AS bucket) AS extra, array(TIMESTAMP'2026-01-01 00:00:00') AS times,"
        " id AS `a.b`, CASE WHEN id % 10 = 0 THEN NULL ELSE id % 7 END AS maybe FROM range(4000)"
    )
    bloom = {"session": 500, "amount": 500, "id": 500}
    write(frame.repartition(2), root / "t" / "day=2026-01-01", bloom, rows_per_group=500)
    arrow = frame.toArrow()
    shifted = arrow.set_column(0, "id", pa.array(range(4000, 8000)))
    files.write(root / "t" / "day=2026-01-02" / "p.parquet", shifted, ["session", "amount", "id"], rows_per_group=500)
    return str(root / "t")


def test_patterns_match_as_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = files.write(tmp_path / "x.parquet", {"i": range(len(TEXTS)), "c": TEXTS})
    rng, tokens = random.Random(7), ["%", "_", "a", "b", "ä", "\\%", "\\_", "\\\\", ".", "(", "\n", "\U0001f600"]
    patterns = [Like("c", "".join(rng.choices(tokens, k=rng.randint(0, 5)))) for _ in range(100)]
    wheres = [str(pattern) for pattern in patterns] + [f"NOT {pattern}" for pattern in patterns[:20]]
    columns = [f"coalesce({where}, FALSE) AS `{i}`" for i, where in enumerate(wheres)]
    by_spark = spark.read.parquet(path).selectExpr("i", *columns).collect()
    for i, where in enumerate(wheres):
        expected = sorted(row["i"] for row in by_spark if row[str(i)])
        assert bp.read_table(path, where)["i"].to_pylist() == expected, where


TEXT = "C:" + chr(92) + "tmp" + chr(92)
LONG_DECIMALS = ["5." + "0" * 29 + "1", "5", "0.1", "0.1" + "0" * 28 + "1"]
WALL_TIMES = ["2024-03-31 01:30", "2024-03-31 02:30", "2024-03-31 03:00", "2024-03-31 03:30", "2024-03-31 04:30"]
HARD = {  # a column of one value to a row group, and conditions of which Spark makes more than their text says
    "text": (pa.array([TEXT, "C:tmp", None, "x"]), [
        r"endswith(c, '\\')", r"contains(c, '\\tmp')", r"c LIKE '%\\\\'", r"c LIKE '%\\\\tmp%'", r"c LIKE '_:\\\\%'",
        r"NOT contains(c, '\\tmp')", r"c NOT LIKE '%\\\\'", r"c LIKE 'C:\\\\tmp\\\\'",
    ]),
    "double": (pa.array([2.0**53, 2.0**53 + 2, 1e18, 0.1]), [
        "c = 9007199254740993", "c > 9007199254740993", "c IN (9007199254740993, 5)", "c = 1000000000000000001",
        "c <> 9007199254740993", "c >= 9007199254740995", "c = 0.1",
    ]),
}  # fmt: skip


@pytest.mark.parametrize("name", HARD)
def test_hard_literals_select_sparks_rows(spark: SparkSession, tmp_path: Path, name: str) -> None:
    values, wheres = HARD[name]
    path = files.write(tmp_path / "x.parquet", {"i": range(len(values)), "c": values}, ["c"], rows_per_group=1)
    answers = parquet(spark, path).selectExpr("i", *(f"{where} AS `{where}`" for where in wheres)).collect()
    for where in wheres:
        expected = [row["i"] for row in answers if row[where]]
        assert bp.read_table(path, where)["i"].to_pylist() == expected, where


KEPT = {  # which Spark rounds or moves to compare, and the row filter of Python does not
    "decimal": (pa.array(list(map(Decimal, (1, 2, 3, 5))), pa.decimal128(38, 0)), [
        "c = 1.5", "c > 1.5", "c >= 2.5", "c < 2.4", "c IN (1.5, 7)", "c BETWEEN 1.5 AND 2.5",
    ]),
    "bigint": (pa.array([4, 5, 6, 2**24, 2**24 + 1, 2**53, 2**53 + 1, 2**53 + 3, 10**17, 10**17 + 1]), [
        "c = 5.0000000000000000000001", "c >= 5.0000000000000000000001", "c = 9007199254740992D", "c = 1e17",
        "c <= 9007199254740992D", "c >= 9007199254740996D", "c IN (9007199254740992, 1.5D)", "c = 16777216F",
        "c = 9007199254740992F", "c IN (123456789012345678901234567890.5, 1.0000000001)",
    ]),
    "long decimal": (pa.array([Decimal(text) for text in LONG_DECIMALS], pa.decimal128(38, 30)), [
        "c = 0.1D", "c = 1e-1", "c IN (0.1D)", "c IN (5)", "c IN (5, NULL)", "c = CAST(5 AS BIGINT)", "c = 5L",
        "c = CAST(5 AS DECIMAL(18, 0))", "c IN (5, 6)", "c > 0.1D",
    ]),
    "mid decimal": (pa.array(list(map(Decimal, ("0.1234567890", "5"))), pa.decimal128(20, 10)), [
        "c IN (12345678901234567890123.0, 0.12345678900000000001)",
    ]),
    "local": (pa.array(list(map(dt.datetime.fromisoformat, WALL_TIMES)), pa.timestamp("us")), [
        f"c {operator} TIMESTAMP '{time}:00'" for operator in ("=", "<", ">=", ">") for time in WALL_TIMES
    ]),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", KEPT)
def test_what_spark_rounds_or_moves_is_kept(spark: SparkSession, tmp_path: Path, name: str) -> None:
    values, wheres = KEPT[name]
    path = files.write(tmp_path / "x.parquet", {"i": range(len(values)), "c": values}, ["c"], rows_per_group=1)
    zone = "Europe/Berlin"
    for ansi in ("true",) if name == "local" else ("true", "false"):
        with conf(spark, {"spark.sql.session.timeZone": zone, "spark.sql.ansi.enabled": ansi}):
            answers = parquet(spark, path).selectExpr("i", *(f"{where} AS `{where}`" for where in wheres)).collect()
            for where in wheres:
                expected = {row["i"] for row in answers if row[where]}
                kept = {group.index for group in bp.plan(path, where, timezone=zone).kept_row_groups()}
                assert expected <= kept, (ansi, where)


@pytest.mark.parametrize(
    ("where", "most"),
    [
        ("id = 7999", 2),  # only in the last row group of the last file
        ("session IN ('c4ca4238a0b923820dcc509a6f75849b', 'nowhere')", 5),
        ("day = DATE'2026-01-02' AND id = 4001", 2),
        ("amount = 7919.00 AND maybe IS NOT NULL", 6),
        ("`a.b` = 5 OR extra.bucket = 96 AND id < 100", 16),
        ("maybe <=> NULL AND NOT (id > 10)", 16),
        ("at = TIMESTAMP'2026-01-01 00:00:05Z'", 16),
        ("session LIKE 'c4%849_' OR contains(session, 'c4ca') AND session NOT LIKE '%e%'", 16),
    ],
)
def test_rows_equal_sparks_and_few_row_groups_are_read(spark: SparkSession, events: str, where: str, most: int) -> None:
    expected = parquet(spark, events).where(where)
    frame = load(spark, events, where=where, **ONE_TASK_EACH)
    assert frame.schema == expected.schema
    actual, tasks = rows_and_tasks(frame)
    assert actual == rows(expected)
    assert tasks <= most


def test_where_may_use_columns_outside_the_schema(spark: SparkSession, events: str) -> None:
    assert rows(load(spark, events, "id BIGINT", where="session = 'c4ca4238a0b923820dcc509a6f75849b'")) == [
        "(1,)",
        "(4001,)",
    ]
    assert load(spark, events, "id BIGINT", where="day = DATE'2026-01-02'").count() == 4000
    assert rows(load(spark, events, "missing INT", where="id = 7")) == ["(None,)"]


def test_where_in_sql_options(spark: SparkSession, events: str) -> None:
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW picked USING bloomparquet"
        f" OPTIONS (path '{events}', where 'id IN (5, 7999)', pushFilters 'off')"
    )
    picked = spark.sql("SELECT id, CAST(day AS STRING) AS day FROM picked")
    assert rows(picked) == ["(5, '2026-01-01')", "(7999, '2026-01-02')"]
    assert spark.sql("SELECT count(*) AS n FROM picked p JOIN picked q ON p.id = q.id").first()["n"] == 2  # type: ignore[index]


def test_a_time_without_a_zone_needs_the_option_time_zone(spark: SparkSession, events: str) -> None:
    for where in (
        "at = TIMESTAMP'2026-01-01 00:00:05'",
        "id = 1 OR NOT at IN ('2026-01-01 00:00:05')",
        "at > DATE'2026-01-01'",
        "array_contains(times, TIMESTAMP'2026-01-01 00:00:05')",
        "NOT times[0] = TIMESTAMP'2026-01-01 00:00:05'",
    ):
        with pytest.raises(OptionError, match=r"column (at|times) with a time without a zone; set the option timeZone"):
            plan(events, where)
    plan(events, "array_contains(times, TIMESTAMP'2026-01-01 00:00:00Z') AND id < 9")
    plan(events, "session = '2026-01-01 00:00:05'")  # text
    zone = "America/New_York"
    with conf(spark, {"spark.sql.session.timeZone": zone}):
        where = "at = TIMESTAMP'2025-12-31 19:00:05'"
        frame = load(spark, events, where=where, timeZone=zone)
        assert len(rows(frame)) == 2
        assert rows(frame) == rows(parquet(spark, events).where(where))


def test_a_partition_time_needs_the_option_time_zone(spark: SparkSession, tmp_path: Path) -> None:
    path = files.hive(
        tmp_path / "t", {"p=2024-07-01 12%3A00%3A00": {"id": [1]}, "p=2024-01-01 00%3A00%3A00": {"id": [2]}}
    )
    with pytest.raises(OptionError, match="column p with a time without a zone"):
        plan(path, "p = TIMESTAMP'2024-07-01 12:00:00'")
    with conf(spark, {"spark.sql.session.timeZone": "America/New_York"}):
        zoned = "p = TIMESTAMP'2024-07-01 16:00:00Z'"
        assert rows(load(spark, path, "id BIGINT", where=zoned)) == ["(1,)"]
        assert rows(load(spark, path, "id BIGINT", where=zoned, timeZone="America/New_York")) == ["(1,)"]


def test_types_of_other_columns_may_differ_between_files(spark: SparkSession, tmp_path: Path) -> None:
    for i, other in enumerate(([1], ["text"], [{"x": 1}])):
        files.write(tmp_path / f"{i}.parquet", {"id": [i, 9], "other": other * 2})
    assert rows(load(spark, tmp_path, "id BIGINT", where="id IN (0, 2) AND other IS NOT NULL")) == ["(0,)", "(2,)"]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("idd = 1", "did you mean 'id'"),
        ("id = 'x'", "column 'id'"),
        ("id = ", "id = "),
        ("reverse(session) = 'X'", "REVERSE"),
        ("length(session) = 32", "LENGTH"),
        ("id = 1 OR id < amount", "id < amount"),
    ],
)
def test_a_predicate_that_does_not_fit_is_an_error(events: str, where: str, message: str) -> None:
    with pytest.raises(bp.PlanError, match=message):
        plan(events, where)


def test_errors_of_the_plan_are_those_of_the_query(spark: SparkSession, events: str) -> None:
    with pytest.raises(Exception, match=r"PlanError.*did you mean 'id'"):
        load(spark, events, where="idd = 1").collect()


def test_a_name_with_dots_is_one_column_in_all_files(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2], "a": [{"b": 7}, {"b": 8}]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"id": [3, 4], "a.b": [7, None]}), tmp_path / "2.parquet")
    assert sorted(row["id"] for row in load(spark, tmp_path, where="`a.b` = 7").collect()) == [3]
    where = "`a.b` IS NULL AND a IS NOT NULL"
    assert sorted(row["id"] for row in load(spark, tmp_path, where=where).collect()) == [1, 2]


@pytest.mark.slow
def test_days_of_the_julian_calendar_lose_no_row(spark: SparkSession, tmp_path: Path) -> None:
    """Arrow reads them as other days than Spark, at any depth."""
    frame = spark.sql("SELECT id, d, struct(d) AS s FROM VALUES (1, DATE '1500-01-01'), (2, NULL) AS t(id, d)")
    with conf(spark, {"spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY"}):
        frame.coalesce(1).write.parquet(str(tmp_path / "t"))
    for where in ("s.d = DATE '1500-01-01'", "id = 1 AND d < DATE '1600-01-01'"):
        assert parquet(spark, tmp_path / "t").where(where).count() == 1
        with pytest.raises(PythonException, match=r"column .* calendar of Spark 2"):
            load(spark, tmp_path / "t", "id INT", where=where).collect()
    assert load(spark, tmp_path / "t", "id INT", where="s.d IS NULL AND id = 2").count() == 1
    with pytest.raises(PythonException, match=r"column s .* calendar of Spark 2"):
        load(spark, tmp_path / "t", "id INT, s STRUCT<d: DATE>").collect()


def test_a_type_narrower_than_its_values_loses_no_row(spark: SparkSession, tmp_path: Path) -> None:
    converted_type, stored, shown = narrow.CASES[0]
    path = narrow.write(tmp_path / "x.parquet", converted_type, [1, stored, None, 5])
    with conf(spark, {"spark.sql.parquet.filterPushdown": "false"}):  # with it, Spark loses the row
        for where in (f"x = {shown}", "x <> 1"):
            assert rows(load(spark, path, where=where)) == rows(parquet(spark, path).where(where)) != [], where


def test_a_load_refuses_conditions_on_a_collation(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    frame = spark.sql("SELECT CAST('a' AS STRING COLLATE UTF8_LCASE) AS c, 'A' AS d, 1 AS i")
    frame.write.parquet(path)
    assert parquet(spark, path).where("c = 'A' COLLATE UTF8_LCASE").count() == 1  # which comparing bytes does not find
    for where in ("c LIKE 'a%'", "c = 'A'"):
        with pytest.raises(bp.UnsupportedError, match="collation"):
            bp.read_table(path, where)
    assert load(spark, path, "i INT", where="c IS NOT NULL AND d = 'A'").count() == 1
