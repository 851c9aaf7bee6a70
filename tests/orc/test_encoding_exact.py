"""Literals as ORC columns store them, type by type: what is hashed, and where a literal lies among bounds."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Collection
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from bloomparquet.errors import PlanError
from bloomparquet.orc.bloom_filter import hash_bytes, hash_doubles, hash_longs
from bloomparquet.orc.encoding import encode_point, encode_value, encode_values, is_lossless
from bloomparquet.orc.schema import Kind, OrcType
from bloomparquet.query.ordering import Encoded, Point

CATALYST = "spark.sql.catalyst.type"
INT, LONG, DATE, CHAR = OrcType(Kind.INT), OrcType(Kind.LONG), OrcType(Kind.DATE), OrcType(Kind.CHAR, maximum_length=3)
CLOCK, INSTANT = OrcType(Kind.TIMESTAMP), OrcType(Kind.TIMESTAMP_INSTANT)
NTZ = OrcType(Kind.LONG, attributes={CATALYST: "timestamp_ntz"})
DECIMAL = OrcType(Kind.DECIMAL, precision=9, scale=2)
WHOLE = OrcType(Kind.DECIMAL, precision=38, scale=0)
SECOND = dt.datetime(2024, 1, 1, 0, 0, 1)
MILLIS = 1_704_067_201_000  # since 1970 until SECOND
HOUR = 3_600_000
UTC, TOKYO = "UTC", "+09:00"


def encode(column: OrcType, values: list[Any], zone: str | None = UTC, writers: Collection[str | None] = (UTC,)) -> Any:
    return encode_values(column, values, timezone=zone, writer_timezones=writers, column="c")


def point(
    column: OrcType,
    value: Any,
    *,
    upwards: bool = True,
    zone: str | None = UTC,
    writers: Collection[str | None] = (UTC,),
) -> Point | None:
    return encode_point(column, value, timezone=zone, writer_timezones=writers, column="c", upwards=upwards)


def encode_one(column: OrcType, values: list[Any], zone: str = UTC, writer: str | None = UTC) -> Any:
    return encode_value(column, values[0], timezone=zone, writer_timezone=writer, column="c")


def longs(*numbers: int) -> list[int]:
    return hash_longs(np.array(numbers, np.int64)).tolist()


@pytest.mark.parametrize(
    ("column", "value", "hashes", "key"),
    [
        (OrcType(Kind.BYTE), -5, longs(-5), -5),
        (INT, 2**40, longs(2**40), 2**40),  # the reader truncates what is beyond the type
        (LONG, 5.0, longs(5), 5),
        (OrcType(Kind.DOUBLE), 0.1, hash_doubles(np.array([0.1])).tolist(), 0.1),
        (OrcType(Kind.FLOAT), 0.5, hash_doubles(np.array([0.5])).tolist(), 0.5),
        (OrcType(Kind.STRING), "\u00e9", hash_bytes([b"\xc3\xa9"]).tolist(), b"\xc3\xa9"),
        (OrcType(Kind.VARCHAR, maximum_length=2), "abc", hash_bytes([b"abc"]).tolist(), b"abc"),
        (CHAR, "a", hash_bytes([b"a  "]).tolist(), b"a"),
        (OrcType(Kind.BINARY), b"a\0", hash_bytes([b"a\0"]).tolist(), b"a\0"),
        (DECIMAL, Decimal("-1.50"), hash_bytes([b"-1.5"]).tolist(), -150),
        (DECIMAL, 2, hash_bytes([b"2"]).tolist(), 200),
        (DECIMAL, 0, hash_bytes([b"0"]).tolist(), 0),
        (WHOLE, 10**37 + 1, hash_bytes([str(10**37 + 1).encode()]).tolist(), 10**37 + 1),
        (DATE, dt.date(1582, 10, 26), longs(-141416), -141416),
        (NTZ, SECOND, longs(MILLIS * 1000), MILLIS * 1000),
    ],
)  # fmt: skip
def test_values_are_hashed_as_stored(column: OrcType, value: Any, hashes: list[int], key: Any) -> None:
    encoded = encode(column, [value])
    assert encoded.hashes.tolist() == hashes
    assert encoded.keys.tolist() == [key]
    assert encode_one(column, [value]).tolist() == hashes
    for upwards in (True, False):
        assert point(column, value, upwards=upwards) == Point(key)


def test_values_that_the_column_cannot_hold_have_no_hash() -> None:
    for column, value in (
        (LONG, 2**63), (LONG, 1.5), (OrcType(Kind.FLOAT), 0.1), (DECIMAL, Decimal("0.001")),
        (DATE, dt.date(9999, 12, 31)),
    ):  # fmt: skip
        encoded = encode(column, [value])
        assert len(encoded.keys) == len(encoded.hashes) == (column is DATE)
    assert encode(WHOLE, [10**38 - 1, 1 - 10**38]).keys.tolist() == [1 - 10**38, 10**38 - 1]
    assert encode(WHOLE, [10**38]) is None  # no DECIMAL has 39 digits


def test_booleans_have_keys_but_no_hashes() -> None:
    encoded = encode(OrcType(Kind.BOOLEAN), [True, False])
    assert (encoded.keys.tolist(), encoded.hashes) == ([0, 1], None)
    assert point(OrcType(Kind.BOOLEAN), True) == Point(1)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (OrcType(Kind.LIST), 1),
        (OrcType(99), 1),
        (OrcType(Kind.CHAR), "a"),
        (OrcType(Kind.CHAR, maximum_length=256), "a"),
        (OrcType(Kind.DECIMAL), Decimal(1)),
        (OrcType(Kind.DECIMAL, precision=18, scale=2), 0.5),  # compared as DOUBLE, which has 15 digits
        (OrcType(Kind.DOUBLE), math.nan),
        (DATE, dt.date(1582, 10, 25)),
        (OrcType(Kind.INT, attributes={CATALYST: "interval year"}), 1),
        (OrcType(Kind.STRING, attributes={CATALYST: "string collate UNICODE"}), "a"),
    ],
)
def test_unknown_values_give_no_evidence(column: OrcType, value: Any) -> None:
    assert encode(column, [value]) is None
    assert point(column, value) is None
    assert encode_one(column, [value]) is None


def test_zero_has_two_hashes_and_other_kinds_are_errors() -> None:
    assert encode(OrcType(Kind.DOUBLE), [0]).hashes.tolist() == hash_doubles(np.array([-0.0, 0.0])).tolist()
    for column in (INT, CLOCK, INSTANT, OrcType(Kind.BOOLEAN), DATE, DECIMAL):
        for convert in (encode, lambda column, values: point(column, values[0]), encode_one):
            with pytest.raises(PlanError, match="column 'c'"):
                convert(column, ["text"])
        with pytest.raises(PlanError, match="column 'c'"):
            encode(column, ["text"], zone=None)


def stamps(encoded: Encoded) -> list[tuple[int, int]]:
    """The pairs of clock reading in milliseconds, and hash."""
    assert all(key % 10**6 == 0 for key in encoded.keys)
    return sorted(zip((key // 10**6 for key in encoded.keys.tolist()), encoded.hashes.tolist(), strict=True))


def pairs(*millis: int) -> list[tuple[int, int]]:
    return sorted((each, longs(each)[0]) for each in millis)


@pytest.mark.parametrize(
    ("column", "value", "zone", "writers", "millis"),
    [
        (INSTANT, SECOND, TOKYO, [None], [MILLIS - 9 * HOUR]),
        (INSTANT, SECOND.replace(tzinfo=dt.timezone.utc), None, [None], [MILLIS]),
        (CLOCK, SECOND, UTC, [UTC], [MILLIS]),
        (CLOCK, SECOND, UTC, [], [MILLIS]),
        (CLOCK, SECOND, TOKYO, [TOKYO], [MILLIS]),
        (CLOCK, SECOND, TOKYO, [UTC], [MILLIS, MILLIS - 9 * HOUR]),
        (CLOCK, SECOND, UTC, [TOKYO, UTC], [MILLIS, MILLIS + 9 * HOUR]),
        (CLOCK, SECOND.replace(tzinfo=dt.timezone.utc), TOKYO, [TOKYO], [MILLIS + 9 * HOUR]),
        (CLOCK, SECOND, UTC, ["Etc/GMT-9"], [MILLIS, MILLIS + 9 * HOUR]),
        (CLOCK, SECOND, "GMT", ["UTC"], [MILLIS]),
        (
            CLOCK, SECOND, "Europe/Berlin", [UTC],
            [MILLIS + k * HOUR for k in (-2, -1, 0, 1)],
        ),  # an hour around both: clocks may know other rules
        (  # summer time
            CLOCK, dt.datetime(2024, 7, 1), UTC, ["Europe/Berlin"],
            [1_719_792_000_000 + k * HOUR for k in (-1, 0, 1, 2, 3)],
        ),
        (  # a day on which the clock goes back by half an hour
            CLOCK, dt.datetime(2024, 4, 7, 1), "Australia/Lord_Howe", [],
            [1_712_451_600_000 + k * HOUR // 2 for k in (-2, -1, 0, 1, 2)],
        ),
        (  # a reading that the clock skips
            CLOCK, dt.datetime(2024, 3, 31, 2, 30), "Europe/Berlin", [],
            [1_711_852_200_000 + k * HOUR for k in (-1, 0, 1, 2)],
        ),
        (CLOCK, dt.datetime(1960, 1, 1), UTC, [UTC], [-315_619_200_000]),
    ],
)  # fmt: skip
def test_timestamps_are_what_the_clocks_showed(
    column: OrcType, value: Any, zone: str | None, writers: list[str | None], millis: list[int]
) -> None:
    encoded = encode(column, [value], zone, writers)
    found = stamps(encoded)
    if zone is not None and len(writers) == 1:
        assert encode_one(column, [value], zone, writers[0]).tolist() == encoded.hashes.tolist()
    if value.year > 1970:
        assert found == pairs(*millis)
    else:  # and rounded in other ways
        assert set(found) >= set(pairs(*millis))
    keys = sorted({key for key, _ in found})
    assert point(column, value, zone=zone, writers=writers, upwards=True) == Point(keys[0] * 10**6)
    assert point(column, value, zone=zone, writers=writers, upwards=False) == Point(keys[-1] * 10**6)


def test_readers_with_microseconds_cut_off_the_rest() -> None:
    """The hash of the milliseconds, also if the nanoseconds that were cut off round a negative number otherwise."""
    reading = dt.datetime(1969, 6, 1, 0, 0, 0, 1000)
    encoded = encode(CLOCK, [reading])
    millis = -18_489_600_000 + 1
    assert set(encoded.hashes.tolist()) == set(longs(millis - 1, millis, millis + 1))
    later = encode(CLOCK, [SECOND.replace(microsecond=999_999)])
    assert later.hashes.tolist() == longs(MILLIS + 999)
    exact = encode(CLOCK, [np.datetime64("1969-06-01T00:00:00.000000001", "ns")])
    assert set(exact.hashes.tolist()) == set(longs(-18_489_600_000, -18_489_599_999))
    last = encode(CLOCK, [np.datetime64("2024-01-01T00:00:01.000999999", "ns")])
    assert last.hashes.tolist() == longs(MILLIS)
    epoch = encode(CLOCK, [dt.datetime(1970, 1, 1)])
    assert set(epoch.hashes.tolist()) == set(longs(-1000, 0))  # or the first second is the last one before 1970


@pytest.mark.parametrize(
    ("instant", "zone", "readings"),
    [
        # The clock goes forward by an hour at 01:00 UTC, and by half an hour a day after this reading.
        ("2024-03-31T00:59:59.9999999", "Europe/Berlin", [-1, 0, 1, 2]),
        ("2024-10-05T02:29:59.9999999", "Australia/Lord_Howe", [-1, 0, 1, 9.5, 10, 10.5, 11, 11.5]),
    ],
)
def test_a_clock_change_begins_at_its_second(instant: str, zone: str, readings: list[float]) -> None:
    time = np.datetime64(instant, "ns")
    encoded = encode(CLOCK, [time], UTC, [zone])
    shown = {(key - int(time.astype(np.int64))) / (HOUR * 10**6) for key in encoded.keys.tolist()}
    assert sorted(shown) == readings


def test_times_that_a_clock_skips_give_no_evidence() -> None:
    """Spark compares them with a TIMESTAMP as instants, and then two readings are one."""
    skipped = dt.datetime(2024, 3, 31, 2, 30)
    assert encode(NTZ, [skipped], UTC) is not None
    assert encode(NTZ, [skipped], "Europe/Berlin") is None
    assert point(NTZ, skipped, zone="Europe/Berlin") is None


@pytest.mark.parametrize(
    ("column", "value", "zone", "writers"),
    [
        (CLOCK, SECOND, None, [UTC]),
        (CLOCK, SECOND.replace(tzinfo=dt.timezone.utc), None, [UTC]),
        (INSTANT, SECOND, None, [UTC]),
        (CLOCK, SECOND, UTC, [None]),
        (CLOCK, SECOND, UTC, [UTC, None]),
        (CLOCK, SECOND, UTC, ["Mars/Phobos"]),
        (CLOCK, dt.datetime(1969, 12, 31), "Europe/Berlin", [UTC]),
        (CLOCK, dt.datetime(1970, 1, 1, 12), UTC, ["Europe/Berlin"]),
        (CLOCK, dt.datetime(1900, 1, 1), UTC, [UTC]),
        (INSTANT, dt.datetime(1900, 1, 1), UTC, [UTC]),
        (CLOCK, dt.datetime(9999, 12, 31, 23), "Europe/Berlin", [TOKYO]),
    ],
)
def test_unknown_clocks_give_no_evidence(
    column: OrcType, value: Any, zone: str | None, writers: list[str | None]
) -> None:
    assert encode(column, [SECOND.replace(tzinfo=dt.timezone.utc), value], zone, writers) is None
    assert point(column, value, zone=zone, writers=writers) is None


def test_the_oldest_timestamps_and_dates_are_known() -> None:
    for column in (CLOCK, INSTANT):
        assert encode(column, [dt.datetime(1900, 1, 2)]) is not None
        assert point(column, dt.datetime(1900, 1, 2)) is not None
    assert encode(CLOCK, [dt.datetime(1970, 1, 2)], UTC, ["Europe/Berlin"]) is not None
    assert encode(DATE, [dt.date(1582, 10, 26), dt.date(2000, 1, 1)]) is not None
    assert encode(DATE, [dt.date(1582, 10, 25), dt.date(2000, 1, 1)]) is None


def test_only_lossless_reader_types_are_trusted() -> None:
    types = [
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "string",
        "timestamp",
        "timestamp_ntz",
        "decimal(9,2)",
        "date",
        "no",
    ]
    kept = {
        each: [name for name in types if is_lossless(column, name)]
        for each, column in (
            ("byte", OrcType(Kind.BYTE)), ("short", OrcType(Kind.SHORT)), ("int", INT), ("long", LONG), ("ntz", NTZ),
            ("decimal", DECIMAL), ("char", CHAR), ("clock", CLOCK), ("instant", INSTANT), ("date", DATE),
            ("collated", OrcType(Kind.STRING, attributes={CATALYST: "string collate UNICODE"})),
            ("interval", OrcType(Kind.INT, attributes={CATALYST: "interval year"})), ("list", OrcType(Kind.LIST)),
        )
    }  # fmt: skip
    assert kept == {
        "byte": types[:4], "short": types[1:4], "int": types[2:4], "long": ["bigint"], "ntz": ["timestamp_ntz"],
        "decimal": ["decimal(9,2)"], "char": ["string"], "clock": ["timestamp"], "instant": ["timestamp"],
        "date": ["date"], "collated": [], "interval": [], "list": [],
    }  # fmt: skip
