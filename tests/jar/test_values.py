"""Values of every type, read as their own or as another type: a row group that holds a matching row is never skipped.

For each predicate the rows equal those of ``spark.read.parquet``.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

import bloomparquet as bp
from tests.support import files
from tests.support.core import Field, edit_footer
from tests.support.scenarios import Readers
from tests.support.spark import conf, write
from tests.support.spark_rows import assert_same_rows, one_value_per_group

pytestmark = pytest.mark.slow

Julian = tuple[str, list[str]]


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


CONVERTED: dict[str, tuple[pa.DataType, list[Any]]] = {
    "decimal(9, 2)": (pa.decimal128(9, 2), [Decimal("1.50"), Decimal("9999999.99"), Decimal("0.01"), Decimal("-1.25")]),
    "decimal(18, 6)": (pa.decimal128(18, 6), [Decimal("1.5"), Decimal("999999999999.999999"), Decimal("0.000001")]),
    "int": (pa.int32(), [1, -(2**31), 150]),
    "unsigned": (pa.uint32(), [1, 2**32 - 1, 150]),
    "unsigned long": (pa.uint64(), [1, 2**63, 150]),
}
NUMBERS = ("DECIMAL(5,2)", "DECIMAL(20,0)", "DOUBLE")


def assert_reads_lose_no_row(readers: Readers, path: str, types: Sequence[str], vectorized: str) -> int:
    """Read the column `c` as each of `types`, and ask for what Spark shows then. Gives how many types it can read."""
    read = 0
    with conf(readers.spark, {"spark.sql.parquet.enableVectorizedReader": vectorized}):
        for read_as in types:
            try:
                rows = readers.oracle(path, f"c {read_as}").selectExpr("CAST(c AS STRING)").collect()
            except (Py4JJavaError, PySparkException):  # Spark refuses the conversion, or one of the values
                continue
            read += 1
            wheres = ["c IS NULL", "c <=> NULL"]
            for text in {row[0] for row in rows if row[0] is not None} | {"0"}:
                value = f"try_cast('{text}' AS {read_as})"
                wheres += [f"c {operator} {value}" for operator in ("=", ">=")]
            assert_same_rows(readers, path, wheres, f"c {read_as}")
    return read


@pytest.mark.parametrize(("stored", "vectorized"), [*((stored, "false") for stored in CONVERTED), ("unsigned", "true")])
def test_numbers_that_the_reader_converts_lose_no_row(
    readers: Readers, tmp_path: Path, stored: str, vectorized: str
) -> None:
    """Spark's row reader makes NULL of a number with too many digits, and cuts digits after the point."""
    kind, values = CONVERTED[stored]
    path = one_value_per_group(tmp_path, "c", [*values, None], kind)
    assert assert_reads_lose_no_row(readers, path, NUMBERS, vectorized)


def test_decimals_read_without_their_point_lose_no_row(readers: Readers, tmp_path: Path) -> None:
    """Spark's vectorized reader shows 1.50, stored as the integer 150, as the BIGINT 150."""
    kind, values = CONVERTED["decimal(9, 2)"]
    path = one_value_per_group(tmp_path, "c", [*values, None], kind, store_decimal_as_integer=True)
    assert assert_reads_lose_no_row(readers, path, ("INT", "BIGINT", "DOUBLE"), "true") > 0


def test_decimals_beyond_their_digits_lose_no_row(readers: Readers, tmp_path: Path) -> None:
    """Spark keeps a DECIMAL of 9 digits in 32 bits: it shows 2^40, stored in 64 bits, as 0."""
    path = one_value_per_group(tmp_path, "c", [1, 2**40, 70_000, -(2**63), None], pa.int64())
    numbers = [Field(5, 2), Field(5, 9)]  # scale and precision

    def annotate(tree: dict[int, Field]) -> None:
        element = tree[2].value.values[1]
        element.update({6: Field(5, 5), 7: numbers[0], 8: numbers[1]})
        element[10] = Field(12, {5: Field(12, dict(enumerate(numbers, 1)))})
        tree[2].value.values[1] = dict(sorted(element.items()))

    edit_footer(path, annotate)
    with conf(readers.spark, {"spark.sql.parquet.filterPushdown": "false"}):
        assert {tuple(row) for row in readers.oracle(path).where("c = 0").collect()} == {(Decimal("0.00"),)}
    wheres = [f"c {operator} {value}" for value in ("0.00", "700.00") for operator in ("=", ">=")]
    assert_same_rows(readers, path, wheres)
    assert bp.plan(path, "c = 5").kept == 2  # those whose min and max do not fit


STORED = ("ntz", "utc", "int96")
READ_AS = ("inferred", "ltz inferred", "TIMESTAMP", "TIMESTAMP_NTZ")
ZONES = ("America/Los_Angeles", "Asia/Kathmandu")
"""Each pair of types in one of these, each type in both. In UTC all offsets are 0: an error there is one here, too."""
TIMESTAMP_CASES = [
    (ZONES[(i + j) % 2], each, read_as) for i, each in enumerate(STORED) for j, read_as in enumerate(READ_AS)
]


@pytest.mark.parametrize(("zone", "stored", "read_as"), TIMESTAMP_CASES)
def test_timestamps_read_as_any_type_lose_no_row(
    readers: Readers, tmp_path: Path, zone: str, stored: str, read_as: str
) -> None:
    values = TIMESTAMPS[3:7] if stored == "int96" else TIMESTAMPS
    options = {"use_deprecated_int96_timestamps": True} if stored == "int96" else {}
    path = one_value_per_group(tmp_path, "t", values, pa.timestamp("us", "UTC" if stored == "utc" else None), **options)
    schema = f"t {read_as}" if read_as.startswith("TIMESTAMP") else None
    inferred = "false" if read_as == "ltz inferred" else "true"
    texts_of = [str(value) for value in values]
    wheres = [f"t {op} '{text}'" for text in texts_of[1:-1:3] for op in ("=", "<")]
    wheres += [f"t = TIMESTAMP_NTZ'{texts_of[-1]}'", f"t = TIMESTAMP_LTZ'{texts_of[0]}'", "t > '2026-01-01'"]
    wheres += ["CAST(t AS DATE) = DATE'2026-03-29'", f"t IN ('{texts_of[0]}', '{texts_of[-2]}')"]
    with conf(
        readers.spark, {"spark.sql.session.timeZone": zone, "spark.sql.parquet.inferTimestampNTZ.enabled": inferred}
    ):
        assert_same_rows(readers, path, wheres, schema)


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
def test_dates_of_the_julian_calendar_lose_no_row(readers: Readers, julian: Julian, mode: str) -> None:
    sql_type, paths = julian
    wheres = [f"d {op} CAST('{date}' AS {sql_type})" for date in JULIAN for op in ("=", "<=")]
    assert_same_rows(readers, paths, wheres[2:6] + wheres[-2:], datetimeRebaseMode=mode, int96RebaseMode=mode)


NAN, DATES = float("nan"), [dt.date(2026, 1, 1), dt.date(1, 1, 1)]
# the stored type and values, the type to read them as, and literals to compare them with
READ_AS_ANOTHER_TYPE: list[tuple[pa.DataType, list[Any], str | None, list[str]]] = [
    (pa.int32(), [1, 2, 300, -1, 2**31 - 1], "c BIGINT",
     ["1", "2147483647", "2147483648", "-1", "9223372036854775807"]),
    (pa.int32(), [1, 2, 300, -1], "c DOUBLE", ["1", "1.5D", "-1", "300", "0.99999999999999999"]),
    (pa.int32(), [1, 2, 257, -255], "c TINYINT", ["300", "2"]),
    (pa.int64(), [1, 2**53 + 1, 2**53], "c DOUBLE", ["1", "9007199254740992D"]),
    (pa.float32(), [0.1, 0.5, -0.0, NAN], "c DOUBLE", ["0.1D", "0.5D", "0.0D", "double('NaN')", "float('0.1')"]),
    (pa.float32(), [0.1, 0.5, -0.0, NAN, 0.0], None, ["0.1", "0.1D", "0.5", "0", "float('NaN')", "'0.1'"]),
    (pa.float64(), [0.1, -0.0, 0.0, NAN, float("inf")], None, ["0.1", "0", "-0.0D", "double('NaN')"]),
    (pa.decimal128(5, 2), [Decimal("1.10"), Decimal("-9.99")], "c DECIMAL(10,3)", ["1.1", "1.100", "1.101", "-9.99"]),
    (pa.uint32(), [1, 2**32 - 1, 2**31], None, ["4294967295", "-1", "2147483648", "99999999999"]),
    (pa.uint64(), [1, 2**64 - 1, 2**63], None, ["18446744073709551615", "-1", "9223372036854775808"]),
    (pa.date32(), DATES, "c TIMESTAMP_NTZ", ["TIMESTAMP_NTZ'2026-01-01 00:00:00'"]),
    (pa.date32(), DATES, None, ["'2026-01-01'", "DATE'+10000-01-01'", "DATE'0001-01-01'"]),
    (pa.binary(), [b"abc", b"\xff\xfe", b"\xef\xbf\xbd", b""], "c STRING",
     ["'abc'", "CAST(X'fffe' AS STRING)", "'\ufffd'", "''"]),
    (pa.binary(), [b"abc", b"\xff\xfe", b""], None, ["X'fffe'", "X''", "'abc'"]),
    (pa.string(), ["a", "A", "a ", "é", "e\u0301"], None, ["'a'", "'a '", "'é'", "'e\u0301'"]),
    (pa.string(), ["a", "A", "b"], "c STRING COLLATE UTF8_LCASE", ["'a'", "'A'", "'B'"]),
    (pa.string(), ["é", "e\u0301", "E"], "c STRING COLLATE UNICODE_CI", ["'é'", "'e'", "'E'"]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values", "schema", "literals"), READ_AS_ANOTHER_TYPE, ids=str)
def test_values_read_as_another_type_lose_no_row(
    readers: Readers, tmp_path: Path, kind: pa.DataType, values: list[Any], schema: str | None, literals: list[str]
) -> None:
    path = one_value_per_group(tmp_path, "c", values, kind)
    wheres = [f"c {op} {literal}" for literal in literals for op in ("=", "<")]
    wheres += [f"c IN ({', '.join(literals)})", f"NOT (c IN ({', '.join(literals)}) AND c IS NOT NULL)"]
    skipped = assert_same_rows(readers, path, wheres, schema)
    assert skipped > 0 or schema is not None


def test_binary_read_as_string_is_pruned(readers: Readers, tmp_path: Path) -> None:
    path = one_value_per_group(tmp_path, "c", [b"abc", b"\xff", b"b"], pa.binary())
    with conf(readers.spark, {"spark.sql.parquet.binaryAsString": "true"}):
        assert assert_same_rows(readers, path, ["c = 'abc'", "c = 'b'", "c LIKE 'ab%'", "c > 'b'"]) > 0


def test_null_structs_null_fields_and_names_with_dots_differ(readers: Readers, tmp_path: Path) -> None:
    inner = pa.struct([("y", pa.int64())])
    rows = [None, {"x": None, "in": None}, {"x": 1, "in": {"y": None}}, {"x": 2, "in": {"y": 3}}]
    structs = pa.array(rows, pa.struct([("x", pa.int64()), ("in", inner)]))
    table = pa.table({"st": structs, "k": [0, 1, 2, 3], "st.x": [2, None, 7, 1]})
    path = files.write(tmp_path / "t.parquet", table, ["st.x", "st.in.y"], rows_per_group=1)
    columns = ("st", "st.x", "st.in", "st.in.y", "`st.x`")
    wheres = [f"{column} IS {word}NULL" for column in columns for word in ("", "NOT ")]
    wheres += ["st.x <=> NULL", "st.in.y <=> 3", "NOT st.x <=> 1", "st.x = 1 OR st IS NULL", "st.x IN (1, NULL)"]
    wheres += ["NOT (st.x IS NULL AND st.in IS NOT NULL)", "st.x NOT IN (1)", "st.x <> 1", "isnull(st.in.y) AND k > 0"]
    wheres += ["`st.x` = 2", "st.x = 2", "`st.x` = 7", "st.x = 7"]
    assert assert_same_rows(readers, path, wheres) > 0


def test_dates_outside_of_pythons_range_lose_no_row(readers: Readers, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    sql = "SELECT * FROM VALUES (1, DATE'-0044-03-15'), (2, DATE'+12026-01-01'), (3, DATE'2026-01-01') AS t(id, d)"
    written = {"spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED"}
    with conf(readers.spark, written):
        readers.spark.sql(sql).selectExpr("*", "CAST(d AS TIMESTAMP) t").repartition(3).write.parquet(path)
    days = ["DATE'-0044-03-15'", "DATE'+12026-01-01'"]
    wheres = [f"{column} {op} {day}" for day in days for column in "dt" for op in ("=", "<")]
    wheres += [f"d IN ({', '.join(days)})", f"NOT d IN ({', '.join(days)})"]
    assert_same_rows(readers, path, wheres, select="id")
