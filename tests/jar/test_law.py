"""A row group that holds a matching row is never skipped, whatever schema and settings the files are read with.

For each predicate the rows equal those of ``spark.read.parquet``.
"""

from __future__ import annotations

import datetime as dt
from contextlib import suppress
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark users give it

from pyspark_bloomparquet import last_plan
from tests.support import files
from tests.support.scenarios import Readers, run, texts
from tests.support.spark import conf, write

pytestmark = pytest.mark.slow

REFUSALS = (PySparkException, Py4JJavaError)
Julian = tuple[str, list[str]]


def same(readers: Readers, path: Any, wheres: list[str], schema: Any = None, **options: Any) -> int:
    """Assert that the jar returns, for each of `wheres`, the rows for which Spark computes TRUE.

    The oracle computes them as columns, so that it cannot skip anything, and the jar answers all in one query, each by
    a scan of its own. Spark's own scans, pruned, must return these rows too. Gives how many row groups were skipped.
    """
    interpreted = {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }  # starts faster
    with conf(readers.spark, {"spark.sql.parquet.filterPushdown": "false", **interpreted}):
        oracle = readers.oracle(path, schema, **options)
        scans = [
            readers.jar(path, schema, **options).where(where).select(F.lit(i), F.struct("*"))
            for i, where in enumerate(wheres)
        ]
        ours = reduce(DataFrame.unionAll, scans)
        filtered = [oracle.where(where).select(F.lit(i), F.struct("*")) for i, where in enumerate(wheres)]
        try:
            rows = oracle.select(F.struct("*"), *map(F.expr, wheres)).collect()
        except REFUSALS:
            # A query that skips all rows does not fail; any other must fail too.
            with pytest.raises(REFUSALS):
                readers.jar(path, schema, **options).collect()
            for scan in (*scans, *filtered):
                with suppress(*REFUSALS):
                    assert scan.collect() == []
            return 0
        expected = [(i, row[0]) for row in rows for i in range(len(wheres)) if row[i + 1]]
        returned = [tuple(row) for row in ours.collect()]
        plain = reduce(DataFrame.unionAll, filtered)
        assert texts(plain.collect()) == texts(expected)
    lost = [(wheres[i], row) for i, row in expected if repr((i, row)) not in set(map(repr, returned))]
    assert lost == []
    assert texts(returned) == texts(expected)
    return sum(plan.skipped.total() for plan in last_plan(ours))


def groups(path: Path, name: str, values: list[Any], kind: pa.DataType, **options: Any) -> str:
    """A file with one row group for each value, with a filter."""
    table = pa.table({name: pa.array([value for value in values for _ in range(2)], kind)})
    return files.write(path / "t.parquet", table, [name], rows_per_group=2, **options)


def test_columns_matched_by_field_id(readers: Readers, tmp_path: Path) -> None:
    """The names `a` and `b` were swapped after the file was written."""
    fields = [
        pa.field("a", pa.int64(), metadata={"PARQUET:field_id": "1"}),
        pa.field("b", pa.int64(), metadata={"PARQUET:field_id": "2"}),
    ]
    table = pa.table([pa.array([1, 2, 3, 4]), pa.array([10, 20, 30, 40])], schema=pa.schema(fields))
    path = files.write(tmp_path / "t.parquet", table, ["a", "b"], rows_per_group=1)
    from pyspark.sql.types import LongType, StructField, StructType

    by_id = StructType(
        [
            StructField("b", LongType(), metadata={"parquet.field.id": 1}),
            StructField("renamed", LongType(), metadata={"parquet.field.id": 2}),
        ]
    )
    with conf(readers.spark, {"spark.sql.parquet.fieldId.read.enabled": "true"}):
        same(readers, path, ["b = 2", "renamed = 20", "b IS NULL", "renamed > 30 AND b < 9"], by_id)
        with conf(readers.spark, {"spark.sql.parquet.filterPushdown": "false"}):  # Spark pushes by name, and loses rows
            assert texts(readers.jar(path, by_id).where("b = 2").collect()) == ["(2, 20)"]
    assert same(readers, path, ["a = 2", "b = 20"]) == 6


def test_a_column_added_with_a_default(readers: Readers, tmp_path: Path) -> None:
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    path = files.write(tmp_path / "t.parquet", {"id": [1, 2, 3, 4]}, ["id"], rows_per_group=1)
    defaults = {"CURRENT_DEFAULT": "'x'", "EXISTS_DEFAULT": "'x'"}
    schema = StructType([StructField("id", LongType()), StructField("s", StringType(), metadata=defaults)])
    same(
        readers,
        path,
        ["s = 'x'", "s IS NULL", "s IS NOT NULL AND id = 2", "s = 'y'", "s <> 'y'", "NOT s <=> 'x'"],
        schema,
    )
    assert len(readers.jar(path, schema).where("s = 'x'").collect()) == 4


TIMESTAMPS = [
    dt.datetime(1, 1, 4, 12),  # an earlier time would leave Python's range in some zones
    dt.datetime(1500, 1, 1),
    dt.datetime(1582, 10, 10),
    dt.datetime(1899, 12, 31, 23),
    dt.datetime(1970, 1, 1),
    dt.datetime(2026, 3, 29, 2, 30),
    dt.datetime(2026, 7, 1, 22, 30, 0, 1),
    dt.datetime(9999, 12, 31),
]


STORED = ("ntz", "utc", "int96")
READ_AS = ("inferred", "ltz inferred", "TIMESTAMP", "TIMESTAMP_NTZ")
ZONES = ("America/Los_Angeles", "Asia/Kathmandu")
"""Each pair of types in one of these, each type in both. In UTC all offsets are 0: an error there is one here, too."""
TIMESTAMP_CASES = [
    *((ZONES[(i + j) % 2], each, read_as) for i, each in enumerate(STORED) for j, read_as in enumerate(READ_AS)),
    *(("UTC", each, READ_AS[i]) for i, each in enumerate(STORED)),
]


@pytest.mark.parametrize(("zone", "stored", "read_as"), TIMESTAMP_CASES)
def test_every_timestamp_type_read_as_every_other(
    readers: Readers, tmp_path: Path, zone: str, stored: str, read_as: str
) -> None:
    values = TIMESTAMPS[3:7] if stored == "int96" else TIMESTAMPS
    options = {"use_deprecated_int96_timestamps": True} if stored == "int96" else {}
    path = groups(tmp_path, "t", values, pa.timestamp("us", "UTC" if stored == "utc" else None), **options)
    schema = f"t {read_as}" if read_as.startswith("TIMESTAMP") else None
    inferred = "false" if read_as == "ltz inferred" else "true"
    texts_of = [str(value) for value in values]
    wheres = [f"t {op} '{text}'" for text in texts_of[1:-1:2] for op in ("=", ">=", "<")]
    wheres += [f"t = TIMESTAMP_NTZ'{texts_of[-1]}'", f"t = TIMESTAMP_LTZ'{texts_of[0]}'", "t > '2026-01-01'"]
    wheres += ["CAST(t AS DATE) = DATE'2026-03-29'", f"t IN ('{texts_of[0]}', '{texts_of[-2]}')"]
    with conf(
        readers.spark,
        {"spark.sql.session.timeZone": zone, "spark.sql.parquet.inferTimestampNTZ.enabled": inferred},
    ):
        same(readers, path, wheres, schema)


JULIAN = ["0001-01-03", "1500-02-28", "1582-10-04", "1582-10-15", "1899-12-30", "2026-01-01"]


@pytest.fixture(scope="module", params=["date", "timestamp", "int96"])
def julian(request: pytest.FixtureRequest, readers: Readers, tmp_path_factory: pytest.TempPathFactory) -> Julian:
    """The SQL type, and a file of either calendar, in which each date has its own row group."""
    root, sql_type = tmp_path_factory.mktemp("julian"), "DATE" if request.param == "date" else "TIMESTAMP"
    stored = "INT96" if request.param == "int96" else "TIMESTAMP_MICROS"
    values = ", ".join(f"(CAST('{date}' AS {sql_type}))" for date in JULIAN)
    paths = []
    for calendar in ("LEGACY", "CORRECTED"):
        settings = {
            "spark.sql.parquet.datetimeRebaseModeInWrite": calendar,
            "spark.sql.parquet.int96RebaseModeInWrite": calendar,
            "spark.sql.parquet.outputTimestampType": stored,
        }
        with conf(readers.spark, settings):
            frame = readers.spark.sql(f"SELECT * FROM VALUES {values} AS t(d)").coalesce(1)
            paths.append(write(frame, root / calendar, {"d": 10}, rows_per_group=1))
        (file,) = (root / calendar).glob("*.parquet")
        assert pq.read_metadata(file).num_row_groups == len(JULIAN)
    return sql_type, paths


@pytest.mark.parametrize("mode", ["LEGACY", "CORRECTED", "EXCEPTION"])
def test_dates_of_the_julian_calendar(readers: Readers, julian: Julian, mode: str) -> None:
    sql_type, paths = julian
    wheres = [f"d {op} CAST('{date}' AS {sql_type})" for date in JULIAN for op in ("=", "<=")]
    same(readers, paths, wheres[:6] + wheres[-2:], datetimeRebaseMode=mode, int96RebaseMode=mode)


@pytest.mark.parametrize(
    ("kind", "values", "schema", "literals"),
    [
        (
            pa.int32(),
            [1, 2, 300, -1, 2**31 - 1],
            "c BIGINT",
            ["1", "2147483647", "2147483648", "-1", "9223372036854775807"],
        ),
        (pa.int32(), [1, 2, 300, -1], "c DOUBLE", ["1", "1.5D", "-1", "300", "0.99999999999999999"]),
        (pa.int32(), [1, 2, 300, -1], "c DECIMAL(12,2)", ["1", "1.00", "1.001", "300"]),
        (pa.int32(), [1, 2, 257, -255], "c TINYINT", ["300", "2"]),
        (pa.int32(), [1, 2, 300], "c STRING", ["'1'"]),
        (pa.int64(), [1, 2**53 + 1, 2**53], "c DOUBLE", ["1", "9007199254740992D"]),
        (pa.int64(), [1, 2**40], "c INT", ["1"]),
        (
            pa.float32(),
            [0.1, 0.5, -0.0, float("nan")],
            "c DOUBLE",
            ["0.1D", "0.5D", "0.0D", "double('NaN')", "float('0.1')"],
        ),
        (pa.float32(), [0.1, 0.5, -0.0, float("nan"), 0.0], None, ["0.1", "0.1D", "0.5", "0", "float('NaN')", "'0.1'"]),
        (pa.float64(), [0.1, -0.0, 0.0, float("nan"), float("inf")], None, ["0.1", "0", "-0.0D", "double('NaN')"]),
        (
            pa.decimal128(5, 2),
            [Decimal("1.10"), Decimal("-9.99")],
            "c DECIMAL(10,3)",
            ["1.1", "1.100", "1.101", "-9.99"],
        ),
        (
            pa.decimal128(20, 2),
            [Decimal("1.10"), Decimal("123456789012345678.25")],
            None,
            ["1.1", "123456789012345678.25", "1e30"],
        ),
        (pa.uint8(), [1, 255], None, ["255", "-1", "256"]),
        (pa.uint32(), [1, 2**32 - 1, 2**31], None, ["4294967295", "-1", "2147483648", "99999999999"]),
        (pa.uint64(), [1, 2**64 - 1, 2**63], None, ["18446744073709551615", "-1", "9223372036854775808"]),
        (
            pa.date32(),
            [dt.date(2026, 1, 1), dt.date(1, 1, 1)],
            "c TIMESTAMP_NTZ",
            ["TIMESTAMP_NTZ'2026-01-01 00:00:00'"],
        ),
        (
            pa.date32(),
            [dt.date(2026, 1, 1), dt.date(1, 1, 1)],
            None,
            ["'2026-01-01'", "DATE'+10000-01-01'", "DATE'0001-01-01'"],
        ),
        (
            pa.binary(),
            [b"abc", b"\xff\xfe", b"\xef\xbf\xbd", b""],
            "c STRING",
            ["'abc'", "CAST(X'fffe' AS STRING)", "'\ufffd'", "''"],
        ),
        (pa.binary(), [b"abc", b"\xff\xfe", b""], None, ["X'fffe'", "X''", "'abc'"]),
        (pa.string(), ["a", "A", "a ", "é", "e\u0301"], None, ["'a'", "'a '", "'é'", "'e\u0301'"]),
        (pa.string(), ["a", "A", "b"], "c STRING COLLATE UTF8_LCASE", ["'a'", "'A'", "'B'"]),
        (pa.string(), ["a", "a ", "b"], "c STRING COLLATE UTF8_BINARY_RTRIM", ["'a'", "'a '", "'b'"]),
        (pa.string(), ["é", "e\u0301", "E"], "c STRING COLLATE UNICODE_CI", ["'é'", "'e'", "'E'"]),
    ],
    ids=str,
)
def test_values_read_as_another_type(
    readers: Readers, tmp_path: Path, kind: pa.DataType, values: list[Any], schema: str | None, literals: list[str]
) -> None:
    path = groups(tmp_path, "c", values, kind)
    wheres = [f"c {op} {literal}" for literal in literals for op in ("=", "<", "<>")]
    wheres += [f"c IN ({', '.join(literals)})", f"NOT (c IN ({', '.join(literals)}) AND c IS NOT NULL)"]
    skipped = same(readers, path, wheres, schema)
    assert skipped > 0 or schema is not None


@pytest.mark.parametrize("kind", ["CHAR(3)", "VARCHAR(3)"])
def test_char_columns_that_spark_pads(readers: Readers, tmp_path: Path, kind: str) -> None:
    path = groups(tmp_path, "c", ["a", "a  ", "b", "b "], pa.string())
    for name in ("parquet", "bloomparquet"):
        readers.spark.sql(f"DROP TABLE IF EXISTS padded_{name}")
        readers.spark.sql(f"CREATE TABLE padded_{name} (c {kind}) USING {name} LOCATION '{Path(path).parent}'")
    for literal in ("'a'", "'a  '", "'b'", "'b  '", "'c'"):
        for condition in (f"c = {literal}", f"c IN ({literal}, 'x')", f"c < {literal}", f"c <> {literal}"):
            theirs, ours = (
                texts(readers.spark.sql(f"SELECT * FROM padded_{name} WHERE {condition}").collect())
                for name in ("parquet", "bloomparquet")
            )
            assert ours == theirs, condition
    for name in ("parquet", "bloomparquet"):
        readers.spark.sql(f"DROP TABLE padded_{name}")


def test_binary_as_string(readers: Readers, tmp_path: Path) -> None:
    path = groups(tmp_path, "c", [b"abc", b"\xff", b"b"], pa.binary())
    with conf(readers.spark, {"spark.sql.parquet.binaryAsString": "true"}):
        assert same(readers, path, ["c = 'abc'", "c = 'b'", "c LIKE 'ab%'", "c > 'b'"]) > 0


def test_names_that_differ_by_case(readers: Readers, tmp_path: Path) -> None:
    path = files.write(tmp_path / "t.parquet", {"id": [1, 2, 3], "ID": [30, 20, 10]}, ["id", "ID"], rows_per_group=1)
    wheres = ["id = 1", "ID = 30", "Id = 1", "id = 30"]
    with conf(readers.spark, {"spark.sql.caseSensitive": "true"}):
        assert same(readers, path, ["id = 1", "ID = 30", "id = 30", "ID = 10 AND id = 3"]) > 0
        same(readers, path, ["Id = 1", "Id IS NULL"], "Id BIGINT")
        same(readers, path, ["ID = 10"], "ID BIGINT")
    same(readers, path, wheres, "id BIGINT")
    one = files.write(tmp_path / "one.parquet", {"Key": [1, 2, 3]}, ["Key"], rows_per_group=1)
    assert same(readers, one, ["key = 1", "KEY = 2"], "kEY BIGINT") == 4


def test_a_dot_in_a_name_is_no_field(readers: Readers, tmp_path: Path) -> None:
    table = pa.table({"a.b": [1, 2, 3], "a": [{"b": 10, "c.d": 5}, {"b": 20, "c.d": 6}, None]})
    path = files.write(tmp_path / "t.parquet", table, ["a.b"], rows_per_group=1)
    wheres = [
        "`a.b` = 1",
        "a.b = 10",
        "a.`c.d` = 6",
        "a.b IS NULL",
        "a IS NULL",
        "a IS NOT NULL",
        "a.b = 1",
        "`a.b` = 10",
    ]
    assert same(readers, path, wheres) > 0


def test_nulls_within_nulls(readers: Readers, tmp_path: Path) -> None:
    inner = pa.struct([("y", pa.int64())])
    rows = [None, {"x": None, "in": None}, {"x": 1, "in": {"y": None}}, {"x": 2, "in": {"y": 3}}]
    table = pa.table({"st": pa.array(rows, pa.struct([("x", pa.int64()), ("in", inner)])), "k": [0, 1, 2, 3]})
    path = files.write(tmp_path / "t.parquet", table, ["st.x", "st.in.y"], rows_per_group=1)
    wheres = [f"{column} IS {word}NULL" for column in ("st", "st.x", "st.in", "st.in.y") for word in ("", "NOT ")]
    wheres += ["st.x <=> NULL", "st.in.y <=> 3", "NOT st.x <=> 1", "st.x = 1 OR st IS NULL", "st.x IN (1, NULL)"]
    wheres += ["NOT (st.x IS NULL AND st.in IS NOT NULL)", "st.x NOT IN (1)", "st.x <> 1", "isnull(st.in.y) AND k > 0"]
    assert same(readers, path, wheres) > 0


def test_unknown_functions_inside_known_predicates(readers: Readers, tmp_path: Path) -> None:
    ids = list(range(12))
    path = files.write(
        tmp_path / "t.parquet", {"id": ids, "s": [f"s{i % 5}" for i in ids]}, ["id", "s"], rows_per_group=2
    )
    wheres = [
        "NOT (id = 1 AND trim(s) = 'X')",
        "NOT (id = 1 OR trim(s) = 's2')",
        "NOT (id <> 1 OR trim(s) = 'X')",
        "NOT (NOT (id = 1 AND trim(s) = 's1'))",
        "id = 1 OR trim(s) = 's3'",
        "id = 1 AND (trim(s) = 's1' OR s = 's4')",
        "NOT (NOT (id = 1 OR trim(s) = 's3') AND s <> 's2')",
        "(id = 1) = (s = 's1')",
        "(id = 1) <=> NULL",
        "NOT (id IN (1, 2, NULL))",
        "id NOT IN (0, 1, 2) AND NOT (s LIKE '%3' OR id = 5)",
        "if(id = 3, s = 's3', id = 4)",
        "(id = 3) != (s = 's3')",
        "id % 5 = 2 OR id = 11",
        "id BETWEEN 3 AND 4 OR length(s) = 7",
        "NOT (id BETWEEN 1 AND 10 AND length(s) = 2)",
    ]
    assert same(readers, path, wheres) > 0


def test_a_very_long_in_list(readers: Readers, tmp_path: Path) -> None:
    path = files.write(tmp_path / "t.parquet", {"id": [i * 1000 for i in range(40)]}, ["id"], rows_per_group=4)
    among = [*range(1, 100_001, 2), 12_000, None, *range(-50_000, 0)]
    frame = readers.jar(path).where(F.col("id").isin(among[:1000]) | (F.col("id") == 5))
    assert run(frame).rows == []
    listed = ", ".join("NULL" if each is None else str(each) for each in among)
    ran = run(readers.jar(path).where(f"id IN ({listed})"))
    assert ran.rows == ["(12000,)"]
    assert ran.plan.planned


def test_dates_outside_of_pythons_range(readers: Readers, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    sql = "SELECT * FROM VALUES (1, DATE'-0044-03-15'), (2, DATE'+12026-01-01'), (3, DATE'2026-01-01') AS t(id, d)"
    written = {"spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED"}
    with conf(readers.spark, written):
        readers.spark.sql(sql).selectExpr("*", "CAST(d AS TIMESTAMP) t").repartition(3).write.parquet(path)
    days = ["DATE'-0044-03-15'", "DATE'+12026-01-01'", "DATE'2026-01-01'"]
    wheres = [f"{column} {op} {day}" for day in days for column in "dt" for op in ("=", "<", ">")]
    wheres += [f"d IN ({', '.join(days)})", f"NOT d IN ({', '.join(days[:2])})"]
    for where in wheres:
        ours, theirs = (
            [row[0] for row in read(path).where(where).select("id").orderBy("id").collect()]
            for read in (readers.jar, readers.oracle)
        )
        assert ours == theirs, where


def test_a_replaced_file_is_planned_again(readers: Readers, tmp_path: Path) -> None:
    spark = readers.spark
    path = tmp_path / "t" / "a.parquet"
    files.write(path, {"id": [1, 2]}, ["id"], rows_per_group=1)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW replaced USING bloomparquet OPTIONS (path '{path.parent}')")
    assert texts(spark.sql("SELECT * FROM replaced WHERE id = 1").collect()) == ["(1,)"]
    for value in (2, 3, 4):
        files.write(path, {"id": [value + 10] * value + [value]}, ["id"], rows_per_group=1)
        assert texts(readers.jar(path.parent).where(f"id = {value}").collect()) == [f"({value},)"]
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW replaced USING bloomparquet OPTIONS (path '{path.parent}')")
        assert texts(spark.sql(f"SELECT * FROM replaced WHERE id = {value}").collect()) == [f"({value},)"]
        assert texts(readers.jar(path.parent).where("id = 1").collect()) == []


@pytest.mark.parametrize(
    "settings_of_spark",
    [
        {"spark.sql.parquet.aggregatePushdown": "true"},
        {"spark.sql.parquet.filterPushdown": "false"},
        {"spark.sql.parquet.enableVectorizedReader": "false"},
        {"spark.sql.optimizer.nestedSchemaPruning.enabled": "false"},
        {"spark.sql.ansi.enabled": "false"},
        {"spark.sql.codegen.wholeStage": "false"},
    ],
    ids=lambda given: next(iter(given)).removeprefix("spark.sql."),
)
def test_spark_settings_change_no_row(readers: Readers, tmp_path: Path, settings_of_spark: dict[str, str]) -> None:
    table = pa.table({"id": [*range(10)] * 2, "st": [{"x": i, "y": "a"} for i in range(20)]})
    files.write(tmp_path / "t" / "p=1" / "a.parquet", table, ["id", "st.x"], rows_per_group=5)
    files.write(tmp_path / "t" / "p=2" / "b.parquet", table.slice(0, 7), ["id", "st.x"], rows_per_group=5)
    with conf(readers.spark, settings_of_spark):
        for where in ("id = '3'", "p = 2 AND id = 6", "st.x = 17", "p = 1"):
            for select in (["count(*)", "min(id)", "max(id)", "count(id)"], ["p", "st.y"]):
                ours, theirs = (
                    texts(read(tmp_path / "t").where(where).selectExpr(*select).collect())
                    for read in (readers.jar, readers.oracle)
                )
                assert ours == theirs, f"{select} where {where}"


NUMBERS = [None, -1, 0, 1, 2, 5, 100]
TEXTS = [None, "", "a", "b", "ab", "é"]
DOUBLES = [None, -0.0, 0.0, 1.5, float("nan"), 1e300]

_leaf = (
    st.builds(
        lambda name, op, value: op(F.col(name), F.lit(value)),
        st.sampled_from(["i", "st.x"]),
        st.sampled_from(
            [Column.__eq__, Column.__ne__, Column.__lt__, Column.__ge__, Column.eqNullSafe, lambda c, v: c % 3 == v]
        ),
        st.sampled_from(NUMBERS[1:]),
    )
    | st.builds(lambda values: F.col("i").isin(values), st.lists(st.sampled_from(NUMBERS), min_size=1, max_size=4))
    | st.builds(lambda value: F.col("s") == value, st.sampled_from(TEXTS[1:]))
    | st.builds(lambda value: F.col("s").startswith(value), st.sampled_from(TEXTS[1:]))
    | st.builds(
        lambda case, value: case("s") == value,
        st.sampled_from([F.upper, F.lower, F.trim]),
        st.sampled_from(["A", "AB", "a"]),
    )
    | st.builds(
        lambda value, op: op(F.col("d"), value),
        st.sampled_from(DOUBLES[1:]),
        st.sampled_from([Column.__eq__, Column.__gt__]),
    )
    | st.sampled_from(["i", "s", "d", "st", "st.x"]).map(lambda name: F.col(name).isNull())
    | st.sampled_from(["i", "s", "st.x"]).map(lambda name: F.col(name).isNotNull())
    | st.builds(lambda: F.col("i") == F.col("st.x"))
    | st.sampled_from([True, False]).map(F.lit)
)
_predicate = st.recursive(
    _leaf,
    lambda inner: (
        st.builds(Column.__and__, inner, inner) | st.builds(Column.__or__, inner, inner) | inner.map(Column.__invert__)
    ),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> str:
    """36 rows in row groups of two; equal values are adjacent."""
    root = tmp_path_factory.mktemp("mixture")
    rows = [(NUMBERS[i % 7], TEXTS[i // 2 % 6], DOUBLES[i // 3 % 6], NUMBERS[i // 5 % 7]) for i in range(36)]
    table = pa.table(
        {
            "k": range(36),
            "i": pa.array([row[0] for row in rows], pa.int64()),
            "s": pa.array([row[1] for row in rows]),
            "d": pa.array([row[2] for row in rows]),
            "st": pa.array([None if row[3] is None else {"x": row[3]} for row in rows], pa.struct([("x", pa.int64())])),
        }
    )
    return files.write(root / "t.parquet", table, ["i", "s", "d", "st.x"], rows_per_group=2)


def test_any_predicate_finds_what_spark_finds(readers: Readers, mixture: str) -> None:
    skipped = 0

    @settings(max_examples=50)
    @given(predicate=st.deferred(lambda: _predicate))
    def holds(predicate: Column) -> None:
        nonlocal skipped
        rows = (
            readers.oracle(mixture).select("k", predicate.alias("true")).collect()
        )  # computes the predicate as a column, so nothing is filtered
        expected = sorted(row["k"] for row in rows if row["true"])
        with conf(readers.spark, {"spark.sql.parquet.filterPushdown": "false"}):
            frame = readers.jar(mixture).where(predicate).select("k")
            assert sorted(row["k"] for row in frame.collect()) == expected
        skipped += sum(plan.skipped.total() for plan in last_plan(frame))

    holds()
    assert skipped > 100
