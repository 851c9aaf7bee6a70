"""Columns of ORC files → Spark schemas; old calendars and the clocks of zones, without a Spark session."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import types as T  # noqa: N812 - the name that PySpark users give it

from bloomparquet.errors import OptionError, UnsupportedError
from bloomparquet.orc.schema import Kind, OrcType
from bloomparquet.orc.tail import Calendar
from pyspark_bloomorc import clock
from pyspark_bloomorc.calendar import GREGORIAN_BEGINS, to_gregorian, to_hybrid
from pyspark_bloomorc.moments import Reading
from pyspark_bloomorc.types import CATALYST, check_readable, file_schema

NEW_YORK = "America/New_York"


def leaf(kind: int, said: str | None = None, **more: Any) -> OrcType:
    return OrcType(kind, attributes={} if said is None else {CATALYST: said}, **more)


def one(found: OrcType, *within: OrcType) -> list[OrcType]:
    return [OrcType(Kind.STRUCT, (1,), ("c",)), found, *within]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (leaf(Kind.BYTE), "tinyint"),
        (leaf(Kind.LONG), "bigint"),
        (leaf(Kind.LONG, "timestamp_ntz"), "timestamp_ntz"),
        (leaf(Kind.LONG, "interval day to second"), "interval day to second"),
        (leaf(Kind.INT, "interval year to month"), "interval year to month"),
        (leaf(Kind.INT, "bigint"), "bigint"),
        (leaf(Kind.TIMESTAMP), "timestamp"),
        (leaf(Kind.TIMESTAMP_INSTANT), "timestamp"),
        (leaf(Kind.TIMESTAMP_INSTANT, "timestamp"), "timestamp"),
        (leaf(Kind.CHAR, maximum_length=5), "string"),
        (leaf(Kind.VARCHAR, maximum_length=5), "string"),
        (leaf(Kind.STRING, "varchar(7)"), "string"),
        (leaf(Kind.DECIMAL, precision=9, scale=2), "decimal(9,2)"),
        (leaf(Kind.DECIMAL), "decimal(38,10)"),
    ],
)
def test_a_column_has_the_type_that_spark_infers(found: OrcType, expected: str) -> None:
    assert file_schema(one(found)).fields[0].dataType.simpleString() == expected


def test_what_is_nested_is_nullable_and_lengths_of_text_are_metadata_of_the_whole_column() -> None:
    types = [
        OrcType(Kind.STRUCT, (1,), ("c",)),
        OrcType(Kind.MAP, (2, 3)),
        leaf(Kind.STRING),
        OrcType(Kind.LIST, (4,)),
        leaf(Kind.CHAR, maximum_length=5),
    ]
    (field,) = file_schema(types).fields
    assert field.dataType == T.MapType(T.StringType(), T.ArrayType(T.StringType(), True), True)
    assert field.metadata == {"__CHAR_VARCHAR_TYPE_STRING": "map<string,array<char(5)>>"}


@pytest.mark.parametrize(
    "found",
    [leaf(Kind.GEOMETRY), leaf(Kind.LONG, "no such type"), leaf(77), OrcType(Kind.UNION)],
    ids=["geometry", "unknown name", "unknown kind", "union"],
)
def test_what_spark_has_no_type_for_is_an_error_that_names_the_column(found: OrcType) -> None:
    with pytest.raises(UnsupportedError, match=r"column c is .*no type for; give a schema that leaves it out"):
        file_schema(one(found))


@pytest.mark.parametrize(
    ("found", "wanted", "exact"),
    [
        (leaf(Kind.INT), T.LongType(), True),
        (leaf(Kind.LONG), T.IntegerType(), False),  # ORC gives nulls for what does not fit
        (leaf(Kind.FLOAT), T.DoubleType(), True),
        (leaf(Kind.INT), T.DoubleType(), False),
        (leaf(Kind.INT), T.StringType(), False),
        (leaf(Kind.BINARY), T.StringType(), False),  # ORC gives hexadecimal digits
        (leaf(Kind.CHAR, maximum_length=3), T.StringType(), True),
        (leaf(Kind.STRING, "string"), T.VarcharType(3), True),
        (leaf(Kind.DECIMAL, precision=9, scale=2), T.DecimalType(11, 4), True),
        (leaf(Kind.DECIMAL, precision=9, scale=2), T.DecimalType(10, 4), False),
        (leaf(Kind.DECIMAL), T.DecimalType(38, 10), False),  # whose numbers have scales of their own
        (leaf(Kind.LONG, "timestamp_ntz"), T.TimestampNTZType(), True),
        (leaf(Kind.LONG, "timestamp_ntz"), T.TimestampType(), False),
        (leaf(Kind.LONG), T.TimestampNTZType(), False),
        (leaf(Kind.TIMESTAMP), T.TimestampNTZType(), False),
        (leaf(Kind.TIMESTAMP), T.DateType(), False),
        (leaf(Kind.BOOLEAN), T.IntegerType(), False),
    ],
)
def test_only_what_keeps_every_value_is_read_as_another_type(found: OrcType, wanted: T.DataType, exact: bool) -> None:
    schemas: Sequence[tuple[list[OrcType], T.DataType]] = [
        ([OrcType(Kind.STRUCT, (1,), ("c",)), found], T.StructType([T.StructField("C", wanted)])),
        ([OrcType(Kind.LIST, (1,)), found], T.ArrayType(wanted)),
        ([OrcType(Kind.MAP, (1, 2)), leaf(Kind.STRING), found], T.MapType(T.StringType(), wanted)),
    ]
    for types, whole in schemas:
        if exact:
            check_readable(types, 0, whole, "column x", case_sensitive=False)
        else:
            with pytest.raises(UnsupportedError, match=r"does not read as .*attach the jar"):
                check_readable(types, 0, whole, "column x", case_sensitive=False)


def test_days_keep_their_year_month_and_number_in_the_other_calendar() -> None:
    hybrid = np.array([-141427, -141428, -141437, -141438, -200000, -500000, -719162, -719164, -719166, 0, 2932896])
    # What spark.read.orc shows of these, written as they are.
    spark = [-141427, -141438, -141447, -141448, -200009, -500003, -719160, -719162, -719164, 0, 2932896]
    assert to_gregorian(hybrid).tolist() == spark
    days = np.arange(-719162 - 800, GREGORIAN_BEGINS + 800)
    there = to_hybrid(days)
    assert (np.diff(there) >= 0).all()
    left_out = (days >= GREGORIAN_BEGINS - 10) & (days < GREGORIAN_BEGINS)
    assert (to_gregorian(there) == np.where(left_out, GREGORIAN_BEGINS, days)).all()


def shown(column: pa.Array, kind: int, writer: str | None, reader: str | None, calendar: int = 0) -> list[Any]:
    reading = Reading(one(leaf(kind)), calendar, writer, reader)
    found: list[Any] = reading.shown(column, 1, "column c").to_pylist()
    return found


def readings(*texts: str | None) -> pa.Array:
    return pa.array([None if text is None else np.datetime64(text, "ns") for text in texts], pa.timestamp("ns"))


def utc(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.timezone.utc)


def test_a_clock_reading_is_the_moment_when_the_readers_clock_shows_it() -> None:
    column = readings("2026-07-01T12:00:00.123456789", None, "2026-01-01T12:00:00")
    july, january = utc("2026-07-01T16:00:00.123456"), utc("2026-01-01T17:00:00")
    for writer in ("GMT", "Etc/UTC"):
        assert shown(column, Kind.TIMESTAMP, writer, NEW_YORK) == [july, None, january]
    # Without its zone, a reading in summer is an hour off: it is counted from a winter's day.
    stored = readings("2026-07-01T11:00:00.123456789", None, "2026-01-01T12:00:00")
    assert shown(stored, Kind.TIMESTAMP, NEW_YORK, NEW_YORK) == [july, None, january]
    tokyo = [utc("2026-07-01T03:00:00.123456"), None, utc("2026-01-01T03:00:00")]
    for zone in ("Asia/Tokyo", "+09:00", "GMT+9"):
        assert shown(stored, Kind.TIMESTAMP, NEW_YORK, zone) == tokyo


def test_what_zones_and_calendars_make_of_old_times_is_an_error() -> None:
    old = readings("1899-12-31T00:00:00")
    for kind, writer, reader in (
        (Kind.TIMESTAMP, "UTC", NEW_YORK),
        (Kind.TIMESTAMP, NEW_YORK, "UTC"),
        (Kind.TIMESTAMP_INSTANT, None, NEW_YORK),
        (Kind.TIMESTAMP_INSTANT, None, None),
    ):
        with pytest.raises(UnsupportedError, match=r"column c has times from before 1900"):
            shown(old, kind, writer, reader)
    assert shown(old, Kind.TIMESTAMP, "GMT", "Etc/UTC") == [utc("1899-12-31T00:00:00")]
    with pytest.raises(UnsupportedError, match="days from 5 to 14 October 1582"):
        shown(pa.array([dt.date(1582, 10, 10)]), Kind.DATE, None, None, Calendar.PROLEPTIC_GREGORIAN)
    day = dt.date(1500, 3, 1)
    assert shown(pa.array([day, None]), Kind.DATE, None, None, Calendar.PROLEPTIC_GREGORIAN) == [day, None]
    assert shown(pa.array([day, None]), Kind.DATE, None, None) == [dt.date(1500, 2, 20), None]


def test_a_clock_whose_zone_is_not_known_is_asked_for_where_there_are_clock_readings() -> None:
    with pytest.raises(OptionError, match="give the option clockTimeZone"):
        shown(readings("2026-01-01"), Kind.TIMESTAMP, "UTC", None)
    assert shown(readings("2026-01-01"), Kind.TIMESTAMP_INSTANT, None, None) == [utc("2026-01-01")]


def test_nested_clock_readings_are_moved_and_nothing_else_is_changed() -> None:
    types = [
        OrcType(Kind.STRUCT, (1, 6), ("s", "n")),
        OrcType(Kind.STRUCT, (2,), ("l",)),
        OrcType(Kind.LIST, (3,)),
        OrcType(Kind.MAP, (4, 5)),
        leaf(Kind.STRING),
        leaf(Kind.TIMESTAMP),
        leaf(Kind.LONG),
    ]
    moment = dt.datetime(2026, 1, 1)
    values = [{"l": [{"a": moment}, None, {}]}, None, {"l": None}, {"l": [{"b": None}]}]
    inner = pa.list_(pa.map_(pa.string(), pa.timestamp("ns")))
    column = pa.array(values, pa.struct([("l", inner)]))
    reading = Reading(types, 0, "UTC", NEW_YORK)
    for at in range(len(values)):
        part = reading.shown(column.slice(at), 1, "column s").to_pylist()
        there = dt.datetime(2026, 1, 1, 5, tzinfo=dt.timezone.utc)
        moved = [{"l": [[("a", there)], None, []]}, None, {"l": None}, {"l": [[("b", None)]]}]
        assert part == moved[at:]


@pytest.mark.parametrize(
    ("arguments", "environment", "expected"),
    [
        (["java", "-Duser.timezone=Asia/Tokyo", "Main"], {"TZ": "UTC"}, "Asia/Tokyo"),
        (["java", "-Duser.timezone=Asia/Tokyo", "-Duser.timezone=UTC"], {}, "UTC"),
        (["java"], {"TZ": ":Asia/Tokyo"}, "Asia/Tokyo"),
        (["java"], {"TZ": "UTC", "JAVA_TOOL_OPTIONS": "-Xmx1g -Duser.timezone=Asia/Tokyo"}, "Asia/Tokyo"),
        (["java"], {"TZ": "XYZ3"}, None),
        (["java", "-Duser.timezone=PST8"], {}, None),
    ],
)
def test_the_zone_of_a_jvm_is_what_it_was_started_with(
    arguments: list[str], environment: dict[str, str], expected: str | None
) -> None:
    assert clock._zone_of(arguments, environment) == expected
    assert clock._zone_of(["java"], {}) == clock.machine_zone()
