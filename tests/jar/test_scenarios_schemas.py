"""Schemas of users, of some files only, and of other writers: rows, types and errors are those of Spark."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from pyspark_bloomparquet import last_plan
from tests.spark.test_schema import ALL_SPARK_TYPES, arrow_table, as_numbers
from tests.support import files
from tests.support.files import EVEN, even
from tests.support.scenarios import Readers, texts
from tests.support.spark import conf, write

pytestmark = pytest.mark.slow


def column(path: Path, values: Any, kind: pa.DataType, **more: Any) -> str:
    return files.write(path, pa.table({"c": pa.array(values, kind), **more}), ["c"], rows_per_group=5, fpp=0.0001)


def dec(value: float) -> Decimal:
    return Decimal(str(value))


WIDER: dict[str, tuple[list[tuple[pa.DataType, list[Any]]], str, list[str]]] = {
    # the type in some files, the user's type, predicates
    "integers": (
        [(pa.int32(), EVEN), (pa.int64(), [2**40 + v for v in EVEN]), (pa.int16(), EVEN)],
        "BIGINT",
        ["c = 18", "c = 19", "c IN (18, 1099511627794)", f"c = {2**32 + 18}", "c > 1099511627776"],
    ),
    "floats": (
        [(pa.float32(), [v / 8 for v in EVEN] + [0.1]), (pa.float64(), [v / 8 for v in EVEN] + [0.1])],
        "DOUBLE",
        ["c = 0.25D", "c = 0.1D", "c = 0.375D", f"c = {0.10000000149011612!r}D"],
    ),
    "decimals": (
        [(pa.decimal128(9, 2), [dec(v) for v in EVEN]), (pa.decimal128(20, 2), [dec(v) for v in EVEN])],
        "DECIMAL(20, 2)",
        ["c = 18", "c = 19", "c = 18.00", "c = 18.001"],
    ),
    "scales": (
        [(pa.decimal128(9, 2), [dec(v) for v in EVEN]), (pa.decimal128(18, 4), [dec(v) for v in EVEN])],
        "DECIMAL(20, 6)",
        ["c = 18", "c = 19", "c = 18.000001"],
    ),
    "dates": (
        [(pa.date32(), [dt.date(2024, 1, 1) + dt.timedelta(v) for v in EVEN])],
        "TIMESTAMP_NTZ",
        ["c = TIMESTAMP_NTZ'2024-01-19 00:00:00'", "c = TIMESTAMP_NTZ'2024-01-20 00:00:00'"],
    ),
    "timestamps": (
        [
            (pa.timestamp("ms", "UTC"), [dt.datetime(2024, 1, 1 + v // 2) for v in EVEN]),
            (pa.timestamp("us", "UTC"), [dt.datetime(2024, 1, 1 + v // 2, 0, 0, 0, 1) for v in EVEN]),
        ],
        "TIMESTAMP",
        ["c = TIMESTAMP'2024-01-10 00:00:00'", "c = TIMESTAMP'2024-01-10 00:00:00.000001'"],
    ),
    "unsigned": (
        [(pa.uint8(), EVEN), (pa.uint32(), [2**31 + v for v in EVEN])],
        "BIGINT",
        ["c = 18", "c = 2147483666", "c = 19", "c = -2147483630"],
    ),
    "narrower": ([(pa.int64(), EVEN)], "INT", ["c = 18", "c = 19"]),
    "shorter": ([(pa.int32(), EVEN)], "SMALLINT", ["c = 18", "c = 19"]),
    "binary as text": ([(pa.binary(), [b"%02d" % v for v in EVEN])], "STRING", ["c = '18'", "c = '19'", "c LIKE '1%'"]),
    "text as binary": ([(pa.string(), [f"{v:02}" for v in EVEN])], "BINARY", ["c = X'3138'", "c = X'3139'"]),
    "integers as decimals": ([(pa.int32(), EVEN)], "DECIMAL(12, 2)", ["c = 18", "c = 19", "c = 18.5"]),
    "integers as floats": ([(pa.int32(), EVEN)], "DOUBLE", ["c = 18", "c = 19", "c = 18.5D"]),
}


@pytest.mark.parametrize("name", WIDER)
def test_a_users_schema_with_other_types(readers: Readers, tmp_path: Path, name: str) -> None:
    parts, kind, wheres = WIDER[name]
    for i, (arrow, values) in enumerate(parts):
        column(tmp_path / f"{i}.parquet", values, arrow)
    for where in wheres:
        expected = outcome(readers.oracle(tmp_path, f"c {kind}").where(where))
        for frame in (readers.jar(tmp_path, f"c {kind}").where(where), readers.jar(tmp_path, f"c {kind}", where=where)):
            if isinstance(expected, str) and last_plan(frame)[0].kept == 0:
                assert (where, outcome(frame)) == (where, [])  # everything is skipped, so nothing fails
            else:
                assert (where, outcome(frame)) == (where, expected)


def outcome(frame: DataFrame) -> list[str] | str:
    """The rows, or the condition of the error."""
    try:
        return texts(frame.collect())
    except Exception as error:  # noqa: BLE001 - what Spark refuses is for Spark to say
        return ", ".join(re.findall(r"\[([A-Z0-9_.]+)\]", str(error))[:1]) or str(error)


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        ("s STRING, id BIGINT", "id = 18"),
        ("id BIGINT", "id = 18"),
        ("ID BIGINT, S STRING", "ID = 18 AND s = 's18'"),
        ("id BIGINT, missing INT", "missing IS NULL AND id = 18"),
        ("id BIGINT, missing INT", "missing = 1"),
        ("id BIGINT, missing INT", "missing <=> NULL AND id IN (18, 20)"),
        ("id BIGINT, missing INT", "missing = 1 OR id = 18"),
        ("id BIGINT, other STRUCT<x: INT>", "other.x IS NULL AND id = 18"),
        ("st STRUCT<Y: STRING, gone: INT>, id BIGINT", "st.gone IS NULL AND st.Y = 'y18'"),
        ("st STRUCT<y: STRING>", "st.y = 'y18'"),
        ("st STRUCT<x: BIGINT>", "st.x = 18"),
        ("l ARRAY<STRUCT<q: BIGINT>>, id BIGINT", "id = 18"),
        ("id BIGINT, `a.b` BIGINT", "`a.b` IS NULL AND id = 18"),
        ("id BIGINT NOT NULL", "id = 18"),
    ],
)
def test_a_users_schema_selects_columns(readers: Readers, tmp_path: Path, schema: str, where: str) -> None:
    ids = [EVEN[i * 7 % 20] for i in range(20)]
    path = files.write(
        tmp_path / "t.parquet",
        {
            "id": ids,
            "s": [f"s{i}" for i in ids],
            "st": [{"x": i, "Y": f"y{i}"} for i in ids],
            "l": [[{"p": i, "q": i}] for i in ids],
            "a": [{"b": i} for i in ids],
        },
        ["id", "s", "st.x", "st.Y"],
        rows_per_group=5,
        fpp=0.0001,
    )
    # Spark makes all columns of files nullable, except for a Python source.
    by_python = "nothing" if "NOT NULL" in schema else "query"
    ran = readers.ask(path, where, schema=schema, rows_per_group=5, by_python=by_python)
    expected = {"missing = 1": 0, "missing <=> NULL AND id IN (18, 20)": 2}.get(where, 1)
    assert len(ran.rows) == expected
    if "missing = 1" not in where:  # a column that is in no file excludes nothing
        assert ran.plan.kept == expected


def test_columns_that_some_files_lack(readers: Readers, tmp_path: Path) -> None:
    even(tmp_path / "1.parquet")
    even(tmp_path / "2.parquet", 100, ("id", "more"), more=[f"m{i}" for i in range(20)])
    even(tmp_path / "3.parquet", 200, ("id", "st.x"), st=[{"x": i} for i in range(20)])
    schema = "id BIGINT, more STRING, st STRUCT<x: BIGINT>"
    for options in ({"schema": schema}, {"mergeSchema": "true"}, {"mergeSchema": "false"}):
        for where, rows, kept in (
            ("id = 218", 1, 1),
            ("more = 'm7'", 1, 1),
            ("more IS NULL AND id IN (18, 118, 218)", 2, 2),
            ("more <> 'm7'", 19, 4),
            ("st.x = 7", 1, 1),
            ("st.x IS NULL AND id = 118", 1, 1),
            ("more = 'm7' OR st.x = 7", 2, 2),
        ):
            if options.get("mergeSchema") == "false" and not where.startswith("id"):
                continue  # the columns of the first file only
            ran = readers.ask(tmp_path, where, by_python="nothing", rows_per_group=5, **options)
            assert (where, len(ran.rows), ran.plan.kept) == (where, rows, kept)
        readers.agree(tmp_path, **options)


def test_merged_schemas_are_pruned_by_every_column(readers: Readers, tmp_path: Path) -> None:
    files.write(tmp_path / "1.parquet", pa.table({"a": pa.array([1], pa.int32()), "s": [{"x": 1}]}), ["a"])
    files.write(tmp_path / "2.parquet", pa.table({"B": ["b"], "s": [{"y": 2}], "A": pa.array([2], pa.int32())}), ["A"])
    readers.agree(tmp_path, mergeSchema="true")
    for where in ("a = 2", "A = 1", "b = 'b'", "s.y = 2", "s.x IS NULL", "B IS NULL"):
        ran = readers.ask(tmp_path, where, mergeSchema="true")
        assert (where, len(ran.rows)) == (where, 1)
        assert ran.plan.kept == 1


@pytest.mark.parametrize("timestamps", ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"])
@pytest.mark.parametrize("legacy", ["false", "true"])
def test_every_type_written_by_spark(readers: Readers, tmp_path: Path, timestamps: str, legacy: str) -> None:
    settings = {
        "spark.sql.parquet.outputTimestampType": timestamps,
        "spark.sql.parquet.writeLegacyFormat": legacy,
    }
    with conf(readers.spark, settings):
        readers.spark.sql(ALL_SPARK_TYPES).coalesce(1).write.parquet(str(tmp_path / "t"))
    readers.agree(tmp_path / "t", by_python=False)  # tests of the Python data source do
    ran = readers.ask(tmp_path / "t", "i64 = 3 AND st.x = 3 AND `a.b` = 3 AND dec38 = 3", by_python="nothing")
    assert (len(ran.rows), ran.plan.kept) == (1, 1)


@pytest.mark.parametrize("store_schema", [True, False])
def test_every_type_written_by_pyarrow(readers: Readers, tmp_path: Path, store_schema: bool) -> None:
    files.write(tmp_path / "t.parquet", arrow_table(), rows_per_group=1, store_schema=store_schema)
    readers.agree(tmp_path, by_python=False)
    ran = readers.ask(tmp_path, "u64 = 18446744073709551615 AND view LIKE 'a longer%'", by_python="nothing")
    assert (len(ran.rows), ran.plan.kept) == (1, 1)


def test_nanoseconds_that_spark_reads_as_numbers_are_found(readers: Readers, tmp_path: Path) -> None:
    path = column(tmp_path / "t.parquet", [v * 1001 for v in EVEN], pa.timestamp("ns"), k=pa.array(range(20)))
    with conf(readers.spark, {"spark.sql.legacy.parquet.nanosAsLong": "true"}):
        for where, count in (("c = 18018", 1), ("c = 18", 0), ("c = 19019", 0), ("c IN (0, 38038)", 2)):
            ran = readers.ask(path, where, by_python="nothing", rows_per_group=5)
            assert (where, len(ran.rows)) == (where, count)


def test_a_uuid_as_binary(readers: Readers, tmp_path: Path) -> None:
    values = [bytes([v]) * 16 for v in EVEN]
    path = files.write(tmp_path / "t.parquet", pa.table({"u": pa.array(values, pa.uuid())}), ["u"], rows_per_group=5)
    ran = readers.ask(path, f"u = X'{'12' * 16}'", schema="u BINARY", rows_per_group=5)
    assert (len(ran.rows), ran.plan.kept) == (1, 1)


def test_intervals_and_times_lose_no_row(readers: Readers, tmp_path: Path) -> None:
    frame = readers.spark.sql(
        "SELECT id, make_dt_interval(0, 0, 0, id) AS dt, make_ym_interval(0, CAST(id AS INT)) AS ym,"
        " id % 2 = 0 AS even, CAST(id AS STRING) COLLATE UTF8_LCASE AS lower FROM range(20)"
    )
    bloom = {f"parquet.bloom.filter.enabled#{name}": "true" for name in ("dt", "ym", "even", "lower")}
    frame.coalesce(1).write.options(**bloom).parquet(str(tmp_path / "t"))
    for where in ("dt = INTERVAL '7' SECOND", "ym = INTERVAL '7' MONTH", "even AND id = 8", "lower = '7'"):
        # Python has no interval of months
        assert readers.ask(tmp_path / "t", where, select=("id",), by_python="nothing").rows in (["(7,)"], ["(8,)"])


def test_collations_match_equal_strings(readers: Readers, tmp_path: Path) -> None:
    path = files.write(tmp_path / "t.parquet", {"s": ["a", "B", "c"], "id": [1, 2, 3]}, ["s", "id"])
    schema = "s STRING COLLATE UTF8_LCASE, id BIGINT"
    assert len(readers.ask(path, "s = 'A'", schema=schema, by_python="nothing").rows) == 1
    assert len(readers.ask(path, "s IN ('b', 'C') AND id > 0", schema=schema, by_python="nothing").rows) == 2
    assert readers.ask(path, "s = 'A' AND id = 9", schema=schema, by_python="nothing").plan.kept == 0


def test_files_of_other_writers(readers: Readers, parquet_testing_dir: Path) -> None:
    """The jar reads the same of the format's test files as Spark."""
    compared = 0
    for path in sorted(parquet_testing_dir.rglob("*.parquet")):
        try:
            expected = readers.oracle(path)
            rows = texts(as_numbers(expected).collect())
        except Exception:  # noqa: BLE001 - a type, or data, that Spark cannot read
            continue
        frame = readers.jar(path)
        assert (path.name, frame.schema) == (path.name, expected.schema)
        assert (path.name, texts(as_numbers(frame).collect())) == (path.name, rows)
        compared += 1
    assert compared >= 4


def test_pyarrows_int96_is_never_pruned(readers: Readers, tmp_path: Path) -> None:
    timestamps = pa.array([dt.datetime(2024, 1, 1, 0, 0, v) for v in EVEN], pa.timestamp("us"))
    path = files.write(
        tmp_path / "t.parquet", pa.table({"c": timestamps}), rows_per_group=5, use_deprecated_int96_timestamps=True
    )
    for second, count in ((18, 1), (19, 0)):
        ran = readers.ask(path, f"c = TIMESTAMP'2024-01-01 00:00:{second}'", rows_per_group=5)
        assert (len(ran.rows), ran.plan.kept) == (count, 4)


@pytest.mark.parametrize("mode", ["LEGACY", "CORRECTED"])
def test_dates_and_timestamps_of_the_julian_calendar(readers: Readers, tmp_path: Path, mode: str) -> None:
    settings = {
        "spark.sql.parquet.datetimeRebaseModeInWrite": mode,
        "spark.sql.parquet.int96RebaseModeInWrite": mode,
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    }
    sql = "DATE'1500-02-20' + CAST(id AS INT) AS d, TIMESTAMP'1500-02-20 00:00:00' + make_interval(0, 0, 0, id) AS t"
    with conf(readers.spark, settings):
        frame = readers.spark.range(20).selectExpr("id", *sql.split(", ", 1))
        write(frame.coalesce(1), tmp_path / "t", {"d": 5, "t": 5}, rows_per_group=5)
    for where in ("d = DATE'1500-02-28'", "t = TIMESTAMP'1500-02-28 00:00:00'", "d < DATE'1500-02-21'", "d IN (NULL)"):
        ran = readers.ask(tmp_path / "t", where, by_python="nothing")
        assert (where, len(ran.rows)) == (where, int("NULL" not in where))
